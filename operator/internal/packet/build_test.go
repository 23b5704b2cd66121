// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

var at = field.NewPath("spec", "packet")

func eth() spatev1.Header { return spatev1.Header{Ethernet: &spatev1.EthernetHeader{}} }
func vlan(id int32, p spatev1.VLANProtocol) spatev1.Header {
	return spatev1.Header{VLAN: &spatev1.VLANHeader{ID: id, Protocol: p}}
}
func ip4() spatev1.Header {
	return spatev1.Header{IPv4: &spatev1.IPv4Header{Source: "198.18.0.1", Destination: "198.19.0.1"}}
}
func ip6() spatev1.Header {
	return spatev1.Header{IPv6: &spatev1.IPv6Header{Source: "2001:db8::1", Destination: "2001:db8:1::1", FlowLabel: 0x12345}}
}
func udp() spatev1.Header {
	return spatev1.Header{UDP: &spatev1.UDPHeader{DestinationPort: ptr.To[int32](7)}}
}
func tcp() spatev1.Header {
	return spatev1.Header{TCP: &spatev1.TCPHeader{DestinationPort: 80, Flags: []spatev1.TCPFlag{"SYN"}, Sequence: 1 << 31}}
}

func described(size int32, headers ...spatev1.Header) *spatev1.Packet {
	p := &spatev1.Packet{Headers: headers}
	if size > 0 {
		p.Size = ptr.To(size)
	}
	return p
}

func TestBuildMakesPacketsThatDecode(t *testing.T) {
	service, customer := vlan(100, spatev1.VLANService), vlan(200, spatev1.VLANCustomer)
	cases := map[string]struct {
		packet  *spatev1.Packet
		trailer bool
		wire    int
		layers  []gopacket.LayerType
	}{
		"64 bytes of UDP hold a trailer": {described(64, eth(), ip4(), udp()), true, 64,
			[]gopacket.LayerType{layers.LayerTypeEthernet, layers.LayerTypeIPv4, layers.LayerTypeUDP}},
		"an absent size is what is needed": {described(0, eth(), ip4(), tcp()), true, 74,
			[]gopacket.LayerType{layers.LayerTypeEthernet, layers.LayerTypeIPv4, layers.LayerTypeTCP}},
		"and at least 64": {described(0, eth(), ip4(), tcp()), false, 64,
			[]gopacket.LayerType{layers.LayerTypeEthernet, layers.LayerTypeIPv4, layers.LayerTypeTCP}},
		"QinQ": {described(128, eth(), service, customer, ip4(), udp()), true, 128, []gopacket.LayerType{
			layers.LayerTypeEthernet, layers.LayerTypeDot1Q, layers.LayerTypeDot1Q, layers.LayerTypeIPv4, layers.LayerTypeUDP}},
		"IPv6": {described(1518, eth(), ip6(), udp()), true, 1518,
			[]gopacket.LayerType{layers.LayerTypeEthernet, layers.LayerTypeIPv6, layers.LayerTypeUDP}},
		"IPv6 in IPv4, an odd length": {described(999, eth(), ip4(), ip6(), tcp()), true, 999, []gopacket.LayerType{
			layers.LayerTypeEthernet, layers.LayerTypeIPv4, layers.LayerTypeIPv6, layers.LayerTypeTCP}},
		"jumbo": {described(9234, eth(), ip4(), udp()), true, 9234,
			[]gopacket.LayerType{layers.LayerTypeEthernet, layers.LayerTypeIPv4, layers.LayerTypeUDP}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			built, errs := Build(c.packet, at, Options{Trailer: c.trailer, NextHop: InternalDestination})
			if len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			if built.WireBytes() != c.wire {
				t.Errorf("%d bytes on the wire, want %d", built.WireBytes(), c.wire)
			}
			if !built.SourceMACFromPort {
				t.Error("an absent source is the port's own")
			}
			decoded := gopacket.NewPacket(built.Frame, layers.LayerTypeEthernet, gopacket.Default)
			for i, want := range c.layers {
				if got := decoded.Layers()[i].LayerType(); got != want {
					t.Errorf("layer %d is %s, want %s", i, got, want)
				}
			}
			checksumsHold(t, built)
			verifyByGopacket(t, decoded)
		})
	}
}

// verifyByGopacket checks the packet with gopacket.
func verifyByGopacket(t *testing.T, decoded gopacket.Packet) {
	t.Helper()
	var network gopacket.NetworkLayer
	for _, layer := range decoded.Layers() {
		switch layer := layer.(type) {
		case gopacket.NetworkLayer:
			network = layer
		case interface {
			SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
		}:
			if err := layer.SetNetworkLayerForChecksum(network); err != nil {
				t.Fatal(err)
			}
		}
	}
	err, mismatches := decoded.VerifyChecksums()
	if err != nil || len(mismatches) > 0 {
		t.Errorf("%v %v", err, mismatches)
	}
}

func checksumsHold(t *testing.T, p *Packet) {
	t.Helper()
	for i, sum := range p.Checksums {
		if !sum.holds(p.Frame) {
			t.Errorf("checksum %d of %v does not hold", i, p.Headers)
		}
		if (sum.Offset-sum.Start)%2 != 0 {
			t.Errorf("checksum %d is not on a word of what it covers", i)
		}
	}
}

func TestBuildTellsWhatIsWrong(t *testing.T) {
	badIP := spatev1.Header{IPv4: &spatev1.IPv4Header{Source: "300.1.1.1", Destination: "198.19.0.1"}}
	sixInFour := spatev1.Header{IPv4: &spatev1.IPv4Header{Source: "198.18.0.1", Destination: "::1"}}
	cases := map[string]struct {
		packet *spatev1.Packet
		want   string
	}{
		"nothing":        {&spatev1.Packet{}, "spec.packet.headers: Required value: set exactly one of headers and bytes"},
		"empty header":   {described(0, eth(), spatev1.Header{}), "spec.packet.headers[1]: Invalid value"},
		"no ethernet":    {described(0, ip4()), "spec.packet.headers[0].ipv4: Forbidden: the first header must be ethernet"},
		"tcp on vlan":    {described(0, eth(), vlan(1, ""), tcp()), "spec.packet.headers[2].tcp: Forbidden: must follow ipv4 or ipv6 or ipv6HopByHop or ipv6Destination or ipv6Routing or ipv6Fragment, not vlan"},
		"behind udp":     {described(0, eth(), ip4(), udp(), tcp()), "spec.packet.headers[3].tcp: Forbidden"},
		"bad address":    {described(0, eth(), badIP, udp()), "spec.packet.headers[1].ipv4.source: Invalid value: \"300.1.1.1\""},
		"other family":   {described(0, eth(), sixInFour, udp()), "spec.packet.headers[1].ipv4.destination"},
		"open protocol":  {described(0, eth(), ip4()), "spec.packet.headers[1].ipv4.protocol: Required value"},
		"open ethertype": {described(0, eth()), "spec.packet.headers[0].ethernet.etherType: Required value"},
		"too small": {described(64, eth(), ip4(), tcp()),
			"spec.packet.size: Invalid value: 64: must be at least 74: the packet has 54 bytes of headers, 16 for measure.flow and 4 of FCS"},
		"pattern without size": {&spatev1.Packet{Headers: []spatev1.Header{eth(), ip4(), udp()}, Payload: &spatev1.Payload{Pattern: "ab"}},
			"spec.packet.size: Required value"},
		"long payload": {&spatev1.Packet{Headers: []spatev1.Header{eth(), ip4(), udp()}, Size: ptr.To[int32](64), Payload: &spatev1.Payload{Text: "hello"}},
			"must be at least 67: the packet has 42 bytes of headers, 5 of payload, 16 for measure.flow and 4 of FCS"},
		"odd hex":   {&spatev1.Packet{Headers: []spatev1.Header{eth(), ip4(), udp()}, Payload: &spatev1.Payload{Hex: "abc"}}, "spec.packet.payload.hex"},
		"short raw": {&spatev1.Packet{Bytes: make([]byte, 59)}, "spec.packet.bytes: Invalid value: \"59 bytes\": must be 60 to 9230 bytes, without FCS"},
		"raw, size": {&spatev1.Packet{Bytes: make([]byte, 60), Size: ptr.To[int32](64)}, "spec.packet.size: Forbidden"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, errs := Build(c.packet, at, Options{Trailer: true, NextHop: InternalDestination})
			if len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), c.want) {
				t.Errorf("got %v, want %s", errs.ToAggregate(), c.want)
			}
		})
	}
}

func TestDestinationIsNeededWhereThePortLeadsSomewhere(t *testing.T) {
	_, errs := Build(described(64, eth(), ip4(), udp()), at, Options{})
	if len(errs) != 1 || errs[0].Field != "spec.packet.headers[0].ethernet.destination" {
		t.Errorf("got %v", errs)
	}
	headers := []spatev1.Header{{Ethernet: &spatev1.EthernetHeader{Source: "02:00:00:00:00:0a", Destination: "02:00:00:00:00:0b"}}, ip4(), udp()}
	built, errs := Build(described(64, headers...), at, Options{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if built.SourceMACFromPort || !bytes.Equal(built.Frame[:12], []byte{2, 0, 0, 0, 0, 0x0b, 2, 0, 0, 0, 0, 0x0a}) {
		t.Errorf("addresses as described are kept, got %x", built.Frame[:12])
	}
}

func TestPayloads(t *testing.T) {
	cases := map[string]struct {
		payload spatev1.Payload
		want    string
	}{
		"text":    {spatev1.Payload{Text: "spate"}, "7370617465" + strings.Repeat("00", 13)},
		"hex":     {spatev1.Payload{Hex: "DEADbeef"}, "deadbeef" + strings.Repeat("00", 14)},
		"pattern": {spatev1.Payload{Pattern: "a1b2c3d4"}, strings.Repeat("a1b2c3d4", 4) + "a1b2"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := described(64, eth(), ip4(), udp())
			p.Payload = &c.payload
			built, errs := Build(p, at, Options{NextHop: InternalDestination})
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if got := hex.EncodeToString(built.Frame[42:]); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestRawPackets(t *testing.T) {
	built, errs := Build(described(100, eth(), ip4(), udp()), at, Options{NextHop: InternalDestination})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	raw := func(change func([]byte)) *spatev1.Packet {
		frame := append([]byte(nil), built.Frame...)
		change(frame)
		return &spatev1.Packet{Bytes: frame}
	}
	t.Run("are sent as they are, and their true checksums kept", func(t *testing.T) {
		p, errs := Build(raw(func([]byte) {}), at, Options{Trailer: true})
		if len(errs) > 0 || !bytes.Equal(p.Frame, built.Frame) || len(p.Checksums) != 2 || p.SourceMACFromPort {
			t.Errorf("got %v %+v", errs, p)
		}
	})
	t.Run("take their addresses from the port where they shall", func(t *testing.T) {
		description := raw(func([]byte) {})
		description.FromPort = []spatev1.PortAddress{spatev1.PortSource, spatev1.PortDestination}
		if p, errs := Build(description, at, Options{NextHopFromPort: true}); len(errs) > 0 || !p.SourceMACFromPort || !p.DestinationMACFromPort {
			t.Errorf("got %v %+v", errs, p)
		}
		hop := net.HardwareAddr{2, 0, 0, 0, 0, 9}
		if p, errs := Build(description, at, Options{NextHop: hop}); len(errs) > 0 || p.DestinationMACFromPort || !bytes.Equal(p.Frame[:6], hop) {
			t.Errorf("got %v %+v", errs, p)
		}
		if _, errs := Build(description, at, Options{}); len(errs) != 1 || !strings.HasPrefix(errs[0].Field, at.String()+".fromPort[1]") ||
			!strings.Contains(errs[0].Detail, "has no address to find its next hop with") {
			t.Errorf("got %v", errs)
		}
		description.FromPort = []spatev1.PortAddress{"Both"}
		if _, errs := Build(description, at, Options{}); len(errs) != 1 || !strings.HasPrefix(errs[0].Field, at.String()+".fromPort[0]") {
			t.Errorf("got %v", errs)
		}
		stacked := described(64, eth(), ip4(), udp())
		stacked.FromPort = []spatev1.PortAddress{spatev1.PortSource}
		if _, errs := Build(stacked, at, Options{NextHop: hop}); len(errs) != 1 || errs[0].Field != at.String()+".fromPort" {
			t.Errorf("got %v", errs)
		}
	})
	t.Run("a header that ends the packet has its checksum too", func(t *testing.T) {
		description := raw(func([]byte) {})
		description.Bytes = description.Bytes[:60]
		end := len(description.Bytes)
		description.Checksums = []spatev1.RawChecksum{{Type: spatev1.RawICMP, Offset: int32(end - 4)}}
		if p, errs := Build(description, at, Options{}); len(errs) > 0 || p.Checksums[0].Offset != end-2 {
			t.Errorf("got %v %+v", errs, p)
		}
		for kind, size := range map[spatev1.RawChecksumType]int{spatev1.RawICMP: 3, spatev1.RawSCTP: 11} {
			description.Checksums = []spatev1.RawChecksum{{Type: kind, Offset: int32(end - size)}}
			if _, errs := Build(description, at, Options{}); len(errs) != 1 || !strings.Contains(errs[0].Detail, "has room there") {
				t.Errorf("%s: got %v", kind, errs)
			}
		}
	})
	t.Run("wrong and absent checksums are left alone", func(t *testing.T) {
		p, _ := Build(raw(func(f []byte) { f[24]++; f[40], f[41] = 0, 0 }), at, Options{Trailer: true})
		if len(p.Checksums) != 0 {
			t.Errorf("got %+v", p.Checksums)
		}
	})
	t.Run("padding behind the IP packet is no place for a trailer", func(t *testing.T) {
		_, errs := Build(raw(func(f []byte) { binary.BigEndian.PutUint16(f[16:], 70) }), at, Options{Trailer: true})
		if len(errs) != 1 || !strings.Contains(errs[0].Detail, "ends 12 bytes before the frame does") {
			t.Errorf("got %v", errs)
		}
	})
	t.Run("headers are no place for a trailer", func(t *testing.T) {
		small, _ := Build(described(64, eth(), ip4(), tcp()), at, Options{NextHop: InternalDestination})
		_, errs := Build(&spatev1.Packet{Bytes: small.Frame}, at, Options{Trailer: true})
		if len(errs) != 1 || !strings.Contains(errs[0].Detail, "behind the headers are only 6: append 10") {
			t.Errorf("got %v", errs)
		}
	})
}

func TestInspectJudgesWhatIsOnTheWire(t *testing.T) {
	build := func(headers ...spatev1.Header) []byte {
		p, errs := Build(described(128, headers...), at, Options{NextHop: InternalDestination})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return p.Frame
	}
	changed := func(frame []byte, at int, bytes ...byte) []byte {
		copy(frame[at:], bytes)
		return frame
	}
	cases := map[string]struct {
		frame  []byte
		want   string
		opaque string
	}{
		"udp":            {build(eth(), ip4(), udp()), "ethernet/ipv4/udp 198.18.0.1:49152 > 198.19.0.1:7", ""},
		"tcp over ipv6":  {build(eth(), ip6(), tcp()), "ethernet/ipv6/tcp [2001:db8::1]:49152 > [2001:db8:1::1]:80", ""},
		"qinq":           {build(eth(), vlan(1, "802.1ad"), vlan(2, ""), ip4(), udp()), "ethernet/vlan/vlan/ipv4/udp 198.18.0.1:49152 > 198.19.0.1:7", ""},
		"tunnel":         {build(eth(), ip4(), ip6(), udp()), "ethernet/ipv4/ipv6/udp [2001:db8::1]:49152 > [2001:db8:1::1]:7", ""},
		"not ip":         {changed(build(eth(), ip4(), udp()), 12, 0x88, 0xcc), "ethernet", ""},
		"arp":            {changed(build(eth(), ip4(), udp()), 12, 0x08, 0x06), "ethernet/arp", ""},
		"a fragment":     {changed(build(eth(), ip4(), udp()), 20, 0x00, 0x10), "ethernet/ipv4 198.18.0.1 > 198.19.0.1", ""},
		"source route":   {changed(build(eth(), ip4(), udp()), 14, 0x46, 0, 0, 110, 0, 0, 0, 0, 64, 17, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 131, 3, 0, 0), "ethernet 1.1.1.1 > 2.2.2.2", "source route"},
		"bad options":    {changed(build(eth(), ip4(), udp()), 14, 0x46, 0, 0, 110, 0, 0, 0, 0, 64, 17, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 7, 1, 0, 0), "ethernet 1.1.1.1 > 2.2.2.2", "cannot be read"},
		"longer than is": {changed(build(eth(), ip4(), udp()), 16, 0x10, 0), "ethernet 198.18.0.1 > 198.19.0.1", "gives 4096 bytes"},
		"routing header": {changed(build(eth(), ip6(), udp()), 20, 43), "ethernet/ipv6 2001:db8::1 > 2001:db8:1::1", "segments left"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			seen := Inspect(c.frame)
			if seen.String() != c.want {
				t.Errorf("got %q, want %q", seen, c.want)
			}
			if !strings.Contains(seen.Opaque, c.opaque) || (seen.Opaque == "") != (c.opaque == "") {
				t.Errorf("opaque is %q, want %q", seen.Opaque, c.opaque)
			}
		})
	}
}

func TestLocate(t *testing.T) {
	p, _ := Build(described(128, eth(), vlan(1, "802.1ad"), vlan(2, ""), ip4(), udp()), at, Options{NextHop: InternalDestination})
	cases := map[string]struct {
		bit, bits int
		err       string
	}{
		"ipv4.source":         {bit: 34 * 8, bits: 32},
		"vlan[1].id":          {bit: 18*8 + 4, bits: 12},
		"udp.destinationPort": {bit: 44 * 8, bits: 16},
		"tcp.sourcePort":      {err: "the packet has 0 tcp headers"},
		"ipv4.length":         {err: "this ipv4 header has no field length; it has checksum, destination, dontFragment"},
		"gre.key":             {err: "the packet has 0 gre headers"},
		"isis.area":           {err: "isis is no header; known are arp, ethernet"},
		"ipv4":                {err: "must name a header's field"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := p.Locate(name)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil || got != (Location{c.bit, c.bits}) {
				t.Errorf("got %v %v", got, err)
			}
		})
	}
}
