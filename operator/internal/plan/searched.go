// SPDX-License-Identifier: Apache-2.0

// What is wrong with a search, before anything is known of its profile, and which variants does it have?

package plan

import (
	"slices"
	"strconv"
	"strings"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/verdict"
)

// CheckSearch reports requirements and thresholds of a search that cannot be evaluated.
func CheckSearch(search *spatev1.TrafficSearchSpec) problem.Problems {
	problems, names := CheckRequirements(&search.SearchTests, spec), testsOf(search)
	for i, name := range names.Variants {
		if slices.Index(names.Variants, name) < i {
			problems.Add(spatev1.ReasonInvalidSpec, spec.Child("frameSizes").Index(i), "%s is there already: give each size once", name)
		}
	}
	for i, t := range search.Thresholds {
		compiled, err := verdict.CompileSearch(t.Expression)
		if err == nil {
			err = compiled.Check(names)
		}
		if err != nil {
			problems.Add(spatev1.ReasonInvalidSpec, spec.Child("thresholds").Index(i).Child("expression"), "%q: %v", t.Expression, err)
		}
	}
	return problems
}

// VariantName is the name of a variant of a search; `all` if it has no frameSizes.
func VariantName(size *spatev1.FrameSize) string {
	switch {
	case size == nil:
		return "all"
	case size.Size != nil:
		return strconv.Itoa(int(*size.Size))
	}
	return "imix-" + strings.ToLower(string(size.IMIX))
}

// testsOf returns the names in what a search will find.
func testsOf(search *spatev1.TrafficSearchSpec) verdict.Tests {
	names := verdict.Tests{FrameLoss: search.FrameLoss != nil, BackToBack: search.BackToBack != nil, Recovery: search.Recovery != nil, Reset: search.Reset != nil}
	for i := range search.FrameSizes {
		names.Variants = append(names.Variants, VariantName(&search.FrameSizes[i]))
	}
	if len(search.FrameSizes) == 0 {
		names.Variants = []string{VariantName(nil)}
	}
	if t := search.Throughput; t != nil {
		for _, goal := range t.Goals {
			names.Goals = append(names.Goals, string(goal.Name))
		}
	}
	if l := search.Latency; l != nil {
		for _, percent := range l.AtPercent {
			names.Latency = append(names.Latency, strconv.Itoa(int(percent)))
		}
		if len(l.AtPercent) == 0 {
			names.Latency = []string{"100"}
		}
	}
	return names
}
