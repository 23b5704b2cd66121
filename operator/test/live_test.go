// SPDX-License-Identifier: Apache-2.0

package test

// People read packets and records of real engines while runs last: with the plugin, through the real API server's proxy, by rights of
// their own.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	spatev1 "spate.dev/api/v1alpha1"
)

var buildPlugin = sync.OnceValues(func() (string, error) {
	path := filepath.Join(cluster.dir, "kubectl-spate")
	out, err := exec.Command("go", "build", "-o", path, "../cmd/kubectl-spate").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the plugin: %w: %s", err, out)
	}
	return path, nil
})

// hostAddress is one of this machine's that an Endpoints object may have, which is not on the loopback interface.
func hostAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	must(t, err)
	for _, address := range all {
		if own, ok := address.(*net.IPNet); ok && own.IP.IsGlobalUnicast() && own.IP.To4() != nil {
			return own.IP.String()
		}
	}
	t.Skip("NO ADDRESS: the API server's proxy takes one that is not on the loopback interface")
	return ""
}

// reachable makes the operator that runs now the backend of its Service, as kubelet and endpoint controllers would.
func reachable(t *testing.T) {
	t.Helper()
	_, err := buildPlugin() // which may take longer than a run lasts
	must(t, err)
	address := hostAddress(t)
	_, text, err := net.SplitHostPort(cluster.operator.live)
	must(t, err)
	port, err := strconv.ParseInt(text, 10, 32)
	must(t, err)
	must(t, applyFile(t.Context(), "../../config/manager/service.yaml"))
	mustApply(t, "", fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: operator, namespace: %[1]s}
spec: {containers: [{name: operator, image: operator}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: spate-live, namespace: %[1]s}
subsets:
- addresses: [{ip: %[2]s, targetRef: {kind: Pod, namespace: %[1]s, name: operator}}]
  ports: [{name: live, port: %[3]d}]
`, operatorNamespace, address, port))
	must(t, setPod(t.Context(), cluster.kube, client.ObjectKey{Namespace: operatorNamespace, Name: "operator"}, func(s *corev1.PodStatus) {
		s.Phase, s.PodIP, s.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
	}))
}

// userOf gives the kubeconfig of a new user who has one role in a namespace, and no other right.
func userOf(t *testing.T, ns, role string) string {
	t.Helper()
	name := role + "-of-" + ns
	must(t, cluster.kube.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: name, APIGroup: rbacv1.GroupName}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}))
	return kubeconfigOf(t, name, "system:authenticated")
}

// kubeconfigOf gives the kubeconfig of a new user of a group.
func kubeconfigOf(t *testing.T, name, group string) string {
	t.Helper()
	user, err := cluster.env.AddUser(envtest.User{Name: name, Groups: []string{group}}, nil)
	must(t, err)
	config, err := user.KubeConfig()
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, config, 0o600))
	return path
}

// mayReadConfigMaps lets the user of a role read ConfigMaps, as Kubernetes' own roles view and edit do.
func mayReadConfigMaps(t *testing.T, ns, role string) {
	t.Helper()
	must(t, cluster.kube.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "configmaps"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}},
	}))
	must(t, cluster.kube.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "configmaps"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "configmaps"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: role + "-of-" + ns, APIGroup: rbacv1.GroupName}},
	}))
}

// plugin is `kubectl spate` by a user in a namespace.
func plugin(t *testing.T, ns, kubeconfig string, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := buildPlugin()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, binary, append(args, "-n", ns, "--kubeconfig", kubeconfig)...)
}

// spate runs it to its end.
func spate(t *testing.T, ns, kubeconfig string, args ...string) (output []byte, said string, err error) {
	t.Helper()
	command := plugin(t, ns, kubeconfig, args...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err = command.Run()
	return out.Bytes(), errs.String(), err
}

// captured is a packet of a file.
type captured struct {
	at              time.Time
	wire, direction int
	data            []byte
	interfaceName   string
	interfaceFilter string
}

func packetsOf(t *testing.T, from io.Reader) []captured {
	t.Helper()
	file, err := pcapgo.NewNgReader(from, pcapgo.DefaultNgReaderOptions)
	must(t, err)
	var all []captured
	for {
		data, info, options, err := file.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		port, err := file.Interface(info.InterfaceIndex)
		must(t, err)
		all = append(all, captured{at: info.Timestamp, wire: info.Length, data: data, direction: int(options.Flags.Direction), interfaceName: port.Name, interfaceFilter: port.Filter})
	}
}

// noneLeft fails unless the objects of readers go.
func noneLeft(t *testing.T, ns string) {
	t.Helper()
	for _, list := range []client.ObjectList{&spatev1.TrafficCaptureList{}, &spatev1.TrafficPingList{}, &spatev1.TrafficRecordsReaderList{}, &spatev1.TrafficStatsReaderList{}} {
		until(t, answerLimit, "no reader is left", func() (bool, string) {
			must(t, cluster.kube.List(t.Context(), list, client.InNamespace(ns)))
			text, _ := json.Marshal(list)
			return !bytes.Contains(text, []byte(`"uid"`)), string(text)
		})
	}
}

func TestPacketsOfARunAreCapturedByWhoMay(t *testing.T) {
	t.Parallel()
	reachable(t)
	ns, _ := running(t, "busy", "  duration: 60s\n")
	capturer, viewer := userOf(t, ns, "spate-capturer"), userOf(t, ns, "spate-viewer")

	_, said, err := spate(t, ns, viewer, "capture", "loop", "--port", "loop", "-w", "-")
	if err == nil || !strings.Contains(said, "trafficcaptures") || !strings.Contains(said, "forbidden") || !strings.Contains(said, "bind the ClusterRole spate-capturer in namespace "+ns) {
		t.Errorf("a viewer: %v, %s", err, said)
	}
	for argument, want := range map[string]string{
		"--port=other":      `--port "other" must be a port of TrafficGenerator loop: one of loop`,
		"--pod=loop-9":      `--pod "loop-9" must be a running pod of TrafficGenerator loop: one of loop-0`,
		"--filter=udp prot": `pod loop-0: --filter: from character 5 on`,
	} {
		file := filepath.Join(t.TempDir(), "refused.pcapng")
		if _, said, err := spate(t, ns, capturer, "capture", "loop", "--port=loop", argument, "-w", file); err == nil || !strings.Contains(said, want) {
			t.Errorf("%s: %v, %s", argument, err, said)
		}
	}
	if _, said, err := spate(t, ns, capturer, "capture", "none", "--port=loop", "-w", "-"); err == nil || !strings.Contains(said, `TrafficGenerator "none" does not exist in namespace `+ns) {
		t.Errorf("%v, %s", err, said)
	}

	t.Run("to a file, as asked", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "both.pcapng")
		_, said, err := spate(t, ns, capturer, "capture", "loop", "-p", "loop", "--filter", "udp dst port 2000", "--snaplen", "60", "--count", "500", "-w", path)
		if err != nil || !strings.HasPrefix(said, "capturing: loop-0/loop\n") || !strings.Contains(said, "loop-0/loop: captured 500 packets, 30000 bytes; missed 0 packets") {
			t.Fatalf("%v, %s", err, said)
		}
		file, err := os.Open(path)
		must(t, err)
		defer file.Close()
		packets := packetsOf(t, file)
		seen := map[int]int{}
		for _, p := range packets {
			seen[p.direction]++
			if p.wire != 124 || len(p.data) != 60 || p.data[36] != 2000>>8 || p.data[37] != 2000&255 || p.interfaceName != "loop-0/loop" || p.interfaceFilter != "udp dst port 2000" || time.Since(p.at).Abs() > time.Minute {
				t.Fatalf("%+v", p)
			}
		}
		if len(packets) != 500 || seen[1] < 200 || seen[2] < 200 || seen[1]+seen[2] != 500 {
			t.Errorf("%d packets, by direction %v", len(packets), seen)
		}
	})
	t.Run("in one direction, with a filter that takes none of the other", func(t *testing.T) {
		for direction, flag := range map[string]int{"rx": 1, "tx": 2} {
			out, said, err := spate(t, ns, capturer, "capture", "loop", "-p", "loop", "--direction", direction, "--count", "100", "-w", "-")
			if err != nil {
				t.Fatalf("%v, %s", err, said)
			}
			for _, p := range packetsOf(t, bytes.NewReader(out)) {
				if p.direction != flag {
					t.Fatalf("%s: %+v", direction, p)
				}
			}
		}
		out, said, err := spate(t, ns, capturer, "capture", "loop", "-p", "loop", "--filter", "tcp", "--duration", "1s", "-w", "-")
		if err != nil || len(packetsOf(t, bytes.NewReader(out))) != 0 || !strings.Contains(said, "captured 0 packets, 0 bytes; missed 0 packets") {
			t.Errorf("%v, %s", err, said)
		}
	})
	t.Run("until the reader has enough", func(t *testing.T) {
		command := plugin(t, ns, capturer, "capture", "loop", "-p", "loop", "-w", "-")
		output, err := command.StdoutPipe()
		must(t, err)
		must(t, command.Start())
		_, err = io.ReadFull(output, make([]byte, 4096)) // it comes while the capture lasts
		must(t, err)
		must(t, output.Close())
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
		noneLeft(t, ns)
	})
	t.Run("until it is interrupted", func(t *testing.T) {
		command := plugin(t, ns, capturer, "capture", "loop", "-p", "loop", "-w", filepath.Join(t.TempDir(), "file"))
		said := &tail{}
		command.Stderr = said
		must(t, command.Start())
		until(t, answerLimit, "a capture", func() (bool, string) {
			return strings.Contains(said.lines(10), "capturing: loop-0/loop"), said.lines(10)
		})
		must(t, command.Process.Signal(syscall.SIGINT))
		if err := command.Wait(); err != nil || !strings.Contains(said.lines(10), "captured ") {
			t.Errorf("%v, %s", err, said.lines(10))
		}
		noneLeft(t, ns)
	})
	t.Run("until it is deleted", func(t *testing.T) {
		command := plugin(t, ns, capturer, "capture", "loop", "-p", "loop", "-w", filepath.Join(t.TempDir(), "file"))
		var said bytes.Buffer
		command.Stderr = &said
		must(t, command.Start())
		until(t, answerLimit, "a capture that is read", func() (bool, string) {
			var list spatev1.TrafficCaptureList
			must(t, cluster.kube.List(t.Context(), &list, client.InNamespace(ns)))
			if len(list.Items) == 0 || list.Items[0].Status.LastReadTime == nil {
				return false, strconv.Itoa(len(list.Items))
			}
			return true, fmt.Sprint(cluster.kube.Delete(t.Context(), &list.Items[0]))
		})
		if err := command.Wait(); err == nil || !strings.Contains(said.String(), "the reader's object was deleted") {
			t.Errorf("%v, %s", err, said.String())
		}
	})
	t.Run("by no more readers than there is room for", func(t *testing.T) {
		var readers []*exec.Cmd
		for range 8 { // the engine's bound
			command := plugin(t, ns, capturer, "capture", "loop", "-p", "loop", "-w", "-")
			output, err := command.StdoutPipe()
			must(t, err)
			must(t, command.Start())
			_, err = io.ReadFull(output, make([]byte, 512))
			must(t, err)
			readers = append(readers, command)
		}
		if _, said, err := spate(t, ns, capturer, "capture", "loop", "-p", "loop", "-w", "-"); err == nil || !strings.Contains(said, "8 captures are active") {
			t.Errorf("%v, %s", err, said)
		}
		for _, command := range readers {
			must(t, command.Process.Kill())
			_ = command.Wait()
		}
		until(t, answerLimit, "the engine has room again", func() (bool, string) {
			_, said, err := spate(t, ns, capturer, "capture", "loop", "-p", "loop", "--count", "1", "-w", "-")
			return err == nil, said
		})
	})
}

func TestACaptureOutlivesItsOperator(t *testing.T) {
	reachable(t)
	ns, _ := running(t, "busy", "  duration: 5m\n")
	command := plugin(t, ns, userOf(t, ns, "spate-capturer"), "capture", "loop", "-p", "loop", "-w", "-")
	output, err := command.StdoutPipe()
	must(t, err)
	said := &tail{}
	command.Stderr = said
	must(t, command.Start())
	_, err = io.ReadFull(output, make([]byte, 4096))
	must(t, err)
	cluster.operator.kill()
	restartOperator(t)
	reachable(t)
	go func() { _, _ = io.Copy(io.Discard, output) }()
	until(t, 60*time.Second, "the capture goes on", func() (bool, string) {
		return strings.Contains(said.lines(10), "the operator is back"), said.lines(10)
	})
	must(t, command.Process.Signal(syscall.SIGINT))
	if err := command.Wait(); err != nil || strings.Contains(said.lines(10), "captured 0 packets") {
		t.Errorf("%v, %s", err, said.lines(10))
	}
}

func TestRecordsOfARunAreReadByWhoMay(t *testing.T) {
	t.Parallel()
	reachable(t)
	ns := ready(t, "")
	reader, capturer := userOf(t, ns, "spate-records-reader"), userOf(t, ns, "spate-capturer")
	mustApply(t, ns, loopbackTemplate)
	mustApply(t, ns, greetingProfile("late", "  duration: 12s\n  records: {}\n"))
	p := profileNamed(ns, "late")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	if _, said, err := spate(t, ns, capturer, "records", p.Status.CurrentRun.Name); err == nil || !strings.Contains(said, "forbidden") {
		t.Errorf("one who may capture: %v, %s", err, said)
	}
	out, said, err := spate(t, ns, reader, "records", "late")
	if err != nil {
		t.Fatalf("%v, %s", err, said)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	for _, line := range lines {
		var record struct {
			Pod, Run, Template, Side, Protocol string
			Reason                             string `json:"end_reason"`
			Local                              string `json:"local_address"`
			Start                              int64
		}
		must(t, json.Unmarshal(line, &record))
		if record.Pod != "loop-0" || record.Template != "greeting" && record.Template != "hello" || record.Protocol != "tcp" || !strings.HasPrefix(record.Local, "198.1") || record.Start == 0 {
			t.Fatalf("%s", line)
		}
	}
	if !strings.Contains(said, fmt.Sprintf("loop-0: %d records, 0 missed", len(lines))) {
		t.Error(said)
	}
	r := complete(t, runLimit, p)
	must(t, ended(r))
	if records := r.Status.Result.Records; records.Delivered != int64(len(lines)) || records.Delivered == 0 {
		t.Errorf("%d lines, %+v", len(lines), records)
	}
	noneLeft(t, ns)
	if _, said, err := spate(t, ns, reader, "records", "late"); err == nil || !strings.Contains(said, "has ended") {
		t.Errorf("after the end: %v, %s", err, said)
	}
}
