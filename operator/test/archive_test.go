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
	"spate.dev/operator/internal/archive/s3test"
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
	comparedWithoutACluster(t, r, other, root)
}

// comparedWithoutACluster fails unless two archived runs are compared where no cluster is known.
func comparedWithoutACluster(t *testing.T, first, second *spatev1.TrafficRun, place string) {
	t.Helper()
	expect(t, runLimit, second, spatev1.ConditionArchived, metav1.ConditionTrue, spatev1.ReasonArchived, "in ")
	if done := executedWith(t, first.Namespace, os.DevNull, "", "compare", first.Name, second.Name, "--from", place, "--other-from", place); done.code != 0 || !strings.Contains(done.output, "Second: run "+second.Name+" of profile kept: Passed") {
		t.Errorf("%+v", done)
	}
}

// The server is away when the run ends.
func TestARunArchivedInABucketOutlivesItsObject(t *testing.T) {
	server := s3test.Start(t)
	s3test.Setenv(t, s3test.AccessKey, s3test.SecretKey)
	server.Stop(t)
	const place = "s3://" + s3test.Bucket + "/spate"
	restartOperator(t, "--archive-bucket="+place, "--archive-endpoint="+server.Endpoint, "--archive-keep-runs=5")
	t.Cleanup(func() { restartOperator(t) })
	ns := simulatedReady(t, startSimulatedNode(t), loopbackGenerator)
	mustApply(t, ns, loopbackProfile("kept", lenient+"  duration: 1s\n  drain: 100ms\n  runPolicy: Manual\n"))
	r := create(t, ns, "kept-", "{profileRef: {name: kept}}")
	hasEnded(t, runLimit, r)
	expect(t, answerLimit, r, spatev1.ConditionArchived, metav1.ConditionFalse, spatev1.ReasonArchiveFailed, "bucket results at "+server.Endpoint+": the server cannot be reached: connect: connection refused")
	other := create(t, ns, "kept-", "{profileRef: {name: kept}, overrides: {rate: 2x}}")
	hasEnded(t, runLimit, other) // the archive keeps nothing up
	if v := other.Status.Verdict; v.Outcome != spatev1.VerdictPassed {
		t.Errorf("%+v", v)
	}
	server.Restart(t)
	folder := ns + "/" + r.Name + "-" + string(r.UID)
	expect(t, runLimit, r, spatev1.ConditionArchived, metav1.ConditionTrue, spatev1.ReasonArchived, "in "+folder)
	must(t, cluster.kube.Delete(t.Context(), r))
	until(t, runLimit, "the run is deleted", func() (bool, string) {
		err := get(r)
		return err != nil && client.IgnoreNotFound(err) == nil, ""
	})
	editor := userOf(t, ns, "spate-editor")
	report := func(code int, args ...string) executed {
		done := executedWith(t, ns, editor, "", append([]string{"report", "-o", "csv"}, args...)...)
		if done.code != code {
			t.Errorf("%+v", done)
		}
		return done
	}
	named := report(0, r.Name, "--from", place, "--endpoint", server.Endpoint).output
	t.Setenv("AWS_ENDPOINT_URL", server.Endpoint)
	if !strings.Contains(named, "\nsample,") || named != report(0, "--from", place+"/"+folder).output || named != report(0, r.Name, "--from", server.File("spate")).output {
		t.Errorf("%s", named)
	}
	if done := executedWith(t, ns, editor, "", "compare", r.Name, other.Name, "--from", place, "--fail-on", "tx>0"); done.code != 1 || !strings.Contains(done.output, "First: run "+r.Name+" of profile kept: Passed") {
		t.Errorf("%+v", done)
	}
	comparedWithoutACluster(t, r, other, place)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "other")
	const denied = "--from " + place + ": bucket results at "
	if done := report(1, r.Name, "--from", place); !strings.Contains(done.said, denied) || !strings.Contains(done.said, "access denied: the secret key is not that of the access key") {
		t.Errorf("%+v", done)
	}
	if done := executedWith(t, ns, editor, "", "compare", r.Name, other.Name, "--from", place); done.code != 3 || !strings.Contains(done.said, denied) {
		t.Errorf("%+v", done)
	}
	if log := cluster.operator.log.lines(1 << 20); strings.Contains(log, s3test.SecretKey) || strings.Contains(log, s3test.AccessKey) {
		t.Error("the operator's log has credentials")
	}
}
