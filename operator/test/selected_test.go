// SPDX-License-Identifier: Apache-2.0

package test

// A profile of more streams than it has entries, each an object of its own: every one is counted, those beyond the status too.

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

const selectedStreams = 2000

// burstOf is the number of packets that a stream sends.
func burstOf(i int) int { return 1 + i%7 }

func selectedStream(i int) string {
	return fmt.Sprintf(`
apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: s%04d, labels: {set: many}}
spec:
  packet:
    headers: [{ethernet: {}}, {ipv4: {source: 198.18.%d.%d, destination: 198.19.0.1}}, {udp: {sourcePort: 1, destinationPort: 2}}]
    size: %d
  transmit: {burst: {packets: %d, rate: 100pps}}
  measure: {flow: true}
`, i, i>>8, i&255, 64+i%64, burstOf(i))
}

func TestTwoThousandSelectedStreamsAreEachCounted(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	cluster.kubelet.leaveUnscraped(ns)
	mustApply(t, ns, loopbackGenerator)
	p := profileNamed(ns, "many")
	mustApply(t, ns, fmt.Sprintf(`
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: many}
spec:
  generatorRef: {name: loop}
  duration: 2s
  generatorTolerance: {late: 100%%}
  traffic:
  - name: streams
    transmitPort: loop
    receivePort: loop
    stream: {selector: {matchLabels: {set: many}, count: %d}}
  thresholds:
  - {name: beyond-the-status, expression: 'result.streams["s%04d"].tx == %d && result.streams["s%04d"].rx == %d && result.streams["s%04d"].txBytes == %d'}
  - {name: every, expression: 'result.streams.all(name, result.streams[name].lost == 0)'}
`, selectedStreams, selectedStreams-1, burstOf(selectedStreams-1), selectedStreams-1, burstOf(selectedStreams-1), selectedStreams-1, burstOf(selectedStreams-1)*(64+(selectedStreams-1)%64)))
	expect(t, readyLimit, p, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonReferenceNotFound, "0 StatelessStreams in namespace", "have the labels set=many, and count is 2000")
	start := time.Now()
	for i := range selectedStreams {
		mustApply(t, ns, selectedStream(i))
	}
	applied := time.Since(start)
	r := complete(t, 2*time.Minute, p)
	if r.Status.Verdict.Outcome != spatev1.VerdictPassed {
		t.Errorf("%+v", r.Status.Verdict)
	}
	stored, err := json.Marshal(r)
	must(t, err)
	result, resolved := r.Status.Result, r.Status.Resolved
	if result == nil || result.Details == nil {
		t.Fatalf("no details of %+v", result)
	}
	t.Logf("%d streams were applied in %s, and judged %s later; the run has %d KiB, its result %d KiB with %s", selectedStreams, applied.Round(time.Second),
		(time.Since(start) - applied).Round(time.Second), len(stored)>>10, result.Details.Bytes>>10, result.Details.Has())
	if _, kept := result.Streams[fmt.Sprintf("s%04d", selectedStreams-1)]; kept || len(result.Streams) == 0 || len(stored) > mostStatus {
		t.Errorf("%d streams in a run of %d bytes", len(result.Streams), len(stored))
	}
	if len(resolved.Entries) != 1 || resolved.Entries[0].Selected != selectedStreams || len(resolved.Profile.Selections) != 1 || len(resolved.Profile.Definitions) != 0 {
		t.Errorf("entries %+v, selections %+v", resolved.Entries, resolved.Profile.Selections)
	}
	whole := shownByPlugin(t, ns, r.Name)
	if len(whole.Streams) != selectedStreams {
		t.Fatalf("%d streams in the whole result", len(whole.Streams))
	}
	sum := int64(0)
	for i := range selectedStreams {
		s, want := whole.Streams[fmt.Sprintf("s%04d", i)], int64(burstOf(i))
		if sum += want; s.Tx != want || s.Rx != want || s.Lost != 0 || s.TxBytes != want*int64(64+i%64) {
			t.Fatalf("s%04d: %+v, want %d packets of %d bytes", i, s.StreamCounters, want, 64+i%64)
		}
	}
	if result.Tx != sum || result.Rx != sum {
		t.Errorf("%d sent and %d received in all, want %d", result.Tx, result.Rx, sum)
	}

	// A label is a change of what is selected, and no run is started for it.
	one := &spatev1.StatelessStream{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "s0007"}}
	must(t, get(one))
	one.Labels["set"] = "none"
	must(t, cluster.kube.Update(t.Context(), one))
	expect(t, 20*time.Second, p, spatev1.ConditionStale, metav1.ConditionTrue, spatev1.ReasonReferenceChanged, "the StatelessStreams that entry streams selects have changed (2000 then, 1999 now)")
	one.Labels["set"] = "many"
	must(t, cluster.kube.Update(t.Context(), one))
	until(t, 20*time.Second, "the profile is not stale", func() (bool, string) {
		must(t, get(p))
		return conditionOf(p, spatev1.ConditionStale) == "", conditionOf(p, spatev1.ConditionStale)
	})
}

// conditionOf is the message of a condition; empty if the object does not have it.
func conditionOf(p *spatev1.TrafficProfile, kind string) string {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}

const fewSelected = `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: few}
spec:
  generatorRef: {name: loop}
  traffic:
  - name: streams
    transmitPort: loop
    receivePort: loop
    stream: {selector: {matchLabels: {set: many}}RATE}
`

// The rate and the pause of an entry with a selector apply to all its streams while they are sent.
func TestSelectedStreamsChangeWhileTheyAreSent(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	cluster.kubelet.leaveUnscraped(ns)
	mustApply(t, ns, loopbackGenerator)
	for i, name := range []string{"one", "two", "three"} {
		mustApply(t, ns, strings.NewReplacer("name: small", "labels: {set: many}, name: "+name, "1kpps", fmt.Sprintf("%dpps", 10*(i+1))).Replace(loopbackStream))
	}
	rate := func(text string) string { return strings.Replace(fewSelected, "RATE", text, 1) }
	mustApply(t, ns, rate(", rate: 20pps"))
	p := profileNamed(ns, "few")
	phase(t, 30*time.Second, p, spatev1.ProfileRunning)
	entries := func(want spatev1.EntryChange) {
		t.Helper()
		until(t, 20*time.Second, fmt.Sprintf("%+v", want), func() (bool, string) {
			must(t, get(p))
			r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: p.Status.CurrentRun.Name}}
			must(t, get(r))
			return len(r.Status.Entries) == 1 && r.Status.Entries[0] == want, fmt.Sprintf("%+v", r.Status.Entries)
		})
	}
	mustApply(t, ns, rate(", rate: 400pps"))
	entries(spatev1.EntryChange{Name: "streams", Rate: "400pps"})
	time.Sleep(2 * time.Second) // at that rate
	mustApply(t, ns, strings.Replace(rate(", rate: 400pps"), "- name: streams", "- name: streams\n    paused: true", 1))
	entries(spatev1.EntryChange{Name: "streams", Rate: "400pps", Paused: true})
	must(t, get(p))
	p.Spec.Suspend = true
	must(t, cluster.kube.Update(t.Context(), p))
	r := complete(t, 30*time.Second, p)
	least := int64(0)
	for _, name := range []string{"one", "two", "three"} {
		s := r.Status.Result.Streams[name]
		if least == 0 {
			least = s.Tx
		}
		if s.Tx < 700 || s.Rx != s.Tx || s.Tx-least > 1 || least-s.Tx > 1 {
			t.Errorf("%s: %d packets sent, %d received, %d of the first", name, s.Tx, s.Rx, least)
		}
	}
}
