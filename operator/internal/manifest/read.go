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
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
)

// Reader reads files into one set.
type Reader struct {
	// Namespace of objects that name none; DefaultNamespace when empty.
	Namespace string

	set      Set
	problems []Problem
	// seen are the objects there are, by kind, namespace and name.
	seen map[string]Origin
	// looked counts documents that are not empty.
	looked int
}

// Done gives what was read, and all that is wrong with it.
func (r *Reader) Done() (*Set, []Problem) { return &r.set, r.problems }

// Read reads a file: documents of YAML with `---` between them, or JSON values one after the other. Documents that are
// wrong are told and left out.
func (r *Reader) Read(file string, data []byte) {
	at := Origin{File: file}
	before, told := r.looked, len(r.problems)
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
			r.add(at, "", "", "%s", plain(err))
			continue
		}
		r.document(at, value)
	}
	if r.looked == before && len(r.problems) == told {
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

// plain is a decoder's message without the decoder's name.
func plain(err error) string {
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "json: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
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
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct {
			Name         string `json:"name"`
			GenerateName string `json:"generateName"`
			Namespace    string `json:"namespace"`
		} `json:"metadata"`
	}
	if trimmed := bytes.TrimSpace(value); len(trimmed) > 0 && trimmed[0] != '{' {
		var other any
		if err := decode(trimmed, &other); err == nil {
			r.add(at, "", "", "is no object of Kubernetes, but %s", kindOf(other))
			return
		}
	}
	if wrong := misshapenIn(value, &head); len(wrong) > 0 {
		for _, one := range wrong {
			r.add(at, "", one.field, "%s", one.message)
		}
		return
	}
	if err := json.Unmarshal(value, &head); err != nil {
		r.add(at, "", "", "%s", plain(err))
		return
	}
	if head.Kind == "" || head.APIVersion == "" {
		r.add(at, "", "", "is no object of Kubernetes: apiVersion and kind are needed")
		return
	}
	group := head.GroupVersionKind()
	name := strings.TrimSpace(head.Kind + " " + cmp.Or(head.Metadata.Name, head.Metadata.GenerateName))
	read, known := kinds[group]
	if !known {
		if group.Group == spatev1.GroupVersion.Group {
			r.add(at, name, "", "apiVersion %s has no kind %s that can be planned", head.APIVersion, head.Kind)
			return
		}
		if head.APIVersion == "v1" && head.Kind == "List" {
			r.add(at, name, "", "is in a list; write its objects into one list")
			return
		}
		r.set.Others = append(r.set.Others, Object[string]{at, name})
		return
	}
	generated := head.Metadata.GenerateName != "" && head.Kind == "TrafficRun" // others are referred to by their names
	if head.Metadata.Name == "" && !generated {
		r.add(at, head.Kind, "metadata.name", "is needed")
		return
	}
	if head.Metadata.Namespace == "" {
		head.Metadata.Namespace = r.namespace()
	}
	key := strings.Join([]string{group.GroupKind().String(), head.Metadata.Namespace, head.Metadata.Name}, "/")
	if first, twice := r.seen[key]; twice && head.Metadata.Name != "" {
		r.add(at, name, "", "is already in %s", first)
		return
	}
	if r.seen == nil {
		r.seen = map[string]Origin{}
	}
	r.seen[key] = at
	before := len(r.problems)
	if read(r, at, name, value); len(r.problems) > before {
		r.set.unread = append(r.set.unread, unread{head.Kind, head.Metadata.Namespace, head.Metadata.Name})
	}
}

func (r *Reader) namespace() string {
	if r.Namespace == "" {
		return DefaultNamespace
	}
	return r.Namespace
}

// kinds are those that are read.
var kinds = map[schema.GroupVersionKind]func(*Reader, Origin, string, []byte){
	spatev1.GroupVersion.WithKind("TrafficProfile"): func(r *Reader, at Origin, name string, value []byte) {
		keep(r, &r.set.Profiles, at, name, value, &spatev1.TrafficProfile{})
	},
	spatev1.GroupVersion.WithKind("TrafficRun"): func(r *Reader, at Origin, name string, value []byte) {
		keep(r, &r.set.Runs, at, name, value, &spatev1.TrafficRun{})
	},
	spatev1.GroupVersion.WithKind("TrafficGenerator"): func(r *Reader, at Origin, name string, value []byte) {
		keep(r, &r.set.Generators, at, name, value, &spatev1.TrafficGenerator{})
	},
	spatev1.GroupVersion.WithKind("StatelessStream"): func(r *Reader, at Origin, name string, value []byte) {
		keep(r, &r.set.Streams, at, name, value, &spatev1.StatelessStream{})
	},
	spatev1.GroupVersion.WithKind("ASTFTemplate"): func(r *Reader, at Origin, name string, value []byte) {
		keep(r, &r.set.Templates, at, name, value, &spatev1.ASTFTemplate{})
	},
	corev1.SchemeGroupVersion.WithKind("ConfigMap"): func(r *Reader, at Origin, name string, value []byte) {
		keep(r, &r.set.ConfigMaps, at, name, value, &corev1.ConfigMap{})
	},
	corev1.SchemeGroupVersion.WithKind("Secret"): func(r *Reader, at Origin, name string, value []byte) {
		keep(r, &r.set.Secrets, at, name, value, &corev1.Secret{})
	},
}

// namespaced is any object of these.
type namespaced interface {
	GetNamespace() string
	SetNamespace(string)
}

// keep decodes an object, and keeps it if every field is known and of its type.
func keep[T namespaced](r *Reader, in *[]Object[T], at Origin, name string, value []byte, object T) {
	if wrong := misshapenIn(value, object); len(wrong) > 0 {
		for _, one := range wrong {
			r.add(at, name, one.field, "%s", one.message)
		}
		return
	}
	unknown, err := kjson.UnmarshalStrict(value, object)
	if err != nil {
		r.add(at, name, "", "%s", plain(err))
		return
	}
	for _, problem := range unknown {
		field, message := fieldOf(problem)
		r.add(at, name, field, "%s", message)
	}
	if len(unknown) > 0 {
		return
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(r.namespace())
	}
	*in = append(*in, Object[T]{at, object})
}

// fieldOf takes apart what a strict decoder says, such as `unknown field "spec.foo"`.
func fieldOf(err error) (field, message string) {
	var located kjson.FieldError
	if errors.As(err, &located) {
		field = located.FieldPath()
		message = strings.TrimSuffix(err.Error(), fmt.Sprintf(" %q", field))
		return field, message
	}
	return "", plain(err)
}
