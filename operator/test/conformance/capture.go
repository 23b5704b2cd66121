// SPDX-License-Identifier: Apache-2.0

// Package conformance compares what Spate sends for an imported profile with what TRex sends, packet by packet. It shares
// no code with what makes the packets: what may differ is read from TRex's own description of the profile.
package conformance

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Packet of a capture.
type Packet struct {
	// At is its time since the start of the run.
	At time.Duration
	// Frame without FCS.
	Frame []byte
}

// ReadCapture reads a pcap file whose times begin at 0, the start of the run.
func ReadCapture(path string) ([]Packet, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader, err := pcapgo.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if kind := reader.LinkType(); kind != layers.LinkTypeEthernet {
		return nil, fmt.Errorf("%s: holds packets of %s, not of Ethernet", path, kind)
	}
	var all []Packet
	for {
		frame, info, err := reader.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: packet %d: %w", path, len(all)+1, err)
		}
		if info.Length != info.CaptureLength {
			return nil, fmt.Errorf("%s: packet %d was cut off", path, len(all)+1)
		}
		all = append(all, Packet{At: info.Timestamp.Sub(time.Unix(0, 0)), Frame: frame})
	}
}
