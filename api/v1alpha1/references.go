// SPDX-License-Identifier: Apache-2.0

// How objects name one another. A reference to what does not exist (yet) is a condition, never a rejection.

package v1alpha1

// LocalReference names an object in the same namespace.
type LocalReference struct {
	// name of the object.
	Name ObjectName `json:"name"`
}

// GeneratorReference names a TrafficGenerator.
type GeneratorReference struct {
	// name of the TrafficGenerator.
	Name ObjectName `json:"name"`

	// namespace of the TrafficGenerator, the profile's own when absent. A generator elsewhere must grant its use by
	// `spec.allowedNamespaces`.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// DataReference names one key of a ConfigMap or Secret in the same namespace.
//
// +kubebuilder:validation:ExactlyOneOf=configMapName;secretName
type DataReference struct {
	// configMapName is the ConfigMap that holds the data.
	// +optional
	ConfigMapName ObjectName `json:"configMapName,omitempty"`

	// secretName is the Secret that holds the data.
	// +optional
	SecretName ObjectName `json:"secretName,omitempty"`

	// key of the data in it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}
