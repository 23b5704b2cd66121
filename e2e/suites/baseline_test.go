// SPDX-License-Identifier: Apache-2.0

// Does a pipeline learn from one command whether a run is as good as one before it? Thresholds read the result of a baseline.

package suites

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// asBefore is a threshold with room for packets that are not sent where the engine waits for its CPU.
const asBefore = `result.streams["small"].rx >= baseline.streams["small"].rx * 0.7`

func TestARunIsJudgedAgainstABaseline(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	user := &terminal{folder: t.TempDir(), env: []string{"KUBECONFIG=" + userOf(t, ns, "spate-editor"), "PATH=" + filepath.Join(root, "build/out") + ":" + os.Getenv("PATH")}}
	const manual = "  duration: 1s\n  runPolicy: Manual" + behind
	mustApply(t, ns, loopbackGenerator+"---"+loopbackStream+"---"+loopbackProfile("before", manual)+"---"+
		loopbackProfile("after", manual+"  thresholds: [{name: as-before, expression: '"+asBefore+"'}]"))
	condition(t, 45*time.Second, generatorNamed(ns, "loop"), spate.ConditionReady, metav1.ConditionTrue)
	// runs executes a command of the plugin, which makes a run and must end with this exit code, and returns the run, which must have this verdict, and the output.
	seen := map[string]bool{}
	runs := func(profile, args string, code int, outcome spate.VerdictOutcome) (run *spate.TrafficRun, said string) {
		t.Helper()
		said, got := user.types(t, "kubectl spate run "+profile+" --wait --timeout 1m "+args)
		all := runsOf(t.Context(), t, profileNamed(ns, profile))
		for i := range all {
			if !seen[all[i].Name] {
				run, seen[all[i].Name] = &all[i], true
			}
		}
		if run == nil || run.Status.Verdict == nil || got != code || run.Status.Verdict.Outcome != outcome {
			t.Fatalf("it exits with %d, not %d, or has no run that is %s:\n%s", got, code, outcome, said)
		}
		return run, said
	}

	before, _ := runs("before", "", 0, spate.VerdictPassed)
	like, said := runs("after", "--baseline "+before.Name, 0, spate.VerdictPassed)
	if b := like.Status.Resolved.Baseline; b == nil || b.UID != before.UID || !strings.Contains(said, "Baseline: run "+before.Name+" of profile before, which ended at ") {
		t.Errorf("%+v\n%s", b, said)
	}
	// A profile stands for its latest run.
	slower, said := runs("after", "--baseline before --set rate=0.5x", 1, spate.VerdictFailed)
	want := fmt.Sprintf(`does not hold: result.streams["small"].rx is %d, baseline.streams["small"].rx is %d`, slower.Status.Result.Streams["small"].Rx, before.Status.Result.Streams["small"].Rx)
	if m := slower.Status.Verdict.Thresholds[0]; m.Met || !strings.HasSuffix(m.Message, want) || !strings.Contains(said, want) {
		t.Errorf("the threshold: %+v, want %s\n%s", m, want, said)
	}
}
