// SPDX-License-Identifier: Apache-2.0

// Does a pipeline learn the verdict of a run from one command, `kubectl spate run -f - --wait --junit`?

package suites

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

func TestAPipelineRunsFilesWithThePlugin(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	editor := userOf(t, ns, "spate-editor")
	mustApply(t, ns, loopbackGenerator)
	condition(t, 45*time.Second, generatorNamed(ns, "loop"), spate.ConditionReady, metav1.ConditionTrue)
	for _, c := range []struct {
		name, expression string
		code             int
		words            []string // of the output, the messages and the report
	}{
		{"passes", "result.tx + result.txDropped == 1000 && result.lost == 0", 0, []string{"trafficprofile/passes applied", "of profile passes: Complete", "Passed: ", ` tests="2" failures="0" errors="0">`}},
		{"fails", "result.rx > 5000", 1, []string{"of profile fails: Complete", "Failed: threshold more", ` tests="2" failures="1" errors="0">`,
			`<failure message="result.rx &gt; 5000 does not hold: result.rx is `}},
	} {
		report := filepath.Join(t.TempDir(), "report.xml")
		command := exec.CommandContext(t.Context(), filepath.Join(root, "build/out/kubectl-spate"), "run", "-f", "-", "--wait", "--timeout", "2m", "--junit", report, "-n", ns, "--kubeconfig", editor)
		command.Stdin = strings.NewReader(loopbackStream + "---" + loopbackProfile(c.name, "  duration: 1s\n  thresholds: [{name: more, expression: '"+c.expression+"'}]"))
		var said bytes.Buffer
		command.Stdout, command.Stderr = &said, &said
		_ = command.Run() // the exit code says more
		written, err := os.ReadFile(report)
		if err != nil {
			t.Errorf("%s: no report: %v", c.name, err)
		}
		all := said.String() + string(written)
		t.Logf("%s: exits with %d\n%s", c.name, command.ProcessState.ExitCode(), all)
		if code := command.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%s: exits with %d, not %d", c.name, code, c.code)
		}
		for _, word := range c.words {
			if !strings.Contains(all, word) {
				t.Errorf("%s: no %q", c.name, word)
			}
		}
	}
	if out, err := script("build/out/kubectl-spate", "status", "--kubeconfig", editor, "-n", ns); err != nil || !strings.Contains(out, "No run is active, and nothing waits.") || !strings.Contains(out, "loop       True   1/1 ") {
		t.Errorf("%v\n%s", err, out)
	}
}
