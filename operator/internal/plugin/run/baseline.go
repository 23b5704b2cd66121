// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: which run are the started runs compared with?

import (
	"cmp"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	spatev1 "spate.dev/api/v1alpha1"
)

// baselineRef is the field of a TrafficRun.
var baselineRef = []string{"spec", "baselineRef", "name"}

// startsOwn returns an error if a profile of the files starts runs by itself: they have no baseline.
func startsOwn(objects []*unstructured.Unstructured) error {
	var all []error
	for _, object := range objects {
		if !isKind(object, "TrafficProfile") {
			continue
		}
		policy, _, _ := unstructured.NestedString(object.Object, "spec", "runPolicy")
		id, _, _ := unstructured.NestedString(object.Object, "spec", "runID")
		if policy != string(spatev1.RunManual) || id != "" {
			all = append(all, fmt.Errorf("--baseline: TrafficProfile %s starts runs by itself, which have no baseline: set spec.runPolicy: %s, and no spec.runID", object.GetName(), spatev1.RunManual))
		}
	}
	return errors.Join(all...)
}

// baselineFor returns the reference to the baseline for a run in a namespace; nil without a baseline.
func (s *session) baselineFor(namespace string) (*spatev1.LocalReference, error) {
	if s.baseline.Name == "" {
		return nil, nil
	}
	if namespace != s.baseline.Namespace {
		return nil, fmt.Errorf("--baseline: run %s is in namespace %s, and a run is compared with one of its own namespace (%s)", s.baseline.Name, s.baseline.Namespace, namespace)
	}
	return &spatev1.LocalReference{Name: spatev1.ObjectName(s.baseline.Name)}, nil
}

// setBaseline sets the baseline of a TrafficRun of the files.
func (s *session) setBaseline(object *unstructured.Unstructured) error {
	ref, err := s.baselineFor(cmp.Or(object.GetNamespace(), s.namespace))
	if err != nil || ref == nil {
		return err
	}
	return unstructured.SetNestedField(object.Object, string(ref.Name), baselineRef...)
}
