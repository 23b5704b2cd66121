// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"spate.dev/operator/internal/plugin/exit"
	"spate.dev/operator/internal/plugin/files"
	"spate.dev/operator/internal/plugin/plugintest"
)

func TestExitCodesAreTheEnginesOnlyWhereItReportedItsError(t *testing.T) {
	engine := exec.Command("sh", "-c", "exit 3").Run()
	for err, want := range map[error]int{nil: 0, exit.With(exit.NotRun, errors.New("busy")): 3, engine: 3, fmt.Errorf("the profile cannot be loaded: %w", engine): 1, errors.New("no file"): 1} {
		if got := code(err); got != want {
			t.Errorf("%v: exits with %d, not %d", err, got, want)
		}
	}
}

func TestARateWithAMinusIsNoFlag(t *testing.T) {
	for given, want := range map[string]string{
		"rate imix -10% -n lab": "rate imix -n lab -- -10%",
		"rate imix +10%":        "rate imix +10%",
		"rate imix -- -1Mpps":   "rate imix -- -1Mpps",
		"result imix -o json":   "result imix -o json",
	} {
		if got := strings.Join(unflagged(strings.Fields(given)), " "); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

func TestTheLinkedVersionIsPrinted(t *testing.T) {
	t.Cleanup(func() { version = "" })
	version = "v1.2.3"
	if output, _, err := plugintest.Execute(newRootCommand(), "", "version"); err != nil || !strings.HasPrefix(output, "kubectl spate v1.2.3, contract ") {
		t.Errorf("got %q, %v", output, err)
	}
}

func TestExitCodes(t *testing.T) {
	if code(nil) != 0 || code(files.ErrProblems) != 1 || code(&exec.Error{Name: "x", Err: exec.ErrNotFound}) != 1 {
		t.Error("0 where all is well, 1 otherwise")
	}
}

func TestTheExitCodeOfTheEngineIsThatOfTheCommand(t *testing.T) {
	both := plugintest.Smoke + "---\n" + plugintest.UDP
	if _, _, err := plugintest.Execute(newRootCommand(), both, "simulate", "-", "--pcap", "o", "--limit", "5", "--engine", plugintest.Echoing(t, "3")); code(err) != 3 {
		t.Errorf("got %v: the exit code of the engine is passed on", err)
	}
}
