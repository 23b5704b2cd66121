// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: does an operator that watches one namespace need no rights in others, and does it leave them alone?

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

func TestAnOperatorOfOneNamespaceNeedsNoRightsInOthers(t *testing.T) {
	ns, other := ready(t, ""), bareNamespace(t)
	mustApply(t, other, loopbackGenerator)
	expect(t, startLimit, generatorNamed(other, "loop"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonPodsPending)
	t.Cleanup(func() {
		must(t, applyFile(context.Background(), "../../config/rbac/role_binding.yaml"))
		restartOperator(t)
	})
	mustApply(t, "", strings.ReplaceAll(rightsInOne, "WATCHED", ns))
	must(t, cluster.kube.Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "spate-operator"}}))
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
