// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strings"
	"testing"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
)

func requiring(goals map[spatev1.EntryName][]string, order ...spatev1.EntryName) *spatev1.SearchTests {
	tests := &spatev1.SearchTests{Throughput: &spatev1.ThroughputTest{}}
	for _, name := range order {
		tests.Throughput.Goals = append(tests.Throughput.Goals, spatev1.SearchGoal{Name: name, Require: goals[name]})
	}
	return tests
}

func TestUnmetRequirementsNameTheirGoalsAndTheValues(t *testing.T) {
	result := &spatev1.RunResult{Duration: spatev1.MeasuredTime(time.Second)}
	result.OutOfOrder = 3
	result.Streams = map[string]spatev1.StreamResult{
		"voice":  {Latency: &spatev1.Latency{Count: 10, P99: spatev1.MeasuredTime(214 * time.Microsecond)}},
		"silent": {},
		"tagged": {ByTag: map[string]spatev1.TagCounters{"5-7": {Packets: 10, Missing: 2}}},
	}
	goals := map[spatev1.EntryName][]string{
		"none":   nil,
		"met":    {`trial.outOfOrder < 5`, `trial.streams["voice"].latency.p99 < duration("1ms")`, `trial.streams["tagged"].byTag["6"].packets == 10`},
		"tagged": {`trial.streams["tagged"].byTag["6"].missing == 0`},
		"second": {`trial.outOfOrder < 5`, `trial.streams["voice"].latency.p99 < duration("100us")`, `trial.outOfOrder == 0`},
		"silent": {`trial.streams["silent"].latency.p99 < duration("1ms")`},
	}
	all, values := unmet(requiring(goals, "none", "met", "second", "silent"), result, 0)
	if len(all) != 2 || all[0] != (spatev1.UnmetRequirement{Goal: "second", Index: 1}) || all[1] != (spatev1.UnmetRequirement{Goal: "silent", Index: 0}) {
		t.Errorf("%+v", all)
	}
	if values != `trial.streams["voice"].latency.p99 is 214us` {
		t.Errorf("%q", values)
	}
	if all, values := unmet(requiring(goals, "silent"), result, 0); len(all) != 1 || values != "cannot be evaluated" {
		t.Errorf("%+v, %q", all, values)
	}
	if all, values := unmet(requiring(goals, "tagged"), result, 0); len(all) != 1 || values != `trial.streams["tagged"].byTag["6"].missing is 2` {
		t.Errorf("%+v, %q", all, values)
	}
	if all, values := unmet(requiring(goals, "none", "met"), result, 0); all != nil || values != "" {
		t.Errorf("%+v, %q", all, values)
	}
	if all, _ := unmet(&spatev1.SearchTests{}, result, 0); all != nil {
		t.Errorf("%+v", all)
	}
	long := strings.Repeat(`trial.streams["voice"].latency.p99 < duration("1s") && trial.outOfOrder < 5 && `, 3) + "trial.lost + trial.late + trial.txDropped + trial.sequenceTooHigh > 0"
	if _, values := unmet(requiring(map[spatev1.EntryName][]string{"a": {long}}, "a"), result, 0); len(values) > longestValues || values == "" {
		t.Errorf("%d bytes: %q", len(values), values)
	}
}

// A stream whose latency a requirement reads is reported with the bound of the clocks, as one that a threshold reads.
func TestRequirementsReadLatencies(t *testing.T) {
	run := &spatev1.TrafficRun{}
	run.Status.Resolved = &spatev1.ResolvedRun{Thresholds: []spatev1.Threshold{{Name: "a", Expression: `result.streams["a"].latency.p99 < duration("1s")`}}}
	run.Spec.Search = requiring(map[spatev1.EntryName][]string{"g": {`trial.streams["b"].latency.p99 < duration("1s")`}}, "g")
	all := latencyReaders(run)
	if !all.read("a") || !all.read("b") || all.read("c") {
		t.Errorf("%v %v %v", all.read("a"), all.read("b"), all.read("c"))
	}
}
