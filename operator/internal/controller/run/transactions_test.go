// SPDX-License-Identifier: Apache-2.0

package run

import (
	"math"
	"testing"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// clientsOf are the counters of the clients of a template: in all, and in the ramp-up.
func clientsOf(template string, attempted, before, transactions, transactionsBefore uint64) *enginev1.TemplateStats {
	return &enginev1.TemplateStats{
		Template: template, Side: enginev1.Side_SIDE_CLIENT,
		Counters:        []*enginev1.NamedCounter{{Name: "flows_attempted", Value: attempted}},
		Warmup:          []*enginev1.NamedCounter{{Name: "flows_attempted", Value: before}},
		ProgramCounters: []*enginev1.ProgramCounter{{Name: "transactions", Value: transactions, Warmup: transactionsBefore}, {Name: "other", Value: 5}},
	}
}

func TestTransactionsThatAreMissingAreLost(t *testing.T) {
	stats := []*enginev1.WatchStatsResponse{
		{Templates: []*enginev1.TemplateStats{clientsOf("web", 1200, 200, 3600, 590), {Template: "web", Side: enginev1.Side_SIDE_SERVER}}},
		{Templates: []*enginev1.TemplateStats{clientsOf("web", 1200, 200, 3593, 600), clientsOf("dns", 500, 0, 499, 0)}},
	}
	each := map[string]int64{"web": 3, "dns": 1}
	// 2,000 connections of 3 transactions and 500 of one; 7 of the former and 1 of the latter were not answered.
	trial := countTransactions(spatev1.TrialRecord{Intended: 2500, Sent: 2500, Received: 2497}, stats, each)
	if trial.Intended != 6500 || trial.Sent != 6500 || trial.Received != 6492 || trial.LossRatio != "0.001230769" {
		t.Errorf("%+v", trial)
	}
	// What the generator did not begin was not sent.
	trial = countTransactions(spatev1.TrialRecord{Intended: 5000, Sent: 2500, Received: 2497}, stats, each)
	if trial.Intended != 13000 || trial.Sent != 6500 || trial.Received != 6492 {
		t.Errorf("%+v", trial)
	}
	if trial := countTransactions(spatev1.TrialRecord{LossRatio: "0"}, nil, each); trial.Intended != 0 || trial.LossRatio != "0" {
		t.Errorf("%+v", trial)
	}
}

func TestTheDeviationOfARateIsThatOfItsFarthestInterval(t *testing.T) {
	at := func(counts ...int64) (ends [][]reading) {
		for i, count := range counts {
			ends = append(ends, []reading{{count, time.Duration(i) * time.Second}})
		}
		return ends
	}
	late := at(0, 1060, 2000, 3000)
	late[1][0].at += 60 * time.Millisecond // the engine read late
	two := at(0, 1000, 1900, 3000)
	for i := range two {
		two[i] = append(two[i], reading{int64(i), time.Duration(i) * time.Second}) // an engine that does little
	}
	for name, c := range map[string]struct {
		ends [][]reading
		want float64
	}{
		"even": {at(0, 100, 200, 300), 0}, "whole numbers": {at(0, 101, 200, 300), 0}, "uneven": {at(0, 1000, 1900, 3000), 0.099}, "late": {late, 0},
		"two engines": {two, (100 - 2) / 1001.0}, "from nothing": {at(0, 0, 0, 3000), (2000 - 1) / 1000.0}, "nothing": {at(0, 0), 1}, "one": {at(5), 1}, "none": {nil, 1},
	} {
		if got := deviationOf(c.ends); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestIntervalsAreWholeTrials(t *testing.T) {
	for length, count := range map[time.Duration]int{2 * time.Second: 2, 2999 * time.Millisecond: 2, 7 * time.Second: 7, 300 * time.Second: 10, 1001 * time.Second / 3: 10} {
		all, sum := intervals(&spatev1.TrialInput{Duration: spatev1.MeasuredTime(length)}, nil), uint64(0)
		for _, interval := range all {
			sum += interval.DurationNs
		}
		if len(all) != count || sum != uint64(length) {
			t.Errorf("%s: %d intervals of %d ns", length, len(all), sum)
		}
	}
}

func TestTheStandardOfAGoalRequiresAConstantRateAndNoResets(t *testing.T) {
	tests := &spatev1.SearchTests{Throughput: &spatev1.ThroughputTest{Goals: []spatev1.SearchGoal{
		{Name: "own", Standard: spatev1.GoalRFC9411, Require: []string{"trial.flows.failed == 0"}},
		{Name: "plain", Standard: spatev1.GoalRFC2544},
	}}}
	result := &spatev1.RunResult{Flows: &spatev1.FlowCounters{Attempted: 100000}}
	for _, c := range []struct {
		resets    int64
		deviation float64
		index     int32
		values    string
	}{{0, 0.049, -1, ""}, {0, 0.052, 2, "the rate deviates by 5.2%"}, {1, 0, 1, "trial.flows.reset is 1, trial.flows.attempted is 100000"}} {
		result.Flows.Reset = c.resets
		all, values := unmet(tests, result, c.deviation)
		if c.index < 0 {
			if len(all) > 0 {
				t.Errorf("%+v: %v", c, all)
			}
			continue
		}
		if len(all) != 1 || all[0] != (spatev1.UnmetRequirement{Goal: "own", Index: c.index}) || values != c.values {
			t.Errorf("%+v: %v %q", c, all, values)
		}
	}
}
