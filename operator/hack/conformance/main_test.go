// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFoldersDecideWhatIsCompared(t *testing.T) {
	folder := t.TempDir()
	if passed, err := run(folder, "", "", nil); !passed || err != nil {
		t.Errorf("without data: got %v %v, want it skipped", passed, err)
	}
	if passed, err := run(folder, "", os.Args[0], []string{live}); passed || err != nil {
		t.Errorf("with a program that is not Python: got %v %v, want that it failed", passed, err)
	}
	for _, part := range []string{"trex-stateless", "trex-stateful", "captures", "mlrsearch"} {
		onePart(t, part)
	}
}

// onePart tests an empty folder, and then one with a file that is refused.
func onePart(t *testing.T, name string) {
	t.Helper()
	folder := t.TempDir()
	data := filepath.Join(folder, name)
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if passed, err := run(folder, "", "", nil); passed || err == nil {
		t.Errorf("%s with no file: got %v %v, want an error", name, passed, err)
	}
	for _, file := range []string{"bad.json", "bad.pcap"} {
		if err := os.WriteFile(filepath.Join(data, file), []byte("[]"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if passed, err := run(folder, "", "", nil); passed || err != nil {
		t.Errorf("%s with one that is refused: got %v %v, want that it failed", name, passed, err)
	}
}
