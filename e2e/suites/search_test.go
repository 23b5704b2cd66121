// SPDX-License-Identifier: Apache-2.0

// Does a TrafficSearch find what a router forwards that drops packets beyond a known rate, and does it count the same losses as the router?

package suites

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

// policed is the sample of a search, with one size and one goal for a router that polices: bounds are within a width, and trials are short.
func policed(t *testing.T, name, width, budget string) string {
	t.Helper()
	return sampleText(t, "trafficsearch.yaml",
		"name: router\n", "name: "+name+"\n",
		"  runPolicy: Manual  # the search creates its runs\n", "  runPolicy: Manual"+behind,
		"  frameSizes: [{size: 64}, {size: 1518}, {imix: Simple}]\n", "  frameSizes: [{size: 128}]\n  trial: {settle: 100ms, drain: 200ms, pause: 200ms}\n",
		"max: 100%/port", "max: 20kpps",
		"{name: ndr, standard: RFC2544}", "{name: ndr, lossRatio: 0%, finalTrialDuration: 2s, width: "+width+"}",
		"      - {name: pdr, lossRatio: 0.5%, exceedRatio: 50%, finalTrialDuration: 1s, durationSum: 21s, require: ['trial.outOfOrder == 0']}\n", "",
		"  frameLoss: {}\n", "", "budget: {time: 3h}", "budget: {time: "+budget+"}")
}

// trialsOf the one variant of a search.
func trialsOf(t *testing.T, ns, search string) []spate.TrialRecord {
	t.Helper()
	run := &spate.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: search + "-128"}}
	if err := get(t.Context(), run); err != nil || run.Status.Search == nil {
		return nil
	}
	return run.Status.Search.Trials
}

func TestASearchGoesOnWhenTheOperatorIsDeleted(t *testing.T) {
	ns := lab(t)
	router(t, "police", "5000", "250")
	t.Cleanup(func() { router(t, "forward") })
	search := func(name, manifest string, meanwhile func()) *spate.TrafficSearch {
		t.Helper()
		mustApply(t, ns, manifest)
		meanwhile()
		s := &spate.TrafficSearch{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		condition(t, 2*time.Minute, s, spate.ConditionComplete, metav1.ConditionTrue)
		return s
	}
	// The router forwards the greatest load, in the eight trials that are half of the sum: the loads are the same each time.
	steady := func(name string) string {
		return strings.NewReplacer("lossRatio: 0%, finalTrialDuration: 2s, width: 1%", "lossRatio: 10%, exceedRatio: 50%, finalTrialDuration: 1s, durationSum: 16s", "max: 20kpps", "max: 2kpps").
			Replace(policed(t, name, "1%", "2m"))
	}
	search("undisturbed", steady("undisturbed"), func() {})
	search("disturbed", steady("disturbed"), func() {
		until(t, time.Minute, "the fourth trial is under way", func(context.Context) (bool, string) {
			n := len(trialsOf(t, ns, "disturbed"))
			return n >= 3, strconv.Itoa(n)
		})
		kubectl(t, "delete", "pod", "-n", operatorNamespace, "-l", "app.kubernetes.io/name=spate-operator", "--wait=false")
	})
	want, got := trialsOf(t, ns, "undisturbed"), trialsOf(t, ns, "disturbed")
	if len(got) != len(want) || len(want) < 8 {
		t.Errorf("%d trials, %d without a deleted operator", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i].Number != int32(i+1) || got[i].Load != want[i].Load || got[i].Duration != want[i].Duration || got[i].Invalid != "" {
			t.Errorf("trial %d: %+v, without a deleted operator %+v", i+1, got[i], want[i])
		}
	}
	short := search("short", policed(t, "short", "0.1%", "7s"), func() {})
	if goal := short.Status.Variants[0].Result.Goals[0]; goal.Reason != "BudgetExhausted" || goal.Regular || goal.Upper == "" {
		t.Errorf("a search whose budget is at its end: %+v", goal)
	}
	junit, err := script("build/out/kubectl-spate", "search", "report", "short", "-n", ns, "-o", "junit")
	if err != nil || !strings.Contains(junit, "goal ndr: BudgetExhausted") || !strings.Contains(junit, `<testcase name="threshold `) {
		t.Errorf("%s %v", junit, err)
	}
}

// searchQueriesHaveData executes the queries of the dashboard about searches, and returns one without data.
func searchQueriesHaveData(ctx context.Context, t *testing.T, ns string) (all bool, without string) {
	t.Helper()
	queries := 0
	for _, expression := range dashboardQueries(t, filepath.Join(root, "dashboards/profile.json")) {
		if !strings.Contains(expression, "spate_search_") {
			continue
		}
		queries++
		if samples, err := query(ctx, strings.ReplaceAll(expression, "$namespace", ns)); err != nil || len(samples) == 0 {
			return false, fmt.Sprintf("%s: %v", expression, err)
		}
	}
	return queries >= 3, fmt.Sprintf("%d queries", queries)
}

// operatorMonitor is the PodMonitor of the chart, which was installed before Prometheus knew the kind.
const operatorMonitor = `
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: spate-operator}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: spate-operator}}
  podMetricsEndpoints: [{port: metrics}]
`

func TestASearchFindsTheRateOfAPolicer(t *testing.T) {
	needsRig(t, thePrometheus)
	if _, err := query(t.Context(), "up"); err != nil { // starts it
		t.Fatal(err)
	}
	mustApply(t, operatorNamespace, operatorMonitor)
	t.Cleanup(func() { kubectl(t, "delete", "podmonitor", "spate-operator", "-n", operatorNamespace) })
	ns := lab(t) // its pod makes Prometheus read its targets again
	// In a trial of d seconds it passes the rate and burst/d packets a second.
	const rate, burst, seconds = 5000, 250, 2
	router(t, "police", strconv.Itoa(rate), strconv.Itoa(burst))
	t.Cleanup(func() { router(t, "forward") })
	mustApply(t, ns, policed(t, "router", "1%", "2m"))
	search := &spate.TrafficSearch{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "router"}}
	until(t, time.Minute, "every query of the dashboard about searches has data", func(ctx context.Context) (bool, string) { return searchQueriesHaveData(ctx, t, ns) })
	condition(t, 2*time.Minute, search, spate.ConditionComplete, metav1.ConditionTrue)
	dropped := router(t, "dropped")
	text, err := script("build/out/kubectl-spate", "search", "report", "router", "-n", ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(text)
	run := &spate.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "router-128"}}
	if err := get(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	lost := int64(0)
	for _, trial := range run.Status.Search.Trials {
		lost += trial.Sent - trial.Received
		t.Logf("%s pps for %s: %d sent of %d, %d received", trial.Load, trial.Duration, trial.Sent, trial.Intended, trial.Received)
	}
	if strconv.FormatInt(lost, 10) != dropped || lost == 0 {
		t.Errorf("lost %d, the router dropped %s", lost, dropped)
	}
	goal := search.Status.Variants[0].Result.Goals[0]
	lower, _ := strconv.ParseFloat(goal.Lower, 64)
	upper, _ := strconv.ParseFloat(goal.Upper, 64)
	const passes = rate + float64(burst)/seconds
	// The links of the node have a CPU of their own no more than the engine: what is late arrives in bursts.
	if !goal.Regular || lower > passes*1.02 || upper < passes*0.97 || (upper-lower)/upper > 0.01 {
		t.Errorf("found %s to %s (%s), the router passes %v pps", goal.Lower, goal.Upper, goal.Reason, passes)
	}
	if !strings.Contains(text, "Throughput (RFC 2544 section 26.1, RFC 9971)") || !strings.Contains(text, "Deviates from RFC 2544") {
		t.Errorf("the report has no table of throughput, or no deviations:\n%s", text)
	}
	// It is deleted with its runs when its time has passed.
	if err := kube.Patch(t.Context(), search, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"ttlSecondsAfterFinished":0}}`))); err != nil {
		t.Fatal(err)
	}
	until(t, 30*time.Second, "the search and its run are gone", func(ctx context.Context) (bool, string) {
		err := errors.Join(client.IgnoreNotFound(get(ctx, search)), client.IgnoreNotFound(get(ctx, run)))
		return err == nil && get(ctx, search) != nil && get(ctx, run) != nil, fmt.Sprint(err)
	})
}
