// SPDX-License-Identifier: Apache-2.0

// The life of a profile: live rate changes, repeated runs, suspension, history, staleness, deletion.

package suites

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

func runsOf(ctx context.Context, t *testing.T, p *spate.TrafficProfile) []spate.TrafficRun {
	t.Helper()
	var all spate.TrafficRunList
	if err := kube.List(ctx, &all, client.InNamespace(p.Namespace)); err != nil {
		t.Fatal(err)
	}
	var own []spate.TrafficRun
	for _, r := range all.Items {
		if r.Spec.ProfileRef != nil && string(r.Spec.ProfileRef.Name) == p.Name {
			own = append(own, r)
		}
	}
	return own
}

func TestAChangedRateIsAppliedToTheRunningRun(t *testing.T) {
	t.Parallel()
	ns, p := running(t, "live", "  duration: 12s\n  rate: 1kpps")
	first := p.Status.CurrentRun.Name
	mustApply(t, ns, loopbackProfile("live", "  duration: 12s\n  rate: 5kpps"))
	run := complete(t, 45*time.Second, p)
	if run.Name != first {
		t.Errorf("the rate's change started run %s after %s", run.Name, first)
	}
	if r := run.Status.Result; r.Tx <= 13_000 || r.Tx >= 60_000 || r.Lost != 0 {
		t.Errorf("tx %d, lost %d; want more than 12 s at 1 kpps, less than at 5 kpps, and no loss", r.Tx, r.Lost)
	}
	if run.Status.RateFactor != "5" {
		t.Errorf("rate factor %q, want 5", run.Status.RateFactor)
	}
	agree(t, run)
}

func TestANewRunIDRunsAgainAndHistoryIsBounded(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	mustApply(t, ns, loopbackGenerator+"---"+loopbackStream)
	p := profileNamed(ns, "again")
	seen := map[string]bool{}
	for i := range 4 {
		mustApply(t, ns, loopbackProfile("again", fmt.Sprintf("  duration: 1s\n  runHistoryLimit: 2\n  runID: r%d", i)))
		run := complete(t, 45*time.Second, p)
		if seen[run.Name] {
			t.Fatalf("run %s again", run.Name)
		}
		seen[run.Name] = true
		if p.Status.LastTrigger == nil || p.Status.LastTrigger.RunID != fmt.Sprintf("r%d", i) || run.Status.Result.Tx+run.Status.Result.TxDropped != 1000 {
			t.Errorf("run %s for %+v sent %d, want 1000 for r%d", run.Name, p.Status.LastTrigger, run.Status.Result.Tx, i)
		}
	}
	until(t, 10*time.Second, "two ended runs are kept", func(ctx context.Context) (bool, string) {
		runs := runsOf(ctx, t, p)
		return len(runs) == 2, fmt.Sprint(len(runs), " runs")
	})
}

func TestSuspendStopsAndResumeStartsANewRun(t *testing.T) {
	t.Parallel()
	ns, p := running(t, "pausing", "")
	first := p.Status.CurrentRun.Name
	mustApply(t, ns, loopbackProfile("pausing", "  suspend: true"))
	phase(t, 15*time.Second, p, spate.ProfileSuspended)
	silent(t, ns)
	mustApply(t, ns, loopbackProfile("pausing", "  suspend: false"))
	phase(t, 30*time.Second, p, spate.ProfileRunning)
	if p.Status.CurrentRun.Name == first {
		t.Errorf("run %s goes on after its suspension", first)
	}
}

// silent fails if the loopback generator's port still sends.
func silent(t *testing.T, ns string) {
	t.Run("Prometheus sees no traffic", func(t *testing.T) {
		needsRig(t, thePrometheus)
		sendsNothing(t, ns)
	})
}

func sendsNothing(t *testing.T, ns string) {
	t.Helper()
	sent := func() (packets float64) {
		until(t, 15*time.Second, "Prometheus knows the generator's ports", func(ctx context.Context) (bool, string) {
			samples, err := query(ctx, fmt.Sprintf(`sum(spate_port_tx_packets_total{namespace=%q})`, ns))
			if err != nil || len(samples) != 1 {
				return false, fmt.Sprint(samples, err)
			}
			packets = samples[0].value
			return true, ""
		})
		return packets
	}
	time.Sleep(2500 * time.Millisecond) // two scrapes
	before := sent()
	time.Sleep(2500 * time.Millisecond)
	if after := sent(); after != before || before == 0 {
		t.Errorf("%.0f packets sent, then %.0f: traffic goes on", before, after)
	}
}

func TestDeletingAProfileStopsItsTraffic(t *testing.T) {
	t.Parallel()
	ns, p := running(t, "deleted", "")
	if err := kube.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	until(t, 20*time.Second, "the profile and its runs are gone", func(ctx context.Context) (bool, string) {
		runs := runsOf(ctx, t, p)
		return get(ctx, p) != nil && len(runs) == 0, fmt.Sprint(len(runs), " runs")
	})
	silent(t, ns)
}

func TestAnEditedStreamMakesTheProfileStaleUntilTheNextRun(t *testing.T) {
	t.Parallel()
	ns, p := running(t, "aging", "  duration: 5s")
	mustApply(t, ns, strings.Replace(loopbackStream, "size: 128", "size: 256", 1))
	expect(t, condition(t, answerLimit, p, spate.ConditionStale, metav1.ConditionTrue), spate.ReasonReferenceChanged, "small")
	run := complete(t, 30*time.Second, p)
	if got := run.Status.Result.TxBytes / run.Status.Result.Tx; got != 128 {
		t.Errorf("the run sent packets of %d bytes, want 128 as it was resolved", got)
	}
	mustApply(t, ns, loopbackProfile("aging", "  duration: 5s\n  runID: fresh"))
	phase(t, 20*time.Second, p, spate.ProfileRunning)
	run = complete(t, 30*time.Second, p)
	if got := run.Status.Result.TxBytes / run.Status.Result.Tx; got != 256 {
		t.Errorf("the next run sent packets of %d bytes, want 256", got)
	}
}

func TestABusyGeneratorQueuesOrRefuses(t *testing.T) {
	ns := namespace(t)
	mustApply(t, ns, strings.Replace(loopbackGenerator, "lineRate: 10Gbps", "lineRate: 10Mbps", 1)+"---"+loopbackStream)
	// Two profiles of 6 Mbps each exceed the port's 10 Mbps together.
	heavy := "  rate: 6Mbps\n  generatorTolerance: {late: 100%, txDropped: 100%, rxMissed: 100%}\n"
	mustApply(t, ns, loopbackProfile("first", heavy+"  duration: 12s"))
	phase(t, 45*time.Second, profileNamed(ns, "first"), spate.ProfileRunning)
	mustApply(t, ns, loopbackProfile("refused", heavy+"  duration: 1s\n  whenBusy: Refuse"))
	mustApply(t, ns, loopbackProfile("queued", heavy+"  duration: 1s\n  whenBusy: Queue"))
	invalid(t, profileNamed(ns, "refused"), spate.ReasonGeneratorBusy, "spec.whenBusy is Refuse")
	phase(t, answerLimit, profileNamed(ns, "queued"), spate.ProfileQueued)
	complete(t, 30*time.Second, profileNamed(ns, "queued"))
}

func TestAnInlineGeneratorComesAndGoesWithItsProfile(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	mustApply(t, ns, loopbackStream+`---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: inline}
spec:
  generator:
    cpuPolicy: Shared
    packetMemory: {backing: Standard, size: 64Mi}
    ports: [{name: loop, attachment: {loopback: {}}}]
  traffic:
  - {name: small, transmitPort: loop, receivePort: loop, stream: {ref: {name: small}}}
  duration: 1s
  generatorTolerance: {late: 100%, txDropped: 25%}
`)
	p := profileNamed(ns, "inline")
	run := complete(t, 45*time.Second, p)
	if run.Status.Verdict.Outcome != spate.VerdictPassed || run.Status.Result.Rx != run.Status.Result.Tx || run.Status.Result.Tx+run.Status.Result.TxDropped != 1000 {
		t.Errorf("%s, tx %d, dropped %d, rx %d; want Passed, 1000 sent and received", run.Status.Verdict.Outcome, run.Status.Result.Tx, run.Status.Result.TxDropped, run.Status.Result.Rx)
	}
	if err := kube.Delete(t.Context(), p, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	until(t, 60*time.Second, "the inline generator is gone", func(ctx context.Context) (bool, string) {
		var generators spate.TrafficGeneratorList
		err := kube.List(ctx, &generators, client.InNamespace(ns))
		return err == nil && len(generators.Items) == 0, fmt.Sprint(len(generators.Items), err)
	})
}
