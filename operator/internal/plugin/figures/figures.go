// SPDX-License-Identifier: Apache-2.0

// Package figures answers: how are numbers written into few columns? With three significant digits and an SI prefix.
package figures

import (
	"math"
	"strconv"
	"strings"
)

// Unknown stands for what was not measured. It is written as a dash.
var Unknown = math.NaN()

// prefix of a unit, and what it multiplies the unit by.
type prefix struct {
	factor float64
	name   string
}

var (
	multiples = []prefix{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}
	fractions = []prefix{{1, ""}, {1e-3, "m"}, {1e-6, "µ"}, {1e-9, "n"}}
	// times are units of nanoseconds, in ASCII.
	times = []prefix{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}}
)

// scaled divides a value by the greatest factor that it reaches when it is rounded to three digits, or else by the least.
func scaled(value float64, prefixes []prefix) (float64, string) {
	for _, p := range prefixes {
		if math.Abs(value) >= p.factor*0.9995 {
			return value / p.factor, p.name
		}
	}
	least := prefixes[len(prefixes)-1]
	return value / least.factor, least.name
}

// Number writes a number for a column: 99.8k, 1.49M. It always has three digits where it has a prefix, so that a column does not change its width;
// below 1000 it has at most one decimal place.
func Number(value float64) string {
	if math.IsNaN(value) {
		return "-"
	}
	value, name := scaled(value, multiples)
	if name == "" {
		return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0")
	}
	return threeDigits(value) + name
}

// Count writes a counter: whole up to six digits.
func Count(value float64) string {
	if math.IsNaN(value) || value >= 1e6 {
		return Number(value)
	}
	return strconv.FormatFloat(value, 'f', 0, 64)
}

// Percent writes a share with one decimal place.
func Percent(share float64) string {
	if math.IsNaN(share) {
		return "-"
	}
	return strconv.FormatFloat(100*share, 'f', 1, 64) + "%"
}

// Nanoseconds writes a time for a column: 31.5us.
func Nanoseconds(value float64) string {
	if math.IsNaN(value) {
		return "-"
	}
	value, unit := scaled(value, times)
	if unit == "ns" {
		return strconv.FormatFloat(value, 'f', 0, 64) + unit
	}
	return threeDigits(value) + unit
}

// WithUnit writes a value for a text, without zeros at its end: 1.5Mpps. Seconds have prefixes below 1, all other units above.
func WithUnit(value float64, unit string) string {
	if value == 0 || math.IsNaN(value) {
		return "0" + unit
	}
	prefixes := multiples
	if unit == "s" {
		prefixes = fractions
	}
	value, name := scaled(value, prefixes)
	digits := 2 - int(math.Floor(math.Log10(math.Abs(value))))
	scale := math.Pow(10, float64(digits))
	return strconv.FormatFloat(math.Round(value*scale)/scale, 'f', -1, 64) + name + unit
}

// threeDigits writes a number from 1 to 999 with three significant digits.
func threeDigits(value float64) string {
	places := 2
	for limit := 9.995; places > 0 && value >= limit; limit *= 10 {
		places--
	}
	return strconv.FormatFloat(value, 'f', places, 64)
}

// Fit cuts a text to a width, or fills it up: to the right, or to the left for numbers.
func Fit(text string, width int, number bool) string {
	runes := []rune(text)
	switch {
	case len(runes) > width && width > 0:
		return string(runes[:width-1]) + "…"
	case number:
		return strings.Repeat(" ", max(width-len(runes), 0)) + text
	}
	return text + strings.Repeat(" ", max(width-len(runes), 0))
}
