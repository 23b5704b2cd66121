// SPDX-License-Identifier: Apache-2.0

// Does a search choose the trials of FD.io's reference package MLRsearch, and find the same?

package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"spate.dev/operator/internal/search"
	"spate.dev/operator/internal/search/dut"
)

// loadSlack is how much loads may differ, relatively: logarithms and exponentials differ between languages and processors in their last bits.
const loadSlack = 1e-9

// Search is a search of the reference package on a simulated device.
type Search struct {
	Name string `json:"name"`
	// Min and Max are loads in pps.
	Min     float64        `json:"min"`
	Max     float64        `json:"max"`
	Goals   []SearchGoal   `json:"goals"`
	Device  dut.Device     `json:"dut"`
	Trials  []SearchTrial  `json:"trials"`
	Results []SearchResult `json:"results"`
}

// SearchGoal is a goal as the reference package has it. Durations are in seconds.
type SearchGoal struct {
	LossRatio        float64 `json:"loss_ratio"`
	ExceedRatio      float64 `json:"exceed_ratio"`
	Width            float64 `json:"relative_width"`
	InitialDuration  float64 `json:"initial_trial_duration"`
	FinalDuration    float64 `json:"final_trial_duration"`
	DurationSum      float64 `json:"duration_sum"`
	PrecedingTargets int     `json:"preceding_targets"`
	Expansion        int     `json:"expansion_coefficient"`
	// FailFast is false: a minimum load that fails is a result.
	FailFast bool `json:"fail_fast"`
}

// SearchTrial is a trial that the reference package chose, and its outcome.
type SearchTrial struct {
	Duration float64 `json:"duration"`
	Load     float64 `json:"load"`
	Intended int64   `json:"intended"`
	Sent     int64   `json:"sent"`
	Received int64   `json:"received"`
}

// SearchResult is what the reference package found for a goal: loads in pps, or nil.
type SearchResult struct {
	Lower      *float64 `json:"lower"`
	Upper      *float64 `json:"upper"`
	Throughput *float64 `json:"throughput"`
}

// LoadSearches reads the searches of a file.
func LoadSearches(folder, name string) ([]Search, error) {
	data, err := os.ReadFile(filepath.Join(folder, name+".json"))
	if err != nil {
		return nil, err
	}
	var searches []Search
	if err := json.Unmarshal(data, &searches); err != nil {
		return nil, err
	}
	if len(searches) == 0 {
		return nil, errors.New("the file holds no search")
	}
	return searches, nil
}

// Compare returns the first difference from the reference package's trials and results; nil if there is none.
func (s Search) Compare() error {
	method, err := search.NewMLRsearch(search.Throughput{Min: s.Min, Max: s.Max, Goals: s.goals()})
	if err != nil {
		return err
	}
	var trials []search.Trial
	for i, reference := range s.Trials {
		want, done, err := method.Next(trials)
		switch {
		case err != nil:
			return err
		case done != nil:
			return fmt.Errorf("the search ends before trial %d of %d", i+1, len(s.Trials))
		case !sameDuration(want.Duration, reference.Duration) || !nearLoad(want.Load, reference.Load):
			return fmt.Errorf("trial %d is %v, want %v per second for %v s", i+1, *want, reference.Load, reference.Duration)
		}
		trials = append(trials, search.Trial{
			Number: i + 1, Input: search.Input{Load: reference.Load, Duration: reference.Duration}, Valid: true,
			Intended: reference.Intended, Sent: reference.Sent, Lost: reference.Sent - reference.Received,
		})
	}
	want, done, err := method.Next(trials)
	switch {
	case err != nil:
		return err
	case done == nil:
		return fmt.Errorf("the search goes on after trial %d, with %v", len(trials), *want)
	case len(done.Goals) != len(s.Results):
		return fmt.Errorf("%d goals, want %d", len(done.Goals), len(s.Results))
	}
	for i, goal := range done.Goals {
		if r := s.Results[i]; !nearLoadOrNone(goal.Lower, r.Lower) || !nearLoadOrNone(goal.Upper, r.Upper) || !nearLoadOrNone(goal.Throughput, r.Throughput) {
			return fmt.Errorf("goal %d: got %v to %v, throughput %v; want %s to %s, throughput %s", i+1, goal.Lower, goal.Upper, goal.Throughput,
				loadOrNone(r.Lower), loadOrNone(r.Upper), loadOrNone(r.Throughput))
		}
	}
	return nil
}

func (s Search) goals() []search.Goal {
	goals := make([]search.Goal, len(s.Goals))
	for i, g := range s.Goals {
		goals[i] = search.Goal{
			Name: strconv.Itoa(i + 1), LossRatio: g.LossRatio, ExceedRatio: g.ExceedRatio, Width: g.Width, InitialTrialDuration: g.InitialDuration,
			FinalTrialDuration: g.FinalDuration, DurationSum: g.DurationSum, PrecedingTargets: g.PrecedingTargets, Expansion: g.Expansion,
		}
	}
	return goals
}

// sameDuration reports whether durations are the same, but for the last bits: C's pow rounds one of some thousands of powers to the other side.
func sameDuration(a, b float64) bool { return math.Abs(a-b) <= 1e-14*b }

func nearLoad(a, b float64) bool { return math.Abs(a-b) <= loadSlack*math.Abs(b) }

func nearLoadOrNone(load float64, reference *float64) bool {
	if reference == nil {
		return load == 0
	}
	return nearLoad(load, *reference)
}

func loadOrNone(load *float64) string {
	if load == nil {
		return "none"
	}
	return fmt.Sprint(*load)
}
