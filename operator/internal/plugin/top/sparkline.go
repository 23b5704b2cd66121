// SPDX-License-Identifier: Apache-2.0

package top

// This file answers: how is the history of a number drawn in one line?

import "math"

// bars are the levels of a sparkline, the lowest first.
var bars = []rune("▁▂▃▄▅▆▇█")

// sparkline draws the last values between 0 and their maximum; what is unknown is omitted.
func sparkline(values []float64, width int) string {
	values = values[max(len(values)-width, 0):]
	top := 0.0
	for _, v := range values {
		top = greater(top, v)
	}
	line := make([]rune, len(values))
	for i, v := range values {
		switch {
		case math.IsNaN(v):
			line[i] = ' '
		case top == 0:
			line[i] = bars[0]
		default:
			line[i] = bars[int(v/top*float64(len(bars)-1)+0.5)]
		}
	}
	return string(line)
}
