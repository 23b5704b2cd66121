// SPDX-License-Identifier: Apache-2.0

// Which pods of a generator send, and which have servers?

package plan

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/ports"
)

// podGroups checks the groups of pods that entries name.
func (p checker) podGroups(profile *spatev1.TrafficProfile, generator *spatev1.TrafficGenerator) {
	// Engines begin the flows of all clients in one row, and send all streams of a port by one schedule: each is for the same engines.
	var streams, clients naming
	for i := range profile.Spec.Traffic {
		e, at := &profile.Spec.Traffic[i], spec.Child("traffic").Index(i)
		p.podGroupsOf(e, at, generator)
		switch {
		case e.Stream != nil:
			streams.note(e, at)
		case e.Application != nil && e.TransmitPort != "":
			clients.note(e, at)
		}
	}
	p.allOrNone(streams, "streams")
	p.allOrNone(clients, "entries with clients")
}

// podGroupsOf checks the groups of one entry.
func (p checker) podGroupsOf(e *spatev1.TrafficEntry, at *field.Path, generator *spatev1.TrafficGenerator) {
	transmits, receives := at.Child("transmitPodGroup"), at.Child("receivePodGroup")
	portless := e.TransmitPort == "" && e.ReceivePort == "" // reported by itself
	switch {
	case e.TransmitPodGroup != "" && e.TransmitPort == "" && !portless:
		p.Add(spatev1.ReasonInvalidSpec, transmits, "is of what transmitPort sends, and only receivePort is set: set transmitPort, or leave it out")
	case e.ReceivePodGroup != "" && e.Stream != nil:
		p.Add(spatev1.ReasonInvalidSpec, receives, "is of an application's servers: packets of a stream are counted in whichever pod they arrive; leave it out")
	case e.ReceivePodGroup != "" && e.ReceivePort == "" && !portless:
		p.Add(spatev1.ReasonInvalidSpec, receives, "is of servers at receivePort, and only transmitPort is set: set receivePort, or leave it out")
	}
	if generator == nil {
		return // reported once for the profile
	}
	all := ports.Of(generator)
	*p.Problems = append(*p.Problems, all.UnknownGroup(e.TransmitPodGroup, transmits)...)
	*p.Problems = append(*p.Problems, all.UnknownGroup(e.ReceivePodGroup, receives)...)
}

// naming is the first entry of a kind that names the group of pods that send, and the first that does not.
type naming struct {
	named, unnamed *spatev1.TrafficEntry
	at             *field.Path
}

func (n *naming) note(e *spatev1.TrafficEntry, at *field.Path) {
	switch {
	case e.TransmitPodGroup != "" && n.named == nil:
		n.named = e
	case e.TransmitPodGroup == "" && n.unnamed == nil:
		n.unnamed, n.at = e, at
	}
}

func (p checker) allOrNone(n naming, what string) {
	if n.named != nil && n.unnamed != nil {
		p.Add(spatev1.ReasonInvalidSpec, n.at.Child("transmitPodGroup"), "entry %s names none and is on all pods, and entry %s is on group %s: of a profile's %s name a group for all or for none",
			n.unnamed.Name, n.named.Name, n.named.TransmitPodGroup, what)
	}
}
