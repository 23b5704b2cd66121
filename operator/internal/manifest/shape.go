// SPDX-License-Identifier: Apache-2.0

// Does each value have the kind that its field asks for? Told in the words of YAML, with every index on the way.

package manifest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	spatev1 "spate.dev/api/v1alpha1"
)

// misshapen is a value of a kind that does not go where it is.
type misshapen struct{ field, message string }

// shapes looks for values that do not fit a Go type.
type shapes struct{ found []misshapen }

// misshapenIn gives the values of a JSON text that do not fit an object's type.
func misshapenIn(text []byte, object any) []misshapen {
	var value any
	if err := decode(text, &value); err != nil {
		return []misshapen{{"", plain(err)}}
	}
	var s shapes
	s.value(value, reflect.TypeOf(object), "")
	return s.found
}

// decode reads JSON, its numbers as they are written.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

func (s *shapes) add(at, format string, args ...any) {
	s.found = append(s.found, misshapen{at, fmt.Sprintf(format, args...)})
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func (s *shapes) value(value any, t reflect.Type, at string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if value == nil || t.Kind() == reflect.Interface || reflect.PointerTo(t).Implements(unmarshaler) {
		return // absent, or a type that reads itself
	}
	switch t.Kind() {
	case reflect.Struct:
		if fields, ok := value.(map[string]any); ok {
			s.object(fields, t, at)
			return
		}
		s.add(at, "must be an object, not %s: %s", kindOf(value), writeObject(t, at))
	case reflect.Map:
		items, ok := value.(map[string]any)
		if !ok {
			s.add(at, "must be an object, not %s: write a value for each key", kindOf(value))
			return
		}
		for _, key := range slices.Sorted(maps.Keys(items)) {
			s.value(items[key], t.Elem(), at+"["+key+"]")
		}
	case reflect.Slice:
		s.list(value, t, at)
	case reflect.String:
		if _, ok := value.(string); !ok {
			s.add(at, "must be text, not %s: %s", kindOf(value), writeText(t, value))
		}
	case reflect.Bool:
		if _, ok := value.(bool); !ok {
			s.add(at, "must be true or false, not %s", kindOf(value))
		}
	case reflect.Int32, reflect.Int64, reflect.Int:
		s.whole(value, t, at)
	}
}

// object checks the fields that a type has; others are for the strict decoder to tell.
func (s *shapes) object(fields map[string]any, t reflect.Type, at string) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && field.Anonymous {
			s.object(fields, field.Type, at)
			continue
		}
		value, there := fields[name]
		if name == "" || !there {
			continue
		}
		child := strings.TrimPrefix(at+"."+name, ".")
		if value == nil && field.Type.Kind() == reflect.Pointer && field.Type.Elem().Kind() == reflect.Struct {
			switch {
			case field.Type.Elem().NumField() == 0:
				s.add(child, "is empty: write `%s: {}`", name)
			case t == reflect.TypeFor[spatev1.Command]():
				s.add(child, "is empty: %s", writeObject(field.Type.Elem(), child))
			}
			continue
		}
		s.value(value, field.Type, child)
	}
}

func (s *shapes) list(value any, t reflect.Type, at string) {
	if t.Elem().Kind() == reflect.Uint8 {
		text, ok := value.(string)
		if !ok {
			s.add(at, "must be text in base64, not %s", kindOf(value))
		} else if _, err := base64.StdEncoding.DecodeString(text); err != nil {
			s.add(at, "is no base64 (%v): write what `base64` prints, or use another field", strings.TrimPrefix(err.Error(), "illegal base64 data "))
		}
		return
	}
	items, ok := value.([]any)
	if !ok {
		s.add(at, "must be a list, not %s: write each item behind \"- \"", kindOf(value))
		return
	}
	for i, item := range items {
		s.value(item, t.Elem(), fmt.Sprintf("%s[%d]", at, i))
	}
}

func (s *shapes) whole(value any, t reflect.Type, at string) {
	number, ok := value.(json.Number)
	if !ok {
		s.add(at, "must be a whole number, not %s: write digits without quotes and unit, such as 5000", kindOf(value))
		return
	}
	if _, err := strconv.ParseInt(number.String(), 10, t.Bits()); err != nil {
		s.add(at, "must be a whole number of %d bits, not %s", t.Bits(), number)
	}
}

// kindOf says what a value is.
func kindOf(value any) string {
	switch value := value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "text"
	case bool:
		return strconv.FormatBool(value)
	case json.Number:
		return "a number"
	}
	return "nothing"
}

// writeObject says what to write for an object.
func writeObject(t reflect.Type, at string) string {
	name := at[strings.LastIndex(at, ".")+1:]
	if t == reflect.TypeFor[spatev1.Command]() {
		return "write a command such as `close: {}`"
	}
	names := fieldsOf(t)
	if len(names) == 0 {
		return fmt.Sprintf("write `%s: {}`", name)
	}
	return "its fields are " + strings.Join(names, ", ")
}

// fieldsOf are the names of an object's fields.
func fieldsOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		field := t.Field(i)
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		} else if field.Anonymous {
			names = append(names, fieldsOf(field.Type)...)
		}
	}
	return names
}

// examples of text with a unit.
var examples = map[reflect.Type]string{
	reflect.TypeFor[spatev1.Duration](): "500ms", reflect.TypeFor[spatev1.ConnectionRate](): "100cps", reflect.TypeFor[spatev1.Rate](): "1kpps",
	reflect.TypeFor[spatev1.ScaledRate](): "2x", reflect.TypeFor[spatev1.BitRate](): "10Gbps", reflect.TypeFor[spatev1.MixRate](): "100kcps",
}

// writeText says what to write for text.
func writeText(t reflect.Type, value any) string {
	if example, known := examples[t]; known {
		return "write it with its unit, such as " + example
	}
	switch value.(type) {
	case map[string]any, []any:
		return "write one value"
	}
	return "put it in quotes"
}
