// SPDX-License-Identifier: Apache-2.0

package verdict

// This file answers: which fields can a threshold use?

import (
	"slices"
	"time"
)

// Result is the type of `result` in an expression: the measured phase, summed over all engines. Packets and bytes are
// integers, bytes include the FCS, rates are means over the measured phase.
type Result struct {
	// Sent packets and bytes.
	Tx      int64 `cel:"tx"`
	TxBytes int64 `cel:"txBytes"`
	// Received packets and bytes, duplicates included.
	Rx      int64 `cel:"rx"`
	RxBytes int64 `cel:"rxBytes"`
	// Packets sent and never received, of streams that are counted on arrival, and their ratio to what those streams
	// sent.
	Lost      int64   `cel:"lost"`
	LossRatio float64 `cel:"lossRatio"`
	// Packets received more than once; received after a later one; received on a port other than the stream's receiver.
	Duplicates  int64 `cel:"duplicates"`
	OutOfOrder  int64 `cel:"outOfOrder"`
	Misdirected int64 `cel:"misdirected"`
	// Packets due and not sent by the generator; packets sent later than the generator's tolerance.
	TxDropped int64 `cel:"txDropped"`
	Late      int64 `cel:"late"`
	// Received with a sequence number far ahead of the expected one, or far behind.
	SequenceTooHigh int64 `cel:"sequenceTooHigh"`
	SequenceTooLow  int64 `cel:"sequenceTooLow"`
	// Packets that arrived and were lost before the engine read them; that belong to no run; and those of the latter
	// for another station. All are counted per port, not per stream.
	RxMissed int64 `cel:"rxMissed"`
	Foreign  int64 `cel:"foreign"`
	OtherMAC int64 `cel:"otherMAC"`
	// Packets received on ports that reflect and not sent back.
	NotReflected int64 `cel:"notReflected"`
	// Packets delayed or dropped because of the generator's limits.maxRate, each counted once.
	Throttled int64 `cel:"throttled"`
	// Packets a second, and bits a second of frames with FCS.
	TxPps float64 `cel:"txPps"`
	RxPps float64 `cel:"rxPps"`
	TxBps float64 `cel:"txBps"`
	RxBps float64 `cel:"rxBps"`
	// Length of the measured phase.
	Duration time.Duration `cel:"duration"`
	// Results by stream.
	Streams map[string]Stream `cel:"streams"`
	// Packets of other senders, by receiver.
	Receivers map[string]Receiver `cel:"receivers"`
	// Flows of all templates, each counted once: at its client, or at its server where clients are real.
	Flows Side `cel:"flows"`
	// Flows by template, and by side: those that the profile emulates of Client and Server.
	Templates map[string]map[string]Side `cel:"templates"`
	// Flows by the statistics group that templates name.
	Groups map[string]Group `cel:"groups"`
	// Emulated clients, by entry, since the run was prepared.
	Clients map[string]Clients `cel:"clients"`
	// Records of connections, including the warm-up.
	Records Records `cel:"records"`
	// What sessions did that advertised routes of the run.
	Routing Routing `cel:"routing"`
}

// Routing is the type of `result.routing`: sessions by port and name, such as "east/dut".
type Routing struct {
	Sessions map[string]Session `cel:"sessions"`
}

// Session is the type of an entry of `result.routing.sessions`: whether it was up at the end, in all pods; how often it was up and then down;
// the routes that runs had it advertise, that neighbors were sent, and that they had sent, at the end; and announcements and withdrawals of
// routes. Flaps and updates are counted from the run's start.
type Session struct {
	Up              bool  `cel:"up"`
	Flaps           int64 `cel:"flaps"`
	Configured      int64 `cel:"configured"`
	Sent            int64 `cel:"sent"`
	Received        int64 `cel:"received"`
	UpdatesSent     int64 `cel:"updatesSent"`
	UpdatesReceived int64 `cel:"updatesReceived"`
}

// Records is the type of `result.records`: records in files, and those omitted beyond the profile's maxRecords; without
// files, those delivered to readers and those that were not; those lost because an engine was behind; and the number of
// engines that could not write their file. All are 0 where no records are requested.
type Records struct {
	Written         int64 `cel:"written"`
	Omitted         int64 `cel:"omitted"`
	Delivered       int64 `cel:"delivered"`
	Undelivered     int64 `cel:"undelivered"`
	Dropped         int64 `cel:"dropped"`
	FilesNotWritten int64 `cel:"filesNotWritten"`
}

// The sides of a template.
const (
	Client = "client"
	Server = "server"
)

// Group is the type of an entry of `result.groups`: by side, as templates are. Its times have the names of MomentKeys.
type Group map[string]Side

// Side is the type of one side of an entry of `result.templates`.
type Side struct {
	// Flows: TCP connections and UDP conversations.
	Attempted   int64 `cel:"attempted"`
	Established int64 `cel:"established"`
	Closed      int64 `cel:"closed"`
	Open        int64 `cel:"open"`
	// Flows that failed, in total and by cause: reset by the peer, timed out, closed by the peer while the program
	// waited for more, reset here for an HTTP message without a known end, aborted at the end of the drain, and (of
	// clients) without an answer for the time of their keepalive.
	Failed       int64 `cel:"failed"`
	Reset        int64 `cel:"reset"`
	TimedOut     int64 `cel:"timedOut"`
	ClosedEarly  int64 `cel:"closedEarly"`
	HTTPErrors   int64 `cel:"httpErrors"`
	Aborted      int64 `cel:"aborted"`
	IdleTimeouts int64 `cel:"idleTimeouts"`
	// Bytes of applications and UDP messages, each counted once: in total, and by direction.
	Bytes            int64 `cel:"bytes"`
	BytesSent        int64 `cel:"bytesSent"`
	BytesReceived    int64 `cel:"bytesReceived"`
	Messages         int64 `cel:"messages"`
	MessagesSent     int64 `cel:"messagesSent"`
	MessagesReceived int64 `cel:"messagesReceived"`
	// Segments and datagrams sent; segments retransmitted; packets that a correct peer and path do not send.
	PacketsSent     int64 `cel:"packetsSent"`
	PacketsReceived int64 `cel:"packetsReceived"`
	Retransmitted   int64 `cel:"retransmitted"`
	Errors          int64 `cel:"errors"`
	// Flows that the generator started late, did not start before the end, or had no memory or port for.
	Late       int64 `cel:"late"`
	NotStarted int64 `cel:"notStarted"`
	Exhausted  int64 `cel:"exhausted"`
	// Flows that did not start because maxConcurrentFlows were open.
	Throttled int64 `cel:"throttled"`
	// Flows established per second, and bits of applications per second in both directions.
	Cps float64 `cel:"cps"`
	Bps float64 `cel:"bps"`
	// Counters of programs (`count`), by name; empty for Result.Flows.
	Counters map[string]int64 `cel:"counters"`
	// Times by the names of DelayKeys, durations but for the count; empty when nothing was measured, and for
	// Result.Flows. Round trips are from TCP data to its acknowledgement, and from UDP messages to their answers.
	ConnectTime map[string]any `cel:"connectTime"`
	RoundTrip   map[string]any `cel:"roundTrip"`
	// The longest time in which the side received no packet, by the names of OutageKeys; empty for Result.Flows and for groups.
	Outage map[string]any `cel:"outage"`
}

// Stream is the type of an entry of `result.streams`.
type Stream struct {
	Tx          int64   `cel:"tx"`
	TxBytes     int64   `cel:"txBytes"`
	Rx          int64   `cel:"rx"`
	RxBytes     int64   `cel:"rxBytes"`
	Lost        int64   `cel:"lost"`
	LossRatio   float64 `cel:"lossRatio"`
	Duplicates  int64   `cel:"duplicates"`
	OutOfOrder  int64   `cel:"outOfOrder"`
	Misdirected int64   `cel:"misdirected"`
	TxDropped   int64   `cel:"txDropped"`
	Late        int64   `cel:"late"`
	TxPps       float64 `cel:"txPps"`
	RxPps       float64 `cel:"rxPps"`
	TxBps       float64 `cel:"txBps"`
	RxBps       float64 `cel:"rxBps"`

	SequenceTooHigh int64 `cel:"sequenceTooHigh"`
	SequenceTooLow  int64 `cel:"sequenceTooLow"`
	// Times by the names of LatencyKeys, durations but for the count. A time that was not measured is absent: using it
	// is an error, not a zero.
	Latency map[string]any `cel:"latency"`
	// The longest time without an arrival, by the names of OutageKeys; empty if packets are not counted on arrival.
	Outage map[string]any `cel:"outage"`
	// Packets by the VLAN tags with which they arrived, each by its own: "5", "100/5" for an outer and an inner one, "untagged" and
	// "other"; empty if they are not counted by tag.
	ByTag map[string]Tag `cel:"byTag"`
}

// Tag is the type of an entry of `byTag` of a stream: packets and bytes that arrived with the tag; packets that are missing before later
// ones with the tag, and how often some are; packets received with the tag before, or after one sent later.
type Tag struct {
	Packets      int64 `cel:"packets"`
	Bytes        int64 `cel:"bytes"`
	Missing      int64 `cel:"missing"`
	SequenceGaps int64 `cel:"sequenceGaps"`
	Duplicates   int64 `cel:"duplicates"`
	OutOfOrder   int64 `cel:"outOfOrder"`
}

// Receiver is the type of an entry of `result.receivers`.
type Receiver struct {
	Packets int64   `cel:"packets"`
	Bytes   int64   `cel:"bytes"`
	Pps     float64 `cel:"pps"`
	Bps     float64 `cel:"bps"`
	// Times by the names of MomentKeys, durations but for the count; empty when nothing was measured.
	InterArrival map[string]any `cel:"interArrival"`
	Jitter       map[string]any `cel:"jitter"`
	Latency      map[string]any `cel:"latency"`
}

// DelayKeys are the keys of a template's times: the number of samples, and durations.
var DelayKeys = []string{"count", "min", "mean", "max", "deviation", "p50", "p90", "p95", "p99", "p999", "p9999"}

// LatencyKeys are the keys of a stream's latency: the number of packets, and durations.
var LatencyKeys = append(slices.Clone(DelayKeys), "jitter", "jitterMean", "jitterMax")

// OutageKeys are the keys of an outage, which are durations: its length, the length that is certain (the same if it is exact), and the time
// from the beginning of the measured phase to that of the outage.
var OutageKeys = []string{"longest", "atLeast", "offset"}

// MomentKeys are the keys of the times of a receiver and of a group of templates: the number of samples, and durations.
var MomentKeys = []string{"count", "mean", "deviation", "min", "max"}
