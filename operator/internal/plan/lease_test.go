// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
)

// A run that nothing else ends has a lease, so that engines end it without the operator.
func TestAnEndlessRunHasALeaseOfFiveMinutes(t *testing.T) {
	for name, c := range map[string]struct {
		duration, lease spatev1.Duration
		want            time.Duration
	}{
		"endless":               {"", "", 5 * time.Minute},
		"endless, with its own": {"", "30s", 30 * time.Second},
		"with a duration":       {"10s", "", 0},
		"with both":             {"10s", "30s", 30 * time.Second},
	} {
		p := profile(entryOf("a", "east", "west", streamOf("1pps", 100)))
		p.Spec.Duration = c.duration
		made := mustResolve(t, Input{Profile: p, Generator: generator(func(g *spatev1.TrafficGenerator) { g.Spec.Lease = c.lease })}).Plan(Identity{RunID: "r"})
		encoded, _, err := Encode(made)
		if err != nil {
			t.Fatal(err)
		}
		if sent, err := Decode(encoded); err != nil || sent.LeaseNs != uint64(c.want) {
			t.Errorf("%s: engines have a lease of %s, want %s (%v)", name, time.Duration(sent.GetLeaseNs()), c.want, err)
		}
	}
}

func TestAStatedBoundOfClocksIsInThePlan(t *testing.T) {
	p := profile(entryOf("a", "east", "west", streamOf("1pps", 100)))
	stating := func(bound spatev1.Duration) *spatev1.TrafficGenerator {
		return generator(func(g *spatev1.TrafficGenerator) { g.Spec.ClockBound = bound })
	}
	for bound, want := range map[spatev1.Duration]time.Duration{"": 0, "1us": time.Microsecond, "1s": time.Second} {
		if made := mustResolve(t, Input{Profile: p, Generator: stating(bound)}).Plan(Identity{RunID: "r"}); made.ClockBoundNs != uint64(want) {
			t.Errorf("%q: %d ns", bound, made.ClockBoundNs)
		}
		if problems := CheckGenerator(&stating(bound).Spec); len(problems) > 0 {
			t.Errorf("%q: %s", bound, problems.Message())
		}
	}
	for _, bound := range []spatev1.Duration{"0s", "1001ms", "soon"} {
		problems := CheckGenerator(&stating(bound).Spec)
		if len(problems) != 1 || !strings.Contains(problems.Message(), "spec.clockBound: ") || !strings.Contains(problems.Message(), "at most 1s") {
			t.Errorf("%q: %v", bound, problems)
		}
	}
}
