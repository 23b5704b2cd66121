// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: what is the exit code of a run, and what does its JUnit report say?

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/exit"
	"spate.dev/operator/internal/plugin/junit"
)

// refusals are reasons for which a generator or the cluster does not take a run, though the run may be right.
var refusals = []string{
	spatev1.ReasonGeneratorBusy, spatev1.ReasonReferenceNotAllowed, spatev1.ReasonLimitExceeded, spatev1.ReasonNotAllowed, spatev1.ReasonAdmissionFailed, spatev1.ReasonNameTaken,
}

// codeOf a run or a profile that sends nothing for this reason.
func codeOf(reason string) int {
	if slices.Contains(refusals, reason) {
		return exit.NotRun
	}
	return exit.Invalid
}

// outcome is nil for a run that has passed; otherwise what came of it, with its exit code.
func (s *subject) outcome() error {
	if s.err != nil || !s.hasEnded() {
		return s.err
	}
	verdict := s.run.Status.Verdict
	if verdict == nil || len(verdict.Reasons) == 0 {
		return exit.With(exit.NotRun, fmt.Errorf("%s has ended without a verdict", s.name()))
	}
	reason := verdict.Reasons[0]
	err := fmt.Errorf("%s: %s: %s (%s)", s.name(), verdict.Outcome, reason.Message, reason.Reason)
	switch verdict.Outcome {
	case spatev1.VerdictPassed:
		return nil
	case spatev1.VerdictFailed:
		return exit.With(exit.Failed, err)
	}
	if s.run.Status.TrafficStartTime == nil {
		return exit.With(codeOf(reason.Reason), err)
	}
	return exit.With(exit.Invalid, err)
}

// worst joins the errors of all subjects, with the worst exit code.
func worst(subjects []*subject, errorOf func(*subject) error) error {
	var all []error
	code := exit.Passed
	for _, sub := range subjects {
		if err := errorOf(sub); err != nil {
			all, code = append(all, err), max(code, exit.Code(err))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &exit.Error{Code: code, Err: errors.Join(all...)}
}

// suitesOf returns a suite for each subject. An error that came before there was a subject is a suite of its own.
func suitesOf(subjects []*subject, err error) *junit.Suites {
	var all junit.Suites
	for _, sub := range subjects {
		all.Suites = append(all.Suites, suiteOf(sub))
	}
	if len(subjects) == 0 && err != nil {
		s := junit.Suite{Name: "kubectl spate run"}
		s.Add(junit.Case{Name: "start", Time: junit.Seconds(0), Error: &junit.Message{Text: err.Error()}})
		all.Suites = append(all.Suites, s)
	}
	return &all
}

// SuiteOf is the suite of a run of the cluster.
func SuiteOf(run *spatev1.TrafficRun) junit.Suite { return suiteOf(&subject{run: run}) }

// suiteOf has a case for validity, and one for each threshold of the run and of its stages. Thresholds that were not evaluated are skipped.
func suiteOf(sub *subject) junit.Suite {
	if sub.run == nil {
		s := junit.Suite{Name: sub.profile.String()}
		err := cmp.Or(sub.err, errors.New("no run was started"))
		s.Add(junit.Case{Name: "valid", Time: junit.Seconds(0), Error: &junit.Message{Text: err.Error()}})
		return s
	}
	status := &sub.run.Status
	s := junit.Suite{Name: sub.run.Namespace + "/" + sub.run.Name}
	valid := junit.Case{Name: "valid", Time: junit.Seconds(lasted(status))}
	if err := sub.outcome(); !sub.hasEnded() && err == nil {
		valid.Error = &junit.Message{Text: "the run has not ended"}
	} else if exit.Code(err) > exit.Failed {
		valid.Error = &junit.Message{Text: err.Error()}
	}
	s.Add(valid)
	judged := map[string]spatev1.ThresholdResult{}
	if status.Verdict != nil {
		for _, t := range status.Verdict.Thresholds {
			judged[t.Name] = t
		}
	}
	if resolved := status.Resolved; resolved != nil {
		for _, t := range resolved.Thresholds {
			addThreshold(&s, "", t, judged)
		}
		for _, stage := range resolved.Stages {
			judged := map[string]spatev1.ThresholdResult{}
			if i := slices.IndexFunc(status.Stages, func(s spatev1.StageStatus) bool { return s.Name == stage.Name }); i >= 0 {
				for _, t := range status.Stages[i].Thresholds {
					judged[t.Name] = t
				}
			}
			for _, t := range stage.Thresholds {
				addThreshold(&s, "stage "+stage.Name+": ", t, judged)
			}
		}
	}
	return s
}

// addThreshold adds the case of a threshold. Its message is what was measured against what is demanded.
func addThreshold(s *junit.Suite, prefix string, t spatev1.Threshold, judged map[string]spatev1.ThresholdResult) {
	c := junit.Case{Name: prefix + "threshold " + string(t.Name), Time: junit.Seconds(0)}
	result, evaluated := judged[string(t.Name)]
	switch {
	case !evaluated:
		c.Skipped = &junit.Message{Text: "not evaluated: " + t.Expression}
	case result.Met:
		c.Output = result.Message
	default:
		c.Failure, c.Output = &junit.Message{Text: result.Message}, t.Message
	}
	s.Add(c)
}

// lasted is the time from the start of the traffic to the end of the run.
func lasted(status *spatev1.TrafficRunStatus) time.Duration {
	if status.TrafficStartTime == nil || status.CompletionTime == nil {
		return 0
	}
	return max(status.CompletionTime.Sub(status.TrafficStartTime.Time), 0)
}
