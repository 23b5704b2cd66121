// SPDX-License-Identifier: Apache-2.0

package plugintest

// This file answers: which resources did a command write?

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Kinds returns the resources in YAML: kind, namespace and name.
func Kinds(t *testing.T, text string) (all []string) {
	t.Helper()
	for _, document := range strings.Split(text, "---\n") {
		var object struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		all = append(all, object.Kind+" "+object.Metadata.Namespace+"/"+object.Metadata.Name)
	}
	return all
}
