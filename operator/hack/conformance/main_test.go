// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFoldersDecideWhatIsCompared(t *testing.T) {
	folder := t.TempDir()
	if passed, err := run(folder, "", nil); !passed || err != nil {
		t.Errorf("without data: got %v %v, want it skipped", passed, err)
	}
	data := filepath.Join(folder, "trex-stateless")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if passed, err := run(folder, "", nil); passed || err == nil {
		t.Errorf("with no profile: got %v %v, want an error", passed, err)
	}
	if err := os.WriteFile(filepath.Join(data, "bad.json"), []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if passed, err := run(folder, "", nil); passed || err != nil {
		t.Errorf("with one that is refused: got %v %v, want that it failed", passed, err)
	}
}
