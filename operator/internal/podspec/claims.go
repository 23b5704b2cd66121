// SPDX-License-Identifier: Apache-2.0

package podspec

// This file answers: which resource claims (Dynamic Resource Allocation) has an engine pod, and how does its engine learn of their devices?

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	// DevicesAnnotation is where the operator reports the devices of a pod's resource claims: a ClaimedDevice by the name of its port.
	DevicesAnnotation = "spate.dev/claimed-devices"

	// devicesFile is the file with that annotation, in podInfoDir.
	devicesFile = "claimed-devices"
)

// ClaimedDevice is a device of a resource claim, as its driver reports it.
type ClaimedDevice struct {
	// Interface is the name of the kernel interface in the pod; empty if there is none.
	Interface string `json:"interface,omitempty"`
	// PCI is its address; empty if it is no PCI device.
	PCI string `json:"pci,omitempty"`
}

// Claim is a resource claim of each pod.
type Claim struct {
	// Name of the claim within the pod.
	Name string
	// Template is the name of its ResourceClaimTemplate.
	Template string
	// Ports with a device of the claim, by their index in the spec.
	Ports []int
}

// Claims returns the resource claims of each pod: one for each template that ports name.
func Claims(spec *spatev1.TrafficGeneratorSpec) (claims []Claim) {
	for i, port := range spec.Ports {
		if port.Attachment.ResourceClaim == nil {
			continue
		}
		template := string(port.Attachment.ResourceClaim.ResourceClaimTemplateName)
		at := slices.IndexFunc(claims, func(c Claim) bool { return c.Template == template })
		if at < 0 {
			at = len(claims)
			claims = append(claims, Claim{Name: fmt.Sprintf("devices-%d", at), Template: template})
		}
		claims[at].Ports = append(claims[at].Ports, i)
	}
	return claims
}

// addClaims gives a pod and its engine the resource claims, and the file with their devices.
func addClaims(pod *corev1.PodSpec, spec *spatev1.TrafficGeneratorSpec) {
	claims := Claims(spec)
	if len(claims) == 0 {
		return
	}
	engine := &pod.Containers[0]
	for _, claim := range claims {
		pod.ResourceClaims = append(pod.ResourceClaims, corev1.PodResourceClaim{Name: claim.Name, ResourceClaimTemplateName: ptr.To(claim.Template)})
		engine.Resources.Claims = append(engine.Resources.Claims, corev1.ResourceClaim{Name: claim.Name})
	}
	engine.Args = append(engine.Args, "--claimed-devices", podInfoDir+"/"+devicesFile)
	for i := range pod.Volumes {
		if info := pod.Volumes[i].DownwardAPI; info != nil {
			info.Items = append(info.Items, corev1.DownwardAPIVolumeFile{
				Path:     devicesFile,
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + DevicesAnnotation + "']"},
			})
		}
	}
}

// claimed is a device of a resource claim, which may turn out to be a kernel interface.
type claimed struct{ name string }

// device is in the file of DevicesAnnotation.
func (claimed) device() string { return "claimed" }

func (claimed) opensDevice() bool { return true }

func (claimed) kernelDriver() bool { return true }

func (claimed) loadsProgram() bool { return false }

func (c claimed) shared(pods []spatev1.GeneratorPodStatus) string {
	switch kernel, known := openedByKernel(c.name, pods); {
	case !known:
		return "no engine has opened the device of its resource claim yet"
	case kernel:
		return "the device of its resource claim is a kernel interface, so its packets pass through the kernel"
	}
	return ""
}

// openedByKernel reports whether an engine has opened a port as a kernel interface, and whether any has opened it.
func openedByKernel(name string, pods []spatev1.GeneratorPodStatus) (kernel, known bool) {
	for _, pod := range pods {
		for _, port := range pod.Ports {
			if port.Name == name {
				kernel, known = kernel || port.Kind == spatev1.PortKernel, true
			}
		}
	}
	return kernel, known
}
