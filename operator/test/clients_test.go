// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: does a run wait for its emulated clients, report them, and leave the engine when it has ended? The engines are simulated.

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// simulatedSetup is the time until simulated clients are bound.
const simulatedSetup = 3 * time.Second

// clients are those of the run at an instant: all of a group are bound at the same time.
func (r *simulatedRun) clients(now int64) (all []*enginev1.ClientGroupStats) {
	for _, g := range r.plan.Clients {
		engines := max(r.plan.GetShare().GetCount(), 1)
		own := (g.Count + engines - 1 - r.plan.GetShare().GetIndex()) / engines
		discovering, bound := own, uint32(0)
		if now-r.prepared > int64(simulatedSetup) {
			discovering, bound = 0, own
		}
		all = append(all, &enginev1.ClientGroupStats{
			Name: g.Name, Wanted: own, Ready: bound == own, States: []*enginev1.NamedCounter{{Name: "Discovering", Value: uint64(discovering)}, {Name: "Bound", Value: uint64(bound)}},
			Counters: []*enginev1.NamedCounter{{Name: "setups", Value: uint64(bound)}},
		})
	}
	return all
}

const accessGenerator = `
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
`

const accessGroup = `
apiVersion: spate.dev/v1alpha1
kind: ClientGroup
metadata: {name: subscribers}
spec:
  mac: {first: "02:10:00:00:00:00"}
  ipv4: {dhcp: {}}
`

func TestARunSendsWhenItsClientsAreBound(t *testing.T) {
	t.Parallel()
	ns := simulatedReady(t, startSimulatedNode(t), accessGenerator)
	mustApply(t, ns, loopbackProfile("access", tolerant+`  duration: 1s
  clients:
  - {name: subs, groupRef: {name: subscribers}, port: loop, count: 500, rate: 1000/s, ready: {timeout: 1m}}
  thresholds:
  - {name: bound, expression: 'result.clients["subs"].bound == 500 && result.clients["subs"].failed["NoOffer"] == 0'}
`))
	p := profileNamed(ns, "access")
	expect(t, startLimit, p, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonReferenceNotFound, `ClientGroup "subscribers" does not exist`)
	mustApply(t, ns, accessGroup)
	phase(t, runLimit, p, spatev1.ProfileSettingUp)
	run := &spatev1.TrafficRun{}
	must(t, cluster.kube.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: p.Status.CurrentRun.Name}, run))
	expect(t, startLimit, run, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonClientsNotReady, "clients subs: 0 of 500 are bound, at least 500 must be; Discovering 500")
	run = complete(t, runLimit, p)
	if run.Status.Verdict.Outcome != spatev1.VerdictPassed {
		t.Errorf("got %+v", run.Status.Verdict)
	}
	if c := run.Status.Result.Clients["subs"]; c.Wanted != 500 || c.Bound != 500 || c.States["Bound"] != 500 || c.Setups != 500 {
		t.Errorf("got %+v", c)
	}
	if d := run.Status.Resolved.Profile.Definitions; len(d) != 2 || d[1].Kind != "ClientGroup" {
		t.Errorf("got %+v", d)
	}

	mustApply(t, ns, strings.Replace(accessGroup, "dhcp: {}", "dhcp: {leaseTime: 60s}", 1))
	expect(t, startLimit, p, spatev1.ConditionStale, metav1.ConditionTrue, spatev1.ReasonReferenceChanged, "ClientGroup subscribers")
}
