// SPDX-License-Identifier: Apache-2.0

package profile

// This file answers: how is the generator within a profile created and updated?

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/internal/runs/admission"
)

// ensureGenerator creates or updates the generator that the profile describes.
func (s *scope) ensureGenerator(ctx context.Context) error {
	key := admission.GeneratorKey(s.profile)
	s.profile.Status.Generator = key.String()
	if key.Name == admission.AnyGenerator {
		s.profile.Status.Generator = ""
		if g, _, err := s.r.Resolver.GeneratorOf(ctx, s.profile); err != nil {
			return err
		} else if g != nil {
			s.profile.Status.Generator = client.ObjectKeyFromObject(g).String()
		}
	}
	if s.profile.Spec.Generator == nil {
		return nil
	}
	want := s.profile.Spec.Generator.DeepCopy()
	if s.profile.Spec.Suspend && s.profile.Spec.SuspendPolicy == spatev1.SuspendFree {
		want.Suspend = true
	}
	if s.problems = s.r.Inline.Refuse(want, s.profile.Namespace); len(s.problems) > 0 || len(plan.CheckGenerator(want)) > 0 {
		return nil // the latter is reported when the profile is resolved
	}
	g := &spatev1.TrafficGenerator{}
	err := s.r.Client.Get(ctx, key, g)
	switch {
	case apierrors.IsNotFound(err):
		g = &spatev1.TrafficGenerator{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{podspec.LabelManagedBy: podspec.ManagedBy}},
			Spec:       *want,
		}
		if err := controllerutil.SetControllerReference(s.profile, g, s.r.Client.Scheme()); err != nil {
			return err
		}
		return s.r.Client.Create(ctx, g)
	case err != nil:
		return err
	case !metav1.IsControlledBy(g, s.profile) || equality.Semantic.DeepEqual(g.Spec, *want): // the former is reported when the profile is resolved
		return nil
	}
	g.Spec = *want
	return s.r.Client.Update(ctx, g)
}
