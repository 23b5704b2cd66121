// SPDX-License-Identifier: Apache-2.0

// Package content writes bytes that templates send the way people read them best: as text, as base64, or, when they are long, into
// a ConfigMap.
package content

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/operator/api/v1alpha1"
)

const (
	// MostInline is how many bytes are written into a template.
	MostInline = 16 * 1024
	// MostInMap is how many bytes a ConfigMap has room for: 1 MiB with all around them.
	MostInMap = 1_000_000
	// Key of the bytes in their ConfigMap.
	Key = "payload"
)

// Of gives bytes as a template's content, and the ConfigMap of this name that holds them if they are long.
func Of(bytes []byte, name string) (spatev1.Content, *corev1.ConfigMap, error) {
	switch {
	case len(bytes) > MostInMap:
		return spatev1.Content{}, nil, fmt.Errorf("has %d bytes; at most %d have room in a ConfigMap", len(bytes), MostInMap)
	case len(bytes) > MostInline:
		return spatev1.Content{From: &spatev1.DataReference{ConfigMapName: spatev1.ObjectName(name), Key: Key}}, &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			BinaryData: map[string][]byte{Key: bytes},
		}, nil
	case readable(bytes):
		return spatev1.Content{Text: string(bytes)}, nil, nil
	}
	return spatev1.Content{Base64: bytes}, nil, nil
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
