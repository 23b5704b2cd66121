// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"strings"
	"testing"

	"spate.dev/operator/internal/plugin/plugintest"
)

// refusing returns an engine that refuses the server's first command, in plans with some text.
func refusing(t *testing.T, plans string) string {
	t.Helper()
	return plugintest.Scripted(t, "grep -q '"+plans+"' || exit 0\nfield='stateful.templates[0].server.instructions[0].receive.bytes'\n"+
		`echo "{\"errors\": [{\"field\": \"$field\", \"description\": \"waits\"}]}"`+"\necho \"error: $field: waits\" >&2\nexit 1\n")
}

func TestWhatAnEngineRefusesIsReportedByTheFieldsOfTheFiles(t *testing.T) {
	const field = `spec.source.programs.server[0].receive.bytes: `
	if output, _, err := spate(plugintest.Web, "validate", "-", "--engine", refusing(t, ".")); err == nil || output != "standard input, document 1: ASTFTemplate http: "+field+"the engine would refuse it: waits\n" {
		t.Errorf("got %q %v", output, err)
	}
	if output, _, err := spate(plugintest.Web, "validate", "-", "--engine", refusing(t, "east")); err == nil ||
		output != `standard input, document 2: TrafficProfile test: spec.traffic[0].application.templateRef: ASTFTemplate "http": `+field+"the engine would refuse it: waits\n" {
		t.Errorf("got %q %v", output, err)
	}
	if output, stderr, err := spate(plugintest.Web, "plan", "-", "--engine", refusing(t, ".")); !errors.Is(err, errRefused) || stderr != `entry web: ASTFTemplate "http": `+field+"waits\n" || !strings.Contains(output, `"runId": "test"`) {
		t.Errorf("got %q, %q %v", output, stderr, err)
	}
	if _, stderr, err := spate(plugintest.Web, "simulate", "-", "--pcap", "o", "--engine", refusing(t, ".")); err == nil || stderr != `error: entry web: ASTFTemplate "http": `+field+"waits\n" {
		t.Errorf("got %q %v", stderr, err)
	}
}

func TestWarningsAreReportedAndDoNotFail(t *testing.T) {
	const want = "spec.rampUp: 5s is not shorter than the run"
	long := strings.Replace(plugintest.Web, "duration: 1s", "duration: 1s\n  rampUp: 5s", 1)
	for _, args := range [][]string{{"validate", "-", "--engine", "/bin/true"}, {"plan", "-", "--engine", "/bin/true"}} {
		if _, stderr, err := spate(long, args...); err != nil || !strings.HasPrefix(stderr, "warning: ") || !strings.Contains(stderr, want) {
			t.Errorf("%s: got %q %v", args[0], stderr, err)
		}
	}
}

func TestWhatAnEngineWarnsOfIsReportedOnceByTheFieldsOfTheFiles(t *testing.T) {
	const warned = `"stateful.templates[0].server.instructions[0].receive.bytes: waits for nothing"`
	warning := plugintest.Scripted(t, `echo '{"warnings": [`+warned+`, `+warned+`]}'`)
	for _, args := range [][]string{{"validate", "-", "--engine", warning}, {"plan", "-", "--engine", warning}} {
		_, stderr, err := spate(plugintest.Web, args...)
		const want = `entry web: ASTFTemplate "http": spec.source.programs.server[0].receive.bytes: waits for nothing`
		if err != nil || strings.Count(stderr, "warning: ") != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: got %q %v", args[0], stderr, err)
		}
	}
}
