// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/turn"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/runstest"
	"spate.dev/operator/internal/runs/storage"
)

// profileNow is the profile of the runs below, of generation 3.
func profileNow(change ...func(*spatev1.TrafficProfile)) *spatev1.TrafficProfile {
	p := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "p-uid", Generation: 3}}
	p.Spec.Duration, p.Spec.RunPolicy = "10s", spatev1.RunOnChange
	for _, c := range change {
		c(p)
	}
	return p
}

// created is a run that a user created for the profile.
func created(change ...func(*spatev1.TrafficRun)) *spatev1.TrafficRun {
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "mine", UID: "mine-uid"}}
	r.Spec.ProfileRef = &spatev1.LocalReference{Name: "p"}
	for _, c := range change {
		c(r)
	}
	return r
}

// startedFor makes a run started by the profile under a policy, for its traffic at generation 3.
func startedFor(policy spatev1.RunPolicy, digest string) func(*spatev1.TrafficRun) {
	yes := true
	return func(r *spatev1.TrafficRun) {
		r.Name = "p-1a2b3-4"
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "spate.dev/v1alpha1", Kind: "TrafficProfile", Name: "p", UID: "p-uid", Controller: &yes}}
		runs.Annotate(r, policy, spatev1.RunTrigger{Generation: 3, Digest: digest, Number: 4}, time.Time{})
	}
}

func ownedByAWorkflow(r *spatev1.TrafficRun) {
	yes := true
	r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "argoproj.io/v1alpha1", Kind: "Workflow", Name: "w", UID: "w-uid", Controller: &yes}}
}

// underWay is a run that was admitted to generator g.
func underWay(r *spatev1.TrafficRun) {
	r.Status.Phase = spatev1.RunRunning
	r.Status.Resolved = &spatev1.ResolvedRun{
		Profile: spatev1.ProfileSnapshot{Name: "p", UID: "p-uid", Generation: 3}, Generator: spatev1.GeneratorSnapshot{Namespace: "n", Name: "g"},
	}
}

func deleted(o client.Object) {
	now := metav1.Now()
	o.SetDeletionTimestamp(&now)
	o.SetFinalizers([]string{"test/finalizer"})
}

func generatorNow(change ...func(*spatev1.TrafficGenerator)) *spatev1.TrafficGenerator {
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "g"}}
	for _, c := range change {
		c(g)
	}
	return g
}

func TestWhatEndsARun(t *testing.T) {
	const change, manual, schedule = spatev1.RunOnChange, spatev1.RunManual, spatev1.RunOnSchedule
	same := plan.ProfileDigest(profileNow())
	edited := func(p *spatev1.TrafficProfile) { p.Generation, p.Spec.Duration = 4, "20s" }
	judgedOtherwise := func(p *spatev1.TrafficProfile) {
		p.Generation, p.Spec.Thresholds = 4, []spatev1.Threshold{{Name: "t", Expression: "result.lost == 0"}}
	}
	suspended := func(p *spatev1.TrafficProfile) { p.Generation, p.Spec.Suspend = 4, true }
	going := func(p *spatev1.TrafficProfile) { deleted(p) }
	recreated := func(p *spatev1.TrafficProfile) { p.UID = "later-uid" }
	by := func(policy spatev1.RunPolicy) func(*spatev1.TrafficProfile) {
		return func(p *spatev1.TrafficProfile) { p.Spec.RunPolicy = policy }
	}
	stop := func(r *spatev1.TrafficRun) { r.Spec.Stop = true }
	runGoes := func(r *spatev1.TrafficRun) { deleted(r) }
	for name, c := range map[string]struct {
		run       *spatev1.TrafficRun
		profile   *spatev1.TrafficProfile
		generator *spatev1.TrafficGenerator
		want      string
	}{
		"created, at rest":                         {created(underWay), profileNow(), generatorNow(), ""},
		"created, its profile is edited":           {created(underWay), profileNow(edited), generatorNow(), ""},
		"created, its profile is suspended":        {created(underWay), profileNow(suspended), generatorNow(), ""},
		"created, its profile is being deleted":    {created(underWay), profileNow(going), generatorNow(), ""},
		"created, its profile is deleted":          {created(underWay), nil, generatorNow(), ""},
		"created, its profile is created again":    {created(underWay), profileNow(recreated), generatorNow(), ""},
		"created by a workflow":                    {created(ownedByAWorkflow, underWay), profileNow(), generatorNow(), ""},
		"created by a workflow, profile deleted":   {created(ownedByAWorkflow, underWay), nil, generatorNow(), ""},
		"created, not admitted, profile deleted":   {created(), nil, nil, ""},
		"created, not admitted, profile suspended": {created(), profileNow(suspended), nil, ""},
		"created, stopped":                         {created(underWay, stop), profileNow(), generatorNow(), endStopped},
		"created, not admitted, stopped":           {created(stop), profileNow(), nil, endStopped},
		"created, deleted":                         {created(underWay, runGoes), profileNow(), generatorNow(), "the run is deleted"},
		"created, its generator is deleted":        {created(underWay), profileNow(), nil, "the generator is deleted"},
		"created, its generator is going":          {created(underWay), profileNow(), generatorNow(func(g *spatev1.TrafficGenerator) { deleted(g) }), "the generator is deleted"},
		"created, its generator is suspended":      {created(underWay), profileNow(), generatorNow(func(g *spatev1.TrafficGenerator) { g.Spec.Suspend = true }), "the generator is suspended"},
		"created, not admitted, no generator":      {created(), profileNow(), nil, ""},

		"OnChange, at rest":                      {created(startedFor(change, same), underWay), profileNow(), generatorNow(), ""},
		"OnChange, edited":                       {created(startedFor(change, same), underWay), profileNow(edited), generatorNow(), "the profile has changed"},
		"OnChange, edited, not admitted":         {created(startedFor(change, same)), profileNow(edited), nil, "the profile has changed"},
		"OnChange, thresholds are edited":        {created(startedFor(change, same), underWay), profileNow(judgedOtherwise), generatorNow(), ""},
		"OnChange, suspended":                    {created(startedFor(change, same), underWay), profileNow(suspended), generatorNow(), endSuspended},
		"OnChange, suspended, not admitted":      {created(startedFor(change, same)), profileNow(suspended), nil, endSuspended},
		"OnChange, the profile is going":         {created(startedFor(change, same), underWay), profileNow(going), generatorNow(), "the profile is deleted"},
		"OnChange, the profile is deleted":       {created(startedFor(change, same), underWay), nil, generatorNow(), "the profile is deleted"},
		"OnChange, the profile is created again": {created(startedFor(change, same), underWay), profileNow(recreated), generatorNow(), "the profile is deleted"},
		"OnChange, created again, not admitted":  {created(startedFor(change, same)), profileNow(recreated), nil, "the profile is deleted"},
		"OnChange, stopped":                      {created(startedFor(change, same), underWay, stop), profileNow(suspended), generatorNow(), endStopped},
		"OnChange, Manual now, edited":           {created(startedFor(change, same), underWay), profileNow(edited, by(manual)), generatorNow(), ""},
		"OnChange, by a schedule now, edited":    {created(startedFor(change, same), underWay), profileNow(edited, by(schedule)), generatorNow(), ""},
		"Manual, edited":                         {created(startedFor(manual, same), underWay), profileNow(edited, by(manual)), generatorNow(), ""},
		"Manual, OnChange now, edited":           {created(startedFor(manual, same), underWay), profileNow(edited), generatorNow(), ""},
		"Manual, suspended":                      {created(startedFor(manual, same), underWay), profileNow(suspended, by(manual)), generatorNow(), endSuspended},
		"by a schedule, edited":                  {created(startedFor(schedule, same), underWay), profileNow(edited, by(schedule)), generatorNow(), ""},
		"by a schedule, suspended":               {created(startedFor(schedule, same), underWay), profileNow(suspended, by(schedule)), generatorNow(), endSuspended},
		"by a schedule, the profile is deleted":  {created(startedFor(schedule, same), underWay), nil, generatorNow(), "the profile is deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			builder := runstest.Builder(t)
			if c.profile != nil {
				builder.WithObjects(c.profile)
			}
			s := &scope{r: &Reconciler{Client: builder.Build()}, run: c.run, generator: c.generator}
			must(t, s.define(t.Context()))
			if why := s.endRequested(); why != c.want {
				t.Errorf("%q, want %q", why, c.want)
			}
		})
	}
}

// An upgrade may add a field with a default to the kind: every profile has another digest then, and no run under way ends for it.
func TestAnUpgradeEndsNoRunUnderWay(t *testing.T) {
	const earlier = "of an earlier version"
	same := plan.ProfileDigest(profileNow())
	for name, c := range map[string]struct {
		generation int64
		started    string
		recorded   *spatev1.RunTrigger
		want       bool
	}{
		"the same":                                {3, same, nil, false},
		"another digest, not edited":              {3, earlier, nil, false},
		"edited, and means the same":              {4, same, nil, false},
		"edited, and means otherwise":             {4, earlier, nil, true},
		"edited after an upgrade, recorded":       {4, earlier, &spatev1.RunTrigger{Generation: 3, Digest: same, Number: 4}, false},
		"recorded is what it means otherwise":     {5, same, &spatev1.RunTrigger{Generation: 4, Digest: "other", Number: 4}, true},
		"recorded is that of another run":         {4, earlier, &spatev1.RunTrigger{Generation: 4, Digest: same, Number: 5}, true},
		"recorded at this generation, not edited": {4, earlier, &spatev1.RunTrigger{Generation: 4, Digest: earlier, Number: 4}, false},
	} {
		p := profileNow(func(p *spatev1.TrafficProfile) { p.Generation, p.Status.LastTrigger = c.generation, c.recorded })
		s := &scope{run: created(startedFor(spatev1.RunOnChange, c.started)), profile: p}
		if superseded := s.superseded(); superseded != c.want {
			t.Errorf("%s: %v", name, superseded)
		}
	}
}

func TestARunExecutesItsProfileWithItsOverrides(t *testing.T) {
	for name, c := range map[string]struct {
		run     *spatev1.TrafficRun
		profile *spatev1.TrafficProfile
		want    spatev1.Duration // empty if unknown
		refers  bool
	}{
		"a profile":  {created(), profileNow(), "10s", true},
		"overrides":  {created(func(r *spatev1.TrafficRun) { r.Spec.Overrides.Duration = "1s" }), profileNow(), "1s", true},
		"no profile": {created(), nil, "", false},
		"admitted, and its profile created again": {created(underWay), profileNow(func(p *spatev1.TrafficProfile) { p.UID = "later-uid" }), "", false},
		"its own": {
			created(func(r *spatev1.TrafficRun) {
				r.Spec.ProfileRef, r.Spec.Profile = nil, &spatev1.TrafficDefinition{Duration: "2s"}
			}), profileNow(), "2s", false,
		},
	} {
		builder := runstest.Builder(t)
		if c.profile != nil {
			builder.WithObjects(c.profile)
		}
		s := &scope{r: &Reconciler{Client: builder.Build()}, run: c.run}
		must(t, s.define(t.Context()))
		if (s.profile != nil) != c.refers || (s.definition != nil) != (c.want != "") || s.definition != nil && s.definition.Spec.Duration != c.want {
			t.Errorf("%s: %+v of %+v", name, s.definition, s.profile)
		}
	}
}

// A large plan is checked against changed limits when no other large plan is in memory, and until then not at all.
func TestALargePlanWaitsForItsTurnToBeJudged(t *testing.T) {
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "lab", Generation: 2}}
	g.Spec.Limits = &spatev1.Limits{AllowedPorts: []spatev1.PortRange{"7"}}
	r := admitted()
	r.ObjectMeta = metav1.ObjectMeta{Namespace: "n", Name: "r", UID: "r"}
	r.Status.Resolved.Snapshot.Bytes = storage.Large + 1
	r.Status.Resolved.Snapshot.Chunks = []spatev1.DataReference{{Kind: spatev1.DataConfigMap, Name: "gone", Key: "plan"}}
	reconciler := &Reconciler{Large: &turn.Lane{}, Memory: &storage.Memory{Reader: runstest.Builder(t).Build()}}
	release, _ := reconciler.Large.Enter("another", "other")
	s := &scope{r: reconciler, found: &findings{}, run: r, generator: g}
	if end, err := s.forbidden(t.Context()); err != nil || end.message != "" || s.found.permission.known {
		t.Errorf("it was judged beside another: %+v, %v", end, err)
	}
	release()
	if end, err := s.forbidden(t.Context()); err != nil || end.reason != spatev1.ReasonSnapshotLost { // now it is read, and it does not exist
		t.Errorf("it was not read: %+v, %v", end, err)
	}
	if _, ok := reconciler.Large.Enter("another", "other"); !ok {
		t.Error("the lane is still taken")
	}
}

// Another number of replicas takes effect when no run uses the generator: rates in percent are those of the pods that the run has.
func TestARunSeesItsGeneratorWithThePodsItWasAdmittedTo(t *testing.T) {
	l := newLab(t, append(generator("g", true, func(g *spatev1.TrafficGenerator) { g.Spec.Replicas = 3 }), profileAt("p", "1kpps"))...)
	s := &scope{r: l.r, run: created()}
	must(t, s.admittedTo(t.Context(), spatev1.GeneratorSnapshot{Namespace: "n", Name: "g", Pods: []spatev1.PodSnapshot{{Name: "g-0", UID: "g-0-uid"}}}))
	if s.generator.Spec.Replicas != 1 || len(s.lost) > 0 {
		t.Errorf("%d replicas, %v", s.generator.Spec.Replicas, s.lost)
	}
}
