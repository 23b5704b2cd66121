// SPDX-License-Identifier: Apache-2.0

package admission

// This file answers: what may a generator within a profile have? The operator does not know who wrote the profile, and
// creates the generator with its own rights. So such a generator may have less than a TrafficGenerator that a user
// creates.

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/ports"
	"spate.dev/operator/internal/plan/problem"
)

// InlineAllowed are features that generators within profiles may have as an exception.
type InlineAllowed struct {
	// SecretVolumes are volumes with Secrets, and passwords of Secrets for sessions of routing protocols.
	SecretVolumes bool
	// ForeignNetworks are networks of other namespaces.
	ForeignNetworks bool
}

// Refuse returns the features that a generator of a profile in the namespace may not have.
func (a InlineAllowed) Refuse(g *spatev1.TrafficGeneratorSpec, namespace string) (problems problem.Problems) {
	const remedy = "create a TrafficGenerator that has it and refer to it with spec.generatorRef"
	add := func(at *field.Path, what, flag string) {
		problems = append(problems, problem.Problem{
			Reason: spatev1.ReasonNotAllowed, Path: at.String(),
			Message: fmt.Sprintf("a generator within a profile must not have %s: %s, or run the operator with %s", what, remedy, flag),
		})
	}
	at := field.NewPath("spec", "generator")
	for i := range g.Volumes {
		if g.Volumes[i].Secret != nil && !a.SecretVolumes {
			add(at.Child("volumes").Index(i).Child("secret"), "a volume with a Secret", "--inline-secret-volumes")
		}
	}
	for _, from := range ports.Passwords(g) {
		if !a.SecretVolumes {
			add(from.At(at.Child("ports")), "a password of a Secret", "--inline-secret-volumes")
		}
	}
	for _, network := range ports.Networks(g, at) {
		if network.NamespaceIn(namespace) != namespace && !a.ForeignNetworks {
			add(network.At.Child("namespace"), "a port on another namespace's network", "--inline-foreign-networks")
		}
	}
	return problems
}
