// SPDX-License-Identifier: Apache-2.0

package test

// A result that is larger than a status: the run completes, its status stays small, and nothing of the result is lost.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	mostEntries  = 512
	mostCounters = 256
	// mostStatus is what a run may take in the API server: etcd takes 1.5 MiB.
	mostStatus = 1 << 20
)

// countingTemplate counts in as many counters as a program may have, on both sides, each named as long as it may be.
func countingTemplate() string {
	count := func(side string) string {
		var all strings.Builder
		for i := range mostCounters {
			fmt.Fprintf(&all, "      - {count: {counter: %s%0*d}}\n", side, 63-len(side), i)
		}
		return all.String()
	}
	return `
apiVersion: spate.dev/v1alpha1
kind: ASTFTemplate
metadata: {name: counting}
spec:
  destinationPort: 53
  connectionRate: 1cps
  statisticsGroup: all
  pools:
    clients: [{name: clients, start: 198.18.0.1, end: 198.18.0.100}]
    servers: [{name: servers, start: 198.19.0.1, end: 198.19.0.10}]
  source:
    programs:
      transport: UDP
      client:
` + count("asked") + `      - {sendMessage: {text: hello}}
      server:
` + count("heard") + `      - {receiveMessages: {messages: 1}}
`
}

func countingProfile(name, spec string) string {
	var traffic strings.Builder
	for i := range mostEntries {
		fmt.Fprintf(&traffic, "  - {name: t%0*d, application: {templateRef: {name: counting}}, transmitPort: loop, receivePort: loop}\n", 62, i)
	}
	return `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: ` + name + `}
spec:
  generatorRef: {name: loop}
  drain: 1s
  generatorTolerance: {late: 100%, txDropped: 100%}
  traffic:
` + traffic.String() + spec
}

func TestDrillLargeResult(t *testing.T) {
	t.Parallel()
	d := newDrill(t, "a result of 512 templates with 256 counters on both sides", 8*time.Minute)
	ns := namespace(t)
	cluster.kubelet.leaveUnscraped(ns)
	mustApply(t, ns, strings.Replace(loopbackGenerator, "size: 64Mi", "size: 512Mi", 1)+"---"+countingTemplate())
	expect(t, readyLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	p := profileNamed(ns, "counting")
	mustApply(t, ns, countingProfile(p.Name, fmt.Sprintf("  duration: 3s\n  thresholds: [{name: last, expression: 'result.templates[\"t%0*d\"].client.attempted > 0'}]\n", 62, mostEntries-1)))
	start := time.Now()
	r := complete(t, 6*time.Minute, p)
	if r.Status.Verdict.Outcome != spatev1.VerdictPassed {
		t.Errorf("%+v", r.Status.Verdict)
	}
	if r.Status.Result == nil {
		t.Fatal("no result")
	}
	stored, err := json.Marshal(r) // with its managed fields, as the API server keeps it
	must(t, err)
	result := r.Status.Result
	details := result.Details
	if details == nil {
		t.Fatalf("no details beside %d templates in a run of %d KiB", len(result.Templates), len(stored)>>10)
	}
	t.Logf("%d templates of %d counters a side: the result has %d KiB in %d ConfigMaps, the run %d KiB with %s; %s from profile to verdict",
		mostEntries, mostCounters, details.Bytes>>10, len(details.Chunks), len(stored)>>10, details.Has(), time.Since(start).Round(time.Second))
	if len(stored) > mostStatus {
		t.Errorf("the run takes %d bytes", len(stored))
	}
	var kept corev1.ConfigMapList
	must(t, cluster.kube.List(t.Context(), &kept, client.InNamespace(ns), client.MatchingLabels{"spate.dev/run": r.Name}))
	chunks := 0
	for i := range kept.Items {
		if strings.Contains(kept.Items[i].Name, "-result-") && metav1.IsControlledBy(&kept.Items[i], r) {
			chunks++
		}
	}
	if chunks != len(details.Chunks) {
		t.Errorf("%d ConfigMaps of the run, %d chunks", chunks, len(details.Chunks))
	}
	whole, last := shownByPlugin(t, ns, r.Name), fmt.Sprintf("t%0*d", 62, mostEntries-1)
	if len(whole.Templates) != mostEntries || len(whole.Templates[last].Client.Counters) != mostCounters || len(whole.Templates[last].Server.Counters) != mostCounters || whole.Details != nil {
		t.Fatalf("%d templates in the whole result", len(whole.Templates))
	}
	d.ReportsText(fmt.Sprintf("status.result.details: %s", details.Has()))
	d.Kept("the whole result: %d KiB in %d ConfigMaps, beside a run of %d KiB; `kubectl spate result` shows all of it", details.Bytes>>10, len(details.Chunks), len(stored)>>10)
	sum := int64(0)
	for _, template := range whole.Templates {
		sum += template.Client.Attempted
	}
	if sum != result.Flows.Attempted || sum == 0 {
		t.Errorf("%d flows of all templates, %d in the status", sum, result.Flows.Attempted)
	}
}

// shownByPlugin is the result that `kubectl spate result` prints for programs.
func shownByPlugin(t *testing.T, ns, run string) *spatev1.RunResult {
	t.Helper()
	plugin := filepath.Join(cluster.dir, "kubectl-spate")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", plugin, "../cmd/kubectl-spate").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	config := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(config, cluster.kubeconfig, 0o600))
	var out, complaints bytes.Buffer
	show := exec.CommandContext(t.Context(), plugin, "result", run, "-n", ns, "-o", "json", "--kubeconfig", config)
	show.Stdout, show.Stderr = &out, &complaints
	if err := show.Run(); err != nil {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	var shown struct{ Result *spatev1.RunResult }
	must(t, json.Unmarshal(out.Bytes(), &shown))
	return shown.Result
}
