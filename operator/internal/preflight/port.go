// SPDX-License-Identifier: Apache-2.0

package preflight

// This file answers: do the ports and their devices carry what the engine can send?

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/quantity"
)

// onMedium are the ports that a medium is behind: loopback and discard ports have no device, and shared memory has no rate.
func (f facts) onMedium() []*enginev1.PortInfo {
	media := []enginev1.PortKind{enginev1.PortKind_PORT_KIND_PCI, enginev1.PortKind_PORT_KIND_KERNEL, enginev1.PortKind_PORT_KIND_BOND}
	return slices.DeleteFunc(slices.Clone(f.info.GetPorts()), func(p *enginev1.PortInfo) bool { return !slices.Contains(media, p.Kind) })
}

func (f facts) port(name string) *enginev1.PortInfo {
	for _, p := range f.info.GetPorts() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

func linkDown(f facts) (found []finding) {
	for _, p := range f.onMedium() {
		if p.LinkUp {
			found = append(found, ok(p.Name, "the link is up"))
			continue
		}
		found = append(found, finding{p.Name, spatev1.PreflightError, "there is no link",
			"connect the port, and set the other end of the link up; of a virtual function, its physical function and its link state too (ip link set DEVICE vf NUMBER state auto)"})
	}
	return found
}

func lineRateUnknown(f facts) (found []finding) {
	for _, p := range f.onMedium() {
		switch {
		case p.LineRateBps > 0:
			found = append(found, ok(p.Name, quantity.FormatRate(new(big.Rat).SetInt(new(big.Int).SetUint64(p.LineRateBps)), "bps")))
		case !p.LinkUp:
			found = append(found, unknown(p.Name, "there is no link"))
		default:
			found = append(found, warning(p.Name, "the device reports no line rate",
				"set spec.ports[].lineRate of the port: rates in percent need it, and nothing else keeps a run within it"))
		}
	}
	return found
}

// frameOverhead is the Ethernet header with the FCS, in bytes, which the size of a packet includes and the MTU does not.
const frameOverhead = 18

func mtuBelow1500(f facts) (found []finding) {
	for _, p := range f.onMedium() {
		observed := fmt.Sprintf("the MTU is %d", p.Mtu)
		switch {
		case p.Mtu == 0:
			found = append(found, unknown(p.Name, "the engine reports no MTU"))
		case p.Mtu < 1500:
			found = append(found, warning(p.Name, observed, fmt.Sprintf(
				"raise the MTU of the network (in its NetworkAttachmentDefinition; of a virtual function, that of its physical function), or send packets of at most %d bytes", p.Mtu+frameOverhead)))
		default:
			found = append(found, ok(p.Name, observed))
		}
	}
	return found
}

func bondMemberUnused(f facts) (found []finding) {
	for _, p := range f.info.GetPorts() {
		for _, m := range p.BondMembers {
			subject := p.Name + " (" + m.Device + ")"
			switch {
			case m.InUse && m.Aggregator == p.BondMembers[0].Aggregator:
				found = append(found, ok(subject, "LACP has the link in use"))
			case m.InUse:
				found = append(found, warning(subject, fmt.Sprintf("it is a link of its own: the other end is %s with key %d", m.PartnerSystem, m.PartnerKey),
					"let all links of the bond end in one aggregation (port channel) of one switch, or of switches that act as one"))
			case !m.LinkUp:
				found = append(found, warning(subject, "there is no link", "connect it, and set the other end of the link up; packets of its flows are lost until LACP notices (90 s), where the driver does not report the link"))
			default:
				found = append(found, warning(subject, fmt.Sprintf("LACP does not use the link: this end is %s, the other, %s, is %s",
					strings.Join(m.ActorState, "+"), m.PartnerSystem, strings.Join(m.PartnerState, "+")),
					"let the other end aggregate the link by LACP (mode active); virtual functions need a physical function that lets LACPDUs pass to them (01:80:C2:00:00:02), and trust"))
			}
		}
	}
	return found
}

func functionNotTrusted(f facts) (found []finding) {
	for _, p := range f.info.GetPorts() {
		if p.Kind != enginev1.PortKind_PORT_KIND_PCI && p.Kind != enginev1.PortKind_PORT_KIND_BOND {
			continue
		}
		if len(p.Refused) == 0 {
			found = append(found, ok(p.Name, "the device takes MAC address and promiscuous mode"))
			continue
		}
		found = append(found, warning(p.Name, "the device refused: "+strings.Join(p.Refused, ", "),
			"trust the virtual function (ip link set PF vf NUMBER trust on; trust: \"on\" in the NetworkAttachmentDefinition of sriov), or use its own MAC address alone: packets for other addresses do not arrive, and those from other addresses may be dropped (spoofchk)"))
	}
	return found
}

func queuesFewerThanWorkers(f facts) (found []finding) {
	for _, p := range f.info.GetPorts() {
		if p.Kind != enginev1.PortKind_PORT_KIND_PCI { // others have one queue
			continue
		}
		rx, tx, workers := len(p.RxWorkers), len(p.TxWorkers), int(cmp.Or(p.Workers, f.info.Workers))
		observed := fmt.Sprintf("%d receive and %d transmit queues for %s", rx, tx, count(workers, "worker"))
		if p.MaxTxQueues > 0 {
			observed += fmt.Sprintf("; the device has %d and %d", p.MaxRxQueues, p.MaxTxQueues)
		}
		if fewest := min(rx, tx); fewest < workers {
			field := "spec.workers"
			if len(f.spec.WorkerGroups) > 0 {
				field = "workers of the port's group (spec.workerGroups)"
			}
			found = append(found, warning(p.Name, observed, fmt.Sprintf(
				"set %s to %d, or use a device with %d queues (a virtual function has those that its physical function's driver gives it)", field, max(fewest, 1), workers)))
			continue
		}
		found = append(found, ok(p.Name, observed))
	}
	return found
}

// timestampsNotByDevice looks at ports with receiveTimestamps: Device. An engine that is started with it refuses devices without time stamps;
// one that was started before, and is replaced when no run uses it, reports whether its successor will.
func timestampsNotByDevice(f facts) (found []finding) {
	for i := range f.spec.Ports {
		name := string(f.spec.Ports[i].Name)
		p := f.port(name)
		if p == nil || f.spec.Ports[i].ReceiveTimestamps != spatev1.TimestampsDevice {
			continue
		}
		switch {
		case p.ReceiveTimestamps == enginev1.ReceiveTimestamps_RECEIVE_TIMESTAMPS_UNSPECIFIED:
			found = append(found, unknown(name, "the engine is of an older release, which reports no time stamps"))
		case !p.OffersTimestamps:
			found = append(found, finding{name, spatev1.PreflightError, fmt.Sprintf("driver %s gives received packets no time stamps by a clock that can be read", p.Driver),
				"set spec.ports[].receiveTimestamps of the port to CPU, or attach it to a NIC whose driver has both (in DPDK 22.11 that of mlx5)"})
		case p.ReceiveTimestamps != enginev1.ReceiveTimestamps_RECEIVE_TIMESTAMPS_DEVICE:
			found = append(found, warning(name, "the engine was started with time stamps of the CPU",
				"let the runs that use the generator end: its pods are then replaced"))
		case p.TimestampBoundNs == 0:
			found = append(found, warning(name, "the device's clock is not known: it does not count, or is read again after a step",
				"look at the engine's log; if this stays, set spec.ports[].receiveTimestamps of the port to CPU"))
		default:
			found = append(found, ok(name, fmt.Sprintf("the device stamps packets (driver %s)", p.Driver)))
		}
	}
	return found
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func deviceOnOtherNUMANode(f facts) (found []finding) {
	for _, d := range f.machine.GetPciDevices() {
		found = append(found, f.nodeOfDevice(d))
	}
	return found
}

func (f facts) nodeOfDevice(d *enginev1.PciDevice) finding {
	if f.oneNode() {
		return ok(d.Port, "the machine has one NUMA node")
	}
	p := f.port(d.Port)
	workers, err := f.cpusByNode(slices.Concat(p.GetTxWorkers(), p.GetRxWorkers()))
	if err != nil {
		return unknown(d.Port, err.Error())
	}
	of, err := numbers(d.NumaNode)
	switch {
	case err != nil:
		return unknown(d.Port, err.Error())
	case len(of) == 0:
		return unknown(d.Port, fmt.Sprintf("the kernel knows no NUMA node of device %s", d.Address))
	}
	observed := fmt.Sprintf("device %s on %s, %s", d.Address, nodes(of), byNode(workers))
	for node := range workers {
		if node != of[0] {
			remedy := "let the kubelet take CPUs and devices of a pod from one NUMA node (topologyManagerPolicy: single-numa-node)"
			if len(workers) == 1 {
				remedy += ", or attach a network with devices of " + nodes([]uint32{node})
			}
			if len(f.spec.WorkerGroups) > 0 {
				remedy = "let the kubelet give the pod CPUs of " + nodes(of) + " too (cpuManagerPolicyOptions: distribute-cpus-across-numa), and put ports whose devices are on different nodes into different spec.workerGroups"
			}
			return warning(d.Port, observed, remedy)
		}
	}
	return ok(d.Port, observed)
}

func pcieLinkDegraded(f facts) (found []finding) {
	for _, d := range f.machine.GetPciDevices() {
		l, err := link(d.Link)
		if err != nil {
			found = append(found, unknown(d.Port, err.Error()))
			continue
		}
		current, best := lanes(l.CurrentWidth, l.CurrentGtps), lanes(l.MaxWidth, l.MaxGtps)
		observed := current
		if current != best {
			observed += "; the device can do " + best
		}
		if l.Function != d.Address {
			observed += " (its physical function " + l.Function + ")"
		}
		if l.CurrentWidth < l.MaxWidth || l.CurrentGtps < l.MaxGtps {
			found = append(found, warning(d.Port, observed, fmt.Sprintf(
				"put the card into a slot with %s, reseat it, and look at the slot's settings in the machine's firmware (bifurcation, link speed)", best)))
			continue
		}
		found = append(found, ok(d.Port, observed))
	}
	return found
}

// lanes describes a PCI Express link, such as "x8 at 16 GT/s".
func lanes(width uint32, gtps float64) string {
	return fmt.Sprintf("x%d at %s GT/s", width, strconv.FormatFloat(gtps, 'f', -1, 64))
}

// throughIOMMU says of the kernel's drivers that leave a device to the engine whether the IOMMU bounds what the device reaches.
var throughIOMMU = map[string]bool{"vfio-pci": true, "uio_pci_generic": false, "igb_uio": false}

func noIOMMU(f facts) (found []finding) {
	for _, d := range f.machine.GetPciDevices() {
		driver, err := text(d.KernelDriver)
		if err != nil {
			found = append(found, unknown(d.Port, err.Error()))
			continue
		}
		through, left := throughIOMMU[driver]
		if !left { // a kernel driver keeps the device
			continue
		}
		domain, err := text(d.Iommu)
		const remedy = "turn the IOMMU on in the machine's firmware and the kernel (kernel arguments iommu=pt and, of Intel, intel_iommu=on), and bind the device to vfio-pci: without, the device can write to all memory of the node"
		switch {
		case !through:
			found = append(found, warning(d.Port, fmt.Sprintf("driver %s, which uses no IOMMU", driver), remedy))
		case err != nil:
			found = append(found, unknown(d.Port, err.Error()))
		case domain == "none":
			found = append(found, warning(d.Port, fmt.Sprintf("driver %s without an IOMMU", driver), remedy))
		default:
			found = append(found, ok(d.Port, fmt.Sprintf("driver %s, IOMMU domain %s", driver, domain)))
		}
	}
	return found
}
