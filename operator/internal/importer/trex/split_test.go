// SPDX-License-Identifier: Apache-2.0

package trex

import (
	"fmt"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan"
)

// planned returns the number of streams in a profile's plan.
func planned(t *testing.T, got *Imported, profile *spatev1.TrafficProfile) int {
	t.Helper()
	one := *got
	one.Profiles = []*spatev1.TrafficProfile{profile}
	return len(runs(t, &one).Plan(plan.Identity{RunID: "r"}).Streams)
}

func TestStreamsThatOneProfileHasNoRoomForGoIntoSeveral(t *testing.T) {
	var streams []string
	for i := range 2000 {
		streams = append(streams, streamJSON(parts{"name": fmt.Sprintf(`"s%d"`, i)}))
	}
	got, err := Import("many", list(streams...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[spatev1.EntryName]bool{}
	for i, profile := range got.Profiles {
		if want := fmt.Sprintf("many-%d", i+1); profile.Name != want || profile.Spec.GeneratorRef.Name != DefaultGenerator {
			t.Errorf("got %s, want %s", profile.Name, want)
		}
		if count := planned(t, got, profile); count != len(profile.Spec.Traffic) || count > 512 {
			t.Errorf("%s: %d streams in the plan of %d", profile.Name, count, len(profile.Spec.Traffic))
		}
		for _, entry := range profile.Spec.Traffic {
			seen[entry.Name] = true
		}
	}
	if len(got.Profiles) != 4 || len(seen) != 2000 || len(got.Streams) != 2000 {
		t.Errorf("%d profiles, %d entries, %d streams", len(got.Profiles), len(seen), len(got.Streams))
	}
	if all := strings.Join(got.Notes, "\n"); !strings.Contains(all, "the 2000 streams are in 4 profiles, many-1 to many-4, which run beside each other and start each when its generator is ready, not at one instant") {
		t.Errorf("told %s", all)
	}
}

func TestStreamsThatStartEachOtherOrShareAMarkStayTogether(t *testing.T) {
	counted := func(id int) string {
		return fmt.Sprintf(`{"enabled": true, "stream_id": %d, "rule_type": "stats"}`, id)
	}
	var streams []string
	for i := range 600 {
		switch i {
		case 0:
			streams = append(streams, burst("first", parts{"next": `"last"`}))
		case 1, 598:
			streams = append(streams, streamJSON(parts{"flow_stats": counted(7)}))
		case 599:
			streams = append(streams, burst("last", parts{"self_start": "false"}))
		default:
			streams = append(streams, streamJSON(nil))
		}
	}
	got, err := Import("p", list(streams...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, profile := range got.Profiles {
		planned(t, got, profile)
	}
	names := func(i int) (all []string) {
		for _, entry := range got.Profiles[i].Spec.Traffic {
			all = append(all, string(entry.Name))
		}
		return all
	}
	if first := names(0); len(got.Profiles) != 2 || len(first) != 512 || first[0] != "first" || first[1] != "stream-2" || first[510] != "stream-599" || first[511] != "last" || len(names(1)) != 88 {
		t.Errorf("got %v", first)
	}
}

func TestStreamsBoundToEachOtherThatNoProfileHasRoomForAreRefused(t *testing.T) {
	var streams []string
	for i := range 513 {
		streams = append(streams, burst(fmt.Sprintf("s%d", i), parts{"next": fmt.Sprintf(`"s%d"`, (i+1)%513)}))
	}
	refused(t, "stream 1 (s0): $[0]: it and 512 others start each other or are counted together, and must be in one profile, which has at most 512 streams", streams...)
}
