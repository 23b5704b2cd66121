// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: does a TrafficSearch execute its trials in real engines, once each, and is it gone on with after a restart of the operator?

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// searchOf is a search in the traffic of profile `searched`; spec holds further fields, one a line, indented by two.
func searchOf(name, spec string) string {
	return fmt.Sprintf(`
apiVersion: spate.dev/v1alpha1
kind: TrafficSearch
metadata: {name: %s}
spec:
  environment: Isolated
  profileRef: {name: searched}
  trial: {settle: 0s, drain: 20ms, pause: 0s}
%s`, name, spec)
}

func searchNamed(ns, name string) *spatev1.TrafficSearch {
	return &spatev1.TrafficSearch{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
}

// trialsOf a run of a search.
func trialsOf(t *testing.T, ns, name string) []spatev1.TrialRecord {
	t.Helper()
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	must(t, get(r))
	if r.Status.Search == nil {
		return nil
	}
	return r.Status.Search.Trials
}

// exactly checks that trials of a loopback port have sent and received what their loads make.
func exactly(t *testing.T, trials []spatev1.TrialRecord) {
	t.Helper()
	for i, trial := range trials {
		load, err := strconv.ParseFloat(trial.Load, 64)
		want := load * time.Duration(trial.Duration).Seconds()
		if trial.Overload > 0 {
			want -= load / 2 * time.Duration(trial.Duration-trial.Overload).Seconds()
		}
		if err != nil || trial.Invalid != "" || trial.Number != int32(i+1) || trial.LossRatio != "0" || trial.Sent != trial.Received || trial.Sent != trial.Intended ||
			float64(trial.Sent) < want-1 || float64(trial.Sent) > want+1 {
			t.Errorf("%+v, want %v packets", trial, want)
		}
	}
}

func TestASearchFindsWhatALoopbackPasses(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, strings.NewReplacer("name: small", "name: delayed", "flow: true", "flow: true, latency: true").Replace(loopbackStream))
	profile := strings.ReplaceAll(loopbackProfile("searched", lenient+"  runPolicy: Manual"), "ref: {name: small}", "ref: {name: delayed}")
	mustApply(t, ns, profile)
	w := watchWrites(t, ns)
	mustApply(t, ns, searchOf("all", `
  frameSizes: [{size: 96}, {imix: Simple}]
  load: {min: 1kpps, max: 4kpps}
  throughput: {goals: [{name: ndr, lossRatio: 0%, finalTrialDuration: 200ms, initialTrialDuration: 100ms, width: 5%}]}
  latency: {atPercent: [100, 50], duration: 200ms, repeats: 2}
  frameLoss: {duration: 100ms}
  recovery: {duration: 200ms, after: 100ms}
  budget: {time: 1m}`))
	s := searchNamed(ns, "all")
	expect(t, 3*runLimit, s, spatev1.ConditionComplete, metav1.ConditionTrue, spatev1.ReasonFinished)
	// The device passes the maximum load, so that there is no upper bound.
	expect(t, answerLimit, s, spatev1.ConditionPassed, metav1.ConditionFalse, spatev1.ReasonSearchIrregular, "MaxLoadPasses", "96: ", "imix-simple: ")
	if len(s.Status.Variants) != 2 || s.Status.Phase != spatev1.SearchComplete || s.Status.Outcome != spatev1.VerdictFailed {
		t.Fatalf("%+v", s.Status)
	}
	all := 0
	for _, v := range s.Status.Variants {
		trials := trialsOf(t, ns, v.Run)
		all += len(trials)
		exactly(t, trials)
		if g := v.Result.Goals[0]; v.MaxLoad != "4000" || g.Lower != "4000" || g.Upper != "" || g.Reason != "MaxLoadPasses" || g.Regular {
			t.Errorf("%s: %+v of %s", v.Name, g, v.MaxLoad)
		}
		if l := v.Result.Latency; len(l) != 2 || l[0].Load != "4000" || l[1].Load != "2000" || l[0].Typical <= 0 || l[0].WorstCase < l[0].Typical {
			t.Errorf("%s: latency %+v", v.Name, l)
		}
		if r := v.Result.Recovery; r == nil || r.Load != "4000" || r.Mean != 0 || trials[len(trials)-1].Overload != spatev1.MeasuredTime(200*time.Millisecond) {
			t.Errorf("%s: recovery %+v in trial %+v", v.Name, r, trials[len(trials)-1])
		}
		if f := v.Result.FrameLoss; len(f) != 2 || f[1].Percent != "90" || f[1].LossRatio != "0" {
			t.Errorf("%s: frame loss %+v", v.Name, f)
		}
	}
	if n := w.between("run", time.Time{}, time.Now()); n > 2*all+30 {
		t.Errorf("%d writes of runs for %d trials", n, all)
	}
	run := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: s.Status.Variants[0].Run}}
	must(t, get(run))
	if tx, rx := run.Status.Result.TxBytes, run.Status.Result.Tx; tx != 96*rx {
		t.Errorf("%d bytes in %d packets of 96 bytes", tx, rx)
	}
}

func TestASearchGoesOnAfterARestartOfTheOperator(t *testing.T) {
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("searched", lenient+"  runPolicy: Manual"))
	// Trials at the maximum load until the sum of their durations is 6 s.
	mustApply(t, ns, searchOf("long", `
  load: {min: 1kpps, max: 2kpps}
  throughput: {goals: [{name: ndr, lossRatio: 0%, exceedRatio: 50%, finalTrialDuration: 300ms, initialTrialDuration: 300ms, durationSum: 6s}]}
  budget: {time: 2m}`))
	s := searchNamed(ns, "long")
	until(t, runLimit, "four trials have ended", func() (bool, string) {
		must(t, get(s))
		return len(s.Status.Variants) > 0 && s.Status.Variants[0].Trials >= 4, fmt.Sprintf("%+v", s.Status)
	})
	before := trialsOf(t, ns, "long-all")
	restartOperator(t)
	expect(t, runLimit, s, spatev1.ConditionComplete, metav1.ConditionTrue, spatev1.ReasonFinished)
	trials := trialsOf(t, ns, "long-all")
	exactly(t, trials)
	for i := range before {
		if before[i].StartTime != trials[i].StartTime {
			t.Errorf("trial %d was repeated: %v, %v", i+1, before[i].StartTime, trials[i].StartTime)
		}
	}
	if g := s.Status.Variants[0].Result.Goals[0]; g.Reason != "MaxLoadPasses" || g.Lower != "2000" {
		t.Errorf("%+v", g)
	}
}

func TestARequirementBoundsASearch(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("searched", lenient+"  runPolicy: Manual"))
	mustApply(t, ns, searchOf("required", `
  load: {min: 1kpps, max: 4kpps}
  throughput:
    goals:
    - {name: ndr, lossRatio: 0%, finalTrialDuration: 100ms, initialTrialDuration: 100ms, width: 20%}
    - {name: slow, lossRatio: 0%, finalTrialDuration: 100ms, initialTrialDuration: 100ms, width: 20%, require: ["trial.lost == 0", "trial.txPps < 2500.0"]}
  budget: {time: 1m}`))
	s := searchNamed(ns, "required")
	expect(t, runLimit, s, spatev1.ConditionComplete, metav1.ConditionTrue, spatev1.ReasonFinished)
	goals := s.Status.Variants[0].Result.Goals
	if g := goals[0]; g.Reason != "MaxLoadPasses" || g.BoundedBy != "" {
		t.Errorf("%+v", g)
	}
	lower, _ := strconv.ParseFloat(goals[1].Lower, 64)
	upper, _ := strconv.ParseFloat(goals[1].Upper, 64)
	if g := goals[1]; !g.Regular || lower <= 0 || lower >= 2500 || upper < 2500 || g.BoundedBy != "trial.txPps < 2500.0" {
		t.Errorf("%+v", g)
	}
	trials := trialsOf(t, ns, "required-all")
	exactly(t, trials)
	for _, trial := range trials {
		load, _ := strconv.ParseFloat(trial.Load, 64)
		if unmet := len(trial.Unmet) == 1 && trial.Unmet[0] == (spatev1.UnmetRequirement{Goal: "slow", Index: 1}) && strings.HasPrefix(trial.UnmetValues, "trial.txPps is "); unmet != (load >= 2500) {
			t.Errorf("at %v pps: %+v %q", load, trial.Unmet, trial.UnmetValues)
		}
	}
}

func TestSearchesThatCannotBeDoneSayWhy(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("searched", lenient+"  runPolicy: Manual"))
	goal := "throughput: {goals: [{name: ndr, standard: RFC2544}]}"
	for _, c := range []struct{ name, spec, reason, words string }{
		{"no-room", "  load: {min: 1kpps, max: 20Mpps}\n  " + goal + "\n  budget: {time: 1h}", spatev1.ReasonOversubscribed, "spec.search.load.max: port loop of generator loop would have to carry"},
		{"reversed", "  load: {min: 5kpps, max: 4kpps}\n  " + goal + "\n  budget: {time: 1h}", spatev1.ReasonInvalidSpec, "load"},
		{"short", "  load: {min: 1kpps, max: 4kpps}\n  " + goal + "\n  budget: {time: 10s}", spatev1.ReasonInvalidSpec, "budget.time"},
	} {
		mustApply(t, ns, searchOf(c.name, c.spec))
		s := searchNamed(ns, c.name)
		expect(t, runLimit, s, spatev1.ConditionPassed, metav1.ConditionUnknown, spatev1.ReasonSearchInvalid, c.words)
		r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: s.Status.Variants[0].Run}}
		must(t, get(r))
		if got := r.Status.Verdict.Reasons[0]; got.Reason != c.reason {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	for text, words := range map[string]string{
		"  load: {min: 1kpps}\n  budget: {time: 1h}":                                                                                                  "set throughput, frameLoss or both",
		"  load: {min: 1kpps}\n  frameLoss: {}\n  latency: {}\n  budget: {time: 1h}":                                                                  "set throughput too",
		"  load: {min: 1kpps}\n  throughput: {goals: [{name: a, standard: RFC2544, lossRatio: 1%}]}\n  budget: {time: 1h}":                            "leave them out, or leave standard out",
		"  load: {min: 1kpps}\n  throughput: {goals: [{name: a, lossRatio: 2.5x}]}\n  budget: {time: 1h}":                                             "such as 0.5%",
		"  load: {min: 1kpps}\n  throughput: {goals: [{name: a, standard: RFC2544}]}\n  latency: {of: b}\n  budget: {time: 1h}":                       "must name a goal",
		"  load: {min: 1kpps}\n  frameSizes: [{size: 64, imix: Simple}]\n  throughput: {goals: [{name: a, standard: RFC2544}]}\n  budget: {time: 1h}": "exactly one of",
	} {
		if err := apply(t.Context(), ns, searchOf("refused", text)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s\nis answered with %v, want %q", text, err, words)
		}
	}
}

// ndrOf is a goal on a loopback port, which passes all loads.
const ndrOf = "  throughput: {goals: [{name: ndr, lossRatio: 0%, finalTrialDuration: 100ms, initialTrialDuration: 100ms, width: 20%}]}\n  budget: {time: 1m}\n"

func TestThresholdsDecideWhetherASearchHasPassed(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("searched", lenient+"  runPolicy: Manual"))
	const enough = `  - {name: enough, expression: 'search.variants["all"].goals["ndr"].lower >= 4000.0'}` + "\n"
	for _, c := range []struct {
		name, thresholds string
		status           metav1.ConditionStatus
		reason, words    string
		met              []bool
	}{
		// There is no upper bound, which no threshold asks for.
		{"enough", enough, metav1.ConditionTrue, spatev1.ReasonThresholdsMet, "MaxLoadPasses", []bool{true}},
		{"regular", enough + `  - {name: regular, message: the bounds are not known, expression: 'search.variants.all(n, v, v.goals["ndr"].regular)'}`, metav1.ConditionFalse,
			spatev1.ReasonThresholdMissed, "the bounds are not known (threshold regular: ", []bool{true, false}},
	} {
		mustApply(t, ns, searchOf(c.name, "  load: {min: 1kpps, max: 4kpps}\n"+ndrOf+"  thresholds:\n"+c.thresholds))
		s := searchNamed(ns, c.name)
		expect(t, runLimit, s, spatev1.ConditionPassed, c.status, c.reason, c.words)
		for i, met := range c.met {
			if got := s.Status.Thresholds[i]; got.Met != met || !strings.Contains(got.Message, "search.variants") {
				t.Errorf("%s: %+v", c.name, got)
			}
		}
	}
	for name, c := range map[string]struct{ goal, threshold, words string }{
		"variant":  {"", `search.variants["64"].goals["ndr"].regular`, `spec.thresholds[0].expression: "search.variants[\"64\"].goals[\"ndr\"].regular": no such key: 64: variants of the search are all`},
		"goal":     {"", `search.variants["all"].goals["pdr"].regular`, "goals of the search are ndr"},
		"test":     {"", `search.variants["all"].backToBack.frames > 5.0`, "backToBack is not measured: set spec.backToBack"},
		"field":    {"", `search.variants["all"].goals["ndr"].pps > 5.0`, "undefined field 'pps'"},
		"variable": {`, require: ["result.lost == 0"]`, "true", `spec.throughput.goals[0].require[0]: "result.lost == 0": column 1: undeclared reference to 'result'`},
	} {
		mustApply(t, ns, searchOf("wrong-"+name, "  load: {min: 1kpps, max: 4kpps}\n"+strings.Replace(ndrOf, "width: 20%", "width: 20%"+c.goal, 1)+
			"  thresholds: [{name: t, expression: '"+c.threshold+"'}]\n"))
		s := searchNamed(ns, "wrong-"+name)
		expect(t, answerLimit, s, spatev1.ConditionPassed, metav1.ConditionUnknown, spatev1.ReasonInvalidSpec, c.words)
		if len(s.Status.Variants) != 0 || s.Status.Phase != spatev1.SearchComplete {
			t.Errorf("%+v", s.Status)
		}
	}
	// What the profile does not have is known when the run has found it.
	mustApply(t, ns, searchOf("unmeasured", "  load: {min: 1kpps, max: 4kpps}\n"+strings.Replace(ndrOf, "width: 20%", `width: 20%, require: ['trial.streams["small"].latency.p99 < duration("1s")']`, 1)))
	expect(t, runLimit, searchNamed(ns, "unmeasured"), spatev1.ConditionPassed, metav1.ConditionUnknown, spatev1.ReasonSearchInvalid,
		`spec.search.throughput.goals[0].require[0]: "trial.streams[\"small\"].latency.p99 < duration(\"1s\")": latency is not measured of stream small: set measure.latency`)
}

func TestLoadsOfApplicationsAreConnectionsASecond(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackTemplate)
	mustApply(t, ns, greetingProfile("searched", "  runPolicy: Manual\n"))
	mustApply(t, ns, strings.Replace(searchOf("cps", "  load: {min: 50cps, max: 400cps}\n"+strings.ReplaceAll(ndrOf, "100ms", "500ms")), "drain: 20ms", "drain: 200ms", 1))
	s := searchNamed(ns, "cps")
	expect(t, runLimit, s, spatev1.ConditionPassed, metav1.ConditionFalse, spatev1.ReasonSearchIrregular, "MaxLoadPasses")
	v := s.Status.Variants[0]
	if g := v.Result.Goals[0]; v.Unit != spatev1.UnitConnections || v.MaxLoad != "400" || g.Lower != "400" || g.Reason != "MaxLoadPasses" {
		t.Errorf("%s %s: %+v", v.MaxLoad, v.Unit, g)
	}
	for _, trial := range trialsOf(t, ns, "cps-all") {
		if load, _ := strconv.ParseFloat(trial.Load, 64); trial.Invalid != "" || float64(trial.Intended) != load*time.Duration(trial.Duration).Seconds() || trial.Received != trial.Intended {
			t.Errorf("%+v", trial)
		}
	}
	mustApply(t, ns, searchOf("no-unit", "  load: {min: 1kpps, max: 400cps}\n"+ndrOf))
	expect(t, runLimit, searchNamed(ns, "no-unit"), spatev1.ConditionPassed, metav1.ConditionUnknown, spatev1.ReasonSearchInvalid,
		`spec.search.load.min "1kpps": the rate of templates cannot be given in packets or bits; use a factor such as 2x, or in a search or a stage connections or transactions a second such as 300cps and 3ktps`)
	mustApply(t, ns, strings.Replace(greetingProfile("both", "  runPolicy: Manual\n"), "  traffic:\n", "  traffic:\n  - {name: small, stream: {ref: {name: small}}, transmitPort: loop, receivePort: loop}\n", 1))
	mustApply(t, ns, strings.Replace(searchOf("mixed", "  load: {min: 0.5x, max: 1x}\n"+ndrOf), "name: searched", "name: both", 1))
	expect(t, runLimit, searchNamed(ns, "mixed"), spatev1.ConditionPassed, metav1.ConditionUnknown, spatev1.ReasonSearchInvalid, "the profile has streams and applications: search the load of either")
	if err := apply(t.Context(), ns, searchOf("refused", "  load: {min: 50cps/port}\n"+ndrOf)); err == nil || !strings.Contains(err.Error(), "connections or transactions a second such as 300cps") {
		t.Errorf("connections of a port are answered with %v", err)
	}
}

// Each connection has three requests. The standard of a goal has trials of 300 s, which the test does not wait for.
func TestLoadsOfApplicationsCanBeTransactionsASecond(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	profile := strings.Replace(greetingProfile("searched", "  runPolicy: Manual\n"), "templateRef: {name: greeting}",
		"inline: {connectionRate: 100cps, source: {http: {requestsPerConnection: 3, responseBytes: 2000}}, pools: {clients: [{name: c, start: 198.18.0.1, count: 100}], servers: [{name: s, start: 198.19.0.1, count: 10}]}}", 1)
	mustApply(t, ns, profile)
	search := func(name, load, goal string) *spatev1.TrafficSearch {
		mustApply(t, ns, strings.Replace(searchOf(name, "  load: {"+load+"}\n  throughput: {goals: [{name: tps, "+goal+"}]}\n  budget: {time: 10m}\n"),
			"settle: 0s, drain: 20ms", "settle: 0s, rampUp: 300ms, drain: 200ms", 1))
		return searchNamed(ns, name)
	}
	s := search("tps", "min: 150tps, max: 1.2ktps", "lossRatio: 0%, initialTrialDuration: 500ms, finalTrialDuration: 1s, width: 10%")
	expect(t, runLimit, s, spatev1.ConditionPassed, metav1.ConditionFalse, spatev1.ReasonSearchIrregular, "MaxLoadPasses")
	v := s.Status.Variants[0]
	if g := v.Result.Goals[0]; v.Unit != spatev1.UnitTransactions || v.MaxLoad != "1200" || g.Lower != "1200" || g.Reason != "MaxLoadPasses" {
		t.Errorf("%s %s: %+v", v.MaxLoad, v.Unit, g)
	}
	trials := trialsOf(t, ns, "tps-all")
	for _, trial := range trials {
		// The ramp-up ends where a worker looks at its clock: connections on either side of it are in either phase.
		load, _ := strconv.ParseFloat(trial.Load, 64)
		due := load * time.Duration(trial.Duration).Seconds()
		if trial.Invalid != "" || math.Abs(float64(trial.Intended)-due) > 0.05*due || trial.Intended%3 != 0 || trial.Received != trial.Intended {
			t.Errorf("%+v", trial)
		}
	}
	if len(trials) == 0 {
		t.Error("there was no trial")
	}
	s = search("constant", "min: 150tps, max: 1.2ktps", "standard: RFC9411, initialTrialDuration: 4s")
	until(t, runLimit, "the first trial", func() (bool, string) {
		err := get(s)
		return err == nil && len(s.Status.Variants) > 0 && s.Status.Variants[0].Trials > 0, fmt.Sprintf("%v %+v", err, s.Status.Variants)
	})
	if trial := trialsOf(t, ns, "constant-all")[0]; trial.Invalid != "" || len(trial.Unmet) > 0 || trial.LossRatio != "0" || trial.Sent < 4600 {
		t.Errorf("%+v", trial)
	}
	must(t, cluster.kube.Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"stop":true}}`))))
	expect(t, runLimit, s, spatev1.ConditionComplete, metav1.ConditionTrue, "")
	for text, words := range map[string]string{
		"min: 150tps, max: 300cps": "must be transactions a second such as 100ktps if min is",
		"min: 150cps, max: 300tps": "must be transactions a second such as 100ktps if min is",
		"min: 0tps, max: 3tps":     "a load must be greater than zero",
	} {
		if err := apply(t.Context(), ns, searchOf("refused", "  load: {"+text+"}\n"+ndrOf)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s is answered with %v, want %q", text, err, words)
		}
	}
	mustApply(t, ns, loopbackTemplate+"---"+greetingProfile("uncounted", "  runPolicy: Manual\n"))
	mustApply(t, ns, strings.Replace(searchOf("unknown", "  load: {min: 30tps, max: 3ktps}\n"+ndrOf), "name: searched", "name: uncounted", 1))
	expect(t, runLimit, searchNamed(ns, "unknown"), spatev1.ConditionPassed, metav1.ConditionUnknown, spatev1.ReasonSearchInvalid, "its client's program counts none: add `count: {counter: transactions}`")
	mustApply(t, ns, loopbackProfile("streams", lenient+"  runPolicy: Manual"))
	mustApply(t, ns, strings.Replace(searchOf("packets", "  load: {min: 30pps, max: 3kpps}\n  throughput: {goals: [{name: a, standard: RFC9411}]}\n  budget: {time: 12s}\n"), "name: searched", "name: streams", 1))
	expect(t, runLimit, searchNamed(ns, "packets"), spatev1.ConditionPassed, metav1.ConditionUnknown, spatev1.ReasonSearchInvalid, "RFC9411 is for applications, and the profile has none; use RFC2544")
}

// A loopback port is not reset.
func TestASearchAsksForAResetAndFindsThatThereWasNone(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("searched", lenient+"  runPolicy: Manual"))
	mustApply(t, ns, searchOf("reset", "  load: {min: 1kpps, max: 4kpps}\n  reset: {duration: 2s}\n"+ndrOf))
	run := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reset-all"}}
	until(t, runLimit, "the run asks for the reset", func() (bool, string) {
		err := get(run)
		return err == nil && run.Status.Search != nil && run.Status.Search.Current != nil && run.Status.Search.Current.ResetDevice, fmt.Sprintf("%v %+v", err, run.Status.Search)
	})
	if current := run.Status.Search.Current; current.Test != spatev1.TestReset || time.Since(current.StartTime.Time) < 200*time.Millisecond {
		t.Errorf("%+v was requested too early", current)
	}
	s := searchNamed(ns, "reset")
	expect(t, runLimit, s, spatev1.ConditionPassed, metav1.ConditionFalse, spatev1.ReasonSearchIrregular)
	r := s.Status.Variants[0].Result.Reset
	trials := trialsOf(t, ns, "reset-all")
	if last := trials[len(trials)-1]; r == nil || r.Reason != "NothingLost" || last.Outage == nil || last.SilentAtEnd || last.ResetDevice || last.LossRatio != "0" {
		t.Errorf("%+v after %+v", r, last)
	}
	if err := apply(t.Context(), ns, searchOf("refused", "  load: {min: 1kpps, max: 4kpps}\n  reset: {of: nrd}\n"+ndrOf)); err == nil || !strings.Contains(err.Error(), "spec.reset.of: Invalid value: must name a goal of throughput") {
		t.Errorf("a goal that does not exist is answered with %v", err)
	}
	mustApply(t, ns, loopbackTemplate+"---"+greetingProfile("web", "  runPolicy: Manual\n"))
	mustApply(t, ns, strings.Replace(searchOf("connections", "  load: {min: 10cps, max: 40cps}\n  reset: {duration: 2s}\n"+ndrOf), "name: searched", "name: web", 1))
	expect(t, runLimit, searchNamed(ns, "connections"), spatev1.ConditionPassed, metav1.ConditionUnknown, spatev1.ReasonSearchInvalid, "is measured of streams, and the profile has applications")
}

func TestASearchIsRepeated(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("searched", lenient+"  runPolicy: Manual"))
	// In the second variant no load passes.
	mustApply(t, ns, searchOf("again", "  load: {min: 1kpps, max: 4kpps}\n  repeats: 3\n  frameSizes: [{size: 96}, {size: 200}]\n"+
		strings.Replace(ndrOf, "width: 20%", "width: 20%, require: ['trial.txBytes / trial.tx < 100']", 1)+
		"  thresholds: [{name: spread, expression: 'search.variants[\"96\"].goals[\"ndr\"].deviation == 0.0 && search.variants[\"96\"].goals[\"ndr\"].lower == 4000.0'}]\n"))
	s := searchNamed(ns, "again")
	expect(t, runLimit, s, spatev1.ConditionPassed, metav1.ConditionTrue, spatev1.ReasonThresholdsMet, "96: ", "200: ")
	for i, lower := range []string{"4000", "0"} {
		v := s.Status.Variants[i]
		spread := spatev1.GoalSpread{Name: "ndr", Count: 3, Min: lower, Median: lower, Max: lower, Deviation: "0"}
		if len(v.Repeats) != 3 || len(v.Spread) != 1 || v.Spread[0] != spread || v.Outcome != spatev1.VerdictFailed || v.Run != fmt.Sprintf("again-%s-3", v.Name) {
			t.Errorf("%+v", v)
		}
		trials := 0
		for n, repeat := range v.Repeats {
			if repeat.Run != fmt.Sprintf("again-%s-%d", v.Name, n+1) || repeat.Outcome != spatev1.VerdictFailed || len(repeat.Goals) != 1 {
				t.Errorf("%+v", repeat)
			}
			trials += len(trialsOf(t, ns, repeat.Run))
		}
		if int(v.Trials) != trials || trials == 0 {
			t.Errorf("%d trials, the runs have %d", v.Trials, trials)
		}
	}
	if g := s.Status.Variants[1].Result.Goals[0]; g.Lower != "" || g.Reason != "MinLoadFails" || g.BoundedBy == "" {
		t.Errorf("%+v", g)
	}
}

// holding is a template whose clients leave their connections open.
var holding = strings.Replace(loopbackTemplate, "{receive: {bytes: 1000}}]", "{receive: {bytes: 1000}}, {delay: {min: 1m}}]", 1)

func TestOpenConnectionsAreHeldForTheTimeOfATrial(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	for name, template := range map[string]string{
		"holds":   holding,
		"bounded": strings.Replace(holding, "  connectionRate: 100cps\n", "  connectionRate: 100cps\n  maxConcurrentFlows: 40\n", 1),
		"closes":  loopbackTemplate,
	} {
		mustApply(t, ns, strings.Replace(template, "name: greeting", "name: "+name, 1))
		mustApply(t, ns, strings.Replace(greetingProfile(name, "  runPolicy: Manual\n"), "templateRef: {name: greeting}", "templateRef: {name: "+name+"}", 1))
	}
	search := func(name, load string) *spatev1.TrafficSearch {
		mustApply(t, ns, strings.Replace(searchOf("open-"+name, "  load: {"+load+"}\n"+strings.ReplaceAll(ndrOf, "100ms", "400ms")), "name: searched", "name: "+name, 1))
		return searchNamed(ns, "open-"+name)
	}
	const load = "vary: OpenConnections, min: 10conn, max: 0.1kconn, ramp: 300ms"
	for name, c := range map[string]struct{ reason, lower string }{
		"holds": {"MaxLoadPasses", "100"}, "bounded": {"GeneratorLimited", ""}, "closes": {"MinLoadFails", ""},
	} {
		s := search(name, load)
		expect(t, runLimit, s, spatev1.ConditionPassed, metav1.ConditionFalse, spatev1.ReasonSearchIrregular, c.reason)
		v := s.Status.Variants[0]
		g := v.Result.Goals[0]
		if g.Reason != c.reason || v.Unit != spatev1.UnitOpen || v.MaxLoad != "100" || name != "bounded" && g.Lower != c.lower {
			t.Errorf("%s: %+v of %s %s", name, g, v.MaxLoad, v.Unit)
		}
		lower, _ := strconv.ParseFloat(g.Lower, 64)
		upper, _ := strconv.ParseFloat(g.Upper, 64)
		if name == "bounded" && (lower > 40 || upper < 40 || (upper-lower)/upper > 0.2) {
			t.Errorf("%s: %+v, want bounds around 40", name, g)
		}
		for _, trial := range trialsOf(t, ns, "open-"+name+"-all") {
			asked, _ := strconv.ParseFloat(trial.Load, 64)
			held := map[string]int64{"holds": trial.Intended, "bounded": min(trial.Intended, 40), "closes": 0}[name]
			if trial.Invalid != "" || float64(trial.Intended) < asked-1 || float64(trial.Intended) > asked+1 || trial.Received != held || time.Duration(trial.Duration) != 400*time.Millisecond {
				t.Errorf("%s: %+v, want %d held", name, trial, held)
			}
		}
	}
	mustApply(t, ns, loopbackProfile("streams", lenient+"  runPolicy: Manual"))
	expect(t, runLimit, search("streams", load), spatev1.ConditionPassed, metav1.ConditionUnknown, spatev1.ReasonSearchInvalid, "connections and transactions a second are those of applications that have clients")
	for text, words := range map[string]string{
		"  load: {vary: OpenConnections, min: 10cps, max: 100conn, ramp: 1s}\n" + ndrOf:                 "is a number of connections such as 1kconn with vary: OpenConnections",
		"  load: {vary: OpenConnections, min: 10conn, ramp: 1s}\n" + ndrOf:                              "is a number of connections such as 100kconn with vary: OpenConnections",
		"  load: {vary: OpenConnections, min: 10conn, max: 100conn}\n" + ndrOf:                          "is required with vary: OpenConnections",
		"  load: {vary: OpenConnections, min: 10conn, max: 100conn, ramp: 0s}\n" + ndrOf:                "must be greater than zero",
		"  load: {min: 10conn, max: 100cps}\n" + ndrOf:                                                  "and a rate without",
		"  load: {min: 10cps, max: 100cps, ramp: 1s}\n" + ndrOf:                                         "and not used without",
		"  load: {vary: OpenConnections, min: 10conn, max: 100conn, ramp: 1s}\n  latency: {}\n" + ndrOf: "leave latency, backToBack, recovery and reset out",
		"  load: {vary: OpenConnections, min: 0conn, max: 100conn, ramp: 1s}\n" + ndrOf:                 "a load must be greater than zero",
	} {
		if err := apply(t.Context(), ns, searchOf("refused", text)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s\nis answered with %v, want %q", text, err, words)
		}
	}
}
