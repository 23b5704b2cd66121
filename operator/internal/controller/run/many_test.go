// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/archive"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/plugin/plugintest"
	"spate.dev/operator/internal/plugin/report"
	"spate.dev/operator/internal/plugin/result"
	"spate.dev/operator/internal/runs/storage"
	"spate.dev/operator/test/peak"
)

const (
	// allStreams is the maximum number of streams of a profile.
	allStreams = 65536
	// maxEngineMebi is the maximum memory that an engine takes for them.
	maxEngineMebi = 512
)

func nameOfMany(i int) string { return fmt.Sprintf("a-stream-of-many-%05d", i) }

// sentByMany returns the packets that a stream sends, from 1 to 3, and their bytes with FCS, from 64 to 256.
func sentByMany(i int) (packets int64, size int32) { return int64(1 + i%3), int32(64 + i%193) }

// many is a profile that selects as many streams as it may have. They start one after another within a second.
func many(t *testing.T) plan.Input {
	t.Helper()
	p := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "many"}}
	must(t, yaml.UnmarshalStrict([]byte(`
generator: {replicas: 1, workers: 1, ports: [{name: loop, lineRate: 10Gbps, attachment: {loopback: {}}}]}
duration: 4s
drain: 500ms
traffic:
- {name: many, transmitPort: loop, receivePort: loop, stream: {selector: {matchLabels: {set: many}, count: 65536}}}
thresholds:
- {name: last, expression: 'result.streams["a-stream-of-many-65535"].rx == 1 && result.streams["a-stream-of-many-65535"].txBytes == 172'}
- {name: each, expression: 'result.streams.all(name, result.streams[name].lost == 0 && result.streams[name].rx > 0)'}
`), &p.Spec))
	one := spatev1.StatelessStreamSpec{}
	must(t, yaml.UnmarshalStrict([]byte(`
packet: {headers: [{ethernet: {}}, {ipv4: {source: 198.18.0.0, destination: 198.19.0.1}}, {udp: {sourcePort: 1, destinationPort: 2}}]}
transmit: {burst: {rate: 10pps}}
measure: {flow: true}
`), &one))
	in := plan.Input{Profile: p, Streams: make(map[string]*spatev1.StatelessStream, allStreams), Bound: plan.BoundOf(1 << 30)}
	for i := range allStreams {
		s := &spatev1.StatelessStream{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: nameOfMany(i), Labels: map[string]string{"set": "many"}}, Spec: *one.DeepCopy()}
		packets, size := sentByMany(i)
		s.Spec.Packet.Headers[1].IPv4.Source = spatev1.IPv4Address(fmt.Sprintf("198.18.%d.%d", i>>8, i&255))
		s.Spec.Packet.Size, s.Spec.Transmit.Burst.Packets, s.Spec.StartDelay = &size, packets, spatev1.Duration(fmt.Sprintf("%dus", 15*i))
		in.Streams[s.Name] = s
	}
	return in
}

// served is an engine with a loopback port `loop`, which ends with the test.
type served struct {
	*engine.Client
	live *engine.Live
	pid  int
}

func serve(t *testing.T) *served {
	t.Helper()
	binary := os.Getenv("SPATE_ENGINE")
	if _, err := os.Stat(binary); err != nil {
		t.Skip("SPATE_ENGINE is not set; run `make operator-test`")
	}
	target := engine.Target{Address: "unix:" + filepath.Join(t.TempDir(), "spate.sock")}
	var messages bytes.Buffer
	process := exec.CommandContext(t.Context(), binary, "serve", "--port", "loop=loopback", "--hugepages", "none", "--memory", "128M", "--metrics", "127.0.0.1:0", "--listen", target.Address)
	process.Stderr = &messages
	must(t, process.Start())
	pool := engine.NewPool(nil)
	live, err := engine.OpenLive(t.Context(), nil, target)
	must(t, err)
	t.Cleanup(func() {
		pool.Close()
		live.Close()
		_, _ = process.Process.Kill(), process.Wait()
		if t.Failed() {
			t.Log(messages.String())
		}
	})
	calls, err := pool.Client(t.Context(), target)
	must(t, err)
	e := &served{calls, live, process.Process.Pid}
	e.until(t, 20*time.Second, func(*enginev1.GetInfoResponse) bool { return true })
	return e
}

// until waits for something that the engine reports of itself.
func (e *served) until(t *testing.T, limit time.Duration, holds func(*enginev1.GetInfoResponse) bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		info, err := e.Info(t.Context())
		if err == nil && holds(info) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(info, err)
		}
	}
}

// execute runs the stored plan of a run, and returns the final counters.
func (e *served) execute(t *testing.T, c client.Client, run *spatev1.TrafficRun) *enginev1.WatchStatsResponse {
	t.Helper()
	id := run.Status.Resolved.RunID
	stored, err := storage.Load(t.Context(), c, run)
	must(t, err)
	_, err = e.Prepare(t.Context(), id, stored)
	must(t, err)
	_, err = e.StartByWall(t.Context(), id, time.Now().Add(time.Second).UnixNano())
	must(t, err)
	e.until(t, time.Minute, func(info *enginev1.GetInfoResponse) bool {
		return len(info.Runs) == 1 && info.Runs[0].State == enginev1.RunState_RUN_STATE_COMPLETE
	})
	final, err := e.live.WatchStats(t.Context(), id, time.Second)
	must(t, err)
	stats, err := final.Recv()
	must(t, err)
	return stats
}

// peakMebi returns the peak resident memory of a process in MiB.
func peakMebi(t *testing.T, pid int) (mebi int) {
	t.Helper()
	bytes, err := peak.Memory(pid)
	must(t, err)
	return bytes >> 20
}

// From the objects to what people read: the plan, a real engine, the chunks beside the run, the plugin's result, an archive and a report of it.
func TestEachOf65536StreamsIsInTheResultOfItsRun(t *testing.T) {
	e := serve(t)
	idle, start := peakMebi(t, e.pid), time.Now()
	lap := func() time.Duration {
		defer func() { start = time.Now() }()
		return time.Since(start).Round(10 * time.Millisecond)
	}
	in := many(t)
	resolved, problems := plan.Resolve(in)
	if len(problems) > 0 {
		t.Fatal(problems.Message())
	}
	run := admitted("many-0")
	run.Namespace, run.Name, run.UID = "tests", "many-1a2b3-1", "5f0b3f3e-8a52-4c0b-9d5e-0123456789ab"
	is := run.Status.Resolved
	is.RunID, is.RateFactor, is.Entries, is.Timing.Duration = "many", resolved.Factor.RatString(), resolved.Entries, in.Profile.Spec.Duration
	is.Thresholds, is.GeneratorTolerance.Late = in.Profile.Spec.Thresholds, "100%" // another process may have the CPU
	c := clientWith(t, func(client.Object) error { return nil }, run)
	var err error
	is.Snapshot, err = storage.Save(t.Context(), c, run, func(w io.Writer) error {
		return resolved.Write(w, plan.Identity{RunID: is.RunID, Run: run.Name, Tag: 1, Profile: "many", Namespace: run.Namespace})
	})
	must(t, err)
	facts, err := (&storage.Memory{Reader: c}).Of(t.Context(), run)
	must(t, err)
	t.Logf("resolved and stored in %s: a plan of %d KiB in %d ConfigMaps", lap(), is.Snapshot.Bytes>>10, len(is.Snapshot.Chunks))

	stats := []*enginev1.WatchStatsResponse{e.execute(t, c, run)}
	taken := peakMebi(t, e.pid) - idle
	t.Logf("sent in %s, for which the engine took %d MiB more than the %d MiB before; counters of %d KiB", lap(), taken, idle, proto.Size(stats[0])>>10)
	if taken > maxEngineMebi {
		t.Errorf("the engine took %d MiB more than the %d MiB before", taken, idle)
	}

	s := &scope{r: &Reconciler{Client: c}, run: run}
	whole := resultOf(stats, facts, run)
	lost, err := s.settle(t.Context(), whole)
	if err != nil || lost != "" {
		t.Fatal(lost, err)
	}
	if v := judge(run, whole, compared{}, distrusted(stats, run), nil, ""); v.Outcome != spatev1.VerdictPassed {
		t.Errorf("%+v", v)
	}
	details := run.Status.Result.Details
	if len(run.Status.Result.Streams) > mostListed || size(run.Status) > objectRoom || len(details.Truncated) != 1 || details.Truncated[0].Total != allStreams {
		t.Errorf("a status of %d KiB has %s", size(run.Status)>>10, details.Has())
	}
	t.Logf("judged and stored in %s: a result of %d KiB in %d ConfigMaps, of which the status has %s", lap(), details.Bytes>>10, len(details.Chunks), details.Has())

	var form output.Flag
	form.Choose("json")
	var text bytes.Buffer
	archived := *run.DeepCopy() // with the whole result from here on
	must(t, result.Show(t.Context(), &text, c, &archived, &form))
	var shown result.Document
	must(t, json.Unmarshal(text.Bytes(), &shown))
	eachOfMany(t, "kubectl spate result", shown.Result.Streams)
	t.Logf("shown in %s", lap())

	folder := t.TempDir()
	must(t, archive.Save(t.Context(), archive.Directory(folder), &archived, nil))
	eachOfMany(t, "kubectl spate report", reportedOf(t, folder, run.Name))
	t.Logf("archived and reported in %s; this process has had %d MiB", lap(), peakMebi(t, os.Getpid()))
}

// eachOfMany fails unless each stream has exactly what it was to send.
func eachOfMany(t *testing.T, by string, streams map[string]spatev1.StreamResult) {
	t.Helper()
	if len(streams) != allStreams {
		t.Fatalf("%s has %d streams", by, len(streams))
	}
	for i := range allStreams {
		packets, size := sentByMany(i)
		sum := packets * int64(size)
		want := spatev1.StreamCounters{Tx: packets, TxBytes: sum, Rx: packets, RxBytes: sum}
		got := streams[nameOfMany(i)].StreamCounters
		got.LossRatio, got.Late = "", 0
		if got != want {
			t.Fatalf("%s of %s: %+v, want %+v", by, nameOfMany(i), got, want)
		}
	}
}

// reportedOf returns the streams that `kubectl spate report -o csv` has of an archived run.
func reportedOf(t *testing.T, folder, run string) map[string]spatev1.StreamResult {
	t.Helper()
	text, _, err := plugintest.Run("", []string{"report", run, "-n", "tests", "--kubeconfig", os.DevNull, "--from", folder, "-o", "csv"}, report.NewCommand())
	must(t, err)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	must(t, err)
	column := map[string]int{}
	for i, heading := range rows[0] {
		column[heading] = i
	}
	all := map[string]spatev1.StreamResult{}
	for _, row := range rows[1:] {
		if row[0] != "stream" {
			continue
		}
		var wrong []error
		number := func(heading string) int64 {
			n, err := strconv.ParseInt(row[column[heading]], 10, 64)
			wrong = append(wrong, err)
			return n
		}
		all[row[1]] = spatev1.StreamResult{StreamCounters: spatev1.StreamCounters{
			Tx: number("tx"), TxBytes: number("txBytes"), Rx: number("rx"), RxBytes: number("rxBytes"), Lost: number("lost"), Duplicates: number("duplicates"),
		}}
		must(t, errors.Join(wrong...))
	}
	return all
}
