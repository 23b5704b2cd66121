// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"os"
	"path/filepath"
	"testing"

	"spate.dev/operator/test/conformance"
)

// TestSearchesOfTheReferencePackage replays what FD.io's MLRsearch 1.2.1 chose, from the folder named by CONFORMANCE.
func TestSearchesOfTheReferencePackage(t *testing.T) {
	folder := filepath.Join(os.Getenv("CONFORMANCE"), "mlrsearch")
	if _, err := os.Stat(filepath.Join(folder, "vectors.json")); os.Getenv("CONFORMANCE") == "" || err != nil {
		t.Skip("CONFORMANCE names no folder with mlrsearch/vectors.json")
	}
	all, err := conformance.LoadSearches(folder, "vectors")
	if err != nil {
		t.Fatal(err)
	}
	trials := 0
	for _, s := range all {
		if err := s.Compare(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		trials += len(s.Trials)
	}
	t.Logf("%d searches, %d trials", len(all), trials)
}
