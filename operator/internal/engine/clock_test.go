// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheClockOfAnEngineIsKnownToABound(t *testing.T) {
	s, path := serve(t, "unix", filepath.Join(t.TempDir(), "engine"))
	s.ahead, s.id, s.tolerance = -5e15, 1, 50_000
	pool := NewPool(nil)
	defer pool.Close()
	c, err := pool.Client(t.Context(), Target{Address: "unix:" + path})
	if err != nil {
		t.Fatal(err)
	}
	known := func(exchanges int, ahead int64) Clock {
		t.Helper()
		now, err := c.Clock(t.Context(), exchanges)
		if err != nil || now.Least > ahead || now.Greatest < ahead || now.Bound() > 100*time.Millisecond {
			t.Fatalf("%+v, want %d (%v)", now, ahead, err)
		}
		return now
	}
	first := known(4, -5e15)
	if first.Drift != 110_001 || first.Tolerance != 50_000 {
		t.Errorf("%+v", first)
	}
	second := Now() + int64(time.Second)
	if at := first.Monotonic(second); math.Abs(float64(at-(second-5e15))) > float64(first.Bound())+1 || first.Reference(at)-second > 1 || second-first.Reference(at) > 1 {
		t.Errorf("%d is %d there and %d back", second, at, first.Reference(at))
	}
	const apart = -5e15 + float64(time.Hour)
	if wall := first.Wall().Middle(); math.Abs(float64(wall)-apart) > 1e8 {
		t.Errorf("the wall clocks are %d apart", wall)
	}
	// The client of another call knows what was found, and forgets it when the clock starts again.
	c, err = pool.Client(t.Context(), Target{Address: "unix:" + path})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(time.Minute)
	wall, err := c.wallAt(t.Context(), at)
	if there := float64(wall - at.UnixNano()); err != nil || s.answered != 4 || math.Abs(there-apart) > 1e8 {
		t.Errorf("%f ns apart after %d exchanges (%v)", there, s.answered, err)
	}
	s.ahead, s.id = 7e12, 2
	known(3, 7e12)
	// Fewer exchanges do when one fails.
	known(10, 7e12)
	if _, err := c.Clock(t.Context(), 1); !Unreachable(err) {
		t.Errorf("%v", err)
	}
	s.answered, s.tolerance = 0, 1<<31
	if _, err := c.Clock(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "must be at most 10000000") {
		t.Errorf("%v", err)
	}
}
