// SPDX-License-Identifier: Apache-2.0

// Package install_test renders what users install, by helm and by kustomize.
package install_test

// This file answers: do the chart and kustomize install the same, with the defaults and with what is chosen instead?

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	root       = "../../.."
	components = "config/components"
	definition = "CustomResourceDefinition"
)

// objects are by kind, namespace and name. CustomResourceDefinitions, which chart and kustomize have of one folder, are there without their content.
type objects map[string]map[string]any

// helm renders the chart.
func helm(t *testing.T, args ...string) objects {
	t.Helper()
	program := os.Getenv("HELM")
	if program == "" {
		t.Fatal("HELM, the path of helm, is not set: run `make operator-test`, which builds it")
	}
	var complaints bytes.Buffer
	command := exec.CommandContext(t.Context(), program, append([]string{"template", "spate", filepath.Join(root, "charts/spate"), "--namespace", "spate-system"}, args...)...)
	command.Stderr = &complaints
	text, err := command.Output()
	if err != nil {
		t.Fatalf("helm template %s: %v: %s", strings.Join(args, " "), err, complaints.String())
	}
	all := objects{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.Contains(document, "\nkind: "+definition+"\n") {
			all[definition+" "+named.FindStringSubmatch(document)[1]] = nil
			continue
		}
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object != nil {
			all.add(t, object)
		}
	}
	return all
}

var named = regexp.MustCompile(`(?m)^  name: (\S+)$`)

// kustomize builds folders of config with components.
func kustomize(t *testing.T, chosen []string, folders ...string) objects {
	t.Helper()
	folder := t.TempDir()
	above, err := filepath.Rel(folder, absolute(t, root))
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	list := func(field, below string, names []string) {
		fmt.Fprintln(&page, field)
		for _, name := range names {
			fmt.Fprintln(&page, "-", filepath.Join(above, below, name))
		}
	}
	list("resources:", "config", folders)
	if len(chosen) > 0 {
		list("components:", components, chosen)
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(page.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatalf("%q: %v", chosen, err)
	}
	all := objects{}
	for _, resource := range built.Resources() {
		if resource.GetKind() == definition {
			all[definition+" "+resource.GetName()] = nil
			continue
		}
		text, err := resource.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := json.Unmarshal(text, &object); err != nil {
			t.Fatal(err)
		}
		all.add(t, object)
	}
	return all
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// add adds an object without what differs between chart and kustomize: the labels of a release, helm's annotations, versions of images, and the
// name of a Service that is the operator's default.
func (o objects) add(t *testing.T, object map[string]any) {
	t.Helper()
	object = stripped(object).(map[string]any)
	metadata := object["metadata"].(map[string]any)
	tidy(metadata, "app.kubernetes.io/name")
	if spec, ok := object["spec"].(map[string]any); ok {
		if template, ok := spec["template"].(map[string]any); ok {
			tidy(template["metadata"].(map[string]any))
		}
	}
	key := fmt.Sprintf("%s %s", object["kind"], metadata["name"])
	if namespace, ok := metadata["namespace"]; ok {
		key = fmt.Sprintf("%s %s/%s", object["kind"], namespace, metadata["name"])
	}
	if _, twice := o[key]; twice {
		t.Errorf("%s is there twice", key)
	}
	o[key] = object
}

// tidy removes labels, and what is empty then.
func tidy(metadata map[string]any, names ...string) {
	if labels, ok := metadata["labels"].(map[string]any); ok {
		if labels["app.kubernetes.io/managed-by"] == "Helm" {
			delete(labels, "app.kubernetes.io/managed-by")
		}
		for _, name := range names {
			delete(labels, name)
		}
	}
	for _, kind := range []string{"labels", "annotations"} {
		if all, ok := metadata[kind].(map[string]any); ok && len(all) == 0 {
			delete(metadata, kind)
		}
	}
}

var version = regexp.MustCompile(`(localhost/spate/\w+):[\w.]+`)

func stripped(of any) any {
	switch of := of.(type) {
	case map[string]any:
		all := map[string]any{}
		for key, value := range of {
			if key != "app.kubernetes.io/instance" && key != "app.kubernetes.io/version" && !strings.HasPrefix(key, "helm.sh/") {
				all[key] = stripped(value)
			}
		}
		return all
	case []any:
		var all []any
		for _, value := range of {
			if variable, ok := value.(map[string]any); !ok || variable["name"] != "LIVE_SERVICE" {
				all = append(all, stripped(value))
			}
		}
		return all
	case string:
		return version.ReplaceAllString(of, "$1")
	}
	return of
}

// same compares what both install, apart from kustomize's Namespace, which `helm install --create-namespace` makes.
func same(t *testing.T, chart, kustomized objects) {
	t.Helper()
	delete(kustomized, "Namespace spate-system")
	keys := slices.Sorted(maps.Keys(chart))
	if others := slices.Sorted(maps.Keys(kustomized)); !slices.Equal(keys, others) {
		t.Errorf("the chart has\n%s\nkustomize\n%s", strings.Join(keys, "\n"), strings.Join(others, "\n"))
	}
	for key, object := range chart {
		if other, there := kustomized[key]; there && !reflect.DeepEqual(object, other) {
			one, _ := yaml.Marshal(object)
			two, _ := yaml.Marshal(other)
			t.Errorf("%s: the chart has\n%s\nkustomize\n%s", key, one, two)
		}
	}
}

func TestChartAndKustomizeInstallTheSame(t *testing.T) {
	t.Parallel()
	chart := helm(t)
	same(t, chart, kustomize(t, nil, "default", "uninstall"))
	if len(chart) < 30 {
		t.Errorf("%d objects", len(chart))
	}
}

// inValues has for each component the values of the chart that do the same.
var inValues = map[string]struct {
	with []string // components that it is for
	set  string
}{
	"archive":                 {nil, "archive.claim=spate-archive"},
	"remote-write":            {nil, "metrics.export.remoteWrite.url=http://prometheus-operated.monitoring:9090/api/v1/write"},
	"otlp":                    {nil, "metrics.export.otlp.url=http://otel-collector.monitoring:4318/v1/metrics"},
	"archive-bucket":          {nil, "archive.bucket.name=spate-archive,archive.bucket.credentialsSecret=spate-archive"},
	"high-availability":       {nil, "replicas=2"},
	"egress":                  {nil, "networkPolicy.egress.enabled=true"},
	"metrics-from-monitoring": {nil, "metrics.allowedNamespaces={monitoring}"},
	"native-histograms":       {nil, "metrics.enginePodMonitors.nativeHistograms=true"},
	"metrics-authentication":  {nil, "metrics.authentication.enabled=true"},
	"service-monitor":         {[]string{"metrics-authentication"}, "metrics.authentication.enabled=true,metrics.podMonitor.enabled=true"},
	"pod-monitor":             {nil, "metrics.podMonitor.enabled=true"},
	"alerts":                  {nil, "metrics.prometheusRule.enabled=true"},
}

func TestAComponentOfKustomizeDoesWhatValuesOfTheChartDo(t *testing.T) {
	t.Parallel()
	folders, err := os.ReadDir(filepath.Join(root, components))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		component := folder.Name()
		if strings.HasPrefix(component, "namespaced") { // below
			continue
		}
		t.Run(component, func(t *testing.T) {
			t.Parallel()
			values, known := inValues[component]
			if !known {
				t.Fatal("no values of the chart do the same")
			}
			same(t, helm(t, "--set", values.set), kustomize(t, append(slices.Clone(values.with), component), "default", "uninstall"))
		})
	}
}

// Both bind the same rules in the namespaces: the chart as Roles, kustomize by the ClusterRoles.
func TestAnOperatorOfOneNamespaceAndItsUninstallJobHaveTheirRightsThereAlone(t *testing.T) {
	t.Parallel()
	chart, kustomized := helm(t, "--set", "watchNamespaces={lab}"), kustomize(t, []string{"namespaced"}, "default")
	maps.Copy(kustomized, kustomize(t, []string{"namespaced-uninstall"}, "uninstall"))
	for name, all := range map[string]objects{"the chart": chart, "kustomize": kustomized} {
		deployment, err := json.Marshal(all["Deployment spate-system/spate-operator"])
		if err != nil || !bytes.Contains(deployment, []byte(`"--watch-namespaces=lab"`)) {
			t.Errorf("%s: %v: %s", name, err, deployment)
		}
		for key, object := range all {
			switch object["kind"] {
			case "ClusterRoleBinding":
				bound := all["ClusterRole "+object["roleRef"].(map[string]any)["name"].(string)]
				only := []any{map[string]any{"apiGroups": []any{"resource.k8s.io"}, "resources": []any{"resourceslices"}, "verbs": []any{"list"}}}
				if !reflect.DeepEqual(bound["rules"], only) {
					t.Errorf("%s: %s binds %v in the whole cluster", name, key, bound["rules"])
				}
			case "ValidatingAdmissionPolicyBinding":
				if spec := object["spec"].(map[string]any); spec["matchResources"] == nil {
					t.Errorf("%s: %s applies to the whole cluster", name, key)
				}
			}
		}
	}
	without := func(rules any) []any {
		return slices.DeleteFunc(slices.Clone(rules.([]any)), func(rule any) bool {
			return reflect.DeepEqual(rule.(map[string]any)["resources"], []any{"resourceslices"})
		})
	}
	if inNamespace, inCluster := chart["Role lab/spate-operator-watched"]["rules"], kustomized["ClusterRole spate-operator"]["rules"]; !reflect.DeepEqual(inNamespace, without(inCluster)) {
		t.Errorf("in its namespace the operator of the chart has %v, that of kustomize %v", inNamespace, inCluster)
	}
	if inNamespace, inCluster := chart["Role lab/spate-uninstall-objects"]["rules"], kustomized["ClusterRole spate-uninstall"]["rules"]; inNamespace == nil || !reflect.DeepEqual(inNamespace, inCluster) {
		t.Errorf("in that namespace the uninstall job of the chart has %v, that of kustomize %v", inNamespace, inCluster)
	}
	for _, key := range []string{"RoleBinding lab/spate-operator-watched", "RoleBinding lab/spate-uninstall-objects"} {
		if !reflect.DeepEqual(chart[key]["subjects"], kustomized[key]["subjects"]) || chart[key] == nil {
			t.Errorf("%s: the chart has %v, kustomize %v", key, chart[key]["subjects"], kustomized[key]["subjects"])
		}
	}
	if job := "Job spate-system/spate-uninstall"; !reflect.DeepEqual(chart[job], kustomized[job]) || chart[job] == nil {
		t.Errorf("%s: the chart has %v, kustomize %v", job, chart[job], kustomized[job])
	}
	for _, key := range []string{"Role spate-system/spate-operator-authority", "Role spate-system/spate-operator"} {
		if !reflect.DeepEqual(chart[key]["rules"], kustomized[key]["rules"]) || chart[key] == nil {
			t.Errorf("%s: the chart has %v, kustomize %v", key, chart[key]["rules"], kustomized[key]["rules"])
		}
	}
}

func TestArtifactHubHasEveryKindImageAndSource(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "charts/spate/Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var chart struct {
		AppVersion  string            `json:"appVersion"`
		Home        string            `json:"home"`
		Icon        string            `json:"icon"`
		Sources     []string          `json:"sources"`
		Annotations map[string]string `json:"annotations"`
	}
	if err := yaml.Unmarshal(text, &chart); err != nil {
		t.Fatal(err)
	}
	var kinds []struct{ Name, Kind, Version, DisplayName, Description string }
	var images []struct {
		Name, Image string
		Platforms   []string
	}
	var examples []map[string]any
	for name, into := range map[string]any{"crds": &kinds, "images": &images, "crdsExamples": &examples} {
		if err := yaml.UnmarshalStrict([]byte(chart.Annotations["artifacthub.io/"+name]), into); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var found []string
	for _, kind := range kinds {
		found = append(found, definition+" "+kind.Name)
		if kind.Kind == "" || kind.Version == "" || kind.DisplayName == "" || kind.Description == "" {
			t.Errorf("%+v", kind)
		}
	}
	slices.Sort(found)
	installed := slices.DeleteFunc(slices.Sorted(maps.Keys(helm(t))), func(key string) bool { return !strings.HasPrefix(key, definition) })
	if !slices.Equal(found, installed) {
		t.Errorf("Artifact Hub has %q, the chart %q", found, installed)
	}
	for _, image := range images {
		if want := "localhost/spate/" + image.Name + ":" + chart.AppVersion; image.Image != want {
			t.Errorf("image %s, want %s", image.Image, want)
		}
		if !slices.Equal(image.Platforms, []string{"linux/amd64"}) { // where the operator's pods are scheduled
			t.Errorf("image %s is for %q", image.Image, image.Platforms)
		}
	}
	if len(images) != 2 || len(examples) == 0 {
		t.Errorf("%d images, %d examples", len(images), len(examples))
	}
	// The site of the documents has the icon.
	icon, ofSite := strings.CutPrefix(chart.Icon, chart.Home+"/docs/")
	if _, err := os.Stat(filepath.Join(root, "docs", icon)); err != nil || !ofSite || icon == "" {
		t.Errorf("icon %q of the site %q: %v", chart.Icon, chart.Home, err)
	}
	if len(chart.Sources) == 0 {
		t.Error("the chart does not say where its sources are")
	}
	repository, err := os.ReadFile(filepath.Join(root, "charts/artifacthub-repo.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var hub struct {
		RepositoryID string `json:"repositoryID"`
		Owners       []struct{ Name, Email string }
		Ignore       []struct{ Name, Version string }
	}
	if err := yaml.UnmarshalStrict(repository, &hub); err != nil || len(hub.Owners) == 0 {
		t.Errorf("artifacthub-repo.yml: %+v, %v", hub, err)
	}
}
