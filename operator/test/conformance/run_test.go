// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// capture writes packets as TRex's simulator does, in microseconds.
func capture(t *testing.T, path string, packets []Packet) {
	t.Helper()
	var out bytes.Buffer
	w := pcapgo.NewWriter(&out)
	err := w.WriteFileHeader(65535, layers.LinkTypeEthernet)
	for _, p := range packets {
		info := gopacket.CaptureInfo{Timestamp: time.Unix(0, int64(p.At)), CaptureLength: len(p.Frame), Length: len(p.Frame)}
		if err == nil {
			err = w.WritePacket(info, p.Frame)
		}
	}
	if err == nil {
		err = os.WriteFile(path, out.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// described is a profile of one stream of 1000 packets a second.
func described(frame []byte) string {
	return `[{"flags": 3, "action_count": 0, "enabled": true, "self_start": true, "start_paused": false, "isg": 0.0, "core_id": -1,
		"mode": {"type": "continuous", "rate": {"type": "pps", "value": 1000}}, "vm": {"instructions": []}, "flow_stats": {"enabled": false},
		"packet": {"binary": "` + base64.StdEncoding.EncodeToString(frame) + `", "meta": ""}}]`
}

func TestCapturesAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.pcap")
	want := packets(time.Millisecond, udpFrame(60), udpFrame(80))
	capture(t, path, want)
	got, err := ReadCapture(path)
	if err != nil || len(got) != 2 || got[1].At != time.Millisecond || !bytes.Equal(got[1].Frame, want[1].Frame) {
		t.Fatalf("got %v %v", got, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for text, broken := range map[string][]byte{
		"no such file": nil, "a.pcap: ": whole[:10], "packet 2: ": whole[:len(whole)-1],
		"not of Ethernet":      append(append(bytes.Clone(whole[:20]), 101), whole[21:]...),
		"packet 1 was cut off": append(append(bytes.Clone(whole[:36]), 99), whole[37:]...),
	} {
		os.Remove(path)
		if broken != nil {
			if err := os.WriteFile(path, broken, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := ReadCapture(path); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
}

func TestProfilesThatCannotBeComparedSayWhy(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"good_One": described(udpFrame(60)), "bad": "[]", "slow": strings.Replace(described(udpFrame(60)), "1000}", "1e30}", 1)} {
		if err := os.WriteFile(filepath.Join(folder, name+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"absent": "no such file", "bad": "import: "} {
		if _, err := Load(folder, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	c, err := Load(folder, "good_One")
	if err != nil {
		t.Fatal(err)
	}
	capture(t, filepath.Join(folder, "good_One.c1.pcap"), packets(time.Millisecond, udpFrame(60)))
	runner := Runner{Engine: "/nowhere/spate-engine", Scratch: t.TempDir()}
	for _, run := range Runs {
		want := map[int]string{1: "simulate: ", 2: "good_One.c2.pcap: no such file"}[run.Workers]
		if err := runner.Compare(context.Background(), c, run); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestTheEngineSendsWhatIsDescribed needs the engine.
func TestTheEngineSendsWhatIsDescribed(t *testing.T) {
	engine := os.Getenv("SPATE_ENGINE")
	if engine == "" {
		t.Skip("SPATE_ENGINE is not set; run `make operator-test`")
	}
	folder, frame := t.TempDir(), udpFrame(60)
	if err := os.WriteFile(filepath.Join(folder, "one.json"), []byte(described(frame)), 0o600); err != nil {
		t.Fatal(err)
	}
	want := everyMillisecond(frame)
	c, err := Load(folder, "one")
	if err != nil {
		t.Fatal(err)
	}
	runner := Runner{Engine: engine, Scratch: t.TempDir()}
	for _, run := range Runs {
		capture(t, filepath.Join(folder, "one"+run.suffix), want)
		if err := runner.Compare(context.Background(), c, run); err != nil {
			t.Errorf("%d workers: %v", run.Workers, err)
		}
		altered := append(bytes.Clone(frame[:59]), 'y')
		capture(t, filepath.Join(folder, "one"+run.suffix), append(want[:99:99], Packet{want[99].At, altered}))
		if err := runner.Compare(context.Background(), c, run); err == nil || !strings.Contains(err.Error(), "packet 100: byte 59") {
			t.Errorf("%d workers: got %v", run.Workers, err)
		}
	}
}

// TestSelectedStreamsOfAnImportAreCompared: 600 streams are more than a profile has entries.
func TestSelectedStreamsOfAnImportAreCompared(t *testing.T) {
	engine := os.Getenv("SPATE_ENGINE")
	if engine == "" {
		t.Skip("SPATE_ENGINE is not set; run `make operator-test`")
	}
	folder := t.TempDir()
	streams := make([]string, 600)
	for i := range streams {
		// They begin late, the last but one earlier than all others.
		late := strings.Replace(described(udpFrame(60)), `"isg": 0.0`, `"isg": 1e6`, 1)
		if i >= 598 {
			late = strings.Replace(described(udpFrame(60+i-598)), `"isg": 0.0`, fmt.Sprintf(`"isg": %d`, 500*(i-598)), 1)
		}
		streams[i] = strings.Trim(late, "[]")
	}
	if err := os.WriteFile(filepath.Join(folder, "many.json"), []byte("["+strings.Join(streams, ",")+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(folder, "many")
	if err != nil {
		t.Fatal(err)
	}
	want := make([]Packet, mostPackets)
	for i := range want {
		want[i] = Packet{time.Duration(i) * 500 * time.Microsecond, udpFrame(60 + i%2)}
	}
	runner := Runner{Engine: engine, Scratch: t.TempDir()}
	run := Runs[0]
	capture(t, filepath.Join(folder, "many"+run.suffix), want)
	if err := runner.Compare(t.Context(), c, run); err != nil {
		t.Error(err)
	}
	want[99].At += 2 * Slack
	capture(t, filepath.Join(folder, "many"+run.suffix), want)
	if err := runner.Compare(t.Context(), c, run); err == nil {
		t.Error("a packet that is late is not found")
	}
}

// everyMillisecond is what one core sends.
func everyMillisecond(frame []byte) []Packet {
	all := make([]Packet, mostPackets)
	for i := range all {
		all[i] = Packet{time.Duration(i) * time.Millisecond, bytes.Clone(frame)}
	}
	return all
}

// TestOneWorkerSendsWhatHasLatency: all packets of TRex's two cores are the first's then.
func TestOneWorkerSendsWhatHasLatency(t *testing.T) {
	engine := os.Getenv("SPATE_ENGINE")
	if engine == "" {
		t.Skip("SPATE_ENGINE is not set; run `make operator-test`")
	}
	folder, frame := t.TempDir(), udpFrame(80)
	latency := strings.Replace(described(frame), `"flow_stats": {"enabled": false}`, `"flow_stats": {"enabled": true, "stream_id": 7, "rule_type": "latency"}`, 1)
	if err := os.WriteFile(filepath.Join(folder, "one.json"), []byte(latency), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(folder, "one")
	if err != nil {
		t.Fatal(err)
	}
	runner := Runner{Engine: engine, Scratch: t.TempDir()}
	sent, err := runner.simulate(t.Context(), c, 1, "--limit", mostPackets)
	if err != nil || len(sent) != mostPackets || sent[99].At != 99*time.Millisecond {
		t.Fatalf("got %d packets, %v", len(sent), err)
	}
	for _, run := range Runs {
		want := slices.Clone(sent)
		capture(t, filepath.Join(folder, "one"+run.suffix), want)
		if err := runner.Compare(context.Background(), c, run); err != nil {
			t.Errorf("%d workers: %v", run.Workers, err)
		}
		want[99].At += 2 * Slack
		capture(t, filepath.Join(folder, "one"+run.suffix), want)
		if err := runner.Compare(context.Background(), c, run); err == nil || !strings.Contains(err.Error(), "packet 100: want it at") {
			t.Errorf("%d workers: got %v", run.Workers, err)
		}
	}
}
