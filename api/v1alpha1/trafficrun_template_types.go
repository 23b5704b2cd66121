// SPDX-License-Identifier: Apache-2.0

// What a run reports of emulated applications: their flows, template by template and side by side.

package v1alpha1

// TemplateCounters count flows, which are TCP connections and UDP conversations, from the end of the warm-up on: a flow that
// begins in the warm-up and ends behind it is in closed, or in failed, and not in attempts. Bytes are those of applications, each once,
// headers not counted.
type TemplateCounters struct {
	// attempts are flows that clients began, or that servers accepted.
	Attempts int64 `json:"attempts"`

	// connects are flows that were established. UDP flows are from the start.
	Connects int64 `json:"connects"`

	// closed flows have ended, in whatever way.
	Closed int64 `json:"closed"`

	// failed flows did not come to a good end: those of reset, timedOut, closedEarly, httpErrors and cut, and of
	// clients those silent.
	Failed int64 `json:"failed"`

	// openFlows at the time of reading; those in TIME-WAIT are not among them.
	OpenFlows int64 `json:"openFlows"`

	// reset flows were ended by the peer: connections with RST, UDP conversations with an ICMP error that their port is closed.
	// +optional
	Reset int64 `json:"reset,omitempty"`

	// timedOut connections were given up: nothing answered the SYN, the data or the keepalives.
	// +optional
	TimedOut int64 `json:"timedOut,omitempty"`

	// closedEarly connections were closed by the peer while the program waited for more.
	// +optional
	ClosedEarly int64 `json:"closedEarly,omitempty"`

	// httpErrors are connections that were reset here because the end of an HTTP message that the program waited for cannot be known.
	// +optional
	HTTPErrors int64 `json:"httpErrors,omitempty"`

	// cut flows were open when the drain was over.
	// +optional
	Cut int64 `json:"cut,omitempty"`

	// silent UDP flows ended because nothing came for the time of their keepalive.
	// +optional
	Silent int64 `json:"silent,omitempty"`

	// bytesSent is data sent for the first time.
	BytesSent int64 `json:"bytesSent"`

	// bytesReceived is data received in sequence.
	BytesReceived int64 `json:"bytesReceived"`

	// messagesSent are UDP datagrams.
	// +optional
	MessagesSent int64 `json:"messagesSent,omitempty"`

	// messagesReceived are UDP datagrams.
	// +optional
	MessagesReceived int64 `json:"messagesReceived,omitempty"`

	// packetsSent are segments and datagrams.
	PacketsSent int64 `json:"packetsSent"`

	// packetsReceived are segments and datagrams.
	PacketsReceived int64 `json:"packetsReceived"`

	// retransmitted segments: those with data that were sent again, and those that SYNs timed out for.
	Retransmitted int64 `json:"retransmitted"`

	// errors are what a right peer and path do not send: ICMP errors about flows, acknowledgements of what was never sent, data
	// behind a FIN, segments without the timestamps that were agreed on, HTTP messages whose end cannot be known, first bytes that no
	// template's match knows, and packets that are broken (a wrong checksum, cut short) or in fragments.
	// +optional
	Errors int64 `json:"errors,omitempty"`

	// late flows began later after their time than packets of streams may leave.
	// +optional
	Late int64 `json:"late,omitempty"`

	// notBegun flows were due before the end, and did not begin because the generator was behind.
	// +optional
	NotBegun int64 `json:"notBegun,omitempty"`

	// heldBack flows were due before the end, and did not begin because as many were open as `mostOpen` allows. That was asked
	// for and is no limit of the generator.
	// +optional
	HeldBack int64 `json:"heldBack,omitempty"`

	// exhausted flows did not begin, or were not accepted, because there was no place, or no free port, for them.
	// +optional
	Exhausted int64 `json:"exhausted,omitempty"`
}

// TemplateResult is what was measured of one template.
type TemplateResult struct {
	// name of the profile's traffic entry.
	Name string `json:"name"`

	// client side, if its clients are emulated.
	// +optional
	Client *TemplateSide `json:"client,omitempty"`

	// server side, if its servers are emulated.
	// +optional
	Server *TemplateSide `json:"server,omitempty"`
}

// GroupResult is what was measured of the templates of one statistics group together.
type GroupResult struct {
	// name of the group: the `statisticsGroup` of its templates.
	Name string `json:"name"`

	// client sides of its templates, those that are emulated.
	// +optional
	Client *GroupSide `json:"client,omitempty"`

	// server sides of its templates, those that are emulated.
	// +optional
	Server *GroupSide `json:"server,omitempty"`
}

// GroupSide is what the templates of a group did on one side. There are no percentiles: those of several templates cannot be put
// together, each template has its own.
type GroupSide struct {
	TemplateCounters `json:",inline"`

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
	TemplateCounters `json:",inline"`

	// counters of the program (`count`) by name.
	// +optional
	Counters map[string]int64 `json:"counters,omitempty"`

	// connectTime is the time from the first SYN to the connection being established.
	// +optional
	ConnectTime *Latency `json:"connectTime,omitempty"`

	// roundTrip is the time from TCP data to its acknowledgement, and from a UDP message to its answer where the template
	// measures latency.
	// +optional
	RoundTrip *Latency `json:"roundTrip,omitempty"`
}
