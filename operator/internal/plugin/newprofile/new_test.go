// SPDX-License-Identifier: Apache-2.0

package newprofile

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/internal/offline"
	"spate.dev/operator/internal/plugin/plugintest"
	"spate.dev/operator/internal/plugin/validate"
)

// lab is a generator whose ports find their next hops.
const lab = `---
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: lab}
spec:
  ports:
  - {name: east, attachment: {kernel: {network: east}}, addresses: [198.18.0.2/24], gateway: 198.18.0.1}
  - {name: west, attachment: {kernel: {network: west}}, addresses: [198.19.0.2/24], gateway: 198.19.0.1}
`

// run runs `new` without a user who answers questions.
func run(args ...string) (output, messages string, err error) {
	return plugintest.Run("", append([]string{"new"}, args...), NewCommand())
}

func TestEachPresetIsValidAndPlanned(t *testing.T) {
	t.Parallel()
	kinds := map[string][]string{"rfc2544": {"TrafficProfile /rfc2544", "TrafficSearch /rfc2544"}}
	for _, p := range presets {
		rate := "5kpps"
		if p.name == "http" {
			rate = "50cps"
		}
		for name, c := range map[string]struct {
			args   []string
			beside string
			kind   string
		}{
			"by itself":             {},
			"with a generator":      {args: []string{"--generator", "try", "--with-generator"}, kind: "TrafficGenerator /try"},
			"on a generator":        {args: []string{"--generator", "lab"}, beside: lab},
			"on ports":              {args: []string{"--generator", "lab", "--port", "west", "--receive-port", "east"}, beside: lab},
			"on a port of its own":  {args: []string{"--port", "wire"}},
			"with times and a rate": {args: []string{"--duration", "3s", "--rate", rate}},
			"with addresses":        {args: []string{"--source", "10.0.0.1", "--destination", "10.1.0.1"}},
		} {
			t.Run(p.name+" "+name, func(t *testing.T) {
				t.Parallel()
				output, messages, err := run(append([]string{"--preset", p.name}, c.args...)...)
				if err != nil || messages != "" {
					t.Fatalf("%v\n%s", err, messages)
				}
				want := kinds[p.name]
				if want == nil {
					want = []string{"TrafficProfile /" + p.name}
				}
				if c.kind != "" {
					want = append([]string{c.kind}, want...)
				}
				if got := plugintest.Kinds(t, output); !slices.Equal(got, want) {
					t.Errorf("printed %q, want %q", got, want)
				}
				said, messages, err := plugintest.Run(output+c.beside, []string{"validate", "-", "--engine", "/bin/true"}, validate.NewCommand())
				if err != nil || !strings.HasPrefix(said, "no problem found (TrafficProfiles: 1,") {
					t.Errorf("%v\n%s%s%s", err, said, messages, output)
				}
				var reader manifest.Reader
				reader.Read("new", []byte(output+c.beside))
				set, _ := reader.Done()
				files := offline.Files{Set: set, LineRate: offline.DefaultLineRate}
				definition, err := files.Choose("", "")
				if err != nil {
					t.Fatal(err)
				}
				resolved, problems := files.Resolve(definition)
				if len(problems) > 0 {
					t.Fatal(problems)
				}
				if plan := definition.Plan(resolved); len(plan.Streams)+len(plan.GetStateful().GetTemplates()) == 0 {
					t.Errorf("the plan sends nothing: %v", plan)
				}
			})
		}
	}
}

func TestWhatIsAskedForIsInTheObjects(t *testing.T) {
	t.Parallel()
	output, _, err := run("flood", "--preset", "syn-flood", "--generator", "lab", "--port", "east", "--receive-port", "west", "--rate", "3kpps", "--duration", "7s", "--source", "10.0.0.0",
		"--destination", "10.1.0.9", "--destination-mac", "02:00:00:00:00:09", "-n", "tests")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"namespace: tests", "name: flood", "generatorRef:\n    name: lab", "transmitPort: east", "port: west", "rate: 3kpps", "duration: 7s", "start: 10.0.0.0", "destination: 10.1.0.9",
		"02:00:00:00:00:09",
	} {
		if !strings.Contains(output, want) {
			t.Errorf("no %q in\n%s", want, output)
		}
	}
	short, _, err := run("--preset", "rfc2544", "--duration", "1s")
	standard, _, other := run("--preset", "rfc2544")
	if err != nil || other != nil || !strings.Contains(short, "finalTrialDuration: 1s") || !strings.Contains(standard, "standard: RFC2544") {
		t.Errorf("%v %v\n%s\n%s", err, other, short, standard)
	}
}

func TestWhatWouldNotBeValidIsNotPrinted(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--preset is needed where there is no terminal to ask questions on: one of imix, http, syn-flood, rfc2544": {},
		"--preset nonesuch: must be one of imix, http, syn-flood, rfc2544":                                         {"--preset", "nonesuch"},
		"--with-generator prints the TrafficGenerator that --generator names":                                      {"--preset", "imix", "--with-generator"},
		"--receive-port west: a loopback port receives what it sends itself":                                       {"--preset", "imix", "--receive-port", "west"},
		"--destination-mac goes with packets":                                                                      {"--preset", "http", "--destination-mac", "02:00:00:00:00:01"},
		"new, document 1: TrafficProfile imix: spec.traffic[0].stream.inline.transmit.continuous.rate: ":           {"--preset", "imix", "--rate", "12cps"},
		"TrafficProfile imix: spec.traffic[0].receivePort: the stream measures flow":                               {"--preset", "imix", "--generator", "lab", "--port", "east"},
	} {
		output, messages, err := run(args...)
		if err == nil || output != "" || !strings.Contains(messages+err.Error(), want) {
			t.Errorf("%q: %v\n%s%s\nwant %q", args, err, messages, output, want)
		}
	}
}

// answered runs `new` with the answers, one a line.
func answered(answers string, args ...string) (output, questions string, err error) {
	return plugintest.Run(answers, append([]string{"new"}, args...), newCommand(func(io.Reader) bool { return true }))
}

func TestQuestionsLeadToTheSameObjectsAsFlags(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers string
		args    []string
		same    []string
		asked   string
	}{
		"the defaults":     {answers: "\n\n\n\n\n\n\n", same: []string{"--preset", "imix"}, asked: "Traffic (imix, http, syn-flood, rfc2544) [imix]: Name of the profile [imix]: TrafficGenerator to run on [a loopback port of the profile's own]: Rate (packets a second) [12kpps]: "},
		"all answers":      {answers: "http\nweb\nlab\neast\nwest\n1kcps\n1m\n10.0.0.1\n10.1.0.1", same: []string{"web", "--preset", "http", "--generator", "lab", "--port", "east", "--receive-port", "west", "--rate", "1kcps", "--duration", "1m", "--source", "10.0.0.1", "--destination", "10.1.0.1"}},
		"some by flags":    {answers: "syn-flood\n\n5s\n\n\n", args: []string{"flood", "--generator", "lab", "--port", "east", "--receive-port", "west"}, same: []string{"flood", "--preset", "syn-flood", "--generator", "lab", "--port", "east", "--receive-port", "west", "--duration", "5s"}},
		"wrong, and again": {answers: "mix\nimix\nImix\nimix\n\n12cps\n5kpps\nlong\n3s\n\n\n", same: []string{"--preset", "imix", "--rate", "5kpps", "--duration", "3s"}, asked: "--preset mix: must be one of"},
		"a port too few":   {answers: "imix\n\nlab\nwest\n\neast\nwest\n\n\n\n\n", same: []string{"--preset", "imix", "--generator", "lab", "--port", "east", "--receive-port", "west"}, asked: "spec.traffic[0].receivePort: the stream measures flow"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, questions, err := answered(c.answers, c.args...)
			want, messages, other := run(c.same...)
			if err != nil || other != nil || got != want {
				t.Errorf("%v %v\n%s\n%s\nwant\n%s%s", err, other, questions, got, want, messages)
			}
			if !strings.Contains(questions, c.asked) {
				t.Errorf("no %q in\n%s", c.asked, questions)
			}
		})
	}
	if output, questions, err := answered("imix\n"); err == nil || !strings.Contains(err.Error(), "not all questions were answered") || output != "" {
		t.Errorf("%v\n%s%s", err, questions, output)
	}
}

func TestAReaderThatIsNoFileIsNoTerminal(t *testing.T) {
	if isTerminal(&bytes.Buffer{}) {
		t.Error("nobody would answer")
	}
}
