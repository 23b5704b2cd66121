// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"encoding/json"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/runtime/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/crds"
)

func TestEveryKindHasADefinitionThatCompiles(t *testing.T) {
	files, err := crds.Files.ReadDir(".")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := crds.Files.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
			if d, err := Of(kind); d == nil || err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			// What validate omits, as no object of Spate has objects of other kinds in it.
			if text, err := json.Marshal(version.Schema); err != nil || strings.Contains(string(text), `"x-kubernetes-embedded-resource":true`) {
				t.Errorf("%s has embedded objects, whose metadata nothing judges", kind)
			}
		}
	}
}

// Limits of an API server and of kubectl.
const (
	// rulesBudget is what the rules of a kind may cost by the server's estimate (StaticEstimatedCRDCostLimit of its package validation).
	rulesBudget = 100_000_000
	// annotationBytes is what an object's annotations may have together: `kubectl apply` puts the object into one.
	annotationBytes = 256 << 10
)

func TestKindsAreWithinTheLimitsOfAServer(t *testing.T) {
	for _, kind := range []string{"ASTFTemplate", "StatelessStream", "TrafficGenerator", "TrafficProfile", "TrafficRun"} {
		d, err := Of(spatev1.GroupVersion.WithKind(kind))
		if err != nil {
			t.Fatal(err)
		}
		text, err := crds.Files.ReadFile(spatev1.GroupVersion.Group + "_" + strings.ToLower(kind) + "s.yaml")
		if err != nil {
			t.Fatal(err)
		}
		object, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		count, cost := rulesOf(t, d.fields, 1)
		t.Logf("%s: %d rules, %.1f %% of the budget, %d bytes, %d as YAML", kind, count, 100*float64(cost)/rulesBudget, len(object), len(text))
		if cost > rulesBudget || len(object) > annotationBytes {
			t.Errorf("%s: its rules cost %d of at most %d, and it has %d of at most %d bytes", kind, cost, rulesBudget, len(object), annotationBytes)
		}
	}
}

// rulesOf returns the number of rules of a schema that occurs at most `times` times, and what they cost.
func rulesOf(t *testing.T, s *structural.Structural, times uint64) (count int, cost uint64) {
	t.Helper()
	const unlimited = 1 << 20 // more than there are anywhere
	if len(s.XValidations) > 0 {
		results, err := cel.Compile(s, model.SchemaDeclType(s, s.XEmbeddedResource), celconfig.PerCallLimit,
			environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()), cel.StoredExpressionsEnvLoader())
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range results {
			count, cost = count+1, cost+rule.MaxCost*times
		}
	}
	within := func(s *structural.Structural, times uint64) {
		c, more := rulesOf(t, s, times)
		count, cost = count+c, cost+more
	}
	for _, property := range s.Properties {
		within(&property, times)
	}
	if s.Items != nil {
		items := uint64(unlimited)
		if s.ValueValidation != nil && s.ValueValidation.MaxItems != nil {
			items = uint64(*s.ValueValidation.MaxItems)
		}
		within(s.Items, times*items)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		properties := uint64(unlimited)
		if s.ValueValidation != nil && s.ValueValidation.MaxProperties != nil {
			properties = uint64(*s.ValueValidation.MaxProperties)
		}
		within(s.AdditionalProperties.Structural, times*properties)
	}
	return count, cost
}
