// SPDX-License-Identifier: Apache-2.0

// Package capture answers: what is in a capture that is replayed?
package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
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
	// bytes of all packets, without FCS.
	bytes int64
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
		read.Frames = append(read.Frames, frame)
		read.bytes += int64(max(len(frame), packet.MinFrameBytes))
	}
	if len(read.Frames) == 0 {
		return nil, errors.New("holds no packets")
	}
	read.span = max(last.Sub(first), 0)
	return read, nil
}

// Summary returns what a plan has of a capture whose bytes it does not have.
func (c *Capture) Summary() *enginev1.CaptureSummary {
	return &enginev1.CaptureSummary{Packets: uint64(len(c.Frames)), Bytes: uint64(c.bytes), SpanNs: uint64(c.span.Nanoseconds())}
}

// MeanWire returns the mean size of a capture's packets with FCS; the capture must have packets.
func MeanWire(c *enginev1.CaptureSummary) *big.Rat {
	mean := big.NewRat(int64(c.GetBytes()), int64(c.GetPackets()))
	return mean.Add(mean, big.NewRat(packet.FCSBytes, 1))
}
