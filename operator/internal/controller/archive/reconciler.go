// SPDX-License-Identifier: Apache-2.0

// Package archive writes runs that have ended into the operator's archive.
package archive

// This file answers: what is written of a run, and when are archived runs deleted?

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/archive"
	"spate.dev/operator/internal/controller/ended"
	"spate.dev/operator/internal/metrics"
	"spate.dev/operator/internal/runs/storage"
)

// Reconciler archives runs, one at a time: a whole result may take many megabytes.
type Reconciler struct {
	Client client.Client
	Events events.EventRecorder
	Store  archive.Store
	Keep   archive.Retention
}

const (
	// retainEvery is the interval at which runs are deleted that are kept no longer.
	retainEvery = time.Hour
	// retainLimit bounds the time for that.
	retainLimit = 30 * time.Minute
)

// SetupWithManager registers the reconciler, and the deletion of runs that are kept no longer.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return errors.Join(mgr.Add(manager.RunnableFunc(r.retain)), r.reconciler().SetupWithManager(mgr))
}

func (r *Reconciler) reconciler() *ended.Reconciler {
	return &ended.Reconciler{Client: r.Client, Events: r.Events, Task: ended.Task{
		Name: "archive", Action: "Archive",
		Condition: spatev1.ConditionArchived, Done: spatev1.ReasonArchived, Failed: spatev1.ReasonArchiveFailed,
		Do: r.save, Count: metrics.RunArchived,
	}}
}

// save writes a run with its whole result and its samples. Of a result that is lost, it writes what the status has.
func (r *Reconciler) save(ctx context.Context, run *spatev1.TrafficRun) (message string, err error) {
	var lost *storage.LostError
	whole, err := storage.LoadResult(ctx, r.Client, run)
	if err != nil && !errors.As(err, &lost) {
		return "", err
	}
	encoded, err := storage.EncodedSamples(ctx, r.Client, run)
	if err != nil {
		return "", err
	}
	kept := *run
	if whole != nil {
		kept.Status.Result = whole
	}
	return "in " + archive.Folder(run), archive.Save(ctx, r.Store, &kept, encoded)
}

// retain deletes runs that are kept no longer, until the operator stops.
func (r *Reconciler) retain(ctx context.Context) error {
	if r.Keep.IsUnlimited() {
		return nil
	}
	for {
		within, cancel := context.WithTimeout(ctx, retainLimit)
		deleted, err := r.Keep.Apply(within, r.Store, time.Now())
		cancel()
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "archived runs could not be deleted; retried", "in", retainEvery.String())
		} else if deleted > 0 {
			log.FromContext(ctx).Info("archived runs were deleted that are kept no longer", "runs", deleted)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retainEvery):
		}
	}
}
