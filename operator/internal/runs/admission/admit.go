// SPDX-License-Identifier: Apache-2.0

package admission

// This file answers: does a generator have room for a run beside those it executes, and what is assigned to the run
// then? The answer is valid until the cache has the run: until then no other run is admitted to the generator.

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/load"
	"spate.dev/operator/internal/runs"
)

// Enter reserves a generator for the admission of one run. ok is false while another run is being admitted to it.
func (r *Resolver) Enter(generator client.ObjectKey) (leave func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.admitted[generator] {
		return nil, false
	}
	r.admitted[generator] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.admitted, generator)
	}, true
}

// Busy returns why the generator has no room for the run beside those it executes: a port beyond its line rate, a limit
// exceeded, something that another run has exclusively. It is empty if there is room. (That the generator can execute
// the run alone was checked when the run was resolved.)
func (s *Resolution) Busy(ctx context.Context) (string, error) {
	active, err := runs.ActiveOn(ctx, s.r.Client, s.Generator)
	if err != nil || len(active) == 0 {
		return "", err
	}
	others, err := s.r.Memory.LoadOf(ctx, active)
	if err != nil {
		return "", err
	}
	if problems := load.Check(s.Resolved.Load.Plus(others), s.Generator, field.NewPath("spec", "traffic")); len(problems) > 0 {
		return fmt.Sprintf("together with %s: %s", strings.Join(runs.Names(active), ", "), problems.Message()), nil
	}
	for i := range active {
		facts, err := s.r.Memory.Of(ctx, &active[i])
		if err != nil {
			return "", err
		}
		if conflict := s.Resolved.Claims().Conflict(facts.Claims); conflict != "" {
			return fmt.Sprintf("together with %s: spec.traffic: %s", runs.Names(active[i : i+1])[0], conflict), nil
		}
	}
	return "", nil
}

// Admit returns what the run executes, without its snapshot, and the identity for its plan. The caller calls settled
// when the run is written, or is not going to be.
func (s *Resolution) Admit(ctx context.Context, run *spatev1.TrafficRun) (resolved *spatev1.ResolvedRun, id plan.Identity, settled func(), err error) {
	tag, err := s.r.tags.next(ctx, s.r.Client)
	second := uint16(0)
	if err == nil && run.Spec.Search != nil {
		second, err = s.r.tags.next(ctx, s.r.Client)
	}
	if err != nil {
		return nil, id, nil, err
	}
	pods, err := s.pods(ctx)
	if err != nil {
		return nil, id, nil, err
	}
	marks, err := s.chooseMarks(ctx, run.UID, tag)
	if err != nil {
		return nil, id, nil, err
	}
	definition := s.definition
	id = plan.Identity{RunID: runs.ID(run), Run: run.Name, Tag: tag, SecondTag: second, Profile: definition.Name, Namespace: run.Namespace, Marks: marks}
	resolved = &spatev1.ResolvedRun{
		Profile: spatev1.ProfileSnapshot{Name: spatev1.ObjectName(definition.Name), Definitions: s.Resolved.Definitions, Selections: s.Resolved.Selections},
		Generator: spatev1.GeneratorSnapshot{
			Name: spatev1.ObjectName(s.Generator.Name), Namespace: s.Generator.Namespace, Pods: pods, Limits: s.Generator.Spec.Limits.DeepCopy(),
		},
		RunID: id.RunID, Tag: int32(tag), SecondTag: int32(second), RateFactor: s.Resolved.Factor.RatString(), Entries: s.Resolved.Entries, Clients: s.Resolved.Clients, Marks: marksOf(s.Resolved.Outline(id)),
		Timing:     spatev1.RunTiming{Setup: definition.Spec.SetupTimeout, Warmup: definition.Spec.Warmup, Duration: definition.Spec.Duration, Drain: definition.Spec.Drain},
		Stages:     s.Resolved.Stages,
		Thresholds: definition.Spec.Thresholds, GeneratorTolerance: definition.Spec.GeneratorTolerance, WhenPodLost: definition.Spec.WhenPodLost,
	}
	if len(resolved.Stages) > 0 {
		resolved.Timing.Duration = spatev1.Duration(s.Resolved.Length().String())
	}
	if run.Spec.ProfileRef != nil {
		resolved.Profile.UID, resolved.Profile.Generation = definition.UID, definition.Generation
	}
	return resolved, id, func() { s.r.marksSettled(run.UID) }, nil
}

// Seen waits until the cache has the run as it was written: the next admission must see what the run uses.
func (r *Resolver) Seen(ctx context.Context, written *spatev1.TrafficRun) error {
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 5*time.Second, true, func(ctx context.Context) (bool, error) {
		cached := &spatev1.TrafficRun{}
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(written), cached)
		return err == nil && (cached.UID != written.UID || cached.Status.Resolved != nil), client.IgnoreNotFound(err)
	})
}
