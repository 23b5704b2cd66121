// SPDX-License-Identifier: Apache-2.0

// Sources to ignore: the kernel of the node, from one of its addresses, and a station by its MAC send to emulated servers, which neither
// answer nor serve them, and count each packet.

package suites

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// ignoring are servers that ignore an address of the bridge that they are on, and the MAC of a station, from which a stream comes.
const ignoring = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: ignoring}
spec:
  config: '{"cniVersion": "1.0.0", "type": "bridge", "bridge": "ignoring0"}'
---
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: ignoring}
spec:
  cpuPolicy: Shared
  packetMemory: {backing: Standard, size: 64Mi}
  ports:
  - {name: site, mac: "02:00:00:00:09:01", attachment: {kernel: {network: ignoring}}, addresses: [198.18.9.1/24]}
  - {name: station, attachment: {kernel: {network: ignoring}}}
---
apiVersion: spate.dev/v1alpha1
kind: ASTFTemplate
metadata: {name: page}
spec:
  destinationPort: 80
  connectionRate: 1cps    # of clients, which are real here: without effect
  pools:
    servers: [{name: servers, start: 198.18.9.32, count: 4}]
  source:
    programs:
      transport: TCP
      server:
      - receiveUntil: {httpMessage: {}}
      - send: {content: {text: "HTTP/1.1 200 OK\r\nContent-Length: 2000\r\nConnection: close\r\n\r\n"}}
      - send: {content: {size: 2000}}
      - waitForPeerClose: {}
---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: ignoring}
spec:
  generatorRef: {name: ignoring}
  duration: 15s
  drain: 1s
  generatorTolerance: {late: 100%}
  ignoredSources: {macs: ["02:00:00:00:00:99"], addresses: [198.18.9.253]}
  traffic:
  - {name: page, receivePort: site, application: {templateRef: {name: page}}}
  - name: station
    transmitPort: station
    stream:
      inline:
        packet:
          headers:
          - ethernet: {source: "02:00:00:00:00:99", destination: "02:00:00:00:09:01"}
          - ipv4: {source: 198.18.9.7, destination: 198.18.9.33}
          - tcp: {destinationPort: 80, flags: [SYN]}
          size: 64
        transmit: {burst: {packets: 100, rate: 1kpps}}
`

// The addresses of the kernel on the bridge, and a server's.
const (
	servedAddress  = "198.18.9.254"
	ignoredAddress = "198.18.9.253"
	serverAddress  = "198.18.9.32"
)

// Flags of TCP.
const (
	flagSYN = 1 << 1
	flagRST = 1 << 2
	flagACK = 1 << 4
)

// probePort is the source port of segments that no connection of the kernel has sent.
const probePort = 4000

func TestSourcesToIgnoreAreNeitherServedNorAnswered(t *testing.T) {
	needsRig(t, theMultus)
	ns := namespace(t)
	mustApply(t, ns, ignoring)
	p := profileNamed(ns, "ignoring")
	condition(t, 90*time.Second, generatorNamed(ns, "ignoring"), spate.ConditionReady, metav1.ConditionTrue)
	runAll(t,
		// The engine reads what the kernel sends: checksums must be complete.
		"ethtool -K ignoring0 tx off",
		"ip address replace "+servedAddress+"/24 dev ignoring0",
		"ip address replace "+ignoredAddress+"/24 dev ignoring0",
	)
	phase(t, 30*time.Second, p, spate.ProfileRunning)

	const each, kinds, ofTheStation = 10, 4, 100
	ignored, served := rawSocket(t, "ip4:tcp", ignoredAddress), rawSocket(t, "ip4:tcp", servedAddress)
	echoes, datagrams := rawSocket(t, "ip4:icmp", ignoredAddress), datagramSocket(t, ignoredAddress)
	for range each {
		sendRaw(t, ignored, segment(ignoredAddress, flagSYN))
		sendRaw(t, ignored, segment(ignoredAddress, flagACK))
		sendRaw(t, echoes, echoRequest())
		if _, err := datagrams.Write([]byte("ignored")); err != nil {
			t.Fatal(err)
		}
		sendRaw(t, served, segment(servedAddress, flagACK))
	}
	// Resets to either address would arrive in the order of the segments.
	if n := resets(t, served, each+1, time.Second); n != each {
		t.Errorf("%d resets came back to an address that is not ignored, want %d", n, each)
	}
	if n := resets(t, ignored, 1, 100*time.Millisecond); n != 0 {
		t.Error("a reset came back to an ignored address")
	}
	if bytes, err := page(t.Context(), servedAddress); err != nil || bytes != 2000 {
		t.Errorf("a page for an address that is not ignored: %d bytes, %v", bytes, err)
	}

	run := complete(t, 60*time.Second, p)
	if sent := streamOf(t, run, "station").Tx; sent != ofTheStation {
		t.Errorf("the station with an ignored MAC has sent %d packets, want %d", sent, ofTheStation)
	}
	servers := templateOf(t, run, "page").Server
	settled(t, "servers", servers, 1)
	if servers.Errors != 0 {
		t.Errorf("ignored packets count as errors: %+v", servers.FlowCounters)
	}
	for metric, want := range map[string]int64{
		"spate_template_ignored_packets_total": each*kinds + ofTheStation,
		"spate_template_strays_refused_total":  each,
	} {
		if got := countedBy(t, "role", metric, `template="page"`, run); got["server"] != want || got["client"] != 0 {
			t.Errorf("%s by role: %v, want %d of servers", metric, got, want)
		}
	}
}

// rawSocket sends and receives packets of a protocol of IPv4 with an address of the node's, until the test ends. Its kernel answers none of
// them for the socket.
func rawSocket(t *testing.T, protocol, address string) net.PacketConn {
	t.Helper()
	socket, err := net.ListenPacket(protocol, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	return socket
}

// sendRaw sends what follows the header of IPv4 to the server.
func sendRaw(t *testing.T, socket net.PacketConn, payload []byte) {
	t.Helper()
	if _, err := socket.WriteTo(payload, &net.IPAddr{IP: net.ParseIP(serverAddress)}); err != nil {
		t.Fatal(err)
	}
}

// datagramSocket sends datagrams from an address of the node's to a port of the server, until the test ends.
func datagramSocket(t *testing.T, address string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(address)}}
	socket, err := dialer.DialContext(t.Context(), "udp4", net.JoinHostPort(serverAddress, "53"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	return socket
}

// segment is a TCP segment from an address to the server (RFC 9293 section 3.1), without options and data.
func segment(source string, flags byte) []byte {
	s := make([]byte, 20)
	binary.BigEndian.PutUint16(s, probePort)
	binary.BigEndian.PutUint16(s[2:], 80)
	binary.BigEndian.PutUint32(s[4:], 1) // sequence number
	if flags&flagACK != 0 {
		binary.BigEndian.PutUint32(s[8:], 1) // acknowledgement number
	}
	s[12], s[13] = 5<<4, flags // header length in words of 4 bytes
	binary.BigEndian.PutUint16(s[14:], 1000)
	pseudo := append(netip.MustParseAddr(source).AsSlice(), netip.MustParseAddr(serverAddress).AsSlice()...)
	pseudo = append(pseudo, 0, 6, 0, byte(len(s))) // protocol, length
	binary.BigEndian.PutUint16(s[16:], checksum(append(pseudo, s...)))
	return s
}

// echoRequest is an ICMP echo request without data (RFC 792).
func echoRequest() []byte {
	request := []byte{8, 0, 0, 0, 0, 1, 0, 1}
	binary.BigEndian.PutUint16(request[2:], checksum(request))
	return request
}

// checksum of the Internet of an even number of bytes (RFC 1071).
func checksum(data []byte) uint16 {
	var sum uint32
	for ; len(data) >= 2; data = data[2:] {
		sum += uint32(binary.BigEndian.Uint16(data))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// resets counts the RST segments that arrive for probePort until there are `most`, or none has come for a time.
func resets(t *testing.T, socket net.PacketConn, most int, patience time.Duration) (count int) {
	t.Helper()
	buffer := make([]byte, 2048)
	for deadline := time.Now().Add(patience); count < most; {
		if err := socket.SetReadDeadline(deadline); err != nil {
			t.Fatal(err)
		}
		n, _, err := socket.ReadFrom(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n >= 20 && binary.BigEndian.Uint16(buffer[2:]) == probePort && buffer[13]&flagRST != 0 {
			count++
			deadline = time.Now().Add(patience)
		}
	}
	return count
}

// page requests the server's page from an address of the node's, and returns its size in bytes.
func page(ctx context.Context, from string) (int, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+serverAddress+"/", nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return len(body), err
}
