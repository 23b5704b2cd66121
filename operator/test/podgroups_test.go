// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: do the pods of a generator's groups take the parts that a profile gives them, in one run with one verdict?

import (
	"maps"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
)

// groupedGenerator has pods of two groups, each with a loopback port.
const groupedGenerator = `
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: groups}
spec:
  replicas: 3
  cpuPolicy: Shared
  packetMemory: {backing: Standard, size: 64Mi}
  podTemplate: {metadata: {labels: {team: net}}}
  podGroups:
  - {name: near, replicas: 1}
  - {name: far, replicas: 2, tolerations: [{key: far, operator: Exists}]}
  ports: [{name: loop, lineRate: 10Gbps, attachment: {loopback: {}}}]
`

// groupedProfile has both sides of an application on the pod of one group, and a stream that those of the other send.
const groupedProfile = `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: both}
spec:
  generatorRef: {name: groups}
  duration: 1s
  drain: 3s
  generatorTolerance: {late: 100%, txDropped: 25%}
  traffic:
  - name: web
    transmitPort: loop
    transmitPodGroup: near
    receivePort: loop
    receivePodGroup: near
    application:
      inline:
        connectionRate: 100cps
        pools:
          clients: [{name: clients, start: 198.18.0.100, count: 1}]
          servers: [{name: servers, start: 198.18.0.200, count: 1}]
        source: {http: {responseBytes: 2048}}
  - name: probe
    transmitPort: loop
    transmitPodGroup: far
    receivePort: loop
    stream:
      inline:
        packet: {headers: [{ethernet: {}}, {ipv4: {source: 198.18.0.1, destination: 198.19.0.1}}, {udp: {destinationPort: 7}}], size: 128}
        transmit: {burst: {rate: 500pps, packets: 301}}
        measure: {flow: true}
  thresholds:
  - {name: pages, expression: result.flows.attempted > 0 && result.flows.failed == 0}
  - {name: packets, expression: 'result.streams["probe"].rx > 0 && result.streams["probe"].lost == 0'}
`

// groupsOf the engine pods, by name, with their labels.
func groupsOf(t *testing.T, ns string) map[string]*corev1.Pod {
	t.Helper()
	all := map[string]*corev1.Pod{}
	for _, pod := range enginePods(t, ns) {
		if pod.DeletionTimestamp == nil {
			all[pod.Name] = &pod
		}
	}
	return all
}

func TestOneRunHasAVerdictOfWhatTheGroupsOfPodsDo(t *testing.T) {
	t.Parallel()
	needsEngine(t)
	ns := namespace(t)
	mustApply(t, ns, groupedGenerator)
	g := generatorNamed(ns, "groups")
	expect(t, readyLimit, g, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	var groups []string
	for _, pod := range g.Status.Pods {
		groups = append(groups, string(pod.PodGroup))
	}
	if !slices.Equal(groups, []string{"near", "far", "far"}) {
		t.Errorf("groups of the pods: %v", groups)
	}
	pods := groupsOf(t, ns)
	for name, want := range map[string][3]string{"groups-0": {"near", "any", "net"}, "groups-1": {"far", "far", "net"}, "groups-2": {"far", "far", "net"}} {
		labels, place := pods[name].Labels, "any"
		if slices.ContainsFunc(pods[name].Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "far" }) {
			place = "far"
		}
		if got := [3]string{labels[podspec.LabelPodGroup], place, labels["team"]}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}

	mustApply(t, ns, groupedProfile)
	run := complete(t, 2*runLimit, profileNamed(ns, "both"))
	if v := run.Status.Verdict; v == nil || v.Outcome != spatev1.VerdictPassed {
		t.Fatalf("%+v", run.Status)
	}
	// One client and one server, which each of three pods could not have: the pod of `near` has both.
	web, probe := run.Status.Result.Templates["web"], run.Status.Result.Streams["probe"]
	if web.Client == nil || web.Server == nil || web.Client.Attempted+run.Status.Result.Flows.NotStarted != 100 || web.Client.Closed != web.Client.Attempted || web.Server.Closed != web.Client.Closed || web.Server.BytesSent != web.Client.BytesReceived {
		t.Errorf("%+v", web)
	}
	if probe.Tx+probe.TxDropped != 301 || probe.Rx != probe.Tx || len(run.Status.Resolved.Generator.Pods) != 3 {
		t.Errorf("%+v", probe)
	}

	t.Run("the scale subresource is refused", func(t *testing.T) {
		scale := &autoscalingv1.Scale{}
		must(t, cluster.kube.SubResource("scale").Get(t.Context(), g, scale))
		scale.Spec.Replicas = 4
		err := cluster.kube.SubResource("scale").Update(t.Context(), g, client.WithSubResourceBody(scale))
		if err == nil || !strings.Contains(err.Error(), "with podGroups it must be the sum of their replicas: set it to that, or change the replicas of a group") {
			t.Errorf("%v", err)
		}
	})

	t.Run("only pods that come to another group are replaced", func(t *testing.T) {
		mustApply(t, ns, strings.NewReplacer("name: near, replicas: 1", "name: near, replicas: 2", "name: far, replicas: 2", "name: far, replicas: 1").Replace(groupedGenerator))
		until(t, readyLimit, "the second pod is in the first group", func() (bool, string) {
			must(t, get(g))
			now := groupsOf(t, ns)
			second := now["groups-1"]
			return g.Status.ReadyReplicas == 3 && second != nil && second.Labels[podspec.LabelPodGroup] == "near", strings.Join(slices.Sorted(maps.Keys(now)), " ")
		})
		uid := func(pods map[string]*corev1.Pod, name string) types.UID { return pods[name].UID }
		now := groupsOf(t, ns)
		if uid(now, "groups-0") != uid(pods, "groups-0") || uid(now, "groups-2") != uid(pods, "groups-2") || uid(now, "groups-1") == uid(pods, "groups-1") {
			t.Errorf("pods %v, were %v", now, pods)
		}
	})

	t.Run("an unknown group is refused", func(t *testing.T) {
		mustApply(t, ns, strings.NewReplacer("metadata: {name: both}", "metadata: {name: unknown}", "transmitPodGroup: far", "transmitPodGroup: there").Replace(groupedProfile))
		expect(t, answerLimit, profileNamed(ns, "unknown"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonInvalidSpec,
			`spec.traffic[1].transmitPodGroup: "there" is none of the spec.podGroups of generator groups; it has near, far`)
	})
}
