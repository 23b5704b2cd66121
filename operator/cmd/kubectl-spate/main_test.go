// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"testing"
)

func TestExitCodesAreTheEnginesOnlyWhereItReportedItsError(t *testing.T) {
	engine := exec.Command("sh", "-c", "exit 3").Run()
	for err, want := range map[error]int{nil: 0, engine: 3, fmt.Errorf("the profile cannot be loaded: %w", engine): 1, errors.New("no file"): 1} {
		if got := code(err); got != want {
			t.Errorf("%v: exits with %d, not %d", err, got, want)
		}
	}
}
