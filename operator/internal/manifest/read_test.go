// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"os"
	"path/filepath"
	"slices"
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
  profileRef: {name: smoke}
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
		"JSON":            `{"apiVersion":"spate.dev/v1alpha1","kind":"TrafficGenerator","metadata":{"name":"lab"},"spec":{"ports":[{"name":"east","attachment":{"discard":{}}}]}} {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"captures","namespace":"lab"}}`,
		"YAML in braces":  `{apiVersion: spate.dev/v1alpha1, kind: TrafficGenerator, metadata: {name: lab}, spec: {ports: [{name: east, attachment: {discard: {}}}]}}` + "\n---\n" + data,
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

// fieldsOfProfile are those of a run's description of a profile.
const fieldsOfProfile = "clients, drain, duration, generatorRef, generatorTolerance, ignoredSources, maxFlowsPerEngine, mix, paused, rampUp, rampUpStep, randomOrderSeed, rate, " +
	"receive, records, reflect, routing, setupTimeout, stages, thresholds, traffic, tunables, warmup, whenBusy, whenPodLost"

// kindsThere is the remedy for a kind that there is not.
const kindsThere = "; the kinds of spate.dev/v1alpha1 are ASTFTemplate, ClientGroup, StatelessStream, TrafficCapture, TrafficGenerator, TrafficPing, TrafficProfile, TrafficRecordsReader, TrafficRun, TrafficSearch, TrafficStatsReader"

// notChecked is what an API server adds where it did not come to the rules.
const notChecked = "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"

func TestProblemsNameFileDocumentAndField(t *testing.T) {
	changed := func(text, from, to string) string { return strings.Replace(text, from, to, 1) }
	template := func(client string) string {
		return "apiVersion: spate.dev/v1alpha1\nkind: ASTFTemplate\nmetadata: {name: t}\nspec: {connectionRate: 1cps, destinationPort: 80, " +
			"pools: {servers: [{name: s, start: 48.0.0.1, count: 1}]}, source: {programs: {transport: TCP, client: [" + client + "], server: [{close: {}}]}}}\n"
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":            {"", []string{"a.yaml, document 1: holds no object"}},
		"comments":           {"# nothing\n---\n# more\n", []string{"a.yaml, document 2: holds no object"}},
		"no YAML":            {port + "---\na: [", []string{"a.yaml, document 2: line 1: did not find expected node content"}},
		"a key twice":        {changed(port, "kind:", "kind: x\nkind:"), []string{`a.yaml, document 1: line 3: key "kind" already set in map; leave one of them out`}},
		"two keys twice":     {changed(changed(port, "kind:", "kind: x\nkind:"), "metadata:", "kind: y\nmetadata:"), []string{`a.yaml, document 1: line 3: key "kind" already set in map; line 4: key "kind" already set in map; leave one of them out`}},
		"a key of JSON, too": {`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "name": "b"}}`, []string{"a.yaml, document 1: ConfigMap b: metadata.name: duplicate field"}},
		"no mapping":         {"- a\n", []string{"a.yaml, document 1: is no object of Kubernetes, but a list"}},
		"text":               {"hello\n", []string{"a.yaml, document 1: is no object of Kubernetes, but text"}},
		"no kind":            {"apiVersion: v1\n", []string{"a.yaml, document 1: is no object of Kubernetes: apiVersion and kind are needed"}},
		"a list of a list":   {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List}]\n", []string{"a.yaml, document 1: List: is in a list; write its objects into one list"}},
		"a number in a list": {"apiVersion: v1\nkind: List\nitems: [7]\n", []string{"a.yaml, document 1: is no object of Kubernetes, but a number"}},
		"a number for name":  {changed(port, "{name: lab}", "{name: 5}"), []string{"a.yaml, document 1: TrafficGenerator: metadata: cannot unmarshal number into Go struct field ObjectMeta.name of type string"}},
		"no name": {changed(port, "{name: lab}", "{}"), []string{
			"a.yaml, document 1: TrafficGenerator: metadata.name: Required value: name or generateName is required", "a.yaml, document 1: TrafficGenerator: " + notChecked}},
		"a name of capitals": {changed(port, "{name: lab}", "{name: Lab}"), []string{
			`a.yaml, document 1: TrafficGenerator Lab: metadata.name: Invalid value: "Lab": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
		"another version":    {changed(port, "v1alpha1", "v9"), []string{`a.yaml, document 1: TrafficGenerator lab: no matches for kind "TrafficGenerator" in version "spate.dev/v9"` + kindsThere}},
		"another kind":       {changed(port, "TrafficGenerator", "TrafficLight"), []string{`a.yaml, document 1: TrafficLight lab: no matches for kind "TrafficLight" in version "spate.dev/v1alpha1"` + kindsThere}},
		"a kind as a path":   {changed(port, "TrafficGenerator", "../TrafficGenerator"), []string{`a.yaml, document 1: ../TrafficGenerator lab: no matches for kind "../TrafficGenerator" in version "spate.dev/v1alpha1"` + kindsThere}},
		"a resource as kind": {changed(port, "TrafficGenerator", "trafficgenerator"), []string{`a.yaml, document 1: trafficgenerator lab: no matches for kind "trafficgenerator" in version "spate.dev/v1alpha1"` + kindsThere}},
		"no name of its own": {changed(port, "{name: lab}", "{generateName: lab-}"), []string{"a.yaml, document 1: TrafficGenerator lab-: metadata.name: is needed: other objects refer to it by its name"}},
		"a run twice":        {run + "---\n" + run, []string{"a.yaml, document 2: TrafficRun smoke-1: is already in a.yaml, document 1"}},
		"an unknown, inline": {run + "  profile: {streams: []}\n", []string{"a.yaml, document 1: TrafficRun smoke-1: spec.profile.streams: unknown field; the fields here are " + fieldsOfProfile}},
		"twice":              {port + "---\n" + port, []string{"a.yaml, document 2: TrafficGenerator lab: is already in a.yaml, document 1"}},
		"an unknown field":   {port + "  replica: 2\n", []string{"a.yaml, document 1: TrafficGenerator lab: spec.replica: unknown field; did you mean replicas?"}},
		"an unknown in list": {changed(port, "name: east", "name: east\n      speed: 1"), []string{"a.yaml, document 1: TrafficGenerator lab: spec.ports[0].speed: unknown field; the fields here are acceptAnyMAC, addresses, attachment, gateway, gateway6, lineRate, mac, multicastGroups, name, offloads, punt, receiveTimestamps, routing, vlan"}},
		"an unknown of all":  {changed(port, "{name: lab}", "{name: lab, owner: me}"), []string{"a.yaml, document 1: TrafficGenerator lab: metadata.owner: unknown field"}},
		"of a core kind":     {data + "dta: {}\n", []string{"a.yaml, document 1: ConfigMap captures: dta: unknown field"}},
		"another case":       {changed(port, "ports:", "Ports:"), []string{"a.yaml, document 1: TrafficGenerator lab: spec.Ports: unknown field; did you mean ports?"}},
		"a wrong type": {port + "  workers: two\n", []string{
			`a.yaml, document 1: TrafficGenerator lab: spec.workers: Invalid value: "string": spec.workers in body must be of type integer: "string"; write a whole number, without quotes or a unit`, "a.yaml, document 1: TrafficGenerator lab: " + notChecked}},
		"of replicas": {port + "  replicas: two\n", []string{
			`a.yaml, document 1: TrafficGenerator lab: spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"; write a whole number, without quotes or a unit`,
			`a.yaml, document 1: TrafficGenerator lab: spec.replicas: Invalid value: 0: .spec.replicas accessor error: two is of the type string, expected int64`, "a.yaml, document 1: TrafficGenerator lab: " + notChecked}},
		"a wrong command": {template("{close: {}}, {send: hello}"), []string{
			`a.yaml, document 1: ASTFTemplate t: spec.source.programs.client[1].send: Invalid value: "string": spec.source.programs.client[1].send in body must be of type object: "string"; it has fields of its own: content, waitForAck`,
			"a.yaml, document 1: ASTFTemplate t: " + notChecked}},
		"an empty command": {template("{close: {}}, {close: }"), []string{
			"a.yaml, document 1: ASTFTemplate t: spec.source.programs.client[1]: Invalid value: exactly one of the fields in [connect accept send receive sendMessage receiveMessages delay close reset waitForPeerClose leaveOpen keepalive set add jump loop setTime count receiveUntil switchTemplate openConnection nextTemplate] must be set"}},
		"a broken rule": {run + "  profile: {traffic: [{name: a, stream: {ref: {name: a}}}]}\n", []string{
			"a.yaml, document 1: TrafficRun smoke-1: spec: Invalid value: exactly one of the fields in [profileRef profile] must be set"}},
		"no base64": {"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: '*'}\n", []string{"a.yaml, document 1: Secret s: illegal base64 data at input byte 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			set, problems := read(c.text)
			var got []string
			for _, problem := range problems {
				got = append(got, problem.Error())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
			}
			if kept := len(set.Generators); kept > 1 {
				t.Errorf("%d generators kept", kept)
			}
		})
	}
}

func TestObjectsWithProblemsAreKnownToBeThere(t *testing.T) {
	set, problems := read(port + "  workers: many\n  pollMode: Lazy\n")
	if len(problems) != 3 || !set.Unread("TrafficGenerator", "default", "lab") || set.Unread("TrafficGenerator", "other", "lab") || !set.AnyUnread("TrafficGenerator", "default") || len(set.Generators) > 0 {
		t.Errorf("got %v of %+v", problems, set)
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

// FuzzRead reads hostile files: what is kept has a name, and what is not is reported.
func FuzzRead(f *testing.F) {
	f.Add([]byte(port + "---\n" + data))
	f.Add([]byte(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List"}]}`))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Reader
		r.Read("f", data)
		set, problems := r.Done()
		objects := len(set.Profiles) + len(set.Runs) + len(set.Generators) + len(set.Streams) + len(set.Templates) + len(set.Searches) + len(set.ConfigMaps) + len(set.Secrets) + len(set.Validated) + len(set.Others)
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
