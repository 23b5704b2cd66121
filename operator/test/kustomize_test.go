// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: does the API server take what is shipped for kustomize, as the README says to apply it?

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// applied gives the names of what `kubectl apply -k` would make of a folder of config, each judged by the API server.
func applied(t *testing.T, folder string) []string {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(kubeconfig, cluster.env.KubeConfig, 0o600))
	kubectl := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	apply := exec.CommandContext(t.Context(), kubectl, "--kubeconfig", kubeconfig, "apply", "-k", filepath.Join("../../config", folder),
		"--dry-run=server", "--validate=strict", "--output=name")
	var complaints strings.Builder
	apply.Stderr = &complaints
	out, err := apply.Output()
	if err != nil {
		t.Fatalf("config/%s: %v: %s", folder, err, complaints.String())
	}
	names := strings.Fields(string(out))
	slices.Sort(names)
	return names
}

func TestWhatIsShippedForKustomizeIsApplied(t *testing.T) {
	names := applied(t, "default")
	crds, err := filepath.Glob("../../crds/*.yaml")
	must(t, err)
	count := func(kind string) (n int) {
		for _, name := range names {
			if strings.HasPrefix(name, kind+"/") {
				n++
			}
		}
		return n
	}
	if got := count("customresourcedefinition.apiextensions.k8s.io"); got != len(crds) || got < 5 {
		t.Errorf("%d resource definitions are applied, crds has %d", got, len(crds))
	}
	for _, want := range []string{
		"namespace/" + operatorNamespace, "serviceaccount/spate-operator", "deployment.apps/spate-operator",
		"clusterrole.rbac.authorization.k8s.io/spate-operator", "clusterrolebinding.rbac.authorization.k8s.io/spate-operator",
		"clusterrole.rbac.authorization.k8s.io/spate-viewer", "clusterrole.rbac.authorization.k8s.io/spate-editor",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in\n%s", want, strings.Join(names, "\n"))
		}
	}
}

func TestEverySampleIsApplied(t *testing.T) {
	names := applied(t, "samples")
	files, err := filepath.Glob("../../config/samples/*.yaml")
	must(t, err)
	// Each file has at least one object, the kustomization none.
	if len(names) < len(files)-1 || len(files) < 10 {
		t.Errorf("%d objects of %d files:\n%s", len(names), len(files), strings.Join(names, "\n"))
	}
}
