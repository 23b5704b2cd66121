// SPDX-License-Identifier: Apache-2.0

package dut_test

import (
	"math"
	"testing"

	"spate.dev/operator/internal/search"
	"spate.dev/operator/internal/search/dut"
)

func TestDevicesForwardWhatTheyCan(t *testing.T) {
	second := search.Input{Load: 1000, Duration: 1.0005}
	for _, c := range []struct {
		device         dut.Device
		number         int
		input          search.Input
		intended, sent int64
		received       int64
	}{
		{dut.Device{Capacity: 2000}, 1, second, 1000, 1000, 1000},
		{dut.Device{Capacity: 600}, 1, second, 1000, 1000, 600},
		{dut.Device{Capacity: 600, Buffer: 50}, 1, second, 1000, 1000, 650},
		{dut.Device{Capacity: 2000, Generator: 700}, 1, second, 1000, 700, 700},
		{dut.Device{Capacity: 2000, Every: 3, Loses: 7}, 2, second, 1000, 1000, 1000},
		{dut.Device{Capacity: 2000, Every: 3, Loses: 7}, 3, second, 1000, 1000, 993},
		{dut.Device{Capacity: 2000, Every: 3, Loses: 7000}, 3, second, 1000, 1000, 0},
		{dut.Device{Capacity: 2000, Band: [2]float64{1000, 1001}}, 1, second, 1000, 1000, 999},
		{dut.Device{Capacity: 2000, Band: [2]float64{900, 1000}}, 1, second, 1000, 1000, 1000},
		{dut.Device{Capacity: 500, Buffer: 5}, 1, search.Input{Load: 1000, Duration: 0.02, Packets: 20}, 20, 20, 15},
	} {
		got := c.device.Measure(c.number, c.input)
		if got.Intended != c.intended || got.Sent != c.sent || got.Received() != c.received || !got.Valid || got.Number != c.number || got.Input != c.input {
			t.Errorf("%+v: got %+v", c, got)
		}
	}
	if got := (dut.Device{Capacity: math.MaxFloat64}).Measure(1, search.Input{Load: math.MaxFloat64, Duration: 1}); got.Sent <= 0 {
		t.Errorf("got %+v", got)
	}
}
