// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: what do Argo CD and Flux show of real objects in each of their states? The engines are simulated.

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/test/health"
)

// recordVariable, if it is set, makes TestTheHealthOfObjects write the objects that the tests of package health read, with the messages
// that Argo CD shows.
const recordVariable = "HEALTH_RECORD"

const customizations = "../../config/argocd/resource_customizations/spate.dev"

// patient reports the health of objects, and keeps which states were shown.
type patient struct {
	t     *testing.T
	shown map[string]bool
	texts map[string]string // by kind: the tests in Argo CD's format
}

// raw is an object as the API server has it.
func raw(t *testing.T, object client.Object) *unstructured.Unstructured {
	t.Helper()
	kind, err := apiutil.GVKForObject(object, cluster.kube.Scheme())
	must(t, err)
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	must(t, cluster.kube.Get(t.Context(), client.ObjectKeyFromObject(object), u))
	return u
}

// is expects that an object has the health of a case.
func (p *patient) is(name string, object *unstructured.Unstructured) {
	p.t.Helper()
	kind := object.GetKind()
	c := health.Find(kind, name)
	if c == nil {
		p.t.Fatalf("no case %s of %s", name, kind)
	}
	script, err := os.ReadFile(filepath.Join(customizations, kind, "health.lua"))
	must(p.t, err)
	argo, err := health.Argo(string(script), object)
	must(p.t, err)
	flux, err := health.Flux(object)
	must(p.t, err)
	if argo.Status != c.Argo || flux != c.Flux {
		p.t.Errorf("%s %s: Argo CD shows %+v, want %s; kstatus says %s, want %s\n%v", kind, name, argo, c.Argo, flux, c.Flux, object.Object)
	}
	p.shown[kind+" "+name] = true
	if os.Getenv(recordVariable) != "" {
		p.record(*c, object, argo)
	}
}

func (p *patient) record(c health.Case, object *unstructured.Unstructured, argo health.Health) {
	p.t.Helper()
	object.SetManagedFields(nil)
	text, err := yaml.Marshal(object.Object)
	must(p.t, err)
	const head = "# SPDX-License-Identifier: Apache-2.0\n"
	must(p.t, os.WriteFile(filepath.Join(customizations, c.Kind, "testdata", c.Name+".yaml"), append([]byte(head+"# yamllint disable rule:line-length\n"), text...), 0o644))
	one, err := yaml.Marshal([]any{map[string]any{"inputPath": "testdata/" + c.Name + ".yaml", "healthStatus": argo}})
	must(p.t, err)
	if p.texts[c.Kind] == "" {
		p.texts[c.Kind] = head + "# yamllint disable rule:line-length\ntests:\n"
	}
	p.texts[c.Kind] += string(one)
	must(p.t, os.WriteFile(filepath.Join(customizations, c.Kind, "health_test.yaml"), []byte(p.texts[c.Kind]), 0o644))
}

// manifestOf is the object of a manifest.
func manifestOf(t *testing.T, ns, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(manifest), &object.Object))
	object.SetNamespace(ns)
	return object
}

// isNew creates an object and shows what the API server answers, before the operator has seen it.
func (p *patient) isNew(ns, manifest string) {
	p.t.Helper()
	object := manifestOf(p.t, ns, manifest)
	must(p.t, cluster.kube.Create(p.t.Context(), object))
	p.is("new", object)
}

// changed changes the spec of an object and shows what the API server answers, before the operator has seen it.
func (p *patient) changed(object client.Object, spec string) {
	p.t.Helper()
	u := raw(p.t, object)
	must(p.t, cluster.kube.Patch(p.t.Context(), u, client.RawPatch(types.MergePatchType, []byte(`{"spec":`+spec+`}`))))
	p.is("changed", u)
}

func (p *patient) awaited(name string, object client.Object, kind string, status metav1.ConditionStatus, reason string) {
	p.t.Helper()
	expect(p.t, runLimit, object, kind, status, reason)
	p.is(name, raw(p.t, object))
}

func streamNamed(ns, name string) *spatev1.StatelessStream {
	return &spatev1.StatelessStream{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
}

func TestTheHealthOfObjects(t *testing.T) {
	t.Parallel()
	node := startSimulatedNode(t)
	p := &patient{t: t, shown: map[string]bool{}, texts: map[string]string{}}
	ns := simulatedNamespace(t, node)
	p.definitions(ns)
	p.generators(ns)
	p.profiles(ns)
	p.runs(ns)
	p.captures(ns)
	p.resized(simulatedReady(t, node, narrowGenerator))
	for _, c := range health.Cases {
		if !p.shown[c.Kind+" "+c.Name] {
			t.Errorf("%s %s is not shown", c.Kind, c.Name)
		}
	}
}

// definitions are streams and templates.
func (p *patient) definitions(ns string) {
	p.isNew(ns, loopbackStream)
	p.awaited("ready", streamNamed(ns, "small"), spatev1.ConditionReady, metav1.ConditionTrue, "")
	p.changed(streamNamed(ns, "small"), `{"packet":{"size":256}}`)
	mustApply(p.t, ns, loopbackStream)
	fields := "{continuous: {rate: 1kpps}}\n  fields: [{name: x, values: [1], writes: [{field: tcp.sourcePort}]}]"
	mustApply(p.t, ns, strings.NewReplacer("name: small", "name: wrong", "{continuous: {rate: 1kpps}}", fields).Replace(loopbackStream))
	p.awaited("stalled", streamNamed(ns, "wrong"), spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec)

	greeting := &spatev1.ASTFTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "greeting"}}
	p.isNew(ns, loopbackTemplate)
	p.awaited("ready", greeting, spatev1.ConditionReady, metav1.ConditionTrue, "")
	unmet := greeting.DeepCopy()
	unmet.Name = "unmet"
	mustApply(p.t, ns, strings.NewReplacer("name: greeting", "name: unmet", "{receive: {bytes: 1000}}", "{receive: {bytes: 1001}}").Replace(loopbackTemplate))
	p.awaited("stalled", unmet, spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec)
}

func (p *patient) generators(ns string) {
	bare := bareNamespace(p.t)
	p.isNew(bare, loopbackGenerator)
	p.awaited("pending", generatorNamed(bare, "loop"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonPodsPending)
	taken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: bare, Name: podspec.TLSSecretName("taken")}}
	must(p.t, cluster.kube.Create(p.t.Context(), taken))
	mustApply(p.t, bare, strings.Replace(loopbackGenerator, "metadata: {name: loop}", "metadata: {name: taken}", 1))
	p.awaited("stalled", generatorNamed(bare, "taken"), spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonNameTaken)

	mustApply(p.t, ns, narrowGenerator)
	g := generatorNamed(ns, "loop")
	p.awaited("ready", g, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	p.changed(g, `{"suspend":true}`)
	p.awaited("suspended", g, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonSuspended)
	mustApply(p.t, ns, narrowGenerator+"  suspend: false\n")
	expect(p.t, runLimit, g, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
}

// resized is a generator whose replicas change while a run uses it.
func (p *patient) resized(ns string) {
	mustApply(p.t, ns, loopbackProfile("endless", "  drain: 100ms"))
	phase(p.t, runLimit, profileNamed(ns, "endless"), spatev1.ProfileRunning)
	scaleTo(p.t, ns, 2)
	p.awaited("replicas-pending", generatorNamed(ns, "loop"), spatev1.ConditionReconciling, metav1.ConditionTrue, spatev1.ReasonReplicasPending)
}

func (p *patient) profiles(ns string) {
	const slow = "  rate: 100pps\n  drain: 100ms\n"
	t, named := p.t, func(name string) *spatev1.TrafficProfile { return profileNamed(ns, name) }
	p.isNew(ns, loopbackProfile("manual", slow+"  runPolicy: Manual\n"))
	p.awaited("manual", named("manual"), spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	p.changed(named("manual"), `{"drain":"200ms"}`)
	for name, spec := range map[string]string{
		"endless": "", "paused": "", "suspended": "", "not-valid": "  duration: 1h\n", "running": "  duration: 1h\n",
		"passed": "  duration: 500ms\n", "failed": "  duration: 500ms\n  thresholds: [{name: more, expression: result.rx > 5000}]\n",
	} {
		mustApply(t, ns, loopbackProfile(name, slow+spec))
	}
	mustApply(t, ns, strings.ReplaceAll(loopbackProfile("waiting", slow), "ref: {name: small}", "ref: {name: nowhere}"))
	mustApply(t, ns, strings.ReplaceAll(loopbackProfile("stalled", slow), "transmitPort: loop", "transmitPort: north"))
	for _, name := range []string{"endless", "paused", "suspended", "not-valid", "running"} {
		phase(t, runLimit, named(name), spatev1.ProfileRunning)
	}
	patched(t, named("paused"), `{"spec":{"paused":true}}`)
	patched(t, named("suspended"), `{"spec":{"suspend":true}}`)
	stopped := named("not-valid")
	must(t, get(stopped))
	patched(t, &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: stopped.Status.CurrentRun.Name}}, `{"spec":{"stop":true}}`)
	mustApply(t, ns, loopbackProfile("queued", "  rate: 1600pps\n  drain: 100ms\n"))

	p.awaited("endless", named("endless"), spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	p.awaited("paused", named("paused"), spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	expect(t, runLimit, named("suspended"), spatev1.ConditionComplete, metav1.ConditionTrue, spatev1.ReasonSuspended)
	p.awaited("suspended", named("suspended"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonSuspended)
	p.awaited("not-valid", named("not-valid"), spatev1.ConditionValid, metav1.ConditionFalse, spatev1.ReasonIncomplete)
	p.awaited("running", named("running"), spatev1.ConditionReconciling, metav1.ConditionTrue, spatev1.ReasonProgressing)
	p.awaited("passed", named("passed"), spatev1.ConditionPassed, metav1.ConditionTrue, spatev1.ReasonThresholdsMet)
	p.awaited("failed", named("failed"), spatev1.ConditionPassed, metav1.ConditionFalse, spatev1.ReasonThresholdMissed)
	p.awaited("waiting", named("waiting"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonReferenceNotFound)
	p.awaited("stalled", named("stalled"), spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec)
	p.awaited("queued", named("queued"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonGeneratorBusy)
	must(t, cluster.kube.DeleteAllOf(t.Context(), &spatev1.TrafficProfile{}, client.InNamespace(ns)))
	until(t, readyLimit, "all runs are gone", func() (bool, string) { n := len(runsIn(t, ns)); return n == 0, strconv.Itoa(n) })
}

func (p *patient) runs(ns string) {
	t := p.t
	const slow = "  rate: 100pps\n  runPolicy: Manual\n  drain: 100ms\n"
	for name, spec := range map[string]string{
		"endless": "", "running": "  duration: 1h\n", "passed": "  duration: 500ms\n", "failed": "  duration: 500ms\n  thresholds: [{name: more, expression: result.rx > 5000}]\n",
	} {
		mustApply(t, ns, loopbackProfile(name, slow+spec))
	}
	run := func(profile string) *spatev1.TrafficRun {
		return create(t, ns, profile+"-", "{profileRef: {name: "+profile+"}}")
	}
	p.isNew(ns, "apiVersion: spate.dev/v1alpha1\nkind: TrafficRun\nmetadata: {name: waiting}\nspec: {profileRef: {name: nowhere}}\n")
	endless, running, paused, stopped, passed, failed := run("endless"), run("running"), run("endless"), run("running"), run("passed"), run("failed")
	for _, r := range []*spatev1.TrafficRun{endless, running, paused, stopped} {
		inPhase(t, runLimit, r, spatev1.RunRunning)
	}
	patched(t, paused, `{"spec":{"paused":true}}`)
	patched(t, stopped, `{"spec":{"stop":true}}`)
	queued := create(t, ns, "queued-", "{profileRef: {name: endless}, overrides: {rate: 1600pps}}")
	until(t, runLimit, "it is paused", func() (bool, string) {
		must(t, get(paused))
		return paused.Status.Paused && paused.Status.ObservedGeneration == paused.Generation, ""
	})
	p.is("paused", raw(t, paused))
	p.awaited("endless", endless, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	p.awaited("running", running, spatev1.ConditionReconciling, metav1.ConditionTrue, "")
	p.awaited("not-valid", stopped, spatev1.ConditionValid, metav1.ConditionFalse, spatev1.ReasonIncomplete)
	p.awaited("passed", passed, spatev1.ConditionPassed, metav1.ConditionTrue, spatev1.ReasonThresholdsMet)
	p.awaited("failed", failed, spatev1.ConditionPassed, metav1.ConditionFalse, spatev1.ReasonThresholdMissed)
	p.awaited("queued", queued, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonGeneratorBusy)
	waiting := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "waiting"}}
	p.awaited("waiting", waiting, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonReferenceNotFound)
}

func (p *patient) captures(ns string) {
	bare := bareNamespace(p.t)
	mustApply(p.t, bare, loopbackGenerator)
	capture := func(ns, name, port string) *spatev1.TrafficCapture {
		mustApply(p.t, ns, `
apiVersion: spate.dev/v1alpha1
kind: TrafficCapture
metadata: {name: `+name+`}
spec: {generatorRef: {name: loop}, ports: [`+port+`], readerKey: "`+strings.Repeat("0", 64)+`"}
`)
		return &spatev1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	}
	p.awaited("ready", capture(ns, "ready", "loop"), spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	p.awaited("stalled", capture(ns, "stalled", "north"), spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec)
	p.awaited("waiting", capture(bare, "waiting", "loop"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonPodsPending)
}
