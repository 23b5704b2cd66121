// SPDX-License-Identifier: Apache-2.0

package test

// Runs that have ended are written into the operator's archive, and reported and compared from there when they are gone. The engines are simulated.

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestAnArchivedRunOutlivesItsObject(t *testing.T) {
	root := filepath.Join(t.TempDir(), "archive")
	must(t, os.WriteFile(root, nil, 0o600)) // where the directory would be: nothing can be written
	restartOperator(t, "--archive-directory="+root, "--archive-keep-runs=5")
	t.Cleanup(func() { restartOperator(t) })
	ns := simulatedReady(t, startSimulatedNode(t), loopbackGenerator)
	mustApply(t, ns, loopbackProfile("kept", lenient+"  duration: 1s\n  drain: 100ms\n  runPolicy: Manual\n"))
	r := create(t, ns, "kept-", "{profileRef: {name: kept}}")
	hasEnded(t, runLimit, r)
	expect(t, answerLimit, r, spatev1.ConditionArchived, metav1.ConditionFalse, spatev1.ReasonArchiveFailed, "not a directory")
	if v := r.Status.Verdict; v.Outcome != spatev1.VerdictPassed {
		t.Errorf("%+v", v)
	}
	must(t, os.Remove(root))
	must(t, os.Mkdir(root, 0o755))
	expect(t, runLimit, r, spatev1.ConditionArchived, metav1.ConditionTrue, spatev1.ReasonArchived, "in "+ns+"/"+r.Name+"-"+string(r.UID))
	must(t, cluster.kube.Delete(t.Context(), r))
	until(t, runLimit, "the run is deleted", func() (bool, string) {
		err := get(r)
		return err != nil && client.IgnoreNotFound(err) == nil, ""
	})
	editor := userOf(t, ns, "spate-editor")
	if done := executedWith(t, ns, editor, "", "report", r.Name, "--from", root, "-o", "csv"); done.code != 0 || !strings.Contains(done.output, "\nsample,") || !strings.Contains(done.output, "\ntotal,") {
		t.Errorf("%+v", done)
	}
	other := create(t, ns, "kept-", "{profileRef: {name: kept}, overrides: {rate: 2x}}")
	hasEnded(t, runLimit, other)
	if done := executedWith(t, ns, editor, "", "compare", r.Name, other.Name, "--from", root, "--fail-on", "tx>0"); done.code != 1 || !strings.Contains(done.output, "First: run "+r.Name+" of profile kept: Passed") {
		t.Errorf("%+v", done)
	}
}
