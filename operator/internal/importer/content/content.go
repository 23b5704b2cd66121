// SPDX-License-Identifier: Apache-2.0

// Package content writes the bytes that templates send in the most readable form: as text, as base64, or, where they
// are long or many, in ConfigMaps.
package content

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	// MostInline is the maximum number of bytes of one content in a template, and MostTogether that of all contents: an
	// object in etcd has at most 1.5 MiB, and the annotation of `kubectl apply` 256 KiB.
	MostInline   = 16 * 1024
	MostTogether = 64 * 1024
	// MostInMap is the maximum number of bytes in a ConfigMap: 1 MiB with its metadata.
	MostInMap = 1_000_000
	// mostShared is the maximum number of bytes in a ConfigMap with several contents: the annotation of `kubectl apply`
	// has them in base64.
	mostShared = 180_000
	// reference is the approximate length of a reference to a ConfigMap: shorter contents are written into the
	// template.
	reference = 64
)

// Writer writes contents. Each distinct content is stored in ConfigMaps once.
type Writer struct {
	// Name is the prefix of the ConfigMaps' names.
	Name string
	// ConfigMaps have the contents that are too long for the templates.
	ConfigMaps []*corev1.ConfigMap
	stored     map[string]*spatev1.DataSource
	// inline counts bytes in the template, shared those in the last ConfigMap.
	inline, shared int
}

// Next starts another template.
func (w *Writer) Next() { w.inline = 0 }

// Write returns bytes as a content of the template.
func (w *Writer) Write(bytes []byte) (spatev1.Content, error) {
	switch {
	case len(bytes) > MostInMap:
		return spatev1.Content{}, fmt.Errorf("has %d bytes; at most %d have room in a ConfigMap", len(bytes), MostInMap)
	case len(bytes) > MostInline || len(bytes) > reference && w.inline+len(bytes) > MostTogether:
		return spatev1.Content{From: w.store(bytes)}, nil
	}
	w.inline += len(bytes)
	if readable(bytes) {
		return spatev1.Content{Text: string(bytes)}, nil
	}
	return spatev1.Content{Base64: bytes}, nil
}

// store puts bytes into a ConfigMap: the last one if it has room.
func (w *Writer) store(bytes []byte) *spatev1.DataSource {
	if known, found := w.stored[string(bytes)]; found {
		return known
	}
	if w.shared += len(bytes); len(w.ConfigMaps) == 0 || w.shared > mostShared {
		w.shared = len(bytes)
		w.ConfigMaps = append(w.ConfigMaps, &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: w.Name + "-payloads-" + strconv.Itoa(len(w.ConfigMaps)+1)},
			BinaryData: map[string][]byte{},
		})
	}
	last := w.ConfigMaps[len(w.ConfigMaps)-1]
	key := "payload-" + strconv.Itoa(len(w.stored)+1)
	source := &spatev1.DataSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: last.Name}, Key: key,
	}}
	if w.stored == nil {
		w.stored = map[string]*spatev1.DataSource{}
	}
	last.BinaryData[key], w.stored[string(bytes)] = bytes, source
	return source
}

// readable reports whether bytes are printable text.
func readable(bytes []byte) bool {
	if !utf8.Valid(bytes) {
		return false
	}
	for _, r := range string(bytes) {
		if !unicode.IsPrint(r) && r != '\r' && r != '\n' && r != '\t' {
			return false
		}
	}
	return true
}
