// SPDX-License-Identifier: Apache-2.0

// How do the bytes of a file become objects, so that nothing in it goes unnoticed?

package manifest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/definition"
)

// Reader reads files into one set.
type Reader struct {
	// Namespace of objects that name none; DefaultNamespace when empty.
	Namespace string
	// Written is called for each object as it is written, without defaults, in the order of the files. Absent: nothing is called.
	Written func(*unstructured.Unstructured)

	set      Set
	problems []Problem
	// seen are the objects there are, by kind, namespace and name.
	seen map[string]Origin
	// looked counts documents that are not empty.
	looked int
}

// Done gives the objects that were read, and the problems of those that were omitted.
func (r *Reader) Done() (*Set, []Problem) { return &r.set, r.problems }

// Read reads a file: documents of YAML with `---` between them, or JSON values one after the other. Objects with a problem are omitted.
func (r *Reader) Read(file string, data []byte) {
	at := Origin{File: file}
	before, problems := r.looked, len(r.problems)
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		if values, ok := jsonValues(trimmed); ok {
			for _, value := range values {
				at.Document++
				r.document(at, value)
			}
			return
		}
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		at.Document++
		if err != nil {
			r.add(at, "", "", "%v", err)
			break
		}
		value, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			r.problems = append(r.problems, Problem{Origin: at, Message: plain(err), Remedy: remedyOf(err)})
			continue
		}
		r.document(at, value)
	}
	if r.looked == before && len(r.problems) == problems {
		at.Document = max(at.Document, 1)
		r.add(at, "", "", "holds no object")
	}
}

// jsonValues splits JSON values that stand one after the other; YAML in braces is none.
func jsonValues(data []byte) (values []json.RawMessage, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return values, true
		}
		if err != nil {
			return nil, false
		}
		values = append(values, value)
	}
}

func (r *Reader) add(at Origin, object, field, format string, args ...any) {
	r.problems = append(r.problems, Problem{Origin: at, Object: object, Field: field, Message: fmt.Sprintf(format, args...)})
}

// plain is a decoder's message in one line, without the decoder's name.
func plain(err error) string {
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "json: ", "unmarshal errors:\n  "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return strings.ReplaceAll(text, "\n  ", "; ")
}

// document reads one object, or the objects of a list.
func (r *Reader) document(at Origin, value []byte) {
	if text := bytes.TrimSpace(value); len(text) == 0 || string(text) == "null" {
		return // nothing but comments
	}
	r.looked++
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(value, &list) != nil || list.APIVersion != "v1" || list.Kind != "List" {
		r.object(at, value)
		return
	}
	for _, item := range list.Items {
		r.object(at, item)
	}
}

// object reads one.
func (r *Reader) object(at Origin, value []byte) {
	object, twice, err := fieldsOf(value)
	if err != nil {
		r.add(at, "", "", "%s", plain(err))
		return
	}
	kind := object.GroupVersionKind()
	if kind.Kind == "" || object.GetAPIVersion() == "" {
		r.add(at, "", "", "is no object of Kubernetes: apiVersion and kind are needed")
		return
	}
	name := strings.TrimSpace(kind.Kind + " " + cmp.Or(object.GetName(), object.GetGenerateName()))
	if r.Written != nil {
		r.Written(object.DeepCopy())
	}
	switch {
	case kind == corev1.SchemeGroupVersion.WithKind("List"):
		r.add(at, name, "", "is in a list; write its objects into one list")
		return
	case kinds[kind] == nil && kind.Group != spatev1.GroupVersion.Group:
		r.set.Others = append(r.set.Others, Object[string]{at, name})
		return
	case object.GetName() == "" && object.GetGenerateName() != "" && kind.Kind != "TrafficRun":
		r.add(at, name, "metadata.name", "is needed: other objects refer to it by its name")
		return
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(cmp.Or(r.Namespace, DefaultNamespace))
	}
	if r.again(at, name, object) {
		return
	}
	faults := validate(kind, object, twice)
	if keep := kinds[kind]; len(faults) == 0 && keep != nil {
		faults = keep(&r.set, at, object)
	} else if len(faults) == 0 {
		r.set.Validated = append(r.set.Validated, Object[string]{at, name})
	}
	for _, f := range faults {
		r.problems = append(r.problems, Problem{Origin: at, Object: name, Field: f.Field, Message: f.Message, Remedy: f.Remedy})
	}
	if len(faults) > 0 {
		r.set.unread = append(r.set.unread, unread{kind.Kind, object.GetNamespace(), object.GetName()})
	}
}

// fieldsOf decodes an object without regard to its kind, and returns which fields it has twice.
func fieldsOf(value []byte) (object *unstructured.Unstructured, twice []definition.Fault, err error) {
	object = &unstructured.Unstructured{}
	found, err := kjson.UnmarshalStrict(value, &object.Object)
	var other any
	if err != nil && json.Unmarshal(value, &other) == nil {
		err = fmt.Errorf("is no object of Kubernetes, but %s", kindOf(other))
	}
	if object.Object["metadata"] == nil {
		delete(object.Object, "metadata")
	}
	return object, ofStrict(found), err
}

// validate gives the faults of an object, and fills in the defaults of one of Spate.
func validate(kind schema.GroupVersionKind, object *unstructured.Unstructured, twice []definition.Fault) []definition.Fault {
	if kind.Group != spatev1.GroupVersion.Group {
		return twice
	}
	schemaOf, err := definition.Of(kind)
	switch {
	case err != nil:
		return []definition.Fault{{Message: err.Error()}}
	case schemaOf == nil:
		none := &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
		return []definition.Fault{{Message: none.Error(), Remedy: "the kinds of " + spatev1.GroupVersion.String() + " are " + strings.Join(kindNames(), ", ")}}
	}
	return schemaOf.Create(object.Object, twice)
}

// kindOf says what a value is that is no object.
func kindOf(value any) string {
	switch value := value.(type) {
	case []any:
		return "a list"
	case string:
		return "text"
	case bool:
		return strconv.FormatBool(value)
	case float64:
		return "a number"
	}
	return "nothing"
}

// ofStrict takes apart what a strict decoder says, such as `unknown field "spec.foo"`.
func ofStrict(errs []error) []definition.Fault {
	var faults []definition.Fault
	for _, err := range errs {
		var located kjson.FieldError
		if !errors.As(err, &located) {
			faults = append(faults, definition.Fault{Message: plain(err)})
			continue
		}
		path := located.FieldPath()
		faults = append(faults, definition.Fault{Field: path, Message: strings.TrimSuffix(err.Error(), fmt.Sprintf(" %q", path))})
	}
	return faults
}

// again reports an object that was read before.
func (r *Reader) again(at Origin, name string, object *unstructured.Unstructured) bool {
	key := strings.Join([]string{object.GroupVersionKind().GroupKind().String(), object.GetNamespace(), object.GetName()}, "/")
	first, twice := r.seen[key]
	if twice = twice && object.GetName() != ""; twice {
		r.add(at, name, "", "is already in %s", first)
		return true
	}
	if r.seen == nil {
		r.seen = map[string]Origin{}
	}
	r.seen[key] = at
	return false
}

// kinds are those that plans are made of, and searches, with the lists that they are kept in.
var kinds = map[schema.GroupVersionKind]func(*Set, Origin, *unstructured.Unstructured) []definition.Fault{
	spatev1.GroupVersion.WithKind("TrafficProfile"):   into(func(s *Set) *[]Object[*spatev1.TrafficProfile] { return &s.Profiles }),
	spatev1.GroupVersion.WithKind("TrafficRun"):       into(func(s *Set) *[]Object[*spatev1.TrafficRun] { return &s.Runs }),
	spatev1.GroupVersion.WithKind("TrafficGenerator"): into(func(s *Set) *[]Object[*spatev1.TrafficGenerator] { return &s.Generators }),
	spatev1.GroupVersion.WithKind("StatelessStream"):  into(func(s *Set) *[]Object[*spatev1.StatelessStream] { return &s.Streams }),
	spatev1.GroupVersion.WithKind("ASTFTemplate"):     into(func(s *Set) *[]Object[*spatev1.ASTFTemplate] { return &s.Templates }),
	spatev1.GroupVersion.WithKind("ClientGroup"):      into(func(s *Set) *[]Object[*spatev1.ClientGroup] { return &s.ClientGroups }),
	spatev1.GroupVersion.WithKind("TrafficSearch"):    into(func(s *Set) *[]Object[*spatev1.TrafficSearch] { return &s.Searches }),
	corev1.SchemeGroupVersion.WithKind("ConfigMap"):   into(func(s *Set) *[]Object[*corev1.ConfigMap] { return &s.ConfigMaps }),
	corev1.SchemeGroupVersion.WithKind("Secret"):      into(func(s *Set) *[]Object[*corev1.Secret] { return &s.Secrets }),
}

// into keeps an object in a list if every field is known and of its type.
func into[T any](list func(*Set) *[]Object[*T]) func(*Set, Origin, *unstructured.Unstructured) []definition.Fault {
	return func(s *Set, at Origin, object *unstructured.Unstructured) []definition.Fault {
		value := new(T)
		text, err := json.Marshal(object.Object)
		if err != nil {
			return []definition.Fault{{Message: err.Error()}}
		}
		unknown, err := kjson.UnmarshalStrict(text, value)
		if err != nil {
			return []definition.Fault{{Message: plain(err)}}
		}
		if len(unknown) == 0 {
			*list(s) = append(*list(s), Object[*T]{at, value})
		}
		return ofStrict(unknown)
	}
}
