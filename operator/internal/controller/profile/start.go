// SPDX-License-Identifier: Apache-2.0

package profile

// This file answers: how does a profile start a run, and stop one?

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/controller/run"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/storage"
)

// start creates the next run. Its name contains the previous run's number plus one: an operator that does not know of a run just
// created by another operator cannot create a second one.
func (s *scope) start(ctx context.Context, scheduled time.Time) error {
	trigger := spatev1.RunTrigger{Generation: s.profile.Generation, Digest: s.digest, RunID: s.profile.Spec.RunID, Number: 1}
	if last := s.trigger(); last != nil {
		trigger.Number = last.Number + 1
	}
	made := &spatev1.TrafficRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.profile.Namespace, Name: s.runName(trigger.Number), Finalizers: []string{run.Finalizer}},
		Spec: spatev1.TrafficRunSpec{
			ProfileRef: &spatev1.LocalReference{Name: spatev1.ObjectName(s.profile.Name)}, TTLSecondsAfterFinished: s.profile.Spec.TTLSecondsAfterFinished,
		},
	}
	policy := s.profile.Spec.RunPolicy
	if policy == spatev1.RunOnSchedule && scheduled.IsZero() {
		policy = spatev1.RunManual // for a runID
	}
	runs.Annotate(made, policy, trigger, scheduled)
	if err := controllerutil.SetControllerReference(s.profile, made, s.r.Client.Scheme()); err != nil {
		return err
	}
	if err := s.r.Client.Create(ctx, made); err != nil {
		if apierrors.IsAlreadyExists(err) && s.isForeign(ctx, made.Name) {
			return &takenError{made.Name}
		}
		return fmt.Errorf("create run %s: %w", made.Name, err)
	}
	s.r.mu.Lock()
	s.r.started[s.profile.UID] = started{trigger, scheduled}
	s.r.mu.Unlock()
	s.profile.Status.LastTrigger = &trigger
	if !scheduled.IsZero() {
		s.profile.Status.LastScheduleTime = &metav1.Time{Time: scheduled}
	}
	s.r.Events.Eventf(s.profile, made, corev1.EventTypeNormal, "RunCreated", "Start", "created run %s", made.Name)
	s.runs = append(s.runs, *made)
	return nil
}

// runName contains the first characters of the profile's UID: a later profile with the same name has runs with other names.
func (s *scope) runName(number int64) string {
	return fmt.Sprintf("%s-%.5s-%d", s.profile.Name, s.profile.UID, number)
}

// stop ends a run early.
func (s *scope) stop(ctx context.Context, run *spatev1.TrafficRun) error {
	if run.Spec.Stop {
		return nil
	}
	stopped := run.DeepCopy()
	stopped.Spec.Stop = true
	return client.IgnoreNotFound(s.r.Client.Update(ctx, stopped))
}

// isForeign reports whether there is a run of this name that the profile did not start. A run that is not in the cache yet is its own.
func (s *scope) isForeign(ctx context.Context, name string) bool {
	there := &spatev1.TrafficRun{}
	err := s.r.Client.Get(ctx, client.ObjectKey{Namespace: s.profile.Namespace, Name: name}, there)
	return err == nil && !metav1.IsControlledBy(there, s.profile)
}

// takenError reports that a run's name is used by a run which the profile did not start.
type takenError struct{ run string }

func (e *takenError) Error() string {
	return fmt.Sprintf("TrafficRun %s exists and was not started by this profile; delete it", e.run)
}

// refused returns the decision if the API server persistently refuses the run or the generator: a quota, a policy of the cluster, a
// name that is taken. Any other error is returned.
func refused(err error) (decision, error) {
	d := decision{phase: spatev1.ProfilePending, again: kstatus.RefusedPause}
	var taken *takenError
	switch {
	case errors.As(err, &taken):
		d.reason = spatev1.ReasonNameTaken
	case storage.Refused(err) && !kstatus.Expected(err):
		d.reason = spatev1.ReasonAdmissionFailed
	default:
		return decision{}, err
	}
	d.message = fmt.Sprintf("no run can be created: %v; retried every %s", err, kstatus.RefusedPause)
	return d, nil
}
