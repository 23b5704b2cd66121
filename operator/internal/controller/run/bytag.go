// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how do the packets that all engines counted by VLAN tag become those of a result?

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/tags"
	"spate.dev/operator/internal/verdict"
)

// tag is an outer VLAN, 0 if there is none, and the inner one.
type tag struct{ outer, vlan uint32 }

// byTagOf sums up what engines counted of a stream by tag; nil if none did. Tags with successive identifiers and equal counters are together.
func byTagOf(reports []*enginev1.TagStats) map[string]spatev1.TagCounters {
	all := slices.DeleteFunc(slices.Clone(reports), func(r *enginev1.TagStats) bool { return r == nil })
	if len(all) == 0 {
		return nil
	}
	var untagged, other spatev1.TagCounters
	each := map[tag]spatev1.TagCounters{}
	for _, report := range all {
		untagged, other = plus(untagged, report.Untagged), plus(other, report.Other)
		for t, counters := range tagsOf(report) {
			each[t] = plus(each[t], counters)
		}
	}
	result := map[string]spatev1.TagCounters{tags.Untagged: untagged, tags.Other: other}
	var last tags.Range
	var counters spatev1.TagCounters
	put := func() {
		if last.First > 0 {
			result[last.String()] = counters
		}
	}
	order := func(a, b tag) int { return cmp.Or(cmp.Compare(a.outer, b.outer), cmp.Compare(a.vlan, b.vlan)) }
	for _, t := range slices.SortedFunc(maps.Keys(each), order) {
		if last.First > 0 && t.outer == last.Outer && t.vlan == last.Last+1 && each[t] == counters {
			last.Last = t.vlan
			continue
		}
		put()
		last, counters = tags.Range{Outer: t.outer, First: t.vlan, Last: t.vlan}, each[t]
	}
	put()
	return result
}

// tagsOf yields each tag of a report with its counters.
func tagsOf(report *enginev1.TagStats) iter.Seq2[tag, *enginev1.TagCounters] {
	return func(yield func(tag, *enginev1.TagCounters) bool) {
		for _, r := range report.GetRanges() {
			for vlan := r.GetTags().GetFirstVlan(); vlan <= r.GetTags().GetLastVlan(); vlan++ {
				if !yield(tag{r.GetTags().GetOuterVlan(), vlan}, r.Counters) {
					return
				}
			}
		}
	}
}

// tagsBetween returns what an engine counted of a stream by tag after an earlier reading, which may be absent.
func tagsBetween(before, after *enginev1.TagStats) *enginev1.TagStats {
	if before == nil || after == nil {
		return after
	}
	earlier := maps.Collect(tagsOf(before))
	out := &enginev1.TagStats{Untagged: minus(after.Untagged, before.Untagged), Other: minus(after.Other, before.Other)}
	for t, counters := range tagsOf(after) {
		of := &enginev1.TagRange{OuterVlan: t.outer, FirstVlan: t.vlan, LastVlan: t.vlan}
		out.Ranges = append(out.Ranges, &enginev1.TagRangeStats{Tags: of, Counters: minus(counters, earlier[t])})
	}
	return out
}

func minus(c, before *enginev1.TagCounters) *enginev1.TagCounters {
	return &enginev1.TagCounters{
		Packets: c.GetPackets() - before.GetPackets(), Bytes: c.GetBytes() - before.GetBytes(), Missing: c.GetMissing() - before.GetMissing(),
		SequenceGaps: c.GetSequenceGaps() - before.GetSequenceGaps(), Duplicates: c.GetDuplicates() - before.GetDuplicates(), OutOfOrder: c.GetOutOfOrder() - before.GetOutOfOrder(),
	}
}

func plus(sum spatev1.TagCounters, c *enginev1.TagCounters) spatev1.TagCounters {
	sum.Packets += int64(c.GetPackets())
	sum.Bytes += int64(c.GetBytes())
	sum.Missing += c.GetMissing()
	sum.SequenceGaps += int64(c.GetSequenceGaps())
	sum.Duplicates += int64(c.GetDuplicates())
	sum.OutOfOrder += int64(c.GetOutOfOrder())
	return sum
}

// tagsForThresholds returns the counters of each tag as expressions read them; nil if there are none.
func tagsForThresholds(byTag map[string]spatev1.TagCounters) map[string]verdict.Tag {
	if byTag == nil {
		return nil
	}
	all := make(map[string]verdict.Tag, len(byTag))
	for name, c := range byTag {
		tags.Each(name, func(tag string) {
			all[tag] = verdict.Tag{Packets: c.Packets, Bytes: c.Bytes, Missing: c.Missing, SequenceGaps: c.SequenceGaps, Duplicates: c.Duplicates, OutOfOrder: c.OutOfOrder}
		})
	}
	return all
}
