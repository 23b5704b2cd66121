// SPDX-License-Identifier: Apache-2.0

// What can be wrong with an object, at any place?

package refused

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Damages are copies of an object, each with one value replaced, removed or added, at every place of its metadata and its spec.
func Damages(object map[string]any) (all []map[string]any) {
	others := []any{nil, "x", "", int64(7), int64(-1), int64(1) << 40, 1.5, []any{"x", "x"}, map[string]any{}}
	var walk func(value any, put func(any))
	walk = func(value any, put func(any)) {
		for _, other := range others {
			put(other)
			all = append(all, runtime.DeepCopyJSON(object))
		}
		put(value)
		switch value := value.(type) {
		case map[string]any:
			value["unheardOf"] = "x"
			all = append(all, runtime.DeepCopyJSON(object))
			delete(value, "unheardOf")
			for _, name := range slices.Sorted(maps.Keys(value)) {
				field := value[name]
				delete(value, name)
				all = append(all, runtime.DeepCopyJSON(object))
				walk(field, func(other any) { value[name] = other })
			}
		case []any:
			put(append(slices.Clone(value), value...)) // each item twice
			all = append(all, runtime.DeepCopyJSON(object))
			put(value)
			for i, item := range value {
				walk(item, func(other any) { value[i] = other })
			}
		}
	}
	object = runtime.DeepCopyJSON(object)
	unstructured.RemoveNestedField(object, "metadata", "namespace") // which says where to send it
	for _, part := range []string{"metadata", "spec"} {
		walk(object[part], func(other any) { object[part] = other })
	}
	return all
}
