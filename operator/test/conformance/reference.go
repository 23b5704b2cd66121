// SPDX-License-Identifier: Apache-2.0

// Do searches with random goals on random devices agree with the reference package, when both run now?

package conformance

import (
	"bytes"
	"context"
	_ "embed" // of reference.py
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"strings"

	"spate.dev/operator/internal/search/dut"
)

//go:embed reference.py
var reference string

// Reference runs searches with the reference package, in an interpreter that has it, and adds the trials and the results.
func Reference(ctx context.Context, python string, searches []Search) ([]Search, error) {
	input, err := json.Marshal(searches)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, python, "-c", reference)
	command.Stdin = bytes.NewReader(input)
	var output, problem bytes.Buffer
	command.Stdout, command.Stderr = &output, &problem
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", python, err, strings.TrimSpace(problem.String()))
	}
	var found []Search
	if err := json.Unmarshal(output.Bytes(), &found); err != nil {
		return nil, err
	}
	if len(found) != len(searches) {
		return nil, fmt.Errorf("%s: %d searches came back, want %d", python, len(found), len(searches))
	}
	return found, nil
}

// RandomSearches returns searches that differ in everything. Equal seeds give equal ones.
func RandomSearches(count int, seed uint64) []Search {
	random := rand.New(rand.NewPCG(seed, 9971)) //nolint:gosec // tests are repeatable
	searches := make([]Search, count)
	for i := range searches {
		least := between(random, 100, 1e5)
		s := Search{Name: fmt.Sprintf("random/%d", i+1), Min: least, Max: least * between(random, 1.5, 3000), Trials: []SearchTrial{}, Results: []SearchResult{}}
		for range 1 + random.IntN(3) {
			s.Goals = append(s.Goals, randomGoal(random))
		}
		s.Device = randomDevice(random, s.Min, s.Max)
		searches[i] = s
	}
	return searches
}

// between draws evenly by logarithm.
func between(random *rand.Rand, least, greatest float64) float64 {
	return least * math.Exp(random.Float64()*math.Log(greatest/least))
}

func oneOf[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

func randomGoal(random *rand.Rand) SearchGoal {
	final := oneOf(random, 1, 2, 60, between(random, 0.5, 60))
	g := SearchGoal{
		LossRatio: oneOf(random, 0, 0, 0.001, 0.005, between(random, 1e-6, 0.5)), ExceedRatio: oneOf(random, 0, 0, 0.5, 0.2, 0.9*random.Float64()),
		Width: between(random, 0.0005, 0.3), FinalDuration: final, DurationSum: final * oneOf(random, 1, 2, 21, between(random, 1, 10)),
		InitialDuration: min(final, oneOf(random, 1, final, between(random, 0.1, 60))), PrecedingTargets: random.IntN(6), Expansion: 2 + random.IntN(4),
	}
	if g.PrecedingTargets == 0 && g.InitialDuration < g.DurationSum {
		g.PrecedingTargets = 1
	}
	return g
}

func randomDevice(random *rand.Rand, least, greatest float64) dut.Device {
	device := dut.Device{Capacity: between(random, least*0.7, greatest*1.3)}
	switch random.IntN(6) {
	case 0:
		device.Buffer = int64(between(random, 1, 1e6))
	case 1:
		device.Generator = between(random, least, greatest)
	case 2:
		device.Every, device.Loses = 2+random.IntN(9), int64(between(random, 1, 1e4))
	case 3:
		low := between(random, least, greatest)
		device.Band = [2]float64{low, low * (1 + random.Float64())}
	}
	return device
}
