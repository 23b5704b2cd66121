// SPDX-License-Identifier: Apache-2.0

package snapshot

// This file answers: how is what is larger than an object kept in several?

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

// chunkBytes leaves room for the rest of an object, which is 1 MiB at most.
const chunkBytes = 768 << 10

// LabelRun names the run a chunk belongs to.
const LabelRun = "spate.dev/run"

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;update

// place is where something of a run is kept: in ConfigMaps `<run>-<what>-<number>` of an owner in its namespace.
type place struct {
	client client.Client
	owner  client.Object
	run    string
	what   string
	key    string
}

// kept is what was saved.
type kept struct {
	digest string // SHA-256 of the whole, as hex digits
	bytes  int64
	chunks []spatev1.DataReference
}

// save keeps what is written, compressed: no more of it than a chunk is in memory.
func (p place) save(ctx context.Context, write func(io.Writer) error) (kept, error) {
	var saved kept
	chunks := &chunker{keep: func(chunk []byte) error {
		name := fmt.Sprintf("%s-%s-%d", p.run, p.what, len(saved.chunks))
		saved.chunks = append(saved.chunks, spatev1.DataReference{ConfigMapName: spatev1.ObjectName(name), Key: p.key})
		return p.put(ctx, name, chunk)
	}}
	sum, packed, count := sha256.New(), gzip.NewWriter(chunks), &counter{}
	err := write(io.MultiWriter(sum, count, packed))
	if err == nil {
		err = packed.Close()
	}
	if err == nil {
		err = chunks.flush()
	}
	if err != nil {
		return saved, fmt.Errorf("keep the %s of run %s: %w", p.what, p.run, err)
	}
	saved.digest, saved.bytes = hex.EncodeToString(sum.Sum(nil)), count.bytes
	return saved, nil
}

// put makes one ConfigMap, or replaces that of an attempt that got no further.
func (p place) put(ctx context.Context, name string, chunk []byte) error {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.owner.GetNamespace(), Name: name,
			Labels: map[string]string{podspec.LabelManagedBy: podspec.ManagedBy, LabelRun: p.run},
		},
		BinaryData: map[string][]byte{p.key: chunk},
	}
	if err := controllerutil.SetControllerReference(p.owner, object, p.client.Scheme()); err != nil {
		return err
	}
	err := p.client.Create(ctx, object)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there := &corev1.ConfigMap{}
	if err := p.client.Get(ctx, client.ObjectKeyFromObject(object), there); err != nil {
		return err
	}
	if !metav1.IsControlledBy(there, p.owner) {
		return &takenError{name}
	}
	return p.client.Update(ctx, object)
}

// takenError says that a ConfigMap of that name is somebody else's.
type takenError struct{ name string }

func (e *takenError) Error() string {
	return fmt.Sprintf("a ConfigMap %q that is not the operator's exists already; delete it", e.name)
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

// load reads what was saved and checks that it is the same.
func (k kept) load(ctx context.Context, c client.Reader, namespace, what, packedKey string) ([]byte, error) {
	held, packed := []byte(nil), false
	for _, ref := range k.chunks {
		object := &corev1.ConfigMap{}
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: string(ref.ConfigMapName)}, object)
		if apierrors.IsNotFound(err) {
			return nil, &LostError{fmt.Sprintf("ConfigMap %s with the run's %s is gone", ref.ConfigMapName, what)}
		}
		if err != nil {
			return nil, err
		}
		held, packed = append(held, object.BinaryData[ref.Key]...), ref.Key == packedKey
	}
	whole, err := unpack(held, packed, k.bytes)
	if err != nil {
		return nil, &LostError{fmt.Sprintf("the %s in the run's ConfigMaps cannot be read: %v", what, err)}
	}
	if sum := sha256.Sum256(whole); hex.EncodeToString(sum[:]) != k.digest {
		return nil, &LostError{fmt.Sprintf("the %s in the run's ConfigMaps is not what was saved: its digest differs", what)}
	}
	return whole, nil
}

// unpack gives what has that many bytes as it was.
func unpack(held []byte, packed bool, length int64) ([]byte, error) {
	if !packed {
		return held, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(held))
	if err != nil {
		return nil, err
	}
	whole := bytes.NewBuffer(make([]byte, 0, length+1)) // and a byte to see the end
	if _, err := io.Copy(whole, io.LimitReader(r, length+1)); err != nil {
		return nil, err
	}
	return whole.Bytes(), nil
}
