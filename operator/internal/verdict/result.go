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
	// Put off, each once, by the generator's greatest rate; of reflected ones dropped.
	HeldBack int64 `cel:"heldBack"`
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

// Records is what `result.records` is: those in files, and those that files have no room for by the profile's mostRecords; without files
// those that readers were told, and those that nobody was; those that were lost because an engine was behind; and how many engines
// could not write their file. All are 0 where none are asked for.
type Records struct {
	Written         int64 `cel:"written"`
	LeftOut         int64 `cel:"leftOut"`
	Told            int64 `cel:"told"`
	Untold          int64 `cel:"untold"`
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
	Attempts  int64 `cel:"attempts"`
	Connects  int64 `cel:"connects"`
	Closed    int64 `cel:"closed"`
	OpenFlows int64 `cel:"openFlows"`
	// Flows that did not come to a good end, and how: reset by the peer, given up, closed by the peer while more was awaited,
	// reset here for an HTTP message without a known end, open when the drain was over, and (of clients) without an answer for the
	// time of their keepalive.
	Failed      int64 `cel:"failed"`
	Reset       int64 `cel:"reset"`
	TimedOut    int64 `cel:"timedOut"`
	ClosedEarly int64 `cel:"closedEarly"`
	HTTPErrors  int64 `cel:"httpErrors"`
	Cut         int64 `cel:"cut"`
	Silent      int64 `cel:"silent"`
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
	// What the generator could not do: begin flows in time, before the end, for want of places or ports.
	Late      int64 `cel:"late"`
	NotBegun  int64 `cel:"notBegun"`
	Exhausted int64 `cel:"exhausted"`
	// Flows that waited until the end because as many were open as mostOpen allows.
	HeldBack int64 `cel:"heldBack"`
	// Flows established a second, and bits of applications a second both ways.
	Cps float64 `cel:"cps"`
	Bps float64 `cel:"bps"`
	// Of programs (`count`), by name; none of Result.Flows.
	Counters map[string]int64 `cel:"counters"`
	// Nanoseconds by the names of DelayKeys; empty when nothing was measured, and of Result.Flows. Round trips are those of TCP data
	// to its acknowledgement, and of UDP messages to their answers.
	ConnectTime map[string]int64 `cel:"connectTime"`
	RoundTrip   map[string]int64 `cel:"roundTrip"`
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
	// Nanoseconds by the names of LatencyKeys. What was not measured is not there: asking for it is an error, not a zero.
	Latency map[string]int64 `cel:"latency"`
}

// Receiver is what one entry of `result.receivers` is.
type Receiver struct {
	Packets int64   `cel:"packets"`
	Bytes   int64   `cel:"bytes"`
	Pps     float64 `cel:"pps"`
	Bps     float64 `cel:"bps"`
	// Nanoseconds by the names of MomentKeys; empty when nothing was measured.
	InterArrival map[string]int64 `cel:"interArrival"`
	Jitter       map[string]int64 `cel:"jitter"`
	Latency      map[string]int64 `cel:"latency"`
}

// DelayKeys are what is known of a template's times: how many were taken, and nanoseconds.
var DelayKeys = []string{"count", "min", "mean", "max", "deviation", "p50", "p90", "p95", "p99", "p999", "p9999"}

// LatencyKeys are what is known of a stream's latency: a count of packets, and times in nanoseconds.
var LatencyKeys = append(slices.Clone(DelayKeys), "jitter", "jitterMean", "jitterMax")

// MomentKeys are what is known of a receiver's times, and of those of a group of templates: how many were taken, and times in nanoseconds.
var MomentKeys = []string{"count", "mean", "deviation", "min", "max"}
