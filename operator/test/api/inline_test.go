// SPDX-License-Identifier: Apache-2.0

// Does a user learn of a template that is described inline what an API server says of an ASTFTemplate?

package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/internal/offline"
	"spate.dev/operator/test/refused"
)

// inlineAt is the field of a template within the profile of profileOf.
const inlineAt = "spec.traffic[0].application.inline"

// profileOf gives a profile that describes a template inline.
func profileOf(t *testing.T, template map[string]any) map[string]any {
	t.Helper()
	profile := parse(t, `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: inline}
spec:
  generator: {ports: [{name: a, attachment: {loopback: {}}}]}
`).Object
	application := map[string]any{}
	if spec, is := template["spec"]; is {
		application["inline"] = spec
	}
	profile["spec"].(map[string]any)["traffic"] = []any{map[string]any{"name": "other", "transmitPort": "a", "receivePort": "a", "application": application}}
	return runtime.DeepCopyJSON(profile)
}

// inlineTemplatesAreJudgedAsTemplates compares what the server says of templates with what it and the operator say of profiles that describe
// them inline: the server admits what breaks a rule of programs only, and then the operator reports it in the server's words.
func inlineTemplatesAreJudgedAsTemplates(t *testing.T, j judges) {
	good := parse(t, refused.Template).Object
	all := refused.Damages(good)
	for _, change := range refused.Changes[refused.Template] {
		all = append(all, parse(t, change.Make(refused.Template)).Object)
	}
	admitted, rejected := 0, 0
	for _, template := range append(all, good) {
		text := encoded(t, profileOf(t, template))
		ofTemplate, ofProfile := j.served(t, encoded(t, template)).faults, j.compareTexts(t, text).faults
		if slices.ContainsFunc(ofTemplate, func(fault string) bool { return !strings.HasPrefix(fault, "spec.") && !strings.HasPrefix(fault, ": ") }) {
			continue // of the metadata, or of the whole spec
		}
		missing := slices.DeleteFunc(slices.Clone(ofTemplate), func(fault string) bool { return slices.Contains(ofProfile, inlineFault(fault)) })
		switch {
		case len(ofProfile) > 0:
			for _, fault := range missing {
				if !strings.HasPrefix(fault, "spec.source.programs") {
					t.Errorf("%s\nof the template the server says %q,\nof the profile %q", text, ofTemplate, ofProfile)
				}
			}
			continue
		case len(missing) == 0:
			admitted++
			continue
		}
		missing = j.served(t, withoutEmpty(t, template)).faults
		found := resolvedFrom(t, text)
		for _, fault := range missing {
			if !slices.Contains(found, inlineFault(fault)) {
				t.Errorf("%s\nof the template the server says %q,\nof the profile the operator says %q", text, fault, found)
			}
		}
		rejected++
		if t.Failed() {
			return // most have one cause
		}
	}
	t.Logf("of %d templates %d are taken, and of %d the operator reports what is wrong", len(all)+1, admitted, rejected)
	if admitted < 20 || rejected < 50 {
		t.Error("too few to show anything")
	}
}

// withoutEmpty gives a template as the operator has it: to it, an optional field with an empty text is absent.
func withoutEmpty(t *testing.T, template map[string]any) []byte {
	t.Helper()
	typed := &spatev1.ASTFTemplate{}
	if err := json.Unmarshal(encoded(t, template), typed); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(typed)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// inlineFault gives what is said of a template as it is said of one that is described inline.
func inlineFault(fault string) string { return strings.ReplaceAll(fault, "spec.", inlineAt+".") }

// resolvedFrom is what the operator, or `kubectl spate validate`, finds in a profile that a server has admitted.
func resolvedFrom(t *testing.T, text []byte) (all []string) {
	t.Helper()
	var reader manifest.Reader
	reader.Read("file", text)
	set, problems := reader.Done()
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, problem := range (offline.Files{Set: set}).Check() {
		all = append(all, problem.Field+": "+problem.Message)
	}
	return all
}
