// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/controller/turn"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/admission"
	"spate.dev/operator/internal/runs/runstest"
	"spate.dev/operator/internal/runs/storage"
)

// lab is an operator whose engine accepts every plan, in a cluster whose objects are created and deleted.
type lab struct {
	t *testing.T
	r *Reconciler
	c client.Client
	// refuse makes the creation of ConfigMaps fail.
	refuse error
	age    int
}

func newLab(t *testing.T, objects ...client.Object) *lab {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "spate-engine")
	must(t, os.WriteFile(binary, []byte("#!/bin/sh\ncat >/dev/null; echo '{}'\n"), 0o700))
	l := &lab{t: t}
	l.c = runstest.Builder(t).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if _, is := object.(*corev1.ConfigMap); is && l.refuse != nil {
				return l.refuse
			}
			return c.Create(ctx, object, options...)
		},
	}).Build()
	memory := &storage.Memory{Reader: l.c, Live: l.c}
	l.r = &Reconciler{
		Client: l.c, Events: events.NewFakeRecorder(99), Memory: memory, Large: &turn.Lane{},
		Resolver:   (&admission.Resolver{Client: l.c, Live: l.c, Memory: memory, Compiler: engine.Compiler{Binary: binary}, Large: &turn.Lane{}}).Init(),
		supervisor: newSupervisor(nil),
	}
	return l
}

// profileAt sends at a rate of generator g, of which a port has 10 Gbps.
func profileAt(name, rate string, change ...func(*spatev1.TrafficProfile)) *spatev1.TrafficProfile {
	p := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name + "-uid"), Generation: 3}}
	err := yaml.UnmarshalStrict([]byte(`
generatorRef: {name: g}
duration: 10s
drain: 500ms
thresholds: [{name: sent, expression: result.tx > 0}]
traffic:
- name: a
  transmitPort: loop
  stream:
    inline:
      packet: {headers: [{ethernet: {destination: "02:00:00:00:00:01"}}, {ipv4: {source: 198.18.0.1, destination: 198.19.0.1}}, {udp: {sourcePort: 1, destinationPort: 2}}], size: 1000}
      transmit: {continuous: {rate: `+rate+`}}
`), &p.Spec)
	if err != nil {
		panic(err)
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// generator g with one pod, which is ready or not.
func generator(name string, ready bool, change ...func(*spatev1.TrafficGenerator)) []client.Object {
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name + "-uid"), Generation: 1}}
	if err := yaml.UnmarshalStrict([]byte("{replicas: 1, workers: 1, ports: [{name: loop, lineRate: 10Gbps, attachment: {loopback: {}}}]}"), &g.Spec); err != nil {
		panic(err)
	}
	if ready {
		kstatus.Ready(&g.Status.Conditions, 1, spatev1.ReasonAvailable, "")
		g.Status.Pods = []spatev1.GeneratorPodStatus{{Name: name + "-0", Ready: true}}
	} else {
		kstatus.Progressing(&g.Status.Conditions, 1, spatev1.ReasonPodsPending, "pod g-0 is being scheduled")
	}
	for _, c := range change {
		c(g)
	}
	return []client.Object{g, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: name + "-0", UID: types.UID(name + "-0-uid")}}}
}

// run creates a run of a profile, younger than those before it.
func (l *lab) run(name, profile string, change ...func(*spatev1.TrafficRun)) string {
	l.t.Helper()
	l.age++
	r := created(change...)
	r.Name, r.UID, r.Finalizers, r.Generation = name, types.UID(name+"-uid"), []string{Finalizer}, 1
	r.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, l.age, 0, time.UTC))
	if r.Spec.ProfileRef != nil {
		r.Spec.ProfileRef.Name = spatev1.ObjectName(profile)
	}
	must(l.t, l.c.Create(l.t.Context(), r))
	return name
}

// look advances a run by one step.
func (l *lab) look(name string) (*spatev1.TrafficRun, time.Duration) {
	l.t.Helper()
	again, _, err := l.r.advance(l.t.Context(), l.get(name), &findings{})
	must(l.t, err)
	return l.get(name), again
}

func (l *lab) get(name string) *spatev1.TrafficRun {
	l.t.Helper()
	r := &spatev1.TrafficRun{}
	must(l.t, l.c.Get(l.t.Context(), client.ObjectKey{Namespace: "n", Name: name}, r))
	return r
}

// waits expects that a run waits for a reason, which all its conditions have.
func (l *lab) waits(name, reason, message string, again time.Duration) {
	l.t.Helper()
	r, got := l.look(name)
	if r.Status.Phase != spatev1.RunPending || r.Status.Resolved != nil || got != again {
		l.t.Errorf("%s is %s, again in %s, want %s", name, r.Status.Phase, got, again)
	}
	for kind, value := range map[string]metav1.ConditionStatus{
		spatev1.ConditionReady: metav1.ConditionFalse, spatev1.ConditionReconciling: metav1.ConditionTrue, spatev1.ConditionPassed: metav1.ConditionUnknown,
	} {
		if c := meta.FindStatusCondition(r.Status.Conditions, kind); c == nil || c.Status != value || c.Reason != reason || !strings.Contains(c.Message, message) {
			l.t.Errorf("%s: %s is %+v\nwant %s: %s", name, kind, c, reason, message)
		}
	}
}

// ends expects that a run ends at once, without sending anything.
func (l *lab) ends(name, reason, message string) {
	l.t.Helper()
	r, again := l.look(name)
	if r.Status.Phase != spatev1.RunComplete || r.Status.Resolved != nil || again != 0 || r.Status.Verdict.Outcome != spatev1.VerdictInvalid {
		l.t.Errorf("%s is %s, again in %s", name, r.Status.Phase, again)
	}
	if is := r.Status.Verdict.Reasons[0]; is.Reason != reason || !strings.Contains(is.Message, message) {
		l.t.Errorf("%s: %+v\nwant %s: %s", name, is, reason, message)
	}
}

// starts expects that a run is admitted.
func (l *lab) starts(name string) *spatev1.TrafficRun {
	l.t.Helper()
	r, again := l.look(name)
	if r.Status.Phase != spatev1.RunPreparing || r.Status.Resolved == nil || again != time.Millisecond {
		l.t.Fatalf("%s is %s, again in %s: %s", name, r.Status.Phase, again, shown(r.Status.Conditions))
	}
	return r
}

// becomesReady makes a generator ready.
func (l *lab) becomesReady(name string) {
	l.t.Helper()
	g := generator(name, true)[0].(*spatev1.TrafficGenerator)
	have := &spatev1.TrafficGenerator{}
	must(l.t, l.c.Get(l.t.Context(), client.ObjectKeyFromObject(g), have))
	have.Status = g.Status
	must(l.t, l.c.Status().Update(l.t.Context(), have))
}

// changes a profile.
func (l *lab) changes(profile string, change func(*spatev1.TrafficProfile)) {
	l.t.Helper()
	p := &spatev1.TrafficProfile{}
	must(l.t, l.c.Get(l.t.Context(), client.ObjectKey{Namespace: "n", Name: profile}, p))
	change(p)
	must(l.t, l.c.Update(l.t.Context(), p))
}

// end of a run that was admitted.
func (l *lab) end(name string) {
	l.t.Helper()
	r := l.get(name)
	r.Status.Phase = spatev1.RunComplete
	must(l.t, l.c.Status().Update(l.t.Context(), r))
}

func TestARunHasWhatItExecutesWhenItIsAdmitted(t *testing.T) {
	l := newLab(t, append(generator("g", true), profileAt("p", "1kpps"))...)
	l.run("r", "p", func(r *spatev1.TrafficRun) { r.Spec.Overrides = spatev1.RunOverrides{Rate: "2x", Duration: "1s"} })
	r := l.starts("r")
	got := r.Status.Resolved
	if got.Profile.Name != "p" || got.Profile.UID != "p-uid" || got.Profile.Generation != 3 || got.RunID != runs.ID(r) || got.Tag == 0 {
		t.Errorf("%+v, %s, tag %d", got.Profile, got.RunID, got.Tag)
	}
	if g := got.Generator; g.Namespace != "n" || g.Name != "g" || !slices.Equal(g.Pods, []spatev1.PodSnapshot{{Name: "g-0", UID: "g-0-uid"}}) || r.Status.Generator != "n/g" {
		t.Errorf("%+v", g)
	}
	if got.RateFactor != "2" || r.Status.RateFactor != "2" || got.Timing != (spatev1.RunTiming{Warmup: "", Duration: "1s", Drain: "500ms"}) || len(got.Thresholds) != 1 || len(got.Entries) != 1 {
		t.Errorf("factor %s, %+v, %+v, %+v", got.RateFactor, got.Timing, got.Thresholds, got.Entries)
	}
	facts, err := l.r.Memory.Of(t.Context(), r)
	if err != nil || !facts.Ports["loop"] {
		t.Errorf("%+v, %v", facts, err)
	}
	if c := meta.FindStatusCondition(r.Status.Conditions, spatev1.ConditionPassed); c.Reason != spatev1.ReasonAwaitingResult {
		t.Errorf("%+v", c)
	}
	expectEvents(t, "admitted", (&scope{r: l.r}).eventsSince(), "Normal Preparing the engines receive the plan")
}

func TestARunThatDescribesItsProfileIsAdmittedAsItsOwn(t *testing.T) {
	l := newLab(t, generator("g", true)...)
	definition := profileAt("x", "1kpps").Spec.TrafficDefinition
	l.run("r", "", func(r *spatev1.TrafficRun) { r.Spec.ProfileRef, r.Spec.Profile, r.Spec.Paused = nil, &definition, true })
	r := l.starts("r")
	if p := r.Status.Resolved.Profile; p.Name != "r" || p.UID != "" || !r.Status.Paused {
		t.Errorf("%+v, paused %v", p, r.Status.Paused)
	}
}

func TestTwoRunsHaveTagsOfTheirOwn(t *testing.T) {
	l := newLab(t, append(generator("g", true), profileAt("p", "1kpps"))...)
	one, other := l.starts(l.run("one", "p")), l.starts(l.run("other", "p"))
	if a, b := one.Status.Resolved, other.Status.Resolved; a.Tag == b.Tag || a.RunID == b.RunID || a.Snapshot.Chunks[0].Name == b.Snapshot.Chunks[0].Name {
		t.Errorf("%d %s %s, %d %s %s", a.Tag, a.RunID, a.Snapshot.Chunks[0].Name, b.Tag, b.RunID, b.Snapshot.Chunks[0].Name)
	}
}

func TestARunWaitsForItsProfile(t *testing.T) {
	l := newLab(t, generator("g", true)...)
	l.run("r", "p")
	l.waits("r", spatev1.ReasonReferenceNotFound, `spec.profileRef: TrafficProfile "p" does not exist in namespace n`, 0) // the profile wakes the run
	must(t, l.c.Create(t.Context(), profileAt("p", "1kpps")))
	l.starts("r")
}

func TestARunWaitsForWhatMayComeByItself(t *testing.T) {
	const poll = 5 * time.Second
	stream := func(p *spatev1.TrafficProfile) {
		p.Spec.Traffic[0].Stream = &spatev1.StreamEntry{Ref: &spatev1.LocalReference{Name: "imix"}}
	}
	noGenerator := func(p *spatev1.TrafficProfile) { p.Spec.GeneratorRef = nil }
	own := func(p *spatev1.TrafficProfile) {
		p.Spec.GeneratorRef, p.Spec.Generator = nil, &generator("x", true)[0].(*spatev1.TrafficGenerator).Spec
	}
	onNetwork := func(g *spatev1.TrafficGenerator) { // its line rate is known when a pod reports it
		g.Spec.Ports[0].LineRate, g.Spec.Ports[0].Attachment = "", spatev1.PortAttachment{Kernel: &spatev1.KernelAttachment{NetworkReference: spatev1.NetworkReference{Network: "lab"}}}
	}
	elsewhere := func(g *spatev1.TrafficGenerator) { g.Namespace = "other" }
	foreign := func(p *spatev1.TrafficProfile) { p.Spec.GeneratorRef.Namespace = "other" }
	for name, c := range map[string]struct {
		objects         []client.Object
		profile         *spatev1.TrafficProfile
		reason, message string
		generator       string // by which the run is indexed
	}{
		"a stream":                        {generator("g", true), profileAt("p", "1kpps", stream), spatev1.ReasonReferenceNotFound, `spec.profileRef: TrafficProfile "p": spec.traffic[0].stream.ref.name: StatelessStream "imix" does not exist`, "n/g"},
		"a generator":                     {nil, profileAt("p", "1kpps"), spatev1.ReasonReferenceNotFound, `spec.generatorRef`, "n/g"},
		"any generator":                   {nil, profileAt("p", "1kpps", noGenerator), spatev1.ReasonReferenceNotFound, "namespace n has no TrafficGenerator", "n/*"},
		"its profile's generator":         {nil, profileAt("p", "1kpps", own), spatev1.ReasonGeneratorNotReady, "the generator is being created", "n/p"},
		"a generator to be ready":         {generator("g", false), profileAt("p", "1kpps"), spatev1.ReasonGeneratorNotReady, "TrafficGenerator g is not ready: PodsPending: pod g-0 is being scheduled", "n/g"},
		"the only generator to be ready":  {generator("g", false), profileAt("p", "1kpps", noGenerator), spatev1.ReasonGeneratorNotReady, "TrafficGenerator g is not ready", "n/g"},
		"a generator of a new generation": {generator("g", true, func(g *spatev1.TrafficGenerator) { g.Generation = 2 }), profileAt("p", "1kpps"), spatev1.ReasonGeneratorNotReady, "TrafficGenerator g is being set up", "n/g"},
		"a line rate":                     {generator("g", false, onNetwork), profileAt("p", "50%"), spatev1.ReasonGeneratorNotReady, "loop", "n/g"},
		"a grant":                         {generator("g", true, elsewhere), profileAt("p", "1kpps", foreign), spatev1.ReasonReferenceNotAllowed, "TrafficGenerator other/g does not grant its use to namespace n", "other/g"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, append(c.objects, c.profile)...)
			l.run("r", "p")
			l.waits("r", c.reason, c.message, poll)
			if got := l.get("r").Status.Generator; got != c.generator {
				t.Errorf("it waits for %s, want %s", got, c.generator)
			}
			if events := (&scope{r: l.r}).eventsSince(); len(events) != 1 || !strings.HasPrefix(events[0], "Normal Pending ") || !strings.Contains(events[0], c.message) {
				t.Errorf("events %q", events)
			}
		})
	}
}

// inlineProgram makes a profile run an inline template with a command that does nothing.
func inlineProgram(p *spatev1.TrafficProfile) {
	e := &p.Spec.Traffic[0]
	e.Stream, e.ReceivePort, e.Application = nil, "", &spatev1.ApplicationEntry{Inline: &spatev1.ASTFTemplateSpec{
		Source:          spatev1.TemplateSource{Programs: &spatev1.Programs{Transport: spatev1.TransportTCP, Client: []spatev1.Command{{Label: "aim"}}}},
		DestinationPort: ptr.To[int32](80), ConnectionRate: "1cps",
		Pools: spatev1.AddressPools{
			Clients: []spatev1.AddressPool{{Name: "c", Start: "198.18.0.1", Count: ptr.To[int64](1)}}, Servers: []spatev1.AddressPool{{Name: "s", Start: "198.19.0.1", Count: ptr.To[int64](1)}},
		},
	}}
}

func TestARunEndsThatTimeDoesNotHelp(t *testing.T) {
	port := func(p *spatev1.TrafficProfile) { p.Spec.Traffic[0].TransmitPort = "north" }
	noGenerator := func(p *spatev1.TrafficProfile) { p.Spec.GeneratorRef = nil }
	definition := profileAt("x", "1kpps", port).Spec.TrafficDefinition
	aimless := profileAt("x", "1kpps", inlineProgram).Spec.TrafficDefinition
	for name, c := range map[string]struct {
		profile         *spatev1.TrafficProfile
		change          func(*spatev1.TrafficRun)
		reason, message string
	}{
		"a port of its profile": {profileAt("p", "1kpps", port), nil, spatev1.ReasonInvalidSpec, `spec.profileRef: TrafficProfile "p": spec.traffic[0].transmitPort: `},
		"a port of its own": {
			profileAt("p", "1kpps"), func(r *spatev1.TrafficRun) { r.Spec.ProfileRef, r.Spec.Profile = nil, &definition }, spatev1.ReasonInvalidSpec, "spec.profile.traffic[0].transmitPort: ",
		},
		"a rule of its profile's programs": {
			profileAt("p", "1kpps", inlineProgram), nil, spatev1.ReasonInvalidSpec,
			`TrafficProfile "p": spec.traffic[0].application.inline.source.programs.client[0]: Invalid value: exactly one of the fields in [connect accept`,
		},
		"a rule of its own programs": {
			profileAt("p", "1kpps"), func(r *spatev1.TrafficRun) { r.Spec.ProfileRef, r.Spec.Profile = nil, &aimless }, spatev1.ReasonInvalidSpec,
			"spec.profile.traffic[0].application.inline.source.programs.client[0]: Invalid value: exactly one of the fields in [connect accept",
		},
		"a threshold of its own": {
			profileAt("p", "1kpps"), func(r *spatev1.TrafficRun) {
				r.Spec.Overrides.Thresholds = []spatev1.Threshold{{Name: "t", Expression: "result.nothing == 0"}}
			}, spatev1.ReasonInvalidSpec, "spec.overrides.thresholds[0].expression: ",
		},
		"more than a port carries": {profileAt("p", "2Mpps"), nil, spatev1.ReasonOversubscribed, `TrafficProfile "p": `},
		"one of two generators":    {profileAt("p", "1kpps", noGenerator), nil, spatev1.ReasonInvalidSpec, "namespace n has 2 TrafficGenerators (g, h)"},
		"it is stopped":            {profileAt("p", "1kpps"), func(r *spatev1.TrafficRun) { r.Spec.Stop = true }, spatev1.ReasonIncomplete, "spec.stop is true before the run started"},
		"its profile is suspended": {
			profileAt("p", "1kpps", func(p *spatev1.TrafficProfile) { p.Spec.Suspend = true }), func(r *spatev1.TrafficRun) {
				startedFor(spatev1.RunOnChange, "d")(r)
			}, spatev1.ReasonIncomplete, "the profile is suspended before the run started",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, slices.Concat(generator("g", true), generator("h", true), []client.Object{c.profile})...)
			l.run("r", "p", func(r *spatev1.TrafficRun) {
				if c.change != nil {
					c.change(r)
				}
			})
			l.ends("r", c.reason, c.message)
		})
	}
}

// 700,000 packets of 1000 bytes a second are more than half of a port's line rate.
func TestRunsAreAdmittedInTheOrderOfTheirCreation(t *testing.T) {
	l := newLab(t, append(generator("g", true), profileAt("half", "700kpps"), profileAt("most", "900kpps"), profileAt("little", "1kpps"))...)
	for _, name := range []string{"half", "most", "little"} {
		l.run(name+"-run", name)
	}
	l.starts("half-run")
	l.waits("most-run", spatev1.ReasonGeneratorBusy, "queued first for TrafficGenerator g, which has no room yet: together with n/half-run: ", 5*time.Second)
	l.waits("little-run", spatev1.ReasonGeneratorBusy, "queued for TrafficGenerator g behind 1 run, next: n/most-run", 5*time.Second)
	l.run("youngest", "half")
	l.waits("youngest", spatev1.ReasonGeneratorBusy, "queued for TrafficGenerator g behind 2 runs, next: n/most-run", 5*time.Second)
	l.waits("little-run", spatev1.ReasonGeneratorBusy, "behind 1 run, next: n/most-run", 5*time.Second)
	l.end("half-run")
	l.waits("youngest", spatev1.ReasonGeneratorBusy, "behind 2 runs, next: n/most-run", 5*time.Second)
	l.starts("most-run")
	l.waits("youngest", spatev1.ReasonGeneratorBusy, "behind 1 run, next: n/little-run", 5*time.Second)
	l.starts("little-run")
	l.waits("youngest", spatev1.ReasonGeneratorBusy, "queued first for TrafficGenerator g, which has no room yet: together with n/little-run, n/most-run: ", 5*time.Second)
}

// They all wait for it to be ready. Whichever is reconciled first then, the oldest is admitted first.
func TestRunsThatWaitedForAGeneratorToBeReadyAreAdmittedInTheOrderOfTheirCreation(t *testing.T) {
	l := newLab(t, append(generator("g", false), profileAt("half", "700kpps"), profileAt("most", "900kpps"))...)
	first, second, third := l.run("first", "half"), l.run("second", "most"), l.run("third", "half")
	for _, name := range []string{first, second, third} {
		l.waits(name, spatev1.ReasonGeneratorNotReady, "TrafficGenerator g is not ready", 5*time.Second)
	}
	l.becomesReady("g")
	l.waits(third, spatev1.ReasonGeneratorBusy, "behind 2 runs, next: n/first", 5*time.Second)
	l.waits(second, spatev1.ReasonGeneratorBusy, "behind 1 run, next: n/first", 5*time.Second)
	l.starts(first)
	l.waits(third, spatev1.ReasonGeneratorBusy, "behind 1 run, next: n/second", 5*time.Second)
	l.waits(second, spatev1.ReasonGeneratorBusy, "queued first", 5*time.Second)
}

// Nothing but the place of a run that waits is written, and that once.
func TestAPlaceIsWrittenOnceForEachMove(t *testing.T) {
	l := newLab(t, append(generator("g", true), profileAt("half", "700kpps"), profileAt("most", "900kpps"))...)
	l.starts(l.run("active", "half"))
	l.run("next", "most")
	l.run("last", "most")
	l.look("next")
	place, _ := l.look("last")
	for range 3 {
		if again, _ := l.look("last"); again.ResourceVersion != place.ResourceVersion {
			t.Errorf("written although it has not moved: %s", shown(again.Status.Conditions))
		}
	}
	l.end("active")
	l.starts("next")
	moved, _ := l.look("last")
	if again, _ := l.look("last"); moved.ResourceVersion == place.ResourceVersion || again.ResourceVersion != moved.ResourceVersion {
		t.Errorf("moved: %s", shown(again.Status.Conditions))
	}
}

// A run keeps its place in the line while its plan waits to be resolved.
func TestARunInLineKeepsItsPlaceWhileItWaitsForItsTurn(t *testing.T) {
	l := newLab(t, append(generator("g", true), profileAt("half", "700kpps"), profileAt("most", "900kpps"))...)
	l.starts(l.run("active", "half"))
	l.run("next", "most")
	l.run("last", "most")
	before, _ := l.look("next")
	l.look("last")
	l.end("active")
	release, ok := l.r.Resolver.Enter(client.ObjectKey{Namespace: "n", Name: "g"})
	if !ok {
		t.Fatal("another run is being admitted")
	}
	if after, again := l.look("next"); again != admission.Pause || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("again in %s: %s", again, shown(after.Status.Conditions))
	}
	l.waits("last", spatev1.ReasonGeneratorBusy, "behind 1 run, next: n/next", 5*time.Second)
	release()
	l.starts("next")
}

// The oldest run no longer waits for room: the line does not wait for it.
func TestARunThatWaitsForSomethingElseHoldsUpNobody(t *testing.T) {
	for name, change := range map[string]func(*lab, *spatev1.TrafficRun){
		"it is stopped":       func(l *lab, r *spatev1.TrafficRun) { r.Spec.Stop = true; must(l.t, l.c.Update(l.t.Context(), r)) },
		"it is deleted":       func(l *lab, r *spatev1.TrafficRun) { must(l.t, l.c.Delete(l.t.Context(), r)) },
		"its profile is gone": func(l *lab, _ *spatev1.TrafficRun) { must(l.t, l.c.Delete(l.t.Context(), profileAt("most", "1kpps"))) },
		"its profile is wrong": func(l *lab, _ *spatev1.TrafficRun) {
			l.changes("most", func(p *spatev1.TrafficProfile) { p.Spec.Traffic[0].TransmitPort = "north" })
		},
		"a quota refuses it": func(l *lab, _ *spatev1.TrafficRun) {
			l.refuse = apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("exceeded quota: q"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, append(generator("g", true), profileAt("half", "700kpps"), profileAt("most", "900kpps"), profileAt("little", "1kpps"))...)
			l.starts(l.run("active", "half"))
			l.run("oldest", "most")
			l.run("young", "little")
			l.look("oldest")
			l.waits("young", spatev1.ReasonGeneratorBusy, "behind 1 run, next: n/oldest", 5*time.Second)
			change(l, l.get("oldest"))
			l.end("active")
			if name != "it is stopped" && name != "it is deleted" { // what the others wait for is known when it is reconciled
				if r, _ := l.look("oldest"); runs.InLine(r) {
					t.Fatalf("it is queued: %s", shown(r.Status.Conditions))
				}
			}
			l.refuse = nil
			l.starts("young")
		})
	}
}

func TestALineIsWokenWhenItMayMove(t *testing.T) {
	l := newLab(t, append(generator("g", true), profileAt("half", "700kpps"), profileAt("most", "900kpps"))...)
	l.starts(l.run("active", "half"))
	var line []string
	for i := range wokenInLine + 3 {
		line = append(line, l.run(fmt.Sprintf("waits-%d", i), "most"))
		l.look(line[i])
	}
	wakes := func(what string, r *spatev1.TrafficRun, want ...string) {
		t.Helper()
		var got []string
		for _, request := range l.r.freed(t.Context(), r) {
			got = append(got, request.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s wakes %v, want %v", what, got, want)
		}
	}
	first := line[:wokenInLine]
	active := l.get("active")
	wakes("an admission", active, first...)
	active.Status.Phase = spatev1.RunRunning
	wakes("a run that sends", active)
	active.Status.Phase = spatev1.RunComplete
	wakes("an end", active, append([]string{"active"}, first...)...)
	waiter := l.get(line[0])
	wakes("a run in line", waiter)
	kstatus.Progressing(&waiter.Status.Conditions, 1, spatev1.ReasonReferenceNotFound, "")
	wakes("a run that has left the line", waiter, first...)
}

// Its profile was created after it.
func TestAnOlderRunIsNotBehindAYoungerOne(t *testing.T) {
	l := newLab(t, append(generator("g", true), profileAt("half", "700kpps"), profileAt("most", "900kpps"))...)
	l.run("first", "half")
	l.run("late", "little")
	l.run("young", "most")
	l.starts("first")
	l.waits("late", spatev1.ReasonReferenceNotFound, "does not exist", 0)
	l.waits("young", spatev1.ReasonGeneratorBusy, "together with n/first: ", 5*time.Second)
	must(t, l.c.Create(t.Context(), profileAt("little", "1kpps")))
	l.starts("late")
}

func TestARunEndsThatDoesNotWaitForABusyGenerator(t *testing.T) {
	refuse := func(p *spatev1.TrafficProfile) { p.Spec.WhenBusy = spatev1.BusyRefuse }
	l := newLab(t, append(generator("g", true), profileAt("half", "700kpps"), profileAt("most", "900kpps", refuse), profileAt("little", "1kpps", refuse))...)
	l.starts(l.run("first", "half"))
	l.starts(l.run("beside", "little"))
	l.run("refused", "most")
	l.ends("refused", spatev1.ReasonGeneratorBusy, "together with n/beside, n/first: ")
}

// The run is neither queued, nor does it overtake queued runs.
func TestARunThatDoesNotWaitForABusyGeneratorDoesNotOvertakeALine(t *testing.T) {
	refuse := func(p *spatev1.TrafficProfile) { p.Spec.WhenBusy = spatev1.BusyRefuse }
	l := newLab(t, append(generator("g", true), profileAt("half", "700kpps"), profileAt("most", "900kpps"), profileAt("little", "1kpps", refuse))...)
	l.starts(l.run("active", "half"))
	l.run("waits", "most")
	l.look("waits")
	l.run("refused", "little")
	l.ends("refused", spatev1.ReasonGeneratorBusy, "queued for TrafficGenerator g behind 1 run, next: n/waits; spec.whenBusy is Refuse")
}

// Whether the generator has room for the older run is known when that is reconciled.
func TestARunThatDoesNotWaitForABusyGeneratorWaitsForItToBeReady(t *testing.T) {
	refuse := func(p *spatev1.TrafficProfile) { p.Spec.WhenBusy = spatev1.BusyRefuse }
	for _, c := range []struct {
		older string
		ends  bool
	}{{"900kpps", true}, {"1kpps", false}} {
		l := newLab(t, append(generator("g", false), profileAt("older", c.older), profileAt("half", "700kpps", refuse))...)
		l.run("older", "older")
		l.run("young", "half")
		l.look("older")
		l.waits("young", spatev1.ReasonGeneratorNotReady, "TrafficGenerator g is not ready", 5*time.Second)
		l.becomesReady("g")
		l.waits("young", spatev1.ReasonGeneratorNotReady, "TrafficGenerator g is not ready", admission.Pause) // as it was
		l.starts("older")
		if c.ends {
			l.ends("young", spatev1.ReasonGeneratorBusy, "together with n/older: ")
		} else {
			l.starts("young")
		}
	}
}

func TestARunWaitsWhileAnotherIsBeingAdmitted(t *testing.T) {
	l := newLab(t, append(generator("g", true), profileAt("p", "1kpps"))...)
	l.run("r", "p")
	release, ok := l.r.Resolver.Enter(client.ObjectKey{Namespace: "n", Name: "g"})
	if !ok {
		t.Fatal("nobody is there")
	}
	l.waits("r", spatev1.ReasonProgressing, "another run is being admitted to TrafficGenerator g", admission.Pause)
	release()
	l.starts("r")
}

func TestARunWhosePlanCannotBeKeptTriesAgain(t *testing.T) {
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("exceeded quota: q"))
	l := newLab(t, append(generator("g", true), profileAt("p", "1kpps"))...)
	l.run("r", "p")
	l.refuse = fmt.Errorf("create: %w", quota)
	l.waits("r", spatev1.ReasonAdmissionFailed, "exceeded quota: q; retried every 30s", kstatus.RefusedPause)
	l.refuse = nil
	l.starts("r")
}

// The run was changed meanwhile: either the whole admission is written, or nothing.
func TestARunIsAdmittedOnce(t *testing.T) {
	l := newLab(t, append(generator("g", true), profileAt("p", "1kpps"))...)
	l.run("r", "p")
	outdated := l.get("r")
	r := l.get("r")
	r.Spec.Paused = true
	must(t, l.c.Update(t.Context(), r))
	if _, _, err := l.r.advance(t.Context(), outdated, &findings{}); !apierrors.IsConflict(err) {
		t.Errorf("%v", err)
	}
	if resolved := l.get("r").Status.Resolved; resolved != nil {
		t.Errorf("%+v", resolved)
	}
	outdated = l.get("r")
	first := l.starts("r").Status.Resolved
	if !l.get("r").Status.Paused {
		t.Error("it is not paused")
	}
	// An operator that has not received the write cannot admit the run again.
	if _, _, err := l.r.advance(t.Context(), outdated, &findings{}); !apierrors.IsConflict(err) {
		t.Errorf("%v", err)
	}
	if again := l.get("r").Status.Resolved; again.Tag != first.Tag || again.Snapshot.Digest != first.Snapshot.Digest {
		t.Errorf("%+v, was %+v", again, first)
	}
	if _, ok := l.r.Resolver.Enter(client.ObjectKey{Namespace: "n", Name: "g"}); !ok {
		t.Error("the generator is still reserved")
	}
}

// A run without overrides has the plan of its profile, which is checked once for both.
func TestTheCheckOfAPlanIsKeptByWhoseItIs(t *testing.T) {
	for name, c := range map[string]struct {
		overrides spatev1.RunOverrides
		profile   bool
	}{
		"none":       {spatev1.RunOverrides{}, true},
		"rate":       {spatev1.RunOverrides{Rate: "2x"}, false},
		"duration":   {spatev1.RunOverrides{Duration: "2s"}, false},
		"warmup":     {spatev1.RunOverrides{Warmup: "2s"}, false},
		"generator":  {spatev1.RunOverrides{GeneratorRef: &spatev1.GeneratorReference{Name: "h"}}, false},
		"thresholds": {spatev1.RunOverrides{Thresholds: []spatev1.Threshold{}}, false},
	} {
		s := &scope{run: created(func(r *spatev1.TrafficRun) { r.Spec.Overrides = c.overrides }), profile: profileNow()}
		if key := s.checkedAs(); (key == "p-uid") != c.profile || cmp.Or(key, "mine-uid") != key {
			t.Errorf("%s: %s", name, key)
		}
	}
}
