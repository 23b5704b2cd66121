// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/storage"
)

// at is a reading of one stream by the engine that sends it and the one that receives it.
func at(readNs int64, tx, rx uint64, missing int64, settled uint64) []*enginev1.WatchStatsResponse {
	return []*enginev1.WatchStatsResponse{
		{ReadAtNs: readNs, Streams: []*enginev1.StreamStats{{Name: "s", Measured: &enginev1.StreamCounters{TxPackets: tx, SettledTxPackets: settled}}}},
		{ReadAtNs: readNs, Streams: []*enginev1.StreamStats{{Name: "s", Measured: &enginev1.StreamCounters{RxPackets: rx, Missing: missing}}}},
	}
}

func TestALossIsOfTheStageInWhichItBecomesKnown(t *testing.T) {
	facts := &storage.Facts{Flow: map[string]bool{"s": true}}
	pods := []spatev1.PodSnapshot{{Name: "a"}, {Name: "b"}}
	run := &spatev1.TrafficRun{Status: spatev1.TrafficRunStatus{Resolved: &spatev1.ResolvedRun{Generator: spatev1.GeneratorSnapshot{Pods: pods}}, PortBaseline: []spatev1.PortBaseline{{}}}}
	for _, c := range []struct {
		what       string
		begin, end []*enginev1.WatchStatsResponse
		last       bool
		tx, lost   int64
	}{
		{"in flight at the end", nil, at(1e9, 1000, 990, 0, 980), false, 1000, 0},
		{"in flight at the beginning", at(1e9, 1000, 990, 0, 980), at(2e9, 2000, 1995, 0, 1900), false, 1000, 0},
		{"a gap that later packets show", at(1e9, 1000, 990, 0, 980), at(2e9, 2000, 1980, 15, 1900), false, 1000, 15},
		{"a gap of the stage before that is filled", at(1e9, 1000, 980, 10, 970), at(2e9, 2000, 1995, 0, 1900), false, 1000, -10},
		{"a path that is dead at the end", at(1e9, 1000, 990, 0, 980), at(2e9, 2000, 1500, 0, 1900), false, 1000, 400},
		{"the rest of it", at(2e9, 2000, 1500, 0, 1900), at(3e9, 3000, 2400, 600, 0), true, 1000, 200},
		{"all that is lost in the last", at(1e9, 1000, 990, 3, 980), at(2e9, 2000, 1900, 7, 0), true, 1000, 97},
	} {
		settled := settledTx(c.end)
		if c.last {
			settled = nil
		}
		got := stageResult(c.begin, c.end, settled, facts, run)
		if got.Tx != c.tx || got.Lost != c.lost || c.begin != nil && got.Duration != 1e9 {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
}

func TestDelaysOfAStageAreThoseAfterTheOneBefore(t *testing.T) {
	cells := func(counts ...uint64) *enginev1.Distribution {
		d := &enginev1.Distribution{PrecisionBits: 10}
		for i, n := range counts {
			d.Cells, d.Counts = append(d.Cells, uint32(min(i, 1))*10), append(d.Counts, n)
		}
		return d
	}
	quantiles := []*enginev1.Quantile{{PartsPerMillion: 500000, Ns: 1}}
	before := &enginev1.LatencyStats{Count: 3, SumNs: 20, SumSquaresHigh: 1, SumSquaresLow: 5, MaxNs: 10, Distribution: cells(1, 2), Quantiles: quantiles}
	after := &enginev1.LatencyStats{Count: 8, SumNs: 80, SumSquaresHigh: 2, SumSquaresLow: 4, MaxNs: 20, Distribution: cells(1, 3, 4), Quantiles: quantiles}
	got := delaysBetween(before, after)
	if got.Count != 5 || got.SumNs != 60 || got.SumSquaresHigh != 0 || got.SumSquaresLow != 1<<64-1 || got.MinNs != 10 || got.MaxNs != 20 || got.Quantiles[0].Ns != 20 {
		t.Errorf("%+v", got)
	}
	if again := delaysBetween(after, after); again != nil {
		t.Errorf("%+v", again)
	}
	if got := delaysBetween(nil, after); got != after {
		t.Errorf("%+v", got)
	}
	if got := delaysBetween(after, before); got != nil {
		t.Errorf("a reading with fewer: %+v", got)
	}
}
