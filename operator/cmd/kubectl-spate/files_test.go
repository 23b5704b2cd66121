// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"spate.dev/operator/internal/plugin/enginebinary"
	"spate.dev/operator/internal/plugin/files"
)

const (
	smoke = `apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: smoke}
spec:
  generatorRef: {name: lab}
  traffic:
    - {name: one, transmitPort: east, stream: {ref: {name: udp}}}
`
	udp = `apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: udp}
spec:
  packet:
    headers:
      - ethernet: {}
      - ipv4: {source: 198.18.0.1, destination: 198.19.0.1}
      - udp: {destinationPort: 7}
    size: 128
  transmit: {continuous: {rate: 1kpps}}
`
)

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

// spate runs a command line with standard input.
func spate(input string, args ...string) (output, told string, err error) {
	root := newRootCommand()
	var out, errs bytes.Buffer
	root.SetArgs(args)
	root.SetIn(strings.NewReader(input))
	root.SetOut(&out)
	root.SetErr(&errs)
	err = root.Execute()
	return out.String(), errs.String(), err
}

func TestCommandsShowExamples(t *testing.T) {
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		if !c.HasSubCommands() && !c.Runnable() || c.Short == "" {
			t.Errorf("%s: Short %q, runnable %v", c.CommandPath(), c.Short, c.Runnable())
		}
		if c.Runnable() && c.Example == "" {
			t.Errorf("%s: no example", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look(newRootCommand())
}

func TestPlanIsPrinted(t *testing.T) {
	for name, c := range map[string]struct {
		input string
		args  []string
	}{
		"of files":          {"", append([]string{"plan"}, written(t, smoke, udp)...)},
		"of standard input": {smoke + "---\n" + udp, []string{"plan", "-"}},
		"of several":        {smoke + "---\n" + strings.Replace(smoke, "name: smoke", "name: other", 1) + "---\n" + udp, []string{"plan", "-", "--profile", "smoke"}},
	} {
		t.Run(name, func(t *testing.T) {
			output, told, err := spate(c.input, c.args...)
			if err != nil || told != "" {
				t.Fatal(err, told)
			}
			for _, want := range []string{`  "runId": "smoke",`, `"namespace": "default"`, `"txPort": "east"`} {
				if !strings.Contains(output, want) {
					t.Errorf("%s is not in %s", want, output)
				}
			}
		})
	}
}

func TestValidateTellsEveryProblem(t *testing.T) {
	wrong := strings.Replace(udp, "size: 128", "size: 12", 1)
	output, _, err := spate(smoke+"---\n"+wrong+"---\n"+strings.Replace(udp, "name: udp", "name: {}", 1), "validate", "-")
	if err == nil || err.Error() != "problems found: 2" {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{
		"standard input, document 2: StatelessStream udp: spec.packet.size: Invalid value: 12: spec.packet.size in body should be greater than or equal to 64\n",
		"standard input, document 3: StatelessStream: metadata: cannot unmarshal object into Go struct field ObjectMeta.name of type string\n",
	} {
		if !strings.Contains(output, want) {
			t.Errorf("%q is not in %s", want, output)
		}
	}
	output, told, err := spate(smoke+"---\n"+udp+"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: lab}\n", "validate", "-", "--engine", "/bin/true")
	if err != nil || output != "no problem found (TrafficProfiles: 1, TrafficRuns: 0, StatelessStreams: 1, ASTFTemplates: 0, TrafficGenerators: 0)\n" || told != "standard input, document 3: Namespace lab: is not looked into\n" {
		t.Errorf("got %q, %q, %v", output, told, err)
	}
}

// web is a template and a profile that runs it.
const web = `apiVersion: spate.dev/v1alpha1
kind: ASTFTemplate
metadata: {name: http}
spec:
  destinationPort: 80
  connectionRate: 1cps
  pools:
    clients: [{name: c, start: 16.0.0.1, end: 16.0.0.9}]
    servers: [{name: s, start: 48.0.0.1, end: 48.0.0.9}]
  source:
    programs: {transport: TCP, client: [{send: {content: {text: GET}}}], server: [{receive: {bytes: 4}}]}
---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: test}
spec:
  generatorRef: {name: lab}
  duration: 1s
  traffic:
    - {name: web, transmitPort: east, receivePort: west, application: {templateRef: {name: http}}}
`

// scripted returns an engine that is a shell script.
func scripted(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spate-engine")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// refusing returns an engine that refuses the server's first command, in plans with some text.
func refusing(t *testing.T, plans string) string {
	t.Helper()
	return scripted(t, "grep -q '"+plans+"' || exit 0\nfield='stateful.templates[0].server.instructions[0].receive.bytes'\n"+
		`echo "{\"errors\": [{\"field\": \"$field\", \"description\": \"waits\"}]}"`+"\necho \"error: $field: waits\" >&2\nexit 1\n")
}

func TestWhatAnEngineRefusesIsReportedByTheFieldsOfTheFiles(t *testing.T) {
	const field = `spec.source.programs.server[0].receive.bytes: `
	if output, _, err := spate(web, "validate", "-", "--engine", refusing(t, ".")); err == nil || output != "standard input, document 1: ASTFTemplate http: "+field+"the engine would refuse it: waits\n" {
		t.Errorf("got %q %v", output, err)
	}
	if output, _, err := spate(web, "validate", "-", "--engine", refusing(t, "east")); err == nil ||
		output != `standard input, document 2: TrafficProfile test: spec.traffic[0].application.templateRef: ASTFTemplate "http": `+field+"the engine would refuse it: waits\n" {
		t.Errorf("got %q %v", output, err)
	}
	if output, told, err := spate(web, "plan", "-", "--engine", refusing(t, ".")); !errors.Is(err, errRefused) || told != `entry web: ASTFTemplate "http": `+field+"waits\n" || !strings.Contains(output, `"runId": "test"`) {
		t.Errorf("got %q, %q %v", output, told, err)
	}
	if _, told, err := spate(web, "simulate", "-", "--pcap", "o", "--engine", refusing(t, ".")); err == nil || told != `error: entry web: ASTFTemplate "http": `+field+"waits\n" {
		t.Errorf("got %q %v", told, err)
	}
}

func TestWarningsAreReportedAndDoNotFail(t *testing.T) {
	const want = "spec.rampUp: 5s is not shorter than the run"
	long := strings.Replace(web, "duration: 1s", "duration: 1s\n  rampUp: 5s", 1)
	for _, args := range [][]string{{"validate", "-", "--engine", "/bin/true"}, {"plan", "-", "--engine", "/bin/true"}} {
		if _, told, err := spate(long, args...); err != nil || !strings.HasPrefix(told, "warning: ") || !strings.Contains(told, want) {
			t.Errorf("%s: got %q %v", args[0], told, err)
		}
	}
}

func TestWhatAnEngineWarnsOfIsReportedOnceByTheFieldsOfTheFiles(t *testing.T) {
	warning := scripted(t, `echo '{"warnings": ["stateful.templates[0].server.instructions[0].receive.bytes: waits for nothing"]}'`)
	for _, args := range [][]string{{"validate", "-", "--engine", warning}, {"plan", "-", "--engine", warning}} {
		_, told, err := spate(web, args...)
		const want = `entry web: ASTFTemplate "http": spec.source.programs.server[0].receive.bytes: waits for nothing`
		if err != nil || strings.Count(told, "warning: ") != 1 || !strings.Contains(told, want) {
			t.Errorf("%s: got %q %v", args[0], told, err)
		}
	}
}

func TestWhatNoEngineLookedAtIsReported(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(enginebinary.Variable, "")
	if _, told, err := spate(web, "validate", "-"); err != nil || !strings.Contains(told, "not tried by an engine") || !strings.Contains(told, "--engine") {
		t.Errorf("got %q %v", told, err)
	}
	alone, _, _ := strings.Cut(strings.Replace(web, "{bytes: 4}}", "{bytes: 4}}, {switchTemplate: {template: other}}", 1), "---")
	if _, told, err := spate(alone, "validate", "-", "--engine", "/bin/true"); err != nil || told != "standard input, document 1: ASTFTemplate http: not tried by an engine: what it switches to is judged with a profile that runs both\n" {
		t.Errorf("got %q %v", told, err)
	}
	if _, _, err := spate(web, "validate", "-", "--engine", "/nowhere/engine"); err == nil || !strings.Contains(err.Error(), "--engine names the engine's program") {
		t.Errorf("got %v", err)
	}
}

func TestWhatCannotBePlannedIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		input string
		args  []string
		told  string
		want  string
	}{
		"no files":            {"", []string{"plan"}, "", "requires at least 1 arg"},
		"no such file":        {"", []string{"plan", "/nowhere/a.yaml"}, "", "/nowhere/a.yaml: no such file"},
		"no profile":          {udp, []string{"plan", "-"}, "", "there is no TrafficProfile in the files"},
		"a wrong rate":        {smoke, []string{"plan", "-", "--line-rate", "much"}, "", `--line-rate "much": `},
		"a wrong field":       {smoke + "  speed: 1\n---\n" + udp, []string{"plan", "-"}, "TrafficProfile smoke: spec.speed: unknown field", files.ErrProblems.Error()},
		"nothing to refer to": {smoke, []string{"plan", "-"}, `StatelessStream "udp" does not exist`, files.ErrProblems.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			output, told, err := spate(c.input, c.args...)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(told, c.told) || output != "" {
				t.Errorf("got %q, %q, %v", output, told, err)
			}
		})
	}
}

// engineThat returns a program that prints its arguments, and exits with a code.
func engineThat(t *testing.T, code string) string {
	t.Helper()
	return scripted(t, "echo \"$@\"\ngrep -c '\"txPort\": \"east\"'\nexit "+code+"\n")
}

func TestSimulateRunsTheEngine(t *testing.T) {
	both := smoke + "---\n" + udp
	path := engineThat(t, "0")
	for name, find := range map[string]func(t *testing.T) []string{
		"by flag":     func(*testing.T) []string { return []string{"--engine", path} },
		"by variable": func(t *testing.T) []string { t.Setenv(enginebinary.Variable, path); return nil },
		"by path": func(t *testing.T) []string {
			t.Setenv(enginebinary.Variable, "")
			t.Setenv("PATH", filepath.Dir(path)+":"+os.Getenv("PATH"))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			output, told, err := spate(both, append([]string{"simulate", "-", "--pcap", "out.pcap", "--worker-limit", "50", "--workers", "2"}, find(t)...)...)
			if want := "simulate --plan - --pcap out.pcap --workers 2 --worker-limit 50\n1\n"; err != nil || output != want {
				t.Errorf("got %q, %q, %v, want %q", output, told, err, want)
			}
		})
	}
	if _, _, err := spate(both, "simulate", "-", "--pcap", "o", "--limit", "5", "--engine", engineThat(t, "3")); code(err) != 3 {
		t.Errorf("got %v: the engine's exit code is told on", err)
	}
}

func TestSimulateTellsWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(enginebinary.Variable, "")
	both := smoke + "---\n" + udp
	_, _, err := spate(both, "simulate", "-", "--pcap", "o", "--limit", "5")
	if err == nil || !strings.Contains(err.Error(), "build it with `make engine`") {
		t.Errorf("got %v", err)
	}
	_, _, err = spate(both, "simulate", "-", "--pcap", "o", "--limit", "5", "--engine", "/nowhere/engine")
	if err == nil || !strings.Contains(err.Error(), "--engine names the engine's program: ") || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	t.Setenv(enginebinary.Variable, "/nowhere/engine")
	if _, _, err = spate(both, "simulate", "-", "--pcap", "o"); err == nil || !strings.Contains(err.Error(), enginebinary.Variable+" names") {
		t.Errorf("got %v", err)
	}
	path := engineThat(t, "0")
	if _, _, err = spate(both, "simulate", "-", "--pcap", "o", "--engine", path); err == nil || !strings.Contains(err.Error(), "say with --limit or --worker-limit") {
		t.Errorf("got %v", err)
	}
	if _, _, err = spate(both, "simulate", "-", "--engine", path); err == nil || !strings.Contains(err.Error(), `"pcap" not set`) {
		t.Errorf("got %v", err)
	}
}

func TestExitCodes(t *testing.T) {
	if code(nil) != 0 || code(files.ErrProblems) != 1 || code(&exec.Error{Name: "x", Err: exec.ErrNotFound}) != 1 {
		t.Error("0 where all is well, 1 otherwise")
	}
}

// TestSimulateWritesWhatTheEngineSends needs the engine.
func TestSimulateWritesWhatTheEngineSends(t *testing.T) {
	if os.Getenv(enginebinary.Variable) == "" {
		t.Skip(enginebinary.Variable + " is not set; run `make operator-test`")
	}
	pcap := filepath.Join(t.TempDir(), "out.pcap")
	_, told, err := spate(smoke+"---\n"+udp, "simulate", "-", "--pcap", pcap, "--limit", "7")
	if err != nil {
		t.Fatal(err, told)
	}
	// A header of 24 bytes, and one of 16 before each frame of 124 bytes (128 with FCS).
	if file, err := os.Stat(pcap); err != nil || file.Size() != 24+7*(16+124) {
		t.Errorf("got %v %v", file, err)
	}
}
