// SPDX-License-Identifier: Apache-2.0

// Which template does an entry of a profile run?

package application

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

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
		return Expand(inline), ""
	}
	return nil, ""
}

// origin is the field of a template that its programs are made from; empty if they are written.
func origin(source *spatev1.TemplateSource) string {
	at := field.NewPath("spec", "source")
	switch {
	case source.Pcap != nil:
		at = at.Child("pcap")
	case source.HTTP != nil:
		at = at.Child("http")
	case source.DNS != nil:
		at = at.Child("dns")
	case source.Payload != nil:
		at = at.Child("payload")
	default:
		return ""
	}
	return at.String()
}
