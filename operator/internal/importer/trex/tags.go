// SPDX-License-Identifier: Apache-2.0

// By which VLAN tags are TRex's tagged packet groups counted?

package trex

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/tags"
)

// allVLANs are the tags where none are named.
func allVLANs() *spatev1.MeasuredTags {
	end := int32(tags.MostVLAN)
	return &spatev1.MeasuredTags{VLANs: []spatev1.VLANRange{{Start: 1, End: &end}}}
}

// tagConfiguration is an item of the list of tags that TRex counts by.
type tagConfiguration struct {
	Type  string `json:"type"`
	Value struct {
		// VLAN of a packet with one tag.
		VLAN int32 `json:"vlan"`
		// VLANs of a packet with two, in the order in which the packet has them.
		VLANs []int32 `json:"vlans"`
	} `json:"value"`
}

// ParseTags reads the list of tags by which TRex counts tagged packet groups (`tpg_enable --tags`).
func ParseTags(data []byte) (*spatev1.MeasuredTags, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var all []tagConfiguration
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("this is no list of tags of TRex's tagged packet groups, such as [{\"type\": \"Dot1Q\", \"value\": {\"vlan\": 5}}]: %w", err)
	}
	type tag struct{ outer, vlan int32 }
	named := make([]tag, 0, len(all))
	for i, t := range all {
		switch {
		case t.Type == "Dot1Q" && t.Value.VLANs == nil:
			named = append(named, tag{0, t.Value.VLAN})
		case t.Type == "QinQ" && t.Value.VLAN == 0 && len(t.Value.VLANs) == 2:
			named = append(named, tag{t.Value.VLANs[0], t.Value.VLANs[1]})
		default:
			return nil, fmt.Errorf("tag %d: must be of type Dot1Q with a vlan, or QinQ with two vlans", i+1)
		}
	}
	slices.SortFunc(named, func(a, b tag) int { return cmp.Or(cmp.Compare(a.outer, b.outer), cmp.Compare(a.vlan, b.vlan)) })
	measured := &spatev1.MeasuredTags{}
	for len(named) > 0 {
		count := 1
		for count < len(named) && named[count] == (tag{named[0].outer, named[0].vlan + int32(count)}) {
			count++
		}
		r := spatev1.VLANRange{Start: named[0].vlan}
		if count > 1 {
			end := named[count-1].vlan
			r.End = &end
		}
		if named[0].outer == 0 {
			measured.VLANs = append(measured.VLANs, r)
		} else {
			measured.QinQ = append(measured.QinQ, spatev1.QinQRange{Outer: named[0].outer, Inner: r})
		}
		named = named[count:]
	}
	const mostRanges = 256
	if longest := max(len(measured.VLANs), len(measured.QinQ)); longest > mostRanges {
		return nil, fmt.Errorf("the tags are %d ranges of successive VLANs: name at most %d", longest, mostRanges)
	}
	if problems := tags.Check(measured, field.NewPath("tags")); len(problems) > 0 {
		return nil, errors.New(problems[0].Error())
	}
	return measured, nil
}

// byTag measures a tagged packet group. TRex writes no mark into its packets, and computes no checksum over what it writes into the payload.
func (in *importer) byTag(s *importedStream, m measured) {
	s.spec.Measure = spatev1.Measure{Flow: true, ByTag: in.options.Tags}
	if in.options.Tags == nil {
		s.spec.Measure.ByTag = allVLANs()
	}
	s.spec.Cache = 0     // TRex caches none of these either
	s.spec.Pinned = true // one sequence, as TRex has
	if m.hasIP {
		in.payloadChecksum(s, m)
	}
	in.tagged++
}

// noteTags adds a note on the tags, which TRex has apart from its profiles, and reports too many streams for all of them.
func (in *importer) noteTags() {
	switch {
	case in.tagged == 0 && in.options.Tags != nil:
		in.notes.add("no stream is a tagged packet group: nothing is counted by the tags of --tags")
		return
	case in.tagged == 0 || in.options.Tags != nil:
		return
	}
	const most = 1 << 18 / tags.MostVLAN // tags of all streams together
	if in.tagged > most {
		in.problems.errs = append(in.problems.errs, fmt.Errorf("%d streams cannot be counted by all %d VLANs, at most %d can: name the tags of the tagged packet groups with --tags", in.tagged, tags.MostVLAN, most))
	}
	in.notes.add("%d streams are tagged packet groups, whose tags TRex takes from another file: they are counted by VLANs 1 to %d, and packets with two tags as "+
		"`other`; name TRex's file of tags for the import to count by those", in.tagged, tags.MostVLAN)
}

// tpgid reads the number of a tagged packet group, which no other stream may have.
func (in *importer) tpgid(o *object, id uint64) {
	if slices.Contains(in.tpgids, id) {
		o.wrong("stream_id", "%d is the tagged packet group of another stream: each stream has one of its own", id)
	}
	in.tpgids = append(in.tpgids, id)
}
