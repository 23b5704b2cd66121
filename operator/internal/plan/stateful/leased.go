// SPDX-License-Identifier: Apache-2.0

// Can flows come from the emulated clients that templates name?

package stateful

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/clients"
	"spate.dev/operator/internal/plan/ports"
	"spate.dev/operator/internal/plan/problem"
)

// CheckLeased reports pools of emulated clients that a profile does not have on the entry's port, or that have no such addresses.
func CheckLeased(entries []Entry, profile *spatev1.TrafficProfile, groups []clients.Group, generator *spatev1.TrafficGenerator) (problems problem.Problems) {
	for i := range entries {
		e := &entries[i]
		if e.Template == nil || e.spec.TransmitPort == "" {
			continue
		}
		for j := range e.Template.Clients {
			if pool := &e.Template.Clients[j]; pool.From != nil {
				e.leased(pool, profile, groups, generator, &problems)
			}
		}
	}
	return problems
}

// leased checks one pool.
func (e *Entry) leased(pool *application.Pool, profile *spatev1.TrafficProfile, groups []clients.Group, generator *spatev1.TrafficGenerator, problems *problem.Problems) {
	from := pool.At.Child("from")
	wrong := func(at *field.Path, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if e.spec.Application.TemplateRef != nil {
			problems.Add(spatev1.ReasonInvalidSpec, e.sourceAt, "%s: %s", e.says(at), text)
		} else {
			problems.Add(spatev1.ReasonInvalidSpec, at, "%s", text)
		}
	}
	name := spatev1.EntryName(pool.From.Group)
	g := clients.Find(groups, name)
	if g == nil {
		for i := range profile.Spec.Clients {
			if profile.Spec.Clients[i].Name == name {
				return // what is wrong with it is reported by itself
			}
		}
		wrong(from.Child("clients"), "%q is no entry of the profile's spec.clients; add one, or correct the name", name)
		return
	}
	switch v4 := g.Of.IPv4; {
	case g.Spec.Port != e.spec.TransmitPort:
		wrong(from.Child("clients"), "clients %s are on port %s, and those of the entry on %s; set transmitPort to the former, or use other clients", name, g.Spec.Port, e.spec.TransmitPort)
	case e.spec.TransmitPodGroup != "":
		problems.Add(spatev1.ReasonInvalidSpec, e.At.Child("transmitPodGroup"), "all pods have some of clients %s, which %s names; leave it out", name, e.says(from))
	case len(g.Of.VLANs) > 0:
		wrong(from.Child("clients"), "ClientGroup %q of clients %s has spec.vlans, from which no flows come yet; use a group without", g.Spec.GroupRef.Name, name)
	case pool.From.Ipv6 && g.Of.IPv6 == nil:
		wrong(from.Child("family"), "ClientGroup %q of clients %s has no spec.ipv6; set it there, or family: IPv4", g.Spec.GroupRef.Name, name)
	case !pool.From.Ipv6 && v4 == nil:
		wrong(from.Child("family"), "ClientGroup %q of clients %s has spec.ipv6 only; set spec.ipv4 there, or family: IPv6", g.Spec.GroupRef.Name, name)
	case !pool.From.Ipv6 && v4.Static != nil && v4.Static.Gateway == "":
		wrong(from.Child("clients"), "clients %s have no gateway to send to; set spec.ipv4.static.gateway of ClientGroup %q", name, g.Spec.GroupRef.Name)
	case generator != nil && hasVLAN(generator, e.spec.TransmitPort):
		wrong(from.Child("clients"), "port %s of generator %s has a vlan, which clients do not use; leave it out there, or use another port", e.spec.TransmitPort, generator.Name)
	}
}

func hasVLAN(generator *spatev1.TrafficGenerator, name spatev1.PortName) bool {
	port := ports.Of(generator).Find(string(name))
	return port != nil && port.VLAN != nil
}
