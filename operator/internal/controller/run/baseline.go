// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: which run is a run compared with, and what was its result?

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/runs"
	"spate.dev/operator/internal/runs/storage"
	"spate.dev/operator/internal/verdict"
)

// findBaseline finds the run that this one is compared with. It is not found if it has to be awaited, or if it cannot be compared with: then
// this run has ended.
func (s *scope) findBaseline(ctx context.Context) (found bool, again time.Duration, err error) {
	ref := s.run.Spec.BaselineRef
	if ref == nil {
		return true, 0, nil
	}
	baseline, pause := &spatev1.TrafficRun{}, kstatus.PollPause(s.run.Status.Conditions)
	err = s.r.Client.Get(ctx, client.ObjectKey{Namespace: s.run.Namespace, Name: string(ref.Name)}, baseline)
	switch {
	case apierrors.IsNotFound(err):
		again, err = s.wait(spatev1.ReasonReferenceNotFound, fmt.Sprintf("spec.baselineRef: TrafficRun %q does not exist in namespace %s; create this run again with the name of a run that has ended",
			ref.Name, s.run.Namespace), pause)
		return false, again, err
	case err != nil:
		return false, 0, err
	case runs.Active(baseline):
		again, err = s.wait(spatev1.ReasonBaselineNotComplete, fmt.Sprintf("spec.baselineRef: TrafficRun %q has not ended", ref.Name), pause)
		return false, again, err
	}
	if why := incomparable(baseline); why != "" {
		s.withoutBaseline(why)
		return false, 0, nil
	}
	s.comparedTo = baseline
	return true, 0, nil
}

// withoutBaseline ends a run that cannot be compared with its baseline.
func (s *scope) withoutBaseline(why string) {
	s.invalid(spatev1.ReasonBaselineUnusable, fmt.Sprintf("spec.baselineRef: TrafficRun %q is no baseline: %s; create this run again with the name of a run with Valid=True and without lost pods",
		s.run.Spec.BaselineRef.Name, why), "")
}

// incomparable returns why nothing can be compared with the result of a run that has ended; empty if it can.
func incomparable(baseline *spatev1.TrafficRun) string {
	status := &baseline.Status
	switch {
	case baseline.Spec.Search != nil:
		return "it is a search, which has no result of one execution"
	case status.Verdict == nil || status.CompletionTime == nil:
		return "it has no verdict"
	case status.Verdict.Outcome == spatev1.VerdictInvalid:
		reason, message := primary(status.Verdict)
		return fmt.Sprintf("its measurement is not valid (%s: %s)", reason, message)
	case status.Result == nil:
		return "it has no result"
	case len(status.LostPods) > 0:
		return "it has lost pods, and what these sent and received is not known: " + strings.Join(podNames(status.LostPods), ", ")
	}
	return ""
}

// checkBaseline reads the whole result of the baseline, and checks that it has what thresholds read of it. It returns false if it has not: then
// this run has ended.
func (s *scope) checkBaseline(ctx context.Context, resolved *plan.Resolved) (ok bool, err error) {
	if s.comparedTo == nil {
		return true, nil
	}
	whole, err := storage.LoadResult(ctx, s.r.Memory.Reader, s.comparedTo)
	var lost *storage.LostError
	if errors.As(err, &lost) {
		s.withoutBaseline(lost.Message)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.comparedTo.Status.Result = whole
	result := forThresholds(*whole)
	if problems := plan.OfRun(resolved.CheckBaseline(s.definition, &result), s.run); len(problems) > 0 {
		s.invalid(problems.Reason(), problems.Message(), "")
		return false, nil
	}
	return true, nil
}

// compared is the result that a run is compared with.
type compared struct {
	// result is nil if the run has no baseline, or if the copy of its result is lost.
	result *verdict.Result
	// lost is why that cannot be read; empty if it can, or if there is no baseline.
	lost string
}

// evaluate evaluates a threshold on a result.
func (c compared) evaluate(t *verdict.Threshold, result verdict.Result) verdict.Outcome {
	if c.result == nil {
		return t.Evaluate(result)
	}
	return t.EvaluateAgainst(*c.result, result)
}

// compare reads the copy of the baseline's result, once while the run has a task.
func (s *scope) compare(ctx context.Context) error {
	if s.run.Status.Resolved.Baseline == nil {
		return nil
	}
	if s.found != nil && s.found.compared != nil {
		s.compared = *s.found.compared
		return nil
	}
	whole, err := storage.LoadBaseline(ctx, s.r.Memory.Reader, s.run)
	var lost *storage.LostError
	switch {
	case errors.As(err, &lost):
		s.compared = compared{lost: fmt.Sprintf("the result of the baseline %s is lost: %s", s.run.Status.Resolved.Baseline.Name, lost.Message)}
	case err != nil:
		return err
	default:
		result := forThresholds(*whole)
		s.compared = compared{result: &result}
	}
	if s.found != nil {
		kept := s.compared
		s.found.compared = &kept
	}
	return nil
}
