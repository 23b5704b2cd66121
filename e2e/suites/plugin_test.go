// SPDX-License-Identifier: Apache-2.0

// Do the commands of the plugin that read runs say of real runs what they promise? Two engines execute them under a real kubelet, which has their
// logs and writes events of their pods.

package suites

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

// tappedProfile measures a stream, and counts the packets of another, which is not measured, as foreign traffic. An annotation looks like a credential.
const tappedProfile = `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: tapped, annotations: {example.com/api-token: e2e-of-an-annotation}}
spec:
  generatorRef: {name: loop}
  runPolicy: Manual
  duration: 14s
  generatorTolerance: {late: 100%, txDropped: 25%}
  receive: [{name: tap, port: loop}]
  traffic:
  - {name: small, transmitPort: loop, receivePort: loop, stream: {ref: {name: small}}}
  - name: plain
    transmitPort: loop
    stream:
      inline:
        packet:
          headers:
          - ethernet: {}
          - ipv4: {source: 198.18.0.2, destination: 198.19.0.2}
          - udp: {sourcePort: 1000, destinationPort: 2000}
          size: 128
        transmit: {continuous: {rate: 200pps}}
  thresholds: [{name: no-loss, expression: result.lost == 0}]
`

// asUser is a terminal of a user, in which `kubectl spate` is the plugin that was built.
func asUser(t *testing.T, kubeconfig string) *terminal {
	t.Helper()
	return &terminal{folder: t.TempDir(), env: []string{"KUBECONFIG=" + kubeconfig, "PATH=" + filepath.Join(root, "build/out") + ":" + os.Getenv("PATH")}}
}

// says executes a command, which must end with this exit code, and returns what it printed.
func (s *terminal) says(t *testing.T, code int, command string) string {
	t.Helper()
	said, got := s.types(t, command)
	if got != code {
		t.Errorf("%s: exits with %d, not %d:\n%s", command, got, code, said)
	}
	return said
}

// startedBy returns the one run of the output of `kubectl spate run -o json`.
func startedBy(t *testing.T, ns, output string) *spate.TrafficRun {
	t.Helper()
	var document struct{ Runs []struct{ Name string } }
	if err := json.Unmarshal([]byte(output), &document); err != nil || len(document.Runs) != 1 {
		t.Fatalf("%v: not one run:\n%s", err, output)
	}
	run := &spate.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: document.Runs[0].Name}}
	if err := get(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	return run
}

func TestThePluginReadsRunsOfTwoEngines(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	kubeconfig := userOf(t, ns, "view") // has spate-viewer by aggregation
	createUntilEnd(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, GenerateName: "e2e-view-"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "view"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	})
	editor, reader := asUser(t, userOf(t, ns, "spate-editor")), asUser(t, kubeconfig)
	mustApply(t, ns, loopbackGenerator+"  replicas: 2\n---"+loopbackStream+"---"+tappedProfile)
	condition(t, 60*time.Second, generatorNamed(ns, "loop"), spate.ConditionReady, metav1.ConditionTrue)
	pods := []string{"loop-0", "loop-1"}

	first := startedBy(t, ns, editor.says(t, 0, "kubectl spate run tapped -o json 2>/dev/null"))
	t.Run("receive", func(t *testing.T) {
		condition(t, 30*time.Second, first, spate.ConditionRunning, metav1.ConditionTrue)
		said := reader.says(t, 0, "kubectl spate receive tapped --once --interval 2s -o json 2>/dev/null")
		var seen []string
		for line := range strings.Lines(said) {
			var row struct {
				Pod, Port, Run, Receiver string
				Packets                  float64
				Rate                     float64 `json:"packetsPerSecond"`
			}
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if row.Receiver != "tap" {
				continue
			}
			if seen = append(seen, row.Pod); row.Port != "loop" || row.Run != first.Name || row.Packets < 50 || row.Rate < 20 || row.Rate > 500 {
				t.Errorf("half of 200 packets a second are foreign at port loop of each pod: %s", line)
			}
		}
		if slices.Sort(seen); !slices.Equal(seen, pods) {
			t.Errorf("receivers of pods %q:\n%s", seen, said)
		}
	})
	condition(t, 60*time.Second, first, spate.ConditionComplete, metav1.ConditionTrue)
	// Also for a report without samples it takes a whole run: at twice the rate.
	second := startedBy(t, ns, editor.says(t, 0, "kubectl spate run tapped --set rate=2x --set duration=10s --wait --timeout 1m -o json 2>/dev/null"))

	t.Run("report", func(t *testing.T) { reports(t, reader, first, pods) })
	t.Run("compare", func(t *testing.T) {
		said := reader.says(t, 0, "kubectl spate compare "+first.Name+" tapped --fail-on 'lost>0'") // the profile's latest run is the second
		for _, words := range []string{"First: run " + first.Name + " of profile tapped: Passed", "Second: run " + second.Name + " of profile tapped: Passed", "\nstreams.small.rxPps ", "lost>0 "} {
			if !strings.Contains(said, words) {
				t.Errorf("no %q", words)
			}
		}
		// Both have sent at a steady rate, the second at twice that of the first.
		said = reader.says(t, 0, "kubectl spate compare "+first.Name+" "+second.Name+" -o json 2>/dev/null")
		var compared struct {
			Test, NotTested string
			Differences     []struct {
				Metric     string
				Statistics *struct {
					P      float64
					Differ bool
					First  struct{ Intervals int }
				}
			}
		}
		if err := json.Unmarshal([]byte(said), &compared); err != nil || compared.Test == "" {
			t.Fatalf("%v: %q %s", err, compared.NotTested, said)
		}
		for _, d := range compared.Differences {
			if s := d.Statistics; d.Metric == "streams.small.txPps" && (s == nil || !s.Differ || s.First.Intervals < 6) || d.Metric == "streams.small.tx" && s != nil {
				t.Errorf("%+v of %s", s, d.Metric)
			}
		}
		if said := reader.says(t, 1, "kubectl spate compare "+first.Name+" "+second.Name+" --fail-on 'streams.small.txPps>50%'"); !strings.Contains(said, `--fail-on "streams.small.txPps>50%" holds: `) {
			t.Errorf("%s", said)
		}
	})
	t.Run("logs", func(t *testing.T) { logged(t, reader, first, pods) })
	t.Run("events", func(t *testing.T) {
		// Of the operator about the run, and of the kubelet about the pods that have executed it.
		said := reader.says(t, 0, "kubectl spate events run/"+first.Name+" -o json 2>/dev/null")
		var list corev1.EventList
		if err := json.Unmarshal([]byte(said), &list); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, e := range list.Items {
			seen[e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name+" "+e.Reason] = true
			if e.InvolvedObject.Kind == "TrafficRun" && e.InvolvedObject.Name != first.Name {
				t.Errorf("an event of run %s is shown", e.InvolvedObject.Name)
			}
		}
		for _, pod := range pods {
			if !seen["Pod/"+pod+" Started"] {
				t.Errorf("no event Started of the kubelet about pod %s: %v", pod, seen)
			}
		}
		if said := reader.says(t, 0, "kubectl spate events"); !strings.Contains(said, "TrafficGenerator/loop") || !strings.Contains(said, "TrafficProfile/tapped") && !strings.Contains(said, "TrafficRun/"+first.Name) {
			t.Errorf("%s", said)
		}
	})
	t.Run("export", func(t *testing.T) {
		said := reader.says(t, 0, "kubectl spate export "+first.Name)
		last := ""
		for line := range strings.Lines(said) {
			if strings.HasPrefix(line, "spate_run_tx_packets_total{") {
				last = line
			}
		}
		fields := strings.Fields(last)
		if len(fields) != 3 || !strings.Contains(last, `run="`+first.Name+`"`) || !strings.HasSuffix(said, "# EOF\n") {
			t.Fatalf("the last sample is %q of\n%s", last, said)
		}
		if value, err := strconv.ParseFloat(fields[1], 64); err != nil || int64(value) != first.Status.Result.Tx {
			t.Errorf("the last sample is %q, %v; the run has sent %d packets", last, err, first.Status.Result.Tx)
		}
		t.Run("to Prometheus", func(t *testing.T) {
			needsRig(t, thePrometheus)
			if said := reader.says(t, 0, "kubectl spate export "+first.Name+" --remote-write http://127.0.0.1:9090/api/v1/write"); !strings.Contains(said, " samples of run "+first.Name+" were accepted (") {
				t.Errorf("%s", said)
			}
			found, err := query(t.Context(), fmt.Sprintf("spate_run_tx_packets_total{profile_namespace=%q,run=%q}", ns, first.Name))
			if err != nil || len(found) != 1 || int64(found[0].value) != first.Status.Result.Tx {
				t.Errorf("%v %v, want %d", found, err, first.Status.Result.Tx)
			}
		})
	})
	t.Run("must-gather", func(t *testing.T) { gathered(t, reader, ns, kubeconfig, pods) })
}

// reports fails unless the reports of a run have its numbers, in each format.
func reports(t *testing.T, user *terminal, run *spate.TrafficRun, pods []string) {
	t.Helper()
	small := streamOf(t, run, "small")
	if said := user.says(t, 0, "kubectl spate report "+run.Name+" --output-file run.html"); said != "" {
		t.Errorf("%s", said)
	}
	page, err := os.ReadFile(filepath.Join(user.folder, "run.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range append([]string{"<!DOCTYPE html>", `<span class="outcome passed">Passed</span>`, "result.lost == 0 holds", "Packet rate", "<polyline"}, pods...) {
		if !strings.Contains(string(page), words) {
			t.Errorf("the page of %d bytes has no %q", len(page), words)
		}
	}
	if said := user.says(t, 0, "kubectl spate report "+run.Name+" -o md"); !strings.HasPrefix(said, "# Run "+run.Name+": Passed\n") || !strings.Contains(said, fmt.Sprintf("| small | %d | %d | 0 |", small.Tx, small.Rx)) {
		t.Errorf("%s", said)
	}
	passes(t, user.says(t, 0, "kubectl spate report "+run.Name+" -o junit"), "valid", "threshold no-loss")
	rows, err := csv.NewReader(strings.NewReader(user.says(t, 0, "kubectl spate report "+run.Name+" -o csv"))).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	tx, sampled, sent, at := slices.Index(rows[0], "tx"), 0, int64(0), int64(-1)
	for _, row := range rows {
		if row[0] != "sample" {
			continue
		}
		time, err := strconv.ParseInt(row[2], 10, 64)
		value, other := strconv.ParseInt(row[tx], 10, 64)
		if err := errors.Join(err, other); err != nil || time <= at || value < sent {
			t.Errorf("%d packets at %d ns, after %d at %d: %v", value, time, sent, at, err)
		}
		sampled, sent, at = sampled+1, value, time
	}
	// One a second, but for what the machine delays, and the last when the run has drained.
	if last := rows[len(rows)-1]; sampled < 6 || sent != run.Status.Result.Tx || last[0] != "total" || last[tx] != strconv.FormatInt(run.Status.Result.Tx, 10) {
		t.Errorf("%d samples, the last of %d packets, and %v; the run has sent %d", sampled, sent, last, run.Status.Result.Tx)
	}
}

// logLine is a line of `kubectl spate logs`.
var logLine = regexp.MustCompile(`^\[([a-z0-9-]+)\] (\S+) (.*)$`)

// logged fails unless the lines that the kubelet has of a run's engines, and only those of the time of the run, are printed in the order of their times.
func logged(t *testing.T, user *terminal, run *spate.TrafficRun, pods []string) {
	t.Helper()
	inOrder := func(said string, each func(pod string, at time.Time, text string)) {
		t.Helper()
		last := time.Time{}
		for line := range strings.Lines(said) {
			parts := logLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			if parts == nil {
				t.Errorf("no line of a log: %s", line)
				continue
			}
			at, err := time.Parse(time.RFC3339Nano, parts[2])
			if err != nil || at.Before(last) || !slices.Contains(pods, parts[1]) {
				t.Errorf("%v, after %s: %s", err, last, line)
			}
			last = at
			each(parts[1], at, parts[3])
		}
	}
	starts := map[string]int{}
	inOrder(user.says(t, 0, "kubectl spate logs "+run.Name), func(pod string, at time.Time, text string) {
		if strings.Contains(text, "run starts") {
			starts[pod]++
		}
		// The API server's and the node's clock are one in the project's own cluster.
		if from, until := run.CreationTimestamp.Time, run.Status.CompletionTime.Add(6*time.Second); !external && (at.Before(from) || at.After(until)) {
			t.Errorf("the run was from %s to %s: %s %s", from, until, at, text)
		}
	})
	for _, pod := range pods {
		if starts[pod] != 1 {
			t.Errorf("pod %s has logged %d starts of the run", pod, starts[pod])
		}
	}
	// A generator's are all: of both runs, and of the engines' own start, which is before them.
	starts = map[string]int{}
	opened := map[string]bool{}
	inOrder(user.says(t, 0, "kubectl spate logs generator/loop"), func(pod string, _ time.Time, text string) {
		switch {
		case strings.Contains(text, "run starts"):
			starts[pod]++
		case strings.Contains(text, "port open") && starts[pod] == 0:
			opened[pod] = true
		}
	})
	for _, pod := range pods {
		if starts[pod] != 2 || !opened[pod] {
			t.Errorf("pod %s has logged %d starts of runs; an open port before them: %t", pod, starts[pod], opened[pod])
		}
	}
	if said := user.says(t, 0, "kubectl spate logs loop --tail 1"); strings.Count(said, "\n") != len(pods) {
		t.Errorf("the last line of each pod: %s", said)
	}
	if said := user.says(t, 0, "kubectl spate logs "+run.Name+" --operator 2>&1 >/dev/null"); said != "" {
		t.Errorf("a user who may read the operator's log gets a message: %s", said)
	}
}

// gathered fails unless an archive has the objects, the logs and the events of a namespace and of the operator, and nothing that is secret there.
func gathered(t *testing.T, user *terminal, ns, kubeconfig string, pods []string) {
	t.Helper()
	const word = "e2e-of-a-secret-Hk3vQ"
	own := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "own"}, StringData: map[string]string{"password": word}}
	if err := kube.Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	said := user.says(t, 0, "kubectl spate must-gather -w all.tar.gz")
	t.Log(said)
	files := filesOf(t, filepath.Join(user.folder, "all.tar.gz"))
	in := "namespaces/" + ns + "/"
	want := map[string]string{
		in + "trafficgenerators/loop.yaml": "kind: TrafficGenerator", in + "trafficprofiles/tapped.yaml": "example.com/api-token: REDACTED", in + "statelessstreams/small.yaml": "size: 128",
		in + "events.yaml": "reason: Started", in + "doctor/loop.txt": "Generator loop: MachineReady=",
		"versions.txt": "engines of generator " + ns + "/loop: ", "README.md": "trafficprofiles/tapped.yaml: metadata.annotations.example.com/api-token",
		"errors.txt": "nodes/", // which the ClusterRole view may not read
	}
	for _, pod := range pods {
		want[in+"pods/"+pod+".yaml"], want[in+"pods/"+pod+".log"] = "value: REDACTED", "run starts"
	}
	for name, words := range want {
		if !strings.Contains(files[name], words) {
			t.Errorf("%s: no %q in\n%s", name, words, files[name])
		}
	}
	if missing := files["errors.txt"]; strings.Count(missing, "\n") != strings.Count(missing, "nodes/") {
		t.Errorf("more could not be read than nodes:\n%s", missing)
	}
	ofOperator := 0
	for name, text := range files {
		if strings.HasPrefix(name, "operator/pods/") && strings.HasSuffix(name, ".log") && text != "" {
			ofOperator++
		}
	}
	if ofOperator == 0 {
		t.Error("there is no log of the operator")
	}
	for of, secret := range secretsOf(t, kubeconfig, ns, operatorNamespace) {
		for name, text := range files {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %s", name, of)
			}
		}
	}
}

// secretsOf returns what an archive must not have, by what it is: the values of all Secrets of namespaces, as they are and as objects have them, but for
// certificates, which everybody may see; and the token of a user.
func secretsOf(t *testing.T, kubeconfig string, namespaces ...string) map[string]string {
	t.Helper()
	all := map[string]string{"the password of the annotation": "e2e-of-an-annotation"}
	for _, namespace := range namespaces {
		var list corev1.SecretList
		if err := kube.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		for _, secret := range list.Items {
			for key, value := range secret.Data {
				if len(value) < 16 || bytes.HasPrefix(bytes.TrimSpace(value), []byte("-----BEGIN CERTIFICATE-----")) {
					continue
				}
				of := fmt.Sprintf("%s of Secret %s/%s", key, namespace, secret.Name)
				all[of], all[of+" in base64"] = string(value), base64.StdEncoding.EncodeToString(value)
			}
		}
	}
	if all["password of Secret "+namespaces[0]+"/own"] == "" || len(all) < 5 {
		t.Errorf("of %d values none is compared with", len(all))
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for name, user := range config.AuthInfos {
		all["the token of user "+name] = user.Token
	}
	return all
}

// filesOf returns the texts of an archive by their names within its folder.
func filesOf(t *testing.T, archive string) map[string]string {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for all := tar.NewReader(unpacked); ; {
		header, err := all.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(all)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(path.Clean(header.Name), "/")
		files[name] = string(text)
	}
}
