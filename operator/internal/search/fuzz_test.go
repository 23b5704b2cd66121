// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"spate.dev/operator/internal/search"
	"spate.dev/operator/internal/search/dut"
	"spate.dev/operator/internal/search/mlr"
)

// fuzzed are the methods whose records are fuzzed.
func fuzzed(t testing.TB) []search.Method {
	options := search.Options{Budget: search.Budget{Trials: 300, Time: 1e6}, Retries: 2}
	between := search.Throughput{Min: 9001, Max: 14.88e6, Goals: []search.Goal{
		mlr.RFC2544("ndr"), mlr.TST009("tst"), {Name: "pdr", LossRatio: 0.005, ExceedRatio: 0.5, Width: 0.005, InitialTrialDuration: 1,
			FinalTrialDuration: 1, DurationSum: 5, PrecedingTargets: 2, Expansion: 2},
	}, Warmup: 1, Confirm: &search.Confirm{Duration: 100}, Options: options}
	bisected := between
	bisected.Goals = between.Goals[:2]
	return []search.Method{
		must(t)(search.NewMLRsearch(between)),
		must(t)(search.NewBisection(bisected)),
		must(t)(search.NewFrameLoss(search.FrameLoss{Max: 1e6, Step: 0.07, Duration: 1, Options: options})),
		must(t)(search.NewBackToBack(search.BackToBack{Max: 1e6, Throughput: 5e5, Longest: 2, Resolution: 3, Repeats: 9, Options: options})),
		must(t)(search.NewLatency(search.Latency{Throughput: 1e6, Percent: []float64{100, 10}, Duration: 1, Repeats: 4, Options: options})),
	}
}

// FuzzTrials looks for records that crash a method. The bytes are the outcomes of the trials that the method asks for, and then alter one record.
func FuzzTrials(f *testing.F) {
	f.Add(uint8(0), []byte("a device that forwards all\x00\x00\x00"))
	f.Add(uint8(1), []byte{0xff, 1, 2, 3, 4, 5, 6, 7, 8, 0xff, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add(uint8(3), binary.BigEndian.AppendUint64([]byte{3}, 1<<63))
	methods := fuzzed(f)
	f.Fuzz(func(t *testing.T, number uint8, data []byte) {
		method := methods[int(number)%len(methods)]
		var trials []search.Trial
		for len(data) > 0 {
			want, done, err := method.Next(trials)
			if errors.Is(err, search.ErrTrialsInvalid) || done != nil {
				break
			}
			if err != nil || !(want.Load > 0 && want.Duration > 0) || want.Load > 14.88e6 {
				t.Fatalf("after %d trials: %v %v", len(trials), want, err)
			}
			var trial search.Trial
			trial, data = outcome(len(trials)+1, *want, data)
			trials = append(trials, trial)
		}
		if len(trials) == 0 {
			return
		}
		altered := &trials[int(number)%len(trials)]
		altered.Load, altered.Intended, altered.Lost = math.Float64frombits(uint64(number)<<52), math.MinInt64, math.MinInt64
		if _, _, err := method.Next(trials); err == nil {
			t.Fatalf("an altered record is taken: %+v", *altered)
		}
	})
}

// outcome makes the first bytes into a trial: the first one selects how, the counts are any or those of a device.
func outcome(number int, want search.Input, data []byte) (search.Trial, []byte) {
	kind, data := data[0], data[1:]
	trial := dut.Device{Capacity: float64(kind) * 6e4, Buffer: int64(kind % 5), Generator: float64(kind%3) * 1e6}.Measure(number, want)
	trial.Valid = kind%16 != 15
	if kind%8 == 7 && len(data) >= 8 {
		counts := int64(binary.BigEndian.Uint64(data)) //nolint:gosec // any number will do
		trial.Lost, trial.Sent, trial.Intended, data = counts, max(0, counts>>3), max(0, counts<<5), data[8:]
	}
	if kind%32 == 9 {
		trial.HighLoss = []string{"pdr", "none"}
	}
	return trial, data
}
