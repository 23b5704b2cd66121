// SPDX-License-Identifier: Apache-2.0

// What would be right where a file is no YAML, or has a kind that does not exist?

package manifest

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	spatev1 "spate.dev/api/v1alpha1"
)

// remedies are those of what the decoder of YAML reports, by a part of its text.
var remedies = []struct{ reported, remedy string }{
	{"found a tab character", "indent with spaces"},
	{"found character that cannot start any token", "quote text that begins with %, @ or `"},
	{"mapping values are not allowed", "keys of one mapping begin in one column, and text with a colon and a space is quoted"},
	{"did not find expected key", "keys of one mapping begin in one column, and brackets, braces and quotes are closed"},
	{"did not find expected '-' indicator", "items of one list begin in one column"},
	{"already set in map", "leave one of them out"},
}

// remedyOf says what would be right where a document is no YAML; empty where that is not known.
func remedyOf(err error) string {
	for _, known := range remedies {
		if strings.Contains(err.Error(), known.reported) {
			return known.remedy
		}
	}
	return ""
}

// kindNames are the kinds that objects in files can be of.
func kindNames() (names []string) {
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		panic(err) // the scheme is empty: nothing can be there twice
	}
	known := scheme.KnownTypes(spatev1.GroupVersion)
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if _, listed := known[name+"List"]; listed {
			names = append(names, name)
		}
	}
	return names
}
