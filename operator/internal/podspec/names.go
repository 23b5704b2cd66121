// SPDX-License-Identifier: Apache-2.0

// Package podspec builds the objects of a generator. Its functions are pure: no client, no clock.
package podspec

// This file answers: what are a generator's objects called, and by which labels are they found?

import (
	"fmt"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	// LabelName and LabelManagedBy are on every object the operator creates; its caches contain no other objects of these
	// kinds.
	LabelName      = "app.kubernetes.io/name"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelGenerator is the generator's name.
	LabelGenerator = "spate.dev/generator"
	// LabelIndex is the pod's index among the replicas. LabelTemplate is the digest of the template it was built from.
	LabelIndex    = "spate.dev/index"
	LabelTemplate = "spate.dev/template"
	// LabelPodGroup is the name of the pod's group; absent without spec.podGroups.
	LabelPodGroup = "spate.dev/pod-group"

	// EngineName is the value of LabelName on engine pods, ManagedBy that of LabelManagedBy.
	EngineName = "spate-engine"
	ManagedBy  = "spate-operator"

	// EngineContainer is the container of the engine. RoutingContainer is beside it if a port has routing.
	EngineContainer  = "engine"
	RoutingContainer = "routing"

	// PortGRPC and PortMetrics name container ports.
	PortGRPC    = "grpc"
	PortMetrics = "metrics"

	grpcPort    = 7470
	metricsPort = 7471
)

// Labels returns the labels of every object of a generator.
func Labels(generator *spatev1.TrafficGenerator) map[string]string {
	return map[string]string{LabelName: EngineName, LabelManagedBy: ManagedBy, LabelGenerator: generator.Name}
}

// PodName returns the name of a replica's pod; attempts after the first append their number.
func PodName(generator string, index, attempt int) string {
	if attempt == 0 {
		return fmt.Sprintf("%s-%d", generator, index)
	}
	return fmt.Sprintf("%s-%d-retry%d", generator, index, attempt)
}

// TLSSecretName returns the name of the Secret with the engines' server certificate.
func TLSSecretName(generator string) string { return generator + "-engine-tls" }

// PolicyName returns the name of the NetworkPolicy and the PodMonitor of a generator's pods.
func PolicyName(generator string) string { return generator + "-engine" }

// Index returns a pod's index among its generator's pods, from 0; a pod without one sorts last.
func Index(pod *corev1.Pod) int {
	index, err := strconv.Atoi(pod.Labels[LabelIndex])
	if err != nil {
		return math.MaxInt
	}
	return index
}
