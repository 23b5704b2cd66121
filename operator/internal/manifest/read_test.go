// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func read(data string) (*Set, []Problem) {
	var r Reader
	r.Read("a.yaml", []byte(data))
	return r.Done()
}

const (
	port = `apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: lab}
spec:
  ports:
    - name: east
      attachment: {discard: {}}
`
	run = `apiVersion: spate.dev/v1alpha1
kind: TrafficRun
metadata: {name: smoke-1}
spec:
  ttlSecondsAfterFinished: 60
`
	data = `apiVersion: v1
kind: ConfigMap
metadata: {name: captures, namespace: lab}
data: {web: x}
`
)

func TestManyDocumentsAreRead(t *testing.T) {
	for name, text := range map[string]string{
		"documents":       "# first\n---\n" + port + "---\n" + data + "---\n",
		"no end of line":  strings.TrimSuffix(port, "\n") + "\n---\n" + strings.TrimSuffix(data, "\n"),
		"a list":          "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(port, "\n", "\n  ") + "\n- " + strings.ReplaceAll(data, "\n", "\n  ") + "\n",
		"JSON":            `{"apiVersion":"spate.dev/v1alpha1","kind":"TrafficGenerator","metadata":{"name":"lab"},"spec":{"ports":[]}} {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"captures","namespace":"lab"}}`,
		"YAML in braces":  `{apiVersion: spate.dev/v1alpha1, kind: TrafficGenerator, metadata: {name: lab}}` + "\n---\n" + data,
		"lines of DOS":    strings.ReplaceAll(port+"---\n"+data, "\n", "\r\n"),
		"with others":     port + "---\n" + data + "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n",
		"byte order mark": "\ufeff" + port + "---\n" + data,
	} {
		t.Run(name, func(t *testing.T) {
			set, problems := read(text)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if len(set.Generators) != 1 || set.Generators[0].Value.Name != "lab" || set.Generators[0].Value.Namespace != DefaultNamespace {
				t.Errorf("generators %+v", set.Generators)
			}
			if len(set.ConfigMaps) != 1 || set.ConfigMaps[0].Value.Namespace != "lab" {
				t.Errorf("ConfigMaps %+v", set.ConfigMaps)
			}
			if others := len(set.Others); others != 0 && (name != "with others" || set.Others[0].Value != "Deployment web") {
				t.Errorf("others %+v", set.Others)
			}
		})
	}
}

func TestProblemsNameFileDocumentAndField(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":            {"", "a.yaml, document 1: holds no object"},
		"comments":           {"# nothing\n---\n# more\n", "a.yaml, document 2: holds no object"},
		"no YAML":            {port + "---\na: [", "a.yaml, document 2: line 1: "},
		"a key twice":        {strings.Replace(port, "kind:", "kind: x\nkind:", 1), `key "kind" already set in map`},
		"no mapping":         {"- a\n", "a.yaml, document 1: is no object of Kubernetes"},
		"text":               {"hello\n", "is no object of Kubernetes, but text"},
		"no kind":            {"apiVersion: v1\n", "is no object of Kubernetes: apiVersion and kind are needed"},
		"a list of a list":   {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List}]\n", "List: is in a list"},
		"a number in a list": {"apiVersion: v1\nkind: List\nitems: [7]\n", "is no object of Kubernetes, but a number"},
		"a number for name":  {strings.Replace(port, "{name: lab}", "{name: 5}", 1), "metadata.name: must be text, not a number: put it in quotes"},
		"no name":            {strings.Replace(port, "{name: lab}", "{}", 1), "TrafficGenerator: metadata.name: is needed"},
		"another version":    {strings.Replace(port, "v1alpha1", "v9", 1), "TrafficGenerator lab: apiVersion spate.dev/v9 has no kind TrafficGenerator that can be planned"},
		"another kind":       {strings.Replace(port, "TrafficGenerator", "TrafficLight", 1), "has no kind TrafficLight that can be planned"},
		"no name of its own": {strings.Replace(port, "{name: lab}", "{generateName: lab-}", 1), "TrafficGenerator: metadata.name: is needed"},
		"no name of a run":   {strings.Replace(run, "name: smoke-1", "labels: {}", 1), "TrafficRun: metadata.name: is needed"},
		"a run twice":        {run + "---\n" + run, "a.yaml, document 2: TrafficRun smoke-1: is already in a.yaml, document 1"},
		"an unknown, inline": {run + "  profile: {streams: []}\n", "TrafficRun smoke-1: spec.profile.streams: unknown field"},
		"a profile as text":  {run + "  profile: smoke\n", "TrafficRun smoke-1: spec.profile: must be an object, not text: its fields are generatorRef, traffic, reflect"},
		"an entry as text":   {strings.Replace(run, "TrafficRun", "TrafficProfile", 1) + "  traffic: [{stream: udp}]\n", "spec.traffic[0].stream: must be an object, not text: its fields are ref, inline, rate, start, next"},
		"a template as text": {strings.Replace(strings.Replace(run, "TrafficRun", "ASTFTemplate", 1), "\n  ttlSecondsAfterFinished: 60", " x", 1), "spec: must be an object, not text: its fields are source, destinationPort, connectionRate"},
		"twice":              {port + "---\n" + port, "a.yaml, document 2: TrafficGenerator lab: is already in a.yaml, document 1"},
		"an unknown field":   {port + "  replica: 2\n", "a.yaml, document 1: TrafficGenerator lab: spec.replica: unknown field"},
		"an unknown in list": {strings.Replace(port, "name: east", "name: east\n      speed: 1", 1), "TrafficGenerator lab: spec.ports[0].speed: unknown field"},
		"another case":       {strings.Replace(port, "ports:", "Ports:", 1), "spec.Ports: unknown field"},
		"a wrong type":       {port + "  replicas: two\n", "TrafficGenerator lab: spec.replicas: must be a whole number, not text: write digits without quotes and unit"},
		"a number in list":   {strings.Replace(port, "- name: east", "- name: 5", 1), "spec.ports[0].name: must be text, not a number"},
		"no base64":          {"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: '*'}\n", "Secret s: data[a]: is no base64 (at input byte 0)"},
	} {
		t.Run(name, func(t *testing.T) {
			set, problems := read(c.text)
			if len(problems) != 1 || !strings.Contains(problems[0].Error(), c.want) {
				t.Errorf("got %v, want %q", problems, c.want)
			}
			if strings.Contains(problems[0].Error(), "json:") || strings.Contains(problems[0].Error(), "yaml:") {
				t.Errorf("a decoder's name in %v", problems)
			}
			if kept := len(set.Generators); kept > 1 {
				t.Errorf("%d generators kept", kept)
			}
		})
	}
}

func TestValuesOfAnotherKindAreReportedByTheirPlaceAndWhatToWrite(t *testing.T) {
	for command, want := range map[string]string{
		"{send: hello}":                   "[1].send: must be an object, not text: its fields are content, waitForAck",
		"{send: }":                        "[1].send: is empty: its fields are content, waitForAck",
		"{close: true}":                   "[1].close: must be an object, not true: write `close: {}`",
		"{close: }":                       "[1].close: is empty: write `close: {}`",
		"close":                           "[1]: must be an object, not text: write a command such as `close: {}`",
		"{receive: {bytes: 5k}}":          "[1].receive.bytes: must be a whole number, not text: write digits without quotes and unit, such as 5000",
		"{receive: {bytes: 5.5}}":         "[1].receive.bytes: must be a whole number of 64 bits, not 5.5",
		"{receive: {bytes: 5, clear: 1}}": "[1].receive.clear: must be true or false, not a number",
		"{delay: {min: 5}}":               "[1].delay.min: must be text, not a number: write it with its unit, such as 500ms",
		"{sendMessage: {text: 7}}":        "[1].sendMessage.text: must be text, not a number: put it in quotes",
		"{sendMessage: {text: [a]}}":      "[1].sendMessage.text: must be text, not a list: write one value",
		"{sendMessage: {base64: '*'}}":    "[1].sendMessage.base64: is no base64 (at input byte 0)",
		"{sendMessage: {text: a, fields: {offset: 1}}}": `[1].sendMessage.fields: must be a list, not an object: write each item behind "- "`,
	} {
		_, problems := read("apiVersion: spate.dev/v1alpha1\nkind: ASTFTemplate\nmetadata: {name: t}\nspec: {source: {programs: {client: [{close: {}}, " + command + "]}}}\n")
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), "ASTFTemplate t: spec.source.programs.client"+want) {
			t.Errorf("%s: got %v, want %s", command, problems, want)
		}
	}
	if set, problems := read(port + "  replicas: two\n  workers: many\n"); len(problems) != 2 || !set.Unread("TrafficGenerator", "default", "lab") || set.Unread("TrafficGenerator", "other", "lab") {
		t.Errorf("all are told, and the object is known to be there: %v", problems)
	}
}

func TestNamespacesKeepObjectsApart(t *testing.T) {
	r := Reader{Namespace: "mine"}
	r.Read("a", []byte(port))
	r.Read("b", []byte(strings.Replace(port, "{name: lab}", "{name: lab, namespace: other}", 1)))
	r.Read("c", []byte(strings.Replace(port, "{name: lab}", "{name: lab, namespace: mine}", 1)))
	set, problems := r.Done()
	if len(set.Generators) != 2 || len(problems) != 1 || problems[0].Error() != "c, document 1: TrafficGenerator lab: is already in a, document 1" {
		t.Errorf("got %v %v", set.Generators, problems)
	}
}

func TestSamplesAreRead(t *testing.T) {
	files, err := filepath.Glob("../../../config/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var r Reader
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r.Read(file, text)
	}
	if set, problems := r.Done(); len(problems) > 0 || len(set.Profiles) < 5 || len(set.Runs) == 0 {
		t.Errorf("%d profiles, %d runs, %v", len(set.Profiles), len(set.Runs), problems)
	}
}

func TestRunsWithAGeneratedNameAreOneEach(t *testing.T) {
	generated := strings.Replace(run, "name: smoke-1", "generateName: smoke-", 1)
	set, problems := read(generated + "---\n" + generated + "---\n" + run)
	if len(set.Runs) != 3 || len(problems) > 0 || set.Runs[0].Value.GenerateName != "smoke-" || set.Runs[2].Value.Namespace != DefaultNamespace {
		t.Errorf("got %+v, %v", set.Runs, problems)
	}
}

// FuzzRead reads hostile files: what is kept has a name, and what is not is told.
func FuzzRead(f *testing.F) {
	f.Add([]byte(port + "---\n" + data))
	f.Add([]byte(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List"}]}`))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Reader
		r.Read("f", data)
		set, problems := r.Done()
		objects := len(set.Profiles) + len(set.Runs) + len(set.Generators) + len(set.Streams) + len(set.Templates) + len(set.ConfigMaps) + len(set.Secrets) + len(set.Others)
		if objects+len(problems) == 0 && !strings.Contains(string(data), "List") {
			t.Fatal("neither an object nor a problem")
		}
		for _, g := range set.Generators {
			if g.Value.Name == "" || g.Value.Namespace == "" || g.Document < 1 {
				t.Fatalf("%+v", g)
			}
		}
		for _, p := range problems {
			if p.Message == "" || p.File != "f" {
				t.Fatalf("%+v", p)
			}
		}
	})
}
