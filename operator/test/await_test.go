// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: how does a test apply, await and look at objects?

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
)

const loopbackGenerator = `
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: loop}
spec:
  cpuPolicy: Shared
  packetMemory: {size: 64Mi, backing: Standard}
  ports:
  - {name: loop, lineRate: 10Gbps, attachment: {loopback: {}}}
`

const loopbackStream = `
apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: small}
spec:
  packet:
    headers:
    - ethernet: {}
    - ipv4: {source: 198.18.0.1, destination: 198.19.0.1}
    - udp: {sourcePort: 1000, destinationPort: 2000}
    size: 128
  transmit: {continuous: {rate: 1kpps}}
  measure: {flow: true}
`

// loopbackProfile sends `small` on port loop; spec holds further fields, one a line, indented by two.
func loopbackProfile(name, spec string) string {
	return fmt.Sprintf(`
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: %s}
spec:
  generatorRef: {name: loop}
  traffic:
  - {name: small, stream: {ref: {name: small}}, transmitPort: loop, receivePort: loop}
%s`, name, spec)
}

// namespace makes one for a test and deletes it with all in it afterwards.
func namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := cluster.kube.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			explain(t, ns.Name)
		}
		if err := cluster.kube.Delete(context.Background(), ns); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	return ns.Name
}

func mustApply(t *testing.T, ns, manifest string) {
	t.Helper()
	if err := apply(t.Context(), ns, manifest); err != nil {
		t.Fatalf("%v\n%s", err, manifest)
	}
}

// explain prints what a user would look at after a failure.
func explain(t *testing.T, ns string) {
	ctx := context.Background()
	for _, list := range []client.ObjectList{&spatev1.TrafficGeneratorList{}, &spatev1.TrafficProfileList{}, &spatev1.TrafficRunList{}, &spatev1.TrafficSearchList{}} {
		if err := cluster.kube.List(ctx, list, client.InNamespace(ns)); err != nil {
			continue
		}
		items, _ := meta.ExtractList(list)
		for _, item := range items {
			object := item.(client.Object)
			object.SetManagedFields(nil)
			text, _ := yaml.Marshal(object)
			t.Logf("%T\n%s", item, text)
		}
	}
	var pods corev1.PodList
	_ = cluster.kube.List(ctx, &pods, client.InNamespace(ns))
	for _, p := range pods.Items {
		t.Logf("pod %s %s: %s", p.Name, p.Status.Phase, cluster.kubelet.logOf(p.UID))
	}
	t.Log("operator:\n" + cluster.operator.log.lines(60))
}

// until polls until a condition holds; on timeout it fails with what was seen last.
func until(t *testing.T, limit time.Duration, what string, holds func() (bool, string)) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		ok, seen := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s; last seen: %s", what, limit, seen)
		}
	}
}

func generatorNamed(ns, name string) *spatev1.TrafficGenerator {
	return &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
}

func profileNamed(ns, name string) *spatev1.TrafficProfile {
	return &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
}

func get(object client.Object) error {
	return cluster.kube.Get(context.Background(), client.ObjectKeyFromObject(object), object)
}

func conditionsOf(object client.Object) []metav1.Condition {
	switch o := object.(type) {
	case *spatev1.TrafficGenerator:
		return o.Status.Conditions
	case *spatev1.TrafficProfile:
		return o.Status.Conditions
	case *spatev1.TrafficRun:
		return o.Status.Conditions
	case *spatev1.TrafficSearch:
		return o.Status.Conditions
	case *spatev1.StatelessStream:
		return o.Status.Conditions
	case *spatev1.ASTFTemplate:
		return o.Status.Conditions
	case *spatev1.TrafficCapture:
		return o.Status.Conditions
	case *spatev1.TrafficPing:
		return o.Status.Conditions
	}
	return nil
}

// expect waits for a condition of the current generation with this status and reason, whose message has the words.
func expect(t *testing.T, limit time.Duration, object client.Object, kind string, status metav1.ConditionStatus, reason string, words ...string) {
	t.Helper()
	until(t, limit, fmt.Sprintf("%s %s=%s %s %q", object.GetName(), kind, status, reason, words), func() (bool, string) {
		if err := get(object); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(conditionsOf(object), kind)
		if c == nil {
			return false, "no such condition"
		}
		ok := c.Status == status && c.ObservedGeneration == object.GetGeneration() && (reason == "" || c.Reason == reason)
		for _, w := range words {
			ok = ok && strings.Contains(c.Message, w)
		}
		return ok, fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	})
}

// complete waits for the end of the run of what the profile asks for now, and returns it.
func complete(t *testing.T, limit time.Duration, p *spatev1.TrafficProfile) *spatev1.TrafficRun {
	t.Helper()
	expect(t, limit, p, spatev1.ConditionComplete, metav1.ConditionTrue, "")
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Status.CurrentRun.Name}}
	if err := get(r); err != nil {
		t.Fatal(err)
	}
	return r
}

func phase(t *testing.T, limit time.Duration, p *spatev1.TrafficProfile, want spatev1.ProfilePhase) {
	t.Helper()
	until(t, limit, fmt.Sprintf("%s is %s", p.Name, want), func() (bool, string) {
		if err := get(p); err != nil {
			return false, err.Error()
		}
		return p.Status.Phase == want && p.Status.ObservedGeneration == p.Generation, string(p.Status.Phase) + " " + p.Status.Reason
	})
}

// enginePods of a namespace.
func enginePods(t *testing.T, ns string) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := cluster.kube.List(t.Context(), &pods, client.InNamespace(ns), client.MatchingLabels{engineLabel: "spate-engine"}); err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// podNamed waits for a pod the operator makes.
func podNamed(t *testing.T, ns, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	until(t, 20*time.Second, "pod "+name, func() (bool, string) {
		err := get(pod)
		return err == nil, fmt.Sprint(err)
	})
	return pod
}
