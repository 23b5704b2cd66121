// SPDX-License-Identifier: Apache-2.0

package test

// People and pipelines start runs with the plugin, by the rights of an editor, and read verdicts from its exit code. The engines are simulated.

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// executed is what a command of the plugin has done.
type executed struct {
	output, said string
	code         int
}

// executedWith runs a command of the plugin with standard input.
func executedWith(t *testing.T, ns, kubeconfig, input string, args ...string) executed {
	t.Helper()
	command := plugin(t, ns, kubeconfig, args...)
	var out, errs bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &errs
	_ = command.Run() // the exit code says more
	t.Logf("kubectl spate %s: exits with %d\n%s%s", strings.Join(args, " "), command.ProcessState.ExitCode(), errs.String(), out.String())
	return executed{out.String(), errs.String(), command.ProcessState.ExitCode()}
}

// runsOf are the names of all runs of a profile.
func runsOf(t *testing.T, ns, profile string) (names []string) {
	t.Helper()
	var list spatev1.TrafficRunList
	must(t, cluster.kube.List(t.Context(), &list, client.InNamespace(ns)))
	for _, r := range list.Items {
		if r.Spec.ProfileRef != nil && string(r.Spec.ProfileRef.Name) == profile {
			names = append(names, r.Name)
		}
	}
	return names
}

func TestThePluginRunsFilesAndExitsWithTheVerdict(t *testing.T) {
	t.Parallel()
	ns := simulatedReady(t, startSimulatedNode(t), loopbackGenerator)
	editor, viewer := userOf(t, ns, "spate-editor"), userOf(t, ns, "spate-viewer")
	report := filepath.Join(t.TempDir(), "report.xml")
	// has fails unless the command has ended with the code, and its output, messages and report have the words.
	has := func(t *testing.T, done executed, code int, words ...string) {
		t.Helper()
		text, _ := os.ReadFile(report)
		for _, word := range words {
			if !strings.Contains(done.output+done.said+string(text), word) {
				t.Errorf("no %q\n%s", word, text)
			}
		}
		if done.code != code {
			t.Errorf("exits with %d, not %d", done.code, code)
		}
	}
	const noLoss = "  thresholds: [{name: no-loss, expression: result.lost == 0}]\n"
	passes := loopbackStream + "---" + loopbackProfile("passes", lenient+"  duration: 1s\n"+noLoss)

	t.Run("passed: 0", func(t *testing.T) {
		done := executedWith(t, ns, editor, passes, "run", "-", "--wait", "--junit", report)
		has(t, done, 0, "statelessstream/small applied\n", "trafficprofile/passes applied\n", "of profile passes: Complete\n", "no-loss    yes  result.lost == 0 holds", "small   1000  1000  0",
			` tests="2" failures="0" errors="0">`, `<testcase name="threshold no-loss"`)
		if got := runsOf(t, ns, "passes"); len(got) != 1 {
			t.Errorf("the profile starts its run by itself, and there are %v", got)
		}
	})
	t.Run("the same again, unchanged", func(t *testing.T) {
		has(t, executedWith(t, ns, editor, passes, "run", "-", "--wait"), 0, "trafficrun/passes-", "of profile passes: Complete\n")
		if got := runsOf(t, ns, "passes"); len(got) != 2 {
			t.Errorf("%v", got)
		}
	})
	t.Run("changed in its thresholds only", func(t *testing.T) {
		changed := strings.Replace(passes, "result.lost == 0", "result.rx == 1000", 1)
		has(t, executedWith(t, ns, editor, changed, "run", "-", "--wait"), 0, "result.rx == 1000 holds")
		if got := runsOf(t, ns, "passes"); len(got) != 3 {
			t.Errorf("%v", got)
		}
	})
	t.Run("failed: 1", func(t *testing.T) {
		fails := loopbackProfile("fails", lenient+"  duration: 1s\n  runPolicy: Manual\n  thresholds: [{name: more, expression: result.rx > 5000}]\n")
		done := executedWith(t, ns, editor, fails, "run", "-", "--wait", "--junit", report)
		has(t, done, 1, "more       NO   result.rx > 5000 does not hold: result.rx is 1000", "error: run fails-", ": Failed: threshold more",
			` tests="2" failures="1" errors="0">`, `<failure message="result.rx &gt; 5000 does not hold: result.rx is 1000">`)
	})
	t.Run("by name, with another rate, for programs", func(t *testing.T) {
		done := executedWith(t, ns, editor, "", "run", "fails", "passes", "--set", "rate=6x", "--wait", "-o", "json")
		var read struct {
			Runs []struct {
				Profile string
				Verdict spatev1.Verdict
				Result  spatev1.RunResult
			}
		}
		if err := json.Unmarshal([]byte(done.output), &read); err != nil || done.code != 1 || len(read.Runs) != 2 {
			t.Fatalf("%v, %+v", err, done)
		}
		if fails, passes := read.Runs[0], read.Runs[1]; fails.Profile != "fails" || fails.Verdict.Outcome != spatev1.VerdictPassed || fails.Result.Tx != 6000 ||
			passes.Verdict.Outcome != spatev1.VerdictFailed { // its threshold expects 1000 packets
			t.Errorf("%+v", read)
		}
	})
	t.Run("--json is -o json", func(t *testing.T) {
		done := executedWith(t, ns, editor, "", "run", "passes", "--set", "duration=200ms", "--wait", "--json")
		var read struct {
			Runs []struct {
				Profile string
				Verdict spatev1.Verdict
			}
		}
		if err := json.Unmarshal([]byte(done.output), &read); err != nil || done.code != 1 || len(read.Runs) != 1 || read.Runs[0].Profile != "passes" || read.Runs[0].Verdict.Outcome != spatev1.VerdictFailed {
			t.Errorf("%v, %+v", err, done)
		}
	})
	t.Run("a TrafficRun of the files", func(t *testing.T) {
		run := "\n---\napiVersion: spate.dev/v1alpha1\nkind: TrafficRun\nmetadata: {generateName: own-}\nspec: {profileRef: {name: single}}\n"
		manifest := loopbackProfile("single", lenient+"  duration: 1s\n  runPolicy: Manual\n") + run
		has(t, executedWith(t, ns, editor, manifest, "run", "-", "--set", "rate=2x", "--wait"), 0, "trafficrun/own-", "small   2000  2000  0")
		if got := runsOf(t, ns, "single"); len(got) != 1 {
			t.Errorf("%v", got)
		}
		has(t, executedWith(t, ns, editor, strings.Replace(manifest, "generateName: own-", "name: own", 1), "run", "-", "--wait"), 0, "trafficrun/own applied")
		has(t, executedWith(t, ns, editor, strings.Replace(manifest, "generateName: own-", "name: own", 1), "run", "-", "--wait"), 3, "TrafficRun own: has ended before")
	})
	t.Run("not valid: 2", func(t *testing.T) {
		has(t, executedWith(t, ns, editor, strings.Replace(passes, "traffic:", "traffics:", 1), "run", "-", "--wait", "--junit", report), 2,
			"TrafficProfile passes: spec.traffics: unknown field", "nothing was applied", `<error message="nothing was applied`)
		elsewhere := strings.Replace(loopbackProfile("elsewhere", lenient+"  duration: 1s\n"), "receivePort: loop", "receivePort: none", 1)
		has(t, executedWith(t, ns, editor, elsewhere, "run", "-", "--wait", "--junit", report), 2, "error: profile elsewhere: InvalidSpec: ", ` tests="1" failures="0" errors="1">`)
	})
	t.Run("could not run: 3", func(t *testing.T) {
		has(t, executedWith(t, ns, viewer, passes, "run", "-", "--wait"), 3, "forbidden")
		has(t, executedWith(t, ns, editor, "", "run", "none"), 3, `there is no TrafficProfile "none" in namespace `+ns)
		lonely := strings.Replace(loopbackProfile("lonely", lenient+"  duration: 1s\n"), "generatorRef: {name: loop}", "generatorRef: {name: none}", 1)
		has(t, executedWith(t, ns, editor, lonely, "run", "-", "--wait", "--timeout", "5s"), 3, "profile lonely has started no run within 5s: ReferenceNotFound: ")
	})
	t.Run("as somebody else, by the flags of kubectl", func(t *testing.T) {
		admin, as := kubeconfigOf(t, "admin-of-"+ns, "system:masters"), "spate-viewer-of-"+ns
		has(t, executedWith(t, ns, admin, "", "status", "--as", as, "--as-group", "system:authenticated"), 0, "loop       True")
		has(t, executedWith(t, ns, admin, passes, "run", "-", "--wait", "--as", as), 3, "forbidden", as)
		has(t, executedWith(t, ns, admin, "", "status", "--server", "https://127.0.0.1:1", "--request-timeout", "5s"), 1, "127.0.0.1:1")
	})
	t.Run("interrupted", func(t *testing.T) {
		mustApply(t, ns, loopbackProfile("endless", lenient+"  runPolicy: Manual\n"))
		for _, c := range []struct{ option, want string }{
			{"--timeout=5m", ": it goes on, to stop it: kubectl spate stop endless-"}, {"--stop-on-interrupt", ": it is being stopped"},
		} {
			command := plugin(t, ns, editor, "run", "endless", "--wait", c.option)
			said := &tail{}
			command.Stderr = said
			must(t, command.Start())
			until(t, runLimit, "progress", func() (bool, string) { return strings.Contains(said.lines(9), "  Running  "), said.lines(9) })
			must(t, command.Process.Signal(syscall.SIGINT))
			_ = command.Wait()
			if code, text := command.ProcessState.ExitCode(), said.lines(9); code != 130 || !strings.Contains(text, c.want) || !strings.Contains(text, "has no duration: it lasts until it is stopped") {
				t.Errorf("%s: exits with %d\n%s", c.option, code, text)
			}
		}
		stopped := 0
		for _, name := range runsOf(t, ns, "endless") {
			r := &spatev1.TrafficRun{}
			must(t, cluster.kube.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, r))
			if r.Spec.Stop {
				stopped++
			}
		}
		if stopped != 1 {
			t.Errorf("%d runs were stopped, not 1", stopped)
		}
	})
	t.Run("completed by kubectl", func(t *testing.T) {
		binary, err := buildPlugin()
		must(t, err)
		script, err := filepath.Abs("../cmd/kubectl-spate/kubectl_complete-spate")
		must(t, err)
		folders := []string{filepath.Dir(binary), filepath.Dir(script), os.Getenv("KUBEBUILDER_ASSETS"), os.Getenv("PATH")}
		for typed, want := range map[string]string{"run pas": "passes", "result endl": "endless", "doctor ": "loop", "sta": "status", "events pas": "passes", "logs loo": "loop",
			"capture loop --port lo": "loop", "ping loop --pod loo": "loop-0", "top endless --pod loo": "loop-0"} {
			words := strings.Split(typed, " ")
			args := []string{"__complete", "spate", words[0]}
			if len(words) > 1 {
				args = slices.Concat(args, []string{"-n", ns, "--kubeconfig", viewer}, words[1:])
			}
			kubectl := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), args...)
			kubectl.Env = append(os.Environ(), "PATH="+strings.Join(folders, ":"))
			var errs bytes.Buffer // kubectl writes about plugins here, a shell reads the output alone
			kubectl.Stderr = &errs
			out, err := kubectl.Output()
			if err != nil || !strings.HasPrefix(string(out), want) {
				t.Errorf("kubectl spate %s: %v\n%s%s", typed, err, errs.String(), out)
			}
		}
	})
	t.Run("status", func(t *testing.T) {
		has(t, executedWith(t, ns, viewer, "", "status", "-o", "wide"), 0, "RUN ", "endless-", "WAITS ", "TrafficProfile  lonely", "ReferenceNotFound", "GENERATOR  READY  PODS  PORTS", "loop       True   1/1   1/1")
		has(t, executedWith(t, ns, viewer, "", "status", "none"), 1, `there is no TrafficGenerator and no TrafficProfile "none"`)
	})
}
