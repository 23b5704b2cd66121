// SPDX-License-Identifier: Apache-2.0

// Package quantity answers: which values do quantities in specs have, and how do people and plans read them? They are
// exact: decimal text becomes a rational number, never a float.
package quantity

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"

	spatev1 "spate.dev/api/v1alpha1"
)

// Unit is what a rate counts.
type Unit int

// The units of rates.
const (
	// PacketsPerSecond counts packets.
	PacketsPerSecond Unit = iota + 1
	// L2BitsPerSecond counts bits of frames, FCS included.
	L2BitsPerSecond
	// L1BitsPerSecond counts bits on the medium: L2 and 20 bytes per packet.
	L1BitsPerSecond
	// LinePercent is a share of a port's line rate, on layer 1.
	LinePercent
	// Factor multiplies other rates.
	Factor
	// ConnectionsPerSecond counts connections of templates.
	ConnectionsPerSecond
	// TransactionsPerSecond counts transactions of templates: requests that are answered.
	TransactionsPerSecond
	// OpenConnections counts connections of templates that are open at the same time.
	OpenConnections
)

var units = map[string]Unit{
	"pps": PacketsPerSecond, "bps": L2BitsPerSecond, "bpsL2": L2BitsPerSecond, "bpsL1": L1BitsPerSecond, "%": LinePercent, "x": Factor,
	"tps": TransactionsPerSecond, "conn": OpenConnections,
}

// Quantity is a positive amount of a unit.
type Quantity struct {
	Value *big.Rat
	Unit  Unit
}

var (
	ratePattern   = regexp.MustCompile(`^([0-9]{1,24}(?:\.[0-9]{1,24})?)(?:([kMGT]?)(pps|bpsL1|bpsL2|bps)|(%|x))$`)
	countPattern  = regexp.MustCompile(`^[0-9]{1,18}$`)
	applications  = regexp.MustCompile(`^([0-9]{1,24}(?:\.[0-9]{1,24})?)([kMG]?)(conn|tps)$`)
	connections   = regexp.MustCompile(`^([0-9]{1,24}(?:\.[0-9]{1,24})?)([kMG]?)cps$`)
	clients       = regexp.MustCompile(`^([0-9]{1,12}(?:\.[0-9]{1,6})?)([kM]?)/s$`)
	percentNumber = regexp.MustCompile(`^([0-9]{1,3}(?:\.[0-9]{1,18})?)%$`)
)

var prefixes = map[string]int64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

// parse reads a quantity of one of the units allowed; wanted describes the valid form.
func parse(text, wanted string, allowed ...Unit) (Quantity, error) {
	parts := ratePattern.FindStringSubmatch(text)
	if parts == nil {
		return Quantity{}, fmt.Errorf("must be %s", wanted)
	}
	unit := units[parts[3]+parts[4]]
	permitted := false
	for _, u := range allowed {
		permitted = permitted || u == unit
	}
	if !permitted {
		return Quantity{}, fmt.Errorf("must be %s", wanted)
	}
	value, ok := new(big.Rat).SetString(parts[1])
	if !ok {
		return Quantity{}, fmt.Errorf("must be %s", wanted)
	}
	value.Mul(value, new(big.Rat).SetInt64(prefixes[parts[2]]))
	if value.Sign() <= 0 {
		return Quantity{}, fmt.Errorf("must be greater than zero")
	}
	return Quantity{Value: value, Unit: unit}, nil
}

// ParseRate reads a stream's rate.
func ParseRate(rate spatev1.Rate) (Quantity, error) {
	return parse(string(rate), "a rate such as 1.5Mpps, 10Gbps (layer 2, FCS included), 10GbpsL1 or 80%",
		PacketsPerSecond, L2BitsPerSecond, L1BitsPerSecond, LinePercent)
}

// ParseAbsoluteRate reads a rate that does not depend on a port.
func ParseAbsoluteRate(rate spatev1.AbsoluteRate) (Quantity, error) {
	return parse(string(rate), "a rate such as 1.5Mpps, 10Gbps (layer 2, FCS included) or 10GbpsL1",
		PacketsPerSecond, L2BitsPerSecond, L1BitsPerSecond)
}

// ParseConnectionRate reads connections per second.
func ParseConnectionRate(rate spatev1.ConnectionRate) (*big.Rat, error) {
	parts := connections.FindStringSubmatch(string(rate))
	if parts == nil {
		return nil, fmt.Errorf("must be connections a second such as 100cps or 1.5Mcps")
	}
	return prefixed(parts)
}

// ParseClientRate reads emulated clients per second.
func ParseClientRate(rate spatev1.ClientRate) (*big.Rat, error) {
	parts := clients.FindStringSubmatch(string(rate))
	if parts == nil {
		return nil, fmt.Errorf("must be clients a second such as 5000/s or 0.5/s")
	}
	return prefixed(parts)
}

// prefixed reads a number with a decimal prefix, from the parts of a match.
func prefixed(parts []string) (*big.Rat, error) {
	value, ok := new(big.Rat).SetString(parts[1])
	if !ok || value.Sign() <= 0 {
		return nil, fmt.Errorf("must be greater than zero")
	}
	return value.Mul(value, new(big.Rat).SetInt64(prefixes[parts[2]])), nil
}

// ParseMixRate reads the rate of a mix: connections per second, or else bits per second of what applications send.
func ParseMixRate(rate spatev1.MixRate) (value *big.Rat, bits bool, err error) {
	const wanted = "connections a second such as 100kcps, or bits a second of what applications send such as 10Gbps"
	if strings.HasSuffix(string(rate), "cps") {
		if value, err = ParseConnectionRate(spatev1.ConnectionRate(rate)); err != nil && connections.MatchString(string(rate)) {
			return nil, false, err
		} else if err != nil {
			return nil, false, fmt.Errorf("must be %s", wanted)
		}
		return value, false, nil
	}
	quantity, err := parse(string(rate), wanted, L2BitsPerSecond)
	if err == nil && strings.HasSuffix(string(rate), "L2") {
		err = fmt.Errorf("must be %s: headers do not count", wanted)
	}
	return quantity.Value, true, err
}

// ScaledQuantity is the rate of a profile: a factor, or a total.
type ScaledQuantity struct {
	Quantity
	// PerPort is true if the total applies to each port that sends.
	PerPort bool
}

// ParseScaledRate reads the rate of a profile; an empty one is a factor of 1.
func ParseScaledRate(rate spatev1.ScaledRate) (ScaledQuantity, error) {
	if rate == "" {
		return ScaledQuantity{Quantity: Quantity{Value: big.NewRat(1, 1), Unit: Factor}}, nil
	}
	const wanted = "a factor such as 2x, a total such as 1Mpps, 10Gbps (layer 2, FCS included), 10GbpsL1 or 80%, or the total of each port such as 1Mpps/port"
	text, perPort := strings.CutSuffix(string(rate), "/port")
	quantity, err := parse(text, wanted, PacketsPerSecond, L2BitsPerSecond, L1BitsPerSecond, LinePercent, Factor)
	if err == nil && perPort && quantity.Unit == Factor {
		err = fmt.Errorf("must be %s", wanted)
	}
	return ScaledQuantity{Quantity: quantity, PerPort: perPort}, err
}

// ParseSearchRate reads a load of a search: the rate of a profile, or connections or transactions per second, or open connections, of all its
// templates.
func ParseSearchRate(rate spatev1.SearchRate) (ScaledQuantity, error) {
	if parts := applications.FindStringSubmatch(string(rate)); parts != nil {
		value, err := prefixed(parts)
		return ScaledQuantity{Quantity: Quantity{Value: value, Unit: units[parts[3]]}}, err
	}
	if strings.HasSuffix(string(rate), "cps") {
		value, err := ParseConnectionRate(spatev1.ConnectionRate(rate))
		return ScaledQuantity{Quantity: Quantity{Value: value, Unit: ConnectionsPerSecond}}, err
	}
	scaled, err := ParseScaledRate(spatev1.ScaledRate(rate))
	if err != nil && !strings.HasSuffix(err.Error(), "greater than zero") {
		err = fmt.Errorf("%w, or connections a second such as 300cps, transactions a second such as 3ktps, or open connections such as 10kconn", err)
	}
	return scaled, err
}

// ParseBitRate reads a bandwidth in whole bits per second.
func ParseBitRate(rate spatev1.BitRate) (uint64, error) {
	quantity, err := parse(string(rate), "a bandwidth such as 10Gbps", L2BitsPerSecond)
	if err != nil || strings.HasSuffix(string(rate), "L2") {
		return 0, fmt.Errorf("must be a bandwidth such as 10Gbps")
	}
	if !quantity.Value.IsInt() || !quantity.Value.Num().IsUint64() {
		return 0, fmt.Errorf("must be a whole number of bits a second, at most %d", uint64(1<<64-1))
	}
	return quantity.Value.Num().Uint64(), nil
}

// Tolerated returns how many packets of `sent` a tolerance accepts; a share is rounded down.
func Tolerated(tolerance spatev1.Tolerance, sent uint64) (uint64, error) {
	text := string(tolerance)
	if countPattern.MatchString(text) {
		count, _ := new(big.Int).SetString(text, 10)
		return count.Uint64(), nil
	}
	wrong := fmt.Errorf("must be a number of packets such as 100, or a share such as 0.1%%")
	parts := percentNumber.FindStringSubmatch(text)
	if parts == nil {
		return 0, wrong
	}
	share, ok := new(big.Rat).SetString(parts[1])
	if !ok || share.Cmp(big.NewRat(100, 1)) > 0 {
		return 0, wrong
	}
	share.Mul(share, new(big.Rat).SetFrac(new(big.Int).SetUint64(sent), big.NewInt(100)))
	return new(big.Int).Quo(share.Num(), share.Denom()).Uint64(), nil
}

// ParseFactor reads a factor written as an integer or as a fraction such as 3/2.
func ParseFactor(text string) (*big.Rat, error) {
	factor, ok := new(big.Rat).SetString(text)
	if !ok || factor.Sign() <= 0 || strings.ContainsAny(text, ".eE_xX") {
		return nil, fmt.Errorf("must be a whole number or a fraction such as 3/2, greater than zero")
	}
	return factor, nil
}

var decimalPrefixes = []struct {
	name  string
	value int64
}{{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}, {"", 1}}

// FormatRate formats a number for people, with at most three decimal places, such as "1.5Mpps".
func FormatRate(value *big.Rat, unit string) string {
	for _, prefix := range decimalPrefixes {
		scale := new(big.Rat).SetInt64(prefix.value)
		if value.Cmp(scale) >= 0 || prefix.value == 1 {
			text := new(big.Rat).Quo(value, scale).FloatString(3)
			return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + prefix.name + unit
		}
	}
	return "" // not reached: the last prefix has no upper bound
}

// FormatDecimal formats a number with up to 6 decimal places, without trailing zeros.
func FormatDecimal(value *big.Rat) string {
	return strings.TrimSuffix(strings.TrimRight(value.FloatString(6), "0"), ".")
}
