// SPDX-License-Identifier: Apache-2.0

// What does a plan need to know about a generator?

package plan

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

// CheckGenerator reports what is wrong with a TrafficGenerator's spec.
func CheckGenerator(spec *spatev1.TrafficGeneratorSpec) Problems {
	return checkGenerator(spec, field.NewPath("spec"))
}

func checkGenerator(spec *spatev1.TrafficGeneratorSpec, at *field.Path) Problems {
	var problems Problems
	for i, port := range spec.Ports {
		problems.onLink(&spec.Ports[i], at.Child("ports").Index(i))
		if _, err := ParseBitRate(port.LineRate); port.LineRate != "" && err != nil {
			problems.add(spatev1.ReasonInvalidSpec, at.Child("ports").Index(i).Child("lineRate"), "%q: %v", port.LineRate, err)
		}
	}
	if _, err := EngineRate(spec.Limits, max(1, int(spec.Replicas))); err != nil {
		problems.add(spatev1.ReasonInvalidSpec, at.Child("limits", "maxRate"), "%q: %v", spec.Limits.MaxRate, err)
	}
	problems.punts(spec, at.Child("ports"))
	problems.portMACs(spec, at.Child("ports"))
	if len(problems) == 0 && spec.Replicas > 1 {
		problems.replicaAddresses(spec, at.Child("ports"))
	}
	return problems
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

// portMACs reports replicas whose ports cannot have MAC addresses of their own.
func (p *Problems) portMACs(spec *spatev1.TrafficGeneratorSpec, at *field.Path) {
	taken := map[string]string{}
	for i := range spec.Ports {
		port, at := &spec.Ports[i], at.Index(i).Child("mac")
		for replica := range max(1, int(spec.Replicas)) {
			if port.MAC == "" {
				break
			}
			address, ok := MACOf(port.MAC, replica)
			if !ok {
				p.add(spatev1.ReasonInvalidSpec, at, "%q: must be the MAC address of a station, such as 02:00:00:00:00:01, with %d behind it for the other replicas", port.MAC, max(1, spec.Replicas)-1)
				break
			}
			if other := taken[address.String()]; other != "" {
				p.add(spatev1.ReasonInvalidSpec, at, "%s: the pod of replica %d would have %s, which is that of %s; leave room for %d replicas", port.MAC, replica, address, other, max(1, spec.Replicas))
				break
			}
			taken[address.String()] = fmt.Sprintf("port %s in the pod of replica %d", port.Name, replica)
		}
	}
}

// replicaAddresses reports replicas whose ports cannot have addresses of their own.
func (p *Problems) replicaAddresses(spec *spatev1.TrafficGeneratorSpec, at *field.Path) {
	taken := map[netip.Addr]string{}
	for i := range spec.Ports {
		for _, gateway := range []string{string(spec.Ports[i].Gateway), string(spec.Ports[i].Gateway6)} {
			if address, err := netip.ParseAddr(gateway); err == nil {
				taken[address] = fmt.Sprintf("the gateway of port %s", spec.Ports[i].Name)
			}
		}
	}
	for i := range spec.Ports {
		for j, text := range spec.Ports[i].Addresses {
			at := at.Index(i).Child("addresses").Index(j)
			first := netip.MustParsePrefix(string(text)) // valid, or onLink has reported it
			for replica := range int(spec.Replicas) {
				address, ok := AddressOf(first, replica)
				if !ok {
					p.add(spatev1.ReasonInvalidSpec, at, "%s: the pod of replica %d would have the address %d behind it, and its subnet has no such; use a lower address, or a larger subnet", text, replica, replica)
					break
				}
				if other := taken[address.Addr()]; other != "" {
					p.add(spatev1.ReasonInvalidSpec, at, "%s: the pod of replica %d would have %s, which is that of %s; leave room for %d replicas", text, replica, address.Addr(), other, spec.Replicas)
					break
				}
				taken[address.Addr()] = fmt.Sprintf("port %s in the pod of replica %d", spec.Ports[i].Name, replica)
			}
		}
	}
}

// punts checks the interfaces that are created for ports.
func (p *Problems) punts(spec *spatev1.TrafficGeneratorSpec, at *field.Path) {
	taken := map[spatev1.PortName]string{}
	for i := range spec.Ports {
		taken[spec.Ports[i].Name] = fmt.Sprintf("port %s has it in the pod", spec.Ports[i].Name)
	}
	for i := range spec.Ports {
		port, at := &spec.Ports[i], at.Index(i).Child("punt")
		if port.Punt == nil {
			continue
		}
		if port.Attachment.Loopback != nil || port.Attachment.Discard != nil {
			p.add(spatev1.ReasonInvalidSpec, at, "nobody else sends to a loopback or discard port; leave it out, or attach the port to a network")
		}
		if by := taken[port.Punt.Interface]; by != "" {
			p.add(spatev1.ReasonInvalidSpec, at.Child("interface"), "%q is taken: %s; choose another name", port.Punt.Interface, by)
		}
		taken[port.Punt.Interface] = fmt.Sprintf("the punt of port %s makes it", port.Name)
	}
}

// onLink checks a port's addresses on its link.
func (p *Problems) onLink(port *spatev1.GeneratorPort, at *field.Path) {
	var subnets []netip.Prefix
	for i, text := range port.Addresses {
		prefix, err := netip.ParsePrefix(string(text))
		if err != nil {
			p.add(spatev1.ReasonInvalidSpec, at.Child("addresses").Index(i), "%q: must be an address with its prefix such as 198.18.0.1/24", text)
			continue
		}
		subnets = append(subnets, prefix)
	}
	within := func(text, name string) {
		gateway, err := netip.ParseAddr(text)
		switch {
		case text == "":
		case err != nil || gateway.Is4() != (name == "gateway"):
			p.add(spatev1.ReasonInvalidSpec, at.Child(name), "%q: must be an address of its family", text)
		case gateway.Is6() && gateway.IsLinkLocalUnicast() && slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return s.Addr().Is6() }):
		case !slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return s.Contains(gateway) }):
			p.add(spatev1.ReasonInvalidSpec, at.Child(name), "%s is in the subnet of none of the port's addresses", text)
		}
	}
	within(string(port.Gateway), "gateway")
	within(string(port.Gateway6), "gateway6")
	if port.VLAN != nil && len(port.Addresses) == 0 {
		p.add(spatev1.ReasonInvalidSpec, at.Child("vlan"), "tags what the port sends for its addresses, and it has none; streams bring their own tags")
	}
}

// Granted reports whether a namespace with these labels may use a generator.
func Granted(generator *spatev1.TrafficGenerator, namespace string, namespaceLabels map[string]string) (bool, error) {
	if generator.Namespace == namespace {
		return true, nil
	}
	switch grant := generator.Spec.AllowedNamespaces; grant.From {
	case spatev1.NamespacesAll:
		return true, nil
	case spatev1.NamespacesSelector:
		selector, err := metav1.LabelSelectorAsSelector(grant.Selector)
		if err != nil {
			return false, fmt.Errorf("spec.allowedNamespaces.selector: %w", err)
		}
		return selector.Matches(labels.Set(namespaceLabels)), nil
	}
	return false, nil
}

// ports answers questions about a generator's ports.
type ports struct {
	generator *spatev1.TrafficGenerator
	// engines is the number of engines.
	engines int64
}

func newPorts(generator *spatev1.TrafficGenerator) ports {
	return ports{generator: generator, engines: int64(max(generator.Spec.Replicas, 1))}
}

func (p ports) find(name string) *spatev1.GeneratorPort {
	for i := range p.generator.Spec.Ports {
		if string(p.generator.Spec.Ports[i].Name) == name {
			return &p.generator.Spec.Ports[i]
		}
	}
	return nil
}

func (p ports) names() string {
	names := make([]string, len(p.generator.Spec.Ports))
	for i, port := range p.generator.Spec.Ports {
		names[i] = string(port.Name)
	}
	return strings.Join(names, ", ")
}

// overEngines returns the words for how many engines a port's numbers are summed over.
func (p ports) overEngines() string {
	if p.engines == 1 {
		return ""
	}
	return fmt.Sprintf(" on %d pods", p.engines)
}

// internal reports whether a port sends only to the engine itself.
func internal(port *spatev1.GeneratorPort) bool {
	return port.Attachment.Loopback != nil || port.Attachment.Discard != nil
}

// lineRate returns a port's line rate on each engine: from the spec, or else as all engines report it; nil if it is not
// known.
func (p ports) lineRate(name string) *big.Rat {
	if port := p.find(name); port != nil && port.LineRate != "" {
		bits, err := ParseBitRate(port.LineRate)
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
	bits, err := ParseBitRate(spatev1.BitRate(reported))
	if err != nil {
		return nil
	}
	return new(big.Rat).SetUint64(bits)
}

// lineRateUnknown returns why, and a remedy. Engines may still report it.
func (p ports) lineRateUnknown(port *spatev1.GeneratorPort) (reason, message string) {
	if !internal(port) && int32(len(p.generator.Status.Pods)) < max(p.generator.Spec.Replicas, 1) {
		return spatev1.ReasonGeneratorNotReady, fmt.Sprintf(
			"a rate in percent needs the line rate of port %s, which its engines have not told yet (or set lineRate in the generator's spec.ports)", port.Name)
	}
	return spatev1.ReasonInvalidSpec, fmt.Sprintf(
		"a rate in percent needs the line rate of port %s, which its device does not tell, or not the same on all pods; set lineRate in the generator's spec.ports, or use a rate in packets or bits", port.Name)
}
