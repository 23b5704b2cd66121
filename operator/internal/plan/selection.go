// SPDX-License-Identifier: Apache-2.0

// Which streams does an entry with a selector stand for?

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/marks"
	"spate.dev/operator/internal/plan/stream"
)

// Selecting reports whether an entry of the profile has a selector.
func Selecting(profile *spatev1.TrafficProfile) bool {
	return slices.ContainsFunc(profile.Spec.Traffic, func(e spatev1.TrafficEntry) bool { return stream.Selector(&e) != nil })
}

// SelectedBy returns the streams that an entry selects, in the order of their names.
func SelectedBy(selector *spatev1.StreamSelector, streams map[string]*spatev1.StatelessStream) []*spatev1.StatelessStream {
	if len(selector.MatchLabels) == 0 {
		return nil // reported by checkSelectors
	}
	matches := labels.SelectorFromSet(selector.MatchLabels)
	var all []*spatev1.StatelessStream
	for _, s := range streams {
		if matches.Matches(labels.Set(s.Labels)) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *spatev1.StatelessStream) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// expanded is a profile in which each entry with a selector is replaced by an entry for each stream that it selects.
type expanded struct {
	*spatev1.TrafficProfile
	// from is the number of each entry in the original profile, and selected is true for those of a selector.
	from     []int
	selected []bool
}

// expand returns a copy of the profile; the profile itself if there are no selectors. Entries share what they refer to
// with the profile.
func expand(profile *spatev1.TrafficProfile, streams map[string]*spatev1.StatelessStream) expanded {
	all := expanded{TrafficProfile: profile}
	if !Selecting(profile) {
		for i := range profile.Spec.Traffic {
			all.from, all.selected = append(all.from, i), append(all.selected, false)
		}
		return all
	}
	copied := *profile
	copied.Spec.Traffic = nil
	for i := range profile.Spec.Traffic {
		e := &profile.Spec.Traffic[i]
		selector := stream.Selector(e)
		if selector == nil {
			copied.Spec.Traffic = append(copied.Spec.Traffic, *e)
			all.from, all.selected = append(all.from, i), append(all.selected, false)
			continue
		}
		for _, s := range SelectedBy(selector, streams) {
			one, sent := *e, *e.Stream
			sent.Selector, sent.Ref = nil, &spatev1.LocalReference{Name: spatev1.ObjectName(s.Name)}
			one.Name, one.Stream = spatev1.EntryName(s.Name), &sent
			copied.Spec.Traffic = append(copied.Spec.Traffic, one)
			all.from, all.selected = append(all.from, i), append(all.selected, true)
		}
	}
	all.TrafficProfile = &copied
	return all
}

// entryNames is the form of an entry's name, which names of selected streams must have: they are names in results.
var entryNames = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// mostMarks is the maximum number of marks of a run.
const mostMarks = 512

// selectors reports selectors that cannot be used, and names that the selected streams cannot have. incomplete are the
// numbers of the entries whose streams are not all there yet. It returns false if there are more streams than a plan has.
func (p checker) selectors(profile *spatev1.TrafficProfile, all expanded) (incomplete map[int]bool, ok bool) {
	incomplete = map[int]bool{}
	counts := make([]int, len(profile.Spec.Traffic))
	for i, from := range all.from {
		if all.selected[i] {
			counts[from]++
		}
	}
	total := 0
	for i := range profile.Spec.Traffic {
		e := &profile.Spec.Traffic[i]
		selector := stream.Selector(e)
		if selector == nil {
			continue
		}
		of := spec.Child("traffic").Index(i).Child("stream")
		at := of.Child("selector")
		p.ExactlyOne(of, oneSource, e.Stream.Ref != nil, e.Stream.Inline != nil, true)
		if !p.selector(selector, counts[i], profile.Namespace, at) {
			incomplete[i] = true
		}
		if e.Stream.Next != nil {
			p.Add(spatev1.ReasonInvalidSpec, of.Child("next"), "a chain is one of entries, and the selector stands for %d streams: leave next out, or name each stream by ref in an entry of its own", counts[i])
		}
		if e.Stream.Start == spatev1.StartWaiting {
			p.Add(spatev1.ReasonInvalidSpec, of.Child("start"), "a chain is one of entries, and the selector stands for %d streams: leave Waiting out, or name each stream by ref in an entry of its own", counts[i])
		}
		if total += counts[i]; total > mostStreams {
			p.Add(spatev1.ReasonInvalidSpec, at, "with it %d StatelessStreams are selected; at most %d streams can run at once: select fewer, or divide them over several profiles", total, mostStreams)
			return nil, false
		}
	}
	if total > 0 {
		p.names(profile, all)
	}
	return incomplete, true
}

// oneSource are the fields of which each entry with a stream has one.
const oneSource = "ref, inline and selector"

// selector reports what is wrong with one that selects `count` streams.
func (p checker) selector(selector *spatev1.StreamSelector, count int, namespace string, at *field.Path) (ok bool) {
	before := len(*p.Problems)
	defer func() { ok = len(*p.Problems) == before }()
	if len(selector.MatchLabels) == 0 {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("matchLabels"), "is required: the labels of the streams to send")
		return false
	}
	if _, err := labels.ValidatedSelectorFromSet(selector.MatchLabels); err != nil {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("matchLabels"), "%v", err)
		return false
	}
	written := labels.FormatLabels(selector.MatchLabels)
	switch {
	case selector.Count != nil && int(*selector.Count) != count:
		p.Add(spatev1.ReasonReferenceNotFound, at.Child("count"), "%d StatelessStreams in namespace %s have the labels %s, and count is %d: apply those that are missing, or correct count", count, namespace, written, *selector.Count)
	case count == 0:
		p.Add(spatev1.ReasonReferenceNotFound, at, "no StatelessStream in namespace %s has the labels %s", namespace, written)
	}
	return true
}

// names reports names that more than one stream or entry would have in results, and those that are no names of entries.
func (p checker) names(profile *spatev1.TrafficProfile, all expanded) {
	own := map[spatev1.EntryName]int{}
	for i := range profile.Spec.Traffic {
		own[profile.Spec.Traffic[i].Name] = i
	}
	by := map[spatev1.EntryName]int{}
	found := 0
	for i, from := range all.from {
		if !all.selected[i] {
			continue
		}
		name, at := all.Spec.Traffic[i].Name, spec.Child("traffic").Index(from).Child("stream", "selector")
		before := len(*p.Problems)
		if !entryNames.MatchString(string(name)) {
			p.Add(spatev1.ReasonInvalidSpec, at, "StatelessStream %q is selected, and its name cannot be one in results: name it with at most 63 lower-case letters, digits and '-'", name)
		}
		if other, taken := own[name]; taken {
			p.Add(spatev1.ReasonInvalidSpec, at, "StatelessStream %q is selected, and spec.traffic[%d] has its name: results need different ones; rename the entry or the stream", name, other)
		}
		if other, known := by[name]; known {
			p.Add(spatev1.ReasonInvalidSpec, at, "StatelessStream %q is selected by spec.traffic[%d] too: change the labels, so that it is selected once", name, other)
		}
		by[name] = from
		if len(*p.Problems) > before {
			if found++; found == mostReported {
				p.Add(spatev1.ReasonInvalidSpec, at, "names of further streams were not checked")
				return
			}
		}
	}
}

// mostReported is the number of selected streams of which problems are reported.
const mostReported = 20

// marked reports too many marks: a run has them in its status.
func (p checker) marked(entries []entry) {
	own, open := map[marks.Request]bool{}, 0
	for i := range entries {
		s := entries[i].stream
		switch {
		case s == nil || s.Mark == nil:
			continue
		case s.Mark.Number == 0: // the operator chooses one
			open += s.Results()
		default:
			own[*s.Mark] = true
		}
		if len(own)+open > mostMarks {
			p.Add(spatev1.ReasonInvalidSpec, entries[i].at, "more than %d streams have a measure.mark of their own: measure the others by measure.flow, or divide them over several profiles", mostMarks)
			return
		}
	}
}

// selections returns the selected streams of each entry with a selector, by a digest.
func selections(profile *spatev1.TrafficProfile, streams map[string]*spatev1.StatelessStream) []spatev1.SelectionSnapshot {
	var all []spatev1.SelectionSnapshot
	for i := range profile.Spec.Traffic {
		if selector := stream.Selector(&profile.Spec.Traffic[i]); selector != nil {
			all = append(all, Selection(profile.Spec.Traffic[i].Name, selector, streams))
		}
	}
	return all
}

// Selection returns what an entry selects of these streams, as a run has it in its status.
func Selection(entry spatev1.EntryName, selector *spatev1.StreamSelector, streams map[string]*spatev1.StatelessStream) spatev1.SelectionSnapshot {
	sum := sha256.New()
	selected := SelectedBy(selector, streams)
	for _, s := range selected {
		fmt.Fprintf(sum, "%s %s %d\n", s.Name, s.UID, s.Generation)
	}
	return spatev1.SelectionSnapshot{Entry: entry, Count: int32(len(selected)), Digest: hex.EncodeToString(sum.Sum(nil))}
}
