// SPDX-License-Identifier: Apache-2.0

// Package tags answers: by which VLAN tags are packets of a stream counted, and what are these called in results?
package tags

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/problem"
)

const (
	// Untagged is the name of packets without a tag.
	Untagged = "untagged"
	// Other is the name of packets with tags that the stream does not name.
	Other = "other"

	// mostTags of a stream, which an engine has too.
	mostTags = 4096
	// MostVLAN is the greatest identifier of a VLAN: 4095 is reserved (IEEE 802.1Q).
	MostVLAN = 4094
)

// Range are tags with successive identifiers, of packets with one tag, or with two of which the outer one is the same.
type Range struct {
	// Outer is the outer VLAN; 0 for packets with one tag.
	Outer uint32
	// First and Last are the inner, or only, VLANs.
	First, Last uint32
}

// String is the name of the tags in a result, such as 5, 6-4094 or 100/6-9.
func (r Range) String() string {
	name := strconv.FormatUint(uint64(r.First), 10)
	if r.Outer > 0 {
		name = strconv.FormatUint(uint64(r.Outer), 10) + "/" + name
	}
	if r.Last > r.First {
		name += "-" + strconv.FormatUint(uint64(r.Last), 10)
	}
	return name
}

// Parse reads what String returns.
func Parse(name string) (Range, bool) {
	outer, inner, two := strings.Cut(name, "/")
	if !two {
		outer, inner = "0", name
	}
	first, last, more := strings.Cut(inner, "-")
	if !more {
		last = first
	}
	var numbers [3]uint32
	for i, text := range []string{outer, first, last} {
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil || number > MostVLAN {
			return Range{}, false
		}
		numbers[i] = uint32(number)
	}
	return Range{numbers[0], numbers[1], numbers[2]}, true
}

// Each calls each with the name of every tag that a name in a result stands for.
func Each(name string, each func(string)) {
	r, ok := Parse(name)
	if !ok {
		each(name)
		return
	}
	for vlan := r.First; vlan <= r.Last; vlan++ {
		each(Range{r.Outer, vlan, vlan}.String())
	}
}

// Compare orders names in results: packets with one tag first, and those without a tag or with others last.
func Compare(a, b string) int {
	x, isX := Parse(a)
	y, isY := Parse(b)
	switch {
	case isX && isY:
		return cmp.Or(cmp.Compare(x.Outer, y.Outer), cmp.Compare(x.First, y.First))
	case isX:
		return -1
	case isY:
		return 1
	}
	return -cmp.Compare(a, b)
}

// ranges returns the tags in ascending order, packets with one tag first.
func ranges(m *spatev1.MeasuredTags) []Range {
	all := make([]Range, 0, len(m.VLANs)+len(m.QinQ))
	for _, v := range m.VLANs {
		all = append(all, rangeOf(0, v))
	}
	for _, q := range m.QinQ {
		all = append(all, rangeOf(q.Outer, q.Inner))
	}
	slices.SortFunc(all, func(a, b Range) int { return cmp.Or(cmp.Compare(a.Outer, b.Outer), cmp.Compare(a.First, b.First)) })
	return all
}

func rangeOf(outer int32, v spatev1.VLANRange) Range {
	r := Range{uint32(outer), uint32(v.Start), uint32(v.Start)}
	if v.End != nil {
		r.Last = uint32(*v.End)
	}
	return r
}

// Check reports what is wrong with a stream's tags.
func Check(m *spatev1.MeasuredTags, at *field.Path) (problems problem.Problems) {
	vlan := func(number int32, at *field.Path) {
		if number < 1 || number > MostVLAN {
			problems.Add(spatev1.ReasonInvalidSpec, at, "%d: must be 1 to %d", number, MostVLAN)
		}
	}
	within := func(r *spatev1.VLANRange, at *field.Path) {
		vlan(r.Start, at.Child("start"))
		if r.End == nil {
			return
		}
		vlan(*r.End, at.Child("end"))
		if *r.End < r.Start {
			problems.Add(spatev1.ReasonInvalidSpec, at.Child("end"), "%d: must not be below start, %d", *r.End, r.Start)
		}
	}
	for i := range m.VLANs {
		within(&m.VLANs[i], at.Child("vlans").Index(i))
	}
	for i := range m.QinQ {
		vlan(m.QinQ[i].Outer, at.Child("qinq").Index(i).Child("outer"))
		within(&m.QinQ[i].Inner, at.Child("qinq").Index(i).Child("inner"))
	}
	if len(problems) > 0 {
		return problems
	}
	count, last := 0, Range{}
	for _, r := range ranges(m) {
		count += int(r.Last - r.First + 1)
		if r.Outer == last.Outer && r.First <= last.Last {
			problems.Add(spatev1.ReasonInvalidSpec, at, "%s and %s have tags in common: name each tag once", last, r)
			return problems
		}
		last = r
	}
	if count > mostTags {
		problems.Add(spatev1.ReasonInvalidSpec, at, "%d tags: name at most %d; packets with others are counted as %q", count, mostTags, Other)
	}
	return problems
}

// Plan returns the tags for engines; nil without any.
func Plan(m *spatev1.MeasuredTags) *enginev1.ByTag {
	if m == nil {
		return nil
	}
	by := &enginev1.ByTag{}
	for _, r := range ranges(m) {
		by.Ranges = append(by.Ranges, &enginev1.TagRange{OuterVlan: r.Outer, FirstVlan: r.First, LastVlan: r.Last})
	}
	return by
}

// Names returns the names under which a stream's packets are counted, one for each tag; nil if they are not counted by tag.
func Names(m *spatev1.MeasuredTags) []string {
	if m == nil {
		return nil
	}
	names := []string{Untagged, Other}
	for _, r := range ranges(m) {
		Each(r.String(), func(name string) { names = append(names, name) })
	}
	return names
}
