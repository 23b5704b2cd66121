// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"spate.dev/operator/internal/engine/enginev1"
)

// captured is a packet, by the last bytes of its MAC and IPv4 addresses (0 for ARP), and the interface that captured it.
type captured struct{ mac, ip, by byte }

// recorded returns a pcapng file of packets.
func recorded(t *testing.T, packets ...captured) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := pcapgo.NewNgWriter(&out, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.AddInterface(pcapgo.NgInterface{LinkType: layers.LinkTypeEthernet}); err != nil {
		t.Fatal(err)
	}
	for i, p := range packets {
		frame := make([]byte, 60+i)
		frame[11] = p.mac
		copy(frame[12:], []byte{8, 6})
		if p.ip > 0 {
			copy(frame[12:], []byte{8, 0, 0x45, 0, 0, 46})
			frame[23], frame[29] = 253, p.ip
		}
		info := gopacket.CaptureInfo{Timestamp: time.Unix(0, int64(i)*1000), CaptureLength: len(frame), Length: len(frame), InterfaceIndex: int(p.by)}
		if err := w.WritePacket(info, frame); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The same cases are in engine/replay/src/half.rs.
func TestAHalfHasThePacketsOfTheFirstSourceOrOfAllOthers(t *testing.T) {
	talk := recorded(t, captured{1, 1, 1}, captured{2, 2, 0}, captured{1, 3, 1}, captured{1, 1, 0}, captured{3, 2, 0})
	resolving := recorded(t, captured{2, 0, 0}, captured{1, 7, 0}, captured{2, 8, 0}, captured{1, 0, 0}, captured{2, 8, 0}, captured{1, 7, 0})
	for name, c := range map[string]struct {
		file      []byte
		by        enginev1.SplitBy
		initiated []int
	}{
		"MAC":       {talk, enginev1.SplitBy_SPLIT_BY_MAC, []int{0, 2, 3}},
		"IP":        {talk, enginev1.SplitBy_SPLIT_BY_IP, []int{0, 3}},
		"interface": {talk, enginev1.SplitBy_SPLIT_BY_INTERFACE, []int{0, 2}},
		"ARP":       {resolving, enginev1.SplitBy_SPLIT_BY_IP, []int{0, 1, 3, 5}},
	} {
		read, err := Read(c.file)
		if err != nil {
			t.Fatal(err)
		}
		for _, responder := range []bool{false, true} {
			want := &enginev1.CaptureSummary{Captured: uint64(len(read.Frames)), SpanNs: uint64(len(read.Frames)-1) * 1000}
			for i, frame := range read.Frames {
				if slices.Contains(c.initiated, i) != responder {
					want.Packets, want.Bytes = want.Packets+1, want.Bytes+uint64(len(frame))
				}
			}
			got := read.Summary(&enginev1.Half{By: c.by, Responder: responder})
			if got.Packets != want.Packets || got.Bytes != want.Bytes || got.Captured != want.Captured || got.SpanNs != want.SpanNs {
				t.Errorf("by %s, responder %t: got %v, want %v", name, responder, got, want)
			}
		}
	}
}

// FuzzRead reads arbitrary captures.
func FuzzRead(f *testing.F) {
	f.Add([]byte("\xd4\xc3\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01\x00\x00\x00"))
	f.Add([]byte("\x0a\x0d\x0d\x0a\x1c\x00\x00\x00\x4d\x3c\x2b\x1a\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		read, err := Read(data)
		if err != nil {
			return
		}
		if len(read.Frames) == 0 || MeanWire(read.Summary(nil)).Sign() <= 0 {
			t.Fatalf("%d packets", len(read.Frames))
		}
		for by := range enginev1.SplitBy_name {
			packets := uint64(0)
			for _, responder := range []bool{false, true} {
				packets += read.Summary(&enginev1.Half{By: enginev1.SplitBy(by), Responder: responder}).Packets
			}
			if packets != uint64(len(read.Frames)) {
				t.Fatalf("%d of %d packets are in a half by %d", packets, len(read.Frames), by)
			}
		}
	})
}
