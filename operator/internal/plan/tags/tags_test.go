// SPDX-License-Identifier: Apache-2.0

package tags

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

func vlans(start, end int32) spatev1.VLANRange {
	return spatev1.VLANRange{Start: start, End: ptr.To(end)}
}

func TestTagsAreNamedInAscendingOrder(t *testing.T) {
	tags := &spatev1.MeasuredTags{
		VLANs: []spatev1.VLANRange{{Start: 20}, vlans(1, 2)},
		QinQ:  []spatev1.QinQRange{{Outer: 100, Inner: vlans(7, 8)}, {Outer: 9, Inner: spatev1.VLANRange{Start: 4094}}},
	}
	if problems := Check(tags, field.NewPath("byTag")); len(problems) > 0 {
		t.Fatal(problems)
	}
	want := []string{"untagged", "other", "1", "2", "20", "9/4094", "100/7", "100/8"}
	if got := Names(tags); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var planned []string
	for _, r := range Plan(tags).Ranges {
		planned = append(planned, Range{r.OuterVlan, r.FirstVlan, r.LastVlan}.String())
	}
	if want := []string{"1-2", "20", "9/4094", "100/7-8"}; !slices.Equal(planned, want) {
		t.Errorf("the plan has %v, want %v", planned, want)
	}
	if Plan(nil) != nil || Names(nil) != nil {
		t.Error("a stream without tags has some")
	}
}

func TestNamesOfResultsStandForTags(t *testing.T) {
	for name, want := range map[string][]string{
		"5": {"5"}, "5-7": {"5", "6", "7"}, "100/7": {"100/7"}, "100/7-8": {"100/7", "100/8"}, "untagged": {"untagged"}, "other": {"other"},
	} {
		var got []string
		Each(name, func(tag string) { got = append(got, tag) })
		if !slices.Equal(got, want) {
			t.Errorf("%s stands for %v, want %v", name, got, want)
		}
	}
}

func TestNamesOfResultsAreInTheOrderOfTags(t *testing.T) {
	names := []string{"other", "100/2-9", "20", "untagged", "100/1", "9-19", "11/5"}
	slices.SortFunc(names, Compare)
	if want := []string{"9-19", "20", "11/5", "100/1", "100/2-9", "untagged", "other"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestWrongTagsAreRefusedWithTheRemedy(t *testing.T) {
	for name, c := range map[string]struct {
		tags spatev1.MeasuredTags
		want string
	}{
		"zero":       {spatev1.MeasuredTags{VLANs: []spatev1.VLANRange{{Start: 0}}}, "byTag.vlans[0].start: 0: must be 1 to 4094"},
		"reserved":   {spatev1.MeasuredTags{VLANs: []spatev1.VLANRange{vlans(1, 4095)}}, "byTag.vlans[0].end: 4095: must be 1 to 4094"},
		"backwards":  {spatev1.MeasuredTags{VLANs: []spatev1.VLANRange{vlans(9, 8)}}, "byTag.vlans[0].end: 8: must not be below start, 9"},
		"outer":      {spatev1.MeasuredTags{QinQ: []spatev1.QinQRange{{Outer: 4095, Inner: vlans(1, 1)}}}, "byTag.qinq[0].outer: 4095: must be 1 to 4094"},
		"inner":      {spatev1.MeasuredTags{QinQ: []spatev1.QinQRange{{Outer: 1, Inner: vlans(0, 1)}}}, "byTag.qinq[0].inner.start: 0: must be 1 to 4094"},
		"twice":      {spatev1.MeasuredTags{VLANs: []spatev1.VLANRange{vlans(5, 9), {Start: 9}}}, "byTag: 5-9 and 9 have tags in common: name each tag once"},
		"twice QinQ": {spatev1.MeasuredTags{QinQ: []spatev1.QinQRange{{Outer: 1, Inner: vlans(5, 9)}, {Outer: 1, Inner: vlans(1, 5)}}}, "byTag: 1/1-5 and 1/5-9 have tags in common"},
		"too many":   {spatev1.MeasuredTags{VLANs: []spatev1.VLANRange{vlans(1, 4094)}, QinQ: []spatev1.QinQRange{{Outer: 1, Inner: vlans(1, 3)}}}, "byTag: 4097 tags: name at most 4096"},
	} {
		t.Run(name, func(t *testing.T) {
			problems := Check(&c.tags, field.NewPath("byTag"))
			if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), c.want) {
				t.Errorf("got %v, want %s", problems, c.want)
			}
		})
	}
}
