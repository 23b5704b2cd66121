// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"math/big"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestParseRate(t *testing.T) {
	cases := map[spatev1.Rate]struct {
		value *big.Rat
		unit  Unit
	}{
		"1pps":       {big.NewRat(1, 1), PacketsPerSecond},
		"1.5Mpps":    {big.NewRat(1500000, 1), PacketsPerSecond},
		"14.88Mpps":  {big.NewRat(14880000, 1), PacketsPerSecond},
		"0.1pps":     {big.NewRat(1, 10), PacketsPerSecond},
		"10Gbps":     {big.NewRat(1e10, 1), L2BitsPerSecond},
		"10GbpsL2":   {big.NewRat(1e10, 1), L2BitsPerSecond},
		"64kbpsL1":   {big.NewRat(64000, 1), L1BitsPerSecond},
		"33.333%":    {big.NewRat(33333, 1000), LinePercent},
		"10 apples":  {},
		"":           {},
		"10":         {},
		"-1pps":      {},
		"0pps":       {},
		"0.00Gbps":   {},
		"1e6pps":     {},
		".5pps":      {},
		"1.pps":      {},
		"2x":         {},
		"5k%":        {},
		"1Kpps":      {},
		"1mpps":      {},
		"10Gbps ":    {},
		"1/2pps":     {},
		"1_000pps":   {},
		"٣pps":       {},
		"10GbpsL3":   {},
		"1Mpps\n":    {},
		"Infinitpps": {},
	}
	for text, want := range cases {
		got, err := ParseRate(text)
		if want.value == nil {
			if err == nil {
				t.Errorf("%q is taken for %v", text, got)
			}
			continue
		}
		if err != nil || got.Unit != want.unit || got.Value.Cmp(want.value) != 0 {
			t.Errorf("%q: got %v %v", text, got, err)
		}
	}
}

func TestParseBitRate(t *testing.T) {
	for text, want := range map[spatev1.BitRate]uint64{
		"10Gbps": 1e10, "1.6Tbps": 16e11, "2.5Gbps": 25e8, "1bps": 1, "0.5bps": 0, "10GbpsL2": 0, "10Gpps": 0, "": 0, "99999999999Tbps": 0,
	} {
		if got, err := ParseBitRate(text); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: got %d %v", text, got, err)
		}
	}
}

func TestTolerated(t *testing.T) {
	for _, c := range []struct {
		text spatev1.Tolerance
		sent uint64
		want int64
	}{
		{"0", 1e9, 0}, {"100", 5, 100}, {"0.1%", 1e6, 1000}, {"0.1%", 999, 0}, {"100%", 7, 7}, {"33.3%", 1000, 333},
		{"0.1%", 1<<64 - 1, 18446744073709551}, {"101%", 1, -1}, {"x", 1, -1}, {"-1", 1, -1}, {"", 1, -1},
	} {
		got, err := Tolerated(c.text, c.sent)
		if (err != nil) != (c.want < 0) || (err == nil && got != uint64(c.want)) {
			t.Errorf("%q of %d: got %d %v", c.text, c.sent, got, err)
		}
	}
}

func TestParseFactor(t *testing.T) {
	for text, want := range map[string]*big.Rat{
		"1": big.NewRat(1, 1), "3/2": big.NewRat(3, 2), "0": nil, "-1": nil, "1.5": nil, "": nil, "1/0": nil, "1e3": nil,
	} {
		got, err := ParseFactor(text)
		if (err == nil) != (want != nil) || (want != nil && got.Cmp(want) != 0) {
			t.Errorf("%q: got %v %v", text, got, err)
		}
	}
}

func TestFormatRate(t *testing.T) {
	for want, value := range map[string]*big.Rat{
		"0pps": new(big.Rat), "999pps": big.NewRat(999, 1), "1.5kpps": big.NewRat(1500, 1), "10Mpps": big.NewRat(1e7, 1),
		"1.107Gpps": big.NewRat(1106587615, 1), "0.333pps": big.NewRat(1, 3),
	} {
		if got := FormatRate(value, "pps"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// FuzzParseRate feeds the parser arbitrary text: what it accepts is positive, exact, and has the value written.
func FuzzParseRate(f *testing.F) {
	for _, seed := range []string{"1.5Mpps", "10GbpsL1", "80%", "0.5x", "10 apples", "999999999999999999999999.9Gpps"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func() (Quantity, error){
			func() (Quantity, error) { return ParseRate(spatev1.Rate(text)) },
			func() (Quantity, error) { return ParseAbsoluteRate(spatev1.AbsoluteRate(text)) },
			func() (Quantity, error) {
				scaled, err := ParseScaledRate(spatev1.ScaledRate(text))
				return scaled.Quantity, err
			},
		} {
			quantity, err := parse()
			if err != nil || text == "" {
				continue
			}
			if quantity.Value.Sign() <= 0 {
				t.Fatalf("%q is %v", text, quantity.Value)
			}
			total := strings.TrimSuffix(text, "/port")
			if written, plain := strings.CutSuffix(strings.TrimSuffix(total, "%"), "x"); plain || strings.HasSuffix(total, "%") {
				if number, ok := new(big.Rat).SetString(written); !ok || number.Cmp(quantity.Value) != 0 {
					t.Fatalf("%q is %v", text, quantity.Value)
				}
			}
		}
		if bits, err := ParseBitRate(spatev1.BitRate(text)); err == nil && bits == 0 {
			t.Fatalf("%q is nothing", text)
		}
		if most, err := Tolerated(spatev1.Tolerance(text), 1000); err == nil && strings.HasSuffix(text, "%") && most > 1000 {
			t.Fatalf("%q of 1000 is %d", text, most)
		}
	})
}

func TestParseScaledRate(t *testing.T) {
	for text, want := range map[spatev1.ScaledRate]struct {
		value   *big.Rat
		unit    Unit
		perPort bool
	}{
		"":           {big.NewRat(1, 1), Factor, false},
		"2x":         {big.NewRat(2, 1), Factor, false},
		"0.5x":       {big.NewRat(1, 2), Factor, false},
		"1Mpps":      {big.NewRat(1e6, 1), PacketsPerSecond, false},
		"10GbpsL1":   {big.NewRat(1e10, 1), L1BitsPerSecond, false},
		"80%":        {big.NewRat(80, 1), LinePercent, false},
		"1Mpps/port": {big.NewRat(1e6, 1), PacketsPerSecond, true},
		"10bps/port": {big.NewRat(10, 1), L2BitsPerSecond, true},
		"0.1%/port":  {big.NewRat(1, 10), LinePercent, true},
		"2x/port":    {},
		"0%":         {},
		"0x":         {},
		"1Mpps/":     {},
		"1Mpps/Port": {},
		"/port":      {},
		"1Mcps":      {},
		"5":          {},
	} {
		got, err := ParseScaledRate(text)
		if want.value == nil {
			if err == nil {
				t.Errorf("%q is taken for %v", text, got)
			}
			continue
		}
		if err != nil || got.Unit != want.unit || got.PerPort != want.perPort || got.Value.Cmp(want.value) != 0 {
			t.Errorf("%q: got %v %v", text, got, err)
		}
	}
}

func TestParseSearchRate(t *testing.T) {
	for text, want := range map[spatev1.SearchRate]struct {
		value *big.Rat
		unit  Unit
		words string
	}{
		"300cps":     {big.NewRat(300, 1), ConnectionsPerSecond, ""},
		"1.5kcps":    {big.NewRat(1500, 1), ConnectionsPerSecond, ""},
		"2.5ktps":    {big.NewRat(2500, 1), TransactionsPerSecond, ""},
		"0tps":       {nil, 0, "greater than zero"},
		"2x":         {big.NewRat(2, 1), Factor, ""},
		"80%/port":   {big.NewRat(80, 1), LinePercent, ""},
		"10kconn":    {big.NewRat(1e4, 1), OpenConnections, ""},
		"0conn":      {nil, 0, "greater than zero"},
		"0cps":       {nil, 0, "greater than zero"},
		"0x":         {nil, 0, "must be greater than zero"},
		"5cps/port":  {nil, 0, "or connections a second such as 300cps, transactions a second such as 3ktps"},
		"Infinitcps": {nil, 0, "connections a second such as 100cps"},
	} {
		got, err := ParseSearchRate(text)
		if want.value == nil {
			if err == nil || !strings.Contains(err.Error(), want.words) {
				t.Errorf("%q: %v %v", text, got, err)
			}
			continue
		}
		if err != nil || got.Unit != want.unit || got.Value.Cmp(want.value) != 0 {
			t.Errorf("%q: got %v %v", text, got, err)
		}
	}
}
