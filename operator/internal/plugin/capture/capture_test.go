// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plugin/plugintest"
)

func TestPacketsBecomeAPcapngFile(t *testing.T) {
	var out bytes.Buffer
	full := 0
	ports := []capturedPort{{pod: "lab-0", port: "east"}, {pod: "lab-0", port: "west"}}
	spec := &spatev1.TrafficCaptureSpec{GeneratorRef: spatev1.LocalReference{Name: "lab"}, Filter: "udp", SnapLength: 20}
	file, err := newPacketFile(&out, spec, ports, 3, func() { full++ })
	if err != nil || out.Len() == 0 { // a concurrent reader gets the ports at once
		t.Fatal(err, out.Len())
	}
	packet := func(at int64, direction enginev1.Direction) *enginev1.CapturedPacket {
		return &enginev1.CapturedPacket{AtNs: at, Data: bytes.Repeat([]byte{byte(at)}, 20), OriginalLength: 64, Direction: direction}
	}
	const at = 1_700_000_000_123_456_789
	for _, c := range []struct {
		port   int
		answer *enginev1.CaptureResponse
	}{
		{0, &enginev1.CaptureResponse{Packets: []*enginev1.CapturedPacket{packet(at, enginev1.Direction_DIRECTION_RX)}}},
		{1, &enginev1.CaptureResponse{Packets: []*enginev1.CapturedPacket{packet(at+1, enginev1.Direction_DIRECTION_TX)}, Missed: 5}},
		{0, &enginev1.CaptureResponse{Packets: []*enginev1.CapturedPacket{packet(at+2, enginev1.Direction_DIRECTION_TX), packet(at+3, enginev1.Direction_DIRECTION_TX)}}},
	} {
		before := out.Len()
		if err := file.write(c.port, c.answer); err != nil || out.Len() == before {
			t.Fatal(err, out.Len())
		}
	}
	if err := file.end(); err != nil || full != 1 || ports[0].packets != 2 || ports[0].bytes != 40 || ports[1].missed.All != 5 {
		t.Fatalf("%v, %d, %+v", err, full, ports)
	}
	read, err := pcapgo.NewNgReader(bytes.NewReader(out.Bytes()), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		port      string
		direction pcapgo.NgEpbFlag
	}{{"lab-0/east", pcapgo.NgEpbFlagDirectionInbound}, {"lab-0/west", pcapgo.NgEpbFlagDirectionOutbound}, {"lab-0/east", pcapgo.NgEpbFlagDirectionOutbound}} {
		data, info, options, err := read.ReadPacketDataWithOptions()
		if err != nil {
			t.Fatal(err)
		}
		port, err := read.Interface(info.InterfaceIndex)
		if err != nil || port.Name != want.port || port.Filter != "udp" || port.SnapLength != 20 || options.Flags.Direction != want.direction {
			t.Errorf("packet %d: %v, %+v, %+v", i, err, port, options.Flags)
		}
		if info.Timestamp.UnixNano() != at+int64(i) || len(data) != 20 || info.Length != 64 {
			t.Errorf("packet %d: %+v", i, info)
		}
	}
	if _, _, err := read.ReadPacketData(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
	if port, err := read.Interface(1); err != nil || port.Statistics.PacketsDropped != 5 || port.Statistics.PacketsReceived != 6 {
		t.Errorf("%v, %+v", err, port.Statistics)
	}
	t.Run("tshark agrees", func(t *testing.T) {
		tshark, err := exec.LookPath("tshark")
		if err != nil {
			t.Skip("NO TSHARK: `make deps` brings it")
		}
		command := exec.CommandContext(t.Context(), tshark, "-r", "-", "-T", "fields", "-e", "frame.interface_name", "-e", "frame.packet_flags_direction", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "frame.cap_len")
		command.Stdin = bytes.NewReader(out.Bytes())
		text, err := command.Output()
		want := "lab-0/east\t0x00000001\t1700000000.123456789\t64\t20\nlab-0/west\t0x00000002\t1700000000.123456790\t64\t20\nlab-0/east\t0x00000002\t1700000000.123456791\t64\t20\n"
		if err != nil || string(text) != want {
			t.Errorf("%v, %s", err, text)
		}
	})
}

func TestWrongArgumentsOfACaptureAreNamed(t *testing.T) {
	for argument, want := range map[string]string{
		"--direction=up": `--direction "up": must be rx, tx or both`, "--snaplen=65536": "--snaplen 65536: must be 0 to 65535",
		"--count=-1": "--count -1: must not be negative", "--duration=-1s": "--duration -1s: must not be negative",
	} {
		if _, _, err := plugintest.Run("", []string{"capture", "lab", "-p", "east", "-w", "-", argument}, NewCommand()); err == nil || err.Error() != want {
			t.Errorf("%s: %v", argument, err)
		}
	}
	if _, _, err := plugintest.Run("", []string{"capture", "lab"}, NewCommand()); err == nil || !strings.Contains(err.Error(), `"port", "write"`) {
		t.Errorf("got %v", err)
	}
}
