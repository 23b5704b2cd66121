// SPDX-License-Identifier: Apache-2.0

// chart writes the schema and the table of a chart's values from its values.yaml: values.schema.json, and what README.md has from its heading
// "Values" on. A value without a description is an error.
//
//	chart CHART
//
// The comment above a value is its description. Lines of it that begin with @schema are entries of the value's JSON schema (draft 7), in YAML. The
// type and the default are those of the value. An object has the values below it and no others, unless its schema says what it may have.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// definitions are schemas that more than one value has.
//
//go:embed definitions.yaml
var definitions []byte

const heading = "## Values\n"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: chart CHART  (writes values.schema.json and README.md of that folder)")
		os.Exit(2)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func generate(chart string) error {
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	values, err := read(text)
	if err != nil {
		return fmt.Errorf("values.yaml: %w", err)
	}
	schema, err := values.schema()
	if err != nil {
		return err
	}
	readme := filepath.Join(chart, "README.md")
	page, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	head, _, found := bytes.Cut(page, []byte(heading))
	if !found {
		return fmt.Errorf("%s has no heading %q", readme, strings.TrimSpace(heading))
	}
	table, err := values.table()
	if err != nil {
		return err
	}
	if err := os.WriteFile(readme, append(head, heading+"\n"+table...), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(chart, "values.schema.json"), schema, 0o644)
}

// value is a value or an object of values.
type value struct {
	path        string // such as image.tag
	description string
	fallback    any            // the default
	rules       map[string]any // of its schema
	leaf        bool           // is described as a whole, whatever it contains
}

// values are all of a file, in its order, with objects before what they contain; properties is the schema of the topmost.
type values struct {
	all        []value
	properties map[string]any
}

func read(text []byte) (*values, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("is no object")
	}
	v := &values{}
	var err error
	v.properties, err = v.add(strings.Split(string(text), "\n"), document.Content[0], "")
	return v, err
}

// add appends the values of an object, and returns their schemas.
func (v *values) add(lines []string, object *yaml.Node, prefix string) (map[string]any, error) {
	properties := map[string]any{}
	for i := 0; i < len(object.Content); i += 2 {
		key, content := object.Content[i], object.Content[i+1]
		is := value{path: prefix + key.Value}
		if err := is.describe(lines[:key.Line-1]); err != nil {
			return nil, fmt.Errorf("%s: %w", is.path, err)
		}
		if err := content.Decode(&is.fallback); err != nil {
			return nil, fmt.Errorf("%s: %w", is.path, err)
		}
		kind := kindOf(is.fallback)
		is.leaf = is.leaf || kind != "object"
		schema := map[string]any{"title": is.path, "description": is.description}
		maps.Copy(schema, is.rules)
		_, enumerated := schema["enum"]
		_, typed := schema["type"]
		if kind != "" && !enumerated && !typed {
			schema["type"] = kind
		}
		v.all = append(v.all, is)
		if is.leaf {
			schema["default"] = is.fallback
		} else {
			below, err := v.add(lines, content, is.path+".")
			if err != nil {
				return nil, err
			}
			schema["additionalProperties"], schema["properties"] = false, below
		}
		properties[key.Value] = schema
	}
	return properties, nil
}

// describe reads the comment that ends the lines.
func (v *value) describe(above []string) error {
	from := len(above)
	for from > 0 && strings.HasPrefix(strings.TrimSpace(above[from-1]), "#") {
		from--
	}
	var sentences []string
	v.rules = map[string]any{}
	for _, line := range above[from:] {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
		rules, ok := strings.CutPrefix(line, "@schema ")
		if !ok {
			sentences = append(sentences, line)
			continue
		}
		if err := yaml.Unmarshal([]byte("{"+rules+"}"), &v.rules); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	if v.description = strings.Join(sentences, " "); v.description == "" {
		return fmt.Errorf("has no description: write a comment above it")
	}
	for _, rule := range []string{"additionalProperties", "properties", "$ref"} {
		if _, has := v.rules[rule]; has {
			v.leaf = true
		}
	}
	if reference, has := v.rules["$ref"]; has { // beside which draft 7 ignores all else
		delete(v.rules, "$ref")
		v.rules["allOf"] = []any{map[string]any{"$ref": reference}}
	}
	return nil
}

// kindOf returns the type of JSON schema; empty for null.
func kindOf(of any) string {
	switch of.(type) {
	case bool:
		return "boolean"
	case int:
		return "integer"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return ""
}

func (v *values) schema() ([]byte, error) {
	var shared map[string]any
	if err := yaml.Unmarshal(definitions, &shared); err != nil {
		return nil, fmt.Errorf("definitions.yaml: %w", err)
	}
	properties := maps.Clone(v.properties)
	properties["global"] = map[string]any{"title": "global", "type": "object", "description": "Values of a parent chart; this chart has none."}
	out := &bytes.Buffer{}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the Spate chart", "description": "Generated from values.yaml (make generate).",
		"type": "object", "additionalProperties": false, "definitions": shared, "properties": properties,
	})
	return out.Bytes(), err
}

func (v *values) table() (string, error) {
	page := &strings.Builder{}
	page.WriteString("| value | default | description |\n|---|---|---|\n")
	for _, is := range v.all {
		fallback, text := "", is.description
		if is.leaf {
			shown, err := compact(is.fallback)
			if err != nil {
				return "", fmt.Errorf("%s: %w", is.path, err)
			}
			fallback = "`" + shown + "`"
		}
		if choices, ok := is.rules["enum"].([]any); ok {
			var words []string
			for _, choice := range choices {
				words = append(words, fmt.Sprintf("`%v`", choice))
			}
			text += " One of " + strings.Join(words, ", ") + "."
		}
		fmt.Fprintf(page, "| `%s` | %s | %s |\n", is.path, fallback, strings.ReplaceAll(text, "|", `\|`))
	}
	return page.String(), nil
}

// compact is a value as JSON in one line.
func compact(of any) (string, error) {
	out := &bytes.Buffer{}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(of)
	return strings.TrimSpace(out.String()), err
}
