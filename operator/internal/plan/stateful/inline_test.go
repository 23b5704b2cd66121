// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"testing"

	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestInlineTemplatesHaveALimitOfCommandsTogether(t *testing.T) {
	template := func(source string) *spatev1.ASTFTemplateSpec {
		made := &spatev1.ASTFTemplateSpec{}
		text := "connectionRate: 1cps\ndestinationPort: 80\npools: {clients: [{name: c, start: 10.0.0.1, count: 1}], servers: [{name: s, start: 10.0.1.1, count: 1}]}\nsource: " + source
		if err := yaml.UnmarshalStrict([]byte(text), made); err != nil {
			t.Fatal(err)
		}
		return made
	}
	written := template("{programs: {transport: TCP, client: [{send: {content: {text: x}}}], server: [{receive: {bytes: 1}}]}}")
	at, rules := spec.Child("inline"), inlineRules{commands: mostInlineCommands - 2}
	if problems := rules.broken(written, at); len(problems) > 0 {
		t.Errorf("as many as may be: %s", problems)
	}
	const want = "spec.inline.source.programs: with it inline templates have 32770 commands, and a profile may have 32768; write an ASTFTemplate, and refer to it with templateRef"
	if problems := rules.broken(written, at); problems.Message() != want {
		t.Errorf("got %s\nwant %s", problems.Message(), want)
	}
	if problems := rules.broken(template("{http: {}}"), at); len(problems) > 0 {
		t.Errorf("a preset: %s", problems)
	}
}
