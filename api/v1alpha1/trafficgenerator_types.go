// SPDX-License-Identifier: Apache-2.0

// TrafficGenerator: where traffic is sent from and received at.

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CPUPolicy says how engine pods get their CPUs.
//
// +kubebuilder:validation:Enum=Exclusive;Shared
type CPUPolicy string

const (
	// CPUExclusive gives every worker and the control thread a whole CPU that nothing else runs on.
	CPUExclusive CPUPolicy = "Exclusive"
	// CPUShared takes CPU from the shared pool: for laptops, kind and smoke tests, not for measurement.
	CPUShared CPUPolicy = "Shared"
)

// ControlCPU says where the control thread runs.
//
// +kubebuilder:validation:Enum=Dedicated;Shared
type ControlCPU string

const (
	// ControlDedicated gives the control thread a CPU of its own.
	ControlDedicated ControlCPU = "Dedicated"
	// ControlShared runs the control thread on the last worker's CPU, which then polls adaptively.
	ControlShared ControlCPU = "Shared"
)

// MemoryBacking is what packet memory is made of.
//
// +kubebuilder:validation:Enum=Hugepages2Mi;Hugepages1Gi;Standard
type MemoryBacking string

const (
	// BackingHugepages2Mi are huge pages of 2 MiB.
	BackingHugepages2Mi MemoryBacking = "Hugepages2Mi"
	// BackingHugepages1Gi are huge pages of 1 GiB.
	BackingHugepages1Gi MemoryBacking = "Hugepages1Gi"
	// BackingStandard is memory of standard pages: slower, not for measurement.
	BackingStandard MemoryBacking = "Standard"
)

// PollMode says whether idle workers sleep.
//
// +kubebuilder:validation:Enum=Auto;Busy;Adaptive
type PollMode string

const (
	// PollAuto polls without pause where a worker has a CPU of its own (`cpuPolicy: Exclusive`) and no kernel-backed port, else adaptively.
	PollAuto PollMode = "Auto"
	// PollBusy never sleeps.
	PollBusy PollMode = "Busy"
	// PollAdaptive backs off to sleep while nothing is due and nothing arrives.
	PollAdaptive PollMode = "Adaptive"
)

// NamespaceSource says which namespaces are granted something.
//
// +kubebuilder:validation:Enum=Same;All;Selector
type NamespaceSource string

const (
	// NamespacesSame grants the object's own namespace.
	NamespacesSame NamespaceSource = "Same"
	// NamespacesAll grants every namespace.
	NamespacesAll NamespaceSource = "All"
	// NamespacesSelector grants the namespaces with the selected labels.
	NamespacesSelector NamespaceSource = "Selector"
)

// TrafficGeneratorSpec describes a fleet of engine pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.podGroups) || (has(self.replicas) && self.replicas == self.podGroups.map(g, g.replicas).sum())",fieldPath=".replicas",message="with podGroups it must be the sum of their replicas: set it to that, or change the replicas of a group"
// +kubebuilder:validation:XValidation:rule="!has(self.threadsPerCore) || !has(self.cpuPolicy) || self.cpuPolicy == 'Exclusive'",fieldPath=".threadsPerCore",message="only with cpuPolicy: Exclusive: shared CPUs are not assigned by core"
// +kubebuilder:validation:XValidation:rule="!has(self.workerGroups) || !has(self.workers) || self.workerGroups.map(g, g.workers).sum() == self.workers",fieldPath=".workers",message="must be the sum of the workers of workerGroups"
// +kubebuilder:validation:XValidation:rule="!has(self.workerGroups) || self.ports.all(p, self.workerGroups.exists_one(g, p.name in g.ports))",fieldPath=".workerGroups",message="each port must be in exactly one group: add those that are in none, and leave the others in one"
// +kubebuilder:validation:XValidation:rule="!has(self.workerGroups) || self.workerGroups.all(g, g.ports.all(n, self.ports.exists(p, p.name == n)))",fieldPath=".workerGroups",message="a group has a port that is none of spec.ports; correct its name, or leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || !has(self.workers) || !isQuantity(self.memory) || quantity(self.memory).compareTo(quantity('256Mi').add(33554432 * self.workers)) >= 0",fieldPath=".memory",message="must be at least 256Mi and 32Mi for each worker; raise it, or leave it out"
type TrafficGeneratorSpec struct {
	// replicas is the number of engine pods. A run's traffic is divided over all of them: together they send what one would.
	// A change, also by the scale subresource, takes effect when no run uses the generator: runs keep the pods they were admitted to, and
	// until they have ended no other run is admitted (reason ReplicasPending). With podGroups it must be the sum of their replicas, so
	// the scale subresource (`kubectl scale`, autoscalers) cannot change it: it is refused.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Replicas int32 `json:"replicas,omitempty"`

	// ports of each engine pod, 1 to 16.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Ports []GeneratorPort `json:"ports"`

	// workers is the number of sending and receiving threads of each pod: with workerGroups the sum of theirs.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Workers int32 `json:"workers,omitempty"`

	// workerGroups give ports workers of their own: these send and receive on the ports of their group only, and run on the NUMA node of
	// the ports' devices where the pod has CPUs of it. Each port is in exactly one group. Without groups, all workers serve all ports.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	WorkerGroups []WorkerGroup `json:"workerGroups,omitempty"`

	// cpuPolicy says how pods get their CPUs. `Shared` marks the generator as not for measurement.
	// +optional
	// +default="Exclusive"
	CPUPolicy CPUPolicy `json:"cpuPolicy,omitempty"`

	// controlCPU says whether the control thread of each pod (gRPC, metrics) has a CPU of its own: with
	// `cpuPolicy: Exclusive` a pod then requests workers + 1 CPUs, else for workers.
	// +optional
	// +default="Dedicated"
	ControlCPU ControlCPU `json:"controlCPU,omitempty"`

	// threadsPerCore is how many hardware threads (SMT) of a core the engine uses, on nodes with two threads per core. `1` requests twice the
	// CPUs and leaves the other thread of each core idle: each worker gets the whole core. `2` requests an even number of CPUs, all of
	// which may be used. Both are for kubelets that give whole cores to pods (`cpuManagerPolicyOptions: {full-pcpus-only: "true"}`), which refuse pods
	// with an odd number of CPUs. Without it a pod requests just the CPUs it uses. Only with `cpuPolicy: Exclusive`.
	// +optional
	// +kubebuilder:validation:Enum=1;2
	ThreadsPerCore *int32 `json:"threadsPerCore,omitempty"`

	// packetMemory is the memory of packet buffers of each pod.
	// +optional
	// +default={}
	PacketMemory PacketMemory `json:"packetMemory,omitzero"`

	// memory of each pod beside its packet buffers: of the engine itself and of flows (a profile's `maxFlowsPerEngine`). 256Mi and 32Mi
	// for each worker when absent, which is also the minimum.
	// +optional
	Memory MemorySize `json:"memory,omitempty"`

	// pollMode says whether idle workers sleep: `Busy` workers never do, `Adaptive` ones while nothing is due and nothing arrives, and `Auto` is
	// `Busy` for workers with a CPU of their own (`cpuPolicy: Exclusive`) and no kernel-backed port, else `Adaptive`.
	// +optional
	// +default="Auto"
	PollMode PollMode `json:"pollMode,omitempty"`

	// volumes with captures that streams replay, and for connection records.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Volumes []GeneratorVolume `json:"volumes,omitempty"`

	// podTemplate adds metadata and scheduling to the engine pods.
	// +optional
	PodTemplate *EnginePodTemplate `json:"podTemplate,omitempty"`

	// podGroups divide the pods into groups, which entries of profiles name: the clients of an application on the pods of one group, its
	// servers on those of another (`transmitPodGroup`, `receivePodGroup`). The pods of the first group come first in the numbering of all
	// pods, then those of the second, and so on. A pod has the label `spate.dev/pod-group` with the name of its group. Without groups all pods are
	// alike. A change takes effect when no run uses the generator.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	PodGroups []PodGroup `json:"podGroups,omitempty"`

	// image of the engine, the operator's own default when absent; one of those that the operator allows (its --engine-images).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// limits keep traffic from doing harm. A profile that is known to go beyond one is refused with reason LimitExceeded. They hold for
	// active runs too: a run that sends where it is no longer allowed ends with that reason, and a greatest rate is kept to by its engines.
	// +optional
	Limits *Limits `json:"limits,omitempty"`

	// allowedNamespaces says from which namespaces profiles may use the generator.
	// +optional
	// +default={}
	AllowedNamespaces AllowedNamespaces `json:"allowedNamespaces,omitzero"`

	// lease makes an engine stop a run by itself when the operator has not requested that run for this long. When absent, a run
	// without a duration has a lease of 5m, and one with a duration has none: it ends by itself. Reachable engines stop what was left
	// to its lease as soon as the operator sees it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') || duration(self) >= duration('30s')",message="must be at least 30s: after a crash another operator takes over within 15 to 20 s"
	Lease Duration `json:"lease,omitempty"`

	// clockBound states by how much the wall clocks of the pods' nodes differ at most, where PTP keeps them together, such as `1us`; up to
	// 1s. Runs of several pods then start, and measure delays between pods, by these clocks. If the operator measures a larger
	// difference, the run does not start. When absent, runs use clocks that the operator measures itself, without any such requirement.
	// +optional
	ClockBound Duration `json:"clockBound,omitempty"`

	// suspend frees the pods with their devices, CPUs and hugepages while it is true.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// WorkerGroup is some of the workers of every engine pod, and the ports that they serve.
type WorkerGroup struct {
	// name of the group, for messages.
	// +required
	Name EntryName `json:"name"`

	// ports that the group's workers send and receive on, by name.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Ports []PortName `json:"ports"`

	// workers of the group.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Workers int32 `json:"workers"`
}

// PodGroup is a group of a generator's pods.
type PodGroup struct {
	// name of the group.
	// +required
	Name EntryName `json:"name"`

	// replicas is the number of its pods. `spec.replicas` is the sum over all groups.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Replicas int32 `json:"replicas"`

	// nodeSelector holds labels that a node of its pods must have, beside those of the generator's podTemplate. Of a key that both have, the
	// group's value counts.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations of its pods for taints of nodes, beside those of the generator's podTemplate.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// MulticastGroup is a multicast group that a port is a member of.
type MulticastGroup struct {
	// address of the group, such as `239.1.1.1` or `ff0e::1`.
	// +required
	Address IPAddress `json:"address"`

	// sources from which the group's packets are wanted (source-specific multicast); any when absent.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Sources []IPAddress `json:"sources,omitempty"`
}

// GeneratorPort is one port of every engine pod.
type GeneratorPort struct {
	// name of the port: 1 to 15 lower-case letters, digits or '-'. It becomes the interface's name in the pod, so it
	// is neither `eth0` (the pod's primary interface, which is never used) nor `lo`.
	// +required
	// +kubebuilder:validation:XValidation:rule="!(self in ['eth0', 'lo'])",message="eth0 and lo are the pod's own interfaces; choose another name"
	Name PortName `json:"name"`

	// attachment says what the port is connected to.
	// +required
	Attachment PortAttachment `json:"attachment"`

	// lineRate of the port, such as `10Gbps`, if the device does not report it (kernel-backed, loopback and discard ports).
	// Rates in percent need it.
	// +optional
	LineRate BitRate `json:"lineRate,omitempty"`

	// mac is the address of the port: what it sends from, answers for and hears. A device is given it while the engine has it, where it
	// can be; where it cannot, packets are sent from it all the same, and come to it if the device is promiscuous. With several
	// replicas this is the first pod's; each other pod's is higher by 1 than that of the pod before. By default the device's own; a
	// loopback port's is all zeros, a discard port's random.
	// +optional
	MAC MACAddress `json:"mac,omitempty"`

	// addresses of the port with their prefix, such as `198.18.0.1/24`. For these the port answers ARP, neighbor
	// solicitations and pings, and resolves the next hop of packets without an Ethernet destination. With several replicas
	// these are the first pod's; each other pod has addresses that are by 1 higher than those of the pod before.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Addresses []InterfaceAddress `json:"addresses,omitempty"`

	// gateway is the IPv4 next hop, in the subnet of one of the addresses.
	// +optional
	Gateway IPv4Address `json:"gateway,omitempty"`

	// gateway6 is the IPv6 next hop, in the subnet of one of the addresses or link-local.
	// +optional
	Gateway6 IPv6Address `json:"gateway6,omitempty"`

	// multicastGroups that the port receives: it reports its membership by IGMP or MLD, in the version that the querier on its link
	// speaks. The groups of emulated servers are reported without this while a run has them.
	// +optional
	// +listType=map
	// +listMapKey=address
	// +kubebuilder:validation:MaxItems=256
	MulticastGroups []MulticastGroup `json:"multicastGroups,omitempty"`

	// vlan that the port's own packets (ARP, neighbor discovery, pings, IGMP, MLD) are tagged with; untagged when absent. Packets of
	// streams have the tags they are described with.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	VLAN *int32 `json:"vlan,omitempty"`

	// punt hands packets that arrive on the port and match a filter to an interface of the pod.
	// +optional
	Punt *PortPunt `json:"punt,omitempty"`

	// offloads says what the device does of the work on packets of templates, where it can: Auto (the default), that it cuts TCP
	// segments and verifies checksums of TCP on arrival; All, that it completes the checksums of all that is sent, too; None, for
	// a driver that does it wrong, or is faster without.
	// +optional
	Offloads PortOffloads `json:"offloads,omitempty"`

	// acceptAnyMAC gives frames to the flows of templates, and to the port's own station, whatever their destination MAC. By default
	// a frame for another station than the port's or one of its clients' is counted (`otherMAC` of the result) and neither delivered
	// nor answered, so that a device that forwards to a wrong MAC is found out. Packets of streams are measured either way.
	// +optional
	AcceptAnyMAC bool `json:"acceptAnyMAC,omitempty"`

	// receiveTimestamps says whose clock gives the arrival, in nanoseconds, of packets that streams and receivers measure. CPU (the
	// default): the worker's, when it reads them. Device: the NIC's, when it receives them (RTE_ETH_RX_OFFLOAD_TIMESTAMP of DPDK). One-way
	// latency, jitter and inter-arrival times are then without the wait in the receive queue, and the error of the NIC's clock, about half
	// of what reading it takes, is in `latency.clockBound`. Device needs a NIC whose driver has it, in DPDK 22.11 that of mlx5; by others
	// the port is not opened, and the condition Ready says why.
	// +optional
	ReceiveTimestamps ReceiveTimestamps `json:"receiveTimestamps,omitempty"`
}

// ReceiveTimestamps says what stamps the packets that a port receives.
//
// +kubebuilder:validation:Enum=CPU;Device
type ReceiveTimestamps string

const (
	// TimestampsCPU is the worker that reads a packet, by its clock.
	TimestampsCPU ReceiveTimestamps = "CPU"
	// TimestampsDevice is the device, by its clock.
	TimestampsDevice ReceiveTimestamps = "Device"
)

// PortPunt hands packets to an interface of the pod.
type PortPunt struct {
	// filter in the language of pcap-filter(7), such as `tcp port 179`.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Filter string `json:"filter"`

	// interface of the pod, which is made. It sends what is written to it from the port.
	// +required
	// +kubebuilder:validation:XValidation:rule="!(self in ['eth0', 'lo'])",message="eth0 and lo are the pod's own interfaces; choose another name"
	Interface PortName `json:"interface"`
}

// GeneratorVolume is a volume that engines read captures from, and write connection records to: exactly one source.
//
// +kubebuilder:validation:XValidation:rule="!has(self.writable) || !self.writable || has(self.persistentVolumeClaim)",fieldPath=".writable",message="only a persistentVolumeClaim can be written to"
// +kubebuilder:validation:ExactlyOneOf=persistentVolumeClaim;configMap;secret
type GeneratorVolume struct {
	// name that streams call it by.
	// +required
	Name EntryName `json:"name"`

	// persistentVolumeClaim in the generator's namespace.
	// +optional
	PersistentVolumeClaim *ClaimVolume `json:"persistentVolumeClaim,omitempty"`

	// writable lets profiles write connection records to a persistentVolumeClaim. Other volumes are mounted read-only.
	// +optional
	Writable bool `json:"writable,omitempty"`

	// configMap in the generator's namespace: its keys are files.
	// +optional
	ConfigMap *LocalReference `json:"configMap,omitempty"`

	// secret in the generator's namespace: its keys are files.
	// +optional
	Secret *SecretVolume `json:"secret,omitempty"`
}

// ClaimVolume is a volume by a PersistentVolumeClaim.
type ClaimVolume struct {
	// claimName is the name of the PersistentVolumeClaim.
	// +required
	ClaimName ObjectName `json:"claimName"`
}

// SecretVolume is a volume by a Secret.
type SecretVolume struct {
	// secretName is the name of the Secret.
	// +required
	SecretName ObjectName `json:"secretName"`
}

// PortAttachment is exactly one of its fields.
//
// +kubebuilder:validation:ExactlyOneOf=sriov;kernel;bond;memif;resourceClaim;loopback;discard
type PortAttachment struct {
	// sriov attaches the port to a PCI device of a Multus network, such as an SR-IOV virtual function. The NetworkAttachmentDefinition
	// names the device plugin's resource (`k8s.v1.cni.cncf.io/resourceName`).
	// +optional
	SRIOV *SRIOVAttachment `json:"sriov,omitempty"`

	// kernel attaches the port to the kernel interface of a Multus network, through packet sockets (AF_PACKET) or an AF_XDP socket: not for
	// measurement, unless AF_XDP copies nothing. The NetworkAttachmentDefinition names no resource of a device plugin.
	// +optional
	Kernel *KernelAttachment `json:"kernel,omitempty"`

	// bond attaches the port to several links that are one by LACP (IEEE 802.1AX).
	// +optional
	Bond *BondAttachment `json:"bond,omitempty"`

	// memif attaches the port to another process by shared memory (memif), such as VPP in another pod of the same node.
	// +optional
	Memif *MemifAttachment `json:"memif,omitempty"`

	// resourceClaim attaches the port to a device that a driver of Dynamic Resource Allocation gives the pod: a PCI device that is bound to
	// vfio-pci, else a kernel interface.
	// +optional
	ResourceClaim *ResourceClaimAttachment `json:"resourceClaim,omitempty"`

	// loopback receives what it sends, inside the engine.
	// +optional
	Loopback *LoopbackAttachment `json:"loopback,omitempty"`

	// discard drops what it sends and receives nothing.
	// +optional
	Discard *DiscardAttachment `json:"discard,omitempty"`
}

// NetworkReference names a Multus network.
type NetworkReference struct {
	// network is the name of the NetworkAttachmentDefinition.
	// +required
	Network ObjectName `json:"network"`

	// namespace of the NetworkAttachmentDefinition, the generator's own when absent. A generator within a profile has none of another
	// namespace, unless the operator allows that.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// SRIOVAttachment is a PCI device, such as an SR-IOV virtual function.
type SRIOVAttachment struct {
	NetworkReference `json:",inline"`

	// driver of the device. `Userspace` devices belong to the engine alone (vfio-pci). `Bifurcated` ones stay with their kernel driver
	// too, such as mlx5: the pod is then given the capabilities NET_RAW and NET_ADMIN.
	// +optional
	// +default="Userspace"
	Driver NetworkDriver `json:"driver,omitempty"`
}

// SocketFamily is the family of the sockets through which an interface of the kernel is opened.
//
// +kubebuilder:validation:Enum=AFPacket;AFXDP
type SocketFamily string

const (
	// FamilyAFPacket is packet sockets, which every interface has.
	FamilyAFPacket SocketFamily = "AFPacket"
	// FamilyAFXDP is an AF_XDP socket, to which an XDP program redirects what the interface receives.
	FamilyAFXDP SocketFamily = "AFXDP"
)

// KernelAttachment is an interface of the kernel. The pod is given the capabilities NET_RAW and NET_ADMIN, with AFXDP also BPF.
type KernelAttachment struct {
	NetworkReference `json:",inline"`

	// socketFamily is that of the sockets through which the engine opens the interface. AFXDP takes all that the interface receives before
	// the kernel's network stack; it needs Linux 5.9, an interface with one receive queue and no XDP program, and an MTU of at most 3438.
	// What cannot be opened by AFXDP is not opened otherwise: the condition Ready says why.
	// +optional
	// +default="AFPacket"
	SocketFamily SocketFamily `json:"socketFamily,omitempty"`
}

// BondAttachment is several links that are one by LACP (IEEE 802.1AX): this end is active and asks for slow LACPDUs. Packets go to a link
// by their IP addresses and ports, those that are not IP by their MAC addresses. One worker uses the port. All members have the MAC address
// of the port, which is that of the first member when `mac` is absent: virtual functions must be trusted. Their MTU is at most 1500.
type BondAttachment struct {
	// members of the bond.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=8
	Members []BondMember `json:"members,omitempty"`
}

// BondMember is a link of a bond: exactly one of sriov and kernel.
//
// +kubebuilder:validation:ExactlyOneOf=sriov;kernel
// +kubebuilder:validation:XValidation:rule="!has(self.kernel) || !has(self.kernel.socketFamily) || self.kernel.socketFamily == 'AFPacket'",fieldPath=".kernel.socketFamily",message="must be AFPacket in a bond: members of a bond are opened by packet sockets"
type BondMember struct {
	// name of the interface in the pod, which no port and no other member of the generator has, and which is neither `eth0` nor `lo`.
	// +required
	Name PortName `json:"name"`

	// sriov is a PCI device of a Multus network.
	// +optional
	SRIOV *SRIOVAttachment `json:"sriov,omitempty"`

	// kernel is the kernel interface of a Multus network. DPDK before 25.11 does not see that it lost its link: until LACP times out, 90
	// seconds later, packets for it are lost.
	// +optional
	Kernel *KernelAttachment `json:"kernel,omitempty"`
}

// MemifRole says who makes the socket of a shared memory interface.
//
// +kubebuilder:validation:Enum=Server;Client
type MemifRole string

const (
	// MemifServer makes the socket, and waits for its peer.
	MemifServer MemifRole = "Server"
	// MemifClient connects to the socket, again when it was disconnected.
	MemifClient MemifRole = "Client"
)

// MemifAttachment is shared memory with another process. The engine and its peer can read and write each other's memory: whoever can open
// the socket must be trusted like the engine.
type MemifAttachment struct {
	// volume of the generator (`volumes`) that the socket is on: a persistentVolumeClaim of one node, which the peer's pod mounts, too. For
	// either role it must be `writable`.
	// +required
	Volume EntryName `json:"volume"`

	// socket is the path of the socket on the volume, such as `vpp/east.sock`.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$')",message="must be a relative path of letters, digits, '_', '.' and '-', such as vpp/east.sock"
	Socket string `json:"socket"`

	// id of the interface on the socket, the same at both ends.
	// +optional
	// +default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	ID int32 `json:"id,omitempty"`

	// role is `Server`, which makes the socket and waits for the peer, or `Client`, which connects to the peer's, and again when it was
	// disconnected. A client that finds no server within a minute fails.
	// +optional
	// +default="Server"
	Role MemifRole `json:"role,omitempty"`
}

// NetworkDriver says who drives a network device.
//
// +kubebuilder:validation:Enum=Userspace;Bifurcated
type NetworkDriver string

const (
	// DriverUserspace belongs to the engine alone.
	DriverUserspace NetworkDriver = "Userspace"
	// DriverBifurcated stays with its kernel driver, which the engine's works through (mlx5).
	DriverBifurcated NetworkDriver = "Bifurcated"
)

// LoopbackAttachment has no options.
type LoopbackAttachment struct{}

// DiscardAttachment has no options.
type DiscardAttachment struct{}

// PacketMemory is the memory of packet buffers.
//
// +kubebuilder:validation:XValidation:rule="!has(self.size) || !isQuantity(self.size) || !quantity(self.size).isInteger() || quantity(self.size).asInteger() % (has(self.backing) && self.backing == 'Hugepages1Gi' ? 1073741824 : (!has(self.backing) || self.backing == 'Hugepages2Mi' ? 2097152 : 1)) == 0",fieldPath=".size",message="must be a whole number of pages: a multiple of 2Mi, or of 1Gi with backing: Hugepages1Gi"
type PacketMemory struct {
	// size of each pod's packet buffers. By default 128Mi, with backing Hugepages1Gi 1Gi.
	// +optional
	Size MemorySize `json:"size,omitempty"`

	// backing is what the memory is made of: huge pages of `Hugepages2Mi` or `Hugepages1Gi`, which the nodes must have, or `Standard`
	// pages, which are slower and not for measurement.
	// +optional
	// +default="Hugepages2Mi"
	Backing MemoryBacking `json:"backing,omitempty"`
}

// EnginePodTemplate is what may be set of engine pods: their labels and annotations, and a part of a PodSpec. The operator sets the rest.
type EnginePodTemplate struct {
	// metadata that is added to the pods.
	// +optional
	Metadata EnginePodMetadata `json:"metadata,omitzero"`

	// spec of the pods.
	// +optional
	Spec EnginePodSpec `json:"spec,omitzero"`
}

// EnginePodMetadata is metadata of engine pods. Keys of the operator (`spate.dev/...`), of Multus (`k8s.v1.cni.cncf.io/...`) and of
// Kubernetes (`kubernetes.io/...`, `k8s.io/...`) are refused.
//
// +kubebuilder:validation:XValidation:rule="!has(self.labels) || self.labels.all(k, !k.matches('^([^/]*[.])?(spate[.]dev|kubernetes[.]io|k8s[.]io|cni[.]cncf[.]io)/'))",fieldPath=".labels",message="keys of spate.dev, kubernetes.io and k8s.io are set by the operator and Kubernetes"
// +kubebuilder:validation:XValidation:rule="!has(self.annotations) || self.annotations.all(k, !k.matches('^([^/]*[.])?(spate[.]dev|kubernetes[.]io|k8s[.]io|cni[.]cncf[.]io)/'))",fieldPath=".annotations",message="keys of spate.dev, kubernetes.io, k8s.io and k8s.v1.cni.cncf.io are set by the operator and Kubernetes"
type EnginePodMetadata struct {
	// labels of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]string `json:"labels,omitempty"`

	// annotations of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Annotations map[string]string `json:"annotations,omitempty"`
}

// EnginePodSpec is a part of a PodSpec; its fields mean what they mean there.
type EnginePodSpec struct {
	// imagePullSecrets of the engine's image, in the generator's namespace.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// priorityClassName of the pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// runtimeClassName of the pods.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	RuntimeClassName *string `json:"runtimeClassName,omitempty"`

	// schedulerName of the scheduler that places the pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SchedulerName string `json:"schedulerName,omitempty"`

	// nodeSelector holds labels a node must have, beside `kubernetes.io/os: linux` and `kubernetes.io/arch`, which is `amd64` unless the operator's flag
	// `--engine-architecture` has another. With an engine image for another architecture, set `kubernetes.io/arch` here.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// affinity to nodes and pods.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// tolerations for taints of nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// topologySpreadConstraints of the pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
}

// Limits bound what may be sent.
type Limits struct {
	// maxRate bounds the sum over all ports and pods of the generator, over all profiles that run at once. A profile with streams and
	// connections that are known to need more is refused. Each engine keeps to an equal part of maxRate for all that it sends, packets
	// of applications and reflected ones too, and throttles what is beyond it (`throttled` of the result). When maxRate is lowered, active runs
	// go on within it; packets that their streams have not sent at their end are `txDropped`. The parts are equal whatever spec.podGroups are:
	// a profile whose entries need more of the pods of a group than these pods' parts is refused too.
	// +optional
	MaxRate AbsoluteRate `json:"maxRate,omitempty"`

	// allowedDestinations are the prefixes packets may be sent to. When set, packets that are not IP are refused too.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	AllowedDestinations []CIDR `json:"allowedDestinations,omitempty"`

	// allowedPorts are the TCP and UDP destination ports packets may be sent to. When set, packets that are neither
	// TCP nor UDP are refused too.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	AllowedPorts []PortRange `json:"allowedPorts,omitempty"`
}

// AllowedNamespaces grants use to namespaces.
//
// +kubebuilder:validation:XValidation:rule="(has(self.from) && self.from == 'Selector') == has(self.selector)",message="selector is required with from: Selector, and only then"
type AllowedNamespaces struct {
	// from is `Same` (the generator's own namespace), `All`, or `Selector`.
	// +optional
	// +default="Same"
	From NamespaceSource `json:"from,omitempty"`

	// selector chooses namespaces by their labels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// TrafficGeneratorStatus is what is known of the engine pods.
type TrafficGeneratorStatus struct {
	// conditions are Ready, Reconciling, Stalled, MeasurementReady, MachineReady.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec this status was computed from; -1 until the operator has seen the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is the number of engine pods there are.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of engine pods whose engine answers with all ports up.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// selector of the engine pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// pods of the generator.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Pods []GeneratorPodStatus `json:"pods,omitempty"`

	// runs that hold the generator now, as `namespace/name` of each TrafficRun.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Runs []string `json:"runs,omitempty"`

	// engineVersion is the version all engines report; absent while they differ.
	// +optional
	EngineVersion string `json:"engineVersion,omitempty"`
}

// GeneratorPodStatus is what is known of one engine pod.
type GeneratorPodStatus struct {
	// name of the pod.
	// +required
	Name string `json:"name"`

	// podGroup it is in; absent without spec.podGroups.
	// +optional
	PodGroup EntryName `json:"podGroup,omitempty"`

	// node it runs on.
	// +optional
	Node string `json:"node,omitempty"`

	// ip the operator reaches its engine at.
	// +optional
	IP string `json:"ip,omitempty"`

	// phase of the pod, as Kubernetes has it.
	// +optional
	Phase corev1.PodPhase `json:"phase,omitempty"`

	// ready is true when the engine answers and all its ports are up.
	// +required
	Ready bool `json:"ready"`

	// message says why it is not ready.
	// +optional
	Message string `json:"message,omitempty"`

	// timeSource is how the engine keeps time.
	// +optional
	TimeSource string `json:"timeSource,omitempty"`

	// clock is how the wall clock of the pod's node stands to the operator's. Absent while it is not known, as from engines of older
	// releases.
	// +optional
	Clock *PodClock `json:"clock,omitempty"`

	// dpdkVersion the engine was built on.
	// +optional
	DPDKVersion string `json:"dpdkVersion,omitempty"`

	// ports as the engine sees them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Ports []GeneratorPortStatus `json:"ports,omitempty"`

	// preflight is the checks of the machine that the engine runs on, at most 256: findings, then what is unknown, then what is as it
	// should be. Absent until the engine has answered. Facts of the machine are those of the engine's start; a port's link, MTU and
	// line rate are current.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Preflight []PreflightCheck `json:"preflight,omitempty"`
}

// PodClock is how a wall clock stands to the operator's, as exchanges of time stamps with the engine prove. Runs start at one instant and
// one-way delays are corrected whatever the offset is.
type PodClock struct {
	// offset of the clock: by so much it is ahead of the operator's, behind if negative. Rounded, and changed only when it is no longer true.
	// +required
	Offset MeasuredTime `json:"offset"`

	// bound is the maximum error of offset, whatever the network does: `offset: -2.0003s, bound: 500us`.
	// +required
	Bound MeasuredTime `json:"bound"`
}

// PreflightState is the outcome of a check of the machine.
//
// +kubebuilder:validation:Enum=Ok;Unknown;Warning;Error
type PreflightState string

const (
	// PreflightOk means that the check found nothing.
	PreflightOk PreflightState = "Ok"
	// PreflightUnknown means that a fact could not be read; what was observed says which.
	PreflightUnknown PreflightState = "Unknown"
	// PreflightWarning means that the machine may limit or disturb a measurement.
	PreflightWarning PreflightState = "Warning"
	// PreflightError means that the engine cannot work.
	PreflightError PreflightState = "Error"
)

// PreflightCheck is a check of the machine that an engine runs on.
type PreflightCheck struct {
	// check is what is looked for, such as `DeviceOnOtherNUMANode`.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Check string `json:"check"`

	// subject is what is checked: the name of a port, `CPU 2` or `CPUs 2-5`, `packet memory`, `engine` or `node`.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Subject string `json:"subject"`

	// state is Ok, Unknown (a fact could not be read), Warning (the machine may limit or disturb a measurement) or Error (the engine
	// cannot work).
	// +required
	State PreflightState `json:"state"`

	// observed is what was found, for people.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Observed string `json:"observed"`

	// remedy is what to do about a finding, for people; absent where the state is Ok or Unknown.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Remedy string `json:"remedy,omitempty"`
}

// PortOffloads says whether a port's device does a part of the work on packets.
//
// +kubebuilder:validation:Enum=Auto;All;None
type PortOffloads string

const (
	// OffloadsAuto uses what the device offers and is faster than without.
	OffloadsAuto PortOffloads = "Auto"
	// OffloadsAll has the device complete the checksums of all that is sent, too.
	OffloadsAll PortOffloads = "All"
	// OffloadsNone leaves all of the work to the engine.
	OffloadsNone PortOffloads = "None"
)

// PortKind is what an engine found behind a port.
//
// +kubebuilder:validation:Enum=PCI;Kernel;Bond;Memif;Loopback;Discard
type PortKind string

const (
	// PortPCI is a PCI device, such as an SR-IOV virtual function.
	PortPCI PortKind = "PCI"
	// PortKernel is a kernel network interface.
	PortKernel PortKind = "Kernel"
	// PortBond is several devices that are one link by LACP.
	PortBond PortKind = "Bond"
	// PortMemif is shared memory with another process.
	PortMemif PortKind = "Memif"
	// PortLoopback receives what it sends.
	PortLoopback PortKind = "Loopback"
	// PortDiscard drops what it sends.
	PortDiscard PortKind = "Discard"
)

// GeneratorPortStatus is one port as its engine sees it.
type GeneratorPortStatus struct {
	// name of the port.
	// +required
	Name string `json:"name"`

	// kind of the port.
	// +optional
	Kind PortKind `json:"kind,omitempty"`

	// device is the PCI address or the interface's name, those of a bond's members, or the socket of a memif.
	// +optional
	Device string `json:"device,omitempty"`

	// driver that moves its packets.
	// +optional
	Driver string `json:"driver,omitempty"`

	// mac the port sends from.
	// +optional
	MAC string `json:"mac,omitempty"`

	// linkUp is true while the port has a link.
	// +required
	LinkUp bool `json:"linkUp"`

	// lineRate in bits a second, such as `10Gbps`; absent if unknown.
	// +optional
	LineRate string `json:"lineRate,omitempty"`

	// mtu of the device.
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// offloads that are used of the device: `tx-checksum`, `tcp-segmentation`, `rx-checksum`.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Offloads []string `json:"offloads,omitempty"`

	// receiveTimestamps is what stamps the packets that the port receives: CPU or Device.
	// +optional
	ReceiveTimestamps ReceiveTimestamps `json:"receiveTimestamps,omitempty"`

	// timestampBound is the maximum error of the device's time stamps. Rounded up, and changed only when it is no longer true or known
	// several times better. Absent with CPU, and while it is not known.
	// +optional
	TimestampBound MeasuredTime `json:"timestampBound,omitempty"`

	// refused is what the device refused at the engine's start, as a virtual function does that its physical function does not trust: `mac`
	// (another address than its own), `promiscuous` (receiving packets for other addresses).
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	Refused []string `json:"refused,omitempty"`

	// xdp is the state of an AF_XDP socket; absent of other ports.
	// +optional
	XDP *XDPStatus `json:"xdp,omitempty"`

	// bond is the state of a bond's members. The port has a link while at least one of them is in use.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Bond []BondMemberStatus `json:"bond,omitempty"`

	// addresses of the port.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Addresses []string `json:"addresses,omitempty"`

	// gateways of the port and what is known of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Gateways []NeighborStatus `json:"gateways,omitempty"`
}

// XDPCopyMode says whether the kernel copies packets between the memory of a device and that of an AF_XDP socket.
//
// +kubebuilder:validation:Enum=ZeroCopy;Copy
type XDPCopyMode string

const (
	// XDPZeroCopy has the device read and write the engine's packet memory.
	XDPZeroCopy XDPCopyMode = "ZeroCopy"
	// XDPCopy has the kernel copy every packet.
	XDPCopy XDPCopyMode = "Copy"
)

// XDPStatus is an AF_XDP socket as its engine sees it.
type XDPStatus struct {
	// copyMode is what the driver of the interface and the engine's packet memory allow: `ZeroCopy` needs a driver that supports it, and
	// hugepages.
	// +required
	CopyMode XDPCopyMode `json:"copyMode"`
}

// BondMemberStatus is a member of a bond as LACP sees it. States are the names of the variables that are true (IEEE 802.1AX, 6.4.2.3).
type BondMemberStatus struct {
	// device is the PCI address or the interface's name.
	// +required
	Device string `json:"device"`

	// linkUp is true while the member has a link.
	// +required
	LinkUp bool `json:"linkUp"`

	// inUse is true while packets are received from the member and sent on it.
	// +required
	InUse bool `json:"inUse"`

	// actorState is the state of this end, such as `Activity`, `Aggregation`, `Synchronization`, `Collecting`, `Distributing`.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	ActorState []string `json:"actorState,omitempty"`

	// partnerState is the state of the other end.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	PartnerState []string `json:"partnerState,omitempty"`

	// partnerSystem is the MAC address of the system at the other end; zeros while none has answered.
	// +optional
	PartnerSystem string `json:"partnerSystem,omitempty"`

	// partnerKey is the key of the other end's aggregation.
	// +optional
	PartnerKey int32 `json:"partnerKey,omitempty"`

	// partnerPort is the number of the port at the other end.
	// +optional
	PartnerPort int32 `json:"partnerPort,omitempty"`

	// aggregator is the device of the member that owns the aggregator in use: members of one link report the same.
	// +optional
	Aggregator string `json:"aggregator,omitempty"`
}

// NeighborStatus is a next hop as the engine sees it.
type NeighborStatus struct {
	// address of the next hop.
	// +required
	Address string `json:"address"`

	// mac address it was resolved to; absent while it is not.
	// +optional
	MAC string `json:"mac,omitempty"`

	// message says what keeps it from being resolved.
	// +optional
	Message string `json:"message,omitempty"`
}

// TrafficGenerator is a fleet of engine pods with their ports.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=tg,categories=spate
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.readyReplicas`,description="Pods whose engine is ready"
// +kubebuilder:printcolumn:name="Want",type=integer,JSONPath=`.spec.replicas`,description="Desired pods"
// +kubebuilder:printcolumn:name="Measurement",type=string,JSONPath=`.status.conditions[?(@.type=="MeasurementReady")].status`,description="Whether measurements are free of the generator's own limits"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.status.conditions[?(@.type=="MachineReady")].status`,priority=1,description="Whether the preflight of the pods' machines found nothing"
// +kubebuilder:printcolumn:name="Runs",type=string,JSONPath=`.status.runs`,priority=1
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.status.engineVersion`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50",fieldPath=".metadata",message="metadata.name must be at most 50 characters: pods and certificates are named after it"
type TrafficGenerator struct {
	metav1.TypeMeta `json:",inline"`

	// metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what is wanted.
	// +required
	Spec TrafficGeneratorSpec `json:"spec"`

	// status is what is there.
	// +optional
	// +default={"observedGeneration": -1}
	Status TrafficGeneratorStatus `json:"status,omitzero"`
}

// TrafficGeneratorList is a list of TrafficGenerators.
//
// +kubebuilder:object:root=true
type TrafficGeneratorList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// +required
	Items []TrafficGenerator `json:"items"`
}
