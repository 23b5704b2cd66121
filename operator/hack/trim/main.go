// SPDX-License-Identifier: Apache-2.0

// trim makes a field of a CustomResourceDefinition smaller, with all fields within it, and checks the size of the whole.
//
//	trim rules FILE.yaml FIELD                 removes CEL rules: an API server refuses a kind whose rules could cost more than its budget together
//	trim descriptions FILE.yaml FIELD FIELD2   removes descriptions, and refers to `kubectl explain FIELD2` for them: kubectl apply writes an
//	                                           object into one of its annotations, which have at most 256 KiB
//	trim size FILE.yaml...                     fails if an object is too large for that annotation
//
// Types, enums, lengths, ranges and defaults stay. Rules that are removed have to be checked elsewhere (operator/internal/definition checks the
// programs of templates that are described inline), or be of fields that another rule refuses.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "size" {
		for _, path := range os.Args[2:] {
			if err := checkSize(path); err != nil {
				fmt.Fprintf(os.Stderr, "trim: %s: %v\n", path, err)
				os.Exit(1)
			}
		}
		return
	}
	var trim func(schema map[string]any) int
	switch {
	case len(os.Args) == 4 && os.Args[1] == "rules":
		trim = removeRules
	case len(os.Args) == 5 && os.Args[1] == "descriptions":
		trim = func(schema map[string]any) int { return referTo(os.Args[4], schema) }
	default:
		fmt.Fprintln(os.Stderr, "usage: trim rules FILE.yaml FIELD | trim descriptions FILE.yaml FIELD FIELD2 | trim size FILE.yaml...  (fields are paths such as spec.items.value, without the indexes of lists)")
		os.Exit(2)
	}
	if err := rewrite(os.Args[2], os.Args[3], trim); err != nil {
		fmt.Fprintf(os.Stderr, "trim: %s: %v\n", os.Args[2], err)
		os.Exit(1)
	}
}

// mostBytes is the size of an object as JSON that kubectl apply can keep in its annotation: an API server takes 256 KiB of annotations
// (apimachinery: TotalAnnotationSizeLimitB), of which other tools get 4 KiB.
const mostBytes = 252 << 10

// checkSize returns an error if the object in a file is larger than mostBytes.
func checkSize(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	object, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	if len(object) > mostBytes {
		return fmt.Errorf("has %d bytes as JSON, and kubectl apply can keep at most %d of them: trim descriptions (build/operator.mk)", len(object), mostBytes)
	}
	return nil
}

// rewrite trims a field in a file as controller-gen writes it.
func rewrite(path, field string, trim func(map[string]any) int) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err = trimmed(text, field, trim)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

func trimmed(text []byte, field string, trim func(map[string]any) int) ([]byte, error) {
	var crd map[string]any
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return nil, err
	}
	versions, _ := child(crd, "spec")["versions"].([]any)
	if len(versions) == 0 {
		return nil, errors.New("has no versions")
	}
	for i := range versions {
		version, _ := versions[i].(map[string]any)
		at, err := find(child(child(version, "schema"), "openAPIV3Schema"), field)
		if err != nil {
			return nil, err
		}
		if trim(at) == 0 {
			return nil, fmt.Errorf("%s has nothing to trim", field)
		}
	}
	rest, err := yaml.Marshal(crd)
	return append([]byte("---\n"), rest...), err
}

func child(of map[string]any, name string) map[string]any {
	found, _ := of[name].(map[string]any)
	return found
}

// find returns the schema of a field. In lists it is that of the items.
func find(schema map[string]any, field string) (map[string]any, error) {
	for name := range strings.SplitSeq(field, ".") {
		if items := child(schema, "items"); items != nil {
			schema = items
		}
		if schema = child(child(schema, "properties"), name); schema == nil {
			return nil, fmt.Errorf("%s: there is no field %s", field, name)
		}
	}
	return schema, nil
}

// removeRules removes the rules of a schema, and returns their number.
func removeRules(schema map[string]any) int {
	return within(schema, func(schema map[string]any) int {
		rules, _ := schema["x-kubernetes-validations"].([]any)
		delete(schema, "x-kubernetes-validations")
		return len(rules)
	})
}

// referTo replaces the descriptions of a schema by a reference to those of a field, and returns their number.
func referTo(field string, schema map[string]any) int {
	count := within(schema, func(schema map[string]any) int {
		if _, described := schema["description"].(string); !described {
			return 0
		}
		delete(schema, "description")
		return 1
	})
	schema["description"] = "described by `kubectl explain " + field + "`."
	return count
}

// within changes a schema and all within it, and returns the sum of the changes. A property can have the name of a schema's keyword, so only
// values that are schemas are looked into.
func within(schema map[string]any, change func(map[string]any) int) int {
	count := change(schema)
	for _, one := range child(schema, "properties") {
		if property, is := one.(map[string]any); is {
			count += within(property, change)
		}
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if inner := child(schema, name); inner != nil {
			count += within(inner, change)
		}
	}
	return count
}
