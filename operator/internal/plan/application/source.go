// SPDX-License-Identifier: Apache-2.0

// Which template does an entry of a profile run?

package application

import spatev1 "spate.dev/api/v1alpha1"

// Ref returns the reference to the ASTFTemplate that an entry runs; nil if it runs none, or has it inline.
func Ref(e *spatev1.TrafficEntry) *spatev1.LocalReference {
	if e.Application == nil {
		return nil
	}
	return e.Application.TemplateRef
}

// Source returns the template that an entry runs, and the name of the ASTFTemplate; nil if there is none.
func Source(e *spatev1.TrafficEntry, templates map[string]*spatev1.ASTFTemplate) (source *spatev1.ASTFTemplateSpec, name string) {
	if e.Application == nil {
		return nil, ""
	}
	if ref := e.Application.TemplateRef; ref != nil {
		if found := templates[string(ref.Name)]; found != nil {
			return &found.Spec, string(ref.Name)
		}
		return nil, string(ref.Name)
	}
	if inline := e.Application.Inline; inline != nil {
		return Expand(inline.Template()), ""
	}
	return nil, ""
}
