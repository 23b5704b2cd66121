// SPDX-License-Identifier: Apache-2.0

package plugintest

// This file answers: what stands in for the engine's program?

import (
	"os"
	"path/filepath"
	"testing"
)

// Scripted returns an engine that is a shell script.
func Scripted(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spate-engine")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// Echoing returns an engine that prints its arguments, and exits with a code.
func Echoing(t *testing.T, code string) string {
	t.Helper()
	return Scripted(t, "echo \"$@\"\ngrep -c '\"txPort\": \"east\"'\nexit "+code+"\n")
}
