// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of Spate: definitions of traffic, the generators that send it, and the results of runs.
//
// It has types only; the comment of each field is also its reference documentation.
//
// +kubebuilder:object:generate=true
// +groupName=spate.dev
// +groupGoName=Spate
package v1alpha1
