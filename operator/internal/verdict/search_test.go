// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"math"
	"strings"
	"testing"
	"time"
)

var searched = Tests{Variants: []string{"64", "imix-simple"}, Goals: []string{"ndr", "pdr"}, Latency: []string{"50", "100"}, FrameLoss: true, BackToBack: true}

var foundBySearch = Search{Variants: map[string]Variant{
	"64": {
		Goals: map[string]Goal{
			"ndr": {Lower: 999392, Upper: 1004412, Throughput: 999392, Regular: true, Reason: "Found", Min: 990000, Max: 1000000, Deviation: 100},
			"pdr": {Lower: 2e6, Upper: math.Inf(1), Throughput: 1.9e6, LossRatio: 0.05, Reason: "MaxLoadPasses"},
		},
		Latency:    map[string]LatencyRow{"50": {Load: 499696, Mean: 20 * time.Microsecond, WorstCase: 90 * time.Microsecond}},
		FrameLoss:  []FrameLossRow{{100, 4e6, 0.5}, {90, 3.6e6, 0}},
		BackToBack: Burst(666.5, 16650*time.Microsecond, 12500*time.Microsecond),
	},
	"imix-simple": {Goals: map[string]Goal{"ndr": {Upper: 1000, LossRatio: 1, Reason: "MinLoadFails"}, "pdr": {Regular: true}}},
}}

func TestThresholdsOfASearchAreTrueOfWhatItFound(t *testing.T) {
	for expression, want := range map[string]bool{
		`search.variants["64"].goals["ndr"].lower >= 999000.0`:                                                                 true,
		`search.variants["64"].goals.ndr.throughput > 999000`:                                                                  true,
		`search.variants["64"].goals["ndr"].regular && search.variants["64"].goals["ndr"].reason == "Found"`:                   true,
		`search.variants["64"].goals["pdr"].upper > 1e12 && !search.variants["64"].goals["pdr"].regular`:                       true, // there is no upper bound
		`search.variants["imix-simple"].goals["ndr"].lower > 0.0`:                                                              false,
		`search.variants["imix-simple"].goals["ndr"].lossRatio < 1.0`:                                                          false,
		`search.variants.all(name, variant, variant.goals.all(goal, found, found.regular))`:                                    false,
		`search.variants["64"].goals["ndr"].deviation / search.variants["64"].goals["ndr"].lower < 0.01`:                       true,
		`search.variants["64"].latency["50"].worstCase < duration("100us")`:                                                    true,
		`search.variants["64"].latency["50"].mean > duration("100us")`:                                                         false,
		`search.variants["64"].frameLoss.all(row, row.percent > 90.0 || row.lossRatio == 0.0)`:                                 true,
		`search.variants["64"].frameLoss[0].lossRatio < 0.1`:                                                                   false,
		`search.variants["64"].backToBack.frames >= 600.0`:                                                                     true,
		`search.variants["64"].backToBack.bufferTime - search.variants["64"].backToBack.correctedBufferTime > duration("5ms")`: false,
	} {
		compiled, err := CompileSearch(expression)
		if err == nil {
			err = compiled.Check(searched)
		}
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got := compiled.Evaluate(foundBySearch); got.Passed != want || got.Failed {
			t.Errorf("%s: %+v", expression, got)
		}
	}
	compiled, _ := CompileSearch(`search.variants["64"].goals["ndr"].lower >= 1000000.0 && search.variants.exists(n, n == "64")`)
	if got := compiled.Evaluate(foundBySearch).Message; !strings.HasSuffix(got, `does not hold: search.variants["64"].goals["ndr"].lower is 999392`) {
		t.Error(got)
	}
	compiled, _ = CompileSearch(`search.variants.all(n, v, v.goals["ndr"].regular)`)
	if got := compiled.Evaluate(foundBySearch).Message; !strings.HasSuffix(got, `does not hold: search.variants is of 64, imix-simple`) {
		t.Error(got)
	}
}

// What was not measured is neither 0 nor infinite: a threshold on it does not hold, and says why.
func TestThresholdsOnWhatASearchDidNotMeasureFail(t *testing.T) {
	for _, expression := range []string{
		`search.variants["64"].latency["100"].mean < duration("1s")`, `search.variants["imix-simple"].backToBack.bufferTime < duration("1s")`,
	} {
		compiled, err := CompileSearch(expression)
		if err == nil {
			err = compiled.Check(searched)
		}
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		if got := compiled.Evaluate(foundBySearch); got.Passed || !got.Failed || !strings.Contains(got.Message, "the search has no such result") {
			t.Errorf("%s: %+v", expression, got)
		}
	}
}

func TestThresholdsOfASearchAreCheckedAgainstItsNames(t *testing.T) {
	few := Tests{Variants: []string{"all"}, Goals: []string{"ndr"}}
	for _, c := range []struct {
		tests      Tests
		expression string
		want       string
	}{
		{searched, `search.variants["65"].goals["ndr"].regular`, "no such key: 65: variants of the search are 64, imix-simple"},
		{searched, `search.variants["64"].goals["mrr"].regular`, "no such key: mrr: goals of the search are ndr, pdr"},
		{searched, `search.variants["64"].goals.mrr.regular || true`, "goals of the search are ndr, pdr"},
		{searched, `true || search.variants["65"].goals["ndr"].regular`, "variants of the search are"},
		{searched, `search.variants.all(n, v, v.goals["mrr"].regular)`, "goals of the search are"},
		{searched, `search.variants["64"].latency["10"].mean < duration("1s")`, "no such key: 10: percentages of spec.latency.atPercent are 50, 100"},
		{searched, `search.variants["64"].backToBack.packets > 5.0`, "fields of backToBack are frames"},
		{searched, `search.variants["64"].backToBack.bufferTime > 5.0`, "times are durations"},
		{few, `search.variants["all"].latency["50"].mean < duration("1s")`, "latency is not measured: set spec.latency"},
		{few, `search.variants["all"].frameLoss.all(r, r.lossRatio < 0.5)`, "frameLoss is not measured: set spec.frameLoss"},
		{few, `search.variants["all"].backToBack.frames > 5.0`, "backToBack is not measured: set spec.backToBack"},
		{Tests{Variants: []string{"all"}, FrameLoss: true}, `search.variants["all"].goals.all(g, f, f.regular)`, "goals is not measured: set spec.throughput"},
		{searched, `search.variants["64"].goals["ndr"].pps > 5.0`, "undefined field 'pps'"},
		{searched, `result.lost == 0`, "undeclared reference to 'result'"},
		{searched, `search.variants["64"].goals["ndr"].lower`, `as in "search.variants[\"64\"].goals[\"ndr\"].regular"`},
		{searched, `search.variants["64"].goals["ndr"].lossRatio == 0`, "write 0.0, not 0"},
	} {
		compiled, err := CompileSearch(c.expression)
		if err == nil {
			err = compiled.Check(c.tests)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.expression, err, c.want)
		}
	}
}
