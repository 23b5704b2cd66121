// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: does an operator of some namespaces need no rights in others, does it leave those alone, and does it go on when it must not read one
// of its own?

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// rightsInOne binds the rules of the operator's ClusterRole in one namespace, and gives it its authority, as the chart does (watchNamespaces).
const rightsInOne = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: spate-operator-watched, namespace: WATCHED}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: spate-operator}
subjects: [{kind: ServiceAccount, name: spate-operator, namespace: spate-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: spate-operator-authority, namespace: spate-system}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [create, get, list, update, watch]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: spate-operator-authority, namespace: spate-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: spate-operator-authority}
subjects: [{kind: ServiceAccount, name: spate-operator, namespace: spate-system}]
`

// lookLimit is longer than two looks of the operator at its namespaces.
const lookLimit = 45 * time.Second

// rightsInPart let the operator read some kinds of a namespace.
const rightsInPart = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: spate-operator-part}
rules:
- {apiGroups: [spate.dev], resources: [KINDS], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: spate-operator-part}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: spate-operator-part}
subjects: [{kind: ServiceAccount, name: spate-operator, namespace: spate-system}]
`

// restrictRights gives the operator its rights in these namespaces alone until the test ends.
func restrictRights(t *testing.T, namespaces ...string) {
	t.Helper()
	t.Cleanup(func() {
		must(t, applyFile(context.Background(), "../../config/rbac/role_binding.yaml"))
		restartOperator(t)
	})
	for _, ns := range namespaces {
		mustApply(t, "", strings.ReplaceAll(rightsInOne, "WATCHED", ns))
	}
	must(t, cluster.kube.Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "spate-operator"}}))
}

func unreadableNamespaces() (int, string) {
	n := int(cluster.operator.metric("spate_operator_unreadable_namespaces"))
	return n, fmt.Sprintf("%d namespaces cannot be read", n)
}

func takeRights(t *testing.T, namespace, binding string) {
	t.Helper()
	must(t, cluster.kube.Delete(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: binding}}))
}

// controllers of an operator without an archive and exports.
const controllers = 10

// awaitControllers waits until the operator reconciles. It leads before: each controller then waits for the objects of all watched namespaces.
func awaitControllers(t *testing.T) {
	t.Helper()
	until(t, startLimit, fmt.Sprintf("%d controllers work", controllers), func() (bool, string) {
		n := strings.Count(cluster.operator.log.lines(10_000), "Starting workers")
		return n == controllers, fmt.Sprintf("%d work", n)
	})
}

func TestAnOperatorOfOneNamespaceNeedsNoRightsInOthers(t *testing.T) {
	ns, other := ready(t, ""), bareNamespace(t)
	mustApply(t, other, loopbackGenerator)
	expect(t, startLimit, generatorNamed(other, "loop"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonPodsPending)
	restrictRights(t, ns)
	restartOperator(t, "--watch-namespaces="+ns)

	mustApply(t, other, loopbackStream+"---"+loopbackProfile("there", ""))
	mustApply(t, ns, strings.ReplaceAll(loopbackProfile("across", ""), "{name: loop}", "{name: loop, namespace: "+other+"}"))
	mustApply(t, ns, loopbackProfile("here", lenient+"  duration: 1s"))
	if run := complete(t, runLimit, profileNamed(ns, "here")); run.Status.Result == nil || run.Status.Result.Tx == 0 {
		t.Errorf("%+v", run.Status.Result)
	}
	expect(t, answerLimit, profileNamed(ns, "across"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonReferenceNotFound, "loop")
	there := profileNamed(other, "there")
	must(t, get(there))
	if len(there.Status.Conditions) > 0 || len(there.Finalizers) > 0 {
		t.Errorf("a profile of another namespace has finalizers %q and conditions %+v", there.Finalizers, there.Status.Conditions)
	}
}

func TestAnOperatorGoesOnWithoutANamespaceThatDoesNotExistAndEndsWhenItDoes(t *testing.T) {
	ns := ready(t, "")
	later := ns + "-later"
	restrictRights(t, ns)
	watching := "--watch-namespaces=" + later + "," + ns
	restartOperator(t, watching)
	if log := cluster.operator.log.lines(1000); !strings.Contains(log, "a watched namespace cannot be read") || !strings.Contains(log, later) {
		t.Errorf("it does not log that it cannot read %s:\n%s", later, log)
	}
	if n, seen := unreadableNamespaces(); n != 1 {
		t.Error(seen)
	}
	mustApply(t, ns, loopbackProfile("here", lenient+"  duration: 1s"))
	if run := complete(t, runLimit, profileNamed(ns, "here")); run.Status.Result == nil || run.Status.Result.Tx == 0 {
		t.Errorf("%+v", run.Status.Result)
	}

	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: later}}
	must(t, cluster.kube.Create(t.Context(), created))
	t.Cleanup(func() { must(t, client.IgnoreNotFound(cluster.kube.Delete(context.Background(), created))) })
	cluster.kubelet.leave(later)
	mustApply(t, "", strings.ReplaceAll(rightsInOne, "WATCHED", later))
	select {
	case <-cluster.operator.done:
	case <-time.After(lookLimit):
		t.Fatalf("it has not ended:\n%s", cluster.operator.log.lines(20))
	}
	if log := cluster.operator.log.lines(20); !strings.Contains(log, "namespace "+later+" can be read now") {
		t.Errorf("it does not log why it ended:\n%s", log)
	}
	restartOperator(t, watching) // as Kubernetes does
	if n, seen := unreadableNamespaces(); n != 0 {
		t.Error(seen)
	}
	mustApply(t, later, loopbackGenerator)
	expect(t, startLimit, generatorNamed(later, "loop"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonPodsPending)
}

func TestARoleThatIsMissingForATimeHoldsUpNoOtherNamespace(t *testing.T) {
	ns, other := ready(t, ""), bareNamespace(t)
	mustApply(t, other, loopbackGenerator)
	restrictRights(t, ns, other)
	restartOperator(t, "--watch-namespaces="+other+","+ns)
	awaitControllers(t)
	takeRights(t, other, "spate-operator-watched")
	must(t, cluster.api.set(linkRefused)) // all watches end, and those of the other namespace are refused then
	must(t, cluster.api.set(linkOpen))
	until(t, lookLimit, "it reports the namespace", func() (bool, string) {
		n, seen := unreadableNamespaces()
		return n == 1, seen
	})
	mustApply(t, ns, loopbackProfile("here", lenient+"  duration: 1s"))
	if run := complete(t, runLimit, profileNamed(ns, "here")); run.Status.Result == nil || run.Status.Result.Tx == 0 {
		t.Errorf("%+v", run.Status.Result)
	}

	mustApply(t, "", strings.ReplaceAll(rightsInOne, "WATCHED", other))
	mustApply(t, other, loopbackGenerator+"  suspend: true\n")
	// The pause between attempts to watch is up to a minute.
	expect(t, 2*lookLimit, generatorNamed(other, "loop"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonSuspended)
	select {
	case <-cluster.operator.done:
		t.Errorf("it was ended:\n%s", cluster.operator.log.lines(20))
	default:
	}
}

func TestARoleThatIsLostWhileTheOperatorStartsHoldsUpNoOtherNamespace(t *testing.T) {
	ns, other := ready(t, ""), bareNamespace(t)
	restrictRights(t, ns)
	watching := "--watch-namespaces=" + other + "," + ns
	for _, step := range []string{
		"Serving metrics server",             // it does not lead, since it lacks runs and profiles, which it reads next
		"Attempting to acquire leader lease", // it leads, and its controllers wait for objects of other kinds, which they read next
	} {
		mustApply(t, "", strings.ReplaceAll(rightsInOne, "WATCHED", other))
		cluster.operator.stop()
		must(t, cluster.api.set(linkSlow)) // so that the Role is gone before the next answer
		t.Cleanup(func() { must(t, cluster.api.set(linkOpen)) })
		o, err := launchOperator(watching)
		must(t, err)
		cluster.operator = o
		until(t, startLimit, step, func() (bool, string) {
			log := o.log.lines(1000)
			return strings.Contains(log, step), log
		})
		if n, seen := unreadableNamespaces(); n != 0 {
			t.Fatal(seen)
		}
		takeRights(t, other, "spate-operator-watched")
		must(t, cluster.api.set(linkOpen))
		select {
		case <-o.done:
		case <-time.After(lookLimit):
			t.Fatalf("it has not ended:\n%s", o.log.lines(20))
		}
		if log := o.log.lines(20); !strings.Contains(log, "namespace "+other+" cannot be read any more") {
			t.Errorf("it does not log why it ended:\n%s", log)
		}
	}
	restartOperator(t, watching) // as Kubernetes does
	mustApply(t, ns, loopbackProfile("here", lenient+"  duration: 1s"))
	if run := complete(t, runLimit, profileNamed(ns, "here")); run.Status.Result == nil || run.Status.Result.Tx == 0 {
		t.Errorf("%+v", run.Status.Result)
	}
}

func TestARoleThatLacksKindsHoldsUpNoOtherNamespace(t *testing.T) {
	ns, other := ready(t, ""), bareNamespace(t)
	restrictRights(t, ns)
	mustApply(t, other, strings.ReplaceAll(rightsInPart, "KINDS", "trafficruns, trafficprofiles"))
	restartOperator(t, "--watch-namespaces="+other+","+ns)
	if n, seen := unreadableNamespaces(); n != 1 {
		t.Error(seen)
	}
	if log := cluster.operator.log.lines(1000); !strings.Contains(log, "a watched namespace cannot be read") || !strings.Contains(log, "trafficgenerators.spate.dev is forbidden") {
		t.Errorf("it does not log which kind it cannot read in %s:\n%s", other, log)
	}
	mustApply(t, ns, loopbackProfile("here", lenient+"  duration: 1s"))
	if run := complete(t, runLimit, profileNamed(ns, "here")); run.Status.Result == nil || run.Status.Result.Tx == 0 {
		t.Errorf("%+v", run.Status.Result)
	}
}

func TestARunThatIsGoneIsStoppedAlthoughAWatchedNamespaceDoesNotExist(t *testing.T) {
	ns, p := running(t, "torn", "  suspend: false")
	first := p.Status.CurrentRun.Name
	ip := enginePods(t, ns)[0].Status.PodIP
	tear(t, p)
	mustApply(t, ns, loopbackGenerator+"  allowedNamespaces: {from: All}\n")
	restrictRights(t, ns)
	restartOperator(t, "--watch-namespaces="+ns+"-missing,"+ns)
	// The run may be one of that namespace.
	expect(t, answerLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonOrphanedRun, "cannot read", ns+"-missing")
	if still, seen := stands(ip, first); still {
		t.Fatalf("the engine was stopped: %s", seen)
	}
	mustApply(t, ns, loopbackGenerator) // for its own namespace alone
	until(t, 15*time.Second, "the traffic has stopped", func() (bool, string) { return stands(ip, first) })
	until(t, answerLimit, "an event reports the orphan", func() (bool, string) { return hasEvent(t, ns, spatev1.ReasonOrphanedRun, "no longer exists: stopped") })
}
