// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/runs"
)

const uid = "1a2b3c4d"

func edited(policy spatev1.RunPolicy, generation int64, change ...func(*spatev1.TrafficProfile)) *spatev1.TrafficProfile {
	p := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: uid, Generation: generation}}
	p.Spec.RunPolicy = policy
	for _, c := range change {
		c(p)
	}
	return p
}

func withRunID(id string) func(*spatev1.TrafficProfile) {
	return func(p *spatev1.TrafficProfile) { p.Spec.RunID = id }
}

func suspended(p *spatev1.TrafficProfile) { p.Spec.Suspend = true }

// last is the trigger of the profile's latest run, according to its status.
func last(trigger spatev1.RunTrigger) func(*spatev1.TrafficProfile) {
	return func(p *spatev1.TrafficProfile) { p.Status.LastTrigger = &trigger }
}

// made is a run that the profile started.
func made(policy spatev1.RunPolicy, trigger spatev1.RunTrigger, change ...func(*spatev1.TrafficRun)) spatev1.TrafficRun {
	yes := true
	r := spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "p-1a2b3-" + strconv.FormatInt(trigger.Number, 10),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "spate.dev/v1alpha1", Kind: "TrafficProfile", Name: "p", UID: uid, Controller: &yes}},
	}}
	r.Spec.ProfileRef = &spatev1.LocalReference{Name: "p"}
	runs.Annotate(&r, policy, trigger, time.Time{})
	for _, c := range change {
		c(&r)
	}
	return r
}

// created is a run of the profile that a user created.
func created(change ...func(*spatev1.TrafficRun)) spatev1.TrafficRun {
	r := spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "mine"}}
	r.Spec.ProfileRef = &spatev1.LocalReference{Name: "p"}
	for _, c := range change {
		c(&r)
	}
	return r
}

// endedFor is the end of a run for a reason.
func endedFor(reason string) func(*spatev1.TrafficRun) {
	return func(r *spatev1.TrafficRun) {
		r.Status.Phase = spatev1.RunComplete
		r.Status.Conditions = []metav1.Condition{{Type: spatev1.ConditionComplete, Status: metav1.ConditionTrue, Reason: reason}}
	}
}

// mirrors is a profile whose status is copied from a run.
func mirrors(r spatev1.TrafficRun) func(*spatev1.TrafficProfile) {
	return func(p *spatev1.TrafficProfile) {
		p.Status.CurrentRun, p.Status.Conditions = reference(&r), r.Status.Conditions
	}
}

func TestWhenARunIsDue(t *testing.T) {
	const change, manual, schedule = spatev1.RunOnChange, spatev1.RunManual, spatev1.RunOnSchedule
	before := spatev1.RunTrigger{Generation: 3, Digest: "a", Number: 4}
	asked := spatev1.RunTrigger{Generation: 3, Digest: "a", RunID: "one", Number: 4}
	stopped := made(change, before, endedFor(spatev1.ReasonSuspended))
	for name, c := range map[string]struct {
		profile *spatev1.TrafficProfile
		digest  string
		runs    []spatev1.TrafficRun
		started *spatev1.RunTrigger
		due     bool
	}{
		"OnChange, new": {edited(change, 1), "a", nil, nil, true},
		"OnChange, new, with a run that others created":       {edited(change, 1), "a", []spatev1.TrafficRun{created()}, nil, true},
		"OnChange, known by the status":                       {edited(change, 3, last(before)), "a", nil, nil, false},
		"OnChange, known by a run":                            {edited(change, 3), "a", []spatev1.TrafficRun{made(change, before)}, nil, false},
		"OnChange, known by the operator":                     {edited(change, 3), "a", nil, &before, false},
		"OnChange, another digest, not edited":                {edited(change, 3, last(before)), "b", nil, nil, false},
		"OnChange, edited, means the same":                    {edited(change, 4, last(before)), "a", nil, nil, false},
		"OnChange, edited, means otherwise":                   {edited(change, 4, last(before)), "b", nil, nil, true},
		"OnChange, edited, known by a run":                    {edited(change, 4), "b", []spatev1.TrafficRun{made(change, before)}, nil, true},
		"OnChange, edited, known by the operator":             {edited(change, 4), "b", nil, &before, true},
		"OnChange, edited and started, status behind":         {edited(change, 4, last(before)), "b", nil, &spatev1.RunTrigger{Generation: 4, Digest: "b", Number: 5}, false},
		"OnChange, edited and started, status and run behind": {edited(change, 4, last(before)), "b", []spatev1.TrafficRun{made(change, before)}, &spatev1.RunTrigger{Generation: 4, Digest: "b", Number: 5}, false},
		"OnChange, edited, suspended":                         {edited(change, 4, suspended, last(before)), "b", nil, nil, false},
		"OnChange, resumed after its run was ended":           {edited(change, 5, last(before)), "a", []spatev1.TrafficRun{stopped}, nil, true},
		"OnChange, resumed, the run is deleted":               {edited(change, 5, last(before), mirrors(stopped)), "a", nil, nil, true},
		"OnChange, resumed after its run had ended":           {edited(change, 5, last(before)), "a", []spatev1.TrafficRun{made(change, before, endedFor(spatev1.ReasonFinished))}, nil, false},
		"OnChange, resumed and started":                       {edited(change, 5, last(before), mirrors(stopped)), "a", []spatev1.TrafficRun{stopped}, &spatev1.RunTrigger{Generation: 5, Digest: "a", Number: 5}, false},
		"OnChange, resumed, others' run is the latest":        {edited(change, 5, last(before)), "a", []spatev1.TrafficRun{stopped, created()}, nil, true},
		"OnChange, resumed, others' run ended meanwhile":      {edited(change, 5, last(before), mirrors(created(endedFor(spatev1.ReasonSuspended)))), "a", nil, nil, false},
		"OnChange, was Manual and never run":                  {edited(change, 2), "a", nil, nil, true},
		"Manual, new":                                         {edited(manual, 1), "a", nil, nil, false},
		"Manual, edited":                                      {edited(manual, 4, last(before)), "b", nil, nil, false},
		"Manual, new, with a runID":                           {edited(manual, 1, withRunID("one")), "a", nil, nil, true},
		"Manual, the same runID, by the status":               {edited(manual, 4, withRunID("one"), last(asked)), "b", nil, nil, false},
		"Manual, the same runID, by a run":                    {edited(manual, 4, withRunID("one")), "b", []spatev1.TrafficRun{made(manual, asked)}, nil, false},
		"Manual, the same runID, by the operator":             {edited(manual, 4, withRunID("one")), "b", nil, &asked, false},
		"Manual, another runID":                               {edited(manual, 4, withRunID("two"), last(asked)), "a", nil, nil, true},
		"Manual, another runID, suspended":                    {edited(manual, 4, withRunID("two"), suspended, last(asked)), "a", nil, nil, false},
		"Manual, no runID any more":                           {edited(manual, 4, last(asked)), "a", nil, nil, false},
		"Manual, resumed after its run was ended":             {edited(manual, 5, withRunID("one"), last(asked)), "a", []spatev1.TrafficRun{made(manual, asked, endedFor(spatev1.ReasonSuspended))}, nil, false},
		"Schedule, new":                                       {edited(schedule, 1), "a", nil, nil, false},
		"Schedule, edited":                                    {edited(schedule, 4, last(before)), "b", nil, nil, false},
		"Schedule, another runID":                             {edited(schedule, 4, withRunID("two"), last(asked)), "b", nil, nil, true},
		"Schedule, the same runID":                            {edited(schedule, 4, withRunID("one"), last(asked)), "b", nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{r: &Reconciler{started: map[types.UID]started{}}, profile: c.profile, digest: c.digest, runs: c.runs}
			if c.started != nil {
				s.r.started[uid] = started{trigger: *c.started}
			}
			if s.due() != c.due {
				t.Errorf("a run is due: %v", !c.due)
			}
		})
	}
}

// An upgrade may add a field with a default to the CRD: then every profile has another digest without having been edited.
func TestAnUpgradeStartsNoRuns(t *testing.T) {
	first := spatev1.RunTrigger{Generation: 1, Digest: "sent", Number: 1}
	for name, known := range map[string]func(*scope){
		"by the status": func(s *scope) { s.profile.Status.LastTrigger = &first },
		"by the run": func(s *scope) {
			s.runs = []spatev1.TrafficRun{made(spatev1.RunOnChange, first, endedFor(spatev1.ReasonFinished))}
		},
		"by the operator": func(s *scope) { s.r.started[uid] = started{trigger: first} },
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{r: &Reconciler{started: map[types.UID]started{}}, profile: edited(spatev1.RunOnChange, 1)}
			known(s)
			for _, step := range []struct {
				what       string
				generation int64
				digest     string
				due        bool
				recorded   spatev1.RunTrigger
			}{
				{"at rest", 1, "sent", false, first},
				{"an upgrade", 1, "sent, v2", false, spatev1.RunTrigger{Generation: 1, Digest: "sent, v2", Number: 1}},
				{"thresholds", 2, "sent, v2", false, spatev1.RunTrigger{Generation: 2, Digest: "sent, v2", Number: 1}},
				{"an upgrade after an edit", 2, "sent, v3", false, spatev1.RunTrigger{Generation: 2, Digest: "sent, v3", Number: 1}},
				{"a downgrade", 2, "sent, v2", false, spatev1.RunTrigger{Generation: 2, Digest: "sent, v2", Number: 1}},
				{"what is sent", 3, "other, v2", true, spatev1.RunTrigger{Generation: 2, Digest: "sent, v2", Number: 1}},
				{"and back", 4, "sent, v2", false, spatev1.RunTrigger{Generation: 4, Digest: "sent, v2", Number: 1}},
			} {
				s.profile.Generation, s.digest = step.generation, step.digest
				s.refreshTrigger()
				if got := s.profile.Status.LastTrigger; got == nil || *got != step.recorded {
					t.Errorf("%s: recorded is %+v, want %+v", step.what, got, step.recorded)
				}
				if s.due() != step.due {
					t.Errorf("%s: a run is due: %v", step.what, !step.due)
				}
			}
		})
	}
}

func TestAProfileThatHasStartedNothingRecordsNothing(t *testing.T) {
	s := &scope{r: &Reconciler{}, profile: edited(spatev1.RunOnChange, 1), digest: "a", runs: []spatev1.TrafficRun{created()}}
	s.refreshTrigger()
	if got := s.profile.Status.LastTrigger; got != nil {
		t.Errorf("%+v", got)
	}
}

func TestWhichEditsStartARun(t *testing.T) {
	history := int32(1)
	for name, c := range map[string]struct {
		edit func(*spatev1.TrafficProfileSpec)
		due  bool
	}{
		"nothing":          {func(*spatev1.TrafficProfileSpec) {}, false},
		"rate":             {func(s *spatev1.TrafficProfileSpec) { s.Rate = "2x" }, false},
		"an entry's rate":  {func(s *spatev1.TrafficProfileSpec) { s.Traffic[0].Stream.Rate = "1kpps" }, false},
		"an entry's pause": {func(s *spatev1.TrafficProfileSpec) { s.Traffic[0].Paused = true }, false},
		"paused":           {func(s *spatev1.TrafficProfileSpec) { s.Paused = true }, false},
		"thresholds": {func(s *spatev1.TrafficProfileSpec) {
			s.Thresholds = []spatev1.Threshold{{Name: "t", Expression: "result.lost == 0"}}
		}, false},
		"tolerance":          {func(s *spatev1.TrafficProfileSpec) { s.GeneratorTolerance.Late = "1%" }, false},
		"history":            {func(s *spatev1.TrafficProfileSpec) { s.RunHistoryLimit = &history }, false},
		"time to live":       {func(s *spatev1.TrafficProfileSpec) { s.TTLSecondsAfterFinished = &history }, false},
		"whenBusy":           {func(s *spatev1.TrafficProfileSpec) { s.WhenBusy = spatev1.BusyRefuse }, false},
		"whenPodLost":        {func(s *spatev1.TrafficProfileSpec) { s.WhenPodLost = spatev1.PodLossContinue }, false},
		"its generator":      {func(s *spatev1.TrafficProfileSpec) { s.Generator = &spatev1.TrafficGeneratorSpec{Workers: 2} }, false},
		"duration":           {func(s *spatev1.TrafficProfileSpec) { s.Duration = "2s" }, true},
		"another stream":     {func(s *spatev1.TrafficProfileSpec) { s.Traffic[0].Stream.Ref.Name = "b" }, true},
		"one more entry":     {func(s *spatev1.TrafficProfileSpec) { s.Traffic = append(s.Traffic, spatev1.TrafficEntry{Name: "b"}) }, true},
		"a generator's name": {func(s *spatev1.TrafficProfileSpec) { s.GeneratorRef = &spatev1.GeneratorReference{Name: "g"} }, true},
		"runID":              {func(s *spatev1.TrafficProfileSpec) { s.RunID = "again" }, true},
	} {
		p := edited(spatev1.RunOnChange, 1)
		p.Spec.Duration = "1s"
		p.Spec.Traffic = []spatev1.TrafficEntry{{Name: "a", Stream: &spatev1.StreamEntry{Ref: &spatev1.LocalReference{Name: "a"}}}}
		p.Status.LastTrigger = &spatev1.RunTrigger{Generation: 1, Digest: plan.ProfileDigest(p), Number: 1}
		p.Generation = 2
		c.edit(&p.Spec)
		s := &scope{r: &Reconciler{}, profile: p, digest: plan.ProfileDigest(p)}
		if s.due() != c.due {
			t.Errorf("%s: a run is due: %v", name, !c.due)
		}
	}
}
