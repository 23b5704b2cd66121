// SPDX-License-Identifier: Apache-2.0

// Package manifest reads Spate's objects, and what they refer to, from files of YAML or JSON as they are given to kubectl. Spate's are
// validated, and have their defaults filled in, as by an API server that has the CustomResourceDefinitions.
package manifest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

// Origin is where an object was read.
type Origin struct {
	File string
	// Document of the file, from 1.
	Document int
}

func (o Origin) String() string { return fmt.Sprintf("%s, document %d", o.File, o.Document) }

// Object was read from a file.
type Object[T any] struct {
	Origin
	Value T
}

// Problem is one thing that is wrong in a file.
type Problem struct {
	Origin
	// Object is its kind and name, such as `TrafficProfile smoke`; empty where that is not known.
	Object string
	// Field is its path; empty where it is the whole.
	Field string
	// Message says what is wrong, for Spate's own objects in the words of the API server.
	Message string
	// Remedy says what would be right where Message does not; empty otherwise.
	Remedy string
}

func (p Problem) Error() string {
	parts := []string{p.String(), p.Object, p.Field, p.Message}
	text := strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
	if p.Remedy != "" {
		text += "; " + p.Remedy
	}
	return text
}

// Set is all objects of some files, each kind in the order they were read.
type Set struct {
	Profiles   []Object[*spatev1.TrafficProfile]
	Runs       []Object[*spatev1.TrafficRun]
	Generators []Object[*spatev1.TrafficGenerator]
	Streams    []Object[*spatev1.StatelessStream]
	Templates  []Object[*spatev1.ASTFTemplate]
	// ClientGroups are groups of emulated clients.
	ClientGroups []Object[*spatev1.ClientGroup]
	Searches     []Object[*spatev1.TrafficSearch]
	ConfigMaps   []Object[*corev1.ConfigMap]
	Secrets      []Object[*corev1.Secret]
	// Validated are Spate's objects of kinds that no plan is made of, by kind and name.
	Validated []Object[string]
	// Others are objects of other APIs, which are ignored, by kind and name.
	Others []Object[string]

	unread []unread
}

// unread is an object that is there, and could not be read.
type unread struct{ kind, namespace, name string }

// Unread reports whether an object is in the files, and was omitted because of a problem.
func (s *Set) Unread(kind, namespace, name string) bool {
	return slices.Contains(s.unread, unread{kind, namespace, name})
}

// AnyUnread reports whether an object of a kind is in the files, and was omitted because of a problem.
func (s *Set) AnyUnread(kind, namespace string) bool {
	return slices.ContainsFunc(s.unread, func(u unread) bool { return u.kind == kind && u.namespace == namespace })
}

// DefaultNamespace is that of objects that name none.
const DefaultNamespace = "default"
