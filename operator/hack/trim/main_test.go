// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const crd = `---
spec:
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
              entries:
                items:
                  properties:
                    kept:
                      x-kubernetes-validations:
                      - rule: kept
                    program:
                      properties:
                        commands:
                          items:
                            maxLength: 3
                            type: string
                            x-kubernetes-validations:
                            - rule: a
                        named:
                          additionalProperties:
                            x-kubernetes-validations:
                            - rule: b
                        x-kubernetes-validations:
                          type: array
                      type: object
                      x-kubernetes-validations:
                      - rule: c
                  x-kubernetes-validations:
                  - rule: kept
                type: array
`

func TestOnlyTheRulesOfAFieldAndWithinItAreRemoved(t *testing.T) {
	got, err := trimmed([]byte(crd), "spec.entries.program", removeRules)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(
		"                            x-kubernetes-validations:\n                            - rule: a\n", "",
		"                          additionalProperties:\n                            x-kubernetes-validations:\n                            - rule: b\n", "                          additionalProperties: {}\n",
		"                      x-kubernetes-validations:\n                      - rule: c\n", "",
	).Replace(crd)
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAFieldWithoutRulesIsAnError(t *testing.T) {
	for field, want := range map[string]string{"spec.entries.other": "there is no field other", "spec.entries.program.x-kubernetes-validations": "has nothing to trim"} {
		if _, err := trimmed([]byte(crd), field, removeRules); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", field, err, want)
		}
	}
	if _, err := trimmed([]byte("spec: {}"), "spec", removeRules); err == nil {
		t.Error("an object without versions is taken")
	}
}

func TestDescriptionsAreReplacedByAReference(t *testing.T) {
	described := strings.NewReplacer("                      type: object\n", "                      description: programs\n                      type: object\n",
		"                            maxLength: 3\n", "                            description: command\n                            maxLength: 3\n",
		"                        named:\n", "                        description:\n                          type: string\n                          description: a property of that name\n                        named:\n").Replace(crd)
	got, err := trimmed([]byte(described), "spec.entries.program", func(schema map[string]any) int { return referTo("other.spec", schema) })
	if err != nil {
		t.Fatal(err)
	}
	text := string(got)
	if strings.Count(text, "description: ") != 1 || !strings.Contains(text, "description: described by `kubectl explain other.spec`.") || !strings.Contains(text, "description:\n                          type: string\n") {
		t.Errorf("got\n%s", text)
	}
	if strings.Count(text, "- rule:") != strings.Count(crd, "- rule:") {
		t.Error("rules were removed")
	}
}

func TestAnObjectThatKubectlCannotKeepIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crd.yaml")
	for length, fits := range map[int]bool{mostBytes - len(`{"a":""}`): true, mostBytes - len(`{"a":""}`) + 1: false} {
		if err := os.WriteFile(path, []byte("a: "+strings.Repeat("x", length)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkSize(path); (err == nil) != fits {
			t.Errorf("%d characters: %v", length, err)
		}
	}
}
