// SPDX-License-Identifier: Apache-2.0

package test

// The run path with real engines: counts are exact, and nothing is lost on the way.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs"
)

const (
	readyLimit = 45 * time.Second
	runLimit   = 30 * time.Second
)

// lenient accepts that a busy test machine sends late; what is tested are counts.
const lenient = "  generatorTolerance: {late: 100%}\n"

// ready brings the loopback generator up.
func ready(t *testing.T, extra string) string {
	t.Helper()
	needsEngine(t)
	ns := namespace(t)
	mustApply(t, ns, loopbackGenerator+extra+"---"+loopbackStream)
	expect(t, readyLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	return ns
}

// running brings the loopback generator up and a profile into its Running phase.
func running(t *testing.T, name, spec string) (string, *spatev1.TrafficProfile) {
	t.Helper()
	return runningAs(t, name, lenient+spec)
}

// runningAs is running with a tolerance that the spec states.
func runningAs(t *testing.T, name, spec string) (string, *spatev1.TrafficProfile) {
	t.Helper()
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile(name, spec))
	p := profileNamed(ns, name)
	phase(t, runLimit, p, spatev1.ProfileRunning)
	return ns, p
}

func TestARunPassesWithExactCounts(t *testing.T) {
	ns := ready(t, "")
	g := generatorNamed(ns, "loop")
	must(t, get(g))
	if s := g.Status; len(s.Pods) != 1 || len(s.Pods[0].Ports) != 1 || s.Pods[0].Ports[0].LineRate != "10Gbps" || s.EngineVersion == "" {
		t.Errorf("status %+v", g.Status)
	}
	mustApply(t, ns, loopbackProfile("exact", lenient+"  warmup: 500ms\n  duration: 2s\n  thresholds: [{name: no-loss, expression: result.lost == 0}]"))
	p := profileNamed(ns, "exact")
	r := complete(t, runLimit, p)
	if v := r.Status.Verdict; v.Outcome != spatev1.VerdictPassed {
		t.Fatalf("%+v", v)
	}
	res := r.Status.Result
	if res.Tx != 2000 || res.Rx != 2000 || res.Lost != 0 || res.TxBytes != 2000*128 || len(res.Streams) != 1 || res.Streams["small"].Rx != 2000 {
		t.Errorf("%+v", res)
	}
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionTrue, spatev1.ReasonThresholdsMet)
	if p.Status.Phase != spatev1.ProfileComplete || p.Status.Totals.Tx != 2000 || p.Status.LastResult.Verdict != spatev1.VerdictPassed {
		t.Errorf("%+v", p.Status)
	}
	var kept corev1.ConfigMapList
	must(t, cluster.kube.List(t.Context(), &kept, client.InNamespace(ns), client.MatchingLabels{"spate.dev/run": r.Name}))
	var names []string
	for i := range kept.Items {
		if metav1.IsControlledBy(&kept.Items[i], r) {
			names = append(names, kept.Items[i].Name)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{r.Name + "-plan-0", r.Name + "-samples-0"}) {
		t.Errorf("the run has %v", names)
	}
}

func TestAMissedThresholdFailsWithTheNumbers(t *testing.T) {
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("greedy", lenient+"  duration: 1s\n  thresholds: [{name: more, expression: result.rx > 5000}]"))
	p := profileNamed(ns, "greedy")
	r := complete(t, runLimit, p)
	if r.Status.Verdict.Outcome != spatev1.VerdictFailed {
		t.Errorf("%+v", r.Status.Verdict)
	}
	expect(t, answerLimit, p, spatev1.ConditionPassed, metav1.ConditionFalse, spatev1.ReasonThresholdMissed, "more", "result.rx is 1000")
	expect(t, answerLimit, p, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable, "run "+r.Name+" has ended: Failed: threshold more")
	until(t, answerLimit, "an event of the profile with the verdict", func() (bool, string) {
		var events corev1.EventList
		must(t, cluster.kube.List(t.Context(), &events, client.InNamespace(ns)))
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.UID == p.UID && e.Type == corev1.EventTypeWarning && e.Reason == spatev1.ReasonThresholdMissed && strings.Contains(e.Message, "result.rx is 1000")
		}), fmt.Sprint(len(events.Items), " events")
	})
}

func TestTwoEnginesSendWhatOneWould(t *testing.T) {
	ns := ready(t, "  replicas: 2\n")
	// Every packet differs from all others: by its source port and by a random address.
	mustApply(t, ns, `
apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: varied}
spec:
  packet:
    headers:
    - ethernet: {}
    - ipv4: {source: 198.18.0.1, destination: 198.19.0.1}
    - udp: {sourcePort: 1000, destinationPort: 2000}
    size: 128
  fields:
  - {name: port, range: {start: 1000, end: 60000}, writes: [{field: udp.sourcePort}]}
  - {name: client, range: {start: 198.19.0.0, end: 198.19.255.255}, order: Random, seed: 7, writes: [{field: ipv4.destination}]}
  transmit: {continuous: {rate: 1kpps}}
`+"---"+loopbackProfile("pair", "  - {name: varied, stream: {ref: {name: varied}}, transmitPort: loop}\n"+lenient+"  rate: 2002pps\n  duration: 1s"))
	r := complete(t, runLimit, profileNamed(ns, "pair"))
	small := r.Status.Result.Streams["small"]
	if len(r.Status.Resolved.Generator.Pods) != 2 || r.Status.Result.Tx != 2002 || small.Tx != 1001 || small.Rx != 1001 || small.Lost != 0 {
		t.Errorf("%d pods, %+v", len(r.Status.Resolved.Generator.Pods), r.Status.Result)
	}
	// Packets, from the plan of that very run by the engine's own code: both shares together are what one engine has.
	alone := packetsToSend(t, r, 0, 1)
	first, second := packetsToSend(t, r, 0, 2), packetsToSend(t, r, 1, 2)
	if len(first) == 0 || len(second) == 0 || len(alone) != 2002 {
		t.Fatalf("%d packets of one engine; of two %d and %d", len(alone), len(first), len(second))
	}
	both := slices.Concat(first, second)
	for _, packets := range [][]string{alone, both} {
		slices.Sort(packets)
	}
	for i := range alone {
		if i >= len(both) || alone[i] != both[i] {
			t.Fatalf("packet %d of %d (two engines: %d) differs:\n%s, of one engine\n%s, of two", i, len(alone), len(both), alone[i], append(both, "none")[min(i, len(both))])
		}
	}
	if distinct := len(slices.Compact(alone)); distinct < 2000 {
		t.Errorf("of 2002 packets %d differ: the comparison shows little", distinct)
	}
}

// packetsToSend gives what engine `index` of `count` has to send of a run's plan: a packet's time and its headers, each a line.
// The trailer behind them names who sent it.
func packetsToSend(t *testing.T, r *spatev1.TrafficRun, index, count uint32) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "packets.pcap")
	simulate := exec.Command(engineBinary(), "simulate", "--plan", "-", "--pcap", path)
	simulate.Stdin = bytes.NewReader(shareOf(t, r, index, count))
	if out, err := simulate.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	capture, err := pcapgo.NewReader(file)
	must(t, err)
	var packets []string
	for {
		data, info, err := capture.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return packets
		}
		must(t, err)
		packets = append(packets, fmt.Sprintf("%s %x", info.Timestamp.Format("05.000000000"), data[:beforeChecksum]))
	}
}

// beforeChecksum is how long the headers of the tests' packets are up to UDP's checksum, which sums up the trailer too.
const beforeChecksum = 14 + 20 + 6

func TestAChangedRateReachesTheRunUnderWay(t *testing.T) {
	ns, p := running(t, "live", "  duration: 5s\n  rate: 1kpps")
	first := p.Status.CurrentRun.Name
	mustApply(t, ns, loopbackProfile("live", lenient+"  duration: 5s\n  rate: 5kpps"))
	r := complete(t, runLimit, p)
	if res := r.Status.Result; r.Name != first || res.Tx <= 5000 || res.Tx >= 25000 || res.Lost != 0 || r.Status.RateFactor != "5" {
		t.Errorf("%s (first %s): %+v, factor %s", r.Name, first, res, r.Status.RateFactor)
	}
}

func TestEntriesArePausedAndGetOtherRatesWhileTheRunIsUnderWay(t *testing.T) {
	profile := func(rate, paused string) string {
		return loopbackProfile("entries", "  - {name: other, stream: {ref: {name: small}, rate: "+rate+"}, transmitPort: loop, receivePort: loop, paused: "+paused+"}\n"+lenient+"  duration: 10s")
	}
	ns := ready(t, "")
	mustApply(t, ns, profile("1kpps", "false"))
	p := profileNamed(ns, "entries")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	first := p.Status.CurrentRun.Name
	mustApply(t, ns, profile("5kpps", "false"))
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: first}}
	changed := func(paused bool) {
		want := []spatev1.EntryChange{{Name: "other", Rate: "5kpps", Paused: paused}}
		until(t, answerLimit, fmt.Sprintf("the run has %+v", want), func() (bool, string) {
			must(t, get(r))
			return slices.Equal(r.Status.Entries, want), fmt.Sprintf("%+v", r.Status.Entries)
		})
	}
	changed(false)
	mustApply(t, ns, profile("5kpps", "true"))
	changed(true)
	r = complete(t, runLimit, p)
	streams := map[string]int64{}
	for name, s := range r.Status.Result.Streams {
		streams[name] = s.Tx
	}
	if r.Name != first || r.Status.Result.Lost != 0 || streams["small"] != 10000 || streams["other"] == 10000 || streams["other"] >= 40000 {
		t.Errorf("%s (first %s): %v", r.Name, first, streams)
	}
}

func TestANewRunIDRunsAgainAndHistoryIsBounded(t *testing.T) {
	ns := ready(t, "")
	p := profileNamed(ns, "again")
	for i := range 3 {
		mustApply(t, ns, loopbackProfile("again", lenient+fmt.Sprintf("  duration: 200ms\n  runHistoryLimit: 1\n  runID: r%d", i)))
		r := complete(t, runLimit, p)
		if id := runs.TriggerOf(r).RunID; id != fmt.Sprintf("r%d", i) || r.Status.Result.Tx != 200 {
			t.Errorf("run %s of %s sent %d", r.Name, id, r.Status.Result.Tx)
		}
	}
	until(t, 10*time.Second, "one run is kept", func() (bool, string) {
		var list spatev1.TrafficRunList
		err := cluster.kube.List(t.Context(), &list, client.InNamespace(ns))
		return err == nil && len(list.Items) == 1, fmt.Sprint(len(list.Items), err)
	})
}

func TestSuspendStopsAndResumeStartsANewRun(t *testing.T) {
	ns, p := running(t, "pausing", "")
	first := p.Status.CurrentRun.Name
	mustApply(t, ns, loopbackProfile("pausing", lenient+"  suspend: true"))
	phase(t, runLimit, p, spatev1.ProfileSuspended)
	expect(t, runLimit, p, spatev1.ConditionComplete, metav1.ConditionTrue, spatev1.ReasonSuspended)
	mustApply(t, ns, loopbackProfile("pausing", lenient+"  suspend: false"))
	phase(t, runLimit, p, spatev1.ProfileRunning)
	if p.Status.CurrentRun.Name == first {
		t.Errorf("run %s goes on", first)
	}
}

func TestALostPodMakesTheRunInvalidAndTheGeneratorHeals(t *testing.T) {
	ns, p := running(t, "victim", "  duration: 60s")
	pods := enginePods(t, ns)
	must(t, cluster.kube.Delete(t.Context(), &pods[0], client.GracePeriodSeconds(0)))
	r := complete(t, runLimit, p)
	if r.Status.Verdict.Outcome != spatev1.VerdictInvalid {
		t.Errorf("%+v", r.Status.Verdict)
	}
	expect(t, answerLimit, p, spatev1.ConditionValid, metav1.ConditionFalse, spatev1.ReasonPodLost, pods[0].Name)
	mustApply(t, ns, loopbackProfile("victim", lenient+"  duration: 500ms\n  runID: again"))
	if r = complete(t, readyLimit, p); r.Status.Verdict.Outcome != spatev1.VerdictPassed || r.Status.Result.Tx != 500 {
		t.Errorf("%+v", r.Status.Verdict)
	}
}

func TestDeletingAProfileStopsItsTraffic(t *testing.T) {
	for name, limit := range map[string]time.Duration{"scraped": 10 * time.Second, "never scraped": 40 * time.Second} {
		t.Run(name, func(t *testing.T) {
			ns, p := running(t, "deleted", "")
			if name != "scraped" {
				cluster.kubelet.leaveUnscraped(ns)
			}
			deleteProfile(t, ns, p, limit)
		})
	}
}

func deleteProfile(t *testing.T, ns string, p *spatev1.TrafficProfile, limit time.Duration) {
	t.Helper()
	must(t, cluster.kube.Delete(t.Context(), p))
	until(t, limit, "the profile and its runs are gone", func() (bool, string) {
		var runs spatev1.TrafficRunList
		err := cluster.kube.List(t.Context(), &runs, client.InNamespace(ns))
		return err == nil && get(p) != nil && len(runs.Items) == 0, fmt.Sprint(len(runs.Items), err)
	})
	expect(t, answerLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
}

func TestABusyGeneratorQueuesOrRefuses(t *testing.T) {
	ns, _ := running(t, "first", "  rate: 6Mbps\n  duration: 12s")
	mustApply(t, ns, loopbackGenerator+"  limits: {maxRate: 10Mbps}\n")
	time.Sleep(time.Second)
	mustApply(t, ns, loopbackProfile("refused", lenient+"  rate: 6Mbps\n  duration: 1s\n  whenBusy: Refuse"))
	mustApply(t, ns, loopbackProfile("queued", lenient+"  rate: 6Mbps\n  duration: 1s"))
	expect(t, answerLimit, profileNamed(ns, "refused"), spatev1.ConditionValid, metav1.ConditionFalse, spatev1.ReasonGeneratorBusy, "maxRate", "spec.whenBusy is Refuse")
	phase(t, answerLimit, profileNamed(ns, "queued"), spatev1.ProfileQueued)
	complete(t, runLimit, profileNamed(ns, "queued"))
}

func TestProfilesWithTheSameAddressesTakeTurns(t *testing.T) {
	ns := ready(t, "")
	mustApply(t, ns, loopbackTemplate+"---"+greetingProfile("first", "  duration: 10s\n"))
	phase(t, runLimit, profileNamed(ns, "first"), spatev1.ProfileRunning)
	mustApply(t, ns, greetingProfile("second", "  duration: 1s\n"))
	second := profileNamed(ns, "second")
	expect(t, answerLimit, second, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonGeneratorBusy, "port loop would have addresses from 198.18.0.1 to 198.18.0.100 for both")
	if r := complete(t, runLimit, second); r.Status.Verdict.Outcome != spatev1.VerdictPassed {
		t.Errorf("%+v", r.Status.Verdict)
	}
}

func TestAnEditedStreamMakesTheProfileStale(t *testing.T) {
	ns, p := running(t, "aging", "  duration: 2s")
	mustApply(t, ns, strings.Replace(loopbackStream, "size: 128", "size: 256", 1))
	expect(t, answerLimit, p, spatev1.ConditionStale, metav1.ConditionTrue, spatev1.ReasonReferenceChanged, "small")
	if r := complete(t, runLimit, p); r.Status.Result.TxBytes != 128*r.Status.Result.Tx {
		t.Errorf("%+v", r.Status.Result)
	}
}

func TestCertificatesAndTheirAuthorityRotateUnderARun(t *testing.T) {
	needsEngine(t)
	restartOperator(t, "--certificate-lifetime=6s", "--ca-lifetime=30s", "--ca-propagation=3s")
	forget := func() {
		must(t, client.IgnoreNotFound(cluster.kube.Delete(context.Background(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "spate-ca"}})))
	}
	forget()
	t.Cleanup(func() { // the next operator has no authority that soon ends
		cluster.operator.stop()
		forget()
		restartOperator(t)
	})
	ns, p := running(t, "rotating", "  duration: 30s\n  thresholds: [{name: no-loss, expression: result.lost == 0}]")
	pod := enginePods(t, ns)[0]
	certificate := func() string {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "loop-engine-tls"}}
		must(t, get(s))
		return string(s.Data["tls.crt"])
	}
	seen := map[string]bool{}
	for range 25 {
		seen[certificate()] = true
		time.Sleep(time.Second)
	}
	r := complete(t, runLimit, p)
	if r.Status.Verdict.Outcome != spatev1.VerdictPassed || r.Status.Result.Tx != 30000 {
		t.Errorf("%+v %+v", r.Status.Verdict, r.Status.Result)
	}
	if len(seen) < 4 {
		t.Errorf("%d certificates in 25 s of 6 s each", len(seen))
	}
	if now := enginePods(t, ns); len(now) != 1 || now[0].UID != pod.UID {
		t.Error("the engine was restarted")
	}
}

func TestSteadyStateMakesNoWrites(t *testing.T) {
	ns := ready(t, "")
	mustApply(t, ns, loopbackProfile("done", lenient+"  duration: 500ms"))
	complete(t, runLimit, profileNamed(ns, "done"))
	quiet(t)
}

func TestAQuotaThatLeavesNoRoomForARunIsReported(t *testing.T) {
	t.Parallel()
	ns := ready(t, "")
	none := corev1.ResourceList{"count/configmaps": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "narrow"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
	must(t, cluster.kube.Create(t.Context(), quota))
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none} // as its controller does
	must(t, cluster.kube.Status().Update(t.Context(), quota))
	mustApply(t, ns, loopbackProfile("squeezed", lenient+"  duration: 500ms"))
	p := profileNamed(ns, "squeezed")
	expect(t, answerLimit, p, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonAdmissionFailed, "the plan cannot be stored", "exceeded quota: narrow", "retried every 30s")
	if p.Status.Phase != spatev1.ProfilePending || p.Status.ObservedGeneration != p.Generation {
		t.Errorf("%+v", p.Status)
	}
	must(t, cluster.kube.Delete(t.Context(), quota))
	if r := complete(t, readyLimit, p); r.Status.Result == nil || r.Status.Result.Tx+r.Status.Result.TxDropped != 500 {
		t.Errorf("%+v", r.Status.Result)
	}
}
