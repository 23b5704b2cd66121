// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs/runstest"
	"spate.dev/operator/internal/runs/storage"
)

func threshold(expression string) func(*spatev1.TrafficProfile) {
	return func(p *spatev1.TrafficProfile) {
		p.Spec.Thresholds = append(p.Spec.Thresholds, spatev1.Threshold{Name: spatev1.EntryName(fmt.Sprintf("t%d", len(p.Spec.Thresholds))), Expression: expression})
	}
}

func tolerates(late spatev1.Tolerance) func(*spatev1.TrafficProfile) {
	return func(p *spatev1.TrafficProfile) {
		p.Spec.GeneratorTolerance = spatev1.GeneratorTolerance{Late: late, TxDropped: "0", RxMissed: "0"}
	}
}

// judgedBy is a run that has ended with 1000 packets sent, 3 lost and 5 late, with the verdict by a profile.
func judgedBy(p *spatev1.TrafficProfile, change ...func(*spatev1.TrafficRun)) *spatev1.TrafficRun {
	r := created(underWay)
	r.Status.Result = &spatev1.RunResult{StreamCounters: spatev1.StreamCounters{Tx: 1000, Rx: 997, Lost: 3, Late: 5}, Duration: spatev1.MeasuredTime(time.Second)}
	r.Status.Resolved.Timing.Duration = "1s"
	r.Status.Resolved.Thresholds, r.Status.Resolved.GeneratorTolerance = p.Spec.Thresholds, p.Spec.GeneratorTolerance
	s := &scope{run: r}
	s.complete(judge(r, *r.Status.Result, compared{}, nil, nil, ""), "")
	s.conditions()
	for _, c := range change {
		c(r)
	}
	return r
}

// endedBy sets how the run has ended.
func endedBy(outcome spatev1.VerdictOutcome, reason, why string) func(*spatev1.TrafficRun) {
	return func(r *spatev1.TrafficRun) {
		s := &scope{run: r}
		s.complete(*verdictOf(outcome, reason), why)
		s.conditions()
	}
}

// settling is an operator that reconciles a run that has ended, beside its current profile.
func settling(t *testing.T, r *spatev1.TrafficRun, there ...client.Object) *scope {
	t.Helper()
	c := runstest.Builder(t).WithObjects(append(there, r)...).Build()
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(r), r))
	return &scope{r: &Reconciler{Client: c, Memory: &storage.Memory{Reader: c}, Events: events.NewFakeRecorder(9)}, run: r}
}

// settleTwice reconciles the run twice, and returns it with the events.
func (s *scope) settleTwice(t *testing.T) (*spatev1.TrafficRun, []string) {
	t.Helper()
	for range 2 {
		r := &spatev1.TrafficRun{}
		must(t, s.r.Client.Get(t.Context(), client.ObjectKeyFromObject(s.run), r))
		if _, err := (&scope{r: s.r, run: r}).settled(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r := &spatev1.TrafficRun{}
	must(t, s.r.Client.Get(t.Context(), client.ObjectKeyFromObject(s.run), r))
	return r, s.eventsSince()
}

func TestAnEndedRunIsVerdictUpdatedByWhatItsProfileAsksForNow(t *testing.T) {
	const lenient, none = "100%", "0"
	noLoss, fewLost := threshold("result.lost == 0"), threshold("result.lost < 10")
	for name, c := range map[string]struct {
		run   *spatev1.TrafficRun
		now   *spatev1.TrafficProfile
		valid string
		event string // none if the verdict is not updated
		words string // in the message of Passed
	}{
		"the same": {judgedBy(profileNow(fewLost, tolerates(lenient))), profileNow(fewLost, tolerates(lenient)), "Valid=True MeasurementValid, Passed=True ThresholdsMet", "", "the threshold holds"},
		"stricter": {
			judgedBy(profileNow(fewLost, tolerates(lenient))), profileNow(noLoss, tolerates(lenient)), "Valid=True MeasurementValid, Passed=False ThresholdMissed",
			"Normal VerdictUpdated by the thresholds of the profile's generation 3: Failed: ThresholdMissed", "result.lost is 3",
		},
		"looser": {
			judgedBy(profileNow(noLoss, tolerates(lenient))), profileNow(fewLost, tolerates(lenient)), "Valid=True MeasurementValid, Passed=True ThresholdsMet",
			"Normal VerdictUpdated by the thresholds of the profile's generation 3: Passed: ThresholdsMet", "the threshold holds",
		},
		"none any more": {
			judgedBy(profileNow(noLoss, tolerates(lenient))), profileNow(tolerates(lenient)), "Valid=True MeasurementValid, Passed=True ThresholdsMet", "Normal VerdictUpdated", "there are no thresholds",
		},
		"one more": {
			judgedBy(profileNow(fewLost, tolerates(lenient))), profileNow(fewLost, threshold("result.tx == 999"), tolerates(lenient)), "Valid=True MeasurementValid, Passed=False ThresholdMissed",
			"Normal VerdictUpdated", "threshold t1: result.tx == 999 does not hold: result.tx is 1000",
		},
		"less is tolerated": {
			judgedBy(profileNow(fewLost, tolerates(lenient))), profileNow(fewLost, tolerates(none)), "Valid=False GeneratorLimited, Passed=Unknown GeneratorLimited",
			"Normal VerdictUpdated by the thresholds of the profile's generation 3: Invalid: GeneratorLimited", "5 packets were sent late; generatorTolerance.late of 0 allows 0 of 1000 sent",
		},
		"more is tolerated": {
			judgedBy(profileNow(fewLost, tolerates(none))), profileNow(fewLost, tolerates("0.5%")), "Valid=True MeasurementValid, Passed=True ThresholdsMet",
			"Normal VerdictUpdated by the thresholds of the profile's generation 3: Passed: ThresholdsMet", "the threshold holds",
		},
		"an expression that is none": {
			judgedBy(profileNow(fewLost, tolerates(lenient))), profileNow(threshold("result.lost =="), tolerates(lenient)), "Valid=True MeasurementValid, Passed=True ThresholdsMet", "", "the threshold holds",
		},
		"a baseline that it does not have": {
			judgedBy(profileNow(fewLost, tolerates(lenient))), profileNow(threshold("result.tx > baseline.tx"), tolerates(lenient)), "Valid=True MeasurementValid, Passed=True ThresholdsMet", "", "the threshold holds",
		},
		"a pod was lost": {
			judgedBy(profileNow(noLoss, tolerates(lenient)), endedBy(spatev1.VerdictInvalid, spatev1.ReasonPodLost, "")), profileNow(fewLost, tolerates(lenient)),
			"Valid=False PodLost, Passed=Unknown PodLost", "", "numbers",
		},
		"it was stopped": {
			judgedBy(profileNow(noLoss, tolerates(lenient)), endedBy(spatev1.VerdictInvalid, spatev1.ReasonIncomplete, endStopped)), profileNow(fewLost, tolerates(lenient)),
			"Valid=False Incomplete, Passed=Unknown Incomplete", "", "numbers",
		},
		"counters that contradict each other": {
			judgedBy(profileNow(noLoss, tolerates(lenient)), endedBy(spatev1.VerdictInvalid, spatev1.ReasonCountersContradict, "")), profileNow(fewLost, tolerates(lenient)),
			"Valid=False CountersContradict, Passed=Unknown CountersContradict", "Normal VerdictUpdated by the thresholds of the profile's generation 3: Invalid: CountersContradict", "numbers",
		},
		"overrides of its own": {
			judgedBy(profileNow(noLoss, tolerates(lenient)), func(r *spatev1.TrafficRun) { r.Spec.Overrides.Thresholds = r.Status.Resolved.Thresholds }), profileNow(fewLost, tolerates(lenient)),
			"Valid=True MeasurementValid, Passed=False ThresholdMissed", "", "result.lost is 3",
		},
		"its own definition": {
			judgedBy(profileNow(noLoss, tolerates(lenient)), func(r *spatev1.TrafficRun) {
				r.Spec.ProfileRef, r.Spec.Profile, r.Status.Resolved.Profile.UID = nil, &spatev1.TrafficDefinition{}, ""
			}), profileNow(fewLost, tolerates(lenient)),
			"Valid=True MeasurementValid, Passed=False ThresholdMissed", "", "result.lost is 3",
		},
		"its profile was created again": {
			judgedBy(profileNow(noLoss, tolerates(lenient))), profileNow(fewLost, tolerates(lenient), func(p *spatev1.TrafficProfile) { p.UID = "later-uid" }),
			"Valid=True MeasurementValid, Passed=False ThresholdMissed", "", "result.lost is 3",
		},
		"a port had no link": {
			judgedBy(profileNow(noLoss, tolerates(lenient)), func(r *spatev1.TrafficRun) { r.Status.PortsDown = []string{"port west of pod g-0"} }), profileNow(fewLost, tolerates(lenient)),
			"Valid=True MeasurementValid, Passed=True ThresholdsMet", "Normal VerdictUpdated", "port west of pod g-0 had no link for a time",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, reported := settling(t, c.run, c.now).settleTwice(t)
			if got := shown(r.Status.Conditions); !strings.HasSuffix(got, c.valid) {
				t.Errorf("got %s, want %s", got, c.valid)
			}
			if c.event == "" {
				expectEvents(t, name, reported)
			} else {
				expectEvents(t, name, reported, c.event)
			}
			if passed := meta.FindStatusCondition(r.Status.Conditions, spatev1.ConditionPassed); !strings.Contains(passed.Message, c.words) {
				t.Errorf("no %q in %q", c.words, passed.Message)
			}
			if was := c.run.Status; r.Status.Phase != spatev1.RunComplete || !r.Status.CompletionTime.Equal(was.CompletionTime) {
				t.Errorf("it ended at %s: %s, %s", was.CompletionTime, r.Status.Phase, r.Status.CompletionTime)
			}
			if c.event != "" && (len(r.Status.Resolved.Thresholds) != len(c.now.Spec.Thresholds) || r.Status.Resolved.GeneratorTolerance != c.now.Spec.GeneratorTolerance) {
				t.Errorf("it is judged by %+v, %+v", r.Status.Resolved.Thresholds, r.Status.Resolved.GeneratorTolerance)
			}
		})
	}
}

func TestARunWithoutAnEndThatWasStoppedStaysStoppedWhenItIsVerdictUpdated(t *testing.T) {
	for _, why := range []string{endStopped, endSuspended} {
		r := judgedBy(profileNow(threshold("result.lost == 0"), tolerates("100%")), func(r *spatev1.TrafficRun) {
			s := &scope{run: r}
			s.complete(*r.Status.Verdict, why)
			s.conditions()
		})
		before := *meta.FindStatusCondition(r.Status.Conditions, spatev1.ConditionComplete)
		r, _ = settling(t, r, profileNow(threshold("result.lost == 3"), tolerates("100%"))).settleTwice(t)
		after := meta.FindStatusCondition(r.Status.Conditions, spatev1.ConditionComplete)
		if after.Status != before.Status || after.Reason != before.Reason || after.Message != why || r.Status.Verdict.Outcome != spatev1.VerdictPassed {
			t.Errorf("%+v, %+v", after, r.Status.Verdict)
		}
	}
}

func TestOnlyTheLatestRunIsVerdictUpdated(t *testing.T) {
	strict, loose := profileNow(threshold("result.lost == 0"), tolerates("100%")), profileNow(threshold("result.lost == 3"), tolerates("100%"))
	later := created(func(r *spatev1.TrafficRun) { r.Name, r.UID = "theirs-2", "later" })
	later.CreationTimestamp = metav1.Now()
	r, reported := settling(t, judgedBy(strict), loose, later).settleTwice(t)
	if r.Status.Verdict.Outcome != spatev1.VerdictFailed || r.Status.Resolved.Thresholds[0].Expression != "result.lost == 0" {
		t.Errorf("%+v", r.Status.Verdict)
	}
	expectEvents(t, "an earlier run", reported)
}

func TestAWholeResultIsJudgedWhereTheStatusHasAPartOfIt(t *testing.T) {
	stream := func(lost int64) spatev1.StreamResult {
		return spatev1.StreamResult{StreamCounters: spatev1.StreamCounters{Tx: 10, Lost: lost}}
	}
	r := judgedBy(profileNow(tolerates("100%")))
	whole := *r.Status.Result
	whole.Streams = map[string]spatev1.StreamResult{"a": stream(0), "z": stream(3)}
	strict := profileNow(threshold(`result.streams["z"].lost == 0`), tolerates("100%"))
	s := settling(t, r, strict)
	details, err := storage.SaveResult(t.Context(), s.r.Client, r, &whole)
	must(t, err)
	details.Truncated = []spatev1.TruncatedList{{List: "streams", Kept: 1, Total: 2}}
	r.Status.Result.Streams, r.Status.Result.Details = map[string]spatev1.StreamResult{"a": stream(0)}, details
	must(t, s.r.Client.Status().Update(t.Context(), r))
	got, _ := s.settleTwice(t)
	if _, message := primary(got.Status.Verdict); got.Status.Verdict.Outcome != spatev1.VerdictFailed || !strings.Contains(message, `is 3`) {
		t.Errorf("%s: %s", got.Status.Verdict.Outcome, message)
	}
	if result := got.Status.Result; len(result.Streams) != 1 || result.Details == nil {
		t.Errorf("the status has %d streams, %+v", len(result.Streams), result.Details)
	}
	// The chunk no longer exists.
	must(t, s.r.Client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: string(details.Chunks[0].Name)}}))
	must(t, s.r.Client.Get(t.Context(), client.ObjectKeyFromObject(strict), strict))
	strict.Spec.Thresholds = nil
	must(t, s.r.Client.Update(t.Context(), strict))
	before := got
	got, reported := s.settleTwice(t)
	if got.Status.Verdict.Outcome != before.Status.Verdict.Outcome || len(got.Status.Resolved.Thresholds) != 1 {
		t.Errorf("%+v, by %+v", got.Status.Verdict, got.Status.Resolved.Thresholds)
	}
	if len(reported) == 0 || !strings.Contains(reported[0], "Warning DetailsNotKept the new thresholds cannot be evaluated: ConfigMap mine-result-0 with the run's result is gone") {
		t.Errorf("%q", reported)
	}
}

func TestARunIsDeletedWhenItsTimeToLiveIsOver(t *testing.T) {
	ttl := func(seconds int32, ago time.Duration) func(*spatev1.TrafficRun) {
		return func(r *spatev1.TrafficRun) {
			end := metav1.NewTime(time.Now().Add(-ago))
			r.Spec.TTLSecondsAfterFinished, r.Status.CompletionTime = &seconds, &end
		}
	}
	for name, c := range map[string]struct {
		change func(*spatev1.TrafficRun)
		left   time.Duration // 0 where it is not asked for again
		gone   bool
	}{
		"none":             {func(*spatev1.TrafficRun) {}, 0, false},
		"an hour left":     {ttl(7200, time.Hour), time.Hour, false},
		"over":             {ttl(60, time.Minute), 0, true},
		"at once, ended":   {ttl(0, resultRead), 0, true},
		"at once, not yet": {ttl(0, time.Second), resultRead - time.Second, false}, // its profile takes its result over
		"over, and not archived": {func(r *spatev1.TrafficRun) {
			ttl(60, time.Minute)(r)
			meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: spatev1.ConditionArchived, Status: metav1.ConditionFalse, Reason: spatev1.ReasonArchiveFailed})
		}, retried, false},
		"over, and samples not sent": {func(r *spatev1.TrafficRun) {
			ttl(60, time.Minute)(r)
			meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: spatev1.ConditionOTLPExported, Status: metav1.ConditionFalse, Reason: spatev1.ReasonSamplesNotSent})
		}, retried, false},
	} {
		p := profileNow(tolerates("100%"))
		s := settling(t, judgedBy(p, c.change), p)
		left, err := s.settled(t.Context())
		must(t, err)
		if left > c.left || left < c.left-10*time.Second {
			t.Errorf("%s: again in %s, want %s", name, left, c.left)
		}
		err = s.r.Client.Get(t.Context(), client.ObjectKeyFromObject(s.run), &spatev1.TrafficRun{})
		if apierrors.IsNotFound(err) != c.gone {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARunUnderWayIsNotDeleted(t *testing.T) {
	seconds := int32(0)
	s := &scope{run: created(underWay, func(r *spatev1.TrafficRun) { r.Spec.TTLSecondsAfterFinished = &seconds })}
	if left, due := s.timeToLive(); due {
		t.Errorf("it is deleted in %s", left)
	}
}
