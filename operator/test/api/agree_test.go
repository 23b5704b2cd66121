// SPDX-License-Identifier: Apache-2.0

// Do `kubectl spate` and an API server say the same of an object, and fill in the same?

package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/definition"
	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/test/refused"
)

// judgment is what is said of an object: what is wrong with it, a line each, in order; or its spec with the defaults, as its Go type has it.
type judgment struct {
	faults []string
	spec   string
}

// judges are a server and what it takes to ask it.
type judges struct {
	api   *http.Client
	host  string
	types *runtime.Scheme
}

func judgesOf(t *testing.T, config *rest.Config) judges {
	t.Helper()
	j := judges{host: strings.TrimSuffix(config.Host, "/"), types: runtime.NewScheme()}
	var err error
	if j.api, err = rest.HTTPClientFor(config); err != nil {
		t.Fatal(err)
	}
	if err := spatev1.AddToScheme(j.types); err != nil {
		t.Fatal(err)
	}
	return j
}

// filesAreJudgedTheSame compares both for samples, for what is refused, and for objects with anything wrong at any place. Not compared:
//   - what only a cluster knows: admission policies, quotas, whether a namespace exists;
//   - objects of other APIs, which the plugin does not judge;
//   - objects of other kinds than TrafficRun with a generated name, which the plugin refuses: in files they are referred to by their names;
//   - keys that are in a mapping of YAML twice, which no server gets to see. Those of JSON are compared.
//
// What breaks a rule of programs that are described inline both admit: see inlineTemplatesAreJudgedAsTemplates.
func filesAreJudgedTheSame(t *testing.T, j judges) {
	t.Run("samples", func(t *testing.T) {
		for _, object := range sampled(t) {
			if object.GroupVersionKind().Group == spatev1.GroupVersion.Group {
				j.compare(t, object.Object)
			}
		}
	})
	for _, good := range slices.Sorted(maps.Keys(refused.Changes)) {
		object := parse(t, good).Object
		t.Run(parse(t, good).GetKind(), func(t *testing.T) {
			if found := j.compare(t, object); len(found.faults) > 0 {
				t.Errorf("a good object is refused: %q", found.faults)
			}
			for name, change := range refused.Changes[good] {
				t.Run(name, func(t *testing.T) {
					if found := j.compare(t, parse(t, change.Make(good)).Object); (len(found.faults) > 0) != (change.Want != nil) {
						t.Errorf("got %q, want %q", found.faults, change.Want)
					}
				})
			}
			refusals := 0
			for _, damaged := range refused.Damages(object) {
				if len(j.compare(t, damaged).faults) > 0 {
					refusals++
				}
				if t.Failed() {
					return // most have one cause
				}
			}
			if refusals < 100 {
				t.Errorf("only %d damaged objects are refused", refusals)
			}
			text := encoded(t, object)
			j.compareTexts(t, bytes.Replace(text, []byte(`"spec":{`), []byte(`"spec":{"unheardOf":1,"unheardOf":2,`), 1))
			j.compareTexts(t, bytes.Replace(text, []byte(`"metadata":{`), []byte(`"metadata":{"labels":{},"labels":{"a":"b"},`), 1))
		})
	}
}

func encoded(t *testing.T, object map[string]any) []byte {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// compare gives what is said of an object.
func (j judges) compare(t *testing.T, object map[string]any) judgment {
	t.Helper()
	return j.compareTexts(t, encoded(t, object))
}

func (j judges) compareTexts(t *testing.T, text []byte) judgment {
	t.Helper()
	ofServer, ofFile := j.served(t, text), fromFile(t, text)
	if !reflect.DeepEqual(ofServer, ofFile) {
		t.Errorf("%s\nthe server says  %q\nthe plugin says %q", text, ofServer, ofFile)
	}
	return ofServer
}

// sampled gives the objects of all samples, each with its file.
func sampled(t *testing.T) iter.Seq2[string, *unstructured.Unstructured] {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(samples, "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d samples, %v", len(files), err)
	}
	return func(yield func(string, *unstructured.Unstructured) bool) {
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for document := range strings.SplitSeq(string(text), "\n---\n") {
				if !yield(file, parse(t, document)) {
					return
				}
			}
		}
	}
}

// served is what the server makes of an object that is created, and not kept.
func (j judges) served(t *testing.T, text []byte) judgment {
	t.Helper()
	object := unstructured.Unstructured{}
	if err := json.Unmarshal(text, &object.Object); err != nil {
		t.Fatal(err)
	}
	kind := object.GroupVersionKind()
	resource := definition.Resource(kind)
	url := fmt.Sprintf("%s/apis/%s/namespaces/default/%s?dryRun=All&fieldValidation=Strict", j.host, kind.GroupVersion(), resource.Resource)
	code, body := j.post(t, url, text)
	for range 4 { // the server ends a request after 34 s; it checks the longest programs for 5 s, and for longer beside other work
		if code != http.StatusGatewayTimeout {
			break
		}
		code, body = j.post(t, url, text)
	}
	if code == http.StatusCreated {
		created, err := j.types.New(kind)
		if err == nil {
			err = json.Unmarshal(body, created)
		}
		if err != nil {
			t.Fatal(err)
		}
		return judgment{spec: specOf(t, reflect.ValueOf(created))}
	}
	var status metav1.Status
	if err := json.Unmarshal(body, &status); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return judgment{faults: ofStatus(kind.Kind, kind.Version, status)}
}

func (j judges) post(t *testing.T, url string, text []byte) (code int, body []byte) {
	t.Helper()
	response, err := j.api.Post(url, "application/json", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body
}

var strictly = regexp.MustCompile(`(unknown|duplicate) field "([^"]*)"`)

// ofStatus writes what a server says as the plugin does: the field first, a line each.
func ofStatus(kind, version string, status metav1.Status) (faults []string) {
	// The words before say what was sent.
	message, undecoded := strings.CutPrefix(status.Message, fmt.Sprintf("%s in version %q cannot be handled as a %s: ", kind, version, kind))
	if list, ok := strings.CutPrefix(message, "strict decoding error: "); undecoded && ok {
		for _, found := range strictly.FindAllStringSubmatch(list, -1) {
			faults = append(faults, fmt.Sprintf("%s: %s field", found[2], found[1]))
		}
	} else if undecoded { // a decoder's words, which come with no field but are of the metadata
		return []string{"metadata: " + strings.TrimPrefix(message, "json: ")}
	}
	if status.Reason == metav1.StatusReasonInvalid {
		for _, cause := range status.Details.Causes {
			// The whole object has no field, and the field of a subresource begins with a point.
			path := strings.TrimPrefix(strings.TrimPrefix(cause.Field, "<nil>"), ".")
			faults = append(faults, path+": "+cause.Message)
		}
	}
	if len(faults) == 0 {
		return []string{string(status.Reason) + ": " + status.Message}
	}
	slices.Sort(faults)
	return faults
}

// fromFile is what the plugin makes of an object in a file.
func fromFile(t *testing.T, text []byte) (j judgment) {
	t.Helper()
	var reader manifest.Reader
	reader.Read("file", text)
	set, problems := reader.Done()
	for _, problem := range problems {
		j.faults = append(j.faults, problem.Field+": "+problem.Message)
	}
	slices.Sort(j.faults)
	objects := reflect.ValueOf(*set)
	for _, list := range []string{"Profiles", "Runs", "Generators", "Streams", "Templates", "ClientGroups", "Searches"} {
		if kept := objects.FieldByName(list); kept.Len() > 0 {
			j.spec = specOf(t, kept.Index(0).FieldByName("Value"))
		}
	}
	return j
}

// specOf writes the spec of an object of Go.
func specOf(t *testing.T, object reflect.Value) string {
	t.Helper()
	text, err := json.Marshal(object.Elem().FieldByName("Spec").Interface())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
