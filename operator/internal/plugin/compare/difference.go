// SPDX-License-Identifier: Apache-2.0

package compare

// This file answers: by how much do the metrics differ that two results have? Numbers are exact.

import (
	"encoding/json"
	"math/big"
	"slices"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/measured"
)

// difference of a metric that both runs have.
type difference struct {
	metric        string
	unit          measured.Unit
	first, second *big.Rat
	// statistics are nil for a metric that is not tested.
	statistics *statistics
}

func (d *difference) change() *big.Rat { return new(big.Rat).Sub(d.second, d.first) }

// relative change in percent of the first value; nil if that is 0.
func (d *difference) relative() *big.Rat {
	if d.first.Sign() == 0 {
		return nil
	}
	change := new(big.Rat).Mul(d.change(), big.NewRat(100, 1))
	return change.Quo(change, new(big.Rat).Abs(d.first))
}

func (d *difference) isZero() bool { return d.first.Sign() == 0 && d.second.Sign() == 0 }

// MarshalJSON writes numbers with at most nine decimal places. relativePercent is absent where the first value is 0.
func (d difference) MarshalJSON() ([]byte, error) {
	out := struct {
		Metric   string        `json:"metric"`
		Unit     measured.Unit `json:"unit,omitempty"`
		First    json.Number   `json:"first"`
		Second   json.Number   `json:"second"`
		Change   json.Number   `json:"change"`
		Relative json.Number   `json:"relativePercent,omitempty"`

		Statistics *statistics `json:"statistics,omitempty"`
	}{d.metric, d.unit, measured.Decimal(d.first, 9), measured.Decimal(d.second, 9), measured.Decimal(d.change(), 9), "", d.statistics}
	if relative := d.relative(); relative != nil {
		out.Relative = measured.Decimal(relative, 9)
	}
	return json.Marshal(out)
}

// cells of the row of a table.
func (d *difference) cells() []string {
	return []string{d.metric, show(d.first, d.unit), show(d.second, d.unit), signed(d.change(), d.unit), d.percent()}
}

// percent is the relative change with two decimal places.
func (d *difference) percent() string {
	relative := d.relative()
	switch {
	case relative == nil && d.second.Sign() == 0:
		return "0%"
	case relative == nil:
		return "from 0"
	case relative.Sign() > 0:
		return "+" + relative.FloatString(2) + "%"
	}
	return relative.FloatString(2) + "%"
}

// show writes a value of a unit.
func show(value *big.Rat, u measured.Unit) string {
	switch {
	case u == measured.Time && value.IsInt() && value.Num().IsInt64():
		return spatev1.MeasuredTime(value.Num().Int64()).String()
	case u == measured.Rate:
		return string(measured.Decimal(value, 1))
	}
	return string(measured.Decimal(value, 9))
}

// signed writes a change.
func signed(value *big.Rat, u measured.Unit) string {
	if value.Sign() > 0 {
		return "+" + show(value, u)
	}
	return show(value, u)
}

// compare compares the results of two runs.
func compare(first, second *spatev1.TrafficRun) *document {
	d := &document{First: comparedOf(first), Second: comparedOf(second), Differences: []difference{}}
	others := map[string]measured.Metric{}
	for _, m := range measured.Of(second.Status.Result) {
		others[m.Name] = m
	}
	for _, m := range measured.Of(first.Status.Result) {
		if other, both := others[m.Name]; both {
			d.Differences = append(d.Differences, difference{m.Name, m.Unit, m.Value, other.Value, nil})
		}
	}
	d.OnlyInFirst, d.OnlyInSecond = only(first.Status.Result, second.Status.Result), only(second.Status.Result, first.Status.Result)
	return d
}

// only lists the streams and the sides of templates that a result has and another has not.
func only(r, other *spatev1.RunResult) []string {
	names := func(r *spatev1.RunResult) (all []string) {
		for name := range r.Streams {
			all = append(all, "streams."+name)
		}
		for name, t := range r.Templates {
			if t.Client != nil {
				all = append(all, "templates."+name+".client")
			}
			if t.Server != nil {
				all = append(all, "templates."+name+".server")
			}
		}
		slices.Sort(all)
		return all
	}
	others := names(other)
	all := slices.DeleteFunc(names(r), func(name string) bool {
		_, there := slices.BinarySearch(others, name)
		return there
	})
	if all == nil {
		all = []string{} // a list for programs
	}
	return all
}
