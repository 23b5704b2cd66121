// SPDX-License-Identifier: Apache-2.0

package top

import (
	"math"
	"testing"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plugin/counters"
	"spate.dev/operator/internal/plugin/figures"
)

func TestASparklineLeavesOutWhatIsUnknown(t *testing.T) {
	if got := sparkline([]float64{9, 0, figures.Unknown, 4, 8}, 4); got != "▁ ▅█" {
		t.Errorf("%q", got)
	}
}

func TestCountersOfSeveralEnginesAreOneRow(t *testing.T) {
	var b counters.Board
	for _, pod := range []string{"lab-1", "lab-0"} {
		for n := uint64(1); n <= 2; n++ {
			b.Add(counters.Source{Run: "imix", Pod: pod}, stats(n, func(s *enginev1.WatchStatsResponse) {
				if pod == "lab-1" {
					s.Streams[0].Measured.Latency.Quantiles[3].Ns = 99_000
				}
			}))
		}
	}
	rows := streamRows(&b)
	if len(rows) != 2 || rows[0].id != "imix-64" {
		t.Fatalf("%d rows", len(rows))
	}
	if v := rows[0].values; v[0] != 2_000_000 || v[1] != 1_999_976 || math.Round(v[3]) != 12 || v[4] != 9_870 || v[5] != 99_000 || v[7] != 4 {
		t.Errorf("%v", v)
	}
	if v := rows[1].values; !math.IsNaN(v[3]) || v[9] != 8 {
		t.Errorf("what is not measured on arrival has no loss: %v", v)
	}
	if rows := templateRows(&b); len(rows) != 2 || rows[0].values[0] != 24_000 || rows[0].values[2] != 12 || rows[1].values[2] != 0 {
		t.Errorf("%v", rows[0].values)
	}
	if ports, workers := portRows(&b), workerRows(&b); len(ports) != 4 || ports[2].id != "lab-1/east" || len(workers) != 4 || workers[1].texts[1] != "east:rx west" {
		t.Errorf("%d ports, %d workers", len(ports), len(workers))
	}
	if rows := latencyRows(&b); len(rows) != 6 || rows[0].id != "lab-0 imix-64 delay" {
		t.Errorf("%d rows", len(rows))
	}
}

func TestRunsOnOneEngineShareItsPorts(t *testing.T) {
	var b counters.Board
	for n := uint64(1); n <= 2; n++ {
		b.Add(counters.Source{Run: "a", Pod: "lab-0"}, stats(n, nil))
		b.Add(counters.Source{Run: "b", Pod: "lab-0"}, stats(n+1, nil))
	}
	if ports, streams := portRows(&b), streamRows(&b); len(ports) != 2 || len(streams) != 4 || streams[0].id != "a/imix-64" || streams[3].id != "b/flood" {
		t.Errorf("%d ports, %d streams", len(ports), len(streams))
	}
	b.Keep([]string{"b"})
	if streams := streamRows(&b); len(streams) != 2 || streams[0].id != "imix-64" {
		t.Errorf("%d streams", len(streams))
	}
}

func TestARateNeedsTwoReadingsOfOneEngine(t *testing.T) {
	var b counters.Board
	b.Add(counters.Source{Run: "a", Pod: "lab-0"}, stats(5, nil))
	if rows := portRows(&b); !math.IsNaN(rows[0].values[0]) || rows[0].values[8] != 3 || b.Complete(counters.Source{Run: "a", Pod: "lab-0"}) {
		t.Errorf("%v", rows[0].values)
	}
	b.Add(counters.Source{Run: "a", Pod: "lab-0"}, stats(6, func(s *enginev1.WatchStatsResponse) { s.Ports[0].TxPackets = 1 })) // it has started again
	if rows := portRows(&b); !math.IsNaN(rows[0].values[0]) || rows[1].values[0] != 500_000 || !b.Complete(counters.Source{Run: "a", Pod: "lab-0"}) {
		t.Errorf("%v, %v", rows[0].values, rows[1].values)
	}
}
