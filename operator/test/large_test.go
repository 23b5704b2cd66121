// SPDX-License-Identifier: Apache-2.0

package test

// A large plan that the bound allows does run, in an operator that has no more memory than its chart gives it.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/test/drill"
)

// chartMemory is the limit of the operator's container in the chart (charts/spate/values.yaml).
const chartMemory = 1 << 30

// confineOperator starts an operator in a cgroup with the chart's limit, spate-engine which tries plans included. It gives the folder of
// the cgroup, empty where there are none to be had: then only the operator's own peak is known.
func confineOperator(t *testing.T) (folder string) {
	t.Helper()
	restartOperator(t, fmt.Sprintf("--memory-limit=%d", chartMemory))
	t.Cleanup(func() { restartOperator(t) })
	root, limit := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat(root); err != nil { // version 2
		root, limit = "/sys/fs/cgroup", "memory.max"
		_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+memory"), 0o600)
	}
	pid := strconv.Itoa(cluster.operator.command.Process.Pid)
	folder = filepath.Join(root, "spate-operator-"+pid)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Logf("no cgroup for the operator: %v", err)
		return ""
	}
	t.Cleanup(func() {
		cluster.operator.stop() // restartOperator, which comes after, waits for its end, too
		until(t, 10*time.Second, "the cgroup is empty", func() (bool, string) {
			err := os.Remove(folder)
			return err == nil, fmt.Sprint(err)
		})
	})
	must(t, os.WriteFile(filepath.Join(folder, limit), []byte(strconv.Itoa(chartMemory)), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(pid), 0o600))
	return folder
}

// peakOfGroup is the most memory that a cgroup has had, in MiB; 0 where that is not known.
func peakOfGroup(folder string) int64 {
	for _, file := range []string{"memory.max_usage_in_bytes", "memory.peak"} {
		if text, err := os.ReadFile(filepath.Join(folder, file)); err == nil {
			bytes, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			return bytes >> 20
		}
	}
	return 0
}

// forgetPeaks starts to measure again, where the kernel can.
func forgetPeaks(folder string) {
	_ = os.WriteFile(filepath.Join(folder, "memory.max_usage_in_bytes"), []byte("0"), 0o600)
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", cluster.operator.command.Process.Pid), []byte("5"), 0)
}

func TestDrillLargePlans(t *testing.T) {
	drill.Long(t)
	folder := confineOperator(t)
	for name, c := range map[string]struct {
		memory  string // of the engine
		prepare func(t *testing.T, ns string) (profile string)
	}{
		"20,000 streams of 9 KB": {"1Gi", manyLargeStreams},
		"25 captures of 1 MiB":   {"512Mi", manyCaptures},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrill(t, "a plan of "+name+", in the chart's memory", 8*time.Minute)
			if folder == "" {
				t.Skip("NO CGROUP: run as root with a writable memory cgroup, where the test can limit the operator's memory")
			}
			ns := namespace(t)
			cluster.kubelet.leaveUnscraped(ns)
			profile := c.prepare(t, ns)
			mustApply(t, ns, strings.NewReplacer("memory: 64Mi", "memory: "+c.memory, "  ports:", "  pollMode: Adaptive\n  ports:").Replace(loopbackGenerator))
			expect(t, readyLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
			forgetPeaks(folder)
			start := time.Now()
			mustApply(t, ns, profile)
			p := profileNamed(ns, "large")
			r := complete(t, 5*time.Minute, p)
			if v := r.Status.Verdict; v.Outcome != spatev1.VerdictPassed || r.Status.Result.Tx == 0 {
				t.Errorf("%+v, %d packets sent", v, r.Status.Result.Tx)
			}
			t.Logf("plan of %d MiB in %d ConfigMaps: run after %s, verdict after %s; the operator took %d MiB at most, it and spate-engine together %d of %d MiB",
				r.Status.Resolved.Snapshot.Bytes>>20, len(r.Status.Resolved.Snapshot.Chunks), r.CreationTimestamp.Sub(start).Round(time.Second), time.Since(start).Round(time.Second),
				cluster.operator.peakMemory()>>10, peakOfGroup(folder), chartMemory>>20)
			d.Kept("its run was made after %s; the operator and spate-engine took %d of %d MiB at most", r.CreationTimestamp.Sub(start).Round(time.Second), peakOfGroup(folder), chartMemory>>20)
		})
	}
}

func manyLargeStreams(*testing.T, string) string {
	return `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: large}
spec:
  generatorRef: {name: loop}
  traffic:
  - name: large
    transmitPort: loop
    stream:
      inline:
        packet:
          headers: [{ethernet: {}}, {ipv4: {source: 198.18.0.1, destination: 198.19.0.1}}, {udp: {sourcePort: 1, destinationPort: 2}}]
          size: 9000
        copies: {count: 20000, vary: [{field: ipv4.destination}]}
        transmit: {continuous: {rate: 1pps}}
  rate: 1kpps
  duration: 2s
  generatorTolerance: {late: 100%, txDropped: 100%}
`
}

// manyCaptures makes as many ConfigMaps with a capture each that no packer makes smaller.
func manyCaptures(t *testing.T, ns string) string {
	t.Helper()
	var traffic strings.Builder
	state := uint64(1)
	for i := range 25 {
		var out bytes.Buffer
		w := pcapgo.NewWriterNanos(&out)
		must(t, w.WriteFileHeader(65536, layers.LinkTypeEthernet))
		for out.Len() < 1<<20-1100 {
			frame := make([]byte, 1000)
			for at := range frame {
				state = state*6364136223846793005 + 1442695040888963407
				frame[at] = byte(state >> 56)
			}
			frame[0] &^= 1 // to one station
			must(t, w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(frame), Length: len(frame)}, frame))
		}
		name := fmt.Sprintf("capture-%d", i)
		must(t, cluster.kube.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, BinaryData: map[string][]byte{"pcap": out.Bytes()}}))
		fmt.Fprintf(&traffic, "  - {name: %s, transmitPort: loop, stream: {inline: {transmit: {replay: {gap: {fixed: 10ms}, pcap: {from: {configMapKeyRef: {name: %s, key: pcap}}}}}}}}\n", name, name)
	}
	return `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: large}
spec:
  generatorRef: {name: loop}
  duration: 2s
  generatorTolerance: {late: 100%, txDropped: 100%}
  traffic:
` + traffic.String()
}
