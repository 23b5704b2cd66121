// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: does an API server take what is shipped for kustomize, applied as the README says, and let it go again?

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// kubectl runs it against an API server of the tests' own, and gives the words that it prints.
func kubectl(t *testing.T, server *envtest.Environment, args ...string) []string {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(kubeconfig, server.KubeConfig, 0o600))
	command := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, complaints.String())
	}
	names := strings.Fields(string(out))
	slices.Sort(names)
	return names
}

// applied makes the objects of a folder of config, and gives their names. All are there then, and go again with the folder.
func applied(t *testing.T, server *envtest.Environment, folder string) []string {
	t.Helper()
	return appliedAt(t, server, filepath.Join("../../config", folder))
}

// appliedAt is applied for any folder with a kustomization.
func appliedAt(t *testing.T, server *envtest.Environment, path string) []string {
	t.Helper()
	names := kubectl(t, server, "apply", "-k", path, "--validate=strict", "--output=name")
	if there := kubectl(t, server, "get", "-k", path, "--output=name"); !slices.Equal(there, names) {
		t.Errorf("%s: applied are\n%s\nthere are\n%s", path, strings.Join(names, "\n"), strings.Join(there, "\n"))
	}
	return names
}

// withComponents makes a folder of a folder of config and components, and returns its path.
func withComponents(t *testing.T, resources string, components ...string) string {
	t.Helper()
	config, err := filepath.Abs("../../config")
	must(t, err)
	config, err = filepath.EvalSymlinks(config)
	must(t, err)
	folder := t.TempDir()
	above, err := filepath.Rel(folder, config) // kustomize takes no absolute path
	must(t, err)
	var paths []string
	for _, component := range components {
		paths = append(paths, filepath.Join(above, "components", component))
	}
	text := fmt.Sprintf("resources: [%s]\ncomponents: [%s]\n", filepath.Join(above, resources), strings.Join(paths, ", "))
	must(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600))
	return folder
}

func TestWhatIsShippedForKustomizeIsApplied(t *testing.T) {
	t.Parallel()
	server := &envtest.Environment{ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute}
	_, err := server.Start()
	must(t, err)
	t.Cleanup(func() { must(t, server.Stop()) })
	names := applied(t, server, "default")
	crds, err := filepath.Glob("../../crds/*.yaml")
	must(t, err)
	isCRD := func(name string) bool {
		return strings.HasPrefix(name, "customresourcedefinition.apiextensions.k8s.io/")
	}
	definitions := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isCRD(name) })
	if got := len(definitions); got != len(crds) || got < 5 {
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

	kubectl(t, server, append([]string{"wait", "--for=condition=Established", "--timeout=30s"}, definitions...)...)
	samples := applied(t, server, "samples")
	files, err := filepath.Glob("../../config/samples/*.yaml")
	must(t, err)
	// Each file has at least one object, the kustomization none.
	if len(samples) < len(files)-1 || len(files) < 10 {
		t.Errorf("%d objects of %d files:\n%s", len(samples), len(files), strings.Join(samples, "\n"))
	}

	names = append(names, applied(t, server, "uninstall")...)
	for _, ns := range []string{"lab", "other"} {
		kubectl(t, server, "create", "namespace", ns)
	}
	t.Run("every component is applied", func(t *testing.T) { componentsAreApplied(t, server, names) })
	t.Run("the uninstall job acts on the namespaces of its operator alone", func(t *testing.T) { uninstalls(t, server) })
	t.Run("without the job, the documented commands remove finalizers", func(t *testing.T) { finalizersAreRemoved(t, server) })
	applied(t, server, "uninstall") // as before, without a component
	for _, folder := range []string{"samples", "uninstall", "default"} {
		// A namespace stays until its controller, which does not run here, has emptied it.
		kubectl(t, server, "delete", "-k", filepath.Join("../../config", folder), "--wait=false", "--output=name")
	}
	left := kubectl(t, server, "get", "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings", "--output=name")
	left = append(left, kubectl(t, server, "get", "deployments,services,serviceaccounts", "--namespace", operatorNamespace, "--output=name")...)
	if at := slices.IndexFunc(left, func(name string) bool { return slices.Contains(names, name) }); at >= 0 {
		t.Errorf("%s is left", left[at])
	}
	// Each definition is gone, or is being removed: the API server first removes its instances, which takes minutes on a busy machine.
	for _, definition := range kubectl(t, server, "get", "customresourcedefinitions",
		`--output=jsonpath={range .items[*]}{.metadata.name}={.metadata.deletionTimestamp} {end}`) {
		for entry := range strings.FieldsSeq(definition) {
			if name, deleted, _ := strings.Cut(entry, "="); deleted == "" {
				t.Errorf("%s is left", name)
			}
		}
	}
}

// together are components that a user may choose at once, with the folder that they are for: one archive, and one way to the operator's metrics.
var together = []struct {
	folder     string
	components []string
}{
	{"default", []string{"alerts", "archive", "egress", "high-availability", "metrics-from-monitoring", "namespaced", "native-histograms", "pod-monitor", "remote-write"}},
	{"default", []string{"archive-bucket", "metrics-authentication", "otlp", "service-monitor"}},
	{"uninstall", []string{"namespaced-uninstall"}},
}

// kindsOfPrometheus are the kinds of the Prometheus operator that components have objects of.
var kindsOfPrometheus = map[string]string{"alerts": "prometheusrules", "pod-monitor": "podmonitors", "service-monitor": "servicemonitors"}

// componentsAreApplied fails unless the API server takes every component, strictly. What components add goes again; some of them name the namespace lab, which is
// there.
func componentsAreApplied(t *testing.T, server *envtest.Environment, without []string) {
	folders, err := filepath.Glob("../../config/components/*/kustomization.yaml")
	must(t, err)
	var there, chosen []string
	for _, folder := range folders {
		there = append(there, filepath.Base(filepath.Dir(folder)))
	}
	for _, group := range together {
		chosen = append(chosen, group.components...)
	}
	if slices.Sort(chosen); !slices.Equal(there, chosen) {
		t.Errorf("applied are %q, there are %q", chosen, there)
	}
	for _, group := range together {
		t.Run(strings.Join(group.components, ","), func(t *testing.T) {
			var definitions []string
			for _, component := range group.components {
				if kind := kindsOfPrometheus[component]; kind != "" {
					definition := filepath.Join(filepath.Dir(os.Getenv("SPATE_PROMETHEUS")), "crds", "monitoring.coreos.com_"+kind+".yaml")
					if _, err := os.Stat(definition); err != nil {
						t.Skipf("NO PROMETHEUS OPERATOR: set SPATE_PROMETHEUS to the prometheus beside its crds, as make operator-test does: %v", err)
					}
					kubectl(t, server, "apply", "--server-side", "--filename", definition)
					kubectl(t, server, "wait", "--for=condition=Established", "--timeout=30s", "customresourcedefinition/"+kind+".monitoring.coreos.com")
					definitions = append(definitions, definition)
				}
			}
			added := slices.DeleteFunc(appliedAt(t, server, withComponents(t, group.folder, group.components...)), func(name string) bool { return slices.Contains(without, name) })
			for _, component := range group.components {
				is := func(name string) bool {
					return strings.HasPrefix(name, strings.TrimSuffix(kindsOfPrometheus[component], "s")+".")
				}
				if kindsOfPrometheus[component] != "" && !slices.ContainsFunc(added, is) {
					t.Errorf("%s has no object of its kind: %q", component, added)
				}
			}
			for _, ns := range []string{operatorNamespace, "lab"} {
				kubectl(t, server, append([]string{"delete", "--ignore-not-found", "--namespace", ns}, added...)...)
			}
			for _, definition := range definitions {
				kubectl(t, server, "delete", "--wait=false", "--filename", definition)
			}
		})
	}
	applied(t, server, "default") // as before
	applied(t, server, "uninstall")
}

// A server-side apply adds the health checks to the keys that the ConfigMap has.
func TestHealthChecksAreAddedToTheConfigurationOfArgo(t *testing.T) {
	t.Parallel()
	const namespace = "argocd"
	must(t, cluster.kube.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	t.Cleanup(func() {
		_ = cluster.kube.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	})
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "argocd-cm", Labels: map[string]string{"app.kubernetes.io/name": "argocd-cm"}}, Data: map[string]string{"url": "https://argocd.example"}}
	must(t, cluster.kube.Create(t.Context(), config))
	for range 2 {
		kubectl(t, cluster.env, "apply", "--server-side", "--field-manager", "spate", "-k", "../../config/argocd", "--output=name")
	}
	must(t, get(config))
	scripts, err := filepath.Glob(filepath.Join(customizations, "*/health.lua"))
	must(t, err)
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		must(t, err)
		if kind := filepath.Base(filepath.Dir(script)); config.Data["resource.customizations.health.spate.dev_"+kind] != string(text) {
			t.Errorf("%s is not in the ConfigMap", kind)
		}
	}
	if len(config.Data) != len(scripts)+1 || config.Data["url"] == "" || config.Labels["app.kubernetes.io/name"] == "" || config.Labels["app.kubernetes.io/part-of"] != "argocd" {
		t.Errorf("%d keys, labels %v", len(config.Data), config.Labels)
	}
}
