// SPDX-License-Identifier: Apache-2.0

package engine

// This file answers: how does an engine's clock stand to the operator's?

import (
	"context"
	"fmt"
	"sync"
	"time"

	"spate.dev/operator/internal/clock"
	"spate.dev/operator/internal/engine/enginev1"
)

// referenceTolerance is the frequency tolerance of the operator's clock in parts per billion: that of a crystal of 50 ppm, and some room.
const referenceTolerance = 60_000

// maxTolerance bounds what an engine may report, ppb: beyond it a clock is of no use.
const maxTolerance = 10_000_000

// Clock is how an engine's monotonic clock stands to the operator's (Now).
type Clock struct {
	clock.Offset
	// Tolerance is the engine's frequency tolerance, and Drift by how much both clocks may drift apart, in nanoseconds a second.
	Tolerance, Drift int64
	// wall is the engine's wall clock minus its monotonic clock.
	wall int64
}

// At returns it for another instant of the operator's clock.
func (c Clock) At(instant int64) Clock {
	c.Offset = c.After(instant, c.Drift)
	return c
}

// Monotonic is an instant of the operator's clock by the engine's.
func (c Clock) Monotonic(instant int64) int64 { return instant + c.At(instant).Middle() }

// Reference is an instant of the engine's clock by the operator's.
func (c Clock) Reference(monotonic int64) int64 { return monotonic - c.Middle() }

// WallAt is an instant of the operator's clock by the engine's wall clock.
func (c Clock) WallAt(instant int64) int64 { return c.Monotonic(instant) + c.wall }

// Wall is the offset of the engine's wall clock from the operator's.
func (c Clock) Wall() clock.Offset { return c.Plus(c.wall - wallOffset()) }

// WallFromMonotonic is the offset of the engine's wall clock from the operator's monotonic clock. Those of two engines can be compared:
// unlike those of Wall, they do not contain the error of two readings of the operator's wall clock.
func (c Clock) WallFromMonotonic() clock.Offset { return c.Plus(c.wall) }

// wallOffset is the operator's wall clock minus its monotonic clock.
func wallOffset() int64 {
	before, wall := Now(), time.Now().UnixNano()
	return wall - before - (Now()-before)/2
}

// Instant is the instant of the operator's clock at a time of its wall clock.
func Instant(at time.Time) int64 { return at.UnixNano() - wallOffset() }

// tracker is what is known of one engine's clock. All clients of the engine share it.
type tracker struct {
	mu     sync.Mutex
	id     uint64
	filter clock.Filter
	last   Clock // its offset is the filter's
}

// Clock exchanges time stamps with the engine, and returns what these and earlier exchanges prove. Fewer are made if one fails.
func (c *Client) Clock(ctx context.Context, exchanges int) (Clock, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for made := range exchanges {
		e := clock.Exchange{Origin: Now()}
		stamps, err := c.rpc.ExchangeTimes(ctx, &enginev1.ExchangeTimesRequest{})
		e.Destination = Now()
		if err != nil && made > 0 {
			break
		}
		if err != nil {
			return Clock{}, explain(err)
		}
		e.Receive, e.Transmit = stamps.ReceiveNs, stamps.TransmitNs
		if err := c.clock.add(e, stamps); err != nil {
			return Clock{}, err
		}
	}
	now, known := c.clock.at(Now())
	if !known {
		return Clock{}, fmt.Errorf("nothing is known of the engine's clock")
	}
	return now, nil
}

func (t *tracker) add(e clock.Exchange, stamps *enginev1.ExchangeTimesResponse) error {
	if stamps.TolerancePpb > maxTolerance {
		return fmt.Errorf("the engine's clock may be wrong by %d ppb; must be at most %d", stamps.TolerancePpb, maxTolerance)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.id != stamps.ClockId {
		t.id, t.filter = stamps.ClockId, clock.Filter{}
	}
	tolerance := int64(stamps.TolerancePpb)
	drift := tolerance + referenceTolerance + 1 // rounded up: the product of both is below it
	if _, err := t.filter.Add(e, drift); err != nil {
		return fmt.Errorf("exchange of time stamps: %w", err)
	}
	t.last = Clock{Tolerance: tolerance, Drift: drift, wall: stamps.WallOffsetNs}
	return nil
}

func (t *tracker) at(instant int64) (Clock, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	offset, known := t.filter.At(instant)
	now := t.last
	now.Offset = offset
	return now, known
}

// wallAt is a time of the operator's wall clock by the engine's, in nanoseconds; 0 for the zero time.
func (c *Client) wallAt(ctx context.Context, at time.Time) (int64, error) {
	if at.IsZero() {
		return 0, nil
	}
	now, known := c.clock.at(Now())
	if !known {
		var err error
		if now, err = c.Clock(ctx, 1); err != nil {
			return 0, err
		}
	}
	return at.UnixNano() + now.Wall().Middle(), nil
}
