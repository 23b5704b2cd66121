// SPDX-License-Identifier: Apache-2.0

package top

import (
	"math"
	"testing"

	"spate.dev/operator/internal/engine/enginev1"
)

func TestNumbersHaveThreeSignificantDigits(t *testing.T) {
	for _, c := range []struct {
		format func(float64) string
		value  float64
		want   string
	}{
		{si, 0, "0"}, {si, 0.25, "0.2"}, {si, 12, "12"}, {si, 999.4, "999.4"}, {si, 999.6, "1.00k"}, {si, 99_800, "99.8k"}, {si, 1_488_095, "1.49M"}, {si, 9.996e9, "10.0G"}, {si, unknown, "-"},
		{count, 999_999, "999999"}, {count, 1_200_000, "1.20M"}, {percent, 0.8123, "81.2%"}, {percent, unknown, "-"},
		{nanoseconds, 12, "12ns"}, {nanoseconds, 31_500, "31.5us"}, {nanoseconds, 999_600, "1.00ms"}, {nanoseconds, 2.5e9, "2.50s"}, {nanoseconds, unknown, "-"},
	} {
		if got := c.format(c.value); got != c.want {
			t.Errorf("%v: %s, want %s", c.value, got, c.want)
		}
	}
	if got := sparkline([]float64{9, 0, unknown, 4, 8}, 4); got != "▁ ▅█" {
		t.Errorf("%q", got)
	}
}

func TestCountersOfSeveralEnginesAreOneRow(t *testing.T) {
	var b board
	for _, pod := range []string{"lab-1", "lab-0"} {
		for n := uint64(1); n <= 2; n++ {
			b.add(source{"imix", pod}, stats(n, func(s *enginev1.WatchStatsResponse) {
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
	var b board
	for n := uint64(1); n <= 2; n++ {
		b.add(source{"a", "lab-0"}, stats(n, nil))
		b.add(source{"b", "lab-0"}, stats(n+1, nil))
	}
	if ports, streams := portRows(&b), streamRows(&b); len(ports) != 2 || len(streams) != 4 || streams[0].id != "a/imix-64" || streams[3].id != "b/flood" {
		t.Errorf("%d ports, %d streams", len(ports), len(streams))
	}
	b.keep([]string{"b"})
	if streams := streamRows(&b); len(streams) != 2 || streams[0].id != "imix-64" {
		t.Errorf("%d streams", len(streams))
	}
}

func TestARateNeedsTwoReadingsOfOneEngine(t *testing.T) {
	var b board
	b.add(source{"a", "lab-0"}, stats(5, nil))
	if rows := portRows(&b); !math.IsNaN(rows[0].values[0]) || rows[0].values[8] != 3 || b.complete(source{"a", "lab-0"}) {
		t.Errorf("%v", rows[0].values)
	}
	b.add(source{"a", "lab-0"}, stats(6, func(s *enginev1.WatchStatsResponse) { s.Ports[0].TxPackets = 1 })) // it has started again
	if rows := portRows(&b); !math.IsNaN(rows[0].values[0]) || rows[1].values[0] != 500_000 || !b.complete(source{"a", "lab-0"}) {
		t.Errorf("%v, %v", rows[0].values, rows[1].values)
	}
}
