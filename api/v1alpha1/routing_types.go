// SPDX-License-Identifier: Apache-2.0

// Ports as routers: sessions of BGP, OSPF, RIP and BFD with neighbors on the port's link, and what is known of them.

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PortRouting makes a port a router: BIRD, in a container of its own beside the engine, speaks from the port's addresses on the port's
// link. Sessions come up with the engine pod and outlive runs; a run starts when those of its ports are up. Routes that neighbors send are
// counted, and reach neither the pod's own tables nor packets of streams and flows.
//
// +kubebuilder:validation:XValidation:rule="has(self.bgp) || has(self.ospf) || has(self.rip) || has(self.bfd)",message="has no session; add one to bgp, ospf, rip or bfd, or leave routing out"
// +kubebuilder:validation:XValidation:rule="((has(self.bgp) ? self.bgp.map(s, s.name) : []) + (has(self.ospf) ? self.ospf.map(s, s.name) : []) + (has(self.rip) ? self.rip.map(s, s.name) : []) + (has(self.bfd) ? self.bfd.map(s, s.name) : [])).all(n, ((has(self.bgp) ? self.bgp.map(s, s.name) : []) + (has(self.ospf) ? self.ospf.map(s, s.name) : []) + (has(self.rip) ? self.rip.map(s, s.name) : []) + (has(self.bfd) ? self.bfd.map(s, s.name) : [])).exists_one(m, m == n))",message="two sessions have one name; each of the port's sessions, whatever its protocol, needs a name of its own"
type PortRouting struct {
	// routerID of the port, such as `10.99.0.1`: by default its first IPv4 address; required without one. With several replicas this is
	// the first pod's; each other pod's is higher by 1 than that of the pod before.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '0.0.0.0'",message="0.0.0.0 is no router ID; set another number"
	RouterID IPv4Address `json:"routerID,omitempty"`

	// bgp has sessions of BGP-4 (RFC 4271), one for each neighbor.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	BGP []BGPSession `json:"bgp,omitempty"`

	// ospf has sessions of OSPF on the port's link, one of each version.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	OSPF []OSPFSession `json:"ospf,omitempty"`

	// rip has sessions of RIP on the port's link, one of each version.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	RIP []RIPSession `json:"rip,omitempty"`

	// bfd has sessions of BFD (RFC 5881) that no other protocol uses; those of a session of BGP are in its own `bfd`.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	BFD []BFDSession `json:"bfd,omitempty"`
}

// SessionName names a session of a port; it is a label of metrics.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=40
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be lower-case letters, digits or '-', start and end with a letter or digit"
type SessionName string

// BGPSession is a session of BGP-4 (RFC 4271) with one neighbor.
type BGPSession struct {
	// name of the session, which no other session of the port has.
	// +required
	Name SessionName `json:"name"`

	// localAS is the port's autonomous system.
	// +required
	LocalAS ASNumber `json:"localAS"`

	// neighbor is the other end.
	// +required
	Neighbor BGPNeighbor `json:"neighbor"`

	// families of the routes that are exchanged (RFC 4760); by default that of the neighbor's address. The port needs an address of
	// each.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Families []RouteFamily `json:"families,omitempty"`

	// bfd ends the session as soon as BFD (RFC 5882) notices that the neighbor does not answer.
	// +optional
	BFD *BFDTimers `json:"bfd,omitempty"`

	// passwordFrom has the key of TCP's MD5 signatures (RFC 2385).
	// +optional
	PasswordFrom *PasswordSource `json:"passwordFrom,omitempty"`

	// holdTime is the time without a message after which the session ends, in whole seconds: 3s to 65535s, or 0s for never.
	// +optional
	// +default="90s"
	HoldTime Duration `json:"holdTime,omitempty"`

	// multihop is the number of hops to a neighbor that is not on the link, which is reached through the port's gateway.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	Multihop *int32 `json:"multihop,omitempty"`

	// passive waits for the neighbor to connect.
	// +optional
	Passive bool `json:"passive,omitempty"`

	// ttlSecurity accepts the neighbor's packets only with the hop limit that nobody farther away can send (RFC 5082).
	// +optional
	TTLSecurity bool `json:"ttlSecurity,omitempty"`
}

// BGPNeighbor is the other end of a session of BGP.
type BGPNeighbor struct {
	// address of the neighbor: in the subnet of one of the port's addresses, or elsewhere with `multihop`.
	// +required
	Address IPAddress `json:"address"`

	// as is its autonomous system; the port's own for internal BGP.
	// +required
	AS ASNumber `json:"as"`
}

// ASNumber is the number of an autonomous system (RFC 6793).
//
// +kubebuilder:validation:Minimum=1
// +kubebuilder:validation:Maximum=4294967295
// +kubebuilder:validation:XValidation:rule="self != 23456",message="23456 stands for numbers of four bytes (RFC 6793) and is reserved; set another number"
type ASNumber int64

// RouteFamily is a family of routes of BGP.
//
// +kubebuilder:validation:Enum=IPv4Unicast;IPv6Unicast
type RouteFamily string

const (
	// FamilyIPv4Unicast are unicast routes of IPv4.
	FamilyIPv4Unicast RouteFamily = "IPv4Unicast"
	// FamilyIPv6Unicast are unicast routes of IPv6.
	FamilyIPv6Unicast RouteFamily = "IPv6Unicast"
)

// BFDTimers say how soon BFD notices that a neighbor does not answer: after multiplier times interval.
type BFDTimers struct {
	// interval between packets, sent and received: 10ms to 60s.
	// +optional
	// +default="100ms"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') || (duration(self) >= duration('10ms') && duration(self) <= duration('60s'))",message="must be 10ms to 60s"
	Interval Duration `json:"interval,omitempty"`

	// multiplier is the number of packets that may be missed.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	Multiplier int32 `json:"multiplier,omitempty"`
}

// PasswordSource has a password.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretKeyRef.name) && size(self.secretKeyRef.name) > 0",fieldPath=".secretKeyRef.name",message="is required"
// +kubebuilder:validation:XValidation:rule="!has(self.secretKeyRef.optional) || !self.secretKeyRef.optional",fieldPath=".secretKeyRef.optional",message="is not supported: the password must exist"
type PasswordSource struct {
	// secretKeyRef selects a key of a Secret in the generator's namespace, with a text of 1 to 80 bytes (UTF-8),
	// without quotation marks and newlines; of OSPFv2 and RIPv2 the first 16 bytes count. The kubelet mounts it into the engine's container,
	// and neither the operator nor a plan has it. Until it exists, the generator's sessions are not set. A changed password is used a minute
	// or two later.
	// +required
	SecretKeyRef corev1.SecretKeySelector `json:"secretKeyRef"`
}

// OSPFNetwork says how OSPF treats a link.
//
// +kubebuilder:validation:Enum=Broadcast;PointToPoint
type OSPFNetwork string

const (
	// OSPFBroadcast is a link with any number of routers, one of which is the designated one.
	OSPFBroadcast OSPFNetwork = "Broadcast"
	// OSPFPointToPoint is a link with two routers.
	OSPFPointToPoint OSPFNetwork = "PointToPoint"
)

// OSPFSession is OSPF on a port's link.
//
// +kubebuilder:validation:XValidation:rule="!has(self.hello) || !has(self.dead) || !self.hello.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') || !self.dead.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') || duration(self.dead) > duration(self.hello)",fieldPath=".dead",message="must be longer than hello: a neighbor would be lost between two of its hellos"
type OSPFSession struct {
	// name of the session, which no other session of the port has.
	// +required
	Name SessionName `json:"name"`

	// version is 2 (RFC 2328), for IPv4, or 3 (RFC 5340), for IPv6.
	// +required
	// +kubebuilder:validation:Enum=2;3
	Version int32 `json:"version"`

	// area of the link, written as an address.
	// +optional
	// +default="0.0.0.0"
	Area IPv4Address `json:"area,omitempty"`

	// network is the type of the link, the same as the neighbor's.
	// +optional
	// +default="Broadcast"
	Network OSPFNetwork `json:"network,omitempty"`

	// hello is the time between hellos, in whole seconds, the same as the neighbor's.
	// +optional
	// +default="10s"
	Hello Duration `json:"hello,omitempty"`

	// dead is the time without a hello after which a neighbor is lost, in whole seconds, at least 2s and the same as the neighbor's.
	// +optional
	// +default="40s"
	Dead Duration `json:"dead,omitempty"`

	// passwordFrom has the key by which messages are authenticated: by MD5 in version 2 (RFC 2328, appendix D), by HMAC-SHA-256 in
	// version 3 (RFC 7166).
	// +optional
	PasswordFrom *PasswordSource `json:"passwordFrom,omitempty"`
}

// RIPVersion is a version of RIP.
//
// +kubebuilder:validation:Enum=RIPv2;RIPng
type RIPVersion string

const (
	// RIPv2 is RIP for IPv4 (RFC 2453).
	RIPv2 RIPVersion = "RIPv2"
	// RIPng is RIP for IPv6 (RFC 2080).
	RIPng RIPVersion = "RIPng"
)

// RIPSession is RIP on a port's link.
//
// +kubebuilder:validation:XValidation:rule="!has(self.update) || !has(self.timeout) || !self.update.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') || !self.timeout.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') || duration(self.timeout) > duration(self.update)",fieldPath=".timeout",message="must be longer than update: a route would be lost between two updates"
// +kubebuilder:validation:XValidation:rule="self.version != 'RIPng' || !has(self.passwordFrom)",fieldPath=".passwordFrom",message="RIPng has no authentication of its own (RFC 2080); leave it out"
type RIPSession struct {
	// name of the session, which no other session of the port has.
	// +required
	Name SessionName `json:"name"`

	// version is RIPv2 (RFC 2453), for IPv4, or RIPng (RFC 2080), for IPv6.
	// +required
	Version RIPVersion `json:"version"`

	// update is the time between updates, in whole seconds.
	// +optional
	// +default="30s"
	Update Duration `json:"update,omitempty"`

	// timeout is the time without an update after which a route is lost, in whole seconds.
	// +optional
	// +default="180s"
	Timeout Duration `json:"timeout,omitempty"`

	// passwordFrom has the key by which messages of RIPv2 are authenticated, by MD5 (RFC 4822).
	// +optional
	PasswordFrom *PasswordSource `json:"passwordFrom,omitempty"`
}

// BFDSession is a session of BFD (RFC 5881) with one neighbor on the link. All of a port have the same timers.
type BFDSession struct {
	BFDTimers `json:",inline"`

	// name of the session, which no other session of the port has.
	// +required
	Name SessionName `json:"name"`

	// neighbor is the address of the other end, in the subnet of one of the port's addresses.
	// +required
	Neighbor IPAddress `json:"neighbor"`
}

// GeneratorRouting is the container that speaks the routing protocols of a pod's ports.
type GeneratorRouting struct {
	// memory of the container: 128Mi when absent. A route that a run advertises takes about 700 bytes, one that a neighbor sends about 100.
	// +optional
	Memory MemorySize `json:"memory,omitempty"`
}

// RoutingProtocol is the protocol of a session.
//
// +kubebuilder:validation:Enum=BGP;OSPF;RIP;BFD
type RoutingProtocol string

const (
	// ProtocolBGP is BGP-4 (RFC 4271).
	ProtocolBGP RoutingProtocol = "BGP"
	// ProtocolOSPF is OSPFv2 (RFC 2328) or OSPFv3 (RFC 5340).
	ProtocolOSPF RoutingProtocol = "OSPF"
	// ProtocolRIP is RIPv2 (RFC 2453) or RIPng (RFC 2080).
	ProtocolRIP RoutingProtocol = "RIP"
	// ProtocolBFD is BFD (RFC 5881).
	ProtocolBFD RoutingProtocol = "BFD"
)

// RoutingSessionStatus is a session of a routing protocol as its engine sees it.
type RoutingSessionStatus struct {
	// name of the session.
	// +required
	Name string `json:"name"`

	// protocol of the session.
	// +required
	Protocol RoutingProtocol `json:"protocol"`

	// up is true while BGP is established, OSPF has a full adjacency, RIP has heard a neighbor, or BFD is up.
	// +required
	Up bool `json:"up"`

	// state in the protocol's own words, such as `Established`, `Connect` or `ExStart`.
	// +optional
	State string `json:"state,omitempty"`

	// since when it is in this state, as far as its engine knows.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// lastError is why a session of BGP ended, or could not begin.
	// +optional
	LastError string `json:"lastError,omitempty"`

	// flaps is the number of times that the session was up and then down, since its engine has it.
	// +optional
	Flaps int64 `json:"flaps,omitempty"`

	// routesReceived is the number of routes that neighbors have sent and not withdrawn; 0 of BFD.
	// +optional
	RoutesReceived int64 `json:"routesReceived,omitempty"`

	// routesConfigured is the number of routes that runs have it advertise, in this pod.
	// +optional
	RoutesConfigured int64 `json:"routesConfigured,omitempty"`

	// routesSent is the number of routes that neighbors were sent and that were not withdrawn.
	// +optional
	RoutesSent int64 `json:"routesSent,omitempty"`
}
