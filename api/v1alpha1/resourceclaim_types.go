// SPDX-License-Identifier: Apache-2.0

// Ports on devices of Dynamic Resource Allocation (resource.k8s.io/v1).

package v1alpha1

// ResourceClaimAttachment is a device of a ResourceClaim. Each pod has one claim of each template that its ports name: ports that name the
// same template share that claim, and each has a device of its own.
type ResourceClaimAttachment struct {
	// resourceClaimTemplateName is the name of a ResourceClaimTemplate in the generator's namespace.
	// +required
	ResourceClaimTemplateName ObjectName `json:"resourceClaimTemplateName"`

	// request of the template (`spec.spec.devices.requests[].name`) that the port's device is of. It may be absent if the template has one
	// request. A request asks for as many devices (`count`) as there are ports that name it, and the ports get them in their order.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Request string `json:"request,omitempty"`
}
