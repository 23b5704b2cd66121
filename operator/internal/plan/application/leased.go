// SPDX-License-Identifier: Apache-2.0

// Which emulated clients have the addresses of a pool?

package application

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// fromClients returns what the plan has of a pool of emulated clients. Whether there are such clients is a question of the profile.
func (p checker) fromClients(a *spatev1.AddressPool, at *field.Path) *enginev1.PoolOfClients {
	for _, other := range []struct {
		name string
		set  bool
	}{
		{"start", a.Start != ""}, {"end", a.End != ""}, {"count", a.Count != nil}, {"portPairOffset", a.PortPairOffset != ""}, {"startMAC", a.StartMAC != ""},
		{"allowMulticast", a.AllowMulticast}, {"gtpu", a.GTPU != nil}, {"vxlan", a.VXLAN != nil}, {"gre", a.GRE != nil}, {"mpls", a.MPLS != nil},
		{"vlans", len(a.VLANs) > 0}, {"gateway", a.Gateway != ""}, {"mirrorVLANs", a.MirrorVLANs},
	} {
		if other.set {
			p.Add(spatev1.ReasonInvalidSpec, at.Child(other.name), "does not go with from: the addresses, MACs and gateways of these clients are their own; leave one of them out")
		}
	}
	switch a.From.Family {
	case "", spatev1.FamilyIPv4, spatev1.FamilyIPv6:
	default:
		p.Add(spatev1.ReasonInvalidSpec, at.Child("from", "family"), "%q: must be IPv4 or IPv6", a.From.Family)
	}
	if a.From.Clients == "" {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("from", "clients"), "is required: the name of an entry of the profile's clients")
	}
	return &enginev1.PoolOfClients{Group: a.From.Clients, Ipv6: a.From.Family == spatev1.FamilyIPv6}
}
