// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"strings"
	"testing"

	"spate.dev/operator/internal/plugin/enginebinary"
	"spate.dev/operator/internal/plugin/plugintest"
)

// spate runs a command line with standard input.
func spate(input string, args ...string) (output, stderr string, err error) {
	return plugintest.Run(input, args, NewCommand())
}

func TestValidateTellsEveryProblem(t *testing.T) {
	wrong := strings.Replace(plugintest.UDP, "size: 128", "size: 12", 1)
	output, _, err := spate(plugintest.Smoke+"---\n"+wrong+"---\n"+strings.Replace(plugintest.UDP, "name: udp", "name: {}", 1), "validate", "-")
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
	output, stderr, err := spate(plugintest.Smoke+"---\n"+plugintest.UDP+"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: lab}\n", "validate", "-", "--engine", "/bin/true")
	if err != nil || output != "no problem found (TrafficProfiles: 1, TrafficRuns: 0, TrafficSearches: 0, StatelessStreams: 1, ASTFTemplates: 0, TrafficGenerators: 0)\n" || stderr != "standard input, document 3: Namespace lab: is ignored\n" {
		t.Errorf("got %q, %q, %v", output, stderr, err)
	}
}

func TestObjectsOfEveryPlannedKindAreCounted(t *testing.T) {
	const search = `---
apiVersion: spate.dev/v1alpha1
kind: TrafficSearch
metadata: {name: router}
spec:
  environment: Isolated
  profileRef: {name: smoke}
  load: {min: 1kpps}
  throughput: {goals: [{name: ndr, standard: RFC2544}]}
  budget: {time: 1h}
`
	output, _, err := spate(plugintest.Smoke+"---\n"+plugintest.UDP+search, "validate", "-", "--engine", "/bin/true")
	if err != nil || output != "no problem found (TrafficProfiles: 1, TrafficRuns: 0, TrafficSearches: 1, StatelessStreams: 1, ASTFTemplates: 0, TrafficGenerators: 0)\n" {
		t.Errorf("got %q, %v", output, err)
	}
}

func TestWhatNoEngineLookedAtIsReported(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(enginebinary.Variable, "")
	if _, stderr, err := spate(plugintest.Web, "validate", "-"); err != nil || !strings.Contains(stderr, "not checked by an engine") || !strings.Contains(stderr, "--engine") {
		t.Errorf("got %q %v", stderr, err)
	}
	alone, _, _ := strings.Cut(strings.Replace(plugintest.Web, "{bytes: 4}}", "{bytes: 4}}, {switchTemplate: {template: other}}", 1), "---")
	if _, stderr, err := spate(alone, "validate", "-", "--engine", "/bin/true"); err != nil || stderr != "standard input, document 1: ASTFTemplate http: not checked by an engine: the templates that it switches to, or whose connections it opens, are validated with a profile that runs all of them\n" {
		t.Errorf("got %q %v", stderr, err)
	}
	if _, _, err := spate(plugintest.Web, "validate", "-", "--engine", "/nowhere/engine"); err == nil || !strings.Contains(err.Error(), "--engine names the engine's program") {
		t.Errorf("got %v", err)
	}
}
