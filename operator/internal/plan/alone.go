// SPDX-License-Identifier: Apache-2.0

// Which plan shows whether an engine accepts a template, before any profile uses it?

package plan

import (
	"slices"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/data"
)

// Alone returns a plan with one entry, which runs both sides of the template, if it has them, on ports with networks, or where they
// meet there only, on a loopback port; or why there is none. `contents` has all data that the template names, or is empty.
func Alone(template *spatev1.ASTFTemplate, contents map[spatev1.DataReference][]byte) (p *enginev1.Plan, why string) {
	source := &application.Expand(&template.Spec).Source
	switch {
	case source.Pcap != nil && source.Pcap.Volume != nil:
		return nil, "its capture is on a volume, which only a generator's engines see"
	case usesOthers(source.Programs):
		return nil, "the templates that it switches to, or whose connections it opens, are validated with a profile that runs all of them"
	}
	if slices.ContainsFunc(template.Spec.Pools.Clients, func(pool spatev1.AddressPool) bool { return pool.From != nil }) {
		return nil, "its clients are emulated ones of a profile, with which it is validated"
	}
	const clients, servers, loop, name = "clients", "servers", "loop", "template"
	entry := spatev1.TrafficEntry{Name: name, Application: &spatev1.ApplicationEntry{TemplateRef: &spatev1.LocalReference{Name: spatev1.ObjectName(template.Name)}}}
	if len(template.Spec.Pools.Clients) > 0 && (source.Pcap != nil || source.Programs != nil && len(source.Programs.Client) > 0) {
		entry.TransmitPort = clients
	}
	if source.Pcap != nil || source.Programs != nil && len(source.Programs.Server) > 0 {
		entry.ReceivePort = servers
	}
	if entry.TransmitPort != "" && entry.ReceivePort != "" && slices.ContainsFunc(template.Spec.Pools.Clients, meetsOnOnePort) {
		entry.TransmitPort, entry.ReceivePort = loop, loop
	}
	profile := &spatev1.TrafficProfile{Spec: spatev1.TrafficProfileSpec{
		Generator: &spatev1.TrafficGeneratorSpec{Replicas: 1, Workers: 1, Ports: []spatev1.GeneratorPort{
			{Name: clients, Attachment: spatev1.PortAttachment{Kernel: &spatev1.KernelAttachment{NetworkReference: spatev1.NetworkReference{Network: clients}}}},
			{Name: servers, Attachment: spatev1.PortAttachment{Kernel: &spatev1.KernelAttachment{NetworkReference: spatev1.NetworkReference{Network: servers}}}},
			{Name: loop, Attachment: spatev1.PortAttachment{Loopback: &spatev1.LoopbackAttachment{}}},
		}},
		TrafficDefinition: spatev1.TrafficDefinition{Traffic: []spatev1.TrafficEntry{entry}},
	}}
	profile.Name, profile.Namespace = template.Name, template.Namespace
	in := Input{Profile: profile, Templates: map[string]*spatev1.ASTFTemplate{template.Name: template}, Data: contents}
	for _, ref := range DataReferences(profile, nil, in.Templates) {
		if _, known := contents[ref]; !known {
			return nil, data.NameOf(ref) + " is looked up with a profile"
		}
	}
	resolved, problems := Resolve(in)
	if len(problems) > 0 {
		return nil, "it needs a profile: " + problems.Message()
	}
	return resolved.PlanWithData(Identity{RunID: name, Tag: 1, Profile: name, Namespace: template.Namespace}), ""
}

// meetsOnOnePort reports whether clients of a pool can meet emulated servers only on the loopback port of both.
func meetsOnOnePort(pool spatev1.AddressPool) bool {
	return pool.VXLAN != nil && pool.VXLAN.Mirror
}

func usesOthers(programs *spatev1.Programs) bool {
	switches := func(c spatev1.Command) bool {
		return c.SwitchTemplate != nil || c.OpenConnection != nil || c.NextTemplate != nil
	}
	return programs != nil && (slices.ContainsFunc(programs.Client, switches) || slices.ContainsFunc(programs.Server, switches))
}
