// SPDX-License-Identifier: Apache-2.0

package runs

// This file answers: who started a run, and why? The runs of a profile have that as annotations, so that an operator
// that stops before it has recorded a run in the profile's status does not start another one for the same reason.

import (
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

// Annotations of the runs that profiles start.
const (
	annotationPolicy     = "spate.dev/run-policy"
	annotationGeneration = "spate.dev/profile-generation"
	annotationDigest     = "spate.dev/profile-digest"
	annotationRunID      = "spate.dev/profile-run-id"
	annotationScheduled  = "spate.dev/scheduled-time"
)

// Annotate records why a run was started. `scheduled` is zero unless a schedule started it.
func Annotate(run *spatev1.TrafficRun, policy spatev1.RunPolicy, trigger spatev1.RunTrigger, scheduled time.Time) {
	run.Annotations = map[string]string{
		annotationPolicy: string(policy), annotationGeneration: strconv.FormatInt(trigger.Generation, 10), annotationDigest: trigger.Digest,
	}
	if trigger.RunID != "" {
		run.Annotations[annotationRunID] = trigger.RunID
	}
	if !scheduled.IsZero() {
		run.Annotations[annotationScheduled] = scheduled.UTC().Format(time.RFC3339)
	}
}

// Starter returns the profile that started a run; nil for a run that a user created. Its creator may own it: a workflow owns what its
// steps create.
func Starter(run *spatev1.TrafficRun) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(run)
	if owner == nil || owner.Kind != "TrafficProfile" || !strings.HasPrefix(owner.APIVersion, spatev1.GroupVersion.Group+"/") {
		return nil
	}
	return owner
}

// StartedBy reports whether the profile started the run.
func StartedBy(run *spatev1.TrafficRun, profile *spatev1.TrafficProfile) bool {
	starter := Starter(run)
	return starter != nil && starter.UID == profile.UID
}

// PolicyOf returns the policy by which a profile started a run; empty for a run that a user created.
func PolicyOf(run *spatev1.TrafficRun) spatev1.RunPolicy {
	return spatev1.RunPolicy(run.Annotations[annotationPolicy])
}

// TriggerOf returns why a profile started a run.
func TriggerOf(run *spatev1.TrafficRun) spatev1.RunTrigger {
	generation, _ := strconv.ParseInt(run.Annotations[annotationGeneration], 10, 64)
	return spatev1.RunTrigger{
		Generation: generation, Digest: run.Annotations[annotationDigest], RunID: run.Annotations[annotationRunID], Number: int64(Number(run.Name)),
	}
}

// ScheduledTime returns the scheduled time of a run that a schedule started; zero for others.
func ScheduledTime(run *spatev1.TrafficRun) time.Time {
	at, _ := time.Parse(time.RFC3339, run.Annotations[annotationScheduled])
	return at
}
