// SPDX-License-Identifier: Apache-2.0

package top

// This file answers: how are numbers and their history written into few columns?

import (
	"math"
	"strconv"
	"strings"
)

// si writes a number with three significant digits and a prefix: 99.8k, 1.49M. Below 1000 it has at most one decimal place.
func si(value float64) string {
	if math.IsNaN(value) {
		return "-"
	}
	prefix := ""
	for _, next := range []string{"k", "M", "G", "T"} {
		if value < 999.5 {
			break
		}
		value, prefix = value/1000, next
	}
	if prefix == "" {
		return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0")
	}
	return digits(value) + prefix
}

// digits writes a number from 1 to 999 with three significant digits.
func digits(value float64) string {
	places := 2
	for limit := 9.995; places > 0 && value >= limit; limit *= 10 {
		places--
	}
	return strconv.FormatFloat(value, 'f', places, 64)
}

// count writes a counter: whole up to six digits.
func count(value float64) string {
	if math.IsNaN(value) || value >= 1e6 {
		return si(value)
	}
	return strconv.FormatFloat(value, 'f', 0, 64)
}

// percent writes a share with one decimal place.
func percent(share float64) string {
	if math.IsNaN(share) {
		return "-"
	}
	return strconv.FormatFloat(100*share, 'f', 1, 64) + "%"
}

// nanoseconds writes a time with three significant digits: 31.5us.
func nanoseconds(value float64) string {
	if math.IsNaN(value) {
		return "-"
	}
	unit := "ns"
	for _, next := range []string{"us", "ms", "s"} {
		if value < 999.5 {
			break
		}
		value, unit = value/1000, next
	}
	if unit == "ns" {
		return strconv.FormatFloat(value, 'f', 0, 64) + unit
	}
	return digits(value) + unit
}

// bars are the levels of a sparkline, the lowest first.
var bars = []rune("▁▂▃▄▅▆▇█")

// sparkline draws the last values between 0 and their maximum; what is unknown is left out.
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

// fit cuts a text to a width, or fills it up: to the right, or to the left for numbers.
func fit(text string, width int, number bool) string {
	runes := []rune(text)
	switch {
	case len(runes) > width && width > 0:
		return string(runes[:width-1]) + "…"
	case number:
		return strings.Repeat(" ", max(width-len(runes), 0)) + text
	}
	return text + strings.Repeat(" ", max(width-len(runes), 0))
}
