// SPDX-License-Identifier: Apache-2.0

// Which connections are in a capture, and what do both sides say to each other?

package conformance

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Ending is how a connection ended.
type Ending string

// The ways in which connections end.
const (
	// StaysOpen has no end in the capture.
	StaysOpen Ending = "none"
	// Finished was ended by FIN from both sides.
	Finished Ending = "FIN"
	// HalfClosed was ended by FIN from one side.
	HalfClosed Ending = "FIN of one side"
	// ResetByClient and ResetByServer were ended by RST.
	ResetByClient Ending = "RST by the client"
	ResetByServer Ending = "RST by the server"
)

// Session is a connection over TCP, or messages between two UDP ports.
type Session struct {
	// Start is the time of its first packet.
	Start time.Duration
	// UDP is over UDP; else over TCP.
	UDP bool
	// Client sent the first packet.
	Client, Server netip.AddrPort
	// Sides are the client's and the server's.
	Sides [2]Side
	// Ending of it.
	Ending Ending
	fins   [2]bool
}

// Side is what one side sends.
type Side struct {
	// Stream are the bytes over TCP; it has no gaps.
	Stream []byte
	// Messages over UDP.
	Messages [][]byte
	// Handshake is what its SYN says; empty over UDP.
	Handshake Handshake
	// FirstFlight is how many bytes it sent before the peer acknowledged any of them.
	FirstFlight int
	// longest is how many bytes its longest segment has.
	longest int
	// TTL and TOS of its first packet.
	TTL, TOS uint8

	first    uint32 // sequence number of the stream's first byte
	started  bool
	present  []bool // for each byte of Stream
	answered bool
}

// Handshake is what a SYN says.
type Handshake struct {
	// Options by name, in the order of their numbers.
	Options string
	MSS     int
	// Window as written, not scaled.
	Window int
}

// tuple identifies a connection.
type tuple struct {
	udp            bool
	client, server netip.AddrPort
}

// Sessions finds the connections of a capture in the order of their first packets. All packets must belong to one.
func Sessions(packets []Packet) ([]*Session, error) {
	var all []*Session
	open := map[tuple]*Session{}
	for i, p := range packets {
		one, err := dissect(p.Frame)
		if err != nil {
			return nil, fmt.Errorf("packet %d: %w", i+1, err)
		}
		key := tuple{one.tcp == nil, one.from, one.to}
		session, side := open[key], 0
		if session == nil {
			back := tuple{key.udp, key.server, key.client}
			if session = open[back]; session != nil {
				side = 1
			}
		}
		if opens := one.tcp != nil && one.tcp.SYN && !one.tcp.ACK; session == nil || opens && side == 0 && session.Sides[0].first != one.tcp.Seq+1 {
			if one.tcp != nil && !opens {
				return nil, fmt.Errorf("packet %d: belongs to no connection: %s to %s", i+1, one.from, one.to)
			}
			session, side = &Session{Start: p.At, UDP: key.udp, Client: one.from, Server: one.to, Ending: StaysOpen}, 0
			open[key], all = session, append(all, session)
		}
		if err := session.take(one, side); err != nil {
			return nil, fmt.Errorf("packet %d: %w", i+1, err)
		}
	}
	for _, s := range all {
		for i, side := range s.Sides {
			if at := slices.Index(side.present, false); at >= 0 {
				return nil, fmt.Errorf("%s to %s: byte %d of %s is missing", s.Client, s.Server, at, sideNames[i])
			}
		}
	}
	return all, nil
}

var sideNames = [2]string{"the client", "the server"}

// dissected is a packet's headers and payload.
type dissected struct {
	from, to netip.AddrPort
	ttl, tos uint8
	tcp      *layers.TCP
	payload  []byte
}

func dissect(frame []byte) (dissected, error) {
	var d dissected
	packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{NoCopy: true})
	var source, destination []byte
	switch ip := packet.NetworkLayer().(type) {
	case *layers.IPv4:
		source, destination, d.ttl, d.tos = ip.SrcIP, ip.DstIP, ip.TTL, ip.TOS
	case *layers.IPv6:
		source, destination, d.ttl, d.tos = ip.SrcIP, ip.DstIP, ip.HopLimit, ip.TrafficClass
	default:
		return d, fmt.Errorf("is no IP packet")
	}
	from, _ := netip.AddrFromSlice(source)
	to, _ := netip.AddrFromSlice(destination)
	switch transport := packet.TransportLayer().(type) {
	case *layers.TCP:
		d.tcp, d.payload = transport, transport.Payload
		d.from, d.to = netip.AddrPortFrom(from.Unmap(), uint16(transport.SrcPort)), netip.AddrPortFrom(to.Unmap(), uint16(transport.DstPort))
	case *layers.UDP:
		d.payload = transport.Payload
		d.from, d.to = netip.AddrPortFrom(from.Unmap(), uint16(transport.SrcPort)), netip.AddrPortFrom(to.Unmap(), uint16(transport.DstPort))
	default:
		return d, fmt.Errorf("is neither TCP nor UDP")
	}
	return d, nil
}

// take adds a packet of a side.
func (s *Session) take(one dissected, from int) error {
	side, peer := &s.Sides[from], &s.Sides[1-from]
	if !side.started {
		side.TTL, side.TOS = one.ttl, one.tos
	}
	if one.tcp == nil {
		side.started = true
		side.Messages = append(side.Messages, bytes.Clone(one.payload))
		return nil
	}
	t := one.tcp
	if t.SYN {
		side.first, side.started, side.Handshake = t.Seq+1, true, handshake(t)
	}
	if t.ACK && peer.started && int32(t.Ack-peer.first) > 0 {
		peer.answered = true
	}
	if len(one.payload) > 0 {
		if err := side.put(t.Seq, one.payload); err != nil {
			return fmt.Errorf("%s: %w", sideNames[from], err)
		}
	}
	s.end(t, from)
	return nil
}

// mostStream is how long a stream may be.
const mostStream = 1 << 28

// put adds bytes at a sequence number.
func (s *Side) put(sequence uint32, data []byte) error {
	if !s.started {
		return fmt.Errorf("sends before its SYN")
	}
	at := int(int32(sequence - s.first))
	switch {
	case at == -1 && len(data) == 1:
		return nil // a keepalive repeats a byte, or the SYN's number
	case at < 0 || at > mostStream:
		return fmt.Errorf("sequence number %d is out of its stream, which starts at %d", sequence, s.first)
	}
	if grown := at + len(data) - len(s.Stream); grown > 0 {
		s.Stream, s.present = append(s.Stream, make([]byte, grown)...), append(s.present, make([]bool, grown)...)
	}
	for i, b := range data {
		if s.present[at+i] && s.Stream[at+i] != b {
			return fmt.Errorf("byte %d is sent again as another", at+i)
		}
		s.Stream[at+i], s.present[at+i] = b, true
	}
	s.longest = max(s.longest, len(data))
	if !s.answered {
		s.FirstFlight = max(s.FirstFlight, at+len(data))
	}
	return nil
}

func (s *Session) end(t *layers.TCP, from int) {
	switch {
	case s.Ending == ResetByClient || s.Ending == ResetByServer:
	case t.RST:
		s.Ending = []Ending{ResetByClient, ResetByServer}[from]
	case t.FIN:
		s.fins[from] = true
		s.Ending = HalfClosed
		if s.fins[0] && s.fins[1] {
			s.Ending = Finished
		}
	}
}

func handshake(t *layers.TCP) Handshake {
	h := Handshake{Window: int(t.Window)}
	var names []string
	for _, option := range t.Options {
		switch option.OptionType {
		case layers.TCPOptionKindEndList, layers.TCPOptionKindNop:
			continue
		case layers.TCPOptionKindMSS:
			if len(option.OptionData) == 2 {
				h.MSS = int(option.OptionData[0])<<8 | int(option.OptionData[1])
			}
		}
		names = append(names, option.OptionType.String())
	}
	slices.Sort(names)
	h.Options = strings.Join(names, ", ")
	return h
}
