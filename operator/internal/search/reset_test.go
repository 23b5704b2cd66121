// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"testing"
)

func TestAResetTakesAsLongAsNothingArrives(t *testing.T) {
	m, err := NewReset(Reset{Max: 2000, Throughput: 1000, Duration: 100, Repeats: 2})
	if err != nil {
		t.Fatal(err)
	}
	var trials []Trial
	for i, outage := range []float64{20, 30} {
		want, done, err := m.Next(trials)
		if err != nil || done != nil || *want != (Input{Load: 1000, Duration: 100}) {
			t.Fatalf("%+v %+v %v", want, done, err)
		}
		trials = append(trials, Trial{Number: i + 1, Input: *want, Intended: 100000, Sent: 100000, Lost: int64(outage*1000) + 500, Outage: outage, OutageAt: 40, Valid: true})
	}
	_, done, err := m.Next(trials)
	if err != nil || done.Reset == nil || done.Reset.Mean != 25 || done.Reset.Greatest != 30 || math.Abs(done.Reset.ByLoss-25.5) > 1e-9 || done.Reason != Found {
		t.Errorf("%+v %v", done, err)
	}
	for reason, change := range map[Reason]func(*Trial){
		NothingLost:      func(t *Trial) { t.Lost, t.Outage = 0, 0.001 },
		NotRecovered:     func(t *Trial) { t.SilentAtEnd = true },
		TooEarly:         func(t *Trial) { t.OutageAt = 0 },
		GeneratorLimited: func(t *Trial) { t.Intended++ },
	} {
		changed := append([]Trial{}, trials...)
		change(&changed[1])
		if _, done, err := m.Next(changed); err != nil || done.Reason != reason || done.Reset.Reason != reason {
			t.Errorf("%s: %+v %v", reason, done, err)
		}
	}
	if _, err := NewReset(Reset{Max: 2000, Throughput: 0, Duration: 0, Repeats: 0}); err == nil {
		t.Error("accepted")
	}
}
