// SPDX-License-Identifier: Apache-2.0

// How objects name one another. A reference to an object that does not exist (yet) is reported as a condition, and never refused.

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
)

// LocalReference names an object in the same namespace.
type LocalReference struct {
	// name of the object.
	// +required
	Name ObjectName `json:"name"`
}

// GeneratorReference names a TrafficGenerator.
type GeneratorReference struct {
	// name of the TrafficGenerator.
	// +required
	Name ObjectName `json:"name"`

	// namespace of the TrafficGenerator, the profile's own when absent. A generator elsewhere must grant its use by
	// `spec.allowedNamespaces`.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// DataSource selects one key of a ConfigMap or of a Secret in the same namespace.
//
// +kubebuilder:validation:ExactlyOneOf=configMapKeyRef;secretKeyRef
// +kubebuilder:validation:XValidation:rule="!has(self.configMapKeyRef) || (has(self.configMapKeyRef.name) && size(self.configMapKeyRef.name) > 0)",fieldPath=".configMapKeyRef.name",message="is required"
// +kubebuilder:validation:XValidation:rule="!has(self.secretKeyRef) || (has(self.secretKeyRef.name) && size(self.secretKeyRef.name) > 0)",fieldPath=".secretKeyRef.name",message="is required"
// +kubebuilder:validation:XValidation:rule="!has(self.configMapKeyRef) || !has(self.configMapKeyRef.optional) || !self.configMapKeyRef.optional",fieldPath=".configMapKeyRef.optional",message="is not supported: the data must exist"
// +kubebuilder:validation:XValidation:rule="!has(self.secretKeyRef) || !has(self.secretKeyRef.optional) || !self.secretKeyRef.optional",fieldPath=".secretKeyRef.optional",message="is not supported: the data must exist"
type DataSource struct {
	// configMapKeyRef selects a key of a ConfigMap.
	// +optional
	ConfigMapKeyRef *corev1.ConfigMapKeySelector `json:"configMapKeyRef,omitempty"`

	// secretKeyRef selects a key of a Secret. Whoever writes it must be allowed to read the Secret.
	// +optional
	SecretKeyRef *corev1.SecretKeySelector `json:"secretKeyRef,omitempty"`
}

// DataKind is a kind of object that holds data.
//
// +kubebuilder:validation:Enum=ConfigMap;Secret
type DataKind string

const (
	// DataConfigMap is a ConfigMap.
	DataConfigMap DataKind = "ConfigMap"
	// DataSecret is a Secret.
	DataSecret DataKind = "Secret"
)

// DataReference names one key of a ConfigMap or of a Secret, as a status has it.
type DataReference struct {
	// kind of the object.
	// +required
	Kind DataKind `json:"kind"`

	// name of the object.
	// +required
	Name ObjectName `json:"name"`

	// key of the data in it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// Reference returns the selected data. The zero value selects none.
func (d *DataSource) Reference() DataReference {
	switch {
	case d == nil:
		return DataReference{}
	case d.SecretKeyRef != nil:
		return DataReference{Kind: DataSecret, Name: ObjectName(d.SecretKeyRef.Name), Key: d.SecretKeyRef.Key}
	case d.ConfigMapKeyRef != nil:
		return DataReference{Kind: DataConfigMap, Name: ObjectName(d.ConfigMapKeyRef.Name), Key: d.ConfigMapKeyRef.Key}
	}
	return DataReference{}
}
