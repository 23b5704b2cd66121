// SPDX-License-Identifier: Apache-2.0

// Package capture answers: what is in a capture that is replayed?
package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/packet"
)

// Capture is a summary of a pcap's packets.
type Capture struct {
	Frames [][]byte
	// interfaces that captured them, by their numbers in a section of pcapng; 0 in pcap.
	interfaces []int
	// span from the first packet to the last.
	span time.Duration
}

// packetReader reads pcap and pcapng files.
type packetReader interface {
	ReadPacketData() ([]byte, gopacket.CaptureInfo, error)
	LinkType() layers.LinkType
}

func openCapture(data []byte) (packetReader, error) {
	if plain, err := pcapgo.NewReader(bytes.NewReader(data)); err == nil {
		return plain, nil
	}
	next, err := pcapgo.NewNgReader(bytes.NewReader(data), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		return nil, errors.New("is neither a pcap nor a pcapng file")
	}
	return next, nil
}

// Read reads all packets of a pcap or pcapng file.
func Read(data []byte) (*Capture, error) {
	reader, err := openCapture(data)
	if err != nil {
		return nil, err
	}
	if kind := reader.LinkType(); kind != layers.LinkTypeEthernet {
		return nil, fmt.Errorf("holds packets of %s; Ethernet is needed", kind)
	}
	read := &Capture{}
	var first, last time.Time
	for {
		frame, info, err := reader.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("packet %d cannot be read: the file is broken, or ends within it", len(read.Frames))
		}
		if info.CaptureLength < info.Length {
			return nil, fmt.Errorf("packet %d was cut off when it was captured: %d of %d bytes are there", len(read.Frames), info.CaptureLength, info.Length)
		}
		if len(frame) > packet.MaxFrameBytes {
			return nil, fmt.Errorf("packet %d has %d bytes; at most %d can be sent", len(read.Frames), len(frame), packet.MaxFrameBytes)
		}
		if len(read.Frames) == 0 {
			first = info.Timestamp
		}
		last = info.Timestamp
		read.Frames, read.interfaces = append(read.Frames, frame), append(read.interfaces, info.InterfaceIndex)
	}
	if len(read.Frames) == 0 {
		return nil, errors.New("holds no packets")
	}
	read.span = max(last.Sub(first), 0)
	return read, nil
}

// Summary returns what a plan has of a capture whose bytes it does not have, or of a half of it; nil is all of it.
func (c *Capture) Summary(half *enginev1.Half) *enginev1.CaptureSummary {
	summary := &enginev1.CaptureSummary{SpanNs: uint64(c.span.Nanoseconds())}
	if half != nil {
		summary.Captured = uint64(len(c.Frames))
	}
	initiator := ""
	for i, frame := range c.Frames {
		source := c.source(i, half.GetBy())
		if initiator == "" {
			initiator = source
		}
		if responds := source != "" && source != initiator; responds == half.GetResponder() {
			summary.Packets++
			summary.Bytes += uint64(max(len(frame), packet.MinFrameBytes))
		}
	}
	return summary
}

// source returns where a packet comes from, by which the engine divides captures, too (engine/replay/src/half.rs); empty if the packet
// does not say that.
func (c *Capture) source(i int, by enginev1.SplitBy) string {
	frame := c.Frames[i]
	switch by {
	case enginev1.SplitBy_SPLIT_BY_MAC:
		if len(frame) >= 12 {
			return string(frame[6:12])
		}
	case enginev1.SplitBy_SPLIT_BY_IP:
		for _, h := range packet.Inspect(frame).Headers {
			switch h.Kind {
			case packet.IPv4:
				return string(frame[h.Offset+12:][:4])
			case packet.IPv6:
				return string(frame[h.Offset+8:][:16])
			case packet.Ethernet, packet.VLAN, packet.MPLS, packet.PPPoE, packet.PPP:
			default:
				return "" // in a tunnel
			}
		}
	case enginev1.SplitBy_SPLIT_BY_INTERFACE:
		return strconv.Itoa(c.interfaces[i])
	}
	return ""
}

// MeanWire returns the mean size of a capture's packets with FCS; the capture must have packets.
func MeanWire(c *enginev1.CaptureSummary) *big.Rat {
	mean := big.NewRat(int64(c.GetBytes()), int64(c.GetPackets()))
	return mean.Add(mean, big.NewRat(packet.FCSBytes, 1))
}
