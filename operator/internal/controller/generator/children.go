// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: which objects does a generator own besides its pods, and are they as specified?

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/pki"
	"spate.dev/operator/internal/podspec"
)

// children creates or updates the certificate, the network policy and the pod monitor. It returns when the certificate must be renewed,
// and whether a name is taken.
func (r *Reconciler) children(ctx context.Context, g *spatev1.TrafficGenerator) (time.Time, *problem, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: g.Namespace, Name: podspec.TLSSecretName(g.Name), Labels: podspec.Labels(g),
	}}
	if err := controllerutil.SetControllerReference(g, secret, r.Client.Scheme()); err != nil {
		return time.Time{}, nil, err
	}
	have := &corev1.Secret{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(secret), have); client.IgnoreNotFound(err) != nil {
		return time.Time{}, nil, err
	} else if err == nil && !metav1.IsControlledBy(have, g) { // EnsureServer would write into it
		taken, err := r.taken(ctx, g, secret)
		if taken != nil || err != nil {
			return time.Time{}, taken, err
		}
	} else if err == nil && relabel(have, secret.Labels) {
		if err := r.Client.Update(ctx, have); err != nil {
			return time.Time{}, nil, err
		}
	}
	renew, err := r.Certificates.EnsureServer(ctx, secret, pki.ServerName(g.Namespace, g.Name))
	if apierrors.IsAlreadyExists(err) {
		if taken, err := r.taken(ctx, g, secret); taken != nil || err != nil {
			return time.Time{}, taken, err
		}
	}
	if err != nil {
		return time.Time{}, nil, err
	}
	if taken, err := r.networkPolicy(ctx, g); taken != nil || err != nil {
		return time.Time{}, taken, err
	}
	taken, err := r.podMonitor(ctx, g)
	return renew, taken, err
}

func (r *Reconciler) networkPolicy(ctx context.Context, g *spatev1.TrafficGenerator) (*problem, error) {
	want := podspec.NetworkPolicy(g, r.Access)
	if err := controllerutil.SetControllerReference(g, want, r.Client.Scheme()); err != nil {
		return nil, err
	}
	have := &networkingv1.NetworkPolicy{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		if err = r.Client.Create(ctx, want); !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		return r.taken(ctx, g, want)
	}
	if err == nil && !metav1.IsControlledBy(have, g) {
		return r.taken(ctx, g, want)
	}
	if relabeled := relabel(have, want.GetLabels()); err != nil || !relabeled && equality.Semantic.DeepEqual(have.Spec, want.Spec) {
		return nil, err
	}
	have.Spec = want.Spec
	return nil, r.Client.Update(ctx, have)
}

// relabel gives an object labels that it should have, and keeps its others. It reports whether one was missing or had another value.
func relabel(have client.Object, want map[string]string) (changed bool) {
	all := maps.Clone(have.GetLabels())
	if all == nil {
		all = map[string]string{}
	}
	for name, value := range want {
		if has, ok := all[name]; !ok || has != value {
			all[name], changed = value, true
		}
	}
	if changed {
		have.SetLabels(all)
	}
	return changed
}

// podMonitor creates or updates the PodMonitor if the cluster has the kind. The kind may be installed and removed at any time, so the
// object is not cached but read for each generation, and at intervals.
func (r *Reconciler) podMonitor(ctx context.Context, g *spatev1.TrafficGenerator) (*problem, error) {
	if !r.PodMonitors || r.monitored(g) {
		return nil, nil
	}
	want := podspec.PodMonitor(g, r.Scrapes)
	if _, err := r.Client.RESTMapper().RESTMapping(podspec.PodMonitorKind.GroupKind(), podspec.PodMonitorKind.Version); err != nil {
		if meta.IsNoMatchError(err) {
			return nil, nil
		}
		return nil, err
	}
	if err := controllerutil.SetControllerReference(g, want, r.Client.Scheme()); err != nil {
		return nil, err
	}
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(podspec.PodMonitorKind)
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case apierrors.IsNotFound(err):
		err = client.IgnoreAlreadyExists(r.Client.Create(ctx, want))
	case err == nil && !metav1.IsControlledBy(have, g):
		return r.taken(ctx, g, want)
	case err == nil:
		if relabeled := relabel(have, want.GetLabels()); relabeled || !equality.Semantic.DeepEqual(have.Object["spec"], want.Object["spec"]) {
			have.Object["spec"] = want.Object["spec"]
			err = r.Client.Update(ctx, have)
		}
	}
	if err == nil {
		r.setMonitored(g)
	}
	return nil, err
}

// newPod returns a pod controlled by its generator.
func (r *Reconciler) newPod(template podspec.Template, digest string, index, attempt int) (*corev1.Pod, error) {
	pod := template.Pod(index, attempt)
	pod.Labels = maps.Clone(pod.Labels)
	pod.Labels[podspec.LabelTemplate] = digest
	return pod, controllerutil.SetControllerReference(template.Generator, pod, r.Client.Scheme())
}
