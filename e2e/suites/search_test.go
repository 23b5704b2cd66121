// SPDX-License-Identifier: Apache-2.0

// Does a TrafficSearch find what a router forwards that drops packets beyond a known rate, and does it count the same losses as the router?

package suites

import (
	"context"
	"errors"
	"fmt"
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

func TestASearchFindsTheRateOfAPolicer(t *testing.T) {
	needsRig(t, thePrometheus)
	ns := lab(t)
	// In a trial of d seconds it passes the rate and burst/d packets a second.
	const rate, burst, seconds = 5000, 250, 2
	router(t, "police", strconv.Itoa(rate), strconv.Itoa(burst))
	t.Cleanup(func() { router(t, "forward") })
	mustApply(t, ns, policed(t, "router", "1%", "2m"))
	search := &spate.TrafficSearch{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "router"}}
	until(t, time.Minute, "every query of the dashboards about searches has data", func(ctx context.Context) (bool, string) { return searchQueriesHaveData(ctx, t, ns) })
	condition(t, 2*time.Minute, search, spate.ConditionComplete, metav1.ConditionTrue)
	recordAnswers(t, ofSearches, ns, "", search.CreationTimestamp.Time, time.Now())
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
	// The search is deleted with its runs when its time has passed.
	if err := kube.Patch(t.Context(), search, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"ttlSecondsAfterFinished":0}}`))); err != nil {
		t.Fatal(err)
	}
	until(t, 30*time.Second, "the search and its run are gone", func(ctx context.Context) (bool, string) {
		err := errors.Join(client.IgnoreNotFound(get(ctx, search)), client.IgnoreNotFound(get(ctx, run)))
		return err == nil && get(ctx, search) != nil && get(ctx, run) != nil, fmt.Sprint(err)
	})
}

// quick makes the trials of a policed search short, and its goal wide.
func quick(manifest string) string {
	return strings.NewReplacer("settle: 100ms, drain: 200ms, pause: 200ms", "settle: 0s, drain: 100ms, pause: 100ms",
		"finalTrialDuration: 2s", "initialTrialDuration: 300ms, finalTrialDuration: 300ms").Replace(manifest)
}

func TestASearchIsRepeatedComparedResetAndStopped(t *testing.T) {
	ns := lab(t)
	const rate, burst, seconds = 5000, 250, 0.3
	router(t, "police", strconv.Itoa(rate), strconv.Itoa(burst))
	t.Cleanup(func() { router(t, "forward") })
	plugin := func(args ...string) string {
		t.Helper()
		out, err := script("build/out/kubectl-spate", append([]string{"search"}, append(args, "-n", ns)...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	ended := func(name string, limit time.Duration) *spate.TrafficSearch {
		t.Helper()
		search := &spate.TrafficSearch{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		condition(t, limit, search, spate.ConditionComplete, metav1.ConditionTrue)
		return search
	}
	// The bounds of a goal are as close as its width, and those of what was to be found. A trial sends a little less if the CPU is taken away.
	found := func(goal spate.GoalResult, want float64) {
		t.Helper()
		lower, upper := number(goal.Lower), number(goal.Upper)
		if !goal.Regular || !(lower <= want*1.05) || !(upper >= want*0.95) || !((upper-lower)/upper <= 0.1+1e-9) {
			t.Errorf("%+v, want bounds of %v within 10 %%", goal, want)
		}
	}

	// A trial at 3000 pps sends 900 packets, and loses none.
	const fewGoal = "      - {name: few, lossRatio: 0%, initialTrialDuration: 300ms, finalTrialDuration: 300ms, width: 10%, require: ['trial.tx < 900']}\n"
	t.Run("repeats and a requirement", func(t *testing.T) {
		mustApply(t, ns, strings.NewReplacer("  budget:", fewGoal+"  repeats: 2\n  budget:").
			Replace(quick(policed(t, "twice", "10%", "1m"))))
		search := ended("twice", time.Minute)
		v := search.Status.Variants[0]
		if len(v.Result.Goals) != 2 || len(v.Repeats) != 2 || v.Repeats[0].Run != "twice-128-1" || v.Repeats[1].Run != "twice-128-2" || len(v.Spread) != 2 || v.Spread[0].Count != 2 || v.Spread[0].MedianLow != "" {
			t.Fatalf("%+v", v)
		}
		ndr, few := v.Result.Goals[0], v.Result.Goals[1]
		found(ndr, rate+burst/seconds)
		found(few, 900/seconds)
		if ndr.BoundedBy != "" || few.BoundedBy != "trial.tx < 900" {
			t.Errorf("bounded by %q and %q, want only the second by its requirement", ndr.BoundedBy, few.BoundedBy)
		}
		for i, repeat := range v.Repeats {
			run := &spate.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: repeat.Run}}
			if err := get(t.Context(), run); err != nil {
				t.Fatal(err)
			}
			for _, trial := range run.Status.Search.Trials {
				unmet := len(trial.Unmet) > 0
				if unmet != (trial.Intended >= 900) || unmet && (len(trial.Unmet) != 1 || trial.Unmet[0].Goal != "few" || trial.Unmet[0].Index != 0 || !strings.Contains(trial.UnmetValues, fmt.Sprint("trial.tx is ", trial.Intended))) {
					t.Errorf("trial %d of repeat %d: %d packets, %+v, %q", trial.Number, i+1, trial.Intended, trial.Unmet, trial.UnmetValues)
				}
			}
		}
		report := plugin("report", "twice")
		for _, words := range []string{"few   2  ", "Found (by a requirement)", "128: goal few is bounded by a requirement, not by loss: trial.tx < 900", "Goal few requires of each trial: trial.tx < 900."} {
			if !strings.Contains(report, words) {
				t.Errorf("no %q in the report:\n%s", words, report)
			}
		}
	})
	t.Run("compared with another search", func(t *testing.T) {
		mustApply(t, ns, quick(policed(t, "once", "10%", "1m")))
		found(ended("once", time.Minute).Status.Variants[0].Result.Goals[0], rate+burst/seconds)
		comparison := plugin("compare", "twice", "once")
		if !strings.HasPrefix(comparison, "Lower bounds of twice and once: Mann-Whitney U, two-sided\n") || !strings.Contains(comparison, "  2, 1 ") || !strings.Contains(comparison, "needs 4 repeats of each") {
			t.Errorf("%s", comparison)
		}
	})
	t.Run("reset of the router", func(t *testing.T) {
		mustApply(t, ns, strings.NewReplacer("  budget:", fewGoal+"  reset: {of: few, duration: 3s}\n  budget:").
			Replace(quick(policed(t, "reset", "10%", "1m"))))
		run := &spate.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reset-128"}}
		until(t, time.Minute, "the run asks for the reset", func(ctx context.Context) (bool, string) {
			if err := get(ctx, run); err != nil || run.Status.Search == nil || run.Status.Search.Current == nil {
				return false, fmt.Sprint(err)
			}
			current := run.Status.Search.Current
			return current.ResetDevice, fmt.Sprintf("%+v", current)
		})
		if events := kubectl(t, "get", "events", "-n", ns, "--field-selector", "reason=ResetDevice"); !strings.Contains(events, "reset the device now") {
			t.Errorf("no event says that the router is to be reset: %s", events)
		}
		const lasts = 400 * time.Millisecond
		begin := time.Now()
		router(t, "blackout", strconv.Itoa(int(lasts.Milliseconds())))
		starting := time.Since(begin)
		search := ended("reset", time.Minute)
		found := search.Status.Variants[0]
		reset := found.Result.Reset
		if reset == nil || reset.Reason != "Found" || found.Outcome != spate.VerdictPassed {
			t.Fatalf("%s: %+v", found.Outcome, reset)
		}
		// The kernel's timers expire up to a jiffy later, and packets may wait for the engine.
		least, most := lasts-starting-jiffy, lasts+100*time.Millisecond
		for what, measured := range map[string]spate.MeasuredTime{"by time stamps": reset.Mean, "greatest": reset.Greatest, "by loss": reset.ByLoss} {
			if time.Duration(measured) < least || time.Duration(measured) > most {
				t.Errorf("%s: %s, the router was dark for %s and at most %s less", what, measured, lasts, starting)
			}
		}
		if report := plugin("report", "reset"); !strings.Contains(report, "Reset of the device (RFC 2544 section 26.6, RFC 6201)") {
			t.Errorf("no reset in the report:\n%s", report)
		}
	})
	t.Run("stopped within a trial", func(t *testing.T) {
		mustApply(t, ns, strings.NewReplacer("  budget:", "  latency: {of: ndr, duration: 5m, repeats: 1}\n  budget:", "measure: {flow: true}", "measure: {flow: true, latency: true}").
			Replace(strings.ReplaceAll(quick(policed(t, "endless", "10%", "10m")), "name: forwarding", "name: delayed")))
		run := &spate.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "endless-128"}}
		until(t, time.Minute, "the trial of latency is under way", func(ctx context.Context) (bool, string) {
			if err := get(ctx, run); err != nil || run.Status.Search == nil || run.Status.Search.Current == nil {
				return false, fmt.Sprint(err)
			}
			current := run.Status.Search.Current
			return current.Test == spate.TestLatency && time.Since(current.StartTime.Time) > time.Second, fmt.Sprintf("%+v", current)
		})
		search := &spate.TrafficSearch{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "endless"}}
		arrived := arrivals(t, "dut-east", "udp dst port 7")
		at := time.Now()
		if err := kube.Patch(t.Context(), search, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"stop":true}}`))); err != nil {
			t.Fatal(err)
		}
		search = ended("endless", 10*time.Second)
		time.Sleep(time.Second) // what is sent after the end is captured, too
		stoppedAfter(t, "spec.stop", at, arrived())
		expect(t, condition(t, time.Second, search, spate.ConditionComplete, metav1.ConditionTrue), spate.ReasonStopped)
		v := search.Status.Variants[0]
		expect(t, condition(t, time.Second, search, spate.ConditionPassed, metav1.ConditionUnknown), spate.ReasonIncomplete, fmt.Sprintf("128: stopped after %d trials: spec.stop is true", v.Trials))
		if len(v.Result.Goals) != 1 || v.Result.Latency != nil || v.Trials < 3 {
			t.Fatalf("%+v, want bounds, and no latency", v)
		}
		found(v.Result.Goals[0], rate+burst/seconds)
	})
}

func TestASearchMeasuresTheRecoveryFromAnOverload(t *testing.T) {
	needsTime(t)
	ns := lab(t)
	// The router sends at a rate, and holds packets of a tenth of a second.
	const rate, held, burst, seconds = 2000, 200, 20, 1
	router(t, "queue", strconv.Itoa(rate), "128", strconv.Itoa(held))
	t.Cleanup(func() { router(t, "forward") })
	mustApply(t, ns, strings.NewReplacer("settle: 100ms, drain: 200ms, pause: 200ms", "settle: 0s, drain: 400ms, pause: 200ms", "finalTrialDuration: 2s", "initialTrialDuration: 1s, finalTrialDuration: 1s",
		"  budget:", "  recovery: {overload: 110%, duration: 2s, after: 500ms, repeats: 5}\n  budget:").Replace(policed(t, "recovering", "2%", "3m")))
	search := &spate.TrafficSearch{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "recovering"}}
	condition(t, 3*time.Minute, search, spate.ConditionComplete, metav1.ConditionTrue)
	report, err := script("build/out/kubectl-spate", "search", "report", "recovering", "-n", ns)
	if err != nil || !strings.Contains(report, "Recovery from an overload (RFC 2544 section 26.5)") {
		t.Errorf("%v\n%s", err, report)
	}
	t.Log("\n" + report)
	result := search.Status.Variants[0].Result
	lower, upper := number(result.Goals[0].Lower), number(result.Goals[0].Upper)
	// A trial passes what is sent within it, what is held at its end, and what the queue sends at once at its beginning.
	const passes = rate + (held+burst)/seconds
	if lower > passes*1.02 || upper < passes*0.97 {
		t.Errorf("%v to %v, the router passes %d pps", lower, upper, passes)
	}
	if result.Recovery == nil {
		t.Fatalf("no recovery: %+v", result)
	}
	overload := number(result.Recovery.Load)
	if !near(overload, lower*1.1, 1e-6) {
		t.Errorf("an overload of %v pps is not 110 %% of %v", overload, lower)
	}
	// The queue is full during the overload, and drops a packet each 1 / (overload - rate). The packet behind the last one dropped leaves after all
	// that are held, and shows the loss on arrival. It comes a gap of half the overload later at most.
	drains, drops, gap := float64(held)/rate, 1/(overload-rate), 2/overload
	for what, r := range map[string]spate.MeasuredTime{"mean": result.Recovery.Mean, "greatest": result.Recovery.Greatest} {
		// The machine may take the CPU away for 10 ms as the packet arrives.
		if s := time.Duration(r).Seconds(); s < drains-drops-0.002 || s > drains+gap+0.010 {
			t.Errorf("%s of the recovery: %s, want %.1f ms - %.1f ms + %.1f ms", what, r, drains*1000, drops*1000, gap*1000)
		}
	}
	for _, trial := range trialsOf(t, ns, "recovering") {
		t.Logf("%s %s pps for %s: %d of %d received, last loss known at %s", trial.Test, trial.Load, trial.Duration, trial.Received, trial.Sent, trial.LastLoss)
	}
}
