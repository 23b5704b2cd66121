// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plugin/enginebinary"
	"spate.dev/operator/internal/plugin/files"
	"spate.dev/operator/internal/plugin/plugintest"
	"spate.dev/operator/internal/plugin/simulate"
	"spate.dev/operator/internal/plugin/validate"
)

// spate runs a command line with standard input.
func spate(input string, args ...string) (output, stderr string, err error) {
	return plugintest.Run(input, args, NewCommand(), validate.NewCommand(), simulate.NewCommand())
}

// written writes texts to files and returns their paths.
func written(t *testing.T, texts ...string) []string {
	t.Helper()
	paths := make([]string, len(texts))
	for i, text := range texts {
		paths[i] = filepath.Join(t.TempDir(), "objects.yaml")
		if err := os.WriteFile(paths[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

func TestPlanIsPrinted(t *testing.T) {
	for name, c := range map[string]struct {
		input string
		args  []string
	}{
		"of files":          {"", append([]string{"plan"}, written(t, plugintest.Smoke, plugintest.UDP)...)},
		"of standard input": {plugintest.Smoke + "---\n" + plugintest.UDP, []string{"plan", "-"}},
		"of several":        {plugintest.Smoke + "---\n" + strings.Replace(plugintest.Smoke, "name: smoke", "name: other", 1) + "---\n" + plugintest.UDP, []string{"plan", "-", "--profile", "smoke"}},
	} {
		t.Run(name, func(t *testing.T) {
			output, stderr, err := spate(c.input, c.args...)
			if err != nil || stderr != "" {
				t.Fatal(err, stderr)
			}
			for _, want := range []string{`  "runId": "smoke",`, `"namespace": "default"`, `"txPort": "east"`} {
				if !strings.Contains(output, want) {
					t.Errorf("%s is not in %s", want, output)
				}
			}
		})
	}
}

// website is a profile with an HTTP preset, and one of DNS by reference.
const website = `apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: site}
spec:
  generator:
    ports:
      - {name: east, attachment: {kernel: {network: east}}}
      - {name: west, attachment: {kernel: {network: west}}}
  duration: 10s
  traffic:
    - name: web
      application:
        inline:
          source: {http: {requestBytes: 64, responseBytes: 2048, requestsPerConnection: 3, thinkTime: 1ms}}
          connectionRate: 10cps
          pools:
            clients: [{name: c, start: 198.18.0.10, count: 10}]
            servers: [{name: s, start: 198.19.0.10, count: 2}]
    - {name: names, application: {templateRef: {name: dns}}}
    - {name: names-back, transmitPort: west, receivePort: east, application: {templateRef: {name: dns}}}
---
apiVersion: spate.dev/v1alpha1
kind: ASTFTemplate
metadata: {name: dns}
spec:
  source: {dns: {answers: 2}}
  connectionRate: 5cps
  pools:
    clients: [{name: c, start: 198.18.1.10, count: 10, portPairOffset: 0.0.10.0}]
    servers: [{name: s, start: 198.19.1.10, count: 2, portPairOffset: 0.0.10.0}]
`

// madeOf returns the plan that is printed.
func madeOf(t *testing.T, input string, args ...string) *enginev1.Plan {
	t.Helper()
	output, stderr, err := spate(input, append([]string{"plan", "-", "--engine", "/bin/true"}, args...)...)
	if err != nil {
		t.Fatal(err, stderr)
	}
	made := &enginev1.Plan{}
	if err := protojson.Unmarshal([]byte(output), made); err != nil {
		t.Fatal(err)
	}
	return made
}

func TestAPlanHasTheProgramsOfPresets(t *testing.T) {
	stateful := madeOf(t, website).Stateful
	web := stateful.Templates[0]
	if web.Name != "web" || web.DestinationPort != 80 || web.ClientPort != "east" || web.ServerPort != "west" || len(web.Client.Instructions) != 10 || len(web.Server.Instructions) != 7 {
		t.Errorf("got %v", web)
	}
	request := stateful.Payloads[web.Client.Instructions[0].GetSend().Payload].GetBytes()
	if len(request) != 64 || !strings.HasPrefix(string(request), "GET / HTTP/1.1\r\n") {
		t.Errorf("the request is %q", request)
	}
	if names := stateful.Templates[1]; names.DestinationPort != 53 || names.Protocol != enginev1.TransportProtocol_TRANSPORT_PROTOCOL_UDP {
		t.Errorf("got %v", names)
	}
}

func TestProgramsOfPresetsArePrintedAsTemplates(t *testing.T) {
	output, stderr, err := spate(website, "plan", "-", "--programs")
	if err != nil {
		t.Fatal(err, stderr)
	}
	if got := strings.Join(plugintest.Kinds(t, output), ", "); got != "ASTFTemplate default/site-web, ASTFTemplate default/dns" {
		t.Errorf("got %s", got)
	}
	for _, want := range []string{"label: next-request", "httpMessage: {}", "size: 2048", "transport: UDP", "destinationPort: 53", "destinationPort: 80", `text: "GET / HTTP/1.1\r\nHost: spate.test\r\nX-Padding: `} {
		if !strings.Contains(output, want) {
			t.Errorf("%q is not in\n%s", want, output)
		}
	}
	// Applied in place of the presets, they result in the same plan, but for the field that each was made from.
	profile, _, _ := strings.Cut(website, "---\n")
	at := strings.Index(profile, "        inline:")
	end := strings.Index(profile, "    - {name: names,")
	written := profile[:at] + "        templateRef: {name: site-web}\n" + profile[end:] + "---\n" + output
	if _, stderr, err := spate(written, "validate", "-", "--engine", "/bin/true"); err != nil {
		t.Errorf("what is printed is not valid: %v\n%s", err, stderr)
	}
	got, want := madeOf(t, written), madeOf(t, website)
	for _, template := range want.Stateful.Templates {
		template.Origin = "" // the field that it was made from
	}
	if !proto.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if _, _, err := spate(plugintest.Smoke+"---\n"+plugintest.UDP, "plan", "-", "--programs"); err == nil || err.Error() != "TrafficProfile smoke has no application of a preset (http, dns or payload)" {
		t.Errorf("got %v", err)
	}
}

const fast = `apiVersion: spate.dev/v1alpha1
kind: TrafficRun
metadata: {name: smoke-fast}
spec:
  profileRef: {name: smoke}
  overrides: {rate: 3x, duration: 2s}
`

func TestARunIsPlannedWithItsOverrides(t *testing.T) {
	files := plugintest.Smoke + "---\n" + plugintest.UDP + "---\n" + fast
	made := madeOf(t, files, "--run", "smoke-fast")
	if made.RunId != "smoke-fast" || made.Run != "smoke-fast" || made.Profile != "smoke" || made.Timing.DurationNs != 2e9 || made.Streams[0].GetContinuous().Rate.GetPacketsPerSecond().Numerator != 3000 {
		t.Errorf("got %v", made)
	}
	if made := madeOf(t, files); made.RunId != "smoke" || made.Timing.DurationNs != 0 || made.Streams[0].GetContinuous().Rate.GetPacketsPerSecond().Numerator != 1000 {
		t.Errorf("without --run it is the profile: got %v", made)
	}
	if _, _, err := spate(files, "plan", "-", "--run", "smoke-fast", "--profile", "smoke"); err == nil || !strings.Contains(err.Error(), "none of the others can be") {
		t.Errorf("got %v", err)
	}
	path := plugintest.Echoing(t, "0")
	output, stderr, err := spate(files, "simulate", "-", "--pcap", "out.pcap", "--run", "smoke-fast", "--engine", path)
	if want := "simulate --plan - --pcap out.pcap --workers 1\n1\n"; err != nil || output != want {
		t.Errorf("a run with a duration is simulated: got %q, %q, %v", output, stderr, err)
	}
}

func TestRunsAreValidatedAsWhatTheyExecute(t *testing.T) {
	files := plugintest.Smoke + "---\n" + plugintest.UDP + "---\n"
	output, stderr, err := spate(files+fast, "validate", "-", "--engine", "/bin/true")
	if err != nil || output != "no problem found (TrafficProfiles: 1, TrafficRuns: 1, TrafficSearches: 0, StatelessStreams: 1, ASTFTemplates: 0, TrafficGenerators: 0)\n" {
		t.Errorf("got %q, %q, %v", output, stderr, err)
	}
	output, _, err = spate(files+strings.Replace(fast, "3x", "fast", 1), "validate", "-", "--engine", "/bin/true")
	if err == nil || !strings.HasPrefix(output, `standard input, document 3: TrafficRun smoke-fast: spec.overrides.rate: Invalid value: "fast": must be a factor such as 2x`) {
		t.Errorf("got %q, %v", output, err)
	}
	// What an engine refuses of a run only is reported by its fields.
	refuses := plugintest.Scripted(t, "grep -q smoke-fast || exit 0\n"+`echo '{"errors": [{"field": "streams[0].packet.frame", "description": "is odd"}]}'`+"\nexit 1\n")
	output, _, err = spate(files+fast, "validate", "-", "--engine", refuses)
	const want = `standard input, document 3: TrafficRun smoke-fast: spec.profileRef: TrafficProfile "smoke": spec.traffic[0].stream.ref: StatelessStream "udp": spec.packet: the engine would refuse it: is odd` + "\n"
	if err == nil || output != want {
		t.Errorf("got %q, %v\nwant %q", output, err, want)
	}
}

func TestTheOnlyGeneratorOfANamespaceIsTheDefault(t *testing.T) {
	generator := func(name string) string {
		return "---\napiVersion: spate.dev/v1alpha1\nkind: TrafficGenerator\nmetadata: {name: " + name + "}\nspec: {ports: [{name: east, lineRate: 1Gbps, attachment: {discard: {}}}]}\n"
	}
	unnamed := strings.Replace(plugintest.Smoke, "  generatorRef: {name: lab}\n", "  rate: 50%\n", 1) + "---\n" + plugintest.UDP
	if got := madeOf(t, unnamed+generator("any")).Streams[0].GetContinuous().Rate.GetPacketsPerSecond(); got.Numerator != 15625000 || got.Denominator != 37 {
		t.Errorf("half of the generator's line rate is %v packets a second", got)
	}
	for want, files := range map[string]string{
		"spec.generatorRef: is required: namespace default has no TrafficGenerator; apply one, or describe one in a profile's spec.generator": unnamed,
		"spec.generatorRef: is required: namespace default has 2 TrafficGenerators (any, second); name one of them":                           unnamed + generator("any") + generator("second"),
	} {
		if _, stderr, err := spate(files, "plan", "-"); err == nil || stderr != "standard input, document 1: TrafficProfile smoke: "+want+"\n" {
			t.Errorf("got %q, %v", stderr, err)
		}
	}
}

// TestAnEngineTakesThePresets needs the engine.
func TestAnEngineTakesThePresets(t *testing.T) {
	if os.Getenv(enginebinary.Variable) == "" {
		t.Skip(enginebinary.Variable + " is not set; run `make operator-test`")
	}
	payload := strings.Replace(website, "source: {dns: {answers: 2}}", "destinationPort: 7\n  source: {payload: {transport: UDP, requestBytes: 65507, responseBytes: 65507, requestsPerFlow: 2, thinkTime: 1ms}}", 1)
	for _, files := range []string{website, payload} {
		if output, stderr, err := spate(files, "validate", "-"); err != nil || strings.Contains(stderr, "not tried") {
			t.Errorf("%v\n%s%s", err, output, stderr)
		}
	}
	printed, _, err := spate(payload, "plan", "-")
	if err != nil || !json.Valid([]byte(printed)) {
		t.Errorf("got %v\n%s", err, printed)
	}
}

func TestWhatCannotBePlannedIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		input  string
		args   []string
		stderr string
		want   string
	}{
		"no files":            {"", []string{"plan"}, "", "no files: name at least one FILE"},
		"no such file":        {"", []string{"plan", "/nowhere/a.yaml"}, "", "/nowhere/a.yaml: no such file"},
		"no profile":          {plugintest.UDP, []string{"plan", "-"}, "", "there is no TrafficProfile in the files"},
		"a wrong rate":        {plugintest.Smoke, []string{"plan", "-", "--line-rate", "much"}, "", `--line-rate "much": `},
		"a wrong field":       {plugintest.Smoke + "  speed: 1\n---\n" + plugintest.UDP, []string{"plan", "-"}, "TrafficProfile smoke: spec.speed: unknown field", files.ErrProblems.Error()},
		"nothing to refer to": {plugintest.Smoke, []string{"plan", "-"}, `StatelessStream "udp" does not exist`, files.ErrProblems.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			output, stderr, err := spate(c.input, c.args...)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(stderr, c.stderr) || output != "" {
				t.Errorf("got %q, %q, %v", output, stderr, err)
			}
		})
	}
}
