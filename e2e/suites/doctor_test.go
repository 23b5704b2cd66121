// SPDX-License-Identifier: Apache-2.0

// Does `kubectl spate doctor` show what the engine has read of a node?

package suites

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// doctor runs `kubectl spate doctor` and returns what it prints.
func doctor(t *testing.T, ns, generator string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "build/out/kubectl-spate"), "doctor", generator, "-n", ns).CombinedOutput()
	t.Logf("kubectl spate doctor %s: %v\n%s", generator, err, out)
	return string(out)
}

// This test takes the one CPU that the node gives exclusively, so it runs alone.
func TestDoctorShowsTheChecksOfANode(t *testing.T) {
	ns := namespace(t)
	mustApply(t, ns, strings.NewReplacer("cpuPolicy: Shared", "cpuPolicy: Exclusive\n  controlCPU: Shared").Replace(loopbackGenerator))
	condition(t, 45*time.Second, generatorNamed(ns, "loop"), spate.ConditionReady, metav1.ConditionTrue)
	said := doctor(t, ns, "loop")
	for _, want := range []string{"Generator loop: MachineReady=", "Pod loop-0 on node spate-node: checks ", "CPUNotIsolated", "ClockSourceNotTSC", "MemlockLimited"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q", want)
		}
	}
}
