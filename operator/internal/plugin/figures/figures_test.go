// SPDX-License-Identifier: Apache-2.0

package figures

import "testing"

func TestNumbersInColumnsHaveThreeSignificantDigits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format func(float64) string
		value  float64
		want   string
	}{
		{Number, 0, "0"}, {Number, 0.25, "0.2"}, {Number, 12, "12"}, {Number, 999.4, "999.4"}, {Number, 999.6, "1.00k"}, {Number, 99_800, "99.8k"}, {Number, 1_488_095, "1.49M"},
		{Number, 9.996e9, "10.0G"}, {Number, 4e15, "4000T"}, {Number, Unknown, "-"},
		{Count, 999_999, "999999"}, {Count, 1_200_000, "1.20M"}, {Count, Unknown, "-"}, {Percent, 0.8123, "81.2%"}, {Percent, Unknown, "-"},
		{Nanoseconds, 0, "0ns"}, {Nanoseconds, 12, "12ns"}, {Nanoseconds, 31_500, "31.5us"}, {Nanoseconds, 999_600, "1.00ms"}, {Nanoseconds, 2.5e9, "2.50s"}, {Nanoseconds, Unknown, "-"},
	} {
		if got := c.format(c.value); got != c.want {
			t.Errorf("%v: %s, want %s", c.value, got, c.want)
		}
	}
}

func TestNumbersInTextsHaveAUnitAndNoZerosAtTheirEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value      float64
		unit, want string
	}{
		{0, "pps", "0pps"}, {1, "pps", "1pps"}, {14_880_952, "pps", "14.9Mpps"}, {999.6, "pps", "1kpps"}, {0.0000123, "s", "12.3µs"}, {2.5, "s", "2.5s"}, {1e-9, "s", "1ns"}, {25e9, "bps", "25Gbps"}, {0.25, "", "0.25"}, {-1500, "", "-1.5k"},
	} {
		if got := WithUnit(c.value, c.unit); got != c.want {
			t.Errorf("%g: %s, not %s", c.value, got, c.want)
		}
	}
}

func TestTextsFitAColumn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		width  int
		number bool
		want   string
	}{
		{"lab", 5, false, "lab  "}, {"12", 5, true, "   12"}, {"lab-0/east", 5, false, "lab-…"}, {"µs", 3, true, " µs"}, {"x", 0, false, "x"},
	} {
		if got := Fit(c.text, c.width, c.number); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}
