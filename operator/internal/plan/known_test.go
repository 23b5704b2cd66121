// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestWordsAreKnownAndNamesApart(t *testing.T) {
	stream := stream("1kpps", 64)
	for want, change := range map[string]func(*spatev1.TrafficProfileSpec, *spatev1.TrafficGeneratorSpec){
		`spec.suspendPolicy: "Stop": must be Keep or Free`: func(p *spatev1.TrafficProfileSpec, _ *spatev1.TrafficGeneratorSpec) { p.SuspendPolicy = "Stop" },
		`spec.whenBusy: "Wait": must be Queue or Refuse`:   func(p *spatev1.TrafficProfileSpec, _ *spatev1.TrafficGeneratorSpec) { p.WhenBusy = "Wait" },
		`spec.traffic[0].stream.start: "Later": must be Auto or Waiting`: func(p *spatev1.TrafficProfileSpec, _ *spatev1.TrafficGeneratorSpec) {
			p.Traffic[0].Stream.Start = "Later"
		},
		`spec.traffic[1].name: "a" is that of spec.traffic[0] too`: func(p *spatev1.TrafficProfileSpec, _ *spatev1.TrafficGeneratorSpec) { p.Traffic[1].Name = "a" },
		`spec.traffic[1]: set exactly one of stream and application`: func(p *spatev1.TrafficProfileSpec, _ *spatev1.TrafficGeneratorSpec) {
			p.Traffic[1].Stream = &spatev1.StreamEntry{Ref: &spatev1.LocalReference{Name: "x"}}
		},
		`spec.thresholds[1].name: "t" is that of spec.thresholds[0] too`: func(p *spatev1.TrafficProfileSpec, _ *spatev1.TrafficGeneratorSpec) {
			p.Thresholds = []spatev1.Threshold{{Name: "t", Expression: "result.lost == 0"}, {Name: "t", Expression: "result.lost == 0"}}
		},
		`spec.thresholds[0].expression: "result.lost ==": column 15: Syntax error`: func(p *spatev1.TrafficProfileSpec, _ *spatev1.TrafficGeneratorSpec) {
			p.Thresholds = []spatev1.Threshold{{Name: "t", Expression: "result.lost =="}}
		},
		`spec.thresholds[0].expression: "result.fail == 0": column 7: undefined field 'fail'`: func(p *spatev1.TrafficProfileSpec, _ *spatev1.TrafficGeneratorSpec) {
			p.Thresholds = []spatev1.Threshold{{Name: "t", Expression: "result.fail == 0"}}
		},
		`no such key: other: streams of the profile are a`: func(p *spatev1.TrafficProfileSpec, _ *spatev1.TrafficGeneratorSpec) {
			p.Thresholds = []spatev1.Threshold{{Name: "t", Expression: `result.templates["other"].client.failed == 0`}}
		},
		`spec.generatorRef: TrafficGenerator "lab": spec.cpuPolicy: "Own": must be Exclusive or Shared`:                               func(_ *spatev1.TrafficProfileSpec, g *spatev1.TrafficGeneratorSpec) { g.CPUPolicy = "Own" },
		`spec.generatorRef: TrafficGenerator "lab": spec.packetMemory.backing: "4Ki": must be Hugepages2Mi, Hugepages1Gi or Standard`: func(_ *spatev1.TrafficProfileSpec, g *spatev1.TrafficGeneratorSpec) { g.PacketMemory.Backing = "4Ki" },
		`spec.generatorRef: TrafficGenerator "lab": spec.pollMode: "Idle": must be Auto, Busy or Adaptive`:                            func(_ *spatev1.TrafficProfileSpec, g *spatev1.TrafficGeneratorSpec) { g.PollMode = "Idle" },
		`spec.generatorRef: TrafficGenerator "lab": spec.ports[0].offloads: "Most": must be Auto, All or None`:                        func(_ *spatev1.TrafficProfileSpec, g *spatev1.TrafficGeneratorSpec) { g.Ports[0].Offloads = "Most" },
		`spec.generatorRef: TrafficGenerator "lab": spec.ports[1].name: "east" is that of spec.ports[0] too`:                          func(_ *spatev1.TrafficProfileSpec, g *spatev1.TrafficGeneratorSpec) { g.Ports[1].Name = "east" },
	} {
		p, g := profile(entryOf("a", "east", "west", stream), running("b", "http", "east", "west")), generator()
		change(&p.Spec, &g.Spec)
		_, problems := Resolve(Input{Profile: p, Generator: g, Templates: map[string]*spatev1.ASTFTemplate{"http": templateOf(t, webTemplate)}})
		found := false
		for _, problem := range problems {
			found = found || strings.Contains(problem.Error(), want)
		}
		if !found {
			t.Errorf("got %v\nwant %s", problems, want)
		}
	}
	p, g := profile(entryOf("a", "east", "west", stream)), generator()
	p.Spec.SuspendPolicy, p.Spec.WhenBusy, g.Spec.PollMode = spatev1.SuspendFree, spatev1.BusyRefuse, spatev1.PollBusy
	mustResolve(t, Input{Profile: p, Generator: g})
}

// A time that its template's flows do not have is refused before the run, by the template's field.
func TestThresholdsOnTimesOfUDP(t *testing.T) {
	const connect, clients, servers = `result.templates["b"].client.connectTime.p99 < duration('5ms')`, `result.templates["b"].client.roundTrip.p99 < duration('5ms')`, `result.templates["b"].server.roundTrip.p99 < duration('5ms')`
	for _, c := range []struct {
		transport, latency, expression, want string
	}{
		{"TCP", "", connect, ""},
		{"TCP", "", servers, ""},
		{"UDP", "", connect, "UDP has no handshake"},
		{"UDP", "", clients, `roundTrip is not measured of the client of template b: set spec.latency: true of ASTFTemplate "http"`},
		{"UDP", "", `result.groups["g"].client.roundTrip.mean < duration('5ms')`, `of group g: set spec.latency: true of ASTFTemplate "http"`},
		{"UDP", "latency: true\n", clients, ""},
		{"UDP", "latency: true\n", servers, "ask for that of the client"},
	} {
		p := profile(running("b", "http", "east", "west"))
		p.Spec.Thresholds = []spatev1.Threshold{{Name: "t", Expression: c.expression}}
		template := templateOf(t, webTemplate, "transport: TCP", "transport: "+c.transport, "destinationPort: 80\n", c.latency+"statisticsGroup: g\ndestinationPort: 80\n")
		template.Name = "http"
		_, problems := Resolve(Input{Profile: p, Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"http": template}})
		found := slices.ContainsFunc(problems, func(p Problem) bool {
			return strings.HasPrefix(p.Path, "spec.thresholds[0]") && strings.Contains(p.Message, c.want)
		})
		if found != (c.want != "") {
			t.Errorf("%s, %q: %s: got %v, want %q", c.transport, c.latency, c.expression, problems, c.want)
		}
	}
}

// What a result will have is known when all streams and templates are there: until then only what is missing is reported, so that the
// order in which objects are created makes no profile stall.
func TestThresholdsWaitForReferences(t *testing.T) {
	for _, expression := range []string{`result.templates["b"].client.counters["pages"] == 0`, `result.groups["web"].client.failed == 0`} {
		p := profile(running("b", "http", "east", "west"))
		p.Spec.Thresholds = []spatev1.Threshold{{Name: "t", Expression: expression}}
		if _, problems := Resolve(Input{Profile: p, Generator: generator()}); problems.Reason() != spatev1.ReasonReferenceNotFound || len(problems) != 1 {
			t.Errorf("%s, before its template is there: got %v, want %s alone", expression, problems, spatev1.ReasonReferenceNotFound)
		}
		p.Spec.Thresholds[0].Expression += " &&"
		if _, problems := Resolve(Input{Profile: p, Generator: generator()}); problems.Reason() != spatev1.ReasonInvalidSpec {
			t.Errorf("%s: what is no expression is refused at once: got %v", p.Spec.Thresholds[0].Expression, problems)
		}
	}
}
