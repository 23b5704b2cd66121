// SPDX-License-Identifier: Apache-2.0

// Package ports answers: which ports does a generator have, with which addresses in each pod, and at which line rate?
package ports

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/quantity"
)

// Ports answers questions about a generator's ports.
type Ports struct {
	generator *spatev1.TrafficGenerator
	// Engines is the number of engines.
	Engines int64
}

// Of returns the ports of a generator.
func Of(generator *spatev1.TrafficGenerator) Ports {
	return Ports{generator: generator, Engines: int64(max(generator.Spec.Replicas, 1))}
}

// Find returns a port; nil if the generator has none of this name.
func (p Ports) Find(name string) *spatev1.GeneratorPort {
	for i := range p.generator.Spec.Ports {
		if string(p.generator.Spec.Ports[i].Name) == name {
			return &p.generator.Spec.Ports[i]
		}
	}
	return nil
}

// Group returns the worker group of a port; nil if all workers serve all ports.
func (p Ports) Group(name spatev1.PortName) *spatev1.WorkerGroup {
	for i := range p.generator.Spec.WorkerGroups {
		if group := &p.generator.Spec.WorkerGroups[i]; slices.Contains(group.Ports, name) {
			return group
		}
	}
	return nil
}

// Names returns the names of all ports, joined.
func (p Ports) Names() string {
	names := make([]string, len(p.generator.Spec.Ports))
	for i, port := range p.generator.Spec.Ports {
		names[i] = string(port.Name)
	}
	return strings.Join(names, ", ")
}

// Pods are consecutive pods of a generator.
type Pods struct{ First, Count int64 }

// EnginesOf returns the engines of a group's pods as a plan has them; nil for no group, which means all.
func (p Ports) EnginesOf(group spatev1.EntryName) *enginev1.Engines {
	pods, known := p.Pods(group)
	if group == "" || !known {
		return nil
	}
	return &enginev1.Engines{First: uint32(pods.First), Count: uint32(pods.Count)}
}

// Pods returns the pods of a group, or all pods for no group; false if the generator has no such group.
func (p Ports) Pods(group spatev1.EntryName) (Pods, bool) {
	if group == "" {
		return Pods{Count: p.Engines}, true
	}
	first := int64(0)
	for _, g := range p.generator.Spec.PodGroups {
		if g.Name == group {
			return Pods{First: first, Count: int64(g.Replicas)}, true
		}
		first += int64(g.Replicas)
	}
	return Pods{}, false
}

// GroupAt returns the group of the pod with an index; nil without groups. Pods that are left over, while a generator has more of them than
// its spec, count with the last group.
func GroupAt(spec *spatev1.TrafficGeneratorSpec, index int) *spatev1.PodGroup {
	for i := range spec.PodGroups {
		if index -= int(spec.PodGroups[i].Replicas); index < 0 || i == len(spec.PodGroups)-1 {
			return &spec.PodGroups[i]
		}
	}
	return nil
}

// UnknownGroup reports a group of pods that the generator does not have.
func (p Ports) UnknownGroup(group spatev1.EntryName, at *field.Path) (problems problem.Problems) {
	if _, known := p.Pods(group); known {
		return nil
	}
	if len(p.generator.Spec.PodGroups) == 0 {
		problems.Add(spatev1.ReasonInvalidSpec, at, "%q: generator %s has no spec.podGroups; add them there, or leave it out", group, p.generator.Name)
		return problems
	}
	names := make([]string, len(p.generator.Spec.PodGroups))
	for i, g := range p.generator.Spec.PodGroups {
		names[i] = string(g.Name)
	}
	problems.Add(spatev1.ReasonInvalidSpec, at, "%q is none of the spec.podGroups of generator %s; it has %s", group, p.generator.Name, strings.Join(names, ", "))
	return problems
}

// OverEngines returns the words for how many engines a port's numbers are summed over.
func OverEngines(count int64) string {
	if count == 1 {
		return ""
	}
	return fmt.Sprintf(" on %d pods", count)
}

// Internal reports whether a port sends only to the engine itself.
func Internal(port *spatev1.GeneratorPort) bool {
	return port.Attachment.Loopback != nil || port.Attachment.Discard != nil
}

// LineRate returns a port's line rate on each engine: from the spec, or else as all engines report it; nil if it is not
// known.
func (p Ports) LineRate(name string) *big.Rat {
	if port := p.Find(name); port != nil && port.LineRate != "" {
		bits, err := quantity.ParseBitRate(port.LineRate)
		if err != nil {
			return nil // reported by CheckGenerator
		}
		return new(big.Rat).SetUint64(bits)
	}
	reported := ""
	for _, pod := range p.generator.Status.Pods {
		for _, port := range pod.Ports {
			if port.Name != name {
				continue
			}
			if port.LineRate == "" || (reported != "" && reported != port.LineRate) {
				return nil
			}
			reported = port.LineRate
		}
	}
	bits, err := quantity.ParseBitRate(spatev1.BitRate(reported))
	if err != nil {
		return nil
	}
	return new(big.Rat).SetUint64(bits)
}

// LineRateUnknown returns why, and a remedy. Engines may still report it.
func (p Ports) LineRateUnknown(port *spatev1.GeneratorPort) (reason, message string) {
	if !Internal(port) && int32(len(p.generator.Status.Pods)) < max(p.generator.Spec.Replicas, 1) {
		return spatev1.ReasonGeneratorNotReady, fmt.Sprintf(
			"a rate in percent needs the line rate of port %s, which its engines have not reported yet (or set lineRate in the generator's spec.ports)", port.Name)
	}
	return spatev1.ReasonInvalidSpec, fmt.Sprintf(
		"a rate in percent needs the line rate of port %s, which its device does not report, or not the same on all pods; set lineRate in the generator's spec.ports, or use a rate in packets or bits", port.Name)
}

// AddressOf returns a port's address in the pod of a replica, which is 1 higher than in the pod before. It returns
// false if the subnet has no such host address.
func AddressOf(first netip.Prefix, replica int) (netip.Prefix, bool) {
	address := first.Addr()
	for range replica {
		address = address.Next()
	}
	last := address.IsValid() && !first.Contains(address.Next())
	broadcast := last && address.Is4() && first.Bits() < 31 && replica > 0
	return netip.PrefixFrom(address, first.Bits()), address.IsValid() && first.Contains(address) && !broadcast
}

// MACOf returns a port's MAC address in the pod of a replica, which is 1 higher than in the pod before. It returns
// false if it is no unicast address.
func MACOf(first spatev1.MACAddress, replica int) (net.HardwareAddr, bool) {
	address, err := net.ParseMAC(string(first))
	if err != nil || len(address) != 6 || address[0]&1 != 0 {
		return nil, false
	}
	number := binary.BigEndian.Uint64(append([]byte{0, 0}, address...)) + uint64(replica)
	made := binary.BigEndian.AppendUint64(nil, number)
	return made[2:], made[1] == 0 && made[2] == address[0] && number != 0
}

// Missing reports an entry without a port, on a generator that does not have two.
func Missing(generator *spatev1.TrafficGenerator, at *field.Path) (problems problem.Problems) {
	if generator == nil {
		return nil // the missing generator is reported
	}
	problems.Add(spatev1.ReasonInvalidSpec, at.Child("transmitPort"), "is required: generator %s has %s, and only those of a generator with two ports are known by default",
		generator.Name, plural(len(generator.Spec.Ports), "port"))
	return problems
}

func plural(count int, noun string) string {
	if count == 1 {
		return fmt.Sprintf("%d %s", count, noun)
	}
	return fmt.Sprintf("%d %ss", count, noun)
}
