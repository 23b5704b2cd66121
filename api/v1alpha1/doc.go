// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the API of Spate: what traffic is, where it is sent from, and what came of it.
//
// Types only; the meaning of every field is in its comment, which is also its reference documentation.
//
// +kubebuilder:object:generate=true
// +groupName=spate.dev
// +groupGoName=Spate
package v1alpha1
