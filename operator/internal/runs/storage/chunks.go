// SPDX-License-Identifier: Apache-2.0

package storage

// This file answers: how is data that is larger than an object stored in several?

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
)

// chunkBytes leaves room for the rest of an object, which has at most 1 MiB.
const chunkBytes = 768 << 10

// LabelRun names the run of a chunk.
const LabelRun = "spate.dev/run"

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;update

// place is where data of a run is stored: in ConfigMaps `<run>-<what>-<number>` in the namespace of their owner.
type place struct {
	client client.Client
	owner  client.Object
	run    string
	what   string
	key    string
}

// kept is the reference to stored data.
type kept struct {
	digest string // SHA-256 of the uncompressed data, as hex digits
	bytes  int64
	chunks []spatev1.DataReference
}

// compressors are reused: each has buffers of 800 KiB.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// save stores what is written, compressed: at most one chunk is in memory.
func (p place) save(ctx context.Context, write func(io.Writer) error) (kept, error) {
	var saved kept
	chunks := &chunker{keep: func(chunk []byte) error {
		name := fmt.Sprintf("%s-%s-%d", p.run, p.what, len(saved.chunks))
		saved.chunks = append(saved.chunks, spatev1.DataReference{Kind: spatev1.DataConfigMap, Name: spatev1.ObjectName(name), Key: p.key})
		return p.put(ctx, name, chunk)
	}}
	sum, packed, count := sha256.New(), compressors.Get().(*gzip.Writer), &counter{}
	packed.Reset(chunks)
	err := write(io.MultiWriter(sum, count, packed))
	if err == nil {
		err = packed.Close()
	}
	compressors.Put(packed)
	if err == nil {
		err = chunks.flush()
	}
	if err != nil {
		return saved, fmt.Errorf("keep the %s of run %s: %w", p.what, p.run, err)
	}
	saved.digest, saved.bytes = hex.EncodeToString(sum.Sum(nil)), count.bytes
	return saved, nil
}

// put creates a ConfigMap, or replaces the one of an earlier attempt.
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

// takenError reports that a ConfigMap of that name has another owner.
type takenError struct{ name string }

func (e *takenError) Error() string {
	return fmt.Sprintf("ConfigMap %q exists and is not owned by the run; delete it", e.name)
}

// chunker splits what is written to it into pieces of chunkBytes.
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

// open returns a reader of stored data: at most one chunk is in memory. It ends with a LostError if the data is not
// what was saved.
func (k kept) open(ctx context.Context, c client.Reader, namespace, what, packedKey string) io.Reader {
	chunks := &chunkReader{ctx: ctx, client: c, namespace: namespace, what: what, chunks: k.chunks}
	r := &checked{kept: k, what: what, packed: chunks, sum: sha256.New()}
	if len(k.chunks) > 0 && k.chunks[0].Key != packedKey {
		r.whole = chunks
	}
	return r
}

// load reads all stored data.
func (k kept) load(ctx context.Context, c client.Reader, namespace, what, packedKey string) ([]byte, error) {
	whole := bytes.NewBuffer(make([]byte, 0, k.bytes+bytes.MinRead)) // MinRead more avoids growing at the end
	if _, err := whole.ReadFrom(k.open(ctx, c, namespace, what, packedKey)); err != nil {
		return nil, err
	}
	return whole.Bytes(), nil
}

// chunkReader reads the chunks in order.
type chunkReader struct {
	ctx             context.Context //nolint:containedctx // of the reads that an io.Reader makes
	client          client.Reader
	namespace, what string
	chunks          []spatev1.DataReference
	rest            []byte
	failed          error
}

func (r *chunkReader) Read(into []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.failed != nil || len(r.chunks) == 0 {
			return 0, cmp.Or(r.failed, io.EOF)
		}
		object, ref := &corev1.ConfigMap{}, r.chunks[0]
		err := r.client.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: string(ref.Name)}, object)
		if apierrors.IsNotFound(err) {
			err = &LostError{fmt.Sprintf("ConfigMap %s with the run's %s is gone", ref.Name, r.what)}
		}
		r.chunks, r.rest, r.failed = r.chunks[1:], object.BinaryData[ref.Key], err
	}
	n := copy(into, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// checked decompresses, and checks length and digest at the end.
type checked struct {
	kept   kept
	what   string
	packed *chunkReader
	whole  io.Reader
	sum    hash.Hash
	read   int64
}

func (r *checked) Read(into []byte) (int, error) {
	if r.whole == nil {
		unpacked, err := gzip.NewReader(r.packed)
		if err != nil {
			return 0, r.lost(err)
		}
		r.whole = unpacked
	}
	n, err := r.whole.Read(into)
	r.sum.Write(into[:n])
	r.read += int64(n)
	switch {
	case r.read > r.kept.bytes:
		return 0, &LostError{fmt.Sprintf("the %s in the run's ConfigMaps is not what was saved: it is longer", r.what)}
	case err == io.EOF && hex.EncodeToString(r.sum.Sum(nil)) != r.kept.digest:
		return 0, &LostError{fmt.Sprintf("the %s in the run's ConfigMaps is not what was saved: its digest differs", r.what)}
	case err != nil && err != io.EOF:
		return n, r.lost(err)
	}
	return n, err
}

// lost returns the error of reading a chunk as it is, or else a LostError for one of decompressing.
func (r *checked) lost(err error) error {
	if r.packed.failed != nil {
		return r.packed.failed
	}
	return &LostError{fmt.Sprintf("the %s in the run's ConfigMaps cannot be read: %v", r.what, err)}
}
