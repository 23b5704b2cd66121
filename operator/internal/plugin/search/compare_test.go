// SPDX-License-Identifier: Apache-2.0

package search

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/output"
)

// repeated is a search that has found these lower bounds.
func repeated(name, variant string, lower ...string) *spatev1.TrafficSearch {
	s := &spatev1.TrafficSearch{}
	n := int32(len(lower))
	s.Name, s.Spec.Repeats = name, &n
	v := spatev1.SearchVariant{Name: variant, Unit: spatev1.UnitPackets, Outcome: spatev1.VerdictPassed, Result: spatev1.SearchResult{Goals: []spatev1.GoalResult{{Name: "ndr", Regular: true, Lower: lower[0]}}}}
	if n > 1 {
		for _, load := range lower {
			v.Repeats = append(v.Repeats, spatev1.SearchRepeat{Goals: []spatev1.RepeatedGoal{{Name: "ndr", Regular: load != "", Lower: load}}})
		}
	}
	s.Status.Variants = []spatev1.SearchVariant{v}
	return s
}

func TestSearchesAreComparedByTheirRepeats(t *testing.T) {
	for _, c := range []struct {
		first, second *spatev1.TrafficSearch
		want          []string
	}{
		{
			repeated("before", "64", "1000", "1010", "1020", "1030"), repeated("after", "64", "1100", "1110", "1120", "1130"),
			[]string{"Lower bounds of before and after: Mann-Whitney U, two-sided", "64      ndr   4, 4     1015.000      1115.000  +9.85%  0  0.0286  yes"},
		},
		{
			repeated("before", "64", "1000", "1010", "1020", "1030"), repeated("after", "64", "1005", "1015", "1025", "1035"),
			[]string{"64      ndr   4, 4     1015.000      1020.000  +0.49%  6  0.6857  no"},
		},
		{repeated("before", "64", "1000", "1010"), repeated("after", "64", "1100", "1110"), []string{"0.3333  needs 4 repeats of each"}},
		{repeated("before", "64", "1000"), repeated("after", "64", "1100"), []string{"1, 1", "+10.00%", "needs 4 repeats of each"}},
		{repeated("before", "64", "", "", "", ""), repeated("after", "64", "1", "2", "3", "4"), []string{"0.000         2.500   -      0  0.0286  yes", "64: goal ndr is irregular in 4 of 4 repeats of before"}},
	} {
		all, err := compare(c.first, c.second)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := writeComparison(&out, all, false); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, out.String())
			}
		}
		out.Reset()
		var read []compared
		if err := output.WriteDocument(&out, output.JSON, shown(all).Document); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out.Bytes(), &read); err != nil || len(read) != 1 || read[0].P != all[0].P || read[0].Test != "Mann-Whitney U, two-sided" || len(read[0].First.Lower) != len(all[0].First.Lower) {
			t.Errorf("%v: %s", err, out.String())
		}
		out.Reset()
		var form output.Flag
		form.Choose(output.CSV)
		if err := form.Write(&out, shown(all)); err != nil || !strings.HasPrefix(out.String(), "variant,goal,unit,first.search,first.lower,first.median") {
			t.Errorf("%v: %s", err, out.String())
		}
		out.Reset()
		if err := writeComparison(&out, all, true); err != nil || !strings.Contains(out.String(), "  FIRST LOWER") {
			t.Errorf("%v: %s", err, out.String())
		}
	}
	other := repeated("after", "64", "5")
	other.Status.Variants[0].Unit = spatev1.UnitConnections
	for want, second := range map[string]*spatev1.TrafficSearch{
		"have no variant and goal with results in common: before has 64 ndr, after has 1518 ndr": repeated("after", "1518", "5"),
		"loads of search before are in pps, those of after in cps":                               other,
	} {
		if _, err := compare(repeated("before", "64", "5"), second); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
