// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

func textFact(value string) *enginev1.TextFact {
	return &enginev1.TextFact{Fact: &enginev1.TextFact_Value{Value: value}}
}

func textUnknown(why string) *enginev1.TextFact {
	return &enginev1.TextFact{Fact: &enginev1.TextFact_Unknown{Unknown: why}}
}

func numbersFact(values ...uint32) *enginev1.NumbersFact {
	return &enginev1.NumbersFact{Fact: &enginev1.NumbersFact_Value{Value: &enginev1.Numbers{Numbers: values}}}
}

func numbersUnknown(why string) *enginev1.NumbersFact {
	return &enginev1.NumbersFact{Fact: &enginev1.NumbersFact_Unknown{Unknown: why}}
}

func linkFact(currentWidth uint32, currentGtps float64) *enginev1.PcieLinkFact {
	return &enginev1.PcieLinkFact{Fact: &enginev1.PcieLinkFact_Value{Value: &enginev1.PcieLink{
		Function: "0000:3b:00.0", CurrentWidth: currentWidth, CurrentGtps: currentGtps, MaxWidth: 16, MaxGtps: 16,
	}}}
}

// sound returns the answer of an engine with two workers, a virtual function and a loopback, on a machine without faults.
func sound() *enginev1.GetInfoResponse {
	cpu := func(number uint32) *enginev1.WorkerCpu {
		return &enginev1.WorkerCpu{Cpu: number, NumaNode: numbersFact(1), Siblings: numbersFact(), Governor: textFact("performance")}
	}
	workers := []uint32{0, 1}
	return &enginev1.GetInfoResponse{
		Workers: 2, HugepageBytes: 128 << 20, TimeSource: "tsc 2.90 GHz (invariant)",
		Ports: []*enginev1.PortInfo{
			{Name: "east", Kind: enginev1.PortKind_PORT_KIND_PCI, LinkUp: true, LineRateBps: 25e9, Mtu: 9000, TxWorkers: workers, RxWorkers: workers, MaxRxQueues: 16, MaxTxQueues: 16},
			{Name: "loop", Kind: enginev1.PortKind_PORT_KIND_LOOPBACK, LinkUp: true, TxWorkers: workers, RxWorkers: workers[:1]},
		},
		Machine: &enginev1.Machine{
			WorkerCpus: []*enginev1.WorkerCpu{cpu(6), cpu(7)}, ControlCpus: []uint32{5}, AllowedCpus: []uint32{5, 6, 7},
			IsolatedCpus: numbersFact(6, 7), NohzFullCpus: numbersFact(), NumaNodes: numbersFact(0, 1), PacketMemoryNodes: numbersFact(1),
			ClockSource: textFact("tsc"), MemlockBytes: &enginev1.BytesFact{Fact: &enginev1.BytesFact_Value{Value: 8 << 20}},
			IpcLock: &enginev1.BoolFact{Fact: &enginev1.BoolFact_Value{Value: true}},
			PciDevices: []*enginev1.PciDevice{{
				Port: "east", Address: "0000:3b:02.1", NumaNode: numbersFact(1), KernelDriver: textFact("vfio-pci"), Iommu: textFact("DMA-FQ"), Link: linkFact(16, 16),
			}},
		},
	}
}

func line(c *spatev1.PreflightCheck) string {
	return fmt.Sprintf("%s | %s | %s | %s", c.Check, c.Subject, c.State, c.Observed)
}

func lines(all []spatev1.PreflightCheck) string {
	var text []string
	for i := range all {
		text = append(text, line(&all[i]))
	}
	return strings.Join(text, "\n")
}

func TestAMachineWithoutFaultsHasNoFindings(t *testing.T) {
	got := lines(Check(&spatev1.TrafficGeneratorSpec{}, sound()))
	want := `LinkDown | east | Ok | the link is up
LineRateUnknown | east | Ok | 25Gbps
MTUBelow1500 | east | Ok | the MTU is 9000
FunctionNotTrusted | east | Ok | the device takes MAC address and promiscuous mode
QueuesFewerThanWorkers | east | Ok | 2 receive and 2 transmit queues for 2 workers; the device has 16 and 16
DeviceOnOtherNUMANode | east | Ok | device 0000:3b:02.1 on node 1, CPUs 6-7 on node 1
PCIeLinkDegraded | east | Ok | x16 at 16 GT/s (its physical function 0000:3b:00.0)
NoIOMMU | east | Ok | driver vfio-pci, IOMMU domain DMA-FQ
PagesOnOtherNUMANode | packet memory | Ok | pages on node 1, CPUs 6-7 on node 1
MemlockLimited | engine | Ok | no limit: it has the capability IPC_LOCK
CPUSharedWithSibling | CPUs 6-7 | Ok | the core has no other thread
CPUNotIsolated | CPUs 6-7 | Ok | isolated: isolcpus
GovernorNotPerformance | CPUs 6-7 | Ok | governor performance
ClockSourceNotTSC | node | Ok | clock source tsc`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestEachCheckFindsItsFault(t *testing.T) {
	type change func(info *enginev1.GetInfoResponse, m *enginev1.Machine)
	const absent = "/sys/x: there is no such file"
	for name, c := range map[string]struct {
		fault  change
		want   string // the check's line
		remedy string // part of the remedy of a finding
	}{
		"no link": {func(i *enginev1.GetInfoResponse, _ *enginev1.Machine) { i.Ports[0].LinkUp = false },
			"LinkDown | east | Error | there is no link", "ip link set DEVICE vf NUMBER state auto"},
		"no line rate": {func(i *enginev1.GetInfoResponse, _ *enginev1.Machine) { i.Ports[0].LineRateBps = 0 },
			"LineRateUnknown | east | Warning | the device reports no line rate", "spec.ports[].lineRate"},
		"no line rate without a link": {func(i *enginev1.GetInfoResponse, _ *enginev1.Machine) {
			i.Ports[0].LinkUp, i.Ports[0].LineRateBps = false, 0
		}, "LineRateUnknown | east | Unknown | there is no link", ""},
		"a small MTU": {func(i *enginev1.GetInfoResponse, _ *enginev1.Machine) { i.Ports[0].Mtu = 1450 },
			"MTUBelow1500 | east | Warning | the MTU is 1450", "packets of at most 1468 bytes"},
		"a function that is not trusted": {func(i *enginev1.GetInfoResponse, _ *enginev1.Machine) {
			i.Ports[0].Refused = []string{"mac", "promiscuous"}
		}, "FunctionNotTrusted | east | Warning | the device refused: mac, promiscuous", "trust on"},
		"a bond's member without a link": {func(i *enginev1.GetInfoResponse, _ *enginev1.Machine) {
			i.Ports[0].BondMembers = []*enginev1.BondMember{{Device: "p0"}}
		}, "BondMemberUnused | east (p0) | Warning | there is no link", "set the other end of the link up"},
		"a bond's member whose other end does not aggregate": {func(i *enginev1.GetInfoResponse, _ *enginev1.Machine) {
			i.Ports[0].BondMembers = []*enginev1.BondMember{{Device: "p0", LinkUp: true, ActorState: []string{"Activity", "Defaulted"}, PartnerSystem: "00:00:00:00:00:00"}}
		}, "BondMemberUnused | east (p0) | Warning | LACP does not use the link: this end is Activity+Defaulted, the other, 00:00:00:00:00:00, is ", "mode active"},
		"a bond of two aggregations": {func(i *enginev1.GetInfoResponse, _ *enginev1.Machine) {
			member := func(name string) *enginev1.BondMember {
				return &enginev1.BondMember{Device: name, LinkUp: true, InUse: true, Aggregator: name, PartnerSystem: "02:00:00:00:00:01", PartnerKey: 7}
			}
			i.Ports[0].BondMembers = []*enginev1.BondMember{member("p0"), member("p1")}
		}, "BondMemberUnused | east (p1) | Warning | it is a link of its own: the other end is 02:00:00:00:00:01 with key 7", "one aggregation"},
		"no MTU": {func(i *enginev1.GetInfoResponse, _ *enginev1.Machine) { i.Ports[0].Mtu = 0 },
			"MTUBelow1500 | east | Unknown | the engine reports no MTU", ""},
		"a kernel interface is judged, too": {func(i *enginev1.GetInfoResponse, _ *enginev1.Machine) {
			i.Ports[0].Kind, i.Ports[0].Mtu = enginev1.PortKind_PORT_KIND_KERNEL, 1400
		}, "MTUBelow1500 | east | Warning | the MTU is 1400", "raise the MTU"},
		"few receive queues": {func(i *enginev1.GetInfoResponse, _ *enginev1.Machine) {
			i.Ports[0].RxWorkers, i.Ports[0].MaxRxQueues = i.Ports[0].RxWorkers[:1], 1
		}, "QueuesFewerThanWorkers | east | Warning | 1 receive and 2 transmit queues for 2 workers; the device has 1 and 16", "set spec.workers to 1"},
		"few transmit queues": {func(i *enginev1.GetInfoResponse, _ *enginev1.Machine) {
			i.Ports[0].TxWorkers = i.Ports[0].TxWorkers[:1]
		},
			"QueuesFewerThanWorkers | east | Warning | 2 receive and 1 transmit queues for 2 workers; the device has 16 and 16", "set spec.workers to 1"},
		"a device of another node": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.PciDevices[0].NumaNode = numbersFact(0) },
			"DeviceOnOtherNUMANode | east | Warning | device 0000:3b:02.1 on node 0, CPUs 6-7 on node 1", "topologyManagerPolicy: single-numa-node"},
		"a worker of another node": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.WorkerCpus[0].NumaNode = numbersFact(0) },
			"DeviceOnOtherNUMANode | east | Warning | device 0000:3b:02.1 on node 1, CPU 6 on node 0, CPU 7 on node 1", "topologyManagerPolicy: single-numa-node"},
		"a device of no known node": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.PciDevices[0].NumaNode = numbersFact() },
			"DeviceOnOtherNUMANode | east | Unknown | the kernel knows no NUMA node of device 0000:3b:02.1", ""},
		"a device of no known node, on a machine with one": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) {
			m.PciDevices[0].NumaNode, m.NumaNodes = numbersFact(), numbersFact(0)
		}, "DeviceOnOtherNUMANode | east | Ok | the machine has one NUMA node", ""},
		"a device whose node cannot be read": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) {
			m.PciDevices[0].NumaNode = numbersUnknown(absent)
		},
			"DeviceOnOtherNUMANode | east | Unknown | " + absent, ""},
		"a worker whose node cannot be read": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) {
			m.WorkerCpus[1].NumaNode = numbersUnknown(absent)
		},
			"DeviceOnOtherNUMANode | east | Unknown | " + absent, ""},
		"few lanes": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.PciDevices[0].Link = linkFact(8, 16) },
			"PCIeLinkDegraded | east | Warning | x8 at 16 GT/s; the device can do x16 at 16 GT/s (its physical function 0000:3b:00.0)", "a slot with x16 at 16 GT/s"},
		"a slow slot": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) {
			m.PciDevices[0].Link, m.PciDevices[0].Address = linkFact(16, 2.5), "0000:3b:00.0"
		}, "PCIeLinkDegraded | east | Warning | x16 at 2.5 GT/s; the device can do x16 at 16 GT/s", "reseat it"},
		"no PCI Express": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) {
			m.PciDevices[0].Link = &enginev1.PcieLinkFact{Fact: &enginev1.PcieLinkFact_Unknown{Unknown: absent}}
		}, "PCIeLinkDegraded | east | Unknown | " + absent, ""},
		"no IOMMU": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.PciDevices[0].Iommu = textFact("none") },
			"NoIOMMU | east | Warning | driver vfio-pci without an IOMMU", "intel_iommu=on"},
		"a driver that uses no IOMMU": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) {
			m.PciDevices[0].KernelDriver = textFact("igb_uio")
		},
			"NoIOMMU | east | Warning | driver igb_uio, which uses no IOMMU", "bind the device to vfio-pci"},
		"an IOMMU that cannot be read": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.PciDevices[0].Iommu = textUnknown(absent) },
			"NoIOMMU | east | Unknown | " + absent, ""},
		"packet memory of another node": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.PacketMemoryNodes = numbersFact(0) },
			"PagesOnOtherNUMANode | packet memory | Warning | pages on node 0, CPUs 6-7 on node 1", "memoryManagerPolicy: Static"},
		"packet memory of two nodes": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.PacketMemoryNodes = numbersFact(0, 1) },
			"PagesOnOtherNUMANode | packet memory | Warning | pages on nodes 0-1, CPUs 6-7 on node 1", "memoryManagerPolicy: Static"},
		"packet memory that is not found": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.PacketMemoryNodes = numbersFact() },
			"PagesOnOtherNUMANode | packet memory | Unknown | no huge pages are in /proc/self/numa_maps", ""},
		"little memory may be locked": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) {
			m.IpcLock = &enginev1.BoolFact{Fact: &enginev1.BoolFact_Value{Value: false}}
		}, "MemlockLimited | engine | Warning | it may lock 8Mi of memory, and packet memory has 128Mi of huge pages", "LimitMEMLOCK=infinity"},
		"enough memory may be locked": {func(i *enginev1.GetInfoResponse, m *enginev1.Machine) {
			m.IpcLock, i.HugepageBytes = &enginev1.BoolFact{Fact: &enginev1.BoolFact_Value{Value: false}}, 8<<20
		}, "MemlockLimited | engine | Ok | it may lock 8Mi of memory, and packet memory has 8Mi of huge pages", ""},
		"a limit that cannot be read": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) {
			m.IpcLock, m.MemlockBytes = nil, &enginev1.BytesFact{Fact: &enginev1.BytesFact_Unknown{Unknown: absent}}
		}, "MemlockLimited | engine | Unknown | " + absent, ""},
		"a sibling of another container": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.WorkerCpus[1].Siblings = numbersFact(71) },
			"CPUSharedWithSibling | CPU 7 | Warning | the other thread of the core is for other containers", "full-pcpus-only"},
		"two workers on one core": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) {
			m.WorkerCpus[0].Siblings, m.WorkerCpus[1].Siblings = numbersFact(7), numbersFact(6)
		}, "CPUSharedWithSibling | CPUs 6-7 | Warning | the other thread of the core is for another worker", "nosmt"},
		"the control thread on a worker's core": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.WorkerCpus[0].Siblings = numbersFact(5) },
			"CPUSharedWithSibling | CPU 6 | Warning | the other thread of the core is for the control thread", "nosmt"},
		"a sibling that nothing uses": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) {
			m.AllowedCpus, m.WorkerCpus[0].Siblings = append(m.AllowedCpus, 70), numbersFact(70)
		}, "CPUSharedWithSibling | CPU 6 | Ok | nothing uses the other thread of the core", ""},
		"siblings that cannot be read": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) {
			m.WorkerCpus[0].Siblings = numbersUnknown(absent)
		},
			"CPUSharedWithSibling | CPU 6 | Unknown | " + absent, ""},
		"a CPU that is not isolated": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.IsolatedCpus = numbersFact(6) },
			"CPUNotIsolated | CPU 7 | Warning | neither isolcpus nor nohz_full has it", "isolcpus=managed_irq,domain,LIST"},
		"a CPU without a tick": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) {
			m.IsolatedCpus, m.NohzFullCpus = numbersUnknown(absent), numbersFact(6, 7)
		}, "CPUNotIsolated | CPUs 6-7 | Ok | isolated: nohz_full", ""},
		"isolation that cannot be read": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.IsolatedCpus = numbersUnknown(absent) },
			"CPUNotIsolated | CPUs 6-7 | Unknown | " + absent, ""},
		"another governor": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) {
			m.WorkerCpus[1].Governor = textFact("powersave")
		},
			"GovernorNotPerformance | CPU 7 | Warning | governor powersave", "cpupower frequency-set"},
		"a frequency that is not scaled": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.WorkerCpus[1].Governor = textFact("") },
			"GovernorNotPerformance | CPU 7 | Ok | the kernel does not scale the frequency", ""},
		"a governor that cannot be read": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.WorkerCpus[1].Governor = textUnknown(absent) },
			"GovernorNotPerformance | CPU 7 | Unknown | " + absent, ""},
		"another clock source": {func(i *enginev1.GetInfoResponse, m *enginev1.Machine) {
			m.ClockSource, i.TimeSource = textFact("hpet"), "clock_gettime (the time stamp counter is not invariant)"
		}, "ClockSourceNotTSC | node | Warning | clock source hpet", "clocksource=tsc"},
		"another clock source, while the engine reads the counter": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.ClockSource = textFact("kvm-clock") },
			"ClockSourceNotTSC | node | Warning | clock source kvm-clock; the engine reads the time stamp counter itself", "hypervisor"},
		"a clock source that cannot be read": {func(_ *enginev1.GetInfoResponse, m *enginev1.Machine) { m.ClockSource = textUnknown(absent) },
			"ClockSourceNotTSC | node | Unknown | " + absent, ""},
		"an engine that reports no machine": {func(i *enginev1.GetInfoResponse, _ *enginev1.Machine) { i.Machine = nil },
			"ClockSourceNotTSC | node | Unknown | the engine does not report it", ""},
	} {
		t.Run(name, func(t *testing.T) {
			info := sound()
			c.fault(info, info.Machine)
			all := Check(&spatev1.TrafficGeneratorSpec{}, info)
			at := slices.IndexFunc(all, func(one spatev1.PreflightCheck) bool { return line(&one) == c.want })
			if at < 0 {
				t.Fatalf("want\n%s\ngot\n%s", c.want, lines(all))
			}
			found := all[at]
			if IsFinding(&found) != (c.remedy != "") || !strings.Contains(found.Remedy, c.remedy) || (found.Remedy != "") != IsFinding(&found) {
				t.Errorf("remedy %q, want %q", found.Remedy, c.remedy)
			}
			if !slices.EqualFunc(Check(&spatev1.TrafficGeneratorSpec{}, info), all, func(a, b spatev1.PreflightCheck) bool { return a == b }) {
				t.Error("equal facts have other results")
			}
		})
	}
}

// grouped returns the answer of an engine with two worker groups: the first has one worker and the port of node 1, the second two and a
// function of node 0.
func grouped() *enginev1.GetInfoResponse {
	info := sound()
	info.Workers = 3
	info.Ports[0].TxWorkers, info.Ports[0].RxWorkers, info.Ports[0].Workers = []uint32{0}, []uint32{0}, 1
	info.Ports[1] = proto.CloneOf(info.Ports[0])
	info.Ports[1].Name, info.Ports[1].TxWorkers, info.Ports[1].RxWorkers, info.Ports[1].Workers = "west", []uint32{1, 2}, []uint32{2, 1}, 2
	m := info.Machine
	m.WorkerCpus = append(m.WorkerCpus, proto.CloneOf(m.WorkerCpus[1]))
	m.WorkerCpus[1].Cpu, m.WorkerCpus[2].Cpu = 2, 3
	m.WorkerCpus[1].NumaNode, m.WorkerCpus[2].NumaNode = numbersFact(0), numbersFact(0)
	m.PciDevices = append(m.PciDevices, proto.CloneOf(m.PciDevices[0]))
	m.PciDevices[1].Port, m.PciDevices[1].NumaNode = "west", numbersFact(0)
	m.PacketMemoryNodes = numbersFact(0, 1)
	return info
}

func TestOfWorkerGroupsThoseThatServeAPortAreJudged(t *testing.T) {
	spec := &spatev1.TrafficGeneratorSpec{WorkerGroups: []spatev1.WorkerGroup{{Name: "a"}, {Name: "b"}}}
	for name, c := range map[string]struct {
		fault  func(info *enginev1.GetInfoResponse)
		want   string
		remedy string
	}{
		"each device with its workers": {func(*enginev1.GetInfoResponse) {}, "DeviceOnOtherNUMANode | west | Ok | device 0000:3b:02.1 on node 0, CPUs 2-3 on node 0", ""},
		"the other":                    {func(*enginev1.GetInfoResponse) {}, "DeviceOnOtherNUMANode | east | Ok | device 0000:3b:02.1 on node 1, CPU 6 on node 1", ""},
		"queues for the group":         {func(*enginev1.GetInfoResponse) {}, "QueuesFewerThanWorkers | west | Ok | 2 receive and 2 transmit queues for 2 workers; the device has 16 and 16", ""},
		"memory on both nodes":         {func(*enginev1.GetInfoResponse) {}, "PagesOnOtherNUMANode | packet memory | Ok | pages on nodes 0-1, CPUs 2-3 on node 0, CPU 6 on node 1", ""},
		"memory on one node": {func(i *enginev1.GetInfoResponse) { i.Machine.PacketMemoryNodes = numbersFact(1) },
			"PagesOnOtherNUMANode | packet memory | Warning | pages on node 1, CPUs 2-3 on node 0, CPU 6 on node 1", "from each NUMA node that its CPUs are on"},
		"a device of another node": {func(i *enginev1.GetInfoResponse) { i.Machine.PciDevices[1].NumaNode = numbersFact(1) },
			"DeviceOnOtherNUMANode | west | Warning | device 0000:3b:02.1 on node 1, CPUs 2-3 on node 0", "distribute-cpus-across-numa"},
		"few queues": {func(i *enginev1.GetInfoResponse) { i.Ports[1].RxWorkers = []uint32{1} },
			"QueuesFewerThanWorkers | west | Warning | 1 receive and 2 transmit queues for 2 workers; the device has 16 and 16", "set workers of the port's group (spec.workerGroups) to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			info := grouped()
			c.fault(info)
			all := Check(spec, info)
			at := slices.IndexFunc(all, func(one spatev1.PreflightCheck) bool { return line(&one) == c.want })
			if at < 0 {
				t.Fatalf("want\n%s\ngot\n%s", c.want, lines(all))
			}
			if found := &all[at]; IsFinding(found) != (c.remedy != "") || !strings.Contains(found.Remedy, c.remedy) {
				t.Errorf("remedy %q, want %q", found.Remedy, c.remedy)
			}
		})
	}
}

func TestADriverWithoutTimeStampsIsFoundWhereThePortIsToHaveThem(t *testing.T) {
	of := func(timestamps spatev1.ReceiveTimestamps) *spatev1.TrafficGeneratorSpec {
		return &spatev1.TrafficGeneratorSpec{Ports: []spatev1.GeneratorPort{{Name: "east", ReceiveTimestamps: timestamps}, {Name: "loop"}, {Name: "later", ReceiveTimestamps: timestamps}}}
	}
	for name, c := range map[string]struct {
		reported *enginev1.PortInfo
		want     string
		remedy   string
	}{
		"none": {&enginev1.PortInfo{Driver: "net_iavf", ReceiveTimestamps: enginev1.ReceiveTimestamps_RECEIVE_TIMESTAMPS_CPU},
			"TimestampsNotByDevice | east | Error | driver net_iavf gives received packets no time stamps by a clock that can be read", "receiveTimestamps of the port to CPU"},
		"an engine from before": {&enginev1.PortInfo{Driver: "mlx5_pci", ReceiveTimestamps: enginev1.ReceiveTimestamps_RECEIVE_TIMESTAMPS_CPU, OffersTimestamps: true},
			"TimestampsNotByDevice | east | Warning | the engine was started with time stamps of the CPU", "pods are then replaced"},
		"a clock that stands": {&enginev1.PortInfo{Driver: "mlx5_pci", ReceiveTimestamps: enginev1.ReceiveTimestamps_RECEIVE_TIMESTAMPS_DEVICE, OffersTimestamps: true},
			"TimestampsNotByDevice | east | Warning | the device's clock is not known: it does not count, or is read again after a step", "the engine's log"},
		"an older engine": {&enginev1.PortInfo{Driver: "mlx5_pci"},
			"TimestampsNotByDevice | east | Unknown | the engine is of an older release, which reports no time stamps", ""},
		"a device that stamps packets": {&enginev1.PortInfo{Driver: "mlx5_pci", ReceiveTimestamps: enginev1.ReceiveTimestamps_RECEIVE_TIMESTAMPS_DEVICE, OffersTimestamps: true, TimestampBoundNs: 420},
			"TimestampsNotByDevice | east | Ok | the device stamps packets (driver mlx5_pci)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			info := sound()
			east := info.Ports[0]
			east.Driver, east.ReceiveTimestamps, east.OffersTimestamps, east.TimestampBoundNs = c.reported.Driver, c.reported.ReceiveTimestamps, c.reported.OffersTimestamps, c.reported.TimestampBoundNs
			all := Check(of(spatev1.TimestampsDevice), info)
			at := slices.IndexFunc(all, func(one spatev1.PreflightCheck) bool { return one.Check == "TimestampsNotByDevice" })
			if at < 0 || line(&all[at]) != c.want || !strings.Contains(all[at].Remedy, c.remedy) || (c.remedy == "") != (all[at].Remedy == "") {
				t.Fatalf("want\n%s\ngot\n%s", c.want, lines(all))
			}
			if asked := strings.Count(lines(all), "TimestampsNotByDevice"); asked != 1 {
				t.Errorf("%d ports are judged, of which the engine has one that is to have time stamps", asked)
			}
			if got := lines(Check(of(spatev1.TimestampsCPU), info)); strings.Contains(got, "TimestampsNotByDevice") {
				t.Error(got)
			}
		})
	}
}

func TestOfSharedCPUsNothingIsExpected(t *testing.T) {
	info := sound()
	info.HugepageBytes = 0
	info.Machine.IsolatedCpus, info.Machine.WorkerCpus[0].Siblings = numbersFact(), numbersFact(99)
	for _, c := range Check(&spatev1.TrafficGeneratorSpec{CPUPolicy: spatev1.CPUShared}, info) {
		if IsFinding(&c) || c.Check == "CPUSharedWithSibling" || c.Check == "CPUNotIsolated" || c.Check == "PagesOnOtherNUMANode" {
			t.Error(line(&c))
		}
	}
}

func TestDevicesThatTheirKernelDriverKeepsNeedNoIOMMU(t *testing.T) {
	info := sound()
	info.Machine.PciDevices[0].KernelDriver, info.Machine.PciDevices[0].Iommu = textFact("mlx5_core"), textFact("none")
	if all := Check(&spatev1.TrafficGeneratorSpec{}, info); strings.Contains(lines(all), "NoIOMMU") {
		t.Error(lines(all))
	}
}

func TestFindingsComeFirstAndAreWithinTheLimitsOfTheAPI(t *testing.T) {
	info := sound()
	info.Machine.ClockSource = textUnknown(strings.Repeat("\u00b5", maxObserved))
	info.Ports[0].Mtu = 68
	for i := range 16 {
		port := proto.Clone(info.Ports[0]).(*enginev1.PortInfo)
		port.Name, port.LinkUp = fmt.Sprint("p", i), i%2 == 0
		device := proto.Clone(info.Machine.PciDevices[0]).(*enginev1.PciDevice)
		device.Port = port.Name
		info.Ports, info.Machine.PciDevices = append(info.Ports, port), append(info.Machine.PciDevices, device)
	}
	for i := range uint32(255) { // each with another observation
		info.Machine.WorkerCpus = append(info.Machine.WorkerCpus, &enginev1.WorkerCpu{
			Cpu: 100 + i, NumaNode: numbersFact(1), Siblings: numbersFact(), Governor: textFact(fmt.Sprint("other", i)),
		})
	}
	all := Check(&spatev1.TrafficGeneratorSpec{}, info)
	if len(all) != maxChecks || all[0].State != spatev1.PreflightError {
		t.Fatalf("%d checks, the first %s", len(all), line(&all[0]))
	}
	if !slices.IsSortedFunc(all, func(a, b spatev1.PreflightCheck) int { return severity[a.State] - severity[b.State] }) {
		t.Error(lines(all))
	}
	for _, c := range all {
		if len(c.Subject) > maxSubject || len(c.Observed) > maxObserved || len(c.Remedy) > maxRemedy || c.Subject == "" || c.Observed == "" {
			t.Errorf("%+v", c)
		}
	}
	seen := map[string]bool{}
	for _, c := range all {
		if key := c.Check + " " + c.Subject; seen[key] {
			t.Errorf("%s is there twice", key)
		} else {
			seen[key] = true
		}
	}
}

func TestEachCheckIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/preflight.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if !strings.Contains(string(page), "\n| `"+c.name+"` |") {
			t.Errorf("docs/preflight.md has no row of %s", c.name)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z0-9]+)` \\|.*\\|.*\\|.*\\|$").FindAllStringSubmatch(string(page), -1) {
		if !slices.ContainsFunc(checks, func(c check) bool { return c.name == row[1] }) {
			t.Errorf("docs/preflight.md has a row of %s, which is no check", row[1])
		}
	}
}

func TestNumbersAreListed(t *testing.T) {
	for want, given := range map[string][]uint32{"CPU 3": {3, 3}, "CPUs 2-5,8": {8, 2, 3, 5, 4}, "CPUs 1,3": {3, 1}} {
		if got := cpus(given); got != want {
			t.Errorf("%v: %s, want %s", given, got, want)
		}
	}
}
