// SPDX-License-Identifier: Apache-2.0

package verdict

// This file answers: what can a threshold ask about?

import "time"

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
	// Arrived and lost before the engine read them; belonging to no run. Both are of ports, not of streams.
	RxMissed int64 `cel:"rxMissed"`
	Foreign  int64 `cel:"foreign"`
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

// LatencyKeys are what is known of a stream's latency: a count of packets, and times in nanoseconds.
var LatencyKeys = []string{
	"count", "min", "mean", "max", "deviation", "p50", "p90", "p95", "p99", "p999", "p9999", "jitter", "jitterMean", "jitterMax",
}

// MomentKeys are what is known of a receiver's times: how many were taken, and times in nanoseconds.
var MomentKeys = []string{"count", "mean", "deviation", "min", "max"}
