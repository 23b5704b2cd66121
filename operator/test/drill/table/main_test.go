// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestATableWithAMissedPromiseOrWithoutRowsFails(t *testing.T) {
	const held, missed = `{"fault":"a","detectedNs":1500000000,"seen":true}`, `{"fault":"b","missed":"hangs"}`
	for name, c := range map[string]struct{ rows, want string }{
		"all held": {held + "\n" + held + "\n", ""},
		"one not":  {held + "\n" + missed + "\n", "1 of 2 missed their promise"},
		"again":    {missed + "\n" + strings.Replace(missed, "hangs", "", 1) + "\n", ""},
		"no row":   {"", "no drill was run"},
		"cut off":  {held[:20], "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rows.jsonl")
			if err := os.WriteFile(file, []byte(c.rows), 0o600); err != nil {
				t.Fatal(err)
			}
			err := run([]string{file, file + ".none"})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
