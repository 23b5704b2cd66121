// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/problem"
)

func TestThresholdsAreJudgedBeforeARun(t *testing.T) {
	for expression, want := range map[string]string{
		"result.lost ==":   `spec.thresholds[0].expression: "result.lost ==": column 15: Syntax error`,
		"result.fail == 0": `spec.thresholds[0].expression: "result.fail == 0": column 7: undefined field 'fail'`,
		`result.templates["other"].client.failed == 0`: "no such key: other: streams of the profile are a",
	} {
		p := profile(entryOf("a", "east", "west", streamOf("1kpps", 64)), running("b", "http", "east", "west"))
		p.Spec.Thresholds = []spatev1.Threshold{{Name: "t", Expression: expression}}
		_, problems := Resolve(Input{Profile: p, Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"http": templateOf(t, webTemplate)}})
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("got %v\nwant %s", problems, want)
		}
	}
}

func TestThresholdsOnABaselineNeedARunThatHasOne(t *testing.T) {
	manual := func(p *spatev1.TrafficProfile) { p.Spec.RunPolicy = spatev1.RunManual }
	with := &spatev1.TrafficRun{Spec: spatev1.TrafficRunSpec{BaselineRef: &spatev1.LocalReference{Name: "before"}}}
	const ofProfile, ofRun = "runs that the profile starts have no baseline: set spec.runPolicy: Manual without spec.runID", "the run has no baseline: set spec.baselineRef"
	for name, c := range map[string]struct {
		run    *spatev1.TrafficRun
		change func(*spatev1.TrafficProfile)
		want   string
	}{
		"a profile that starts runs":                    {nil, func(p *spatev1.TrafficProfile) { p.Spec.RunPolicy = spatev1.RunOnChange }, ofProfile},
		"a profile with a schedule":                     {nil, func(p *spatev1.TrafficProfile) { p.Spec.RunPolicy = spatev1.RunOnSchedule }, ofProfile},
		"a profile that starts a run by runID":          {nil, func(p *spatev1.TrafficProfile) { manual(p); p.Spec.RunID = "7" }, ofProfile},
		"a profile whose runs others create":            {nil, manual, ""},
		"a run without a baseline":                      {&spatev1.TrafficRun{}, manual, ofRun},
		"a run with one":                                {with, manual, ""},
		"a run with one, of a profile that starts runs": {with, func(*spatev1.TrafficProfile) {}, ""},
	} {
		p := profile(entryOf("a", "east", "west", streamOf("1kpps", 64)))
		p.Spec.Thresholds = []spatev1.Threshold{{Name: "t", Expression: "result.tx >= baseline.tx"}}
		c.change(p)
		_, problems := Resolve(Input{Profile: p, Run: c.run, Generator: generator()})
		found := slices.ContainsFunc(problems, func(p problem.Problem) bool {
			return p.Path == "spec.thresholds[0].expression" && strings.Contains(p.Message, c.want)
		})
		if len(problems) > 1 || found != (c.want != "") {
			t.Errorf("%s: %v, want %q", name, problems, c.want)
		}
	}
}

// A time that the flows of a template do not have is refused before the run, with the template's field.
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
		found := slices.ContainsFunc(problems, func(p problem.Problem) bool {
			return strings.HasPrefix(p.Path, "spec.thresholds[0]") && strings.Contains(p.Message, c.want)
		})
		if found != (c.want != "") {
			t.Errorf("%s, %q: %s: got %v, want %q", c.transport, c.latency, c.expression, problems, c.want)
		}
	}
}

// byTagged counts packets by VLAN 7.
func byTagged(s *spatev1.StatelessStreamSpec) {
	s.Measure.ByTag = &spatev1.MeasuredTags{VLANs: []spatev1.VLANRange{{Start: 7}}}
}

func TestThresholdsOfStagesReadWhatIsKnownOfAStage(t *testing.T) {
	for expression, want := range map[string]string{
		`result.streams["a"].byTag["7"].missing == 0`:            "",
		`result.streams["a"].byTag["8"].missing == 0`:            "no such key: 8",
		`result.streams["a"].outage.longest < duration("1s")`:    "outage is known of the whole run only; use it in thresholds of the profile",
		`result.streams["a"].latency.jitterMax < duration("1s")`: "jitterMax is known of the whole run only; use it in thresholds of the profile",
	} {
		p := profile(entryOf("a", "east", "west", streamOf("1kpps", 128, byTagged, func(s *spatev1.StatelessStreamSpec) { s.Measure.Latency = true })))
		p.Spec.Duration = ""
		p.Spec.Stages = []spatev1.Stage{{Name: "one", Duration: "1s", Rate: "1x", Thresholds: []spatev1.Threshold{{Name: "t", Expression: expression}}}}
		_, problems := Resolve(Input{Profile: p, Generator: generator()})
		if (len(problems) == 0) != (want == "") || len(problems) > 0 && !strings.Contains(problems[0].Error(), want) {
			t.Errorf("%s: got %v\nwant %s", expression, problems, want)
		}
	}
}

// The names in a result are known when all streams and templates exist. Until then only missing references are
// reported, so that the order in which objects are created stalls no profile.
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

// Requirements of a search's goals are judged as thresholds are, by the name of the trial.
func TestRequirementsAreJudgedBeforeARun(t *testing.T) {
	for expression, want := range map[string]string{
		"trial.lost ==":    `spec.search.throughput.goals[1].require[1]: "trial.lost ==": column 14: Syntax error`,
		"result.lost == 0": "undeclared reference to 'result'",
		`trial.templates["other"].client.failed == 0`:         "no such key: other: streams of the profile are a",
		`trial.streams["a"].latency.p99 < duration("5ms")`:    "latency is not measured of stream a: set measure.latency",
		`trial.templates["b"].client.failed == 0`:             "",
		`trial.streams["a"].tx > 0 && trial.flows.failed < 1`: "",
		`trial.streams["a"].byTag["7"].missing == 0`:          "",
	} {
		p := profile(entryOf("a", "east", "west", streamOf("1kpps", 64, byTagged)), running("b", "http", "east", "west"))
		resolved, problems := Resolve(Input{Profile: p, Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"http": templateOf(t, webTemplate)}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		tests := &spatev1.SearchTests{Throughput: &spatev1.ThroughputTest{Goals: []spatev1.SearchGoal{{Name: "ndr"}, {Name: "pdr", Require: []string{"trial.tx > 0", expression}}}}}
		found := resolved.CheckRequirements(tests, spec.Child("search"))
		if (len(found) == 0) != (want == "") || len(found) > 0 && (len(found) > 1 || !strings.Contains(found[0].Error(), want) || found.Reason() != spatev1.ReasonInvalidSpec) {
			t.Errorf("%s: got %v\nwant %s", expression, found, want)
		}
	}
}
