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
