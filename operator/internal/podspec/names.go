// SPDX-License-Identifier: Apache-2.0

// Package podspec builds the objects a generator consists of. Pure functions: no client, no clock.
package podspec

// This file answers: what are a generator's objects called, and how are they found again?

import (
	"fmt"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	// LabelName and LabelManagedBy are on everything the operator makes; its caches hold nothing else of these kinds.
	LabelName      = "app.kubernetes.io/name"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelGenerator has the generator's name.
	LabelGenerator = "spate.dev/generator"
	// LabelIndex is the pod's place among the replicas, LabelTemplate the digest of what it was built from.
	LabelIndex    = "spate.dev/index"
	LabelTemplate = "spate.dev/template"

	// EngineName is the value of LabelName on engine pods, ManagedBy that of LabelManagedBy.
	EngineName = "spate-engine"
	ManagedBy  = "spate-operator"

	// EngineContainer is the one container of an engine pod.
	EngineContainer = "engine"

	// PortGRPC and PortMetrics name container ports.
	PortGRPC    = "grpc"
	PortMetrics = "metrics"

	grpcPort    = 7470
	metricsPort = 7471
)

// Labels of everything that belongs to a generator.
func Labels(generator *spatev1.TrafficGenerator) map[string]string {
	return map[string]string{LabelName: EngineName, LabelManagedBy: ManagedBy, LabelGenerator: generator.Name}
}

// PodName of a replica; attempts after the first have a number.
func PodName(generator string, index, attempt int) string {
	if attempt == 0 {
		return fmt.Sprintf("%s-%d", generator, index)
	}
	return fmt.Sprintf("%s-%d-retry%d", generator, index, attempt)
}

// TLSSecretName is the Secret with the engines' server certificate.
func TLSSecretName(generator string) string { return generator + "-engine-tls" }

// PolicyName is the NetworkPolicy and the PodMonitor of a generator's pods.
func PolicyName(generator string) string { return generator + "-engine" }

// Index of a pod among its generator's, from 0; after all others if it has none.
func Index(pod *corev1.Pod) int {
	index, err := strconv.Atoi(pod.Labels[LabelIndex])
	if err != nil {
		return math.MaxInt
	}
	return index
}
