// SPDX-License-Identifier: Apache-2.0

// Package snapshot keeps the resolved plan of a run beside it, in ConfigMaps: a plan may be larger than an object.
package snapshot

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	spatev1 "spate.dev/operator/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
)

const (
	// chunkBytes leaves room for the rest of an object, which is 1 MiB at most.
	chunkBytes = 768 << 10
	// keyPacked holds a part of the plan after gzip: the copies of a stream differ in a few bytes. Another key holds a part of
	// the plan itself, as earlier operators kept it.
	keyPacked = "plan.gz"
)

// LabelRun names the run a chunk belongs to.
const LabelRun = "spate.dev/run"

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;update

// Save keeps the plan of a run that is about to be made, as it is written: no more of it than a chunk is in memory. Until the run takes
// its chunks over (see Adopt) they belong to its profile, so that nothing is left behind if the run is never made.
func Save(ctx context.Context, c client.Client, profile *spatev1.TrafficProfile, runName string, write func(io.Writer) error) (spatev1.Snapshot, error) {
	var saved spatev1.Snapshot
	keep := func(chunk []byte) error {
		object := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: profile.Namespace,
				Name:      fmt.Sprintf("%s-plan-%d", runName, len(saved.Chunks)),
				Labels:    map[string]string{podspec.LabelManagedBy: podspec.ManagedBy, LabelRun: runName},
			},
			BinaryData: map[string][]byte{keyPacked: chunk},
		}
		if err := controllerutil.SetControllerReference(profile, object, c.Scheme()); err != nil {
			return err
		}
		err := c.Create(ctx, object)
		if apierrors.IsAlreadyExists(err) { // of an attempt that got no further
			err = c.Update(ctx, object)
		}
		saved.Chunks = append(saved.Chunks, spatev1.DataReference{ConfigMapName: spatev1.ObjectName(object.Name), Key: keyPacked})
		return err
	}
	chunks := &chunker{keep: keep}
	sum, packed := sha256.New(), gzip.NewWriter(chunks)
	count := &counter{}
	err := write(io.MultiWriter(sum, count, packed))
	if err == nil {
		err = packed.Close()
	}
	if err == nil {
		err = chunks.flush()
	}
	if err != nil {
		return saved, fmt.Errorf("keep the plan of run %s: %w", runName, err)
	}
	saved.Digest, saved.Bytes = hex.EncodeToString(sum.Sum(nil)), count.bytes
	return saved, nil
}

// chunker hands on what is written to it in pieces of chunkBytes.
type chunker struct {
	keep func([]byte) error
	held []byte
}

func (c *chunker) Write(bytes []byte) (int, error) {
	c.held = append(c.held, bytes...)
	for len(c.held) >= chunkBytes {
		if err := c.keep(c.held[:chunkBytes]); err != nil {
			return 0, err
		}
		c.held = append(c.held[:0], c.held[chunkBytes:]...)
	}
	return len(bytes), nil
}

func (c *chunker) flush() error {
	if len(c.held) == 0 {
		return nil
	}
	return c.keep(c.held)
}

type counter struct{ bytes int64 }

func (c *counter) Write(bytes []byte) (int, error) {
	c.bytes += int64(len(bytes))
	return len(bytes), nil
}

// LostError says that what was kept is gone or damaged.
type LostError struct{ Message string }

func (e *LostError) Error() string { return e.Message }

// Load reads a run's plan and checks that it is what was saved.
func Load(ctx context.Context, c client.Reader, run *spatev1.TrafficRun) ([]byte, error) {
	kept, packed := []byte(nil), false
	for _, ref := range run.Spec.Snapshot.Chunks {
		object := &corev1.ConfigMap{}
		err := c.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: string(ref.ConfigMapName)}, object)
		if apierrors.IsNotFound(err) {
			return nil, &LostError{fmt.Sprintf("ConfigMap %s with the run's plan is gone", ref.ConfigMapName)}
		}
		if err != nil {
			return nil, err
		}
		kept, packed = append(kept, object.BinaryData[ref.Key]...), ref.Key == keyPacked
	}
	plan, err := unpack(kept, packed, run.Spec.Snapshot.Bytes)
	if err != nil {
		return nil, &LostError{"the plan in the run's ConfigMaps cannot be read: " + err.Error()}
	}
	if sum := sha256.Sum256(plan); hex.EncodeToString(sum[:]) != run.Spec.Snapshot.Digest {
		return nil, &LostError{"the plan in the run's ConfigMaps is not what was resolved: its digest differs"}
	}
	return plan, nil
}

// unpack gives a plan of so many bytes, as it was.
func unpack(kept []byte, packed bool, length int64) ([]byte, error) {
	if !packed {
		return kept, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(kept))
	if err != nil {
		return nil, err
	}
	plan := bytes.NewBuffer(make([]byte, 0, length+1)) // and a byte to see the end
	if _, err := io.Copy(plan, io.LimitReader(r, length+1)); err != nil {
		return nil, err
	}
	return plan.Bytes(), nil
}

// Adopt makes a run the owner of its chunks.
func Adopt(ctx context.Context, c client.Client, run *spatev1.TrafficRun) error {
	for _, ref := range run.Spec.Snapshot.Chunks {
		object := &corev1.ConfigMap{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: string(ref.ConfigMapName)}, object); err != nil {
			if apierrors.IsNotFound(err) {
				continue // told by Load
			}
			return err
		}
		if metav1.IsControlledBy(object, run) {
			continue
		}
		object.OwnerReferences = nil
		if err := controllerutil.SetControllerReference(run, object, c.Scheme()); err != nil {
			return err
		}
		if err := c.Update(ctx, object); err != nil {
			return err
		}
	}
	return nil
}
