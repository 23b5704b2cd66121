// SPDX-License-Identifier: Apache-2.0

package storage

// This file answers: where are the samples of a run?

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs/samples"
)

// keySamples has the samples, as samples.Series.Encode returns them.
const keySamples = "samples.json.gz"

// samplesOf is the name of the ConfigMap with a run's samples. It follows from the run's name: they are stored while the run lasts, and no
// write of its status is needed for that.
func samplesOf(run string) string { return run + "-samples-0" }

// SaveSamples stores the encoded samples of a run instead of those stored before. Only the run's name, namespace and UID are used.
func SaveSamples(ctx context.Context, c client.Client, run *spatev1.TrafficRun, encoded []byte) error {
	if err := (place{client: c, owner: run, run: run.Name, what: "samples", key: keySamples}).put(ctx, samplesOf(run.Name), encoded); err != nil {
		return fmt.Errorf("keep the samples of run %s: %w", run.Name, err)
	}
	return nil
}

// EncodedSamples returns the samples of a run as they are stored; nil if it has none.
func EncodedSamples(ctx context.Context, c client.Reader, run *spatev1.TrafficRun) ([]byte, error) {
	object := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: samplesOf(run.Name)}, object)
	if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(object, run) {
		return nil, nil
	}
	return object.BinaryData[keySamples], err
}

// LoadSamples returns the samples of a run; nil if it has none.
func LoadSamples(ctx context.Context, c client.Reader, run *spatev1.TrafficRun) (*samples.Series, error) {
	encoded, err := EncodedSamples(ctx, c, run)
	if encoded == nil || err != nil {
		return nil, err
	}
	series, err := samples.Decode(encoded)
	if err != nil {
		return nil, &LostError{fmt.Sprintf("the samples in ConfigMap %s cannot be read: %v", samplesOf(run.Name), err)}
	}
	return series, nil
}
