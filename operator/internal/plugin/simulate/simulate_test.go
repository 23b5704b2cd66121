// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"spate.dev/operator/internal/packet"
	"spate.dev/operator/internal/plugin/enginebinary"
	"spate.dev/operator/internal/plugin/plugintest"
)

// spate runs a command line with standard input.
func spate(input string, args ...string) (output, stderr string, err error) {
	return plugintest.Run(input, args, NewCommand())
}

func TestSimulateRunsTheEngine(t *testing.T) {
	both := plugintest.Smoke + "---\n" + plugintest.UDP
	path := plugintest.Echoing(t, "0")
	for name, find := range map[string]func(t *testing.T) []string{
		"by flag":     func(*testing.T) []string { return []string{"--engine", path} },
		"by variable": func(t *testing.T) []string { t.Setenv(enginebinary.Variable, path); return nil },
		"by path": func(t *testing.T) []string {
			t.Setenv(enginebinary.Variable, "")
			t.Setenv("PATH", filepath.Dir(path)+":"+os.Getenv("PATH"))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			output, stderr, err := spate(both, append([]string{"simulate", "-", "--pcap", "out.pcap", "--worker-limit", "50", "--workers", "2"}, find(t)...)...)
			if want := "simulate --plan - --pcap out.pcap --workers 2 --worker-limit 50\n1\n"; err != nil || output != want {
				t.Errorf("got %q, %q, %v, want %q", output, stderr, err, want)
			}
		})
	}
}

func TestSimulateNamesTheStages(t *testing.T) {
	staged := plugintest.Smoke + "  stages: [{name: ramp, duration: 1s, ramp: 1s, rate: 1x}, {name: soak, duration: 2s, rate: 2x}]\n"
	output, stderr, err := spate(staged+"---\n"+plugintest.UDP, "simulate", "-", "--pcap", "out.pcap", "--engine", plugintest.Echoing(t, "0"))
	if want := "simulate --plan - --pcap out.pcap --workers 1 --stage-name ramp --stage-name soak\n1\n"; err != nil || output != want {
		t.Errorf("got %q, %q, %v, want %q", output, stderr, err, want)
	}
}

func TestSimulateTellsWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(enginebinary.Variable, "")
	both := plugintest.Smoke + "---\n" + plugintest.UDP
	_, _, err := spate(both, "simulate", "-", "--pcap", "o", "--limit", "5")
	if err == nil || !strings.Contains(err.Error(), "build it with `make engine`") {
		t.Errorf("got %v", err)
	}
	_, _, err = spate(both, "simulate", "-", "--pcap", "o", "--limit", "5", "--engine", "/nowhere/engine")
	if err == nil || !strings.Contains(err.Error(), "--engine names the engine's program: ") || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	t.Setenv(enginebinary.Variable, "/nowhere/engine")
	if _, _, err = spate(both, "simulate", "-", "--pcap", "o"); err == nil || !strings.Contains(err.Error(), enginebinary.Variable+" names") {
		t.Errorf("got %v", err)
	}
	path := plugintest.Echoing(t, "0")
	if _, _, err = spate(both, "simulate", "-", "--pcap", "o", "--engine", path); err == nil || !strings.Contains(err.Error(), "set the number of packets to write with --limit or --worker-limit") {
		t.Errorf("got %v", err)
	}
	if _, _, err = spate(both, "simulate", "-", "--engine", path); err == nil || !strings.Contains(err.Error(), `"pcap" not set`) {
		t.Errorf("got %v", err)
	}
}

// TestSimulateWritesWhatTheEngineSends needs the engine.
func TestSimulateWritesWhatTheEngineSends(t *testing.T) {
	if os.Getenv(enginebinary.Variable) == "" {
		t.Skip(enginebinary.Variable + " is not set; run `make operator-test`")
	}
	pcap := filepath.Join(t.TempDir(), "out.pcap")
	_, stderr, err := spate(plugintest.Smoke+"---\n"+plugintest.UDP, "simulate", "-", "--pcap", pcap, "--limit", "7")
	if err != nil {
		t.Fatal(err, stderr)
	}
	// A header of 24 bytes, and one of 16 before each frame of 124 bytes (128 with FCS).
	if file, err := os.Stat(pcap); err != nil || file.Size() != 24+7*(16+124) {
		t.Errorf("got %v %v", file, err)
	}
}

// The capture of the sample leaves 5 ms after the last packet of the burst before it, twice, and the burst again at once.
func TestSimulateSendsAReplayInAChain(t *testing.T) {
	if os.Getenv(enginebinary.Variable) == "" {
		t.Skip(enginebinary.Variable + " is not set; run `make operator-test`")
	}
	sample, err := os.ReadFile("../../../../config/samples/replay-chain.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pcap := filepath.Join(t.TempDir(), "out.pcap")
	if _, stderr, err := spate(string(sample), "simulate", "-", "--pcap", pcap, "--limit", "1000"); err != nil {
		t.Fatal(err, stderr)
	}
	file, err := os.Open(pcap)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, err := pcapgo.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	type sent struct {
		load  bool
		after time.Duration // since the packet before it
	}
	var got []sent
	var before time.Time
	for {
		frame, info, err := reader.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if before.IsZero() {
			before = info.Timestamp
		}
		got = append(got, sent{len(frame) == 124, info.Timestamp.Sub(before)})
		before = info.Timestamp
	}
	var want []sent
	for round := range 5 {
		for n := range 100 {
			after := 100 * time.Microsecond
			if n == 0 {
				after = 0 // at the start of the run, or at the instant of the capture's last packet
			}
			want = append(want, sent{true, after})
		}
		// The time between two passes is the mean of the capture's own.
		for _, after := range []time.Duration{5 * time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond, 2500 * time.Microsecond, 2 * time.Millisecond, 3 * time.Millisecond} {
			want = append(want, sent{false, after})
		}
		if round == 0 && (len(got) < len(want) || !slices.Equal(got[:len(want)], want)) {
			t.Fatalf("the first round is %v", got[:min(len(got), len(want))])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d packets, want %d in five equal rounds: %v", len(got), len(want), got)
	}
}

// The engine sends the headers of the sample, varied, with checksums that hold.
func TestSimulateSendsControlProtocols(t *testing.T) {
	if os.Getenv(enginebinary.Variable) == "" {
		t.Skip(enginebinary.Variable + " is not set; run `make operator-test`")
	}
	sample, err := os.ReadFile("../../../../config/samples/control-protocols.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pcap := filepath.Join(t.TempDir(), "out.pcap")
	if _, stderr, err := spate(string(sample), "simulate", "-", "--pcap", pcap, "--limit", "520"); err != nil { // a second
		t.Fatal(err, stderr)
	}
	file, err := os.Open(pcap)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, err := pcapgo.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	kinds, groups := map[string]int{}, map[string]bool{}
	for {
		frame, _, err := reader.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		seen := packet.Inspect(frame)
		if seen.Opaque != "" {
			t.Errorf("%s: %s", seen, seen.Opaque)
		}
		kind, _, _ := strings.Cut(seen.String(), " ")
		kinds[kind]++
		decoded := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		ip, isIP := decoded.NetworkLayer().(*layers.IPv4)
		if isIP && internetChecksum(ip.Contents) != 0 {
			t.Errorf("%s: a wrong checksum in %x", seen, ip.Contents)
		}
		if igmp, is := decoded.Layer(layers.LayerTypeIGMP).(*layers.IGMP); is {
			if sum := internetChecksum(ip.Payload); ip.TTL != 1 || len(igmp.GroupRecords) != 1 || sum != 0 {
				t.Errorf("%s: TTL %d, %d records, the sum is %#x", seen, ip.TTL, len(igmp.GroupRecords), sum)
			}
			groups[igmp.GroupRecords[0].MulticastAddress.String()+" "+ip.SrcIP.String()] = true
		}
	}
	want := map[string]int{
		"ethernet/ipv4/igmp": 100 + 1, "ethernet/ipv6/ipv6HopByHop/icmpv6": 100, "ethernet/lacp": 1, "ethernet/macControl": 10 + 10,
		"ethernet/ipv4/udp/vxlan/nsh/ethernet/ipv4/udp": 100, "ethernet/ipv4/udp/l2tp/ppp/ipv4/udp": 100, "ethernet/ipv4/l2tpv3": 100,
	}
	total := 0
	for kind, n := range kinds {
		total += n
		if off := n - want[kind]; off < -2 || off > 2 { // at the second's end
			t.Errorf("%d packets are %s, want %d", n, kind, want[kind])
		}
	}
	if total != 520 || len(groups) < 98 || !groups["239.1.0.7 198.18.0.9"] {
		t.Errorf("%d packets, %d hosts and groups", total, len(groups))
	}
}

// internetChecksum is that of RFC 1071: 0 over bytes that have it in them.
func internetChecksum(bytes []byte) uint16 {
	sum := uint32(0)
	for i := 0; i+1 < len(bytes); i += 2 {
		sum += uint32(bytes[i])<<8 | uint32(bytes[i+1])
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
