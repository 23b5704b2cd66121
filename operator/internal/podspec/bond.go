// SPDX-License-Identifier: Apache-2.0

package podspec

// This file answers: what do several links need that are one by LACP?

import (
	"slices"
	"strings"

	spatev1 "spate.dev/api/v1alpha1"
)

// bond is a bond of the engine, by LACP.
type bond struct{ members []attachment }

// bond returns the attachment of a bond.
func (a Attachments) bond(spec *spatev1.BondAttachment) bond {
	var b bond
	for i := range spec.Members {
		m := &spec.Members[i]
		b.members = append(b.members, a.of(&spatev1.GeneratorPort{Name: m.Name, Attachment: spatev1.PortAttachment{SRIOV: m.SRIOV, Kernel: m.Kernel}}))
	}
	return b
}

// device lists the members. Options of a member are separated by semicolons, since commas separate those of the port.
func (b bond) device() string {
	var text strings.Builder
	text.WriteString("bond")
	for _, m := range b.members {
		text.WriteString(",member=" + strings.ReplaceAll(m.device(), ",", ";"))
	}
	return text.String()
}

func (bond) opensDevice() bool { return true }

func (b bond) kernelDriver() bool { return slices.ContainsFunc(b.members, attachment.kernelDriver) }

func (bond) loadsProgram() bool { return false } // members are opened by packet sockets

func (b bond) shared(pods []spatev1.GeneratorPodStatus) string {
	for _, m := range b.members {
		if why := m.shared(pods); why != "" {
			return why
		}
	}
	return ""
}
