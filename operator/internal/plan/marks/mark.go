// SPDX-License-Identifier: Apache-2.0

// Package marks answers: which marks identify streams' packets on arrival?
package marks

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/problem"
)

const (
	mostIPv4Mark = 1<<16 - 1
	mostIPv6Mark = 1<<20 - 1
)

// Request is a mark that a stream requests.
type Request struct {
	IPv6 bool
	// Number of the mark; 0 if it is to be chosen.
	Number uint32
}

// Marks are the numbers that identify packets, in each of the two fields.
type Marks struct {
	IPv4Identification, IPv6FlowLabel []uint32
}

// Check reports what is wrong with a mark.
func Check(m *spatev1.Mark, at *field.Path) (problems problem.Problems) {
	check := func(text, name string, most uint64) {
		number, err := strconv.ParseUint(text, 10, 32)
		if text != spatev1.MarkAuto && (err != nil || number < 1 || number > most) {
			problems.Add(spatev1.ReasonInvalidSpec, at.Child(name), "%q: must be 1 to %d, or auto", text, most)
		}
	}
	switch {
	case (m.IPv4Identification != nil) == (m.IPv6FlowLabel != nil):
		problems.Add(spatev1.ReasonInvalidSpec, at, "set exactly one of ipv4Identification and ipv6FlowLabel")
	case m.IPv4Identification != nil:
		check(string(*m.IPv4Identification), "ipv4Identification", mostIPv4Mark)
	default:
		check(string(*m.IPv6FlowLabel), "ipv6FlowLabel", mostIPv6Mark)
	}
	return problems
}

// Requested reads a mark that was checked.
func Requested(m *spatev1.Mark) *Request {
	switch {
	case m == nil:
		return nil
	case m.IPv4Identification != nil:
		number, _ := strconv.ParseUint(string(*m.IPv4Identification), 10, 32)
		return &Request{Number: uint32(number)}
	case m.IPv6FlowLabel != nil:
		number, _ := strconv.ParseUint(string(*m.IPv6FlowLabel), 10, 32)
		return &Request{IPv6: true, Number: uint32(number)}
	}
	return nil
}

// Choose returns a number for every mark that requests leave open, in their order; nil requests none. Numbers that
// are taken, and those that requests set themselves, are not chosen. The search continues after `start`, so that a
// number is reused late.
func Choose(requests []*Request, taken Marks, start uint32) (Marks, error) {
	for _, mark := range requests {
		if mark != nil && mark.Number != 0 {
			taken = taken.With(mark.IPv6, mark.Number)
		}
	}
	var chosen Marks
	for _, mark := range requests {
		if mark == nil || mark.Number != 0 {
			continue
		}
		used, most, name := taken.IPv4Identification, uint32(mostIPv4Mark), "IPv4 identifications"
		if mark.IPv6 {
			used, most, name = taken.IPv6FlowLabel, mostIPv6Mark, "IPv6 flow labels"
		}
		number := uint32(0)
		for i := range most {
			if candidate := (start+i)%most + 1; !slices.Contains(used, candidate) {
				number = candidate
				break
			}
		}
		if number == 0 {
			return Marks{}, fmt.Errorf("all %d %s that could mark a stream are in use", most, name)
		}
		taken, chosen = taken.With(mark.IPv6, number), chosen.With(mark.IPv6, number)
	}
	return chosen, nil
}

// With returns the marks and one more.
func (m Marks) With(ipv6 bool, number uint32) Marks {
	if ipv6 {
		m.IPv6FlowLabel = append(slices.Clip(m.IPv6FlowLabel), number)
	} else {
		m.IPv4Identification = append(slices.Clip(m.IPv4Identification), number)
	}
	return m
}

// Of returns all marks in a plan.
func Of(plan *enginev1.Plan) Marks {
	var all Marks
	for _, s := range plan.GetStreams() {
		switch mark := s.GetMeasure().GetMark().GetField().(type) {
		case *enginev1.Mark_Ipv4Identification:
			if !slices.Contains(all.IPv4Identification, mark.Ipv4Identification) {
				all = all.With(false, mark.Ipv4Identification)
			}
		case *enginev1.Mark_Ipv6FlowLabel:
			if !slices.Contains(all.IPv6FlowLabel, mark.Ipv6FlowLabel) {
				all = all.With(true, mark.Ipv6FlowLabel)
			}
		}
	}
	return all
}

// Take returns the mark for the plan: the one requested, or the next of those chosen.
func (m *Marks) Take(request *Request) *enginev1.Mark {
	if request == nil {
		return nil
	}
	number := request.Number
	if request.IPv6 {
		if number == 0 {
			number, m.IPv6FlowLabel = m.IPv6FlowLabel[0], m.IPv6FlowLabel[1:]
		}
		return &enginev1.Mark{Field: &enginev1.Mark_Ipv6FlowLabel{Ipv6FlowLabel: number}}
	}
	if number == 0 {
		number, m.IPv4Identification = m.IPv4Identification[0], m.IPv4Identification[1:]
	}
	return &enginev1.Mark{Field: &enginev1.Mark_Ipv4Identification{Ipv4Identification: number}}
}
