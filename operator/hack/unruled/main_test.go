// SPDX-License-Identifier: Apache-2.0

package main

import (
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
	got, err := unruled([]byte(crd), "spec.entries.program")
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
	for field, want := range map[string]string{"spec.entries.other": "there is no field other", "spec.entries.program.x-kubernetes-validations": "has no rules"} {
		if _, err := unruled([]byte(crd), field); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", field, err, want)
		}
	}
	if _, err := unruled([]byte("spec: {}"), "spec"); err == nil {
		t.Error("an object without versions is taken")
	}
}
