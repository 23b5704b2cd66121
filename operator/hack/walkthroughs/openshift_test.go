// SPDX-License-Identifier: Apache-2.0

package walkthroughs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// capability finds the capabilities that the operator adds to engine pods.
var capability = regexp.MustCompile(`append\(add, ("[A-Z_", ]+")\)`)

func TestTheSCCForOpenShiftAllowsWhatEnginePodsHave(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var needed []string
	for _, added := range capability.FindAllStringSubmatch(read("operator/internal/podspec/rights.go"), -1) {
		for name := range strings.SplitSeq(added[1], ", ") {
			needed = append(needed, strings.Trim(name, `"`))
		}
	}
	if len(needed) < 5 {
		t.Fatalf("engine pods have only %q", needed)
	}
	for _, block := range blocks.FindAllStringSubmatch(read("docs/install-kubeadm-openshift.md"), -1) {
		var constraints struct {
			Kind                string
			AllowedCapabilities []string
		}
		if err := yaml.Unmarshal([]byte(block[1]), &constraints); err != nil {
			t.Fatal(err)
		}
		if constraints.Kind != "SecurityContextConstraints" {
			continue
		}
		slices.Sort(needed)
		slices.Sort(constraints.AllowedCapabilities)
		if !slices.Equal(slices.Compact(needed), constraints.AllowedCapabilities) {
			t.Errorf("it allows %q, engine pods have %q", constraints.AllowedCapabilities, needed)
		}
		return
	}
	t.Error("the page has no SecurityContextConstraints")
}
