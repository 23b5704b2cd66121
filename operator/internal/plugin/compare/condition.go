// SPDX-License-Identifier: Apache-2.0

package compare

// This file answers: which change is too much? A condition of --fail-on is
//
//	METRIC ( ">" | "<" ) [ "+" | "-" ] NUMBER [ "%" | "ns" | "us" | "ms" | "s" ]
//
// with a decimal NUMBER, and "*" in METRIC for any name between dots. Spaces around the parts do not count.

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"spate.dev/operator/internal/plugin/exit"
	"spate.dev/operator/internal/plugin/measured"
)

// condition of --fail-on.
type condition struct {
	text    string
	pattern []string // the names between dots
	more    bool     // the change is more than the amount, not less
	amount  *big.Rat // in percent, in nanoseconds, or as it is
	unit    string   // "%", "ns" or none
}

var (
	grammar = regexp.MustCompile(`^\s*((?:\*|[A-Za-z0-9-]+)(?:\.(?:\*|[A-Za-z0-9-]+))*)\s*([<>])\s*([+-]?[0-9]{1,18}(?:\.[0-9]{1,9})?)\s*(%|ns|us|ms|s)?\s*$`)
	// nanosecondsOf are the units of time.
	nanosecondsOf = map[string]int64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
)

// parseAll reads the values of --fail-on.
func parseAll(texts []string) (all []condition, err error) {
	for _, text := range texts {
		c, problem := parse(text)
		if problem != nil {
			err = errors.Join(err, problem)
		}
		all = append(all, c)
	}
	return all, err
}

func parse(text string) (condition, error) {
	parts := grammar.FindStringSubmatch(text)
	if parts == nil {
		return condition{}, fmt.Errorf("--fail-on %q: must be a metric, > or <, and an amount: 'latency.p99>5%%', 'rxPps<-1%%', 'lost>0' or 'streams.voice.latency.max>10us'", text)
	}
	amount, _ := new(big.Rat).SetString(strings.TrimPrefix(parts[3], "+"))
	c := condition{text: text, pattern: strings.Split(parts[1], "."), more: parts[2] == ">", amount: amount, unit: parts[4]}
	if scale, isTime := nanosecondsOf[parts[4]]; isTime {
		c.amount.Mul(c.amount, new(big.Rat).SetInt64(scale))
		c.unit = string(measured.Time)
	}
	return c, nil
}

// matches reports whether a metric is meant.
func (c *condition) matches(name string) bool {
	parts := strings.Split(name, ".")
	if len(parts) != len(c.pattern) {
		return false
	}
	for i, part := range c.pattern {
		if part != "*" && part != parts[i] {
			return false
		}
	}
	return true
}

// holds reports whether a change is beyond the amount. A change from 0 is more than any percentage of it.
func (c *condition) holds(d *difference) bool {
	change, limit := d.change(), c.amount
	if c.unit == "%" {
		if d.first.Sign() == 0 {
			return c.more && change.Sign() > 0 || !c.more && change.Sign() < 0
		}
		limit = new(big.Rat).Mul(c.amount, new(big.Rat).Abs(d.first))
		limit.Quo(limit, big.NewRat(100, 1))
	}
	if c.more {
		return change.Cmp(limit) > 0
	}
	return change.Cmp(limit) < 0
}

// judgment is what a condition comes to for one metric.
type judgment struct {
	Condition string `json:"condition"`
	Metric    string `json:"metric"`
	Holds     bool   `json:"holds"`
	Message   string `json:"message,omitempty"`
	// Problem is why the condition cannot be judged.
	Problem string `json:"problem,omitempty"`
}

// judge evaluates the conditions. The error says which hold, or, which is worse, which cannot be judged.
func (d *document) judge(conditions []condition) error {
	var held, unknown []string
	for i := range conditions {
		c := &conditions[i]
		found := false
		for k := range d.Differences {
			diff := &d.Differences[k]
			if !c.matches(diff.metric) {
				continue
			}
			found = true
			j := judgment{Condition: c.text, Metric: diff.metric}
			if isTime := diff.unit == measured.Time; c.unit == string(measured.Time) && !isTime || c.unit == "" && isTime && c.amount.Sign() != 0 {
				j.Problem = "the amount must be a percentage, or a time such as 10us"
				if !isTime {
					j.Problem = "the amount must be a percentage or a number: the metric is no time"
				}
				unknown = append(unknown, fmt.Sprintf("--fail-on %q: %s: %s", c.text, diff.metric, j.Problem))
			} else {
				j.Holds = c.holds(diff)
				j.Message = fmt.Sprintf("%s, then %s: %s (%s)", show(diff.first, diff.unit), show(diff.second, diff.unit), signed(diff.change(), diff.unit), diff.percent())
				if j.Holds {
					held = append(held, fmt.Sprintf("--fail-on %q holds: %s is %s", c.text, diff.metric, j.Message))
				}
			}
			d.FailOn = append(d.FailOn, j)
		}
		if !found {
			name := strings.Join(c.pattern, ".")
			problem := "both runs must have measured it: -o json lists the metrics that they have"
			d.FailOn = append(d.FailOn, judgment{Condition: c.text, Metric: name, Problem: problem})
			unknown = append(unknown, fmt.Sprintf("--fail-on %q: there is no metric %s: %s", c.text, name, problem))
		}
	}
	switch {
	case len(unknown) > 0:
		return exit.With(exit.Invalid, errors.New(strings.Join(append(unknown, held...), "\n")))
	case len(held) > 0:
		return exit.With(exit.Failed, errors.New(strings.Join(held, "\n")))
	}
	return nil
}
