// SPDX-License-Identifier: Apache-2.0

// What does a run keep of its groups of emulated clients, and its plan have of them?

package plan

import (
	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/clients"
)

// ClientGroupDigest returns the digest of a group in a run's definitions, by which later changes are detected.
func ClientGroupDigest(spec *spatev1.ClientGroupSpec) string { return digest(*spec) }

// clientsOf returns which group each entry of a profile names.
func clientsOf(profile *spatev1.TrafficProfile) (all []spatev1.ClientsSnapshot) {
	for i := range profile.Spec.Clients {
		e := &profile.Spec.Clients[i]
		all = append(all, spatev1.ClientsSnapshot{Name: e.Name, Group: e.GroupRef.Name})
	}
	return all
}

// planned returns what the plan has of groups.
func planned(groups []clients.Group) (all []*enginev1.ClientGroup) {
	for i := range groups {
		all = append(all, groups[i].Made)
	}
	return all
}
