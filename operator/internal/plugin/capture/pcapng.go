// SPDX-License-Identifier: Apache-2.0

// How are packets written as a pcapng file that others read meanwhile?

package capture

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plugin/live"
)

// packetFile is a pcapng file (draft-ietf-opsawg-pcapng) with an interface for each port of each pod, and times in
// nanoseconds. Packets of different ports are in the order in which they were received here.
type packetFile struct {
	mu     sync.Mutex
	writer *pcapgo.NgWriter
	ports  []capturedPort
	// left is the number of packets still to be written; negative if there is no limit.
	left int64
	// full is called when no more are to be written.
	full func()
}

// capturedPort is one interface of the file.
type capturedPort struct {
	pod, port      string
	packets, bytes uint64
	missed         live.Missed
}

// name is that of the interface in the file.
func (p *capturedPort) name() string { return p.pod + "/" + p.port }

// names are those of all interfaces.
func (f *packetFile) names() []string {
	names := make([]string, len(f.ports))
	for i := range f.ports {
		names[i] = f.ports[i].name()
	}
	return names
}

// newPacketFile writes the start of a file. At most count packets follow, or any number if count is 0.
func newPacketFile(to io.Writer, spec *spatev1.TrafficCaptureSpec, ports []capturedPort, count int64, full func()) (*packetFile, error) {
	f := &packetFile{ports: ports, left: count, full: full}
	if count == 0 {
		f.left = -1
	}
	options := pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Hardware: runtime.GOARCH, OS: runtime.GOOS, Application: "kubectl spate capture"}}
	for i, port := range ports {
		description := pcapgo.NgInterface{
			Name: port.name(), Filter: spec.Filter, LinkType: layers.LinkTypeEthernet,
			Description: fmt.Sprintf("port %s of TrafficGenerator %s, pod %s", port.port, spec.GeneratorRef.Name, port.pod),
			SnapLength:  cmp.Or(uint32(spec.SnapLength), 65_535),
		}
		var err error
		if i == 0 {
			f.writer, err = pcapgo.NewNgWriterInterface(to, description, options)
		} else {
			_, err = f.writer.AddInterface(description)
		}
		if err != nil {
			return nil, err
		}
	}
	return f, f.writer.Flush()
}

// directions of packets in the file, by the engine's.
var directions = map[enginev1.Direction]pcapgo.NgEpbFlag{
	enginev1.Direction_DIRECTION_RX: pcapgo.NgEpbFlagDirectionInbound, enginev1.Direction_DIRECTION_TX: pcapgo.NgEpbFlagDirectionOutbound,
}

// write adds the packets of a port and flushes them, for concurrent readers.
func (f *packetFile) write(port int, answer *enginev1.CaptureResponse) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := &f.ports[port]
	at.missed.Report(answer.Missed)
	for _, packet := range answer.Packets {
		if f.left == 0 {
			break
		}
		info := gopacket.CaptureInfo{
			Timestamp: time.Unix(0, packet.AtNs), CaptureLength: len(packet.Data), Length: max(int(packet.OriginalLength), len(packet.Data)), InterfaceIndex: port,
		}
		options := pcapgo.NgPacketOptions{Flags: &pcapgo.NgEpbFlags{Direction: directions[packet.Direction]}}
		if err := f.writer.WritePacketWithOptions(info, packet.Data, options); err != nil {
			return err
		}
		at.packets++
		at.bytes += uint64(len(packet.Data))
		f.left--
	}
	if f.left == 0 {
		f.full()
	}
	return f.writer.Flush()
}

// end writes the numbers of received and missed packets of each port.
func (f *packetFile) end() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, port := range f.ports {
		statistics := pcapgo.NgInterfaceStatistics{LastUpdate: time.Now(), PacketsReceived: port.packets + port.missed.All, PacketsDropped: port.missed.All}
		if err := f.writer.WriteInterfaceStats(i, statistics); err != nil {
			return err
		}
	}
	return f.writer.Flush()
}
