// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: which objects does the operator read, and which of them does it cache?

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
)

// cached returns what is cached: objects of the watched namespaces, of all if there are none. Of pods, Secrets and NetworkPolicies only the
// operator's own are cached, never all of the cluster. The Secret of the authority is in the operator's namespace.
func cached(operator string, watched []string) cache.Options {
	own := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{podspec.LabelManagedBy: podspec.ManagedBy}), Transform: cache.TransformStripManagedFields()}
	secrets := own
	options := cache.Options{DefaultTransform: cache.TransformStripManagedFields()}
	if len(watched) > 0 {
		options.DefaultNamespaces = all(watched)
		secrets.Namespaces = all(append(slices.Clone(watched), operator))
	}
	options.ByObject = map[client.Object]cache.ByObject{&corev1.Pod{}: own, &corev1.Secret{}: secrets, &networkingv1.NetworkPolicy{}: own}
	return options
}

func all(namespaces []string) map[string]cache.Config {
	configs := map[string]cache.Config{}
	for _, namespace := range namespaces {
		configs[namespace] = cache.Config{}
	}
	return configs
}

// watchedKinds returns the kinds whose objects in the watched namespaces controllers wait for.
func watchedKinds() []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for _, kind := range []string{
		"TrafficRun", "TrafficProfile", "TrafficGenerator", "TrafficSearch", "StatelessStream", "ASTFTemplate", "ClientGroup",
		"TrafficCapture", "TrafficPing", "TrafficRecordsReader", "TrafficStatsReader",
	} {
		kinds = append(kinds, spatev1.GroupVersion.WithKind(kind))
	}
	return append(kinds, corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Secret"),
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"))
}

// clientOf returns how the operator's client is made; nil for the default, if it watches all namespaces.
func clientOf(operator string, watched []string) client.NewClientFunc {
	if len(watched) == 0 {
		return nil
	}
	return func(config *rest.Config, options client.Options) (client.Client, error) {
		c, err := client.New(config, options)
		return &confined{Client: c, namespaces: append(slices.Clone(watched), operator)}, err
	}
}

// confined is the client of an operator that watches some namespaces. Objects of others do not exist for it: it must not read them, and users
// see that a reference leads nowhere.
type confined struct {
	client.Client
	namespaces []string
}

// Get gets an object of the namespaces, or one that has no namespace.
func (c *confined) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if key.Namespace == "" || slices.Contains(c.namespaces, key.Namespace) {
		return c.Client.Get(ctx, key, object, options...)
	}
	kind, err := c.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}, key.Name)
}
