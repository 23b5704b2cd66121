// SPDX-License-Identifier: Apache-2.0

package sequence

import (
	"reflect"
	"strconv"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/search"
	"spate.dev/operator/internal/search/dut"
)

const required = `
load: {min: 1kpps, max: 40kpps}
trial: {settle: 0s, drain: 200ms, pause: 100ms}
throughput:
  goals:
  - {name: ndr, lossRatio: 0%, finalTrialDuration: 2s, initialTrialDuration: 2s, width: 1%}
  - {name: fast, lossRatio: 0%, finalTrialDuration: 2s, initialTrialDuration: 2s, width: 1%, require: ["trial.outOfOrder == 0", 'trial.streams["a"].latency.p99 < duration("1ms")']}
budget: {time: 1h}
`

// slow does not meet the second requirement of the goal `fast` above a load.
func slow(above float64) func(*spatev1.TrialRecord) {
	return func(r *spatev1.TrialRecord) {
		if load, _ := strconv.ParseFloat(r.Load, 64); load > above {
			r.Unmet = []spatev1.UnmetRequirement{{Goal: "fast", Index: 1}}
		}
	}
}

// executeWith does a whole search, with what else a trial records.
func executeWith(t *testing.T, tests *spatev1.SearchTests, device dut.Device, also func(*spatev1.TrialRecord)) ([]spatev1.TrialRecord, spatev1.SearchResult) {
	t.Helper()
	var records []spatev1.TrialRecord
	for {
		step, result, err := Next(tests, loads, records)
		if err != nil {
			t.Fatal(err)
		}
		if step == nil {
			return records, result
		}
		record := recorded(device, step, len(records)+1)
		also(&record)
		records = append(records, record)
	}
}

func TestARequirementBoundsItsGoalAndNoOther(t *testing.T) {
	for _, method := range []spatev1.SearchMethod{spatev1.MethodMLRsearch, spatev1.MethodBisection} {
		tests := testsOf(t, required)
		tests.Throughput.Method = method
		records, result := executeWith(t, tests, dut.Device{Capacity: 20000}, slow(5000))
		between := func(g spatev1.GoalResult, load float64) bool {
			lower, _ := strconv.ParseFloat(g.Lower, 64)
			upper, _ := strconv.ParseFloat(g.Upper, 64)
			return g.Regular && lower <= load && upper >= load && (upper-lower)/upper <= 0.01
		}
		if ndr := result.Goals[0]; !between(ndr, 20000) || ndr.BoundedBy != "" {
			t.Errorf("%s: %+v", method, ndr)
		}
		if fast := result.Goals[1]; !between(fast, 5000) || fast.BoundedBy != tests.Throughput.Goals[1].Require[1] {
			t.Errorf("%s: %+v", method, fast)
		}
		// The records alone have all of it.
		if _, again, err := Next(tests, loads, records); err != nil || !reflect.DeepEqual(again, result) {
			t.Errorf("%s: %+v, %v", method, again, err)
		}
	}
}

func TestWhatLossBoundsIsNotSaidToBeBoundedByARequirement(t *testing.T) {
	_, result := executeWith(t, testsOf(t, required), dut.Device{Capacity: 5000}, slow(5000))
	if fast := result.Goals[1]; fast.BoundedBy != "" || fast.Reason != string(search.Found) {
		t.Errorf("%+v", fast)
	}
}

func TestARequirementCanRefuteTheConfirmation(t *testing.T) {
	tests := testsOf(t, required)
	tests.Throughput.Goals = tests.Throughput.Goals[1:]
	tests.Throughput.Confirm = &spatev1.SearchConfirm{Duration: "10s", LossRatio: "0%"}
	_, result := executeWith(t, tests, dut.Device{Capacity: 20000}, func(r *spatev1.TrialRecord) {
		if r.Duration.String() == "10s" {
			r.Unmet = []spatev1.UnmetRequirement{{Goal: "fast", Index: 0}}
		}
	})
	if fast := result.Goals[0]; fast.Reason != string(search.ConfirmFailed) || fast.Regular || fast.BoundedBy != "trial.outOfOrder == 0" {
		t.Errorf("%+v", fast)
	}
}

func TestARequirementThatNoLoadMeetsLeavesNoLowerBound(t *testing.T) {
	_, result := executeWith(t, testsOf(t, required), dut.Device{Capacity: 20000}, slow(0))
	if fast := result.Goals[1]; fast.Reason != string(search.MinLoadFails) || fast.Lower != "" || fast.BoundedBy == "" {
		t.Errorf("%+v", fast)
	}
}
