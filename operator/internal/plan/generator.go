// SPDX-License-Identifier: Apache-2.0

// Is the specification of a generator valid, and which namespaces may use it?

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/load"
	"spate.dev/operator/internal/plan/ports"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/quantity"
)

// maxClockBound is the maximum of spec.clockBound: clocks that differ by more are not kept together.
const maxClockBound = time.Second

// CheckGenerator reports what is wrong with a TrafficGenerator's spec.
func CheckGenerator(spec *spatev1.TrafficGeneratorSpec) problem.Problems {
	return checkGenerator(spec, field.NewPath("spec"))
}

func checkGenerator(spec *spatev1.TrafficGeneratorSpec, at *field.Path) problem.Problems {
	var problems problem.Problems
	check := checker{&problems}
	for i, port := range spec.Ports {
		check.onLink(&spec.Ports[i], at.Child("ports").Index(i))
		if _, err := quantity.ParseBitRate(port.LineRate); port.LineRate != "" && err != nil {
			problems.Add(spatev1.ReasonInvalidSpec, at.Child("ports").Index(i).Child("lineRate"), "%q: %v", port.LineRate, err)
		}
		check.timestamps(&spec.Ports[i], at.Child("ports").Index(i).Child("receiveTimestamps"))
	}
	if _, err := load.EngineRate(spec.Limits, max(1, int(spec.Replicas))); err != nil {
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("limits", "maxRate"), "%q: %v", spec.Limits.MaxRate, err)
	}
	if bound, err := spec.ClockBound.Parse(); spec.ClockBound != "" && (err != nil || bound <= 0 || bound > maxClockBound) {
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("clockBound"), "%q must be a duration of more than 0s and at most %s, such as 1us", spec.ClockBound, maxClockBound)
	}
	taken := check.bonds(spec, at.Child("ports"))
	check.memifs(spec, at.Child("ports"))
	check.punts(spec, at.Child("ports"), taken)
	check.routers(spec, at.Child("ports"), taken)
	check.portMACs(spec, at.Child("ports"))
	check.groupSizes(spec, at)
	if len(problems) == 0 && spec.Replicas > 1 {
		check.replicaAddresses(spec, at.Child("ports"))
	}
	return problems
}

// groupSizes reports groups that do not add up to the replicas.
func (p checker) groupSizes(spec *spatev1.TrafficGeneratorSpec, at *field.Path) {
	if len(spec.PodGroups) == 0 {
		return
	}
	sum := int32(0)
	for i, g := range spec.PodGroups {
		p.AtLeastOne(int64(g.Replicas), at.Child("podGroups").Index(i).Child("replicas"))
		sum += g.Replicas
	}
	if sum != spec.Replicas {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("replicas"), "with podGroups it must be the sum of their replicas, which is %d: set it to that, or change the replicas of a group", sum)
	}
}

// timestamps reports a port whose packets no device can stamp. Whether a driver can, its engine finds out.
func (p checker) timestamps(port *spatev1.GeneratorPort, at *field.Path) {
	if port.ReceiveTimestamps == spatev1.TimestampsDevice && port.Attachment.SRIOV == nil && port.Attachment.ResourceClaim == nil {
		p.Add(spatev1.ReasonInvalidSpec, at, "Device is for NICs that DPDK drives (attachment.sriov and attachment.resourceClaim): set it to CPU, or attach the port to such a device")
	}
}

// portMACs reports replicas whose ports cannot have MAC addresses of their own.
func (p checker) portMACs(spec *spatev1.TrafficGeneratorSpec, at *field.Path) {
	taken := map[string]string{}
	for i := range spec.Ports {
		port, at := &spec.Ports[i], at.Index(i).Child("mac")
		for replica := range max(1, int(spec.Replicas)) {
			if port.MAC == "" {
				break
			}
			address, ok := ports.MACOf(port.MAC, replica)
			if !ok {
				p.Add(spatev1.ReasonInvalidSpec, at, "%q: must be the MAC address of a station, such as 02:00:00:00:00:01, with %d behind it for the other replicas", port.MAC, max(1, spec.Replicas)-1)
				break
			}
			if other := taken[address.String()]; other != "" {
				p.Add(spatev1.ReasonInvalidSpec, at, "%s: the pod of replica %d would have %s, which is that of %s; leave room for %d replicas", port.MAC, replica, address, other, max(1, spec.Replicas))
				break
			}
			taken[address.String()] = fmt.Sprintf("port %s in the pod of replica %d", port.Name, replica)
		}
	}
}

// replicaAddresses reports replicas whose ports cannot have addresses of their own.
func (p checker) replicaAddresses(spec *spatev1.TrafficGeneratorSpec, at *field.Path) {
	taken := map[netip.Addr]string{}
	for i := range spec.Ports {
		for _, gateway := range []string{string(spec.Ports[i].Gateway), string(spec.Ports[i].Gateway6)} {
			if address, err := netip.ParseAddr(gateway); err == nil {
				taken[address] = fmt.Sprintf("the gateway of port %s", spec.Ports[i].Name)
			}
		}
		for _, neighbor := range neighborsOf(spec.Ports[i].Routing) {
			if address, err := netip.ParseAddr(string(neighbor)); err == nil {
				taken[address] = fmt.Sprintf("a neighbor of port %s", spec.Ports[i].Name)
			}
		}
	}
	for i := range spec.Ports {
		for j, text := range spec.Ports[i].Addresses {
			at := at.Index(i).Child("addresses").Index(j)
			first := netip.MustParsePrefix(string(text)) // valid, or onLink has reported it
			for replica := range int(spec.Replicas) {
				address, ok := ports.AddressOf(first, replica)
				if !ok {
					p.Add(spatev1.ReasonInvalidSpec, at, "%s: the pod of replica %d would have the address %d behind it, and its subnet has no such; use a lower address, or a larger subnet", text, replica, replica)
					break
				}
				if other := taken[address.Addr()]; other != "" {
					p.Add(spatev1.ReasonInvalidSpec, at, "%s: the pod of replica %d would have %s, which is that of %s; leave room for %d replicas", text, replica, address.Addr(), other, spec.Replicas)
					break
				}
				taken[address.Addr()] = fmt.Sprintf("port %s in the pod of replica %d", spec.Ports[i].Name, replica)
			}
		}
	}
}

// bonds checks that each member of a bond has an interface of its own. It returns who has each interface of the pod.
func (p checker) bonds(spec *spatev1.TrafficGeneratorSpec, at *field.Path) map[spatev1.PortName]string {
	taken := map[spatev1.PortName]string{"eth0": "it is the pod's own interface", "lo": "it is the pod's own interface"}
	for i := range spec.Ports {
		taken[spec.Ports[i].Name] = fmt.Sprintf("port %s has it in the pod", spec.Ports[i].Name)
	}
	for i := range spec.Ports {
		bond := spec.Ports[i].Attachment.Bond
		if bond == nil {
			continue
		}
		for j, m := range bond.Members {
			if by := taken[m.Name]; by != "" {
				p.Add(spatev1.ReasonInvalidSpec, at.Index(i).Child("attachment", "bond", "members").Index(j).Child("name"), "%q is taken: %s; choose another name", m.Name, by)
			}
			taken[m.Name] = fmt.Sprintf("a member of port %s has it in the pod", spec.Ports[i].Name)
		}
	}
	return taken
}

// maxSocketPath is the length of a socket's path in bytes (sun_path of sockaddr_un, unix(7)).
const maxSocketPath = 107

// memifs checks that sockets are on volumes that they can be on, each for one port.
func (p checker) memifs(spec *spatev1.TrafficGeneratorSpec, at *field.Path) {
	type end struct {
		path string
		id   int32
	}
	taken := map[end]spatev1.PortName{}
	roles := map[string]spatev1.MemifRole{}
	for i := range spec.Ports {
		memif, at := spec.Ports[i].Attachment.Memif, at.Index(i).Child("attachment", "memif")
		if memif == nil {
			continue
		}
		v := slices.IndexFunc(spec.Volumes, func(v spatev1.GeneratorVolume) bool { return v.Name == memif.Volume })
		path := ports.MemifSocket(memif)
		switch {
		case v < 0:
			p.Add(spatev1.ReasonInvalidSpec, at.Child("volume"), "%q is none of spec.volumes; add it there, with a persistentVolumeClaim", memif.Volume)
		case spec.Volumes[v].PersistentVolumeClaim == nil:
			p.Add(spatev1.ReasonInvalidSpec, at.Child("volume"), "%q is no persistentVolumeClaim, and only on such a socket can be; use another volume", memif.Volume)
		case !spec.Volumes[v].Writable: // DPDK's driver refuses a client where it cannot write, too
			p.Add(spatev1.ReasonInvalidSpec, at.Child("volume"), "%q is not writable, as it must be at either end of a socket; set writable of the volume", memif.Volume)
		case memif.Role == spatev1.MemifServer && spec.Replicas > 1:
			p.Add(spatev1.ReasonInvalidSpec, at.Child("role"), "%d pods cannot make one socket; set replicas: 1, or make a generator for each", spec.Replicas)
		}
		if len(path) > maxSocketPath {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("socket"), "its path in the pod, %s, has %d bytes, and a socket's has at most %d; use shorter names", path, len(path), maxSocketPath)
		}
		if role := roles[path]; role != "" && role != memif.Role {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("role"), "%s is the socket of a %s already; use another socket", memif.Socket, role)
		}
		if by := taken[end{path, memif.ID}]; by != "" {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("id"), "%d on %s is that of port %s; choose another id", memif.ID, memif.Socket, by)
		}
		taken[end{path, memif.ID}], roles[path] = spec.Ports[i].Name, memif.Role
	}
}

// punts checks the interfaces that are created for ports, beside those that are taken.
func (p checker) punts(spec *spatev1.TrafficGeneratorSpec, at *field.Path, taken map[spatev1.PortName]string) {
	for i := range spec.Ports {
		port, at := &spec.Ports[i], at.Index(i).Child("punt")
		if port.Punt == nil {
			continue
		}
		if port.Attachment.Loopback != nil || port.Attachment.Discard != nil {
			p.Add(spatev1.ReasonInvalidSpec, at, "no other station sends to a loopback or discard port; leave it out, or attach the port to a network")
		}
		if by := taken[port.Punt.Interface]; by != "" {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("interface"), "%q is taken: %s; choose another name", port.Punt.Interface, by)
		}
		taken[port.Punt.Interface] = fmt.Sprintf("the punt of port %s makes it", port.Name)
	}
}

// onLink checks a port's addresses on its link.
func (p checker) onLink(port *spatev1.GeneratorPort, at *field.Path) {
	var subnets []netip.Prefix
	for i, text := range port.Addresses {
		prefix, err := netip.ParsePrefix(string(text))
		if err != nil {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("addresses").Index(i), "%q: must be an address with its prefix such as 198.18.0.1/24", text)
			continue
		}
		subnets = append(subnets, prefix)
	}
	within := func(text, name string) {
		gateway, err := netip.ParseAddr(text)
		switch {
		case text == "":
		case err != nil || gateway.Is4() != (name == "gateway"):
			p.Add(spatev1.ReasonInvalidSpec, at.Child(name), "%q: must be an address of its family", text)
		case gateway.Is6() && gateway.IsLinkLocalUnicast() && slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return s.Addr().Is6() }):
		case !slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return s.Contains(gateway) }):
			p.Add(spatev1.ReasonInvalidSpec, at.Child(name), "%s is in the subnet of none of the port's addresses: correct it, or give the port an address of its subnet", text)
		}
	}
	within(string(port.Gateway), "gateway")
	within(string(port.Gateway6), "gateway6")
	p.memberships(port, at.Child("multicastGroups"))
	if port.VLAN != nil && len(port.Addresses) == 0 && len(port.MulticastGroups) == 0 {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("vlan"), "tags what the port sends for its addresses and groups, and it has none; streams bring their own tags")
	}
}

// memberships checks the multicast groups that a port receives.
func (p checker) memberships(port *spatev1.GeneratorPort, at *field.Path) {
	if len(port.MulticastGroups) > 0 && (port.Attachment.Loopback != nil || port.Attachment.Discard != nil) {
		p.Add(spatev1.ReasonInvalidSpec, at, "nobody else is on the link of a loopback or discard port; leave it out, or attach the port to a network")
	}
	for i, group := range port.MulticastGroups {
		at := at.Index(i)
		address, err := netip.ParseAddr(string(group.Address))
		if err != nil || !isReported(address) {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("address"), "%q: must be a multicast address, in 224.0.0.0/4 or ff00::/8, and not 224.0.0.1, ff02::1 or of a scope within a host, which no host reports", group.Address)
			continue
		}
		for j, text := range group.Sources {
			source, err := netip.ParseAddr(string(text))
			host := source.IsGlobalUnicast() || source.IsLinkLocalUnicast()
			if err != nil || source.Is4() != address.Is4() || !host {
				p.Add(spatev1.ReasonInvalidSpec, at.Child("sources").Index(j), "%q: must be the address of a host, of the group's family", text)
			}
		}
	}
}

// isReported says whether hosts report that they are members of a group (RFC 3376 section 6, RFC 3810 section 6).
func isReported(group netip.Addr) bool {
	switch {
	case !group.IsMulticast() || group.Zone() != "" || group.Is4In6():
		return false
	case group.Is4():
		return group != netip.AddrFrom4([4]byte{224, 0, 0, 1})
	default:
		return !group.IsInterfaceLocalMulticast() && group.As16()[1]&15 != 0 && group != netip.IPv6LinkLocalAllNodes()
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
