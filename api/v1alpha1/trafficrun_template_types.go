// SPDX-License-Identifier: Apache-2.0

// What a run reports of emulated applications: their flows, by template and side.

package v1alpha1

// FlowCounters count flows (TCP connections and UDP conversations) from the end of the warm-up on: a flow that starts in the warm-up and
// ends after it is in closed, or in failed, and not in attempted. Bytes are those of applications, each counted once, without headers.
type FlowCounters struct {
	// attempted flows were started by clients, or accepted by servers.
	// +required
	Attempted int64 `json:"attempted"`

	// established flows: TCP connections after their handshake, UDP conversations from their start.
	// +required
	Established int64 `json:"established"`

	// closed flows have ended, in whatever way.
	// +required
	Closed int64 `json:"closed"`

	// failed flows are those of reset, timedOut, closedEarly, httpErrors and aborted, and of clients those of idleTimeouts.
	// +required
	Failed int64 `json:"failed"`

	// open flows at the time of reading, without those in TIME-WAIT.
	// +required
	Open int64 `json:"open"`

	// reset flows were ended by the peer: connections with RST, UDP conversations with an ICMP error that their port is closed.
	// +optional
	Reset int64 `json:"reset,omitempty"`

	// timedOut connections ended because nothing answered the SYN, the data or the keepalives.
	// +optional
	TimedOut int64 `json:"timedOut,omitempty"`

	// closedEarly connections were closed by the peer while the program waited for more.
	// +optional
	ClosedEarly int64 `json:"closedEarly,omitempty"`

	// httpErrors are connections that were reset here because the end of an HTTP message that the program waited for cannot be known.
	// +optional
	HTTPErrors int64 `json:"httpErrors,omitempty"`

	// aborted flows were still open when the drain was over.
	// +optional
	Aborted int64 `json:"aborted,omitempty"`

	// idleTimeouts are UDP flows that ended because nothing was received for the time of their keepalive.
	// +optional
	IdleTimeouts int64 `json:"idleTimeouts,omitempty"`

	// bytesSent is data sent for the first time.
	// +required
	BytesSent int64 `json:"bytesSent"`

	// bytesReceived is data received in sequence.
	// +required
	BytesReceived int64 `json:"bytesReceived"`

	// messagesSent are UDP datagrams.
	// +optional
	MessagesSent int64 `json:"messagesSent,omitempty"`

	// messagesReceived are UDP datagrams.
	// +optional
	MessagesReceived int64 `json:"messagesReceived,omitempty"`

	// packetsSent are segments and datagrams.
	// +required
	PacketsSent int64 `json:"packetsSent"`

	// packetsReceived are segments and datagrams.
	// +required
	PacketsReceived int64 `json:"packetsReceived"`

	// retransmitted segments: those with data that were sent again, and SYNs that were.
	// +required
	Retransmitted int64 `json:"retransmitted"`

	// errors are packets and messages that a correct peer and path do not send: ICMP errors, and damaged, impossible or unexpected ones.
	// +optional
	Errors int64 `json:"errors,omitempty"`

	// late flows started later than they were due, by more than packets of streams may be late.
	// +optional
	Late int64 `json:"late,omitempty"`

	// notStarted flows were due before the end and did not start because the generator was behind.
	// +optional
	NotStarted int64 `json:"notStarted,omitempty"`

	// throttled flows did not start because `maxConcurrentFlows` of their template were open.
	// +optional
	Throttled int64 `json:"throttled,omitempty"`

	// exhausted flows did not start, or were not accepted, because the flow table was full or no source port was free.
	// +optional
	Exhausted int64 `json:"exhausted,omitempty"`
}

// TemplateResult is what was measured of one template.
type TemplateResult struct {
	// client side, if its clients are emulated.
	// +optional
	Client *TemplateSide `json:"client,omitempty"`

	// server side, if its servers are emulated.
	// +optional
	Server *TemplateSide `json:"server,omitempty"`
}

// GroupResult is what was measured of the templates of one statistics group together.
type GroupResult struct {
	// client sides of its templates, those that are emulated.
	// +optional
	Client *GroupSide `json:"client,omitempty"`

	// server sides of its templates, those that are emulated.
	// +optional
	Server *GroupSide `json:"server,omitempty"`
}

// GroupSide is what the templates of a group did on one side. It has no percentiles: those of several templates cannot be merged; each
// template has its own.
type GroupSide struct {
	FlowCounters `json:",inline"`

	// counters of programs by name.
	// +optional
	Counters map[string]int64 `json:"counters,omitempty"`

	// connectTime is as that of templates.
	// +optional
	ConnectTime *Moments `json:"connectTime,omitempty"`

	// roundTrip is as that of templates; of UDP from those that measure latency.
	// +optional
	RoundTrip *Moments `json:"roundTrip,omitempty"`
}

// TemplateSide is what one side of a template did.
type TemplateSide struct {
	FlowCounters `json:",inline"`

	// counters of the program (`count`) by name.
	// +optional
	Counters map[string]int64 `json:"counters,omitempty"`

	// connectTime is the time from the first SYN until the connection is established.
	// +optional
	ConnectTime *Latency `json:"connectTime,omitempty"`

	// roundTrip is the time from TCP data to its acknowledgement, and from a UDP message to its answer where the template
	// measures latency.
	// +optional
	RoundTrip *Latency `json:"roundTrip,omitempty"`

	// outage is the longest time in which the side received no packet of a flow.
	// +optional
	Outage *Outage `json:"outage,omitempty"`
}
