// SPDX-License-Identifier: Apache-2.0

package ended

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/runs/runstest"
)

// done does something with a run that has ended, and returns how often, the run as it is then, and the result of its reconcile.
func done(t *testing.T, do func(context.Context, client.Client, *spatev1.TrafficRun) error) (times int, run *spatev1.TrafficRun, again ctrl.Result, err error) {
	t.Helper()
	run = &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "imix-1", UID: "u"}}
	run.Status.Phase, run.Status.Verdict = spatev1.RunComplete, &spatev1.Verdict{Outcome: spatev1.VerdictPassed, Reasons: []spatev1.VerdictReason{{Reason: spatev1.ReasonThresholdsMet}}}
	c := runstest.Builder(t).WithObjects(run).Build()
	counted := 0
	r := &Reconciler{Client: c, Events: events.NewFakeRecorder(9), Task: Task{
		Name: "test", Action: "Test", Condition: spatev1.ConditionArchived, Done: spatev1.ReasonArchived, Failed: spatev1.ReasonArchiveFailed,
		Do: func(ctx context.Context, run *spatev1.TrafficRun) (string, error) {
			times++
			return "done", do(ctx, c, run.DeepCopy())
		},
		Final: func(err error) bool { return err.Error() == "refused" },
		Count: func(error) { counted++ },
	}}
	again, err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(run)})
	if err := client.IgnoreNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(run), run)); err != nil {
		t.Fatal(err)
	}
	if counted != times {
		t.Errorf("%d attempts of %d are counted", counted, times)
	}
	return times, run, again, err
}

// change changes the status of a run while something is done with it.
func change(t *testing.T, of func(*spatev1.TrafficRunStatus)) func(context.Context, client.Client, *spatev1.TrafficRun) error {
	return func(ctx context.Context, c client.Client, run *spatev1.TrafficRun) error {
		of(&run.Status)
		if err := c.Status().Update(ctx, run); err != nil {
			t.Error(err)
		}
		return nil
	}
}

func TestAnotherWriterOfTheStatusDoesNotHaveItDoneAgain(t *testing.T) {
	times, run, again, err := done(t, change(t, func(s *spatev1.TrafficRunStatus) {
		kstatus.Set(&s.Conditions, spatev1.ConditionRemoteWritten, metav1.ConditionTrue, 1, spatev1.ReasonSamplesSent, "9 samples")
	}))
	if err != nil || times != 1 || again != (ctrl.Result{}) {
		t.Errorf("%d times, %+v, %v", times, again, err)
	}
	for _, condition := range []string{spatev1.ConditionArchived, spatev1.ConditionRemoteWritten} {
		if !meta.IsStatusConditionTrue(run.Status.Conditions, condition) {
			t.Errorf("no %s in %+v", condition, run.Status.Conditions)
		}
	}
}

func TestWithAnotherVerdictItIsDoneAgain(t *testing.T) {
	_, run, again, err := done(t, change(t, func(s *spatev1.TrafficRunStatus) { s.Verdict.Outcome = spatev1.VerdictFailed }))
	if err != nil || again.RequeueAfter == 0 || meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionArchived) != nil {
		t.Errorf("%+v, %v, %+v", again, err, run.Status.Conditions)
	}
}

func TestAFinalFailureIsNotRepeated(t *testing.T) {
	for text, final := range map[string]bool{"refused": true, "away": false} {
		_, run, _, err := done(t, func(context.Context, client.Client, *spatev1.TrafficRun) error { return errors.New(text) })
		if errors.Is(err, reconcile.TerminalError(nil)) != final {
			t.Errorf("%s: %v", text, err)
		}
		if c := meta.FindStatusCondition(run.Status.Conditions, spatev1.ConditionArchived); c == nil || c.Status != metav1.ConditionFalse || c.Message != text {
			t.Errorf("%s: %+v", text, c)
		}
	}
}
