// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: do the repeats of two searches differ?

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/search/repeats"
)

// shown is what two searches found, in every form.
func shown(all []compared) output.Shown {
	return output.Shown{
		Document: all, Lists: []output.List{{Name: "goal", Objects: all}},
		Tables: func(w io.Writer, wide bool) error { return writeComparison(w, all, wide) },
	}
}

// newCompareCommand returns `search compare`.
func newCompareCommand() *cobra.Command {
	var flags cluster.Flags
	var form output.Flag
	c := &cobra.Command{
		Use:   "compare SEARCH OTHER",
		Short: "Compare the repeats of two searches by a significance test",
		Long: `Compares the lower bounds that two TrafficSearches found in their repeats (spec.repeats), for each variant and goal that both have: the medians, the shift
from the first to the second, and whether the difference is more than chance, by a two-sided Mann-Whitney U test, which assumes no distribution. It is
exact. Of fewer than 4 repeats each, no difference can be significant at the level of 0.05. A repeat without a lower bound counts as 0.
-o wide adds the lower bounds themselves.`,
		Example: `  kubectl spate search compare router-before router-after
  kubectl spate search compare router-before router-after -o json | jq '.[] | select(.differ)'`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: flags.Complete(2, cluster.Searches),
		RunE: func(c *cobra.Command, args []string) error {
			if err := form.Check(); err != nil {
				return err
			}
			connection, err := flags.Connect()
			if err != nil {
				return err
			}
			found := func(ctx context.Context, name string) (*spatev1.TrafficSearch, error) {
				return find(ctx, connection.Client, connection.Namespace, name)
			}
			first, err := found(c.Context(), args[0])
			second, other := found(c.Context(), args[1])
			if err := errors.Join(err, other); err != nil {
				return err
			}
			all, err := compare(first, second)
			if err != nil {
				return err
			}
			return form.Write(c.OutOrStdout(), shown(all))
		},
	}
	flags.Add(c)
	form.Add(c)
	return c
}

// compared is a goal of a variant in two searches.
type compared struct {
	Variant string           `json:"variant"`
	Goal    string           `json:"goal"`
	Unit    spatev1.LoadUnit `json:"unit"`
	First   set              `json:"first"`
	Second  set              `json:"second"`
	// Shift of the median in percent; absent if the first is 0.
	Shift *float64 `json:"shiftPercent,omitempty"`
	Test  string   `json:"test"`
	U     float64  `json:"u"`
	P     float64  `json:"p"`
	// Differ: p is below 0.05.
	Differ bool `json:"differ"`
	// Needed is the number of repeats that each search needs for p to be able to fall below 0.05; 0 if it has these.
	Needed int `json:"neededRepeats,omitempty"`
}

// set are the lower bounds that a search found.
type set struct {
	Search string    `json:"search"`
	Lower  []float64 `json:"lower"`
	Median float64   `json:"median"`
	// Irregular is the number of repeats with an irregular result.
	Irregular int `json:"irregular,omitempty"`
}

// compare compares the goals that two searches have in common. An error says why there is none.
func compare(first, second *spatev1.TrafficSearch) (all []compared, err error) {
	for _, v := range first.Status.Variants {
		at := slices.IndexFunc(second.Status.Variants, func(w spatev1.SearchVariant) bool { return w.Name == v.Name })
		if at < 0 {
			continue
		}
		w := second.Status.Variants[at]
		for _, goal := range v.Result.Goals {
			a, b := setOf(first, &v, goal.Name), setOf(second, &w, goal.Name)
			if len(a.Lower) == 0 || len(b.Lower) == 0 {
				continue
			}
			if v.Unit != w.Unit {
				return nil, fmt.Errorf("variant %s: loads of search %s are in %s, those of %s in %s", v.Name, first.Name, v.Unit, second.Name, w.Unit)
			}
			test, err := repeats.Compare(a.Lower, b.Lower)
			if err != nil {
				return nil, err
			}
			c := compared{Variant: v.Name, Goal: string(goal.Name), Unit: v.Unit, First: a, Second: b, Test: repeats.TestName, U: test.U, P: test.P, Differ: test.Differ(), Needed: test.Needed}
			if !math.IsNaN(test.Shift) {
				c.Shift = &test.Shift
			}
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("searches %s and %s have no variant and goal with results in common: %s has %s, %s has %s", first.Name, second.Name, first.Name, namesOf(first), second.Name, namesOf(second))
	}
	return all, nil
}

// setOf returns the lower bounds of a goal: of all repeats that have ended, or the only one.
func setOf(search *spatev1.TrafficSearch, v *spatev1.SearchVariant, goal spatev1.EntryName) set {
	s := set{Search: search.Name, Lower: repeats.Lower(v.Repeats, goal)}
	for _, repeat := range v.Repeats {
		for _, found := range repeat.Goals {
			if found.Name == goal && !found.Regular {
				s.Irregular++
			}
		}
	}
	if search.Spec.Repeats == nil || *search.Spec.Repeats == 1 {
		for _, found := range v.Result.Goals {
			if found.Name == goal && v.Outcome != "" && v.Outcome != spatev1.VerdictInvalid {
				lower, _ := strconv.ParseFloat(found.Lower, 64)
				if s.Lower = []float64{lower}; !found.Regular {
					s.Irregular = 1
				}
			}
		}
	}
	if len(s.Lower) > 0 {
		s.Median = repeats.Median(s.Lower)
	}
	return s
}

// namesOf lists the goals of a search with results, by variant.
func namesOf(search *spatev1.TrafficSearch) string {
	var all []string
	for _, v := range search.Status.Variants {
		for _, g := range v.Result.Goals {
			if len(setOf(search, &v, g.Name).Lower) > 0 {
				all = append(all, v.Name+" "+string(g.Name))
			}
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

func writeComparison(w io.Writer, all []compared, wide bool) error {
	fmt.Fprintf(w, "Lower bounds of %s and %s: %s\n\n", all[0].First.Search, all[0].Second.Search, repeats.TestName)
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	headings := "FRAMES\tGOAL\tREPEATS\tFIRST MEDIAN\tSECOND\tSHIFT\tU\tP\tDIFFER"
	if wide {
		headings += "\tFIRST LOWER\tSECOND LOWER"
	}
	fmt.Fprintln(out, headings)
	for _, c := range all {
		shift, differ := "-", "no"
		if c.Shift != nil {
			shift = fmt.Sprintf("%+.2f%%", *c.Shift)
		}
		switch {
		case c.Needed > 0:
			differ = fmt.Sprintf("needs %d repeats of each", c.Needed)
		case c.Differ:
			differ = "yes"
		}
		row := fmt.Sprintf("%s\t%s\t%d, %d\t%.3f\t%.3f\t%s\t%g\t%.4f\t%s", c.Variant, c.Goal, len(c.First.Lower), len(c.Second.Lower), c.First.Median, c.Second.Median, shift, c.U, c.P, differ)
		if wide {
			row += "\t" + listOf(c.First.Lower) + "\t" + listOf(c.Second.Lower)
		}
		fmt.Fprintln(out, row)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, c := range all {
		for _, s := range []set{c.First, c.Second} {
			if s.Irregular > 0 {
				fmt.Fprintf(w, "%s: goal %s is irregular in %d of %d repeats of %s: its lower bound need not be that of the device\n", c.Variant, c.Goal, s.Irregular, len(s.Lower), s.Search)
			}
		}
	}
	return nil
}

// listOf writes loads with three decimal places.
func listOf(loads []float64) string {
	texts := make([]string, 0, len(loads))
	for _, load := range loads {
		texts = append(texts, strconv.FormatFloat(load, 'f', 3, 64))
	}
	return strings.Join(texts, " ")
}
