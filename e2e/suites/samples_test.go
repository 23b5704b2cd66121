// SPDX-License-Identifier: Apache-2.0

// The samples, as a user applies them: each runs, through a router or a switch if it uses the ports of `lab`, and the
// test checks what it demonstrates.

package suites

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

// sampleNetworks are the networks that the samples name: the near ends of the device under test's links, and a bridge.
const sampleNetworks = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: east}
spec: {config: '{"cniVersion": "1.0.0", "type": "host-device", "device": "east0"}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: west}
spec: {config: '{"cniVersion": "1.0.0", "type": "host-device", "device": "west0"}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: north}
spec: {config: '{"cniVersion": "1.0.0", "type": "host-device", "device": "north0"}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: routing}
spec: {config: '{"cniVersion": "1.0.0", "type": "bridge", "bridge": "samples0"}'}
`

// sampleText returns a file of config/samples with replacements for this environment: pairs of old and new text. Each
// old text must exist.
func sampleText(t *testing.T, file string, differs ...string) string {
	t.Helper()
	read, err := os.ReadFile(filepath.Join(root, "config/samples", file))
	if err != nil {
		t.Fatal(err)
	}
	text := string(read)
	for pair := range slices.Chunk(differs, 2) {
		if !strings.Contains(text, pair[0]) {
			t.Fatalf("%s: no %q to replace", file, pair[0])
		}
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text
}

// shared tolerates late packets, because the cluster's own components run on the same two cores. Packets that are due
// while the engine waits for its CPU at the end of the run are not sent at all: the engine reports that, and the run is
// repeated (passed).
const shared = "\n  generatorTolerance: {late: 100%}\n"

// behind tolerates these as well, where no run can be repeated and only what was started is compared.
const behind = "\n  generatorTolerance: {late: 100%, txDropped: 25%}\n"

// mostRuns is the maximum number of a sample's runs until one sends everything that was due.
const mostRuns = 4

// onLab are the profiles of `lab` that do not affect each other, so they run concurrently, each with its changes and
// its check.
var onLab = []struct {
	file    string
	differs []string
	shows   func(*testing.T, *spate.TrafficRun)
}{
	{"imix.yaml", []string{"rate: 12kpps\n  warmup: 1s\n  duration: 10s", "rate: 2400pps\n  warmup: 1s\n  duration: 4s" + shared}, func(t *testing.T, run *spate.TrafficRun) {
		exact(t, run, "imix", 9600)
		// A packet's size depends on its number, so that every twelve packets have 7, 4 and 1 of the sizes.
		s := streamOf(t, run, "imix")
		if off := s.TxBytes*12 - s.Tx*(64*7+594*4+1518); off < -12*12*1518 || off > 12*12*1518 {
			t.Errorf("%d bytes in %d packets are not 7:4:1", s.TxBytes, s.Tx)
		}
	}},
	{"stages.yaml", []string{
		"rate: 10kpps", "rate: 500pps", "duration: 30s, ramp: 30s", "duration: 1s, ramp: 1s", "duration: 10m", "duration: 1s", "duration: 20s", "duration: 1s", "duration: 1m", "duration: 1s",
		"''10ms''", "''1s''", "abortAfter: 10s}", "abortAfter: 1s}" + strings.TrimSuffix(shared, "\n"),
	}, func(t *testing.T, run *spate.TrafficRun) {
		exact(t, run, "forward", 250+500+1500+500)
		for _, stage := range run.Status.Stages {
			if stage.Phase != spate.StagePassed || stage.Result.Lost != 0 || stage.Result.Tx == 0 {
				t.Errorf("stage %s: %s, %+v", stage.Name, stage.Phase, stage.Result)
			}
		}
	}},
	{"vxlan.yaml", []string{"duration: 5s", "duration: 4s" + shared, "rate: 100pps", "rate: 20pps"}, func(t *testing.T, run *spate.TrafficRun) {
		exact(t, run, "overlay", 100*20*4) // the copies are counted together
	}},
	{"ipv6.yaml", []string{"duration: 5s", "duration: 4s" + shared, "rate: 5kpps", "rate: 1kpps"}, func(t *testing.T, run *spate.TrafficRun) {
		exact(t, run, "udp", 4000) // through the router, which was found by neighbor discovery
		exact(t, run, "ping", 400)
	}},
	{"burst-chain.yaml", []string{"duration: 5s", "duration: 4s" + shared}, func(t *testing.T, run *spate.TrafficRun) {
		exact(t, run, "large", 21*100)
		exact(t, run, "small", 21*3*20)
	}},
	{"rfc2544-sizes.yaml", []string{"duration: 9s", "duration: 4s" + shared, "packets: 10000", "packets: 1000", "s.tx == 10000", "s.tx == 1000"}, func(t *testing.T, run *spate.TrafficRun) {
		for _, size := range []int64{64, 128, 256, 512, 1024, 1280, 1518} {
			name := fmt.Sprint("size-", size)
			exact(t, run, name, 1000)
			if s := streamOf(t, run, name); s.RxBytes != 1000*size {
				t.Errorf("%s: %d bytes received, want packets of %d", name, s.RxBytes, size)
			}
		}
	}},
	{"latency.yaml", []string{"duration: 5s", "duration: 4s" + shared, "rate: 5kpps", "rate: 1kpps", "duration('10ms')", "duration('1s')", "for 10 ms or longer", "for a second or longer", "duration('50ms')", "duration('1s')"}, func(t *testing.T, run *spate.TrafficRun) {
		exact(t, run, "voice", 4000)
		exact(t, run, "load", 4000)
		timed(t, run, "voice")
		if o := streamOf(t, run, "voice").Outage; o == nil || o.Longest == 0 || o.At == nil {
			t.Errorf("the longest time without an arrival of a packet each millisecond is %+v", o)
		}
		if streamOf(t, run, "load").Latency != nil {
			t.Error("the load carries no time stamps and has a latency")
		}
	}},
	{"qinq.yaml", []string{"duration: 5s", "duration: 4s" + shared, "rate: 10kpps", "rate: 1kpps"}, func(t *testing.T, run *spate.TrafficRun) {
		exact(t, run, "subscribers", 4000) // through the switch
		byTag := streamOf(t, run, "subscribers").ByTag
		for tag, want := range map[string]int64{"100/200": 4, "109/299": 4, "other": 3200, "untagged": 0} {
			if byTag[tag].Packets != want {
				t.Errorf("%d packets with tag %s, want %d", byTag[tag].Packets, tag, want)
			}
		}
		scrapedByTag(t, run, byTag)
		queriesHaveData(t, run, ofTags)
	}},
	{"receive-only.yaml", []string{"duration: 10s", "duration: 4s"}, func(t *testing.T, run *spate.TrafficRun) {
		if run.Status.Result.Tx != 0 {
			t.Errorf("a profile that only receives sent %d packets", run.Status.Result.Tx)
		}
		tap := receiverOf(t, run, "tap")
		gaps := tap.InterArrival
		if tap.Packets < foreignLeast || tap.Bytes < foreignBytes*foreignLeast || gaps == nil || tap.Jitter == nil {
			t.Fatalf("the tap has %+v, want at least %d packets and their times", tap, foreignLeast)
		}
		// The router requests the port's MAC from time to time, between its own packets.
		if gaps.Count != tap.Packets-1 || gaps.Mean < spate.MeasuredTime(foreignGap/2) || int64(gaps.Mean)*gaps.Count > int64(5*time.Second) || gaps.Min > gaps.Mean || gaps.Max < spate.MeasuredTime(foreignGap) {
			t.Errorf("inter-arrival times %+v of %d packets that were sent at least %s apart", *gaps, tap.Packets, foreignGap)
		}
		if tap.Jitter.Count == 0 || tap.Jitter.Max < tap.Jitter.Mean {
			t.Errorf("jitter %+v", *tap.Jitter)
		}
		queriesHaveData(t, run, ofReceivers)
	}},
}

// applications are the profiles with generators of their own: of emulated applications, and of control protocols.
var applications = []struct {
	file    string
	differs []string
	shows   func(*testing.T, *spate.TrafficRun)
}{
	{"astf-http.yaml", []string{"duration: 5s", "duration: 3s" + shared}, func(t *testing.T, run *spate.TrafficRun) {
		// Half of a second's connections while their rate rises, and all connections of two more seconds.
		settledAll(t, run, "web", 500)
		queriesHaveData(t, run, ofPrograms)
	}},
	{"astf-dns.yaml", []string{"duration: 5s", "duration: 3s" + shared}, func(t *testing.T, run *spate.TrafficRun) {
		settledAll(t, run, "dns", 1500)
		// A query has a name of 15 characters; its response has one address more.
		if c := templateOf(t, run, "dns").Client; c.BytesSent != 33*c.MessagesSent || c.BytesReceived != 49*c.MessagesReceived || c.MessagesSent != c.Attempted {
			t.Errorf("queries and responses: %+v", c.FlowCounters)
		}
	}},
	{"control-protocols.yaml", []string{"duration: 5s", "duration: 2s" + shared}, func(t *testing.T, run *spate.TrafficRun) {
		for name, packets := range map[string]int64{
			"igmp-join": 200, "igmp-query": 2, "mld-join": 200, "lacp": 2, "pause": 20, "pfc": 20, "service-chain": 200, "subscribers": 200, "pseudowire": 200,
		} {
			exact(t, run, name, packets)
		}
	}},
	{"astf-smtp.yaml", []string{"duration: 5s", "duration: 3s" + shared}, func(t *testing.T, run *spate.TrafficRun) {
		settledAll(t, run, "mail", 600)
		if c := templateOf(t, run, "mail").Client; c.BytesSent != 6*c.Attempted || c.BytesReceived != 31*c.Attempted {
			t.Errorf("greetings and goodbyes: %+v", c.FlowCounters)
		}
	}},
	{"astf-file.yaml", []string{"duration: 5s", "duration: 3s" + shared}, func(t *testing.T, run *spate.TrafficRun) {
		settledAll(t, run, "page", 600)
		// A request has 51 bytes; the header of the response has 64, and the file 55.
		if c := templateOf(t, run, "page").Client; c.BytesSent != 51*c.Attempted || c.BytesReceived != (64+55)*c.Attempted {
			t.Errorf("requests and pages: %+v", c.FlowCounters)
		}
	}},
	{"astf-gtpu.yaml", []string{"duration: 5s", "duration: 3s" + shared}, func(t *testing.T, run *spate.TrafficRun) {
		settledAll(t, run, "pages", 600)
	}},
	{"astf-gre.yaml", []string{"duration: 5s", "duration: 3s" + shared}, func(t *testing.T, run *spate.TrafficRun) {
		settledAll(t, run, "pages", 600)
	}},
	{"astf-mpls.yaml", []string{"duration: 5s", "duration: 3s" + shared}, func(t *testing.T, run *spate.TrafficRun) {
		settledAll(t, run, "pages", 600)
	}},
	{"astf-vxlan.yaml", []string{"duration: 5s", "duration: 3s" + shared}, func(t *testing.T, run *spate.TrafficRun) {
		settledAll(t, run, "pages", 600)
	}},
	{"astf-vlans.yaml", []string{"duration: 5s", "duration: 3s" + shared}, func(t *testing.T, run *spate.TrafficRun) {
		settledAll(t, run, "pages", 600)
	}},
	{"astf-page.yaml", []string{"duration: 5s", "duration: 3s" + shared}, func(t *testing.T, run *spate.TrafficRun) {
		settledAll(t, run, "pages", 600)
		settledAll(t, run, "style", 600)
		settledAll(t, run, "objects", 1800) // none, if the style sheet's connection did not name their template
		// The sum over all pages, in ns: a count without `since` adds 1 for each.
		clients := templateOf(t, run, "pages").Client
		took := time.Duration(clients.Counters["objects-took"])
		if pages := time.Duration(clients.Attempted); took < pages*4*time.Microsecond || took > pages*time.Second {
			t.Errorf("the four connections of each of %d pages took %s together", pages, took)
		}
	}},
	// The node has one CPU that pods share, so the ports share a worker.
	{"worker-groups.yaml", []string{
		"duration: 5s", "duration: 3s" + shared, "workers: 2    # of all groups", "workers: 1",
		"      - {name: a, ports: [left], workers: 1}\n      - {name: b, ports: [right], workers: 1}\n", "      - {name: a, ports: [left, right], workers: 1}\n",
	}, func(t *testing.T, run *spate.TrafficRun) {
		settledAll(t, run, "left", 600)
		settledAll(t, run, "right", 300)
	}},
	{"astf-emix.yaml", []string{"duration: 5s", "duration: 3s" + shared}, func(t *testing.T, run *spate.TrafficRun) {
		if len(run.Status.Result.Templates) != 8 {
			t.Errorf("%d templates", len(run.Status.Result.Templates))
		}
		// 28 Mbit/s for 3 s: a share of 10.5 million bytes, divided by the bytes of one connection.
		for name, flows := range map[string]int64{
			"web": 2_415_000 / 68_258, "https": 2_730_000 / 45_258, "mail": 210_000 / 18_274, "database": 210_000 / 12_980, "video": 4_725_000 / 1_600_384,
			"sip": 31_500 / 3_760, "rtp": 157_500 / 25_800, "dns": 21_000 / 98,
		} {
			settledAll(t, run, name, flows)
		}
	}},
}

// settledAll fails unless about this number of flows of a template were started, and all of them ended without an error
// on both sides.
func settledAll(t *testing.T, run *spate.TrafficRun, name string, flows int64) {
	t.Helper()
	result := templateOf(t, run, name)
	started := result.Client.Attempted
	if started < flows-1-flows/100 || started > flows+1+flows/100 || result.Client.NotStarted != 0 {
		t.Errorf("%s: %d flows were started and %d were not, want %d", name, started, result.Client.NotStarted, flows)
	}
	settled(t, name+", clients", result.Client, started)
	settled(t, name+", servers", result.Server, started)
}

// What the router itself sends to the west port while receive-only runs, and the minimum that must be received in 4 s.
const (
	foreignLeast = 20
	foreignBytes = 14 + 20 + 8 + 6 + 4 // headers, "spate\n" and FCS; a veth link does not pad
	foreignGap   = 10 * time.Millisecond
)

func TestSamples(t *testing.T) {
	needsRig(t, theRouter)
	ns := namespace(t)
	mustApply(t, ns, sampleNetworks)
	// The node has one exclusive CPU, which control shares.
	mustApply(t, ns, sampleText(t, "trafficgenerator.yaml", "workers: 1", "workers: 1\n  controlCPU: Shared"))
	mustApply(t, ns, sampleText(t, "statelessstream.yaml"))
	mustApply(t, ns, sampleText(t, "trafficprofile.yaml", "duration: 5s", "duration: 2s"+shared))
	mustApply(t, ns, sampleText(t, "replay.yaml", "duration: 1s", "duration: 1s"+shared))
	mustApply(t, ns, sampleText(t, "replay-chain.yaml", "duration: 1s", "duration: 1s"+shared))
	condition(t, 60*time.Second, generatorNamed(ns, "lab"), spate.ConditionReady, metav1.ConditionTrue)

	silence := speak(t)
	tagged := watchLink(t, "dut-east", "qinq", "vlan", 1000)
	overlaid := watchLink(t, "dut-east", "vxlan", "udp port 4789", 100)
	for _, s := range onLab {
		mustApply(t, ns, sampleText(t, s.file, s.differs...))
	}

	t.Run("astftemplate", func(t *testing.T) {
		mustApply(t, ns, sampleText(t, "astftemplate.yaml"))
		http := &spate.ASTFTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "http"}}
		expect(t, condition(t, answerLimit, http, spate.ConditionReady, metav1.ConditionTrue), spate.ReasonAvailable)
	})
	t.Run("smoke", func(t *testing.T) {
		run := passed(t, ns, "smoke")
		exact(t, run, "udp-64", 14_000)
		t.Run("trafficrun", func(t *testing.T) { runsOnceMore(t, ns) })
		gone(t, ns, "smoke")
	})
	t.Run("replay", func(t *testing.T) {
		run := passed(t, ns, "replay")
		replayed(t, receiverOf(t, run, "wire"))
		gone(t, ns, "replay")
	})
	t.Run("replay-chain", func(t *testing.T) {
		run := passed(t, ns, "replay-chain")
		exact(t, run, "load", 5*100)
		if call, wire := streamOf(t, run, "call"), receiverOf(t, run, "wire"); call.Tx != 5*2*3 || wire.Packets != call.Tx {
			t.Errorf("%d packets of the capture sent and %d received, want 30", call.Tx, wire.Packets)
		}
		gone(t, ns, "replay-chain")
	})
	for _, s := range applications {
		name := strings.TrimSuffix(s.file, ".yaml")
		t.Run(name, func(t *testing.T) {
			mustApply(t, ns, sampleText(t, s.file, s.differs...))
			s.shows(t, passed(t, ns, name))
			gone(t, ns, name)
		})
	}
	mustApply(t, ns, sampleText(t, "many-streams.yaml", "duration: 5s", "duration: 3s", "== 100000", "== 60000"))
	for _, s := range onLab {
		name := strings.TrimSuffix(s.file, ".yaml")
		t.Run(name, func(t *testing.T) { s.shows(t, passed(t, ns, name)) })
	}
	silence()
	t.Run("qinq: 10 services of 100 customers", func(t *testing.T) {
		seen := tagged(t, "ieee8021ad.id", "vlan.id")
		if len(seen) != 1000 || seen["100 200"] != 1 || seen["109 299"] != 1 {
			t.Errorf("%d pairs of service and customer in 1000 packets, want each of 1000 once: %.300v", len(seen), seen)
		}
	})
	t.Run("vxlan: 100 overlays", func(t *testing.T) {
		seen := overlaid(t, "vxlan.vni")
		if len(seen) != 100 || seen["5000"] != 1 || seen["5990"] != 1 {
			t.Errorf("%d networks in 100 packets, want each of 100 once: %.300v", len(seen), seen)
		}
	})

	t.Run("replay-directions", func(t *testing.T) {
		responses := watchLink(t, "dut-west", "responses", "vlan", 100)
		mustApply(t, ns, sampleText(t, "replay-directions.yaml", "duration: 2s", "duration: 2s"+shared))
		run := passed(t, ns, "replay-directions")
		exact(t, run, "call-initiator", 50) // through the switch, from east to west
		exact(t, run, "call-responder", 100)
		if seen := responses(t, "ip.src"); len(seen) != 1 || seen["198.19.0.2"] != 100 {
			t.Errorf("the switch received from the west %v, want 100 packets of the responder", seen)
		}
	})

	t.Run("syn-flood", func(t *testing.T) {
		reset := func() { router(t, "forward") }
		reset()
		mustApply(t, ns, sampleText(t, "syn-flood.yaml", "duration: 5s", "duration: 2s"+shared, "rate: 20kpps", "rate: 5kpps"))
		run := passed(t, ns, "syn-flood", reset)
		flooded(t, run)
	})
	t.Run("reflector", func(t *testing.T) {
		mustApply(t, ns, sampleText(t, "reflector.yaml", "duration: 5s", "duration: 2s"+shared, "rate: 5kpps", "rate: 1kpps"))
		run := passed(t, ns, "reflector")
		exact(t, run, "round-trip", 2000)
		timed(t, run, "round-trip")
	})
	t.Run("many-streams", func(t *testing.T) {
		run := passed(t, ns, "many-streams")
		exact(t, run, "clients", 60_000)
		small(t, run)
		gone(t, ns, "many-streams")
	})
	t.Run("selected-streams", func(t *testing.T) {
		mustApply(t, ns, sampleText(t, "selected-streams.yaml"))
		run := passed(t, ns, "selected-streams")
		exact(t, run, "selected-voice", 2500)
		exact(t, run, "selected-web", 1000)
		exact(t, run, "selected-backup", 500)
		gone(t, ns, "selected-streams")
	})
	t.Run("punt", func(t *testing.T) {
		mustApply(t, ns, sampleText(t, "punt.yaml"))
		condition(t, 30*time.Second, generatorNamed(ns, "speaker"), spate.ConditionReady, metav1.ConditionTrue)
		speaks(t, ns)
	})

	// Samples with a generator of their own need the links of `lab`.
	if err := kube.Delete(t.Context(), generatorNamed(ns, "lab"), client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	// Beside lab the node has no CPU for the two of these.
	t.Run("routing", func(t *testing.T) { routes(t, ns) })
	for _, s := range throughRouter {
		name := strings.TrimSuffix(s.file, ".yaml")
		t.Run(name, func(t *testing.T) {
			reset := func() { router(t, "forward") }
			reset()
			mustApply(t, ns, sampleText(t, s.file, s.differs...))
			s.shows(t, passed(t, ns, name, reset))
			gone(t, ns, name)
		})
	}
}

// throughRouter are the profiles that include a generator on the router's links.
var throughRouter = []struct {
	file    string
	differs []string
	shows   func(*testing.T, *spate.TrafficRun)
}{
	{"router-imix.yaml", []string{"generator:\n", onOneCPU, "rate: 1Mpps", "rate: 2400pps", "duration: 60s", "duration: 3s" + shared}, func(t *testing.T, run *spate.TrafficRun) {
		exact(t, run, "imix", 7200)
	}},
	{"router-http-100k.yaml", []string{
		"generator:\n    workers: 4\n", onOneCPU, "100kcps", "200cps", "rampUp: 10s\n  warmup: 10s\n  duration: 60s", "rampUp: 1s\n  drain: 2s\n  duration: 3s" + shared, "cps > 99900.0", "cps > 100.0",
	}, func(t *testing.T, run *spate.TrafficRun) {
		settledAll(t, run, "web", 500)
	}},
	{"router-syn-flood.yaml", []string{"generator:\n", onOneCPU, "rate: 1Mpps", "rate: 5kpps", "duration: 60s", "duration: 2s" + shared}, flooded},
	{"router-latency.yaml", []string{"generator:\n", onOneCPU, "rate: 10kpps", "rate: 1kpps", "duration: 60s", "duration: 3s" + shared, `duration("100us")`, `duration("1s")`}, func(t *testing.T, run *spate.TrafficRun) {
		exact(t, run, "voice", 3000)
		timed(t, run, "voice")
	}},
}

// onOneCPU is the start of a generator on the node's one exclusive CPU, which its control thread shares.
const onOneCPU = "generator:\n    controlCPU: Shared\n"

// runsOnceMore creates the sample of a run, again with another name each time its engine did not get its CPU. It fails
// unless the run sends twice its profile's rate for its own duration.
func runsOnceMore(t *testing.T, ns string) {
	p := profileNamed(ns, "smoke")
	for i := range mostRuns {
		name := fmt.Sprint("smoke-fast-", i)
		mustApply(t, ns, sampleText(t, "trafficrun.yaml", "name: smoke-fast\n", "name: "+name+"\n"))
		run := &spate.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		condition(t, 60*time.Second, run, spate.ConditionComplete, metav1.ConditionTrue)
		if c := meta.FindStatusCondition(run.Status.Conditions, spate.ConditionValid); c != nil && c.Reason == spate.ReasonGeneratorLimited && i < mostRuns-1 {
			t.Logf("%s is repeated: %s", name, c.Message)
			continue
		}
		condition(t, 10*time.Second, run, spate.ConditionPassed, metav1.ConditionTrue)
		exact(t, run, "udp-64", 28_000)
		if err := get(t.Context(), p); err != nil || p.Status.CurrentRun == nil || p.Status.CurrentRun.Name != name {
			t.Errorf("the profile's latest run is %+v, %v", p.Status.CurrentRun, err)
		}
		return
	}
}

// passed waits until a sample's run ends with the verdict Passed. A run whose engine did not get its CPU
// (GeneratorLimited) is repeated, after `before`.
func passed(t *testing.T, ns, name string, before ...func()) *spate.TrafficRun {
	t.Helper()
	p := profileNamed(ns, name)
	run := complete(t, 60*time.Second, p)
	for i := 2; i <= mostRuns; i++ {
		c := meta.FindStatusCondition(p.Status.Conditions, spate.ConditionPassed)
		if c == nil || c.Reason != spate.ReasonGeneratorLimited {
			break
		}
		t.Logf("%s is repeated: %s", run.Name, c.Message)
		for _, f := range before {
			f()
		}
		again := fmt.Appendf(nil, `{"spec":{"runID":"again-%d"}}`, i)
		if err := kube.Patch(t.Context(), p, client.RawPatch(types.MergePatchType, again)); err != nil {
			t.Fatal(err)
		}
		run = complete(t, 60*time.Second, p)
	}
	condition(t, 10*time.Second, p, spate.ConditionPassed, metav1.ConditionTrue)
	return run
}

// gone deletes a profile with its generator, whose CPU the next one needs.
func gone(t *testing.T, ns, name string) {
	t.Helper()
	if err := kube.Delete(t.Context(), profileNamed(ns, name), client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Error(err)
	}
}

func streamOf(t *testing.T, run *spate.TrafficRun, name string) spate.StreamResult {
	t.Helper()
	result, found := run.Status.Result.Streams[name]
	if !found {
		t.Fatalf("no stream %s in %+v", name, run.Status.Result.Streams)
	}
	return result
}

func receiverOf(t *testing.T, run *spate.TrafficRun, name string) spate.ReceiverResult {
	t.Helper()
	result, found := run.Status.Result.Receivers[name]
	if !found {
		t.Fatalf("no receiver %s in %+v", name, run.Status.Result.Receivers)
	}
	return result
}

// exact fails unless a stream sent this number of packets, and all of them were received once and in order.
func exact(t *testing.T, run *spate.TrafficRun, name string, packets int64) {
	t.Helper()
	s := streamOf(t, run, name)
	if s.Tx != packets || s.TxDropped != 0 || s.Rx != packets || s.Lost != 0 || s.Duplicates != 0 || s.OutOfOrder != 0 || s.RxBytes != s.TxBytes {
		t.Errorf("%s: %+v, want %d sent and received", name, s.StreamCounters, packets)
	}
}

// timed fails unless all of a stream's packets have a plausible delay.
func timed(t *testing.T, run *spate.TrafficRun, name string) {
	t.Helper()
	s := streamOf(t, run, name)
	l := s.Latency
	if l == nil {
		t.Fatalf("%s has no latency", name)
	}
	ascending := []spate.MeasuredTime{1, l.Min, l.P50, l.P90, l.P95, l.P99, l.P999, l.P9999, l.Max, spate.MeasuredTime(time.Second)}
	if l.Count != s.Rx || l.OneWayUnknown || l.Mean < l.Min || l.Mean > l.Max || !slices.IsSorted(ascending) {
		t.Errorf("%s: latency %+v of %d packets", name, *l, s.Rx)
	}
	t.Logf("%s: median %s, 99 %% %s", name, l.P50, l.P99)
}

// scrapedByTag fails unless Prometheus has a series for each customer of the first service, and for the packets with other tags, with the
// numbers of the result.
func scrapedByTag(t *testing.T, run *spate.TrafficRun, byTag map[string]spate.TagCounters) {
	t.Helper()
	const first, last, customers = "200", "299", 100
	for metric, of := range map[string]func(spate.TagCounters) int64{
		"spate_stream_tag_rx_packets_total":           func(c spate.TagCounters) int64 { return c.Packets },
		"spate_stream_tag_rx_bytes_total":             func(c spate.TagCounters) int64 { return c.Bytes },
		"spate_stream_tag_sequence_gaps_total":        func(c spate.TagCounters) int64 { return c.SequenceGaps },
		"spate_stream_tag_duplicate_packets_total":    func(c spate.TagCounters) int64 { return c.Duplicates },
		"spate_stream_tag_out_of_order_packets_total": func(c spate.TagCounters) int64 { return c.OutOfOrder },
	} {
		of100 := countedBy(t, "vlan", metric, `stream="subscribers",outer_vlan="100"`, run)
		single := countedBy(t, "vlan", metric, `stream="subscribers",outer_vlan=""`, run)
		if len(of100) != customers || of100[first] != of(byTag["100/"+first]) || of100[last] != of(byTag["100/"+last]) {
			t.Errorf("%s: %v of service 100, the result has %d of customer %s and %d of %s", metric, of100, of(byTag["100/"+first]), first, of(byTag["100/"+last]), last)
		}
		if other, found := single["other"]; len(single) != 1 || !found || other != of(byTag["other"]) {
			t.Errorf("%s: %v with other tags, the result has %d", metric, single, of(byTag["other"]))
		}
	}
}

// replayed fails unless the capture's ten packets were received five times at their times: 100 ms from the first to the
// last, and the mean gap between two passes.
func replayed(t *testing.T, wire spate.ReceiverResult) {
	t.Helper()
	const mean = spate.MeasuredTime(100*time.Millisecond) / 9
	gaps := wire.InterArrival
	if wire.Packets != 50 || gaps == nil || gaps.Count != 49 {
		t.Fatalf("received %+v, want 50 packets and the times between them", wire)
	}
	if off := gaps.Mean - mean; off < -mean/10 || off > mean/10 || gaps.Deviation < mean/4 {
		t.Errorf("inter-arrival times %+v, want a mean of %s and the capture's own differences", *gaps, mean)
	}
}

// flooded fails unless every SYN passed the router, from about the number of addresses that random draws from 32768
// result in.
func flooded(t *testing.T, run *spate.TrafficRun) {
	t.Helper()
	var attempts, clients int64
	if _, err := fmt.Sscan(router(t, "attempts"), &attempts, &clients); err != nil {
		t.Fatal(err)
	}
	if sent := run.Status.Result.Tx; attempts != sent || sent != 10_000 {
		t.Errorf("the router forwarded %d attempts of %d, want 10000", attempts, sent)
	}
	// The expected number of distinct addresses of random draws from 32768; the deviation is below 40.
	if want := int64(32768 * (1 - math.Exp(-float64(attempts)/32768))); clients < want-200 || clients > want+200 {
		t.Errorf("%d clients, want about %d", clients, want)
	}
	if victim := receiverOf(t, run, "victim"); victim.Packets < attempts || victim.Packets > attempts+20 {
		t.Errorf("%d packets arrived at the victim, want %d and what the router says of its own", victim.Packets, attempts)
	}
}

// small fails if a run of 20,000 streams is much larger in the API server than one of one stream.
func small(t *testing.T, run *spate.TrafficRun) {
	t.Helper()
	if len(run.Status.Result.Streams) != 1 {
		t.Errorf("%d streams in the result, want them counted together", len(run.Status.Result.Streams))
	}
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(spate.GroupVersion.WithKind("TrafficRun"))
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(run), raw); err != nil {
		t.Fatal(err)
	}
	raw.SetManagedFields(nil)
	text, err := raw.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 10<<10 {
		t.Errorf("the run has %d bytes, want less than 10 KiB", len(text))
	}
	prepared := run.Status.TrafficStartTime.Sub(run.Status.PrepareTime.Time)
	if prepared > 15*time.Second {
		t.Errorf("prepared in %s, want at most 15 s", prepared)
	}
	t.Logf("20000 streams: plan of %d KiB in %d ConfigMaps, the run %d bytes, prepared and started in about %s, %d late",
		run.Status.Resolved.Snapshot.Bytes>>10, len(run.Status.Resolved.Snapshot.Chunks), len(text), prepared.Round(100*time.Millisecond), run.Status.Result.Late)
}

// inRouter returns a command that runs in the device under test.
func inRouter(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", "dut"}, args...)...)
}

// speak has the router send packets of its own to the west port until the returned function is called.
func speak(t *testing.T) (silence func()) {
	t.Helper()
	ctx, silence := context.WithCancel(t.Context())
	cmd := inRouter(ctx, "bash", "-c", `while :; do echo spate > /dev/udp/198.19.0.2/9; sleep "$0"; done`, fmt.Sprint(foreignGap.Seconds()))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }() // killed
	return silence
}

// watchLink captures the first packets that match a filter (pcap-filter(7)) on a link of the device under test. The
// returned function waits for them, has tshark dissect them, and counts the combinations of values of the fields
// (tshark -G fields).
func watchLink(t *testing.T, link, name, filter string, packets int) func(t *testing.T, fields ...string) map[string]int {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".pcap")
	var stderr bytes.Buffer
	cmd := inRouter(t.Context(), "tcpdump", "--interface="+link, "--direction=in", "-Z", "root", "-w", file, "-c", strconv.Itoa(packets), filter)
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	return func(t *testing.T, fields ...string) map[string]int {
		t.Helper()
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("tcpdump: %v %s", err, stderr.String())
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("not %d packets of %q on %s", packets, filter, link)
		}
		args := []string{"-r", file, "-T", "fields", "-E", "separator=/s"}
		for _, field := range fields {
			args = append(args, "-e", field)
		}
		out, err := exec.CommandContext(t.Context(), "tshark", args...).Output()
		if err != nil {
			t.Fatalf("tshark: %v", err)
		}
		seen := map[string]int{}
		for line := range strings.Lines(string(out)) {
			seen[strings.TrimSpace(line)]++
		}
		return seen
	}
}

// speaks fails unless the pod's kernel reaches the router through the interface of the punt. The router has no BGP
// daemon and resets the connection at once: so the pod has learned its MAC and received its reset.
func speaks(t *testing.T, ns string) {
	t.Helper()
	pods, err := enginePods(t.Context(), ns, "speaker")
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	const connect = `set -e
for comm in /proc/[0-9]*/comm; do
  pid=${comm#/proc/}; pid=${pid%/comm}
  [ "$(cat "$comm" 2>/dev/null)" = spate-engine ] || continue
  nsenter -t "$pid" -n ip -br link show bgp >/dev/null 2>&1 || continue
  nsenter -t "$pid" -n ip address replace 198.18.3.2/24 dev bgp
  nsenter -t "$pid" -n timeout 3 bash -c '</dev/tcp/198.18.3.1/179' 2>&1 || true
  exit
done
echo no engine has the interface bgp`
	out, err := exec.CommandContext(t.Context(), "bash", "-c", connect).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Connection refused") {
		t.Errorf("the router's answer to BGP is %q, %v; want it to refuse the connection", out, err)
	}
}

// routes fails unless the routers of the sample have all their sessions with each other, and the first one gets the second one's replies.
func routes(t *testing.T, ns string) {
	t.Helper()
	mustApply(t, ns, sampleText(t, "routing.yaml", "duration: 5s", "duration: 4s"+shared))
	routesArrived(t, ns)
	for _, name := range []string{"router-a", "router-b"} {
		g := generatorNamed(ns, name)
		condition(t, 2*time.Minute, g, spate.ConditionRoutingReady, metav1.ConditionTrue)
		for _, session := range g.Status.Pods[0].Ports[0].Sessions {
			if want := map[spate.RoutingProtocol]string{spate.ProtocolBGP: "Established", spate.ProtocolOSPF: "Full"}[session.Protocol]; !session.Up || session.State != want || session.Flaps != 0 {
				t.Errorf("%s: %+v, want it %s", name, session, want)
			}
		}
		if sessions := len(g.Status.Pods[0].Ports[0].Sessions); sessions != 3 {
			t.Errorf("%s: %d sessions", name, sessions)
		}
	}
	run := passed(t, ns, "routing")
	// Keepalives and hellos of three sessions arrive, too: fewer than four a second, and some more of BFD, five a second.
	if ping, replies := streamOf(t, run, "ping"), receiverOf(t, run, "replies"); ping.Tx != 80 || replies.Packets < 80 || replies.Packets > 80+4*20 {
		t.Errorf("%d pings, and %d packets received", ping.Tx, replies.Packets)
	}
	routesSent(t, run)
	queriesHaveData(t, run, ofSessions)
	gone(t, ns, "routing")
	withdrawn(t, ns)
	gone(t, ns, "routing-b")
	for _, name := range []string{"router-a", "router-b"} {
		if err := kube.Delete(t.Context(), generatorNamed(ns, name), client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			t.Error(err)
		}
	}
}

// routesArrived waits until router-b has all routes of BGP that router-a advertises, while the run of router-a goes on.
func routesArrived(t *testing.T, ns string) {
	t.Helper()
	want := spate.SessionResult{Up: true, Configured: 3, Sent: 3, Received: 1200}
	p := profileNamed(ns, "routing-b")
	phase(t, 150*time.Second, p, spate.ProfileRunning)
	run := currentRun(t, p)
	until(t, 10*time.Second, "the routes of router-a are in router-b", func(ctx context.Context) (bool, string) {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(run), run); err != nil {
			return false, err.Error()
		}
		if run.Status.Result == nil || run.Status.Result.Routing == nil {
			return false, string(run.Status.Phase)
		}
		got := run.Status.Result.Routing.Sessions["link/a"]
		got.UpdatesSent, got.UpdatesReceived = 0, 0
		return got == want, fmt.Sprintf("%+v", got)
	})
}

// routesSent checks what the sessions of router-a did. By OSPF each router receives the prefixes of the link, too.
func routesSent(t *testing.T, run *spate.TrafficRun) {
	t.Helper()
	for name, want := range map[string]spate.SessionResult{"link/b": {Up: true, Configured: 1200, Sent: 1200, Received: 3}, "link/area0": {Up: true, Configured: 10, Sent: 10}} {
		got := run.Status.Result.Routing.Sessions[name]
		got.UpdatesSent, got.UpdatesReceived = 0, 0
		if name == "link/area0" {
			got.Received = 0
		}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

// withdrawn waits until router-b has no route of router-a any more, since the run that advertised them has ended.
func withdrawn(t *testing.T, ns string) {
	t.Helper()
	g := generatorNamed(ns, "router-b")
	until(t, 30*time.Second, "router-a withdraws its routes", func(ctx context.Context) (bool, string) {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(g), g); err != nil {
			return false, err.Error()
		}
		for _, session := range g.Status.Pods[0].Ports[0].Sessions {
			if session.Name == "a" {
				return session.RoutesReceived == 0 && session.RoutesSent == 3, fmt.Sprintf("%+v", session)
			}
		}
		return false, "no session a"
	})
}
