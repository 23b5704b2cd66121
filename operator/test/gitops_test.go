// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: does the operator get along with tools that apply manifests from a Git repository, in any order, again and again, beside
// others? The engines are simulated. What belongs to it is shown elsewhere, too: the same manifest applied again sends nothing
// (TestTheSameProfileAppliedAgainSendsNothing), a missing reference is awaited (TestAMissingReferenceIsPickedUpWhenItComes), names that are
// taken are reported (TestANameThatIsTakenIsReported).

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
)

// applyAs applies an object server-side as a field manager, who takes no field from another.
func applyAs(t *testing.T, manager, ns, manifest string) error {
	t.Helper()
	object := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(manifest), &object.Object))
	object.SetNamespace(ns)
	return cluster.kube.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(manager))
}

// The manager gitops applies the profile; an autoscaler sets its rate and the generator's replicas, and neither is in the manifests.
func TestTwoFieldManagersShareAProfileAndAGenerator(t *testing.T) {
	t.Parallel()
	node := startSimulatedNode(t)
	ns := simulatedNamespace(t, node)
	profile := loopbackProfile("shared", "  duration: 1h\n  drain: 100ms")
	for _, manifest := range []string{loopbackGenerator, loopbackStream, profile} {
		must(t, applyAs(t, "gitops", ns, manifest))
	}
	p, g := profileNamed(ns, "shared"), generatorNamed(ns, "loop")
	phase(t, readyLimit, p, spatev1.ProfileRunning)
	run := p.Status.CurrentRun.UID
	rate := func(value string) string {
		return "apiVersion: spate.dev/v1alpha1\nkind: TrafficProfile\nmetadata: {name: shared}\nspec: {rate: " + value + "}\n"
	}
	for i := range 3 {
		must(t, applyAs(t, "autoscaler", ns, rate(fmt.Sprintf("%dx", i+2))))
		must(t, applyAs(t, "gitops", ns, profile))
		must(t, applyAs(t, "gitops", ns, loopbackGenerator))
	}
	scaleTo(t, ns, 2)
	must(t, applyAs(t, "gitops", ns, loopbackGenerator))
	expect(t, answerLimit, g, spatev1.ConditionReconciling, metav1.ConditionTrue, spatev1.ReasonReplicasPending)
	scaleTo(t, ns, 1)
	must(t, applyAs(t, "gitops", ns, loopbackGenerator))
	expect(t, answerLimit, g, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: p.Status.CurrentRun.Name}}
	until(t, answerLimit, "the run has the autoscaler's rate", func() (bool, string) { must(t, get(r)); return r.Status.RateFactor == "4", r.Status.RateFactor })
	if all := runsIn(t, ns); len(all) != 1 || all[0].UID != run || all[0].Status.Phase != spatev1.RunRunning {
		t.Errorf("%d runs", len(all))
	}
	if must(t, get(p)); p.Spec.Rate != "4x" || p.Spec.Duration != "1h" {
		t.Errorf("%+v", p.Spec.TrafficDefinition)
	}
	// The API server reports who has a field that both set.
	err := applyAs(t, "gitops", ns, strings.Replace(profile, "spec:\n", "spec:\n  rate: 9x\n", 1))
	if err == nil || !strings.Contains(err.Error(), `conflict with "autoscaler": .spec.rate`) {
		t.Errorf("%v", err)
	}
	// The operator has no field of a spec: it would be a conflict for their applier.
	for _, object := range []client.Object{p, g} {
		must(t, get(object))
		for _, managed := range object.GetManagedFields() {
			if managed.Manager != "gitops" && managed.Manager != "autoscaler" && managed.Subresource == "" && strings.Contains(managed.FieldsV1.GetRawString(), `"f:spec"`) {
				t.Errorf("%s has fields of the spec of %s: %s", managed.Manager, object.GetName(), managed.FieldsV1.GetRawString())
			}
		}
	}
}

// Everything that a generator owns is as specified again after it was changed or deleted.
func TestDriftOfWhatAGeneratorOwnsIsCorrected(t *testing.T) {
	t.Parallel()
	node := startSimulatedNode(t)
	ns := simulatedReady(t, node, loopbackGenerator)
	at := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }
	policy := func() client.Object { return &networkingv1.NetworkPolicy{ObjectMeta: at(podspec.PolicyName("loop"))} }
	secret := func() client.Object { return &corev1.Secret{ObjectMeta: at(podspec.TLSSecretName("loop"))} }
	pod := func() client.Object { return &corev1.Pod{ObjectMeta: at("loop-0")} }
	monitor := func() client.Object {
		m := &unstructured.Unstructured{}
		m.SetGroupVersionKind(podspec.PodMonitorKind)
		m.SetNamespace(ns)
		m.SetName(podspec.PolicyName("loop"))
		return m
	}
	const unlabeled = `{"metadata":{"labels":{"` + podspec.LabelManagedBy + `":null,"` + podspec.LabelGenerator + `":null}}}`
	for _, c := range []struct {
		name   string
		object func() client.Object
		patch  string // empty: the object is deleted
		new    bool   // replaced by another
		limit  time.Duration
	}{
		{"an edited NetworkPolicy", policy, `{"spec":{"ingress":[{}]}}`, false, answerLimit},
		{"a NetworkPolicy without its labels", policy, unlabeled, false, answerLimit},
		{"an edited NetworkPolicy without its labels", policy, `{"metadata":{"labels":{"` + podspec.LabelManagedBy + `":"somebody"}},"spec":{"ingress":[{}]}}`, false, answerLimit},
		{"a deleted NetworkPolicy", policy, "", true, answerLimit},
		{"a Secret with another certificate", secret, `{"data":{"tls.crt":"AAAA"}}`, false, answerLimit},
		{"a Secret without its labels", secret, unlabeled, false, answerLimit},
		{"a deleted Secret", secret, "", true, answerLimit},
		{"a pod of another template", pod, `{"metadata":{"labels":{"` + podspec.LabelTemplate + `":"other"}}}`, true, 4 * answerLimit},
		{"a pod without its labels", pod, unlabeled, true, 4 * answerLimit},
		{"a deleted pod", pod, "", true, 4 * answerLimit},
		{"an edited PodMonitor", monitor, `{"spec":{"podMetricsEndpoints":[]}}`, false, 90 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, now := c.object(), c.object()
			must(t, get(before))
			if c.patch == "" {
				must(t, cluster.kube.Delete(t.Context(), c.object()))
			} else {
				must(t, cluster.kube.Patch(t.Context(), c.object(), client.RawPatch(types.MergePatchType, []byte(c.patch))))
			}
			until(t, c.limit, "it is as it was", func() (bool, string) {
				if err := get(now); err != nil {
					return false, err.Error()
				}
				return (now.GetUID() != before.GetUID()) == c.new && now.GetDeletionTimestamp() == nil && sameAs(before, now), fmt.Sprintf("%+v", now)
			})
		})
	}
	expect(t, 2*answerLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
	mustApply(t, ns, loopbackProfile("after", "  duration: 500ms\n  drain: 100ms"))
	if r := complete(t, runLimit, profileNamed(ns, "after")); r.Status.Verdict.Outcome != spatev1.VerdictPassed {
		t.Errorf("%+v", r.Status.Verdict)
	}
}

// sameAs compares what the operator specifies: labels and content.
func sameAs(before, now client.Object) bool {
	if !equality.Semantic.DeepEqual(before.GetLabels(), now.GetLabels()) {
		return false
	}
	switch object := now.(type) {
	case *networkingv1.NetworkPolicy:
		return equality.Semantic.DeepEqual(before.(*networkingv1.NetworkPolicy).Spec, object.Spec)
	case *corev1.Secret:
		return len(object.Data) == 3 && len(object.Data["tls.crt"]) > 100 && len(object.Data["tls.key"]) > 100 && len(object.Data["ca.crt"]) > 100
	case *unstructured.Unstructured:
		return equality.Semantic.DeepEqual(before.(*unstructured.Unstructured).Object["spec"], object.Object["spec"])
	}
	return true
}

// permutations of the numbers below n.
func permutations(n int) (all [][]int) {
	if n == 0 {
		return [][]int{nil}
	}
	for _, shorter := range permutations(n - 1) {
		for at := range n {
			all = append(all, append(append(append([]int{}, shorter[:at]...), n-1), shorter[at:]...))
		}
	}
	return all
}

// thousandPackets is a profile of 1,000 packets.
const thousandPackets = "  duration: 1s\n  drain: 100ms\n  thresholds: [{name: all, expression: result.tx == 1000}]"

func TestObjectsAreAppliedAndDeletedInAnyOrder(t *testing.T) {
	node := startSimulatedNode(t)
	manifests := []string{loopbackGenerator, loopbackStream, loopbackTemplate, loopbackProfile("any", thousandPackets)}
	objects := func(ns string) []client.Object {
		return []client.Object{
			generatorNamed(ns, "loop"), &spatev1.StatelessStream{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "small"}},
			&spatev1.ASTFTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "greeting"}}, profileNamed(ns, "any"),
		}
	}
	orders := permutations(len(manifests))
	spaces := make([]string, len(orders))
	for i, order := range orders {
		spaces[i] = simulatedNamespace(t, node)
		for _, at := range order {
			mustApply(t, spaces[i], manifests[at])
		}
	}
	for i, order := range orders {
		ns := spaces[i]
		for _, object := range objects(ns) {
			expect(t, 2*readyLimit, object, spatev1.ConditionReady, metav1.ConditionTrue, "")
		}
		r := complete(t, runLimit, profileNamed(ns, "any"))
		if r.Status.Verdict.Outcome != spatev1.VerdictPassed || r.Status.Result.Tx != 1000 {
			t.Errorf("applied in the order %v: %+v", order, r.Status.Verdict)
		}
	}
	time.Sleep(2 * time.Second) // another run would have been made
	for i, order := range orders {
		if all := runsIn(t, spaces[i]); len(all) != 1 {
			t.Errorf("applied in the order %v: %d runs", order, len(all))
		}
	}
	// Half of them are deleted while they send.
	for i := range orders {
		if i%2 == 0 {
			mustApply(t, spaces[i], loopbackProfile("any", "  duration: 1h\n  drain: 100ms"))
		}
	}
	for i := range orders {
		if i%2 == 0 {
			phase(t, runLimit, profileNamed(spaces[i], "any"), spatev1.ProfileRunning)
		}
	}
	for i, order := range orders {
		for _, at := range order {
			must(t, cluster.kube.Delete(t.Context(), objects(spaces[i])[at]))
		}
	}
	for i, order := range orders {
		until(t, readyLimit, fmt.Sprintf("deleted in the order %v: nothing is left", order), func() (bool, string) {
			left := leftIn(t, spaces[i])
			return len(left) == 0, strings.Join(left, ", ")
		})
	}
}

// leftIn a namespace are the objects of the operator and those that it makes.
func leftIn(t *testing.T, ns string) (left []string) {
	t.Helper()
	for _, list := range []client.ObjectList{
		&spatev1.TrafficProfileList{}, &spatev1.TrafficRunList{}, &spatev1.TrafficGeneratorList{}, &spatev1.StatelessStreamList{}, &spatev1.ASTFTemplateList{},
		&corev1.PodList{}, &corev1.SecretList{}, &networkingv1.NetworkPolicyList{}, &corev1.ConfigMapList{},
	} {
		must(t, cluster.kube.List(t.Context(), list, client.InNamespace(ns)))
		items, err := extract(list)
		must(t, err)
		for _, object := range items {
			if object.GetName() != "kube-root-ca.crt" {
				left = append(left, fmt.Sprintf("%T %s %v", object, object.GetName(), object.GetFinalizers()))
			}
		}
	}
	return left
}

func extract(list client.ObjectList) (all []client.Object, err error) {
	err = meta.EachListItem(list, func(item runtime.Object) error {
		all = append(all, item.(client.Object))
		return nil
	})
	return all, err
}
