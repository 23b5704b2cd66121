// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// talk is a dialogue between 16.0.0.1:1111 and 48.0.0.1:80, a packet a millisecond.
type talk struct {
	t       *testing.T
	packets []Packet
	// port of the client.
	port uint16
	// next sequence number of each side.
	next [2]uint32
	mss  uint16
	ttl  uint8
	// timestamps are offered.
	timestamps bool
}

func newTalk(t *testing.T) *talk {
	return &talk{t: t, port: 1111, next: [2]uint32{0xffff_fff0, 7}, mss: 1000, ttl: 64}
}

func (d *talk) frame(from int, transport gopacket.SerializableLayer, payload string) {
	d.t.Helper()
	ip := &layers.IPv4{Version: 4, IHL: 5, TTL: d.ttl, SrcIP: net.IP{16, 0, 0, 1}, DstIP: net.IP{48, 0, 0, 1}, Protocol: layers.IPProtocolTCP}
	if _, udp := transport.(*layers.UDP); udp {
		ip.Protocol = layers.IPProtocolUDP
	}
	if from == 1 {
		ip.SrcIP, ip.DstIP = ip.DstIP, ip.SrcIP
	}
	buffer := gopacket.NewSerializeBuffer()
	ethernet := &layers.Ethernet{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6), EthernetType: layers.EthernetTypeIPv4}
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true}, ethernet, ip, transport, gopacket.Payload(payload)); err != nil {
		d.t.Fatal(err)
	}
	d.packets = append(d.packets, Packet{At: time.Duration(len(d.packets)) * time.Millisecond, Frame: buffer.Bytes()})
}

// says sends a segment; flags are S, F, R and A.
func (d *talk) says(from int, flags, payload string) *talk {
	d.t.Helper()
	t := &layers.TCP{
		SrcPort: layers.TCPPort(d.port), DstPort: 80, Seq: d.next[from], Window: 5000,
		SYN: strings.Contains(flags, "S"), FIN: strings.Contains(flags, "F"), RST: strings.Contains(flags, "R"),
	}
	if t.ACK = strings.Contains(flags, "A"); t.ACK {
		t.Ack = d.next[1-from]
	}
	if t.SYN {
		t.Options = []layers.TCPOption{{OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: []byte{byte(d.mss >> 8), byte(d.mss)}}}
		if d.timestamps {
			t.Options = append(t.Options, layers.TCPOption{OptionType: layers.TCPOptionKindNop}, layers.TCPOption{OptionType: layers.TCPOptionKindTimestamps, OptionLength: 10, OptionData: make([]byte, 8)})
		}
	}
	if from == 1 {
		t.SrcPort, t.DstPort = t.DstPort, t.SrcPort
	}
	d.frame(from, t, payload)
	d.next[from] += uint32(len(payload))
	if t.SYN || t.FIN {
		d.next[from]++
	}
	return d
}

// message over UDP.
func (d *talk) message(from int, payload string) *talk {
	d.t.Helper()
	u := &layers.UDP{SrcPort: layers.UDPPort(d.port), DstPort: 80}
	if from == 1 {
		u.SrcPort, u.DstPort = u.DstPort, u.SrcPort
	}
	d.frame(from, u, payload)
	return d
}

// again sends the packet of an index once more.
func (d *talk) again(index int) *talk {
	d.packets = append(d.packets, Packet{At: time.Duration(len(d.packets)) * time.Millisecond, Frame: d.packets[index].Frame})
	return d
}

func (d *talk) handshake() *talk {
	d.t.Helper()
	return d.says(0, "S", "").says(1, "SA", "").says(0, "A", "")
}

func (d *talk) sessions() []*Session {
	d.t.Helper()
	all, err := Sessions(d.packets)
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}

func TestSessionsAreFoundWithTheirBytes(t *testing.T) {
	d := newTalk(t).handshake().says(0, "A", "GET").says(0, "A", " /").says(1, "A", "hello").again(3).says(0, "FA", "").says(1, "FA", "").says(0, "A", "")
	// Once more from the same port, over UDP from it too, and one that is reset.
	d.next = [2]uint32{500, 600}
	d.handshake().says(0, "RA", "")
	d.message(0, "one").message(1, "two").message(1, "three")
	got := d.sessions()
	if len(got) != 3 {
		t.Fatalf("got %d", len(got))
	}
	web := got[0]
	if web.UDP || web.Start != 0 || web.Client.String() != "16.0.0.1:1111" || web.Server.String() != "48.0.0.1:80" || web.Ending != Finished ||
		string(web.Sides[0].Stream) != "GET /" || string(web.Sides[1].Stream) != "hello" || web.Sides[0].FirstFlight != 5 || web.Sides[1].FirstFlight != 5 {
		t.Errorf("got %+v", web)
	}
	if h := web.Sides[1].Handshake; h.MSS != 1000 || h.Options != "MSS" || h.Window != 5000 || web.Sides[1].TTL != 64 {
		t.Errorf("got %+v", h)
	}
	if got[1].Ending != ResetByClient || got[1].Start != 10*time.Millisecond {
		t.Errorf("got %+v", got[1])
	}
	if udp := got[2]; !udp.UDP || udp.Ending != StaysOpen || len(udp.Sides[0].Messages) != 1 || len(udp.Sides[1].Messages) != 2 || string(udp.Sides[1].Messages[1]) != "three" {
		t.Errorf("got %+v", udp)
	}
}

func TestSegmentsOutOfOrderAreOneStream(t *testing.T) {
	d := newTalk(t).handshake().says(0, "A", "GET").says(0, "A", " /")
	d.packets[3].Frame, d.packets[4].Frame = d.packets[4].Frame, d.packets[3].Frame
	if got := d.sessions(); string(got[0].Sides[0].Stream) != "GET /" {
		t.Errorf("got %q", got[0].Sides[0].Stream)
	}
}

func TestTheFirstFlightEndsWithTheFirstAcknowledgement(t *testing.T) {
	d := newTalk(t).handshake().says(0, "A", "GET").says(1, "A", "one").says(1, "A", "two").says(0, "A", "").says(1, "A", "three")
	if got := d.sessions()[0].Sides[1].FirstFlight; got != 6 {
		t.Errorf("got %d", got)
	}
}

func TestCapturesThatAreNoConnections(t *testing.T) {
	gap := newTalk(t).handshake().says(0, "A", "GET").says(0, "A", " /")
	gap.packets = append(gap.packets[:3], gap.packets[4])
	other := newTalk(t).handshake().says(0, "A", "GET")
	other.next[0] -= 3
	for name, c := range map[string]struct {
		talk *talk
		want string
	}{
		"a gap":          {gap, "16.0.0.1:1111 to 48.0.0.1:80: byte 0 of the client is missing"},
		"other bytes":    {other.says(0, "A", "PUT"), "packet 5: the client: byte 0 is sent again as another"},
		"no handshake":   {newTalk(t).says(0, "A", "GET"), "packet 1: belongs to no connection"},
		"before its SYN": {newTalk(t).says(0, "S", "").says(1, "A", "x"), "packet 2: the server: sends before its SYN"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Sessions(c.talk.packets); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if _, err := Sessions([]Packet{{Frame: make([]byte, 60)}}); err == nil || !strings.Contains(err.Error(), "packet 1: is no IP packet") {
		t.Errorf("got %v", err)
	}
}

func TestOneDifferenceIsFound(t *testing.T) {
	web := func(change func(*talk), then func(*talk)) []*Session {
		d := newTalk(t)
		change(d)
		d.handshake().says(0, "A", "GET").says(1, "A", "hello")
		then(d)
		return d.sessions()
	}
	nothing := func(*talk) {}
	finish := func(d *talk) { d.says(0, "FA", "").says(1, "FA", "") }
	for name, c := range map[string]struct {
		got  []*Session
		want string
	}{
		"nothing":       {web(nothing, finish), ""},
		"the port":      {web(func(d *talk) { d.port = 1112 }, finish), "connection 1 (TCP 16.0.0.1:1111 to 48.0.0.1:80): client: want 16.0.0.1:1111, got 16.0.0.1:1112"},
		"the MSS":       {web(func(d *talk) { d.mss = 900 }, finish), "the client: the SYN says {Options:MSS MSS:900 Window:5000}, want {Options:MSS MSS:1000 Window:5000}"},
		"the options":   {web(func(d *talk) { d.timestamps = true }, finish), "the client: the SYN says {Options:MSS, Timestamps"},
		"the TTL":       {web(func(d *talk) { d.ttl = 63 }, finish), "TTL 63 and TOS 0, want 64 and 0"},
		"more bytes":    {web(nothing, func(d *talk) { d.says(1, "A", "!"); finish(d) }), "the server: want 5 bytes, got 6"},
		"no end":        {web(nothing, nothing), "ends by none, want FIN"},
		"half an end":   {web(nothing, func(d *talk) { d.says(0, "FA", "") }), "ends by FIN of one side, want FIN"},
		"a reset":       {web(nothing, func(d *talk) { d.says(1, "RA", "") }), "ends by RST by the server, want FIN"},
		"one too many":  {web(nothing, func(d *talk) { finish(d); d.message(0, "x") }), "want 1 connections, got 2"},
		"the protocol":  {newTalk(t).message(0, "GET").sessions(), "got UDP 16.0.0.1:1111 to 48.0.0.1:80"},
		"no connection": {nil, "want 1 connections, got 0"},
	} {
		t.Run(name, func(t *testing.T) {
			err := compareSessions(web(nothing, finish), c.got, free{})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	one := newTalk(t).message(0, "abc").message(1, "d").sessions()
	for want, other := range map[string][]*Session{
		"bytes of message 1: at 1 want 6263, got 7863": newTalk(t).message(0, "axc").message(1, "d").sessions(),
		"the server: want 1 messages, got 0":           newTalk(t).message(0, "abc").sessions(),
	} {
		if err := compareSessions(one, other, free{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestTheFirstFlightIsComparedInSegments(t *testing.T) {
	flight := func(bytes int, timestamps bool) []*Session {
		d := newTalk(t)
		d.timestamps = timestamps
		return d.handshake().says(0, "A", strings.Repeat("x", bytes)).says(1, "A", "").says(0, "A", strings.Repeat("x", 9000-bytes)).sessions()
	}
	for _, c := range []struct {
		want, got  int
		timestamps bool
		good       bool
	}{{2000, 2000, false, true}, {1976, 2000, true, true}, {2000, 3000, false, false}, {1976, 988, true, false}} {
		if err := compareSessions(flight(c.want, c.timestamps), flight(c.got, c.timestamps), free{}); (err == nil) != c.good {
			t.Errorf("%d for %d: got %v", c.got, c.want, err)
		}
	}
	// A server with 1000 bytes a segment and a client that allows 500: TRex's segments are as long as the server's own.
	unlike := func(size int) []*Session {
		d := newTalk(t)
		d.mss = 500
		d.says(0, "S", "")
		d.mss = 1000
		d.says(1, "SA", "").says(0, "A", "")
		for range 4 {
			d.says(1, "A", strings.Repeat("x", size))
		}
		return d.says(0, "A", "").sessions()
	}
	want, got := unlike(1000), unlike(500)
	if n := [2]int{want[0].firstSegments(1), got[0].firstSegments(1)}; n != [2]int{4, 4} {
		t.Errorf("got %d segments", n)
	}
}

func TestStartsAreComparedAfterTheFirst(t *testing.T) {
	two := func(first, second time.Duration) []*Session {
		d := newTalk(t).message(0, "a")
		d.port++
		d.message(0, "b")
		d.packets[0].At, d.packets[1].At = first, second
		return d.sessions()
	}
	if err := compareSessions(two(0, time.Second), two(time.Hour, time.Hour+time.Second+startSlack), free{}); err != nil {
		t.Error(err)
	}
	if err := compareSessions(two(0, time.Second), two(0, time.Second+2*startSlack), free{}); err == nil || !strings.Contains(err.Error(), "connection 2 (UDP 16.0.0.1:1112 to 48.0.0.1:80): starts 1.002s after the first, want 1s") {
		t.Errorf("got %v", err)
	}
}

func TestRandomAddressesAreComparedByTheirBounds(t *testing.T) {
	from := func(client string) []*Session {
		s := newTalk(t).message(0, "a").sessions()
		s[0].Client = mustAddrPort(client)
		return s
	}
	clients := free{clients: []span{{mustAddrPort("16.0.0.0:0").Addr(), mustAddrPort("16.0.0.9:0").Addr()}}}
	if err := compareSessions(from("16.0.0.1:5"), from("16.0.0.9:6"), clients); err != nil {
		t.Error(err)
	}
	if err := compareSessions(from("16.0.0.1:5"), from("16.0.0.10:5"), clients); err == nil || !strings.Contains(err.Error(), "client: got 16.0.0.10:5, out of 16.0.0.0 to 16.0.0.9") {
		t.Errorf("got %v", err)
	}
}

// TRex's own captures are connections, and the same as themselves; their profiles can be planned, or TRex sends nothing for them.
func TestCapturesOfTRexAreConnections(t *testing.T) {
	folder := filepath.Join(os.Getenv("CONFORMANCE"), "trex-stateful")
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if os.Getenv("CONFORMANCE") == "" || err != nil || len(files) == 0 {
		t.Skipf("CONFORMANCE names no folder with trex-stateful/*.json (%v)", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			c, err := LoadStateful(folder, name)
			if err != nil {
				t.Fatal(err)
			}
			if c.refusal != nil && len(c.want) > 0 {
				t.Error(c.refusal)
			}
			if err := compareSessions(c.want, c.want, c.free); err != nil {
				t.Error(err)
			}
			for i := 1; i < len(c.want); i++ {
				if compareSessions(c.want[:i], c.want[1:i+1], c.free) == nil {
					t.Errorf("connections %d and %d cannot be determined apart", i, i+1)
				}
			}
		})
	}
}

func mustAddrPort(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }
