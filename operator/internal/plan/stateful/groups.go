// SPDX-License-Identifier: Apache-2.0

// Can clients that are served by different worker groups open the same connection?

package stateful

import (
	"bytes"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/ports"
	"spate.dev/operator/internal/plan/problem"
)

// CheckGroups reports entries with clients of the same addresses on ports of different worker groups. Workers of one group share the
// clients' ports out among them, and know nothing of those that another group takes.
func CheckGroups(entries []Entry, generator *spatev1.TrafficGenerator) (problems problem.Problems) {
	if generator == nil || len(generator.Spec.WorkerGroups) < 2 {
		return nil
	}
	groups := make([]*spatev1.WorkerGroup, len(entries)) // nil without clients
	for i := range entries {
		e := &entries[i]
		groups[i] = ports.Of(generator).Group(e.spec.TransmitPort)
		for j := range entries[:i] {
			other, own, others := &entries[j], groups[i], groups[j]
			if own == nil || others == nil || own == others || !e.collides(other) {
				continue
			}
			problems.Add(spatev1.ReasonInvalidSpec, e.sourceAt,
				"its clients at %s (worker group %s) have addresses of those of %s at %s (worker group %s), and could open the same connections: give the clients of each worker group pools of their own, or set portPairOffset of their pools",
				e.spec.TransmitPort, own.Name, other.At, other.spec.TransmitPort, others.Name)
			break
		}
	}
	return problems
}

// collides reports whether clients of both entries could open the same connection. What a capture's connection is like is not known here:
// engines look at it.
func (e *Entry) collides(other *Entry) bool {
	if e.Template == nil || other.Template == nil {
		return false // reported already
	}
	a, b := e.Template.Made, other.Template.Made
	return a.Capture == nil && b.Capture == nil && a.Protocol == b.Protocol && a.DestinationPort == b.DestinationPort &&
		overlap(e.Template.Clients, e.earlier, other.Template.Clients, other.earlier) &&
		overlap(e.Template.Servers, e.earlier, other.Template.Servers, other.earlier)
}

// overlap reports whether an address is in pools of both entries, each shifted as often as the entry needs.
func overlap(these []application.Pool, shift int, those []application.Pool, otherShift int) bool {
	for i := range these {
		a, ok := these[i].Shifted(shift)
		for j := range those {
			b, otherOK := those[j].Shifted(otherShift)
			if ok && otherOK && len(a.First) > 0 && len(a.First) == len(b.First) && bytes.Compare(a.First, b.Last) <= 0 && bytes.Compare(b.First, a.Last) <= 0 {
				return true
			}
		}
	}
	return false
}
