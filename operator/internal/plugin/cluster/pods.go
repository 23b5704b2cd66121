// SPDX-License-Identifier: Apache-2.0

package cluster

// This file answers: which pods run engines, and which the operator?

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"spate.dev/operator/internal/podspec"
)

// OperatorNamespace is where the operator is looked for unless another namespace is named.
const OperatorNamespace = "spate-system"

// operatorName is the value of podspec.LabelName on the operator's pods, in the chart and in config/manager.
const operatorName = "spate-operator"

// EnginePods returns the engine pods of a generator by name, or of all generators if that is empty; in all namespaces if the namespace is.
func EnginePods(ctx context.Context, reader kube.Reader, namespace, generator string) ([]corev1.Pod, error) {
	labels := kube.MatchingLabels{podspec.LabelName: podspec.EngineName}
	if generator != "" {
		labels[podspec.LabelGenerator] = generator
	}
	return pods(ctx, reader, namespace, labels)
}

// OperatorPods returns the operator's pods in a namespace.
func OperatorPods(ctx context.Context, reader kube.Reader, namespace string) ([]corev1.Pod, error) {
	return pods(ctx, reader, namespace, OperatorLabels())
}

// OperatorLabels select the operator's pods and its Deployment.
func OperatorLabels() kube.MatchingLabels {
	return kube.MatchingLabels{podspec.LabelName: operatorName}
}

func pods(ctx context.Context, reader kube.Reader, namespace string, labels kube.MatchingLabels) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := reader.List(ctx, &list, kube.InNamespace(namespace), labels); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}
