// SPDX-License-Identifier: Apache-2.0

package newprofile

// This file answers: what is asked of a user who names no preset?

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// question is one that is asked unless its flag is given.
type question struct {
	// flag whose value is asked for; "name" is that of the argument.
	flag string
	// text is asked, with what an empty answer means.
	text func(o *options) (asked, empty string)
	to   func(o *options) *string
	// asks is nil for a question that is always asked.
	asks func(o *options) bool
	// withNext is true if the answer is valid with that to the next question only.
	withNext bool
}

// questions in their order.
func questions() []question {
	onGenerator := func(o *options) bool { return !o.isLoopback() }
	return []question{
		{
			flag: "preset", text: func(*options) (string, string) {
				return "Traffic (" + strings.Join(presetNames(), ", ") + ")", presets[0].name
			},
			to: func(o *options) *string { return &o.presetName },
		},
		{flag: "name", text: func(o *options) (string, string) { return "Name of the profile", o.presetName }, to: func(o *options) *string { return &o.name }},
		{
			flag: "generator", text: func(*options) (string, string) {
				return "TrafficGenerator to run on", "a loopback port of the profile's own"
			},
			to: func(o *options) *string { return &o.generator },
		},
		{
			flag: "port", text: func(*options) (string, string) { return "Port that sends, or has the clients", "the generator's first" },
			to: func(o *options) *string { return &o.port }, asks: onGenerator, withNext: true,
		},
		{
			flag: "receive-port", text: func(*options) (string, string) {
				return "Port where packets are expected, or where the servers are", "the generator's second"
			},
			to: func(o *options) *string { return &o.receivePort }, asks: onGenerator,
		},
		{
			flag: "rate", text: func(o *options) (string, string) { return "Rate (" + o.preset.rateIs + ")", o.preset.rate },
			to: func(o *options) *string { return &o.rate },
		},
		{
			flag: "duration", text: func(o *options) (string, string) { return "Duration (" + o.preset.durationIs + ")", o.preset.duration },
			to: func(o *options) *string { return &o.duration },
		},
		{
			flag: "source", text: func(o *options) (string, string) {
				return "Source address of packets, or the first of clients", o.preset.source
			},
			to: func(o *options) *string { return &o.source },
		},
		{
			flag: "destination", text: func(o *options) (string, string) {
				return "Destination address of packets, or the first of servers", o.preset.destination
			},
			to: func(o *options) *string { return &o.destination },
		},
	}
}

// ask asks for what no flag says. A question is repeated until its answer is valid with those before; given are the flags that are.
func (o *options) ask(from io.Reader, to io.Writer, given map[string]bool) error {
	answers := bufio.NewReader(from)
	for _, p := range presets {
		fmt.Fprintf(to, "%-10s %s\n", p.name, p.about)
	}
	all := questions()
	for i := 0; i < len(all); i++ {
		q := all[i]
		if given[q.flag] || q.asks != nil && !q.asks(o) {
			continue
		}
		asked, empty := q.text(o)
		fmt.Fprintf(to, "%s [%s]: ", asked, empty)
		answer, err := answers.ReadString('\n')
		if err != nil && answer == "" {
			fmt.Fprintln(to)
			if errors.Is(err, io.EOF) {
				return errors.New("not all questions were answered; --preset and the other flags answer them beforehand")
			}
			return err
		}
		*q.to(o) = strings.TrimSpace(answer)
		if q.flag == "preset" && o.presetName == "" {
			o.presetName = empty
		}
		if q.withNext && !given[all[i+1].flag] {
			continue
		}
		if wrong := o.wrong(); len(wrong) > 0 {
			for _, problem := range wrong {
				fmt.Fprintln(to, " ", problem)
			}
			*q.to(o) = ""
			if i > 0 && all[i-1].withNext && !given[all[i-1].flag] {
				i-- // both are asked again
				*all[i].to(o) = ""
			}
			i--
		}
	}
	return nil
}

// wrong says what is wrong with the answers so far, with what is filled in for those to come.
func (o *options) wrong() (all []string) {
	tried := *o
	problems, err := tried.complete()
	o.preset = tried.preset
	if err != nil {
		return []string{err.Error()}
	}
	for _, problem := range problems {
		if problem.Field != "" {
			all = append(all, problem.Field+": "+problem.Message)
		} else {
			all = append(all, problem.Message)
		}
	}
	return all
}
