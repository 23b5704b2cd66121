// SPDX-License-Identifier: Apache-2.0

// Package export answers: how are the samples of runs that have ended sent to systems that keep metrics?
package export

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/ended"
	"spate.dev/operator/internal/export"
	"spate.dev/operator/internal/metrics"
	"spate.dev/operator/internal/runs/storage"
)

// conditions are those that say whether the samples of a run were sent, by the protocol.
var conditions = map[export.Protocol]string{export.RemoteWrite: spatev1.ConditionRemoteWritten, export.OTLP: spatev1.ConditionOTLPExported}

// names of the controllers, and of the protocols in the operator's metrics.
var names = map[export.Protocol]string{export.RemoteWrite: "remote-write", export.OTLP: "otlp"}

// New returns the reconciler that sends samples to a target, those of one run at a time.
func New(c client.Client, recorder events.EventRecorder, target export.Target) *ended.Reconciler {
	name := names[target.Protocol]
	return &ended.Reconciler{Client: c, Events: recorder, Task: ended.Task{
		Name: name, Action: "Export", Condition: conditions[target.Protocol], Done: spatev1.ReasonSamplesSent, Failed: spatev1.ReasonSamplesNotSent,
		Do:    func(ctx context.Context, run *spatev1.TrafficRun) (string, error) { return send(ctx, c, target, run) },
		Final: final, Count: func(failed error) { metrics.SamplesSent(name, failed) },
	}}
}

// send sends the samples of a run.
func send(ctx context.Context, c client.Reader, target export.Target, run *spatev1.TrafficRun) (message string, err error) {
	sampled, err := storage.LoadSamples(ctx, c, run)
	if err != nil {
		return "", err
	}
	if sampled == nil {
		return "the run has no samples", nil
	}
	sent, err := target.Send(ctx, run, sampled)
	return fmt.Sprintf("%d samples", sent), err
}

// final reports whether another attempt is of no use: a receiver refuses the samples, or they cannot be read.
func final(failed error) bool {
	var refused *export.RefusedError
	var lost *storage.LostError
	return errors.As(failed, &refused) || errors.As(failed, &lost)
}
