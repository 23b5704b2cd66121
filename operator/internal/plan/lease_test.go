// SPDX-License-Identifier: Apache-2.0

package plan

import (
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
