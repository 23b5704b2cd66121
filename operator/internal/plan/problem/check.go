// SPDX-License-Identifier: Apache-2.0

// Is the value of a single field valid, and which one is set of several?

package problem

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

// ExactlyOne reports whether exactly one of some fields is set, and adds a problem with their names otherwise.
func (p *Problems) ExactlyOne(at *field.Path, names string, set ...bool) bool {
	count := 0
	for _, one := range set {
		if one {
			count++
		}
	}
	if count != 1 {
		p.Add(spatev1.ReasonInvalidSpec, at, "set exactly one of %s", names)
	}
	return count == 1
}

// AtLeastOne adds a problem if a number is less than 1.
func (p *Problems) AtLeastOne(value int64, at *field.Path) {
	if value < 1 {
		p.Add(spatev1.ReasonInvalidSpec, at, "%d: must be at least 1", value)
	}
}

// Bounded adds a problem if a number is out of bounds.
func (p *Problems) Bounded(value, least, most int64, at *field.Path) {
	if value < least || value > most {
		p.Add(spatev1.ReasonInvalidSpec, at, "%d: must be %d to %d", value, least, most)
	}
}

// Setting reads a number within bounds; 0 when absent.
func (p *Problems) Setting(value *int32, least, most int64, at *field.Path) uint32 {
	if value == nil {
		return 0
	}
	p.Bounded(int64(*value), least, most, at)
	return uint32(*value)
}

// Count reads a number of at least 1; 0 when absent.
func (p *Problems) Count(number *int64, at *field.Path) uint64 {
	if number == nil {
		return 0
	}
	p.AtLeastOne(*number, at)
	return uint64(*number)
}

// Duration reads a time in nanoseconds; 0 when absent.
func (p *Problems) Duration(text spatev1.Duration, at *field.Path) uint64 {
	if text == "" {
		return 0
	}
	value, err := text.Parse()
	if err != nil || value < 0 {
		p.Add(spatev1.ReasonInvalidSpec, at, "%q must be a duration such as 500ms, 10s or 1m30s", text)
		return 0
	}
	return uint64(value)
}

// SomeTime reads a time that cannot be zero in the contract; 0 when absent.
func (p *Problems) SomeTime(text spatev1.Duration, at *field.Path) uint64 {
	value := p.Duration(text, at)
	if text != "" && value == 0 {
		p.Add(spatev1.ReasonInvalidSpec, at, "must be greater than zero; leave it out for the engine's default")
	}
	return value
}
