// SPDX-License-Identifier: Apache-2.0

// Does an upgrade from the chart of an older version, and a rollback to it, keep the runs that are active?

package suites

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
	"spate.dev/operator/test/drill"
)

// olderVersion is that of the chart that olderChart derives, and of what is installed by it.
const olderVersion = "0.0.1"

// newerField is a field of the API that the derived chart does not have: of the ports of generators.
const newerField = "receiveTimestamps"

// The chart of an older version is installed and starts a run. In mid-run it is upgraded to the current chart, which brings another version of the
// operator, fields of the API and defaults of values, and is rolled back: each replaces the operator, and no engine.
func TestDrillUpgradeAndRollbackInMidRun(t *testing.T) {
	drill.Long(t)
	needsRig(t, theInstallation)
	d := drill.New(t, "chart upgraded and rolled back in mid-run", 8*time.Minute)
	current := reportedVersion(t)
	chart, older := olderChart(t)
	values := installedAgain(t) // its clean-up, which ends the pods of the older images, precedes that of their tags
	run(t, "helm", "upgrade", "spate", chart, "--namespace", operatorNamespace, "--values", values,
		"--set", "image.tag="+older, "--set", "engine.image.tag="+older, "--wait", "--timeout=120s")
	versionBecomes(t, older)
	apiHas(t, false)

	pod, p := underWay(t, "upgraded", "  duration: 120s\n  generatorTolerance: {late: 100%}")
	d.Strike()
	run(t, "helm", "upgrade", "spate", filepath.Join(root, "charts/spate"), "--namespace", operatorNamespace, "--reset-then-reuse-values",
		"--set", "image.tag=dev", "--set", "engine.image.tag=dev", "--set", "replicas=2", "--wait", "--timeout=120s")
	versionBecomes(t, current)
	apiHas(t, true)
	if got := selected(t); got != "amd64" {
		t.Errorf("the operator's nodes have the architecture %q, want the default that the new chart has and the older one has not", got)
	}
	stillActive(t, p)
	d.ReportsText("helm upgrade returns, and the operator reports the newer version")
	run(t, "helm", "rollback", "spate", "--namespace", operatorNamespace, "--wait", "--timeout=120s")
	d.Detected(240 * time.Second)
	versionBecomes(t, older)
	apiHas(t, false)
	stillActive(t, p)
	d.ReportsText("helm rollback returns, and it reports the older one")

	ended := complete(t, 2*time.Minute, p)
	result := ended.Status.Result
	if ended.Status.Verdict.Outcome != spate.VerdictPassed || result == nil || result.Tx+result.TxDropped != 120_000 || result.Lost != 0 {
		t.Errorf("%+v, %+v: want a run of 120,000 packets that passed", ended.Status.Verdict, result)
	}
	if after, err := enginePods(t.Context(), pod.Namespace, "loop"); err != nil || len(after) != 1 || after[0].UID != pod.UID {
		t.Errorf("the engine was replaced: %v", err)
	}
	d.Kept("the engine, and the result of the run with all of its 120,000 packets")
}

// stillActive fails if the profile's run has ended: then what was done was not in mid-run.
func stillActive(t *testing.T, p *spate.TrafficProfile) {
	t.Helper()
	if r := currentRun(t, p); r.Status.Phase != spate.RunRunning {
		t.Errorf("the run is %s, want it to be active", r.Status.Phase)
	}
}

// olderChart returns the folder of a chart of an older version, which is the tag of its images. It is derived from the current one: no other version
// is published, and the programs are the same. What it lacks of the current one: a field of the API, and a default of its values. Its operator reports
// the older version.
func olderChart(t *testing.T) (folder, version string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "spate")
	run(t, "cp", "--recursive", "--dereference", filepath.Join(root, "charts/spate"), folder)
	change := func(file string, pattern, by string, times int) {
		t.Helper()
		path := filepath.Join(folder, file)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		expression := regexp.MustCompile(pattern)
		if found := len(expression.FindAll(text, -1)); found != times {
			t.Fatalf("%s has %d of %s, want %d", file, found, pattern, times)
		}
		if err := os.WriteFile(path, expression.ReplaceAll(text, []byte(by)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change("Chart.yaml", `(?m)^(version|appVersion): .*$`, "${1}: "+olderVersion, 2)
	change("values.yaml", `(?m)^  architecture: amd64$`, `  architecture: ""`, 1)
	change("templates/deployment.yaml", `(?m)^        env:$`, "$0\n        - {name: SPATE_VERSION, value: "+olderVersion+"}", 1)

	file := filepath.Join(folder, "files/crds/spate.dev_trafficgenerators.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var crd map[string]any
	if err := utilyaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	versions, _, err := unstructured.NestedSlice(crd, "spec", "versions")
	if err != nil || len(versions) != 1 {
		t.Fatalf("%d versions of the API, %v", len(versions), err)
	}
	schema := versions[0].(map[string]any)
	field := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "ports", "items", "properties", newerField}
	if _, there, err := unstructured.NestedMap(schema, field...); !there || err != nil {
		t.Fatalf("ports of generators have no %s, %v", newerField, err)
	}
	unstructured.RemoveNestedField(schema, field...)
	if err := unstructured.SetNestedSlice(crd, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(crd); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	// The node has the images by the tag `dev` only.
	for _, image := range []string{"operator", "engine"} {
		t.Cleanup(func() { run(t, "ctr", "images", "rm", "localhost/spate/"+image+":"+olderVersion) })
		run(t, "ctr", "images", "tag", "--force", "localhost/spate/"+image+":dev", "localhost/spate/"+image+":"+olderVersion)
	}
	return folder, olderVersion
}

// apiHas fails unless the cluster's definition of generators has the newer field, or has it not.
func apiHas(t *testing.T, want bool) {
	t.Helper()
	fields := kubectl(t, "get", "crd", "trafficgenerators.spate.dev", "--output",
		"jsonpath={.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.ports.items.properties}")
	if has := strings.Contains(fields, `"`+newerField+`":`); has != want {
		t.Errorf("the API has %s: %t, want %t", newerField, has, want)
	}
}

// selected returns the architecture of the nodes that the operator's Deployment requires.
func selected(t *testing.T) string {
	t.Helper()
	return kubectl(t, "get", "deployment", "spate-operator", "--namespace", operatorNamespace, "--output", `jsonpath={.spec.template.spec.nodeSelector.kubernetes\.io/arch}`)
}

var operatorInfo = regexp.MustCompile(`^spate_operator_info\{version="(.*)"\}$`)

// reportedVersion is the one that an operator's metrics have.
func reportedVersion(t *testing.T) string {
	t.Helper()
	for name := range scrape(t, operatorPod(t)) {
		if match := operatorInfo.FindStringSubmatch(name); match != nil {
			return match[1]
		}
	}
	t.Fatal("the operator's metrics have no version")
	return ""
}

// versionBecomes waits until the replaced pods have ended, and fails unless the operator reports a version.
func versionBecomes(t *testing.T, want string) {
	t.Helper()
	replicas := kubectl(t, "get", "deployment", "spate-operator", "--namespace", operatorNamespace, "--output", "jsonpath={.spec.replicas}")
	until(t, 30*time.Second, "pods of replaced operators have ended", func(ctx context.Context) (bool, string) {
		var pods corev1.PodList
		err := kube.List(ctx, &pods, client.InNamespace(operatorNamespace), client.MatchingLabels{"app.kubernetes.io/name": "spate-operator"})
		return err == nil && strconv.Itoa(len(pods.Items)) == replicas, fmt.Sprintf("%d pods, want %s, %v", len(pods.Items), replicas, err)
	})
	if got := reportedVersion(t); got != want {
		t.Errorf("the operator reports version %q, want %q", got, want)
	}
}
