// SPDX-License-Identifier: Apache-2.0

// Routes that a run advertises by the sessions of its ports, when it starts, and what came of them.

package v1alpha1

// RunRouting is what a run has the routers among its ports do.
type RunRouting struct {
	// advertise has sets of routes. They are advertised from the preparation of the run until it has ended, those of a search until its last
	// trial has, and the run sends when all of them are sent: see `setupTimeout`. With several replicas each pod advertises its share of each
	// set: prefix n is of pod n mod the number of pods. A port has one route to each prefix.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Advertise []RouteSet `json:"advertise,omitempty"`

	// ready says when the routes count as sent.
	// +optional
	Ready *RoutesReady `json:"ready,omitempty"`
}

// RoutesReady says when the routes of a run count as sent. Each session is up, has exported as many routes as are configured, and the
// neighbor's TCP has acknowledged all of it; what OSPF and RIP have sent is known by the first count only. The longest time that the run waits
// is its `setupTimeout`.
type RoutesReady struct {
	// quiet is the time for which nothing but keepalives is sent then, more than 0s and at most 1h.
	// +optional
	// +default="1s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$') || (duration(self) > duration('0s') && duration(self) <= duration('1h'))",message="must be more than 0s and at most 1h"
	Quiet Duration `json:"quiet,omitempty"`
}

// RouteSetState says whether a set of routes is advertised.
//
// +kubebuilder:validation:Enum=Advertised;Withdrawn
type RouteSetState string

const (
	// RoutesAdvertised are sent to neighbors before the run starts.
	RoutesAdvertised RouteSetState = "Advertised"
	// RoutesWithdrawn are prepared, and not sent.
	RoutesWithdrawn RouteSetState = "Withdrawn"
)

// RouteSetName names a set of routes.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=40
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be lower-case letters, digits or '-', start and end with a letter or digit"
type RouteSetName string

// RouteSet is a number of routes that a port advertises together: prefixes of one family, and attributes that all of them have.
type RouteSet struct {
	// name of the set.
	// +required
	Name RouteSetName `json:"name"`

	// port of the generator, one with `routing`.
	// +required
	Port PortName `json:"port"`

	// sessions of the port by which the set is advertised, of BGP, OSPF or RIP, each of which has the family of the prefixes.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Sessions []SessionName `json:"sessions"`

	// state in which the run has the set.
	// +optional
	// +default="Advertised"
	State RouteSetState `json:"state,omitempty"`

	// prefixes of the routes.
	// +required
	Prefixes RoutePrefixes `json:"prefixes"`

	// attributes of all routes of the set.
	// +optional
	Attributes RouteAttributes `json:"attributes,omitzero"`
}

// RoutePrefixes are prefixes of one family. They have the numbers 0, 1, ... in their order here.
//
// +kubebuilder:validation:ExactlyOneOf=range;list;mrt
type RoutePrefixes struct {
	// range has prefixes of one length at equal distances.
	// +optional
	Range *PrefixRange `json:"range,omitempty"`

	// list has prefixes of any lengths, none of them twice.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4096
	List []RoutePrefix `json:"list,omitempty"`

	// mrt has the prefixes of a routing table in a file.
	// +optional
	MRT *MRTFile `json:"mrt,omitempty"`
}

// MRTFile is a routing table in the MRT format (RFC 6396, TABLE_DUMP_V2), such as those of RIPE RIS and Route Views: its prefixes of one family,
// and nothing else of its routes.
type MRTFile struct {
	// volume names the file, which is not compressed, on a volume of the generator.
	// +required
	Volume VolumeFile `json:"volume"`

	// family of the prefixes.
	// +optional
	// +default="IPv4Unicast"
	Family RouteFamily `json:"family,omitempty"`

	// most is the number of prefixes that are taken, the first of the file; all of them if it has fewer.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	Most int64 `json:"most"`
}

// RoutePrefix is an IPv4 or IPv6 prefix such as `203.0.113.0/24`, without bits behind its length.
//
// +kubebuilder:validation:MinLength=3
// +kubebuilder:validation:MaxLength=49
type RoutePrefix string

// PrefixRange has prefixes of one length: `first: 20.0.0.0/24, count: 3, step: 2` is 20.0.0.0/24, 20.0.2.0/24 and 20.0.4.0/24.
type PrefixRange struct {
	// first prefix, such as `20.0.0.0/24` or `2001:db8::/48`.
	// +required
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self) == cidr(self).masked()",message="has bits behind its length; write the prefix without them"
	First CIDR `json:"first"`

	// count of prefixes.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	Count int64 `json:"count"`

	// step from one prefix to the next, in prefixes of their length.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	Step int64 `json:"step,omitempty"`
}

// RouteOrigin is BGP's ORIGIN (RFC 4271 section 5.1.1).
//
// +kubebuilder:validation:Enum=IGP;EGP;Incomplete
type RouteOrigin string

const (
	// OriginIGP is a route from within its AS.
	OriginIGP RouteOrigin = "IGP"
	// OriginEGP is a route of EGP (RFC 904).
	OriginEGP RouteOrigin = "EGP"
	// OriginIncomplete is a route of another source.
	OriginIncomplete RouteOrigin = "Incomplete"
)

// RouteAttributes are what all routes of a set have besides their prefixes. All but metric are BGP's.
type RouteAttributes struct {
	// asPath has the ASes of AS_PATH behind the port's own, which BGP itself adds to neighbors of other ASes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	ASPath []ASNumber `json:"asPath,omitempty"`

	// communities (RFC 1997), such as `65001:100`.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=200
	Communities []Community `json:"communities,omitempty"`

	// largeCommunities (RFC 8092), such as `65001:1:2`.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	LargeCommunities []LargeCommunity `json:"largeCommunities,omitempty"`

	// med is MULTI_EXIT_DISC.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	MED *int64 `json:"med,omitempty"`

	// localPreference is LOCAL_PREF, which only neighbors of the port's AS are sent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	LocalPreference *int64 `json:"localPreference,omitempty"`

	// origin is ORIGIN; IGP when absent.
	// +optional
	Origin RouteOrigin `json:"origin,omitempty"`

	// nextHop is the address to which neighbors send packets to the prefixes, of their family: the port's own when absent.
	// +optional
	NextHop IPAddress `json:"nextHop,omitempty"`

	// metric of RIP, 1 to 15, or of OSPF, 1 to 16777214, whose routes are external ones of type 2; theirs when absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777214
	Metric *int64 `json:"metric,omitempty"`
}

// Community is a community of BGP (RFC 1997): two numbers of 0 to 65535.
//
// +kubebuilder:validation:MaxLength=11
// +kubebuilder:validation:Pattern=`^[0-9]{1,5}:[0-9]{1,5}$`
type Community string

// LargeCommunity is a large community of BGP (RFC 8092): three numbers of 0 to 4294967295.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:Pattern=`^[0-9]{1,10}:[0-9]{1,10}:[0-9]{1,10}$`
type LargeCommunity string

// RoutingResult is what the sessions that advertised routes of the run did, over all pods that have them.
type RoutingResult struct {
	// sessions by `PORT/SESSION`, such as `east/dut`.
	// +optional
	// +kubebuilder:validation:MaxProperties=1024
	Sessions map[string]SessionResult `json:"sessions,omitempty"`
}

// SessionResult is what a session did that advertised routes of the run. Of several pods it is the sum of theirs.
type SessionResult struct {
	// up is true if it was up at the end of the run, in all pods.
	// +required
	Up bool `json:"up"`

	// flaps is the number of times that it was up and then down after the run's start.
	// +required
	Flaps int64 `json:"flaps"`

	// configured routes, which runs had it advertise at the end.
	// +required
	Configured int64 `json:"configured"`

	// sent routes: those that neighbors were sent and that were not withdrawn at the end.
	// +required
	Sent int64 `json:"sent"`

	// received routes: those that neighbors had sent and not withdrawn at the end.
	// +required
	Received int64 `json:"received"`

	// updatesSent are announcements and withdrawals of routes that were sent after the run's start.
	// +required
	UpdatesSent int64 `json:"updatesSent"`

	// updatesReceived are announcements and withdrawals of routes that arrived after the run's start.
	// +required
	UpdatesReceived int64 `json:"updatesReceived"`
}

// SessionBaseline is what a session of an engine had counted when a run started.
type SessionBaseline struct {
	// pod of the engine.
	// +required
	Pod string `json:"pod"`

	// session as `PORT/SESSION`.
	// +required
	Session string `json:"session"`

	// flaps since its engine has it.
	// +required
	Flaps int64 `json:"flaps"`

	// updatesSent since its engine has it.
	// +required
	UpdatesSent int64 `json:"updatesSent"`

	// updatesReceived since its engine has it.
	// +required
	UpdatesReceived int64 `json:"updatesReceived"`
}
