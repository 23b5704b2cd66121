// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: which part of a result is in the status, and where is the complete result?

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/runs/storage"
)

const (
	// mostListed is the maximum number of entries of a list in a status.
	mostListed = 512
	// resultRoom is the maximum size of a result in a status, as JSON.
	resultRoom = 256 << 10
	// objectRoom is the maximum size of a run's spec, its status.resolved, and three times its result: managed fields repeat the names
	// of all fields. The rest of etcd's limit of 1.5 MiB is for everything else.
	objectRoom = 1 << 20
)

// roomOf is the room for the result in a run's status.
func roomOf(run *spatev1.TrafficRun) int {
	return min(resultRoom, max((objectRoom-size(run.Spec)-size(run.Status.Resolved))/3, 0))
}

// bounded returns the part of a result that fits the room: all of it, or the first entries of each map by name, each map limited to a
// quarter of the room, and how many entries each truncated map has.
func bounded(whole spatev1.RunResult, room int) (spatev1.RunResult, []spatev1.TruncatedList) {
	if max(len(whole.Streams), len(whole.Templates), len(whole.Groups)) <= mostListed && size(whole) <= room {
		return whole, nil
	}
	listRoom := room / 4
	var truncated []spatev1.TruncatedList
	note := func(list string, kept, total int) {
		if kept < total {
			truncated = append(truncated, spatev1.TruncatedList{List: list, Kept: int32(kept), Total: int32(total)})
		}
	}
	part := whole
	part.Streams = firstKeys(whole.Streams, listRoom)
	note("streams", len(part.Streams), len(whole.Streams))
	part.Templates = firstKeys(whole.Templates, listRoom)
	note("templates", len(part.Templates), len(whole.Templates))
	part.Groups = firstKeys(whole.Groups, listRoom)
	note("groups", len(part.Groups), len(whole.Groups))
	kept, total := 0, 0
	part.Receivers = maps.Clone(whole.Receivers)
	for name, r := range part.Receivers {
		total += len(r.Workers)
		r.Workers = firstOf(r.Workers, listRoom/len(part.Receivers))
		kept += len(r.Workers)
		part.Receivers[name] = r
	}
	note("receivers.workers", kept, total)
	return part, truncated
}

// firstKeys returns the entries with the first names that fit the room.
func firstKeys[T any](all map[string]T, room int) map[string]T {
	part := make(map[string]T, min(len(all), mostListed))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if room -= len(name) + size(all[name]) + len(`"":,`); room < 0 || len(part) == mostListed {
			break
		}
		part[name] = all[name]
	}
	return part
}

// firstOf returns the first items that fit the room.
func firstOf[T any](all []T, room int) []T {
	for i := range all {
		if room -= size(all[i]) + len(","); room < 0 {
			return all[:i:i]
		}
	}
	return all
}

// size as JSON.
func size(value any) int {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // numbers, strings and lists of them always marshal
	}
	return len(text)
}

// settle writes the final result to the status, and the complete result beside the run if it is large. It returns what of it is lost,
// if anything.
func (s *scope) settle(ctx context.Context, whole spatev1.RunResult) (lost string, err error) {
	part, truncated := bounded(whole, roomOf(s.run))
	if len(truncated) > 0 {
		details, err := storage.SaveResult(ctx, s.r.Client, s.run, &whole)
		if err != nil && !storage.Refused(err) {
			return "", err // retried: the engines still have the result
		}
		if err != nil {
			details = &spatev1.ResultDetails{Problem: kstatus.Shortened(err.Error(), longestText)}
		}
		details.Truncated, part.Details = truncated, details
		if details.Problem != "" {
			lost = fmt.Sprintf("the status has %s, and the rest of the result is lost: %s", details.Has(), details.Problem)
		}
	}
	s.run.Status.Result = &part
	return lost, nil
}

// longestText is the maximum length of a text in a verdict. The message of a threshold contains the values that it read, possibly a
// whole result.
const longestText = 2 << 10

// concise shortens the texts of a verdict.
func concise(v *spatev1.Verdict) {
	for i := range v.Reasons {
		v.Reasons[i].Message = kstatus.Shortened(v.Reasons[i].Message, longestText)
	}
	for i := range v.Thresholds {
		v.Thresholds[i].Message = kstatus.Shortened(v.Thresholds[i].Message, longestText)
	}
}
