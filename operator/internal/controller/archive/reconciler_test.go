// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/archive"
	"spate.dev/operator/internal/runs/runstest"
	"spate.dev/operator/internal/runs/samples"
	"spate.dev/operator/internal/runs/storage"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// full is an archive that takes nothing while it is true.
type full struct {
	archive.Directory
	is bool
}

func (f *full) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	if f.is {
		return errors.New("no space left on device")
	}
	return f.Directory.Put(ctx, name, write)
}

// endedRun is a run with a verdict, in whose status only one of two streams is.
func endedRun() *spatev1.TrafficRun {
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "imix-1", UID: "00000000-0000-4000-8000-000000000001"}}
	r.Status.Phase, r.Status.Verdict = spatev1.RunComplete, &spatev1.Verdict{Outcome: spatev1.VerdictPassed, Reasons: []spatev1.VerdictReason{{Reason: spatev1.ReasonThresholdsMet}}}
	r.Status.Result = &spatev1.RunResult{StreamCounters: spatev1.StreamCounters{Tx: 20}, Streams: map[string]spatev1.StreamResult{"a": {}}}
	return r
}

func TestARunIsArchivedWholeWhenItHasEnded(t *testing.T) {
	r, events := endedRun(), events.NewFakeRecorder(9)
	c := runstest.Builder(t).WithObjects(r).Build()
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(r), r))
	whole := r.Status.Result.DeepCopy()
	whole.Streams["b"] = spatev1.StreamResult{}
	details, err := storage.SaveResult(t.Context(), c, r, whole)
	must(t, err)
	r.Status.Result.Details = details
	must(t, c.Status().Update(t.Context(), r))
	series := samples.New()
	series.Add(samples.Reading{At: time.Second, Result: whole}, samples.Most)
	encoded, err := series.Encode()
	must(t, err)
	must(t, storage.SaveSamples(t.Context(), c, r, encoded))

	store := &full{archive.Directory(t.TempDir()), true}
	reconciler, request := (&Reconciler{Client: c, Events: events, Store: store}).reconciler(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(r)}
	condition := func() *metav1.Condition {
		t.Helper()
		must(t, c.Get(t.Context(), request.NamespacedName, r))
		return meta.FindStatusCondition(r.Status.Conditions, spatev1.ConditionArchived)
	}
	for range 3 {
		if _, err := reconciler.Reconcile(t.Context(), request); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("it is not repeated: %v", err)
		}
		if got := condition(); got == nil || got.Status != metav1.ConditionFalse || got.Reason != spatev1.ReasonArchiveFailed || got.Message != "no space left on device" || r.Status.Verdict.Outcome != spatev1.VerdictPassed {
			t.Errorf("%+v, %+v", got, r.Status.Verdict)
		}
	}
	if n := len(events.Events); n != 1 {
		t.Errorf("%d events", n)
	}
	store.is = false
	if again, err := reconciler.Reconcile(t.Context(), request); err != nil || again != (ctrl.Result{}) {
		t.Errorf("%+v, %v", again, err)
	}
	folder := "n/imix-1-" + string(r.UID)
	if got := condition(); got.Status != metav1.ConditionTrue || got.Reason != spatev1.ReasonArchived || got.Message != "in "+folder {
		t.Errorf("%+v", got)
	}
	kept, values, err := archive.Load(t.Context(), store, folder)
	if err != nil || len(kept.Status.Result.Streams) != 2 || kept.Status.Result.Details != nil || kept.Status.Verdict.Outcome != spatev1.VerdictPassed || values == nil || len(values.Times) != 1 {
		t.Errorf("%+v, %+v, %v", kept, values, err)
	}

	file := filepath.Join(string(store.Directory), filepath.FromSlash(folder), archive.RunFile)
	must(t, os.Remove(file))
	if _, err := reconciler.Reconcile(t.Context(), request); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("an archived run is written again")
	}
	meta.RemoveStatusCondition(&r.Status.Conditions, spatev1.ConditionArchived) // as for another verdict
	must(t, c.Status().Update(t.Context(), r))
	if _, err := reconciler.Reconcile(t.Context(), request); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestARunThatIsActiveIsNotArchived(t *testing.T) {
	r := endedRun()
	r.Status.Phase = spatev1.RunRunning
	store := archive.Directory(t.TempDir())
	reconciler := (&Reconciler{Client: runstest.Builder(t).WithObjects(r).Build(), Events: events.NewFakeRecorder(1), Store: store}).reconciler()
	for _, key := range []client.ObjectKey{client.ObjectKeyFromObject(r), {Namespace: "n", Name: "none"}} {
		if _, err := reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Error(err)
		}
	}
	if all, err := archive.Runs(t.Context(), store, ""); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
