// SPDX-License-Identifier: Apache-2.0

// Runs that pipelines create, with the commands of docs/concepts.md, and runs that a schedule starts.

package suites

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// createRun creates a run with kubectl, as a user with the role spate-editor only, and returns its name.
func createRun(t *testing.T, kubeconfig, spec string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "kubectl", "create", "--kubeconfig", kubeconfig, "--output=jsonpath={.metadata.name}", "--filename=-")
	cmd.Stdin = strings.NewReader("apiVersion: spate.dev/v1alpha1\nkind: TrafficRun\nmetadata: {generateName: manual-}\nspec:\n" + spec)
	var said strings.Builder
	cmd.Stderr = &said
	name, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl create: %v: %s", err, said.String())
	}
	return string(name)
}

func TestAPipelineCreatesRunsOfAProfile(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	editor := userOf(t, ns, "spate-editor")
	mustApply(t, ns, loopbackGenerator+"---"+loopbackStream+"---"+loopbackProfile("manual", "  runPolicy: Manual\n  duration: 10m"))
	condition(t, 45*time.Second, generatorNamed(ns, "loop"), spate.ConditionReady, metav1.ConditionTrue)
	p := profileNamed(ns, "manual")
	condition(t, answerLimit, p, spate.ConditionReady, metav1.ConditionTrue)
	wait := func(name, condition string) {
		t.Helper()
		kubectl(t, "wait", "tr/"+name, "-n", ns, "--for=condition="+condition, "--timeout=60s")
	}

	t.Run("passed", func(t *testing.T) {
		name := createRun(t, editor, "  profileRef: {name: manual}\n  overrides:\n    duration: 1s\n    rate: 2x\n    thresholds: [{name: no-loss, expression: result.lost == 0}]\n")
		wait(name, "Complete")
		wait(name, "Passed=true")
		run := &spate.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		if err := get(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		if s := streamOf(t, run, "small"); s.Tx+s.TxDropped != 2000 || s.Rx != s.Tx || s.Lost != 0 {
			t.Errorf("%+v", s.StreamCounters)
		}
	})
	t.Run("failed", func(t *testing.T) {
		name := createRun(t, editor, "  profileRef: {name: manual}\n  overrides:\n    duration: 1s\n    thresholds: [{name: none-sent, expression: result.tx == 0}]\n")
		wait(name, "Complete")
		wait(name, "Passed=false")
		wait(name, "Valid=true")
	})
	t.Run("not valid", func(t *testing.T) {
		name := createRun(t, editor, "  profileRef: {name: manual}\n")
		wait(name, "Running")
		kubectl(t, "patch", "tr/"+name, "-n", ns, "--type=merge", `--patch={"spec":{"stop":true}}`)
		wait(name, "Complete")
		wait(name, "Passed=unknown")
		wait(name, "Valid=false")
	})
	t.Run("described in the run itself", func(t *testing.T) {
		name := createRun(t, editor, `  profile:
    generatorRef: {name: loop}
    traffic: [{name: small, transmitPort: loop, receivePort: loop, stream: {ref: {name: small}}}]
    duration: 1s
    generatorTolerance: {late: 100%, txDropped: 25%}
    thresholds: [{name: sent, expression: result.tx + result.txDropped == 1000 && result.lost == 0}]
`)
		wait(name, "Complete")
		wait(name, "Passed")
	})
	t.Run("paused and resumed", func(t *testing.T) {
		name := createRun(t, editor, "  profileRef: {name: manual}\n  overrides: {duration: 12s}\n")
		wait(name, "Running")
		run := &spate.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		for _, paused := range []bool{true, false} {
			kubectl(t, "patch", "tr/"+name, "-n", ns, "--type=merge", fmt.Sprintf(`--patch={"spec":{"paused":%t}}`, paused))
			until(t, answerLimit, fmt.Sprintf("paused is %t", paused), func(ctx context.Context) (bool, string) {
				err := get(ctx, run)
				return err == nil && run.Status.Paused == paused, fmt.Sprint(err, run.Status.Paused)
			})
			time.Sleep(2 * time.Second)
		}
		wait(name, "Complete")
		if err := get(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		if r := run.Status.Result; r.Tx < 5000 || r.Tx > 11_000 || r.Lost != 0 {
			t.Errorf("tx %d, lost %d; want 12 s at 1 kpps without a pause of about 2 s, and no loss", r.Tx, r.Lost)
		}
	})
	t.Run("changed with the plugin", func(t *testing.T) {
		name := createRun(t, editor, "  profileRef: {name: manual}\n")
		wait(name, "Running")
		run := &spate.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		plugin := func(args ...string) (string, error) {
			return script("build/out/kubectl-spate", append(args, "--kubeconfig", editor)...)
		}
		change := func(said string, holds func() bool, args ...string) {
			t.Helper()
			if out, err := plugin(args...); err != nil || out != "run "+name+said {
				t.Errorf("%s: %q, %v", args, out, err)
			}
			until(t, answerLimit, strings.Join(args, " "), func(ctx context.Context) (bool, string) {
				err := get(ctx, run)
				return err == nil && holds(), fmt.Sprintf("%v, factor %s, paused %t, phase %s", err, run.Status.RateFactor, run.Status.Paused, run.Status.Phase)
			})
		}
		factor := func(want string) func() bool { return func() bool { return run.Status.RateFactor == want } }
		change(": rate set to 2x", factor("2"), "rate", name, "2x")
		change(": rate set to 3x", factor("3"), "rate", "manual", "+50%") // the latest run of the profile
		change(": rate set to 2x", factor("2"), "rate", name, "-1kpps")
		change(" is paused", func() bool { return run.Status.Paused }, "pause", name)
		change(" is resumed", func() bool { return !run.Status.Paused }, "resume", name)
		change(" is being stopped", func() bool { return run.Status.Phase == spate.RunComplete }, "stop", name)
		wait(name, "Valid=false")
		if out, err := plugin("pause", name); err == nil || !strings.Contains(err.Error(), "run "+name+" has ended") {
			t.Errorf("pause of a run that has ended: %q, %v", out, err)
		}
	})
	if err := get(t.Context(), p); err != nil || p.Status.LastTrigger != nil {
		t.Errorf("the profile started runs by itself: %+v, %v", p.Status.LastTrigger, err)
	}
}

func TestAScheduleStartsRuns(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	mustApply(t, ns, sampleText(t, "scheduled.yaml", "cron: 0 2 * * *", "cron: '* * * * *'", "duration: 5s", "duration: 1s"+behind))
	p := profileNamed(ns, "scheduled")
	until(t, 20*time.Second, "the next time is known", func(ctx context.Context) (bool, string) {
		err := get(ctx, p)
		return err == nil && p.Status.NextScheduleTime != nil, fmt.Sprint(err, p.Status.Conditions)
	})
	next := p.Status.NextScheduleTime.Time
	if p.Status.CurrentRun != nil || time.Until(next) > time.Minute {
		t.Errorf("run %+v, next time %s; want none before the first minute", p.Status.CurrentRun, next)
	}
	until(t, 100*time.Second, "a run of the schedule has ended", func(ctx context.Context) (bool, string) {
		err := get(ctx, p)
		return err == nil && p.Status.LastResult != nil, fmt.Sprint(err, p.Status.Phase, p.Status.Conditions)
	})
	if p.Status.LastScheduleTime == nil || p.Status.LastScheduleTime.Before(&metav1.Time{Time: next}) {
		t.Errorf("a run has ended, and the last time of the schedule is %v, the first was %s", p.Status.LastScheduleTime, next)
	}
}
