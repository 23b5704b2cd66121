// SPDX-License-Identifier: Apache-2.0

// What is wrong with the expressions of a search?

package offline

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/problem"
)

// search gives the problems of a search's requirements and thresholds: with the names of its profile, if that is in the files and can be run.
func (f Files) search(s manifest.Object[*spatev1.TrafficSearch]) problem.Problems {
	found := plan.CheckSearch(&s.Value.Spec)
	at := slices.IndexFunc(f.Profiles, func(p manifest.Object[*spatev1.TrafficProfile]) bool {
		return p.Value.Name == string(s.Value.Spec.ProfileRef.Name) && p.Value.Namespace == s.Value.Namespace
	})
	if len(found) > 0 || at < 0 {
		return found
	}
	resolved, problems := f.resolve(Definition{Profile: f.Profiles[at].Value})
	if len(problems) > 0 {
		return nil // they are the profile's
	}
	return resolved.CheckRequirements(&s.Value.Spec.SearchTests, field.NewPath("spec"))
}
