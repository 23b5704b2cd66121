// SPDX-License-Identifier: Apache-2.0

// Package definition answers: what does an API server say of an object of Spate, and what does it fill in? The CustomResourceDefinitions say
// it, and Kubernetes' own code evaluates them: no rule is written here.
package definition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/meta"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"spate.dev/crds"
)

// Definition validates objects of one kind, and fills in defaults.
type Definition struct {
	fields *structural.Structural
	values validation.SchemaValidator
	rules  *cel.Validator
	// scale says where the number of replicas is; nil where the kind has none.
	scale *apiextensionsv1.CustomResourceSubresourceScale
	// status is true where it is a subresource, with which no object is created.
	status bool
}

// Fault is one thing that is wrong with an object.
type Fault struct {
	// Field is its path; empty where it is the whole.
	Field string
	// Message in the words of an API server.
	Message string
	// Remedy says what would be right where Message does not; empty otherwise.
	Remedy string
}

// definitions of the kinds that were asked for: a function each that reads and compiles one once.
var definitions sync.Map

// Of returns the definition of a kind; nil where there is none.
func Of(kind schema.GroupVersionKind) (*Definition, error) {
	read, _ := definitions.LoadOrStore(kind, sync.OnceValues(func() (*Definition, error) { return readDefinition(kind) }))
	return read.(func() (*Definition, error))()
}

// Resource returns the resource of a kind.
func Resource(kind schema.GroupVersionKind) schema.GroupVersionResource {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	if root, ends := strings.CutSuffix(resource.Resource, "chs"); ends { // the guess knows no other plural of it
		resource.Resource = root + "ches"
	}
	return resource
}

func readDefinition(kind schema.GroupVersionKind) (*Definition, error) {
	text, err := crds.Files.ReadFile(kind.Group + "_" + Resource(kind).Resource + ".yaml")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return nil, err
	}
	version := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == kind.Version && v.Served
	})
	if version < 0 || crd.Spec.Names.Kind != kind.Kind {
		return nil, nil
	}
	return compile(&crd.Spec.Versions[version])
}

// compile prepares all that a version of a kind is validated by.
func compile(version *apiextensionsv1.CustomResourceDefinitionVersion) (*Definition, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &internal, nil); err != nil {
		return nil, err
	}
	fields, err := structural.NewStructural(&internal)
	if err != nil {
		return nil, err
	}
	if err := defaulting.PruneDefaults(fields); err != nil {
		return nil, err
	}
	values, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, err
	}
	d := &Definition{fields: fields, values: values, rules: cel.NewValidator(fields, true, celconfig.PerCallLimit)}
	if sub := version.Subresources; sub != nil {
		d.status, d.scale = sub.Status != nil, sub.Scale
	}
	return d, nil
}

// Create does with an object what an API server does when it is created with strict validation: it gives what is wrong, in the server's
// words, and fills in the defaults. Fields that are in the text twice were found before.
func (d *Definition) Create(object map[string]any, twice []Fault) []Fault {
	if faults := slices.Concat(twice, d.decode(object)); len(faults) > 0 {
		return d.remedied(faults)
	}
	if d.status {
		delete(object, "status")
	}
	return d.remedied(faultsOf(d.validate(&unstructured.Unstructured{Object: object})))
}

// decode removes what the kind has no fields for, all of which are faults, and fills in the defaults.
func (d *Definition) decode(object map[string]any) []Fault {
	metadata, found, unknown, err := objectmeta.GetObjectMetaWithOptions(object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return []Fault{ofMetadata(err)}
	}
	unknown = append(unknown, pruning.PruneWithOptions(object, d.fields, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	if len(unknown) > 0 {
		faults := make([]Fault, len(unknown))
		for i, path := range unknown {
			faults[i] = Fault{Field: path, Message: unknownField}
		}
		return faults
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, d.fields)
	if found {
		if err := objectmeta.SetObjectMeta(object, metadata); err != nil {
			return []Fault{ofMetadata(err)}
		}
	}
	defaulting.Default(object, d.fields)
	return nil
}

// ofMetadata is what a decoder says of an object's metadata.
func ofMetadata(err error) Fault {
	return Fault{Field: "metadata", Message: strings.TrimPrefix(err.Error(), "json: ")}
}

// validate asks all that the strategy of custom resources asks, in its order (registry/customresource/strategy.go, which cannot be had
// without a server's storage).
func (d *Definition) validate(object *unstructured.Unstructured) field.ErrorList {
	if object.GetName() == "" && object.GetGenerateName() != "" { // validated with the name that it could have
		generated := object.DeepCopy()
		generated.SetName(generatedName(object.GetGenerateName()))
		object = generated
	}
	errs := metavalidation.ValidateObjectMetaAccessor(object, true, metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateCustomResource(nil, object.Object, d.values)...)
	errs = append(errs, d.validateScale(object)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.fields, object.Object)...)
	if slices.ContainsFunc(errs, hidesRules) {
		return append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
	}
	ofRules, _ := d.rules.Validate(context.Background(), nil, d.fields, object.Object, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, ofRules...)
}

// hidesRules reports whether an error keeps the rules from being evaluated.
func hidesRules(err *field.Error) bool {
	return slices.Contains([]field.ErrorType{
		field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
	}, err.Type)
}

// validateScale asks whether replicas are a number that `kubectl scale` can set.
func (d *Definition) validateScale(object *unstructured.Unstructured) field.ErrorList {
	if d.scale == nil {
		return nil
	}
	path := strings.Split(strings.TrimPrefix(d.scale.SpecReplicasPath, "."), ".")
	at := field.NewPath(path[0], path[1:]...)
	replicas, _, err := unstructured.NestedInt64(object.Object, path...)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(at, replicas, err.Error())}
	case replicas < 0:
		return field.ErrorList{field.Invalid(at, replicas, "should be a non-negative integer")}
	case replicas > math.MaxInt32:
		return field.ErrorList{field.Invalid(at, replicas, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32))}
	}
	return nil
}

// generatedName is one that an API server could make: at most 63 bytes, the last five its own.
func generatedName(base string) string { return base[:min(len(base), 58)] + "xxxxx" }

// faultsOf gives errors in the order of their fields, those of the whole object last.
func faultsOf(errs field.ErrorList) []Fault {
	whole := (*field.Path)(nil).String()
	var faults, last []Fault
	for _, err := range errs {
		if err.Field == whole {
			last = append(last, Fault{Message: err.ErrorBody()})
			continue
		}
		faults = append(faults, Fault{Field: err.Field, Message: err.ErrorBody()})
	}
	slices.SortFunc(faults, func(a, b Fault) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Message, b.Message))
	})
	return slices.Concat(faults, last)
}
