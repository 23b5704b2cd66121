// SPDX-License-Identifier: Apache-2.0

package mlr

// This file answers: between which loads is a target?

import "slices"

// none is the index of a bound that does not exist.
const none = -1

// Bounds are the indexes of the relevant bounds of RFC 9971 section 4.8, or none: the least upper bound, and the greatest lower bound below it.
// A lower bound above an upper bound (loss inversion) does not count.
type bounds struct{ lower, upper int }

func (b bounds) both() bool { return b.lower != none && b.upper != none }

// excludes reports whether a trial at a load cannot move the bounds.
func (b bounds) excludes(load int) bool {
	return b.lower != none && load <= b.lower || b.upper != none && load >= b.upper
}

// measured is what a trial says of its load.
type measured struct {
	duration     float64 // as it was wanted, in seconds
	loss, device float64
	fails        uint64 // goals for which the trial is high-loss whatever its loss ratio, a bit each
}

func (m measured) failsGoal(goal int) bool { return m.fails>>goal&1 != 0 }

// lossFor is the loss ratio for a goal.
func (m measured) lossFor(goal int) float64 {
	if m.failsGoal(goal) {
		return 1
	}
	return m.loss
}

// point is a load with its trials.
type point struct {
	index  int
	trials []measured
	// sums by number of the target, of all trials and of those that are not high-loss only because of the generator.
	all, device []sums
}

// points are the loads of all trials in ascending order.
type points struct {
	targets []target
	sorted  []point
}

func (p *points) find(index int) (at int, found bool) {
	return slices.BinarySearchFunc(p.sorted, index, func(p point, index int) int { return p.index - index })
}

// add counts a trial for every target.
func (p *points) add(index int, m measured) {
	at, found := p.find(index)
	if !found {
		both := make([]sums, 2*len(p.targets))
		p.sorted = slices.Insert(p.sorted, at, point{index: index, all: both[:len(p.targets):len(p.targets)], device: both[len(p.targets):]})
	}
	load := &p.sorted[at]
	load.trials = append(load.trials, m)
	for i := range p.targets {
		t := &p.targets[i]
		full, high := m.duration >= t.trial, m.failsGoal(t.goal) || m.loss > t.loss
		load.all[i].add(m.duration, full, high)
		if !high || m.failsGoal(t.goal) || m.device > t.loss {
			load.device[i].add(m.duration, full, high)
		}
	}
}

// bounds returns the relevant bounds of a target.
func (p *points) bounds(t *target) bounds {
	found := bounds{lower: none, upper: none}
	for i := range p.sorted {
		switch load := &p.sorted[i]; load.all[t.number].classify(t.exceed, t.sum) {
		case Upper:
			found.upper = load.index
			return found
		case Lower:
			found.lower = load.index
		}
	}
	return found
}

// limited reports whether a load is no upper bound by what the device lost alone.
func (p *points) limited(index int, t *target) bool {
	at, found := p.find(index)
	return found && p.sorted[at].device[t.number].classify(t.exceed, t.sum) != Upper
}

// loss returns the loss ratio of the conditional throughput at a load.
func (p *points) loss(index int, t *target) float64 {
	at, found := p.find(index)
	if !found {
		return 1
	}
	return quantileLoss(p.sorted[at].trials, p.sorted[at].all[t.number], t)
}
