// SPDX-License-Identifier: Apache-2.0

// Can a profile's thresholds be evaluated, on the results that it will have?

package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/origin"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/routes"
	"spate.dev/operator/internal/plan/stream"
	"spate.dev/operator/internal/plan/tags"
	"spate.dev/operator/internal/verdict"
)

// subjectsOf returns the names in the profile's result.
func subjectsOf(p *spatev1.TrafficProfile, streams map[string]*spatev1.StatelessStream, templates map[string]*spatev1.ASTFTemplate) verdict.Subjects {
	subjects := verdict.Subjects{Streams: map[string]verdict.Measures{}, Templates: map[string]verdict.Sides{}, Groups: map[string]verdict.Sides{}}
	for i := range p.Spec.Traffic {
		t := &p.Spec.Traffic[i]
		if t.Application == nil {
			names := []string{string(t.Name)}
			if sent, _ := stream.Source(t, streams); sent != nil && stream.Directed(sent) {
				both := origin.Directions(names[0])
				names = both[:]
			}
			for _, name := range names {
				subjects.Streams[name] = measuresOf(t, streams)
			}
			continue
		}
		template, name := application.Source(t, templates)
		sides := sidesOf(t, template, name)
		subjects.Templates[string(t.Name)] = sides
		if template != nil && template.StatisticsGroup != "" {
			group := string(template.StatisticsGroup)
			if subjects.Groups[group] == nil {
				subjects.Groups[group] = verdict.Sides{}
			}
			for side, program := range sides {
				if all, some := subjects.Groups[group][side]; some {
					program.Counters = sorted(slices.Concat(program.Counters, all.Counters))
					program.Unmeasured = both(program.Unmeasured, all.Unmeasured)
				}
				subjects.Groups[group][side] = program
			}
		}
	}
	subjects.Sessions = routes.Sessions(p.Spec.Routing)
	for _, r := range p.Spec.Receive {
		subjects.Receivers = append(subjects.Receivers, string(r.Name))
	}
	for _, c := range p.Spec.Clients {
		subjects.Clients = append(subjects.Clients, string(c.Name))
	}
	return subjects
}

// complete reports whether every stream and template that the profile names exists, and the ports of each application
// are known.
func complete(in Input) bool {
	return !slices.ContainsFunc(in.Profile.Spec.Traffic, func(t spatev1.TrafficEntry) bool {
		sent, _ := stream.Source(&t, in.Streams)
		template, _ := application.Source(&t, in.Templates)
		portless := t.Application != nil && t.TransmitPort == "" && t.ReceivePort == "" // its generator is missing, or does not have two ports
		return sent == nil && template == nil || portless
	})
}

// measuresOf returns what is measured on arrival of what an entry sends: everything if that does not exist yet.
func measuresOf(t *spatev1.TrafficEntry, streams map[string]*spatev1.StatelessStream) verdict.Measures {
	sent, name := stream.Source(t, streams)
	switch {
	case sent == nil && name != "":
		return verdict.Measures{Arrival: true, Order: true, Latency: true}
	case sent == nil:
		return verdict.Measures{}
	}
	m := sent.Measure
	return verdict.Measures{Arrival: m.Flow || m.Mark != nil, Order: m.Flow, Latency: m.Latency, Tags: tags.Names(m.ByTag)}
}

// sidesOf returns what each side of an entry counts and does not measure. name is that of its ASTFTemplate; empty for
// an inline template.
func sidesOf(t *spatev1.TrafficEntry, template *spatev1.ASTFTemplateSpec, name string) verdict.Sides {
	latency := "set application.inline.latency: true of entry " + string(t.Name)
	if name != "" {
		latency = fmt.Sprintf("set spec.latency: true of ASTFTemplate %q", name)
	}
	sides := verdict.Sides{}
	if t.TransmitPort != "" {
		counters := countersOf(template, func(p *spatev1.Programs) []spatev1.Command { return p.Client })
		sides[verdict.Client] = verdict.Program{Counters: counters, Unmeasured: untimed(template, latency, verdict.Client)}
	}
	if t.ReceivePort != "" {
		counters := countersOf(template, func(p *spatev1.Programs) []spatev1.Command { return p.Server })
		sides[verdict.Server] = verdict.Program{Counters: counters, Unmeasured: untimed(template, latency, verdict.Server)}
	}
	return sides
}

// untimed returns the times that one side's flows do not have, each with the remedy. It is empty if that is not known,
// as for a capture without latency. latency is the field that sets how round trips are measured.
func untimed(template *spatev1.ASTFTemplateSpec, latency, side string) map[string]string {
	if template == nil {
		return nil
	}
	source := template.Source
	if udp := template.Latency || source.Programs != nil && source.Programs.Transport == spatev1.TransportUDP; !udp {
		return nil
	}
	times := map[string]string{verdict.ConnectTime: "UDP has no handshake; ask for roundTrip of a client, and " + latency}
	switch {
	case side == verdict.Server:
		times[verdict.RoundTrip] = "of UDP, clients measure it: ask for that of the client"
	case !template.Latency:
		times[verdict.RoundTrip] = latency
	}
	return times
}

// both returns the keys that are in both maps.
func both(a, b map[string]string) map[string]string {
	common := maps.Clone(a)
	maps.DeleteFunc(common, func(key, _ string) bool { return b[key] == "" })
	return common
}

// countersOf returns the names of the counters of one side's program.
func countersOf(template *spatev1.ASTFTemplateSpec, side func(*spatev1.Programs) []spatev1.Command) []string {
	if template == nil || template.Source.Programs == nil {
		return nil
	}
	var all []string
	for _, command := range side(template.Source.Programs) {
		if command.Count != nil {
			all = append(all, string(command.Count.Counter))
		}
	}
	return sorted(all)
}

// sorted sorts names, and removes duplicates.
func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// thresholds reports expressions that cannot be evaluated. The names in a result (subjects) are all known when every stream
// and template exists; until then an expression only has to compile.
func (p checker) thresholds(in Input, subjects verdict.Subjects, all bool) {
	p.compiled(in, in.Profile.Spec.Thresholds, spec.Child("thresholds"), subjects, all)
	subjects.Receivers, subjects.Sessions, subjects.Clients = nil, nil, nil // they are measured over the whole run
	for i, stage := range in.Profile.Spec.Stages {
		at := spec.Child("stages").Index(i).Child("thresholds")
		p.compiled(in, stage.Thresholds, at, subjects, all)
		for j, t := range stage.Thresholds {
			for _, unknown := range []string{"jitterMax", "outage"} {
				if strings.Contains(t.Expression, unknown) {
					p.Add(spatev1.ReasonInvalidSpec, at.Index(j).Child("expression"), "%q: %s is known of the whole run only; use it in thresholds of the profile", t.Expression, unknown)
				}
			}
		}
	}
}

// compiled reports what is wrong with some of them.
func (p checker) compiled(in Input, some []spatev1.Threshold, at *field.Path, subjects verdict.Subjects, all bool) {
	for i, t := range some {
		compiled, err := verdict.Compile(t.Expression)
		if err == nil && all {
			err = compiled.Check(subjects)
		}
		if err == nil && compiled.ReadsBaseline() {
			err = in.baselineMissing()
		}
		if err != nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Index(i).Child("expression"), "%q: %v", t.Expression, err)
		}
		if t.AbortAfter == "" {
			continue
		}
		if _, err := t.AbortAfter.Parse(); err != nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Index(i).Child("abortAfter"), "%q must be a duration such as 500ms, 10s or 1m30s", t.AbortAfter)
		} else if !t.Abort {
			p.Add(spatev1.ReasonInvalidSpec, at.Index(i).Child("abortAfter"), "has no effect: set abort: true too")
		}
	}
}

// baselineMissing returns an error if what is resolved has no baseline, with the remedy. A profile whose runs others create may have runs with one.
func (in Input) baselineMissing() error {
	own := in.Profile.Spec
	switch {
	case in.Run != nil && in.Run.Spec.BaselineRef == nil:
		return errors.New("the run has no baseline: set spec.baselineRef to a run that has ended (kubectl spate run --baseline RUN)")
	case in.Run == nil && (own.RunPolicy != spatev1.RunManual || own.RunID != ""):
		return errors.New("runs that the profile starts have no baseline: set spec.runPolicy: Manual without spec.runID, and start runs with kubectl spate run --baseline RUN, or with TrafficRuns that have spec.baselineRef")
	}
	return nil
}

// CheckBaseline reports thresholds of the profile that read what the result of a baseline does not have.
func (r *Resolved) CheckBaseline(profile *spatev1.TrafficProfile, baseline *verdict.Result) (problems problem.Problems) {
	check := func(some []spatev1.Threshold, at *field.Path) {
		for i, t := range some {
			compiled, err := verdict.Compile(t.Expression)
			if err != nil || !compiled.ReadsBaseline() { // Resolve has reported what cannot be compiled
				continue
			}
			if err := compiled.CheckBaseline(r.subjects, baseline); err != nil {
				problems.Add(spatev1.ReasonInvalidSpec, at.Child("thresholds").Index(i).Child("expression"), "%q: %v", t.Expression, err)
			}
		}
	}
	check(profile.Spec.Thresholds, spec)
	for i, stage := range profile.Spec.Stages {
		check(stage.Thresholds, spec.Child("stages").Index(i))
	}
	return problems
}
