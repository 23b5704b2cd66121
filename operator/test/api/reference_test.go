// SPDX-License-Identifier: Apache-2.0

// Does the API reference (docs/api.md) have every field of every type?

package api_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestTheReferenceHasEveryField(t *testing.T) {
	page, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for section := range strings.SplitSeq(string(page), "\n#### ") {
		name, text, _ := strings.Cut(section, "\n")
		sections[name] = text
	}
	seen := map[reflect.Type]bool{}
	fields := 0
	var check func(reflect.Type)
	check = func(kind reflect.Type) {
		switch kind.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			check(kind.Elem())
			return
		case reflect.Map:
			check(kind.Key())
			check(kind.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if seen[kind] || kind.PkgPath() != reflect.TypeFor[spatev1.TrafficRun]().PkgPath() {
			return
		}
		seen[kind] = true
		for field := range fieldsOf(kind) {
			fields++
			if !strings.Contains(sections[kind.Name()], "| `"+field.tag+"` ") {
				t.Errorf("docs/api.md: %s has no field %s; run `make generate`", kind.Name(), field.tag)
			}
			check(field.kind)
		}
	}
	for _, object := range []any{
		spatev1.ASTFTemplate{}, spatev1.StatelessStream{}, spatev1.TrafficCapture{}, spatev1.TrafficGenerator{}, spatev1.TrafficPing{}, spatev1.TrafficProfile{},
		spatev1.TrafficRecordsReader{}, spatev1.TrafficRun{}, spatev1.TrafficStatsReader{},
	} {
		check(reflect.TypeOf(object))
	}
	if fields < 500 {
		t.Errorf("only %d fields were compared", fields)
	}
}

type jsonField struct {
	tag  string
	kind reflect.Type
}

// fieldsOf a type as JSON has them: those of embedded types are its own, but TypeMeta, which the page omits.
func fieldsOf(kind reflect.Type) func(func(jsonField) bool) {
	return func(yield func(jsonField) bool) {
		for field := range kind.Fields() {
			tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case field.Name == "TypeMeta" || tag == "-":
			case tag == "":
				for inner := range fieldsOf(field.Type) {
					if !yield(inner) {
						return
					}
				}
			default:
				if !yield(jsonField{tag, field.Type}) {
					return
				}
			}
		}
	}
}
