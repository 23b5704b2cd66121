// SPDX-License-Identifier: Apache-2.0

package engine_test

// How much memory does it take to build and check a large plan?

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/test/peak"
)

const mebi = 1 << 20

// peakBytes returns the peak resident memory of this process since it was last reset.
func peakBytes(t *testing.T, forget bool) (bytes int) {
	t.Helper()
	if forget {
		debug.FreeOSMemory()
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
			t.Skipf("the kernel forgets no peak: %v", err)
		}
	}
	bytes, err := peak.Memory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func resolved(t *testing.T, spec string, data map[spatev1.DataReference][]byte) *plan.Resolved {
	t.Helper()
	p := &spatev1.TrafficProfile{}
	p.Name, p.Namespace = "large", "test"
	if err := yaml.UnmarshalStrict([]byte("generator: {replicas: 1, workers: 1, ports: [{name: loop, lineRate: 10Gbps, attachment: {loopback: {}}}]}\n"+spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	made, problems := plan.Resolve(plan.Input{Profile: p, Data: data, Bound: plan.BoundOf(1 << 30)})
	if len(problems) > 0 {
		t.Fatal(problems.Message())
	}
	return made
}

// 20,000 streams of 9 KB packets.
const copied = `traffic:
- name: large
  transmitPort: loop
  stream:
    inline:
      packet:
        headers: [{ethernet: {destination: "02:00:00:00:00:01"}}, {ipv4: {source: 198.18.0.1, destination: 198.19.0.1}}, {udp: {sourcePort: 1, destinationPort: 2}}]
        size: 9000
      copies: {count: 20000, vary: [{field: ipv4.destination}]}
      transmit: {continuous: {rate: 1pps}}
`

// captures returns 25 incompressible captures of 1 MiB each.
func captures() (spec string, data map[spatev1.DataReference][]byte) {
	var traffic strings.Builder
	traffic.WriteString("traffic:\n")
	data = map[spatev1.DataReference][]byte{}
	state := uint64(1)
	for i := range 25 {
		var out bytes.Buffer
		w := pcapgo.NewWriterNanos(&out)
		_ = w.WriteFileHeader(65536, layers.LinkTypeEthernet)
		for out.Len() < mebi-1100 {
			frame := make([]byte, 1000)
			for at := range frame {
				state = state*6364136223846793005 + 1442695040888963407
				frame[at] = byte(state >> 56)
			}
			_ = w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(frame), Length: len(frame)}, frame)
		}
		key := fmt.Sprintf("c%d", i)
		data[spatev1.DataReference{Kind: spatev1.DataConfigMap, Name: "captures", Key: key}] = out.Bytes()
		fmt.Fprintf(&traffic, "- {name: %s, transmitPort: loop, stream: {inline: {transmit: {replay: {gap: {fixed: 1ms}, pcap: {from: {configMapKeyRef: {name: captures, key: %s}}}}}}}}\n", key, key)
	}
	return traffic.String(), data
}

func TestLargePlansTakeLittleMemory(t *testing.T) {
	ofCaptures, data := captures()
	for name, c := range map[string]struct {
		spec  string
		data  map[spatev1.DataReference][]byte
		limit int // maximum of the additional memory for building it
	}{
		"20,000 streams of 9 KB": {copied, nil, 170 * mebi},
		"25 captures of 1 MiB":   {ofCaptures, data, 80 * mebi},
	} {
		t.Run(name, func(t *testing.T) {
			before := peakBytes(t, true)
			made := resolved(t, c.spec, c.data)
			id := plan.Identity{RunID: "r", Tag: 1, Profile: "large", Namespace: "test"}
			size := 0
			if err := made.Write(counting{&size}, id); err != nil {
				t.Fatal(err)
			}
			after := peakBytes(t, false)
			t.Logf("plan of %d MiB: making it took %d MiB more than the %d MiB before", size/mebi, (after-before)/mebi, before/mebi)
			if after-before > c.limit {
				t.Errorf("it took more than %d MiB", c.limit/mebi)
			}
			binary := os.Getenv("SPATE_ENGINE")
			if _, err := os.Stat(binary); err != nil {
				t.Skip("SPATE_ENGINE is not set; run `make operator-test`")
			}
			checked, err := engine.Compiler{Binary: binary}.CheckWritten(t.Context(), made.Outline(id), func(w io.Writer) error { return made.WriteWithData(w, id) })
			if err != nil || len(checked.Refused) > 0 {
				t.Fatalf("%v %v", checked.Refused, err)
			}
			var child syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &child)
			t.Logf("trying it took spate-engine %d MiB (the most of any so far)", child.Maxrss>>10)
			if most := size*2 + 64*mebi; int(child.Maxrss)<<10 > max(most, 500*mebi) {
				t.Errorf("it took more than twice the plan and 64 MiB")
			}
		})
	}
}

type counting struct{ bytes *int }

func (c counting) Write(bytes []byte) (int, error) {
	*c.bytes += len(bytes)
	return len(bytes), nil
}
