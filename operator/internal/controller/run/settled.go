// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: what happens to a run that has ended? Its verdict is updated when the thresholds of its profile change, and it is
// deleted when its time to live has expired.

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/storage"
	"spate.dev/operator/internal/verdict"
)

// settled reconciles a run that has ended.
func (s *scope) settled(ctx context.Context) (again time.Duration, err error) {
	if err := s.define(ctx); err != nil {
		return 0, err
	}
	if err := s.updateVerdict(ctx); err != nil {
		return 0, err
	}
	left, due := s.timeToLive()
	if due && left <= 0 {
		return 0, client.IgnoreNotFound(s.r.Client.Delete(ctx, s.run))
	}
	if again, err := s.leave(ctx); err != nil || again > 0 {
		return again, err
	}
	return left, nil
}

// resultRead is the minimum time that an ended run is kept, for its profile to copy the result.
const resultRead = 5 * time.Second

// retried is added to the time to live of a run while it cannot be written into the archive, or its samples cannot be sent.
const retried = time.Hour

// awaited are the conditions that are False then.
var awaited = []string{spatev1.ConditionArchived, spatev1.ConditionRemoteWritten, spatev1.ConditionOTLPExported}

// timeToLive is how long the run is kept; due is false if it is not deleted automatically.
func (s *scope) timeToLive() (left time.Duration, due bool) {
	ttl, end := s.run.Spec.TTLSecondsAfterFinished, s.run.Status.CompletionTime
	if ttl == nil || end == nil {
		return 0, false
	}
	kept := max(time.Duration(*ttl)*time.Second, resultRead)
	if slices.ContainsFunc(awaited, func(condition string) bool { return meta.IsStatusConditionFalse(s.run.Status.Conditions, condition) }) {
		kept += retried
	}
	return time.Until(end.Add(kept)), true
}

// judgedBy reports whether the verdict is by its profile's current thresholds and tolerance.
func (s *scope) judgedBy() bool {
	resolved := s.run.Status.Resolved
	return equality.Semantic.DeepEqual(resolved.Thresholds, s.definition.Spec.Thresholds) && resolved.GeneratorTolerance == s.definition.Spec.GeneratorTolerance
}

// adoptThresholds takes over the profile's current thresholds and tolerance, unless an expression is invalid, which the profile
// reports, or reads a baseline, which a run has from its start or not at all.
func (s *scope) adoptThresholds() (adopted bool) {
	if s.definition == nil || s.judgedBy() {
		return false
	}
	for _, t := range s.definition.Spec.Thresholds {
		compiled, err := verdict.Compile(t.Expression)
		if err != nil || s.run.Status.Resolved.Baseline == nil && compiled.ReadsBaseline() {
			return false
		}
	}
	s.run.Status.Resolved.Thresholds, s.run.Status.Resolved.GeneratorTolerance = s.definition.Spec.Thresholds, s.definition.Spec.GeneratorTolerance
	return true
}

// updateVerdict evaluates changed thresholds on the latest run of a profile, without sending anything.
func (s *scope) updateVerdict(ctx context.Context) error {
	status := &s.run.Status
	if s.profile == nil || s.run.Spec.Search != nil || status.Resolved == nil || status.Result == nil || status.Verdict == nil || s.judgedBy() || !judgeable(status.Verdict) {
		return nil
	}
	all, err := runs.OfProfile(ctx, s.r.Client, s.profile)
	if err != nil || len(all) == 0 || all[len(all)-1].UID != s.run.UID {
		return err
	}
	before := s.run.DeepCopy()
	if !s.adoptThresholds() {
		return nil
	}
	whole, err := storage.LoadResult(ctx, s.r.Memory.Reader, s.run)
	var lost *storage.LostError
	if errors.As(err, &lost) {
		s.r.Events.Eventf(s.run, s.profile, corev1.EventTypeWarning, spatev1.ReasonDetailsNotKept, "Judge", "the new thresholds cannot be evaluated: %s", lost.Message)
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.compare(ctx); err != nil {
		return err
	}
	verdict := judge(s.run, *whole, s.compared, keptReasons(status.Verdict, distrustReasons), status.PortsDown, abortedReason(status.Verdict))
	verdict.Reasons = append(verdict.Reasons, keptReasons(status.Verdict, []string{spatev1.ReasonDetailsNotKept})...)
	concise(&verdict)
	status.Verdict = &verdict
	if complete := meta.FindStatusCondition(status.Conditions, spatev1.ConditionComplete); complete != nil && complete.Reason != spatev1.ReasonFinished {
		s.ended = complete.Message
	}
	meta.RemoveStatusCondition(&status.Conditions, spatev1.ConditionArchived) // the archive has the verdict before
	s.final = !meta.IsStatusConditionPresentAndEqual(status.Conditions, spatev1.ConditionRecorded, metav1.ConditionUnknown)
	s.conditions()
	if err := kstatus.Patch(ctx, s.r.Client, s.run, before); err != nil {
		return err
	}
	reason, message := primary(&verdict)
	s.r.Events.Eventf(s.run, s.profile, corev1.EventTypeNormal, "VerdictUpdated", "Judge", "%s",
		kstatus.Shortened("by the thresholds of the profile's generation "+strconv.FormatInt(s.profile.Generation, 10)+": "+string(verdict.Outcome)+": "+reason+": "+message, kstatus.LongestNote))
	return nil
}

// abortedReason is what aborted a run, by its verdict; empty if it was not aborted.
func abortedReason(v *spatev1.Verdict) string {
	for _, r := range keptReasons(v, []string{spatev1.ReasonAborted}) {
		return r.Message
	}
	return ""
}

// distrustReasons are reasons for which the engines' own reports say that counters are not reliable.
var distrustReasons = []string{spatev1.ReasonDrainTimedOut, spatev1.ReasonCountersContradict}

// judgeable reports whether a verdict was derived from a result. Thresholds cannot change any other verdict.
func judgeable(v *spatev1.Verdict) bool {
	return v.Outcome != spatev1.VerdictInvalid || slices.Contains(invalidAtTheEnd, v.Reasons[0].Reason)
}

func keptReasons(v *spatev1.Verdict, reasons []string) []spatev1.VerdictReason {
	return slices.DeleteFunc(slices.Clone(v.Reasons), func(r spatev1.VerdictReason) bool { return !slices.Contains(reasons, r.Reason) })
}
