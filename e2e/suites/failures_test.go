// SPDX-License-Identifier: Apache-2.0

// Real failures, and what is reported to the user: no hang, no silent pass, the reason in a condition.

package suites

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

// running creates the loopback generator and a profile, and waits until the profile is Running.
func running(t *testing.T, name, spec string) (string, *spate.TrafficProfile) {
	t.Helper()
	ns := namespace(t)
	mustApply(t, ns, loopbackGenerator+"---"+loopbackStream+"---"+loopbackProfile(name, spec))
	p := profileNamed(ns, name)
	phase(t, 45*time.Second, p, spate.ProfileRunning)
	return ns, p
}

func TestALostPodMakesTheRunInvalid(t *testing.T) {
	t.Parallel()
	ns, p := running(t, "victim", "  duration: 30s")
	pods, err := enginePods(t.Context(), ns, "loop")
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	if err := kube.Delete(t.Context(), &pods[0], client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	run := complete(t, 15*time.Second, p)
	if run.Status.Verdict.Outcome != spate.VerdictInvalid {
		t.Errorf("verdict %s, want Invalid", run.Status.Verdict.Outcome)
	}
	invalid(t, p, spate.ReasonPodLost, pods[0].Name)

	t.Run("the generator heals, and a re-run passes", func(t *testing.T) {
		condition(t, 30*time.Second, generatorNamed(ns, "loop"), spate.ConditionReady, metav1.ConditionTrue)
		mustApply(t, ns, loopbackProfile("victim", "  duration: 1s\n  runID: again"))
		rerun := complete(t, 30*time.Second, p)
		if rerun.Name == run.Name || rerun.Status.Verdict.Outcome != spate.VerdictPassed {
			t.Errorf("run %s: %s", rerun.Name, rerun.Status.Verdict.Outcome)
		}
	})
}

func TestAnOperatorRestartLosesNothing(t *testing.T) {
	_, p := running(t, "enduring", "  duration: 12s\n  thresholds: [{name: no-loss, expression: result.lost == 0}]")
	var operators corev1.PodList
	if err := kube.List(t.Context(), &operators, client.InNamespace(operatorNamespace), client.MatchingLabels{"app.kubernetes.io/name": "spate-operator"}); err != nil {
		t.Fatal(err)
	}
	for i := range operators.Items {
		if err := kube.Delete(t.Context(), &operators.Items[i], client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	if len(operators.Items) == 0 {
		t.Fatal("no operator to restart")
	}
	run := complete(t, 90*time.Second, p)
	if r := run.Status.Result; run.Status.Verdict.Outcome != spate.VerdictPassed || r.Tx+r.TxDropped != 12_000 || r.Rx != r.Tx {
		t.Errorf("%s: tx %d, rx %d; want Passed with 12000 sent and received", run.Status.Verdict.Outcome, r.Tx, r.Rx)
	}
	agree(t, run)
}

func TestAGeneratorThatCannotKeepUpIsTheLimit(t *testing.T) {
	ns := namespace(t)
	mustApply(t, ns, loopbackGenerator+"---"+strings.NewReplacer("{flow: true}", "{}", "name: small", "name: unmeasured").Replace(loopbackStream))
	flood := profileNamed(ns, "flood")
	mustApply(t, ns, strings.NewReplacer("transmitPort: loop, receivePort: loop", "transmitPort: void", "ref: {name: small}", "ref: {name: unmeasured}").Replace(
		loopbackProfile("flood", "  rate: 2Gpps\n  duration: 2s\n  generatorTolerance: {}")))
	run := complete(t, 60*time.Second, flood)
	if run.Status.Verdict.Outcome != spate.VerdictInvalid {
		t.Errorf("verdict %s, want Invalid", run.Status.Verdict.Outcome)
	}
	invalid(t, flood, spate.ReasonGeneratorLimited)
	if r := run.Status.Result; r.TxDropped == 0 && r.Late == 0 {
		t.Error("neither late nor dropped packets are reported")
	}
}

func TestTooFewHugepagesAreReportedWithinSeconds(t *testing.T) {
	ns := namespace(t)
	mustApply(t, ns, strings.Replace(loopbackGenerator, "{backing: Standard, size: 64Mi}", "{backing: Hugepages2Mi, size: 16Gi}", 1))
	readyReason(t, 10*time.Second, generatorNamed(ns, "loop"), spate.ReasonUnschedulable, "hugepages-2Mi")
}

func TestAWrongNetworkNameIsReported(t *testing.T) {
	needsRig(t, theMultus)
	ns := namespace(t)
	mustApply(t, ns, strings.Replace(loopbackGenerator, "{loopback: {}}", "{kernel: {network: no-such-net}}", 1))
	g := generatorNamed(ns, "loop")
	expect(t, condition(t, answerLimit, g, spate.ConditionReady, metav1.ConditionFalse), spate.ReasonNetworkNotFound, "spec.ports[0].attachment.kernel", "no-such-net")
	pods, err := enginePods(t.Context(), ns, "loop")
	if err != nil || len(pods) != 0 {
		t.Errorf("%d pods were made for a network that does not exist, %v", len(pods), err)
	}
}

func TestAnUnreachablePodNeverHangsDeletion(t *testing.T) {
	t.Parallel()
	needsRig(t, thePodNetwork)
	ns, p := running(t, "gone", "")
	// The node drops all packets to and from the pod: the engine continues and cannot be reached.
	pods, err := enginePods(t.Context(), ns, "loop")
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	unplug(t, pods[0].Status.PodIP)
	start := time.Now()
	for _, object := range []client.Object{p, generatorNamed(ns, "loop")} {
		if err := kube.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	until(t, 75*time.Second, "profile, generator and pod are gone", func(ctx context.Context) (bool, string) {
		pods, err := enginePods(ctx, ns, "loop")
		return get(ctx, p) != nil && get(ctx, generatorNamed(ns, "loop")) != nil && len(pods) == 0, fmt.Sprint(len(pods), " pods ", err)
	})
	t.Logf("gone after %s", time.Since(start).Round(100*time.Millisecond))
}
