// SPDX-License-Identifier: Apache-2.0

// Drills on virtual functions: the link goes down, a function is taken away, the device plugin is restarted, a pod that no NUMA node has
// room for, a pod with half a core, and what `kubectl spate doctor` prints of a machine with faults.

package suites

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
	"spate.dev/operator/test/drill"
)

// monitor is where QEMU of the emulated machine is controlled (e2e/sriov/settings.sh).
const monitor = "127.0.0.1:4444"

// setLink sets the link of a NIC of the emulated machine up or down, by the QEMU Machine Protocol.
func setLink(t *testing.T, nic string, up bool) {
	t.Helper()
	c, err := net.DialTimeout("tcp", monitor, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	answers := bufio.NewScanner(c)
	for _, command := range []string{`{"execute": "qmp_capabilities"}`, fmt.Sprintf(`{"execute": "set_link", "arguments": {"name": %q, "up": %t}}`, nic, up)} {
		if _, err := fmt.Fprintln(c, command); err != nil {
			t.Fatal(err)
		}
		for {
			if !answers.Scan() {
				t.Fatalf("QEMU closed the connection: %v", answers.Err())
			}
			var answer struct {
				Return json.RawMessage `json:"return"`
				Error  json.RawMessage `json:"error"`
			}
			if err := json.Unmarshal(answers.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			if answer.Error != nil {
				t.Fatalf("%s: %s", command, answer.Error)
			}
			if answer.Return != nil {
				break
			}
		}
	}
}

// vfReady creates the generator with two virtual functions and waits until it is ready.
func vfReady(t *testing.T) (ns string, g *spate.TrafficGenerator) {
	t.Helper()
	needsVFs(t)
	ns = namespace(t)
	mustApply(t, ns, virtualFunctions)
	g = generatorNamed(ns, "vf")
	condition(t, 5*time.Minute, g, spate.ConditionReady, metav1.ConditionTrue)
	return ns, g
}

// vfUnderWay starts a run of 500 packets a second from one virtual function to the other, and waits until packets are counted.
func vfUnderWay(t *testing.T, ns, duration string) *spate.TrafficProfile {
	t.Helper()
	packets, _, _ := strings.Cut(virtualTraffic, "---")
	mustApply(t, ns, strings.Replace(packets, "duration: 5s", "duration: "+duration, 1))
	p := profileNamed(ns, "packets")
	phase(t, time.Minute, p, spate.ProfileRunning)
	run := currentRun(t, p)
	until(t, 30*time.Second, "packets are counted", func(ctx context.Context) (bool, string) {
		err := get(ctx, run)
		return err == nil && run.Status.Result != nil && run.Status.Result.Tx > 0, fmt.Sprint(err)
	})
	return p
}

// machinePath is the PATH of the machine's own script (e2e/sriov/guest/node). Busybox is last: its ip does not support virtual functions.
const machinePath = "/usr/sbin:/usr/bin:/sbin:/bin:/run/busybox"

// onNode runs a script on the emulated machine, by the shell of nodeShell: with bash, since busybox's sh runs busybox's own ip.
func onNode(ctx context.Context, ns, shell, script string) error {
	if out, err := inPod(ctx, ns, shell, "nsenter", "-t", "1", "-m", "-n", "env", "PATH="+machinePath, "bash", "-c", script); err != nil {
		return fmt.Errorf("%s: %w: %s", script, err, out)
	}
	return nil
}

func TestSRIOVDrillLinkDown(t *testing.T) {
	drill.Long(t)
	ns, g := vfReady(t)
	d := drill.New(t, "link of a virtual function down for 5 s in mid-run", 4*time.Minute)
	p := vfUnderWay(t, ns, "25s")
	t.Cleanup(func() { setLink(t, "east", true) })
	d.Strike()
	setLink(t, "east", false)
	c := readyReason(t, 30*time.Second, g, spate.ReasonPortDown, "port east", "has no link")
	d.Detected(20 * time.Second)
	d.Reports("TrafficGenerator", &c)
	time.Sleep(5 * time.Second)
	setLink(t, "east", true)
	condition(t, 30*time.Second, g, spate.ConditionReady, metav1.ConditionTrue)
	run := complete(t, 2*time.Minute, p)
	valid := condition(t, 10*time.Second, p, spate.ConditionPassed, metav1.ConditionFalse)
	d.Reports("TrafficProfile", &valid)
	said := fmt.Sprintf("%+v", run.Status.Verdict)
	if !strings.Contains(said, spate.ReasonPortDown) || !strings.Contains(said, "east") {
		t.Errorf("the verdict does not name the port that had no link: %s", said)
	}
	if r := run.Status.Result; r.Rx == 0 || r.Lost == 0 {
		t.Errorf("%+v: want packets that arrived, and lost ones", r)
	}
	d.Kept("the result: %d packets sent, %d received", run.Status.Result.Tx, run.Status.Result.Rx)
	mustApply(t, ns, strings.Replace(strings.SplitN(virtualTraffic, "---", 2)[0], "  duration: 5s", "  duration: 5s\n  runID: again", 1))
	if run := complete(t, 2*time.Minute, p); run.Status.Verdict.Outcome != spate.VerdictPassed {
		t.Errorf("the next run: %+v", run.Status.Verdict)
	}
	d.Kept("the generator: the next run passed")
}

func TestSRIOVDrillDevicePluginRestarted(t *testing.T) {
	drill.Long(t)
	ns, g := vfReady(t)
	d := drill.New(t, "device plugin restarted in mid-run", 5*time.Minute)
	p := vfUnderWay(t, ns, "40s")
	d.Strike()
	restartDevicePlugin(t)
	run := complete(t, 2*time.Minute, p)
	condition(t, 10*time.Second, p, spate.ConditionPassed, metav1.ConditionTrue)
	exact(t, run, "imix", 20000)
	d.Kept("the whole result: %d of %d packets sent and received", run.Status.Result.Rx, run.Status.Result.Tx)
	// The new plugin's functions are those of the old one: a new pod gets them.
	first := g.Status.Pods[0].Name
	if err := kube.Delete(t.Context(), podNamed(ns, first)); err != nil {
		t.Fatal(err)
	}
	condition(t, 30*time.Second, g, spate.ConditionReady, metav1.ConditionFalse)
	condition(t, 3*time.Minute, g, spate.ConditionReady, metav1.ConditionTrue)
	d.Kept("the functions: a new pod got them from the new plugin")
}

func TestSRIOVDrillAPodThatNoNUMANodeHasRoomFor(t *testing.T) {
	needsVFs(t)
	ns := namespace(t)
	d := drill.New(t, "a pod needs 3 cores beside its virtual functions; their NUMA node has 2", 3*time.Minute)
	d.Strike()
	mustApply(t, ns, strings.Replace(virtualFunctions, "workers: 1", "workers: 2", 1))
	c := readyReason(t, 90*time.Second, generatorNamed(ns, "vf"), spate.ReasonAdmissionFailed, "TopologyAffinityError", "set spec.controlCPU to Shared")
	d.Detected(90 * time.Second)
	d.Reports("TrafficGenerator", &c)
}

// wholeCores takes two cores of the emulated machine, and no device.
const wholeCores = `
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: cores}
spec:
  pollMode: Adaptive
  workers: 2
  packetMemory: {backing: Standard, size: 64Mi}
  podTemplate:
    spec:
      nodeSelector: {kubernetes.io/hostname: sriov-node}
      tolerations: [{key: spate.dev/emulated, operator: Exists}]
  ports: [{name: loop, lineRate: 1Gbps, attachment: {loopback: {}}}]
`

func TestSRIOVDrillAPodWithHalfACore(t *testing.T) {
	needsVFs(t)
	drill.Long(t)
	ns := namespace(t)
	d := drill.New(t, "a pod needs 3 CPUs; its node gives whole cores of 2 threads to pods (`full-pcpus-only`)", 4*time.Minute)
	d.Strike()
	mustApply(t, ns, wholeCores)
	g := generatorNamed(ns, "cores")
	c := readyReason(t, 90*time.Second, g, spate.ReasonAdmissionFailed, "SMTAlignmentError", "requested 3 cpus", "set spec.threadsPerCore to 1 or 2")
	d.Detected(90 * time.Second)
	d.Reports("TrafficGenerator", &c)
	mustApply(t, ns, strings.Replace(wholeCores, "workers: 2", "workers: 2\n  threadsPerCore: 2", 1))
	condition(t, 3*time.Minute, g, spate.ConditionReady, metav1.ConditionTrue)
	d.Kept("the generator: it is ready with threadsPerCore: 2")
}

// The faults: a link is down, a kernel interface has a small MTU, a virtual function has fewer queues than the generator has workers, the
// node's clock source is not the CPU's counter (kernel argument clocksource), and its CPUs are not isolated.
func TestSRIOVDoctorFindsFaults(t *testing.T) {
	needsVFs(t)
	ns := namespace(t)
	faulty := strings.Replace(virtualFunctions, "workers: 1", "workers: 2\n  controlCPU: Shared", 1) + `
  - {name: bridged, attachment: {kernel: {network: small}}}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: small}
spec: {config: '{"cniVersion": "1.0.0", "name": "small", "type": "bridge", "bridge": "small0", "mtu": 1400}'}
`
	mustApply(t, ns, faulty)
	g := generatorNamed(ns, "vf")
	condition(t, 5*time.Minute, g, spate.ConditionReady, metav1.ConditionTrue)
	t.Cleanup(func() { setLink(t, "west", true) })
	setLink(t, "west", false)
	readyReason(t, 30*time.Second, g, spate.ReasonPortDown, "port west", "has no link")
	said := doctor(t, ns, "vf")
	for check, subject := range map[string]string{
		"LinkDown": "west", "MTUBelow1500": "bridged", "QueuesFewerThanWorkers": "east", "ClockSourceNotTSC": "node",
		"CPUNotIsolated": "CPUs",
	} {
		finding := func(line string) bool {
			after, is := strings.CutPrefix(line, check)
			return is && strings.HasPrefix(strings.TrimSpace(after), subject) && (strings.Contains(after, "  Warning  ") || strings.Contains(after, "  Error  "))
		}
		if !slices.ContainsFunc(strings.Split(said, "\n"), finding) {
			t.Errorf("%s of %s is no finding", check, subject)
		}
	}
}

// Remove the virtual functions of a NIC, and create them as the machine's own script does (e2e/sriov/guest/node).
const (
	removeEast = "echo 0 > /sys/class/net/east0/device/sriov_numvfs"
	createEast = "/run/node/functions east0 02:00:00:00:04:01 02:00:00:00:04:03"
)

func TestSRIOVDrillFunctionTakenAway(t *testing.T) {
	drill.Long(t)
	ns, g := vfReady(t)
	startNodeShell(t, ns)
	shell := nodeShell(t, ns)
	d := drill.New(t, "virtual functions of a NIC are removed in mid-run (`sriov_numvfs: 0`)", 8*time.Minute)
	p := vfUnderWay(t, ns, "40s")
	d.Strike()
	t.Cleanup(func() {
		if t.Failed() {
			_ = onNode(context.Background(), ns, shell, createEast)
		}
	})
	removed := make(chan error, 1)
	go func() { removed <- onNode(context.Background(), ns, shell, removeEast) }() // it returns when the engine has ended
	c := readyReason(t, 30*time.Second, g, spate.ReasonDeviceRequested, "port east", "0000:41:10.0", "spec.suspend")
	d.Detected(20 * time.Second)
	d.Reports("TrafficGenerator", &c)
	run := complete(t, 3*time.Minute, p)
	exact(t, run, "imix", 20000)
	d.Kept("the run: %d of %d packets sent and received; the node waits", run.Status.Result.Rx, run.Status.Result.Tx)
	if err := kube.Delete(t.Context(), podNamed(ns, g.Status.Pods[0].Name)); err != nil {
		t.Fatal(err)
	}
	if err := <-removed; err != nil {
		t.Error(err)
	}
	d.Kept("the node: it has its function back when the pod has ended")
	// The plugin that attached the function cannot detach one that is no longer there, so the pod does not end.
	c = readyReason(t, 90*time.Second, g, spate.ReasonAttachmentFailed, "cannot be deleted", "0000:41:10.0", "no such file or directory")
	d.Reports("TrafficGenerator", &c)
	if err := onNode(t.Context(), ns, shell, createEast); err != nil {
		t.Fatal(err)
	}
	restartDevicePlugin(t)
	condition(t, 3*time.Minute, g, spate.ConditionReady, metav1.ConditionTrue)
	d.Kept("the generator: it is ready again with the function that was re-created")
}

// restartDevicePlugin deletes the pod of the device plugin, and waits until another is ready.
func restartDevicePlugin(t *testing.T) {
	t.Helper()
	plugins := &corev1.PodList{}
	find := func(ctx context.Context) error {
		return kube.List(ctx, plugins, client.InNamespace("kube-system"), client.MatchingLabels{"name": "sriov-device-plugin"})
	}
	if err := find(t.Context()); err != nil || len(plugins.Items) != 1 {
		t.Fatalf("%d pods of the device plugin, %v", len(plugins.Items), err)
	}
	before := plugins.Items[0]
	if err := kube.Delete(t.Context(), &before, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	until(t, 90*time.Second, "another pod of the device plugin is ready", func(ctx context.Context) (bool, string) {
		err := find(ctx)
		return err == nil && len(plugins.Items) == 1 && plugins.Items[0].UID != before.UID && podReady(&plugins.Items[0]), fmt.Sprint(err, len(plugins.Items))
	})
}
