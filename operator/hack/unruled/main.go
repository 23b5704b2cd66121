// SPDX-License-Identifier: Apache-2.0

// unruled removes the CEL rules of a field, and of all fields within it, from a CustomResourceDefinition: an API server refuses one whose
// rules could cost more than its budget together. Types, enums, lengths, ranges and defaults stay. What is removed has to be checked elsewhere
// (operator/internal/definition checks the programs of templates that are described inline).
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: unruled FILE.yaml FIELD  (a path such as spec.items.value, without the indexes of lists)")
		os.Exit(2)
	}
	if err := rewrite(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "unruled: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

// rewrite removes the rules from a file as controller-gen writes it.
func rewrite(path, field string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err = unruled(text, field)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

func unruled(text []byte, field string) ([]byte, error) {
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
		if remove(at) == 0 {
			return nil, fmt.Errorf("%s has no rules", field)
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

// remove removes the rules of a schema, and returns their number. A property can have the name of a schema's keyword, so only values that are
// schemas are looked into.
func remove(schema map[string]any) int {
	rules, _ := schema["x-kubernetes-validations"].([]any)
	delete(schema, "x-kubernetes-validations")
	count := len(rules)
	for _, one := range child(schema, "properties") {
		if property, is := one.(map[string]any); is {
			count += remove(property)
		}
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if within := child(schema, name); within != nil {
			count += remove(within)
		}
	}
	return count
}
