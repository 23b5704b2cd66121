// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: what becomes of a run that uses sessions of routing protocols, when BIRD ends?

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// routedGenerator has a port with a session.
const routedGenerator = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: lab}
spec: {config: '{}'}
---
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: loop}
spec:
  cpuPolicy: Shared
  packetMemory: {size: 64Mi, backing: Standard}
  ports:
  - name: loop
    lineRate: 10Gbps
    attachment: {kernel: {network: lab}}
    addresses: [198.18.0.1/24]
    routing: {bgp: [{name: dut, localAS: 65001, neighbor: {address: 198.18.0.2, as: 65002}}]}
`

func TestARunWhoseRouterEndsIsStoppedAndInvalid(t *testing.T) {
	t.Parallel()
	ns := simulatedReady(t, startSimulatedNode(t), routedGenerator)
	expect(t, readyLimit, generatorNamed(ns, "loop"), spatev1.ConditionRoutingReady, metav1.ConditionTrue, spatev1.ReasonSessionsUp)
	mustApply(t, ns, loopbackProfile("long", tolerant+"  duration: 10m\n"))
	p := profileNamed(ns, "long")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	pod := enginePods(t, ns)[0]
	ended := time.Now()
	must(t, setPod(t.Context(), cluster.kube, client.ObjectKeyFromObject(&pod), func(s *corev1.PodStatus) {
		bird := &s.InitContainerStatuses[0]
		bird.RestartCount, bird.LastTerminationState.Terminated = 1, &corev1.ContainerStateTerminated{ExitCode: 139, FinishedAt: metav1.Now()}
	}))
	run := complete(t, runLimit, p)
	verdict := run.Status.Verdict
	want := "stopped: pod loop-0: BIRD has ended (exit code 139), and all sessions fell with it"
	if verdict.Outcome != spatev1.VerdictInvalid || verdict.Reasons[0].Reason != spatev1.ReasonRoutingFailed || verdict.Reasons[0].Message != want || run.Status.Result.Tx == 0 {
		t.Errorf("got %+v, %d packets sent", verdict, run.Status.Result.Tx)
	}
	expect(t, startLimit, run, spatev1.ConditionComplete, metav1.ConditionTrue, spatev1.ReasonStopped, strings.TrimPrefix(want, "stopped: "))

	// Later runs have the sessions that BIRD has again.
	time.Sleep(time.Until(ended.Add(3 * time.Second)))
	mustApply(t, ns, loopbackProfile("next", tolerant+"  duration: 1s\n"))
	if verdict := complete(t, runLimit, profileNamed(ns, "next")).Status.Verdict; verdict.Outcome != spatev1.VerdictPassed {
		t.Errorf("got %+v", verdict)
	}
}

func TestARunSendsWhenItsRoutesAreSentAndReportsWhatSessionsDid(t *testing.T) {
	t.Parallel()
	ns := simulatedReady(t, startSimulatedNode(t), routedGenerator)
	expect(t, readyLimit, generatorNamed(ns, "loop"), spatev1.ConditionRoutingReady, metav1.ConditionTrue, spatev1.ReasonSessionsUp)
	const advertised = `  routing:
    advertise:
    - name: customers
      port: loop
      sessions: [dut]
      prefixes: {range: {first: 20.0.0.0/24, count: 150000}}
      attributes: {asPath: [64512], communities: ["65001:100"], med: 0}
    - {name: held, port: loop, sessions: [dut], state: Withdrawn, prefixes: {list: [203.0.113.0/24]}}
    ready: {quiet: 200ms}
`
	const met = `  thresholds:
  - {name: sent, expression: 'result.routing.sessions["loop/dut"].sent == 150000 && result.routing.sessions["loop/dut"].up && result.routing.sessions["loop/dut"].flaps == 0'}
`
	mustApply(t, ns, loopbackProfile("routed", tolerant+"  duration: 1s\n"+advertised+met))
	p := profileNamed(ns, "routed")
	phase(t, runLimit, p, spatev1.ProfileSettingUp)
	expect(t, startLimit, p, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonRoutingNotReady, "pod loop-0: session loop/dut: ", " of 150000 routes sent")
	run := complete(t, runLimit, p)
	if run.Status.Verdict.Outcome != spatev1.VerdictPassed || run.Status.SetupTime == nil {
		t.Errorf("got %+v", run.Status.Verdict)
	}
	want := spatev1.SessionResult{Up: true, Configured: 150000, Sent: 150000}
	if r := run.Status.Result.Routing; r == nil || r.Sessions["loop/dut"] != want {
		t.Errorf("got %+v", r)
	}

	// Of more than the container has memory for, and with a threshold on a session that advertises nothing.
	mustApply(t, ns, loopbackProfile("wrong", tolerant+"  duration: 1s\n"+strings.Replace(advertised, "150000", "1500000", 1)+strings.ReplaceAll(met, "loop/dut", "loop/core")))
	expect(t, startLimit, profileNamed(ns, "wrong"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonInvalidSpec,
		"spec.routing.advertise: 1500001 routes need about ", "set spec.routing.memory of generator loop to ", "sessions are those that advertise a set of spec.routing, as PORT/SESSION: loop/dut")
}
