// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"testing"
)

func TestRecoveryIsTheTimeFromTheReductionToTheLastLoss(t *testing.T) {
	m, err := NewRecovery(Recovery{Max: 2000, Throughput: 1000, Overload: 1.1, Duration: 60, After: 30, Repeats: 2})
	if err != nil {
		t.Fatal(err)
	}
	var trials []Trial
	for i, last := range []float64{62.5, 0} { // the second loses nothing
		want, done, err := m.Next(trials)
		if err != nil || done != nil || math.Abs(want.Load-1100) > 1e-9 || want.Duration != 90 || want.Overload != 60 {
			t.Fatalf("%+v %+v %v", want, done, err)
		}
		trials = append(trials, Trial{Number: i + 1, Input: *want, Intended: 100, Sent: 100, Lost: 3, LastLoss: last, Valid: true})
	}
	_, done, err := m.Next(trials)
	if err != nil || done.Recovery == nil || done.Recovery.Mean != 1.25 || done.Recovery.Greatest != 2.5 || done.Reason != Found {
		t.Errorf("%+v %v", done, err)
	}
	trials[1].LastLoss = 89
	if _, done, _ = m.Next(trials); done.Reason != MinLoadFails {
		t.Errorf("a device that has not recovered: %+v", done)
	}
	trials[1].Overload = 30
	if _, _, err = m.Next(trials); err == nil {
		t.Error("a trial of another overload was accepted")
	}
	if m, _ = NewRecovery(Recovery{Max: 1050, Throughput: 1000, Overload: 1.1, Duration: 60, After: 30, Repeats: 1}); m != nil {
		if want, _, _ := m.Next(nil); want.Load != 1050 {
			t.Errorf("%+v is above the maximum load", want)
		}
	}
	if _, err := NewRecovery(Recovery{Max: 2000, Throughput: 1000, Overload: 1, Duration: 0, After: 30, Repeats: 0}); err == nil {
		t.Error("accepted")
	}
}
