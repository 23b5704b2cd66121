// SPDX-License-Identifier: Apache-2.0

package health_test

// This file answers: do the health checks for Argo CD, kstatus and the expressions for Flux say the same of recorded objects as the operator
// means? The objects are recorded by TestTheHealthOfObjects of the package above.

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"spate.dev/operator/test/health"
)

const (
	root           = "../../../"
	customizations = root + "config/argocd/resource_customizations/spate.dev/"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func parse(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatal(err)
	}
}

// recorded is the object of a case. Numbers are integers where they have no fraction, as in a client of an API server.
func recorded(t *testing.T, c health.Case) *unstructured.Unstructured {
	t.Helper()
	text, err := yaml.YAMLToJSON(read(t, filepath.Join(customizations, c.Kind, "testdata", c.Name+".yaml")))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return object
}

// expected is a file health_test.yaml, in Argo CD's own format.
type expected struct {
	Tests []struct {
		InputPath    string        `json:"inputPath"`
		HealthStatus health.Health `json:"healthStatus"`
	} `json:"tests"`
}

func TestArgoShowsTheHealthOfRecordedObjects(t *testing.T) {
	folders, err := os.ReadDir(customizations)
	if err != nil || len(folders) < 6 {
		t.Fatalf("%d kinds, %v", len(folders), err)
	}
	shown := 0
	for _, folder := range folders {
		kind := folder.Name()
		script := string(read(t, filepath.Join(customizations, kind, "health.lua")))
		var want expected
		parse(t, read(t, filepath.Join(customizations, kind, "health_test.yaml")), &want)
		var named []string
		for _, one := range want.Tests {
			name := strings.TrimSuffix(filepath.Base(one.InputPath), ".yaml")
			named = append(named, filepath.Base(one.InputPath))
			t.Run(kind+" "+name, func(t *testing.T) {
				c := health.Find(kind, name)
				if c == nil {
					t.Fatal("no such case")
				}
				object := recorded(t, *c)
				got, err := health.Argo(script, object)
				if err != nil || got != one.HealthStatus || got.Status != c.Argo || object.GetKind() != kind {
					t.Errorf("%s: %+v, %v, want %s, %+v", object.GetKind(), got, err, c.Argo, one.HealthStatus)
				}
			})
			shown++
		}
		files, err := os.ReadDir(filepath.Join(customizations, kind, "testdata"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !slices.Contains(named, file.Name()) {
				t.Errorf("%s: health_test.yaml does not name %s", kind, file.Name())
			}
		}
	}
	if shown != len(health.Cases) {
		t.Errorf("%d objects are shown, there are %d cases", shown, len(health.Cases))
	}
}

func TestFluxHasTheStatusOfRecordedObjects(t *testing.T) {
	for _, c := range health.Cases {
		if got, err := health.Flux(recorded(t, c)); err != nil || got != c.Flux {
			t.Errorf("%s %s: %s, %v, want %s", c.Kind, c.Name, got, err, c.Flux)
		}
	}
}

// checks are the healthCheckExprs of docs/gitops.md.
type checks struct {
	Spec struct {
		HealthCheckExprs []struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			InProgress string `json:"inProgress"`
			Failed     string `json:"failed"`
			Current    string `json:"current"`
		} `json:"healthCheckExprs"`
	} `json:"spec"`
}

// Flux evaluates them in this order, after it has compared status.observedGeneration; what none is true for is in progress (Flux RFC-0009).
func TestTheExpressionsForFluxSeeVerdicts(t *testing.T) {
	page := string(read(t, root+"docs/gitops.md"))
	block := regexp.MustCompile("(?s)```yaml\n(spec:\n  wait: true.*?)```").FindStringSubmatch(page)
	if block == nil {
		t.Fatal("docs/gitops.md has no healthCheckExprs")
	}
	var of checks
	if err := yaml.Unmarshal([]byte(block[1]), &of); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, check := range of.Spec.HealthCheckExprs {
		kinds[check.Kind] = true
		for _, c := range health.Cases {
			if c.Kind != check.Kind {
				continue
			}
			object := recorded(t, c)
			got := health.InProgress
			seen, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
			switch {
			case seen != object.GetGeneration(), holds(t, check.InProgress, object):
			case holds(t, check.Failed, object):
				got = health.Failed
			case holds(t, check.Current, object):
				got = health.Current
			}
			if got != c.Checked {
				t.Errorf("%s %s: %s, want %s", c.Kind, c.Name, got, c.Checked)
			}
		}
	}
	for _, c := range health.Cases {
		if (c.Checked != "") != kinds[c.Kind] {
			t.Errorf("%s %s: expressions %v, want %q", c.Kind, c.Name, kinds[c.Kind], c.Checked)
		}
	}
}

// holds evaluates an expression on an object.
func holds(t *testing.T, expression string, object *unstructured.Unstructured) bool {
	t.Helper()
	env, err := cel.NewEnv(cel.Variable("metadata", cel.DynType), cel.Variable("spec", cel.DynType), cel.Variable("status", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	tree, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", expression, issues.Err())
	}
	program, err := env.Program(tree)
	if err != nil {
		t.Fatal(err)
	}
	result, _, err := program.Eval(object.Object)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return result.Value() == true
}

// A script that fails, runs for long or returns something else is no health.
func TestAScriptThatIsWrongIsReported(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{}}}}
	for script, want := range map[string]string{
		`return {status = "Fine"}`:            `"Fine" is no health`,
		`return "Healthy"`:                    "the script returns string",
		`return obj.spec.paused`:              "attempt to index a non-table object",
		`while true do end`:                   "context deadline exceeded",
		`return {status = os.getenv("HOME")}`: "attempt to index a non-table object",
	} {
		if got, err := health.Argo(script, object); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %s", script, got, err, want)
		}
	}
}

func TestWhatIsInstalledInArgoAreTheScriptsThatAreTested(t *testing.T) {
	var kustomization struct {
		ConfigMapGenerator []struct {
			Name  string   `json:"name"`
			Files []string `json:"files"`
		} `json:"configMapGenerator"`
	}
	if err := yaml.Unmarshal(read(t, root+"config/argocd/kustomization.yaml"), &kustomization); err != nil {
		t.Fatal(err)
	}
	var want []string
	scripts, err := filepath.Glob(customizations + "*/health.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		kind := filepath.Base(filepath.Dir(script))
		want = append(want, "resource.customizations.health.spate.dev_"+kind+"=resource_customizations/spate.dev/"+kind+"/health.lua")
	}
	if all := kustomization.ConfigMapGenerator; len(all) != 1 || all[0].Name != "argocd-cm" || !slices.Equal(all[0].Files, want) {
		t.Errorf("%+v, want %q", all, want)
	}
}
