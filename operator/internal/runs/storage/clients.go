// SPDX-License-Identifier: Apache-2.0

package storage

// This file answers: when are a run's emulated clients ready?

import (
	"time"

	"spate.dev/operator/internal/engine/enginev1"
)

// ClientsFacts are what is needed of a group of emulated clients.
type ClientsFacts struct {
	// Name of the group.
	Name string
	// LeastPPM of the clients of each engine must be bound, in parts per million.
	LeastPPM uint64
	// Timeout is the time until the group must be ready.
	Timeout time.Duration
}

const million = 1_000_000

// Least is the number of an engine's clients that must be bound.
func (c ClientsFacts) Least(wanted uint64) uint64 { return (wanted*c.LeastPPM + million - 1) / million }

func clientsOf(p *enginev1.Plan) (all []ClientsFacts) {
	for _, g := range p.GetClients() {
		least := uint64(g.GetReady().GetLeastPpm())
		if least == 0 {
			least = million
		}
		all = append(all, ClientsFacts{Name: g.Name, LeastPPM: least, Timeout: time.Duration(g.GetReady().GetTimeoutNs())})
	}
	return all
}
