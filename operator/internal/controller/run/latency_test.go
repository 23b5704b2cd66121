// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

func TestLatencyOfSeveralEngines(t *testing.T) {
	if got := latencyOf(nil); got != nil {
		t.Errorf("got %+v of nothing", got)
	}
	if got := latencyOf([]*enginev1.LatencyStats{{}}); got != nil {
		t.Errorf("got %+v of no packets", got)
	}
	quantiles := func(median, most uint64) []*enginev1.Quantile {
		return []*enginev1.Quantile{{PartsPerMillion: 500000, Ns: median}, {PartsPerMillion: 999900, Ns: most}, {PartsPerMillion: 1, Ns: 9}}
	}
	// 10, 20 and 30, 40.
	got := latencyOf([]*enginev1.LatencyStats{
		{Count: 2, SumNs: 30, MinNs: 10, MaxNs: 20, JitterNs: 3, JitterSumNs: 10, JitterMaxNs: 10, SumSquaresLow: 500, Quantiles: quantiles(10, 20)},
		{Count: 2, SumNs: 70, MinNs: 30, MaxNs: 40, JitterNs: 2, JitterSumNs: 10, JitterMaxNs: 10, SumSquaresLow: 2500, Quantiles: quantiles(30, 40)},
	})
	want := spatev1.Latency{Count: 4, Min: 10, Mean: 25, Max: 40, Deviation: 11, P50: 30, P9999: 40, Jitter: 3, JitterMean: 5, JitterMax: 10}
	if got == nil || *got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	large := latencyOf([]*enginev1.LatencyStats{{Count: 4, SumNs: 1 << 42, MinNs: 1 << 40, MaxNs: 1 << 40, SumSquaresHigh: 1 << 18}})
	if large.Deviation != 0 || large.Mean != 1<<40 {
		t.Errorf("four times the same: %+v", large)
	}
	unknown := latencyOf([]*enginev1.LatencyStats{{OneWayUnknown: true, JitterNs: 5, JitterMaxNs: 8}})
	if unknown == nil || !unknown.OneWayUnknown || unknown.Count != 0 || unknown.Jitter != 5 {
		t.Errorf("got %+v", unknown)
	}
	if seen := times(unknown); len(seen) != 2 || seen["jitter"] != 5*time.Nanosecond {
		t.Errorf("expressions see %v", seen)
	}
	if seen := times(got); len(seen) != 14 || seen["p9999"] != 40*time.Nanosecond {
		t.Errorf("expressions see %v", seen)
	}
}

// TestPercentilesOfThreeEnginesAreThoseOfOneThatMeasuredAll compares with the engine's own numbers: the example is written by its code
// (engine/engine/src/control/latency.rs), which also checks that it is current.
func TestPercentilesOfThreeEnginesAreThoseOfOneThatMeasuredAll(t *testing.T) {
	text, err := os.ReadFile("testdata/distributions.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]struct {
		Engines  []json.RawMessage
		Together json.RawMessage
	}
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) < 5 {
		t.Fatal(len(cases), err)
	}
	read := func(t *testing.T, message []byte) *enginev1.LatencyStats {
		stats := &enginev1.LatencyStats{}
		if err := protojson.Unmarshal(message, stats); err != nil {
			t.Fatal(err)
		}
		return stats
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var engines, old []*enginev1.LatencyStats
			for _, message := range c.Engines {
				engines, old = append(engines, read(t, message)), append(old, read(t, message))
				old[len(old)-1].Distribution = nil
			}
			together := latencyOf([]*enginev1.LatencyStats{read(t, c.Together)})
			if got := latencyOf(engines); len(engines) != 3 || *got != *together {
				t.Errorf("of %d engines %+v\nof one       %+v", len(engines), *got, *together)
			}
			greatest := latencyOf(old)
			if greatest.P50 <= together.P50 || greatest.P9999 < together.P9999 {
				t.Errorf("the greatest of the engines' percentiles are %+v, those of all %+v", greatest, together)
			}
			// Another engine that received nothing changes nothing, and neither does one that received all.
			alone := latencyOf([]*enginev1.LatencyStats{{}, read(t, c.Together), {Distribution: &enginev1.Distribution{PrecisionBits: 1}}})
			if *alone != *together {
				t.Errorf("with idle engines %+v\nalone             %+v", *alone, *together)
			}
		})
	}
}

func TestLatenciesOfABrokenEngineAreBounded(t *testing.T) {
	broken := &enginev1.LatencyStats{
		Count: math.MaxUint64, SumNs: math.MaxUint64, MinNs: math.MaxUint64, MaxNs: math.MaxUint64, SumSquaresHigh: math.MaxUint64, JitterSumNs: math.MaxUint64,
		Quantiles:    []*enginev1.Quantile{{PartsPerMillion: 500000, Ns: math.MaxUint64}, {PartsPerMillion: math.MaxUint32, Ns: 1}},
		Distribution: &enginev1.Distribution{PrecisionBits: 10, Cells: []uint32{5, math.MaxUint32}, Counts: []uint64{math.MaxUint64, 1}},
	}
	right := &enginev1.LatencyStats{Count: 1, SumNs: math.MaxUint64, Distribution: &enginev1.Distribution{PrecisionBits: 10, Cells: []uint32{7}, Counts: []uint64{1}}}
	got := latencyOf([]*enginev1.LatencyStats{broken, right, broken})
	if got.Count != math.MaxInt64 || got.Max != math.MaxInt64 || got.P50 != math.MaxInt64 || got.P99 != 0 || got.Mean < 0 {
		t.Errorf("got %+v", got)
	}
	if got := latencyOf([]*enginev1.LatencyStats{right, {Count: 1, SumNs: math.MaxUint64}, right}); got.Mean < 0 {
		t.Errorf("got %+v", got)
	}
}

func TestReceiversOfSeveralEngines(t *testing.T) {
	r := admitted("g-0", "g-1")
	of := func(packets uint64, m *enginev1.Moments) *enginev1.WatchStatsResponse {
		return &enginev1.WatchStatsResponse{Receivers: []*enginev1.ReceiverStats{{
			Name: "tap", Packets: packets, Bytes: packets * 64, Workers: []*enginev1.WorkerReceived{{Worker: 1, Packets: packets}}, InterArrival: m,
		}}}
	}
	// 10, 20 and 30, 40.
	all := receivers([]*enginev1.WatchStatsResponse{
		of(3, &enginev1.Moments{Count: 2, MeanNs: 15, VarianceNs2: 25, MinNs: 10, MaxNs: 20}),
		of(4, &enginev1.Moments{Count: 2, MeanNs: 35, VarianceNs2: 25, MinNs: 30, MaxNs: 40}),
	}, r)
	tap := all["tap"]
	if len(all) != 1 || tap.Packets != 7 || tap.Bytes != 448 || len(tap.Workers) != 2 || tap.Workers[1].Pod != "g-1" || tap.Jitter != nil {
		t.Fatalf("got %+v", all)
	}
	if got, want := *tap.InterArrival, (spatev1.Moments{Count: 4, Mean: 25, Deviation: 11, Min: 10, Max: 40}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTimesForPeople(t *testing.T) {
	for ns, want := range map[spatev1.MeasuredTime]string{0: "0ns", 7: "7ns", 999: "999ns", 1000: "1us", 31456: "31.5us", 999999: "1ms", 1234567: "1.23ms", 2e9: "2s", 120e9: "120s"} {
		if got := humanReadable(ns); got != want {
			t.Errorf("%d: %s, want %s", ns, got, want)
		}
	}
	delays := []delay{{"a", &spatev1.Latency{Count: 1, P50: 10, P99: 2000, Max: 3000}}, {"b", nil}, {"c", &spatev1.Latency{Count: 1, P99: 1999}}}
	if got := worstLatency(delays); got != "a: p50 10ns, p99 2us, max 3us" {
		t.Errorf("got %s", got)
	}
	if got := worstLatency(delays[1:2]); got != "" {
		t.Errorf("got %s", got)
	}
}
