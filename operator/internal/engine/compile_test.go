// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spate.dev/operator/internal/engine/enginev1"
)

// compiler returns an engine that prints a text to a file descriptor (1 or 2) and exits with a code.
func compiler(t *testing.T, text string, stream, code int) Compiler {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spate-engine")
	script := fmt.Sprintf("#!/bin/sh\ncat > /dev/null\necho '%s' >&%d\n[ \"$6\" != --resolved ] || echo resolved >&2\nexit %d\n", text, stream, code)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return Compiler{Binary: path}
}

var asked = &enginev1.Plan{
	RunId: "r", Streams: []*enginev1.Stream{{Name: "imix"}},
	Stateful: &enginev1.Stateful{Templates: []*enginev1.Template{{Name: "dns"}, {Name: "web"}}},
}

func TestEachViolationIsARefusalOfItsOwn(t *testing.T) {
	c := compiler(t, `{"errors": [{"field": "streams[0].packet", "description": "x"}, {"field": "stateful.templates[1].name", "description": "y"}]}`, 1, 1)
	got, err := c.Check(t.Context(), asked)
	if want := []Violation{{"streams[0].packet", "x"}, {"stateful.templates[1].name", "y"}}; err != nil || !slices.Equal(got.Refused, want) {
		t.Errorf("got %q %v, want %q", got, err, want)
	}
	got, err = compiler(t, "error: no plan", 2, 1).Check(t.Context(), asked)
	if want := []Violation{{"", "error: no plan"}}; err != nil || !slices.Equal(got.Refused, want) {
		t.Errorf("got %q %v, want %q", got, err, want)
	}
	if got, err = compiler(t, "{}", 1, 0).Check(t.Context(), asked); got.Refused != nil || got.Warned != nil || err != nil {
		t.Errorf("got %q %v", got, err)
	}
	if _, err = compiler(t, "usage", 2, 2).Check(t.Context(), asked); err == nil || !strings.Contains(err.Error(), "usage") {
		t.Errorf("got %v", err)
	}
	if got, err = (Compiler{Binary: "/nowhere/engine"}).Check(t.Context(), asked); got.Refused != nil || got.Warned != nil || err != nil {
		t.Errorf("without an engine nothing is tried: got %q %v", got, err)
	}
	for what, onVolume := range map[string]*enginev1.Plan{
		"template": {Stateful: &enginev1.Stateful{Templates: []*enginev1.Template{{Capture: &enginev1.Capture{Source: &enginev1.Capture_Path{Path: "/a"}}}}}},
		"replay":   {Streams: []*enginev1.Stream{{Transmit: &enginev1.Stream_Replay{Replay: &enginev1.Replay{Source: &enginev1.Replay_Path{Path: "/a"}}}}}},
	} {
		if got, err = compiler(t, "there is no such file", 2, 1).Check(t.Context(), onVolume); got.Refused != nil || got.Warned != nil || err != nil {
			t.Errorf("%s: files of other machines are not looked for: got %q %v", what, got, err)
		}
	}
}

func TestWarningsAreOfFields(t *testing.T) {
	got, err := compiler(t, `{"warnings": ["stateful.templates[0].client.instructions[3].receive.bytes: waits for nothing: 5 bytes are counted"]}`, 1, 0).Check(t.Context(), asked)
	want := []Violation{{"stateful.templates[0].client.instructions[3].receive.bytes", "waits for nothing: 5 bytes are counted"}}
	if err != nil || got.Refused != nil || !slices.Equal(got.Warned, want) {
		t.Errorf("got %v %v, want %v", got, err, want)
	}
}

func TestPlansAreResolved(t *testing.T) {
	plan, refused, err := compiler(t, `{"runId": "r", "stateful": {"templates": [{"name": "web", "destinationPort": 80}]}}`, 1, 0).Resolve(t.Context(), asked)
	if err != nil || refused != nil || plan.Stateful.Templates[0].DestinationPort != 80 {
		t.Errorf("got %v %q %v", plan, refused, err)
	}
	_, refused, err = compiler(t, `{"errors": [{"field": "stateful.templates[0].capture.pcap", "description": "packet 3: a gap"}]}`, 1, 1).Resolve(t.Context(), asked)
	if err != nil || len(refused) != 1 || refused[0].Description != "packet 3: a gap" {
		t.Errorf("got %q %v", refused, err)
	}
	if _, _, err = compiler(t, "hello", 1, 0).Resolve(t.Context(), asked); err == nil || !strings.Contains(err.Error(), "printed no plan") {
		t.Errorf("got %v", err)
	}
	if _, _, err = (Compiler{Binary: "/nowhere/engine"}).Resolve(t.Context(), asked); err == nil {
		t.Error("without an engine nothing can be resolved")
	}
}
