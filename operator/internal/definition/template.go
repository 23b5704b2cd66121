// SPDX-License-Identifier: Apache-2.0

// What would an API server say of a template that is described inline, if it were an ASTFTemplate? Profiles and runs have no rules for the
// programs of such templates, only types: their rules would exceed the server's budget (build/operator.mk).

package definition

import (
	"crypto/sha256"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/lru"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	// maxValidated is the number of templates whose faults are cached: a profile is resolved more often than it changes.
	maxValidated = 4096
	// maxFaultBytes is the size up to which the faults of a template are cached; a template with more is validated each time.
	maxFaultBytes = 1 << 10
)

// validated has the faults of templates by the digest of their specs.
var validated = lru.New(maxValidated)

// Template gives what an API server would refuse of an ASTFTemplate with this spec, in its words. Fields begin with `spec`.
func Template(spec *spatev1.ASTFTemplateSpec) []Fault {
	text, err := json.Marshal(spec)
	if err != nil {
		return []Fault{{Field: "spec", Message: err.Error()}}
	}
	key := sha256.Sum256(text)
	if known, found := validated.Get(key); found {
		return known.([]Fault)
	}
	faults, bytes := template(text), 0
	for _, f := range faults {
		bytes += len(f.Field) + len(f.Message)
	}
	if bytes <= maxFaultBytes {
		validated.Add(key, faults)
	}
	return faults
}

// template validates the encoded spec of a template.
func template(encoded []byte) []Fault {
	kind := spatev1.GroupVersion.WithKind("ASTFTemplate")
	schema, err := Of(kind)
	if err != nil {
		return []Fault{{Field: "spec", Message: err.Error()}}
	}
	var spec map[string]any
	if err := utiljson.Unmarshal(encoded, &spec); err != nil { // with integers as the server has them
		return []Fault{{Field: "spec", Message: err.Error()}}
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(kind)
	object.SetName("inline")
	object.SetNamespace("default")
	return schema.Create(object.Object, nil)
}
