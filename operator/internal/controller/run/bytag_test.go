// SPDX-License-Identifier: Apache-2.0

package run

import (
	"maps"
	"slices"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/storage"
	"spate.dev/operator/internal/verdict"
)

func tagged(outer, first, last uint32, packets uint64, missing int64) *enginev1.TagRangeStats {
	return &enginev1.TagRangeStats{
		Tags:     &enginev1.TagRange{OuterVlan: outer, FirstVlan: first, LastVlan: last},
		Counters: &enginev1.TagCounters{Packets: packets, Bytes: 64 * packets, Missing: missing},
	}
}

func TestTagsOfSeveralEnginesAddUp(t *testing.T) {
	one := &enginev1.TagStats{
		Ranges: []*enginev1.TagRangeStats{tagged(0, 1, 4, 0, 0), tagged(0, 5, 5, 10, 2), tagged(0, 6, 9, 0, 0), tagged(100, 1, 2, 1, 0)},
		Other:  &enginev1.TagCounters{Packets: 3, Bytes: 192},
	}
	two := &enginev1.TagStats{
		Ranges:   []*enginev1.TagRangeStats{tagged(0, 1, 3, 0, 0), tagged(0, 4, 4, 10, 2), tagged(0, 5, 9, 0, 0), tagged(100, 1, 2, 1, 0)},
		Untagged: &enginev1.TagCounters{Packets: 7, Bytes: 448, SequenceGaps: 1, Duplicates: 2, OutOfOrder: 3},
	}
	got := byTagOf([]*enginev1.TagStats{nil, one, two})
	counted := func(packets, missing int64) spatev1.TagCounters {
		return spatev1.TagCounters{Packets: packets, Bytes: 64 * packets, Missing: missing}
	}
	want := map[string]spatev1.TagCounters{
		"1-3": counted(0, 0), "4-5": counted(10, 2), "6-9": counted(0, 0), "100/1-2": counted(2, 0), "other": counted(3, 0),
		"untagged": {Packets: 7, Bytes: 448, SequenceGaps: 1, Duplicates: 2, OutOfOrder: 3},
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if byTagOf([]*enginev1.TagStats{nil}) != nil {
		t.Error("a stream that is not counted by tag has tags")
	}
	read := tagsForThresholds(got)
	names := slices.Sorted(maps.Keys(read))
	if want := []string{"1", "100/1", "100/2", "2", "3", "4", "5", "6", "7", "8", "9", "other", "untagged"}; !slices.Equal(names, want) {
		t.Errorf("expressions read %v, want %v", names, want)
	}
	if want := (verdict.Tag{Packets: 10, Bytes: 640, Missing: 2}); read["4"] != want {
		t.Errorf("expressions read %+v of VLAN 4, want %+v", read["4"], want)
	}
}

func TestTagsOfAStageAreCountedAfterTheOneBefore(t *testing.T) {
	reading := func(readNs int64, by *enginev1.TagStats) []*enginev1.WatchStatsResponse {
		stats := at(readNs, 0, 0, 0, 0)
		stats[1].Streams[0].Measured.ByTag = by
		return stats
	}
	begin := reading(1e9, &enginev1.TagStats{
		Ranges: []*enginev1.TagRangeStats{tagged(0, 1, 4, 5, 1), tagged(0, 5, 9, 0, 0)},
		Other:  &enginev1.TagCounters{Packets: 3, Bytes: 192},
	})
	untagged := &enginev1.TagCounters{Packets: 7, Bytes: 448, SequenceGaps: 1, Duplicates: 2, OutOfOrder: 3}
	end := reading(2e9, &enginev1.TagStats{
		Ranges:   []*enginev1.TagRangeStats{tagged(0, 1, 1, 5, 1), tagged(0, 2, 5, 8, 0), tagged(0, 6, 9, 0, 0)},
		Untagged: untagged, Other: &enginev1.TagCounters{Packets: 4, Bytes: 256},
	})
	run, facts := admitted("a", "b"), &storage.Facts{Flow: map[string]bool{"s": true}}
	run.Status.PortBaseline = []spatev1.PortBaseline{{}}
	counted := func(packets, missing int64) spatev1.TagCounters {
		return spatev1.TagCounters{Packets: packets, Bytes: 64 * packets, Missing: missing}
	}
	want := map[string]spatev1.TagCounters{
		// A packet that was missing at the stage's beginning has arrived in it.
		"1": counted(0, 0), "2-4": counted(3, -1), "5": counted(8, 0), "6-9": counted(0, 0), "other": counted(1, 0), "untagged": plus(spatev1.TagCounters{}, untagged),
	}
	if got := stageResult(begin, end, nil, facts, run).Streams["s"].ByTag; !maps.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want = map[string]spatev1.TagCounters{"1-4": counted(5, 1), "5-9": counted(0, 0), "other": counted(3, 0), "untagged": {}}
	if got := stageResult(nil, begin, nil, facts, run).Streams["s"].ByTag; !maps.Equal(got, want) {
		t.Errorf("the first stage: got %+v, want %+v", got, want)
	}
}
