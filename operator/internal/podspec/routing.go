// SPDX-License-Identifier: Apache-2.0

package podspec

// This file answers: which container speaks the routing protocols of a pod's ports, and what does it share with the engine?

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/ports"
)

const (
	// routingDir has BIRD's configuration and its control socket, at the same path in both containers: the engine gives BIRD the path of a file.
	routingDir = "/routing"
	// passwordsDir has the passwords of sessions, each as NAME/KEY of a Secret, in the engine's container only.
	passwordsDir = "/etc/spate/passwords"

	routingVolume   = "routing"
	passwordsVolume = "passwords"

	// routingMilliCPU is the CPU of the container: of the node's shared pool, never a worker's.
	routingMilliCPU = 500
	// sharedRoutingMilliCPU is its request where the engine shares CPUs, too.
	sharedRoutingMilliCPU = 50
)

// routers returns the arguments that make ports routers.
func (t Template) routers() (args []string) {
	for i := range t.Generator.Spec.Ports {
		if port := &t.Generator.Spec.Ports[i]; port.Routing != nil {
			args = append(args, "--router", fmt.Sprintf("%s=%s", port.Name, ports.RouterInterface(i)))
		}
	}
	if args == nil {
		return nil
	}
	return append(args, "--routing-dir", routingDir, "--routing-passwords", passwordsDir)
}

func (t Template) routingMounts() []corev1.VolumeMount {
	if !ports.HasRouting(&t.Generator.Spec) {
		return nil
	}
	return []corev1.VolumeMount{
		{Name: routingVolume, MountPath: routingDir},
		{Name: passwordsVolume, MountPath: passwordsDir, ReadOnly: true},
	}
}

// routingVolumes returns the folder of BIRD's files, in memory since passwords are in its configuration, and that of the passwords. Secrets
// are optional: the engine reports which password is missing, and takes it when it is there.
func (t Template) routingVolumes() []corev1.Volume {
	if !ports.HasRouting(&t.Generator.Spec) {
		return nil
	}
	limit := routingFiles(&t.Generator.Spec)
	passwords := &corev1.ProjectedVolumeSource{Sources: passwordSources(&t.Generator.Spec), DefaultMode: ptr.To[int32](0o400)}
	return []corev1.Volume{
		{Name: routingVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &limit}}},
		{Name: passwordsVolume, VolumeSource: corev1.VolumeSource{Projected: passwords}},
	}
}

// routingFiles returns the size of the folder of BIRD's files. The engine writes them, so the memory is its own.
func routingFiles(spec *spatev1.TrafficGeneratorSpec) resource.Quantity {
	return *resource.NewQuantity(ports.RoutingFiles(spec), resource.BinarySI)
}

// passwordSources returns the Secrets with passwords, each once, with the keys that sessions name.
func passwordSources(spec *spatev1.TrafficGeneratorSpec) []corev1.VolumeProjection {
	keys := map[string]map[string]bool{}
	for _, from := range ports.Passwords(spec) {
		if keys[from.SecretKeyRef.Name] == nil {
			keys[from.SecretKeyRef.Name] = map[string]bool{}
		}
		keys[from.SecretKeyRef.Name][from.SecretKeyRef.Key] = true
	}
	var sources []corev1.VolumeProjection
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		secret := &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: ptr.To(true)}
		for _, key := range slices.Sorted(maps.Keys(keys[name])) {
			secret.Items = append(secret.Items, corev1.KeyToPath{Key: key, Path: path.Join(name, key)})
		}
		sources = append(sources, corev1.VolumeProjection{Secret: secret})
	}
	return sources
}

// HasRouting reports whether a pod has the container that speaks routing protocols.
func HasRouting(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == RoutingContainer })
}

// RoutingEnd returns how BIRD last ended in a pod; nil if it has not.
func RoutingEnd(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for i := range pod.Status.InitContainerStatuses {
		if c := &pod.Status.InitContainerStatuses[i]; c.Name == RoutingContainer {
			return cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
		}
	}
	return nil
}

// addRouting adds the container that speaks routing protocols. It starts before the engine, which connects to it, and the kubelet starts it
// again if it ends: a sidecar container.
func (t Template) addRouting(pod *corev1.PodSpec) {
	s := &t.Generator.Spec
	if !ports.HasRouting(s) {
		return
	}
	limits := corev1.ResourceList{corev1.ResourceMemory: ports.RoutingMemory(s)}
	requests := maps.Clone(limits)
	if s.CPUPolicy == spatev1.CPUShared {
		requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(sharedRoutingMilliCPU, resource.DecimalSI)
	} else { // requests equal limits, as the engine's: the pod is Guaranteed
		cpu := *resource.NewMilliQuantity(routingMilliCPU, resource.DecimalSI)
		requests[corev1.ResourceCPU], limits[corev1.ResourceCPU] = cpu, cpu
	}
	pod.InitContainers = append(pod.InitContainers, corev1.Container{
		Name:            RoutingContainer,
		Image:           t.Image,
		ImagePullPolicy: t.PullPolicy,
		RestartPolicy:   ptr.To(corev1.ContainerRestartPolicyAlways),
		// In the foreground. It begins with a configuration without sessions: the engine gives it another one, also when it was restarted.
		Command:   []string{"/usr/sbin/bird", "-f", "-c", "/etc/spate/bird.conf", "-s", path.Join(routingDir, "bird.ctl")},
		Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			ReadOnlyRootFilesystem:   ptr.To(true),
			// For raw sockets, TCP's MD5 signatures and ports below 1024.
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_RAW", "NET_ADMIN", "NET_BIND_SERVICE"}},
			// Added capabilities are effective for root only.
			RunAsUser: ptr.To[int64](0),
		},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts:             []corev1.VolumeMount{{Name: routingVolume, MountPath: routingDir}},
	})
}
