// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"math"
	"testing"
	"time"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/live/livev1"
)

func TestRatesAgeWithTheIntervalOfReadings(t *testing.T) {
	t.Parallel()
	for interval, limit := range map[time.Duration]int{time.Second: StaleAfter, 10 * time.Second: 10 * StaleAfter} {
		var b Board
		for n := range int64(2) {
			b.Add(Source{"a", "lab-0"}, &livev1.WatchStatsResponse{Engine: &enginev1.WatchStatsResponse{ReadAtNs: n * int64(interval)}})
		}
		rate := func() float64 { return b.Sources[0].PerSecond(100, 1100) }
		for range limit {
			if want := 1000 / interval.Seconds(); rate() != want {
				t.Fatalf("every %s: %v, want %v", interval, rate(), want)
			}
			b.Tick()
		}
		if b.Tick(); !math.IsNaN(rate()) {
			t.Errorf("every %s: %v after %d s without a reading", interval, rate(), limit+1)
		}
	}
}
