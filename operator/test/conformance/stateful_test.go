// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// profileJSON is a stateful profile of TRex's with a segment size.
func profileJSON(mss int) string {
	return fmt.Sprintf(`{"buf_list": ["R0VU", "aGVsbG8="], "ip_gen_dist_list": [
	  {"ip_start": "16.0.0.1", "ip_end": "16.0.0.255", "distribution": "seq", "dir": "c", "ip_offset": "1.0.0.0"},
	  {"ip_start": "48.0.0.1", "ip_end": "48.0.255.255", "distribution": "rand", "dir": "s", "ip_offset": "1.0.0.0"}],
	  "program_list": [{"commands": [{"name": "tx", "buf_index": 0}, {"name": "rx", "min_bytes": 5}]}, {"commands": [{"name": "rx", "min_bytes": 3}, {"name": "tx", "buf_index": 1}]}],
	  "c_glob_info": {"tcp": {"mss": %d}}, "tg_names": [],
	  "templates": [{"client_template": {"program_index": 0, "ip_gen": {"dist_client": {"index": 0}, "dist_server": {"index": 1}}, "cluster": {}, "port": 80, "cps": 4},
	    "server_template": {"program_index": 1, "assoc": [{"port": 80}]}}]}`, mss)
}

func writeCapture(t *testing.T, path string, packets []Packet) {
	t.Helper()
	var file bytes.Buffer
	w := pcapgo.NewWriterNanos(&file)
	if err := w.WriteFileHeader(65535, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		info := gopacket.CaptureInfo{Timestamp: time.Unix(0, int64(p.At)), CaptureLength: len(p.Frame), Length: len(p.Frame)}
		if err := w.WritePacket(info, p.Frame); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// exchange is what TRex would send for two connections, half a second apart.
func exchange(t *testing.T, answer string) []Packet {
	d := newTalk(t)
	for range 2 {
		d.handshake().says(0, "A", "GET").says(1, "A", answer).says(0, "FA", "").says(1, "FA", "").says(0, "A", "")
		d.port++
	}
	for i := 8; i < len(d.packets); i++ {
		d.packets[i].At += 500*time.Millisecond - 8*time.Millisecond
	}
	return d.packets
}

func TestAStatefulProfileIsSimulatedForAsLongAsTRexDid(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("web.json", profileJSON(1000), 0o600)
	writeCapture(t, filepath.Join(folder, "web.pcap"), exchange(t, "hello"))
	// An engine that writes what is requested, and keeps the plan.
	engine := write("engine", fmt.Sprintf("#!/bin/sh\ncat > %[1]s/plan.json\n[ \"$1 $4 $6\" = 'simulate --pcap --workers' ] || exit 9\ncp %[1]s/simulated.pcap \"$5\"\n", folder), 0o700)
	r := Runner{Engine: engine, Scratch: t.TempDir()}
	for name, c := range map[string]struct {
		packets []Packet
		want    string
	}{
		"the same":       {exchange(t, "hello"), ""},
		"other bytes":    {exchange(t, "hallo"), "connection 1 (TCP 16.0.0.1:1111 to 48.0.0.1:80): the server: bytes: at 1 want 656c6c6f, got 616c6c6f"},
		"no connections": {exchange(t, "hello")[:3], "connection 1 (TCP 16.0.0.1:1111 to 48.0.0.1:80): the client: want 3 bytes, got 0"},
	} {
		t.Run(name, func(t *testing.T) {
			writeCapture(t, filepath.Join(folder, "simulated.pcap"), c.packets)
			loaded, err := LoadStateful(folder, "web")
			if err != nil {
				t.Fatal(err)
			}
			err = r.CompareStateful(t.Context(), loaded)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	// From the first start to half a mean gap behind the last; then until TRex's last packet and a while.
	text, err := os.ReadFile(filepath.Join(folder, "plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"durationNs": "625000000"`, `"drainNs": "2007000000"`, `"stateful"`, `"mss": 1000`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	write("web.json", profileJSON(1), 0o600)
	refused, err := LoadStateful(folder, "web")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CompareStateful(t.Context(), refused); err == nil || !strings.Contains(err.Error(), "import: $.c_glob_info.tcp.mss: 1 is not") {
		t.Errorf("got %v: what TRex sends may not be refused", err)
	}
	writeCapture(t, filepath.Join(folder, "web.pcap"), nil)
	if refused, err = LoadStateful(folder, "web"); err != nil {
		t.Fatal(err)
	}
	if err := r.CompareStateful(t.Context(), refused); err != nil {
		t.Errorf("TRex refuses it too, and got %v", err)
	}
}
