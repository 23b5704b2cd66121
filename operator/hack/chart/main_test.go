// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const small = `# Of the file.

# How many.
# @schema minimum: 0
count: 1
# An image.
image:
  # Its tag, or
  # a | digest.
  # @schema pattern: '^[a-z]{2}$'
  tag: ab
  # When.
  # @schema enum: [Always, Never]
  pull: Always
# Labels of pods.
# @schema additionalProperties: {type: string}
labels: {a: "1"}
# What a container may use.
# @schema $ref: '#/definitions/resources'
resources: {}
# Nothing.
# @schema type: [integer, 'null']
limit: null
`

func TestTheSchemaHasTheCommentsAndDefaultsOfValues(t *testing.T) {
	v, err := read([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	text, err := v.schema()
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Definitions map[string]any
		Properties  map[string]any
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{}
	if err := json.Unmarshal([]byte(`{
		"count": {"title": "count", "description": "How many.", "type": "integer", "minimum": 0, "default": 1},
		"image": {"title": "image", "description": "An image.", "type": "object", "additionalProperties": false, "properties": {
			"tag": {"title": "image.tag", "description": "Its tag, or a | digest.", "type": "string", "pattern": "^[a-z]{2}$", "default": "ab"},
			"pull": {"title": "image.pull", "description": "When.", "enum": ["Always", "Never"], "default": "Always"}}},
		"labels": {"title": "labels", "description": "Labels of pods.", "type": "object", "additionalProperties": {"type": "string"}, "default": {"a": "1"}},
		"resources": {"title": "resources", "description": "What a container may use.", "type": "object", "allOf": [{"$ref": "#/definitions/resources"}], "default": {}},
		"limit": {"title": "limit", "description": "Nothing.", "type": ["integer", "null"], "default": null},
		"global": {"title": "global", "type": "object", "description": "Values of a parent chart; this chart has none."}
	}`), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(schema.Properties, want) {
		t.Errorf("%s", text)
	}
	if schema.Definitions["resources"] == nil {
		t.Error("the schema lacks the definitions that it refers to")
	}
}

func TestTheTableIsWhatTheReadmeEndsWith(t *testing.T) {
	chart := t.TempDir()
	for name, text := range map[string]string{"values.yaml": small, "README.md": "# A chart\n\n## Values\n\nof before\n"} {
		if err := os.WriteFile(filepath.Join(chart, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := generate(chart); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(chart, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := "# A chart\n\n## Values\n\n| value | default | description |\n|---|---|---|\n" +
		"| `count` | `1` | How many. |\n" +
		"| `image` |  | An image. |\n" +
		"| `image.tag` | `\"ab\"` | Its tag, or a \\| digest. |\n" +
		"| `image.pull` | `\"Always\"` | When. One of `Always`, `Never`. |\n" +
		"| `labels` | `{\"a\":\"1\"}` | Labels of pods. |\n" +
		"| `resources` | `{}` | What a container may use. |\n" +
		"| `limit` | `null` | Nothing. |\n"
	if string(page) != want {
		t.Errorf("got:\n%swant:\n%s", page, want)
	}
}

func TestAValueWithoutADescriptionIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\n":                       "a: has no description",
		"# A.\na:\n  b: 1\n":           "a.b: has no description",
		"# @schema minimum: 1\na: 1\n": "a: has no description",
		"# Another.\n\na: 1\n":         "a: has no description",
		"# A.\n# @schema [}\na: 1\n":   "a: @schema [}",
		"- a\n":                        "is no object",
	} {
		if _, err := read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
