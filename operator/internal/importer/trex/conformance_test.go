// SPDX-License-Identifier: Apache-2.0

package trex

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/stream"
)

// profiles are TRex's own, in the folder named by CONFORMANCE.
func profiles(t testing.TB) map[string][]byte {
	t.Helper()
	folder := os.Getenv("CONFORMANCE")
	if folder == "" {
		t.Skip("CONFORMANCE names no folder with trex-stateless/*.json")
	}
	files, err := filepath.Glob(filepath.Join(folder, "trex-stateless", "*.json"))
	if err != nil || len(files) == 0 {
		t.Skipf("there are no profiles in %s/trex-stateless (%v)", folder, err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = data
	}
	return all
}

// meant are the refusals that docs/import-trex.md documents.
var meant = regexp.MustCompile(`IEEE 1588 are not supported|are too long: at most`)

func TestProfilesOfTRexCanBeRun(t *testing.T) {
	for name, data := range profiles(t) {
		t.Run(name, func(t *testing.T) {
			got, err := Import("profile", data, Options{})
			if err != nil && meant.MatchString(err.Error()) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			streams := runs(t, got).Plan(plan.Identity{RunID: "r"}).Streams
			if len(streams) != len(got.Streams) {
				t.Errorf("%d streams in the plan, %d imported", len(streams), len(got.Streams))
			}
			for _, note := range got.Notes {
				t.Log(note)
			}
		})
	}
}

// FuzzImport looks for input that crashes the import, or that is accepted and then cannot be sent.
func FuzzImport(f *testing.F) {
	f.Add(list(streamJSON(nil)))
	f.Add(list(streamJSON(parts{"flags": "0", "vm": vmJSON(counting, writing, fixIPv4)})))
	f.Add(list(streamJSON(parts{"vm": vmJSON(oneTuple, writingIP)})))
	f.Add(list(streamJSON(parts{"vm": vmJSON(changed(counting, `10`, `60`, `19`, `66`), trimming)})))
	f.Add(list(burst("a", parts{"next": `"b"`}), burst("b", parts{"self_start": "false", "next": `"a"`, "action_count": "2"})))
	f.Add(list(streamJSON(parts{"flow_stats": `{"enabled": true, "stream_id": 1, "rule_type": "latency"}`})))
	f.Add(astfJSON(request, answer))
	f.Add(astfJSON(`{"name": "set_var", "id": 0, "val": 9}, {"name": "rx", "min_bytes": 8}, {"name": "jmp_nz", "id": 0, "offset": -1}`, `{"name": "connect"}, {"name": "nc"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		const enough = 1 << 16
		if len(data) > enough {
			t.Skip("longer than a profile is")
		}
		got, err := Import("p", data, Options{})
		if err != nil {
			return
		}
		for _, template := range got.Templates {
			if problems := application.Check(&template.Spec); len(problems) > 0 {
				t.Fatalf("it is taken, and cannot be run: %v", problems)
			}
		}
		for _, sent := range got.Streams {
			if _, problems := stream.Check(&sent.Spec); len(problems) > 0 {
				t.Fatalf("it is taken, and cannot be sent: %v", problems)
			}
		}
	})
}
