// SPDX-License-Identifier: Apache-2.0

package admission

// This file answers: which generator does a definition run on, may it use it, and is it ready?

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/problem"
)

// AnyGenerator is the name under which a definition without a generator is indexed: any generator of its namespace may become its
// generator.
const AnyGenerator = "*"

// GeneratorKey returns the key of a definition's generator: the one it names, or the one it describes, which has the
// definition's name. The name is AnyGenerator if it neither names nor describes one.
func GeneratorKey(definition *spatev1.TrafficProfile) client.ObjectKey {
	ref := definition.Spec.GeneratorRef
	switch {
	case ref != nil && ref.Namespace != "":
		return client.ObjectKey{Namespace: ref.Namespace, Name: string(ref.Name)}
	case ref != nil:
		return client.ObjectKey{Namespace: definition.Namespace, Name: string(ref.Name)}
	case definition.Spec.Generator != nil:
		return client.ObjectKeyFromObject(definition)
	}
	return client.ObjectKey{Namespace: definition.Namespace, Name: AnyGenerator}
}

// GeneratorOf returns a definition's generator; nil if there is none (yet).
func (r *Resolver) GeneratorOf(ctx context.Context, definition *spatev1.TrafficProfile) (*spatev1.TrafficGenerator, problem.Problems, error) {
	key := GeneratorKey(definition)
	if key.Name == AnyGenerator {
		return r.only(ctx, key.Namespace)
	}
	g := &spatev1.TrafficGenerator{}
	if err := r.Client.Get(ctx, key, g); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	if definition.Spec.Generator != nil && definition.Spec.GeneratorRef == nil && !metav1.IsControlledBy(g, definition) {
		return nil, problem.Problems{{
			Reason: spatev1.ReasonInvalidSpec, Path: "spec.generator",
			Message: fmt.Sprintf("TrafficGenerator %q exists and is not owned by this profile; rename the profile, or refer to the generator with spec.generatorRef", key.Name),
		}}, nil
	}
	return g, nil, nil
}

// only returns the only generator of a namespace that no profile owns.
func (r *Resolver) only(ctx context.Context, namespace string) (*spatev1.TrafficGenerator, problem.Problems, error) {
	var list spatev1.TrafficGeneratorList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, nil, err
	}
	shared := slices.DeleteFunc(list.Items, func(g spatev1.TrafficGenerator) bool { return metav1.GetControllerOf(&g) != nil })
	if len(shared) == 1 {
		return &shared[0], nil, nil
	}
	var names []string
	for i := range shared {
		names = append(names, shared[i].Name)
	}
	return nil, problem.Problems{plan.GeneratorRequired(namespace, names)}, nil
}

// granted reports whether the definition's namespace may use the generator; true if there is none.
func (s *Resolution) granted(ctx context.Context) (bool, error) {
	g := s.Generator
	if g == nil || g.Namespace == s.definition.Namespace {
		return true, nil
	}
	var labels map[string]string
	if g.Spec.AllowedNamespaces.From == spatev1.NamespacesSelector {
		namespace := &corev1.Namespace{}
		if err := s.r.Live.Get(ctx, client.ObjectKey{Name: s.definition.Namespace}, namespace); err != nil {
			return false, err
		}
		labels = namespace.Labels
	}
	return plan.Granted(g, s.definition.Namespace, labels)
}

// NotReady returns why a generator cannot execute a run; empty if it can.
func NotReady(g *spatev1.TrafficGenerator) string {
	if g == nil {
		return "the generator is being created"
	}
	ready := meta.FindStatusCondition(g.Status.Conditions, spatev1.ConditionReady)
	switch {
	case g.DeletionTimestamp != nil:
		return fmt.Sprintf("TrafficGenerator %s is being deleted", g.Name)
	case ready == nil || ready.ObservedGeneration != g.Generation:
		return fmt.Sprintf("TrafficGenerator %s is being set up", g.Name)
	case ready.Status != metav1.ConditionTrue:
		return strings.TrimSuffix(fmt.Sprintf("TrafficGenerator %s is not ready: %s: %s", g.Name, ready.Reason, ready.Message), ": ")
	}
	return ""
}
