// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/test/refused"
)

func templateOf(t testing.TB, text string) *spatev1.ASTFTemplate {
	t.Helper()
	template := &spatev1.ASTFTemplate{}
	if err := yaml.UnmarshalStrict([]byte(text), template); err != nil {
		t.Fatal(err)
	}
	return template
}

func TestTemplatesAreJudgedAsAnAPIServerJudgesThem(t *testing.T) {
	for name, change := range refused.Changes[refused.Template] {
		template := &spatev1.ASTFTemplate{}
		if yaml.UnmarshalStrict([]byte(change.Make(refused.Template)), template) != nil {
			continue // it does not fit the Go type
		}
		for range 2 { // validated, and known
			faults := Template(&template.Spec)
			if (len(faults) > 0) != (change.Want != nil) {
				t.Errorf("%s: got %v, want %q", name, faults, change.Want)
			}
			var lines []string
			for _, fault := range faults {
				lines = append(lines, fault.Field+": "+fault.Message)
			}
			for _, want := range change.Want {
				if !strings.Contains(strings.Join(lines, "\n"), want) {
					t.Errorf("%s: got %q, without %s", name, lines, want)
				}
			}
		}
	}
}

// The faults of a long content, which a message repeats, are not kept.
func TestOnlyShortFaultsAreKept(t *testing.T) {
	validated.Clear()
	template := templateOf(t, refused.Template)
	if Template(&template.Spec); validated.Len() != 1 {
		t.Errorf("%d are kept, want the good one", validated.Len())
	}
	template.Spec.Source.Programs.Client[1].Send.Content = spatev1.Content{Hex: strings.Repeat("x", 60000)}
	if faults := Template(&template.Spec); len(faults) == 0 || len(faults[0].Message) < 60000 || validated.Len() != 1 {
		t.Errorf("%d are kept, of %d faults", validated.Len(), len(faults))
	}
}

func BenchmarkTemplate(b *testing.B) {
	longest := templateOf(b, refused.Changes[refused.Template]["the longest programs"].Make(refused.Template))
	Template(&longest.Spec)
	for name, clear := range map[string]bool{"validated": true, "known": false} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if clear {
					validated.Clear()
				}
				if faults := Template(&longest.Spec); len(faults) > 0 {
					b.Fatal(faults)
				}
			}
		})
	}
}
