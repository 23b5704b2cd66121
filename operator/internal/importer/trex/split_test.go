// SPDX-License-Identifier: Apache-2.0

package trex

import (
	"fmt"
	"strings"
	"testing"

	"spate.dev/operator/internal/plan"
)

func TestMoreStreamsThanAProfileHasEntriesAreSelectedByLabels(t *testing.T) {
	counted := `{"enabled": true, "stream_id": 7, "rule_type": "stats"}`
	var streams []string
	for i := range 2000 {
		switch i {
		case 0:
			streams = append(streams, burst("first", parts{"next": `"last"`}))
		case 1999:
			streams = append(streams, burst("last", parts{"self_start": "false"}))
		case 1, 1998:
			streams = append(streams, streamJSON(parts{"name": fmt.Sprintf(`"s%d"`, i), "flow_stats": counted}))
		case 2:
			streams = append(streams, streamJSON(parts{"name": fmt.Sprintf(`"s%d"`, i), "enabled": "false"}))
		default:
			streams = append(streams, streamJSON(parts{"name": fmt.Sprintf(`"s%d"`, i)}))
		}
	}
	got, err := Import("many", list(streams...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int32{}
	for _, e := range got.Profile.Spec.Traffic {
		counts[string(e.Name)] = 0
		if e.Stream.Selector != nil {
			counts[string(e.Name)] = *e.Stream.Selector.Count
		}
	}
	if want := map[string]int32{"first": 0, "last": 0, "measured": 2, "streams-paused": 1, "streams": 1995}; fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", counts, want)
	}
	seen := map[string]bool{}
	for _, s := range runs(t, got).Plan(plan.Identity{RunID: "r"}).Streams {
		seen[s.Name] = true
		if paused := s.Name == "many-s2"; s.Paused != paused {
			t.Errorf("%s: paused %v", s.Name, s.Paused)
		}
		if measured := s.Name == "many-s1" || s.Name == "many-s1998"; measured != (s.RxPort != "") || measured != (s.Measure.Mark != nil) {
			t.Errorf("%s: expected at %q", s.Name, s.RxPort)
		}
		if s.Name == "first" && s.Next.GetStream() != "last" {
			t.Errorf("first is followed by %v", s.Next)
		}
	}
	if len(seen) != 2000 || !seen["many-s3"] || !seen["last"] {
		t.Errorf("%d streams in the plan", len(seen))
	}
	if all := strings.Join(got.Notes, "\n"); !strings.Contains(all, "the 2000 streams are those that its entries select by the labels spate.dev/import and spate.dev/entry") {
		t.Errorf("notes %s", all)
	}
}

func TestStreamsThatFitIntoAProfileHaveEntriesOfTheirOwn(t *testing.T) {
	var streams []string
	for range 512 {
		streams = append(streams, streamJSON(nil))
	}
	got, err := Import("p", list(streams...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range got.Profile.Spec.Traffic {
		if e.Stream.Ref == nil || string(e.Stream.Ref.Name) != got.Streams[i].Name || len(got.Streams[i].Labels) > 0 {
			t.Fatalf("%+v", e)
		}
	}
	if len(got.Profile.Spec.Traffic) != 512 {
		t.Errorf("%d entries", len(got.Profile.Spec.Traffic))
	}
}

func TestMoreStreamsThatStartEachOtherThanEntriesAreRefused(t *testing.T) {
	var streams []string
	for i := range 513 {
		streams = append(streams, burst(fmt.Sprintf("s%d", i), parts{"next": fmt.Sprintf(`"s%d"`, (i+1)%513)}))
	}
	refused(t, "$: 513 of the 513 streams start each other, each an entry of its own, and of more than 512 streams at most 508 can", streams...)
}
