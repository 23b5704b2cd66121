// SPDX-License-Identifier: Apache-2.0

// Are the packets of a simulation TRex's, in order and in time?

package conformance

import (
	"fmt"
	"slices"
	"time"
)

// Slack is by how much times may differ, and within which packets may be in another order.
const Slack = 5 * time.Microsecond

// Simulated is what was simulated.
type Simulated struct {
	// Packets up to the limit.
	Packets []Packet
	// Beyond are some that the limit kept out: one of them may have swapped with one of those at the end.
	Beyond []Packet
}

// Compare returns the first difference of what was simulated from TRex's packets; nil if there is none.
func (p *Profile) Compare(want []Packet, got Simulated) error {
	m := newMatching(p, want, got)
	if err := m.match(); err != nil {
		return err
	}
	if err := m.cut(); err != nil {
		return err
	}
	m.uncross()
	return m.ordered()
}

// candidate is a simulated packet.
type candidate struct {
	Packet
	beyond bool
	// index of the wanted packet that it is matched to; -1 if it is to none.
	of int
}

// matching finds for each wanted packet a simulated one of its own.
type matching struct {
	profile *Profile
	want    []Packet
	// got in order of time.
	got []candidate
	// found is the index of the simulated packet, for each that is wanted.
	found []int
	count int
}

func newMatching(p *Profile, want []Packet, got Simulated) *matching {
	m := &matching{profile: p, want: want, count: len(got.Packets)}
	for _, packet := range got.Packets {
		m.got = append(m.got, candidate{packet, false, -1})
	}
	for _, packet := range got.Beyond {
		m.got = append(m.got, candidate{packet, true, -1})
	}
	slices.SortStableFunc(m.got, func(a, b candidate) int { return int(a.At - b.At) })
	m.found = slices.Repeat([]int{-1}, len(want))
	return m
}

func near(a, b time.Duration) bool { return (a - b).Abs() <= Slack }

// match matches all it can, with as few from beyond the limit as there must be, and returns the first packet that has none.
func (m *matching) match() error {
	for _, beyond := range []bool{false, true} {
		for i := range m.want {
			if m.found[i] < 0 {
				m.augment(i, beyond, map[int]bool{})
			}
		}
	}
	for i := range m.want {
		if m.found[i] < 0 {
			return m.missing(i)
		}
	}
	if m.count > len(m.want) {
		return fmt.Errorf("packet %d: want no more packets, got one at %v", len(m.want)+1, m.got[len(m.want)].At)
	}
	return nil
}

// augment finds a packet for i, if need be by finding another for one that has it.
func (m *matching) augment(i int, beyond bool, tried map[int]bool) bool {
	first, _ := slices.BinarySearchFunc(m.got, m.want[i].At-Slack, func(c candidate, at time.Duration) int { return int(c.At - at) })
	for j := first; j < len(m.got) && near(m.got[j].At, m.want[i].At); j++ {
		c := &m.got[j]
		if tried[j] || c.beyond && !beyond || m.profile.compare(m.want[i].Frame, c.Frame) != nil {
			continue
		}
		tried[j] = true
		if c.of < 0 || m.augment(c.of, beyond, tried) {
			c.of, m.found[i] = i, j
			return true
		}
	}
	return false
}

// missing returns what there is in the place of packet i.
func (m *matching) missing(i int) error {
	at := m.want[i].At
	var within []Packet
	for _, c := range m.got {
		if !c.beyond {
			within = append(within, c.Packet)
		}
	}
	number := fmt.Sprintf("packet %d", i+1)
	// The nearest one that no other packet matches is the most informative.
	closest := -1
	for j, c := range m.got {
		if c.of < 0 && near(c.At, at) && (closest < 0 || !c.beyond && m.got[closest].beyond) {
			closest = j
		}
	}
	switch {
	case closest >= 0:
		return fmt.Errorf("%s: %w", number, m.profile.compare(m.want[i].Frame, m.got[closest].Frame))
	case i >= len(within):
		return fmt.Errorf("%s: want it at %v, got %d packets", number, at, len(within))
	case m.profile.compare(m.want[i].Frame, within[i].Frame) == nil:
		return fmt.Errorf("%s: want it at %v, got it at %v", number, at, within[i].At)
	}
	return fmt.Errorf("%s: want it at %v, got at %v: %w", number, at, within[i].At, m.profile.compare(m.want[i].Frame, within[i].Frame))
}

// cut reports whether packets from beyond the limit swapped with others that are near enough.
func (m *matching) cut() error {
	var left, came []int
	for j, c := range m.got {
		switch {
		case c.beyond && c.of >= 0:
			came = append(came, j)
		case !c.beyond && c.of < 0:
			left = append(left, j)
		}
	}
	for k, j := range left {
		switch {
		case k >= len(came):
			return fmt.Errorf("a packet at %v is not wanted", m.got[j].At)
		case !near(m.got[j].At, m.got[came[k]].At):
			return fmt.Errorf("packet %d: got none of it within the limit, but at %v one that is not wanted", m.got[came[k]].of+1, m.got[j].At)
		}
	}
	if len(came) > len(left) {
		return fmt.Errorf("packet %d: got %d packets in all", m.got[came[len(left)]].of+1, m.count)
	}
	return nil
}

// uncross gives packets that are alike to each other's wanted ones, in order.
func (m *matching) uncross() {
	fits := func(i, j int) bool {
		return near(m.want[i].At, m.got[j].At) && m.profile.compare(m.want[i].Frame, m.got[j].Frame) == nil
	}
	for again := true; again; {
		again = false
		for a := range m.want {
			for b := a + 1; b < len(m.want) && m.want[b].At-m.want[a].At <= 2*Slack; b++ {
				if i, j := m.found[a], m.found[b]; i > j && fits(a, j) && fits(b, i) {
					m.found[a], m.found[b], again = j, i, true
				}
			}
		}
	}
}

// ordered finds packets that have changed places and stand too far from each other for it.
func (m *matching) ordered() error {
	for a := range m.want {
		for b := a + 1; b < len(m.want) && m.want[b].At-m.want[a].At <= 2*Slack; b++ {
			if m.found[a] > m.found[b] && !near(m.want[a].At, m.want[b].At) {
				return fmt.Errorf("packets %d and %d have changed places, and are %v apart", a+1, b+1, m.want[b].At-m.want[a].At)
			}
		}
	}
	return nil
}
