// SPDX-License-Identifier: Apache-2.0

// Package content writes bytes that templates send the way people read them best: as text, as base64, or, where they are long or
// many, into ConfigMaps.
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
	// MostInline is how many bytes are written into a template in one piece, and MostTogether in all: what etcd keeps has at
	// most 1.5 MiB, and what `kubectl apply` notes 256 KiB.
	MostInline   = 16 * 1024
	MostTogether = 64 * 1024
	// MostInMap is how many bytes a ConfigMap has room for: 1 MiB with all around them.
	MostInMap = 1_000_000
	// mostShared is how many bytes a ConfigMap has if they are several pieces: `kubectl apply` notes them in base64.
	mostShared = 180_000
	// reference is about how long one into a ConfigMap is: what is shorter is written into the template.
	reference = 64
)

// Writer writes what templates send. What it writes into ConfigMaps is there once.
type Writer struct {
	// Name begins those of the ConfigMaps.
	Name string
	// ConfigMaps hold what is too long for the templates.
	ConfigMaps []*corev1.ConfigMap
	stored     map[string]*spatev1.DataSource
	// inline bytes of the template, and shared ones of the last ConfigMap.
	inline, shared int
}

// Next begins another template.
func (w *Writer) Next() { w.inline = 0 }

// Write gives bytes as a content of the template.
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

// store puts bytes into a ConfigMap, the last if it has room.
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

// readable tells whether bytes are text that people can read.
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
