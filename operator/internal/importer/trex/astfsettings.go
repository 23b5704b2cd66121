// SPDX-License-Identifier: Apache-2.0

// Which settings do TRex's stateful clients and servers have? TRex's defaults are written out where they differ from
// the engine's.

package trex

import (
	"encoding/json"
	"strconv"

	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/application"
)

// TRex's defaults that differ from the engine's and are visible on the wire.
const (
	ownTTL = 127
	// ownHopLimit is TRex's IPv6 hop limit; a requested one is at most ownTTL.
	ownHopLimit = 64
	ownBuffer   = 32 * 1024
	ownMSS      = 1460
	ownWindow   = 10
)

// rampUpStep is the interval at which TRex raises the rate of new connections.
const rampUpStep = "1s"

// globalInfo are TRex's tunables of a side, for all templates or for one.
type globalInfo struct {
	tos, ttl *int32
	tcp      spatev1.TCPTunables
	ipv6     ipv6Info
	// rampUp is a setting for all templates together.
	rampUp, rampUpStep spatev1.Duration
}

// ipv6Info are the upper bytes of IPv6 addresses.
type ipv6Info struct {
	enabled             bool
	source, destination []byte
}

func (v ipv6Info) or(other ipv6Info) ipv6Info {
	v.enabled = v.enabled || other.enabled
	if v.source == nil {
		v.source = other.source
	}
	if v.destination == nil {
		v.destination = other.destination
	}
	return v
}

// settings reads a key that may be absent.
func (a *astf) settings(parent *object, key string) globalInfo {
	var g globalInfo
	if !parent.has(key) {
		parent.take(key)
		return g
	}
	o := parent.object(key)
	a.part(o, "scheduler", func(o *object) {
		if o.has("rampup_sec") {
			g.rampUpStep = rampUpStep
			g.rampUp = spatev1.Duration(strconv.FormatUint(o.whole("rampup_sec", 3, 60000), 10) + "s")
		}
	})
	a.part(o, "ip", func(o *object) {
		if tos := setting(o, "tos", 0, 255); tos != nil {
			g.tos = ptr.To(*tos &^ 1) // TRex keeps the lowest bit for itself
		}
		if ttl := setting(o, "ttl", 1, 255); ttl != nil {
			g.ttl = ptr.To(min(*ttl, ownTTL)) // and the highest TTL
		}
		if used := setting(o, "dont_use_inbound_mac", 0, 1); used != nil && *used == 0 {
			a.notes.add("%s: TRex's servers answer to the MAC address that a request came from; here they answer to the port's next hop", o.at("dont_use_inbound_mac"))
		}
	})
	a.part(o, "ipv6", func(o *object) {
		enabled := setting(o, "enable", 0, 1)
		g.ipv6 = ipv6Info{enabled: enabled != nil && *enabled == 1, source: upperBytes(o, "src_msb"), destination: upperBytes(o, "dst_msb")}
	})
	a.part(o, "tcp", func(o *object) { a.tcp(o, &g.tcp) })
	o.done()
	return g
}

// part reads an object that may be absent.
func (a *astf) part(o *object, key string, read func(*object)) {
	if !o.has(key) {
		o.take(key)
		return
	}
	inner := o.object(key)
	read(inner)
	inner.done()
}

// setting reads a number that may be absent.
func setting(o *object, key string, least, most uint64) *int32 {
	if !o.has(key) {
		o.take(key)
		return nil
	}
	return ptr.To(int32(o.whole(key, least, most)))
}

func upperBytes(o *object, key string) []byte {
	raw, found := o.take(key)
	if !found {
		return nil
	}
	var numbers []uint8Number
	if json.Unmarshal(raw, &numbers) != nil || len(numbers) != 16 {
		o.wrong(key, "must be 16 bytes, not %s", short(raw))
		return nil
	}
	bytes := make([]byte, len(numbers))
	for i, n := range numbers {
		bytes[i] = byte(n)
	}
	return bytes
}

// uint8Number is a byte that JSON has as a number: a list of bytes would be encoded as base64.
type uint8Number uint8

// tcp reads TRex's TCP tunables.
func (a *astf) tcp(o *object, t *spatev1.TCPTunables) {
	const leastBuffer, mostBuffer, mostSeconds = 1024, 1 << 30, 65533
	t.MSS = setting(o, "mss", 88, 9176)
	t.InitialWindow = setting(o, "initwnd", 1, 20)
	t.ReceiveBuffer = setting(o, "rxbufsize", leastBuffer, mostBuffer)
	t.SendBuffer = setting(o, "txbufsize", leastBuffer, mostBuffer)
	t.DuplicateAckThreshold = setting(o, "rexmtthresh", 1, 10)
	if options := flag(o, "do_rfc1323"); options != nil {
		t.Timestamps, t.WindowScale = options, options
	}
	t.SACK = flag(o, "do_sack")
	if ecn := setting(o, "do_ecn", 0, 2); ecn != nil {
		t.ECN = ptr.To(*ecn == 1)
		if *ecn == 2 {
			o.wrong("do_ecn", "2, which only answers ECN, is not supported; use 0 or 1")
		}
	}
	t.ConnectTimeout = seconds(o, "keepinit", mostSeconds)
	t.KeepaliveIdle = seconds(o, "keepidle", mostSeconds)
	t.KeepaliveInterval = seconds(o, "keepintvl", mostSeconds)
	if silent := setting(o, "blackhole", 0, 2); silent != nil {
		all := *silent == 2
		t.Blackhole = &all
		if *silent == 1 {
			o.wrong("blackhole", "1, which leaves only SYN unanswered, is not supported; use 0 or 2")
		}
	}
	a.delays(o, t)
	if algorithm := setting(o, "cc_algo", 0, 1); algorithm != nil {
		t.CongestionControl = spatev1.CongestionNewReno
		if *algorithm == 1 {
			t.CongestionControl = spatev1.CongestionCubic
		}
	}
	if setting(o, "reass_maxqlen", 0, 1000) != nil {
		a.notes.add("%s: how many segments wait for a missing one is bounded by the receive buffer here", o.at("reass_maxqlen"))
	}
}

// delays reads the delays of small segments and of acknowledgements.
func (a *astf) delays(o *object, t *spatev1.TCPTunables) {
	if o.has("delay_ack_msec") {
		wait := o.whole("delay_ack_msec", 20, 50000)
		if most := uint64(application.LongestDelayedAck.Milliseconds()); wait > most {
			a.notes.add("%s: TRex's acknowledgements wait for up to %d ms; here for %d ms, the longest that RFC 9293 allows", o.at("delay_ack_msec"), wait, most)
			wait = most
		}
		t.DelayedAck = spatev1.Duration(strconv.FormatUint(wait, 10) + "ms")
	}
	if delay := setting(o, "no_delay", 0, 3); delay != nil {
		t.NoDelay = ptr.To(*delay&1 != 0)
		if *delay&2 != 0 {
			a.notes.add("%s: that segments with PSH are acknowledged at once is not a setting of its own here: set delayedAck of the other side to 0s for that", o.at("no_delay"))
		}
	}
	if counter := setting(o, "no_delay_counter", 0, 65533); counter != nil && *counter != 0 {
		a.notes.add("%s: TRex acknowledges each %d bytes; here each second segment is acknowledged (RFC 5681)", o.at("no_delay_counter"), *counter)
	}
}

func flag(o *object, key string) *bool {
	number := setting(o, key, 0, 1)
	if number == nil {
		return nil
	}
	return ptr.To(*number == 1)
}

func seconds(o *object, key string, most uint64) spatev1.Duration {
	number := setting(o, key, 2, most)
	if number == nil {
		return ""
	}
	return spatev1.Duration(strconv.Itoa(int(*number)) + "s")
}

// with returns the settings of all templates, overridden by those of one.
func (g globalInfo) with(own globalInfo) globalInfo {
	override(&g.tos, own.tos)
	override(&g.ttl, own.ttl)
	t, o := &g.tcp, own.tcp
	override(&t.MSS, o.MSS)
	override(&t.InitialWindow, o.InitialWindow)
	override(&t.ReceiveBuffer, o.ReceiveBuffer)
	override(&t.SendBuffer, o.SendBuffer)
	override(&t.DuplicateAckThreshold, o.DuplicateAckThreshold)
	override(&t.Timestamps, o.Timestamps)
	override(&t.WindowScale, o.WindowScale)
	override(&t.SACK, o.SACK)
	override(&t.ECN, o.ECN)
	override(&t.NoDelay, o.NoDelay)
	for to, from := range map[*spatev1.Duration]spatev1.Duration{
		&t.ConnectTimeout: o.ConnectTimeout, &t.KeepaliveIdle: o.KeepaliveIdle, &t.KeepaliveInterval: o.KeepaliveInterval, &t.DelayedAck: o.DelayedAck,
	} {
		if from != "" {
			*to = from
		}
	}
	if o.CongestionControl != "" {
		t.CongestionControl = o.CongestionControl
	}
	override(&t.Blackhole, o.Blackhole)
	return g
}

func override[T any](to **T, from *T) {
	if from != nil {
		*to = from
	}
}

// tunables returns the settings of a side, with TRex's defaults where it has none.
func (g globalInfo) tunables(transport spatev1.Transport, v6 bool) spatev1.SideTunables {
	made := spatev1.SideTunables{TOS: g.tos, TTL: g.ttl}
	switch {
	case made.TTL != nil:
	case v6:
		made.TTL = ptr.To[int32](ownHopLimit)
	default:
		made.TTL = ptr.To[int32](ownTTL)
	}
	if transport == spatev1.TransportUDP {
		return made
	}
	t := g.tcp
	for _, one := range []struct {
		to  **int32
		own int32
	}{{&t.MSS, ownMSS}, {&t.InitialWindow, ownWindow}, {&t.ReceiveBuffer, ownBuffer}, {&t.SendBuffer, ownBuffer}} {
		if *one.to == nil {
			*one.to = ptr.To(one.own)
		}
	}
	if t.CongestionControl == "" {
		t.CongestionControl = spatev1.CongestionNewReno
	}
	made.TCP = &t
	return made
}
