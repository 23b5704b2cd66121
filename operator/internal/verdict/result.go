// SPDX-License-Identifier: Apache-2.0

package verdict

// This file answers: what can a threshold ask about?

import (
	"slices"
	"time"
)

// Result is what `result` is in an expression: the measured phase, all engines together. Packets and bytes are
// integers, bytes include the FCS, rates are means over the measured phase.
type Result struct {
	// Sent packets and bytes.
	Tx      int64 `cel:"tx"`
	TxBytes int64 `cel:"txBytes"`
	// Received packets and bytes, duplicates included.
	Rx      int64 `cel:"rx"`
	RxBytes int64 `cel:"rxBytes"`
	// Sent and never received, of streams whose flow is measured, and its ratio to what those streams sent.
	Lost      int64   `cel:"lost"`
	LossRatio float64 `cel:"lossRatio"`
	// Received more than once; received after a later one; received on a port that is not the stream's.
	Duplicates  int64 `cel:"duplicates"`
	OutOfOrder  int64 `cel:"outOfOrder"`
	Misdirected int64 `cel:"misdirected"`
	// Due, but not sent by the generator; sent later than the generator's tolerance.
	TxDropped int64 `cel:"txDropped"`
	Late      int64 `cel:"late"`
	// Received with a sequence number far ahead of the expected one, or far behind.
	SequenceTooHigh int64 `cel:"sequenceTooHigh"`
	SequenceTooLow  int64 `cel:"sequenceTooLow"`
	// Arrived and lost before the engine read them; belonging to no run; and of those, for another station. All are of ports, not of streams.
	RxMissed int64 `cel:"rxMissed"`
	Foreign  int64 `cel:"foreign"`
	OtherMAC int64 `cel:"otherMAC"`
	// Received on ports that reflect, and not sent back.
	NotReflected int64 `cel:"notReflected"`
	// Delayed or dropped because of the generator's limits.maxRate, each counted once.
	Throttled int64 `cel:"throttled"`
	// Packets a second, and bits a second of frames with FCS.
	TxPps float64 `cel:"txPps"`
	RxPps float64 `cel:"rxPps"`
	TxBps float64 `cel:"txBps"`
	RxBps float64 `cel:"rxBps"`
	// Length of the measured phase.
	Duration time.Duration `cel:"duration"`
	// The same, stream by stream.
	Streams map[string]Stream `cel:"streams"`
	// Foreign traffic, receiver by receiver.
	Receivers map[string]Receiver `cel:"receivers"`
	// Flows of all templates, each once: at its client, or at its server where clients are real.
	Flows Side `cel:"flows"`
	// The same, template by template, and in each by side: those that the profile emulates of Client and Server.
	Templates map[string]map[string]Side `cel:"templates"`
	// The same, by the statistics group that templates name.
	Groups map[string]Group `cel:"groups"`
	// Records of connections, of the warm-up too.
	Records Records `cel:"records"`
}

// Records is what `result.records` is: those in files, and those omitted beyond the profile's maxRecords; without files those delivered to
// readers, and those that were not; those lost because an engine was behind; and the number of engines that could not write their file.
// All are 0 where none are requested.
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

// Group is what one entry of `result.groups` is: by side, as templates are. Its times have the names of MomentKeys.
type Group map[string]Side

// Side is what one side of an entry of `result.templates` is.
type Side struct {
	// Flows: TCP connections and UDP conversations.
	Attempted   int64 `cel:"attempted"`
	Established int64 `cel:"established"`
	Closed      int64 `cel:"closed"`
	Open        int64 `cel:"open"`
	// Flows that failed, and how: reset by the peer, timed out, closed by the peer while the program waited for more, reset here for an
	// HTTP message without a known end, aborted when the drain was over, and (of clients) without an answer for the time of their
	// keepalive.
	Failed       int64 `cel:"failed"`
	Reset        int64 `cel:"reset"`
	TimedOut     int64 `cel:"timedOut"`
	ClosedEarly  int64 `cel:"closedEarly"`
	HTTPErrors   int64 `cel:"httpErrors"`
	Aborted      int64 `cel:"aborted"`
	IdleTimeouts int64 `cel:"idleTimeouts"`
	// Bytes of applications, each once, and UDP messages: both ways together, and each.
	Bytes            int64 `cel:"bytes"`
	BytesSent        int64 `cel:"bytesSent"`
	BytesReceived    int64 `cel:"bytesReceived"`
	Messages         int64 `cel:"messages"`
	MessagesSent     int64 `cel:"messagesSent"`
	MessagesReceived int64 `cel:"messagesReceived"`
	// Segments and datagrams; segments sent again; what a right peer and path do not send.
	PacketsSent     int64 `cel:"packetsSent"`
	PacketsReceived int64 `cel:"packetsReceived"`
	Retransmitted   int64 `cel:"retransmitted"`
	Errors          int64 `cel:"errors"`
	// Flows that the generator started late, did not start before the end, or had no room or port for.
	Late       int64 `cel:"late"`
	NotStarted int64 `cel:"notStarted"`
	Exhausted  int64 `cel:"exhausted"`
	// Flows that did not start because maxConcurrentFlows were open.
	Throttled int64 `cel:"throttled"`
	// Flows established a second, and bits of applications a second both ways.
	Cps float64 `cel:"cps"`
	Bps float64 `cel:"bps"`
	// Of programs (`count`), by name; none of Result.Flows.
	Counters map[string]int64 `cel:"counters"`
	// Times by the names of DelayKeys, durations but for the count; empty when nothing was measured, and of Result.Flows. Round trips are those of TCP data
	// to its acknowledgement, and of UDP messages to their answers.
	ConnectTime map[string]any `cel:"connectTime"`
	RoundTrip   map[string]any `cel:"roundTrip"`
}

// Stream is what one entry of `result.streams` is.
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
	// Times by the names of LatencyKeys, durations but for the count. What was not measured is not there: asking for it is an error, not a zero.
	Latency map[string]any `cel:"latency"`
}

// Receiver is what one entry of `result.receivers` is.
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

// DelayKeys are what is known of a template's times: how many were taken, and durations.
var DelayKeys = []string{"count", "min", "mean", "max", "deviation", "p50", "p90", "p95", "p99", "p999", "p9999"}

// LatencyKeys are what is known of a stream's latency: a count of packets, and durations.
var LatencyKeys = append(slices.Clone(DelayKeys), "jitter", "jitterMean", "jitterMax")

// MomentKeys are what is known of a receiver's times, and of those of a group of templates: how many were taken, and durations.
var MomentKeys = []string{"count", "mean", "deviation", "min", "max"}
