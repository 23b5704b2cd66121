// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: what does --set change, of a run and of a manifest?

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/quantity"
)

// settable is in the error for any other name.
const settable = "rate, duration, warmup, generator"

// parseSettings returns what --set options name, as overrides of a run.
func parseSettings(options []string) (set spatev1.RunOverrides, err error) {
	for _, option := range options {
		name, value, found := strings.Cut(option, "=")
		if !found || value == "" {
			return set, fmt.Errorf("--set %s: must be NAME=VALUE; NAME is one of %s", option, settable)
		}
		switch name {
		case "rate":
			set.Rate = spatev1.ScaledRate(value)
			_, err = quantity.ParseScaledRate(set.Rate)
		case "duration":
			set.Duration = spatev1.Duration(value)
			_, err = time.ParseDuration(value)
		case "warmup":
			set.Warmup = spatev1.Duration(value)
			_, err = time.ParseDuration(value)
		case "generator":
			namespace, generator, apart := strings.Cut(value, "/")
			if !apart {
				namespace, generator = "", value
			}
			set.GeneratorRef = &spatev1.GeneratorReference{Name: spatev1.ObjectName(generator), Namespace: namespace}
		default:
			err = fmt.Errorf("cannot be set; NAME is one of %s", settable)
		}
		if err != nil {
			return set, fmt.Errorf("--set %s: %w", option, err)
		}
	}
	return set, nil
}

// setIn sets fields of a manifest below a path: `spec` of a TrafficProfile, `spec.overrides` of a TrafficRun. The names are the same in both.
func setIn(object *unstructured.Unstructured, set spatev1.RunOverrides, path ...string) error {
	values := map[string]any{}
	for field, value := range map[string]string{"rate": string(set.Rate), "duration": string(set.Duration), "warmup": string(set.Warmup)} {
		if value != "" {
			values[field] = value
		}
	}
	if ref := set.GeneratorRef; ref != nil {
		reference := map[string]any{"name": string(ref.Name)}
		if ref.Namespace != "" {
			reference["namespace"] = ref.Namespace
		}
		values["generatorRef"] = reference
	}
	for field, value := range values {
		if err := unstructured.SetNestedField(object.Object, value, append(path[:len(path):len(path)], field)...); err != nil {
			return err
		}
	}
	return nil
}
