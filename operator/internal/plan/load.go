// SPDX-License-Identifier: Apache-2.0

// What does traffic ask of a generator's ports, and may it?

package plan

import (
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/operator/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/packet"
)

// mediumBytes is what each packet takes on the medium beside its frame: preamble, start delimiter, inter-frame gap.
const mediumBytes = 20

// Load is what traffic asks for, over all engines of a generator.
type Load struct {
	Packets, L2Bits, L1Bits *big.Rat
	// Ports has the layer-1 bits a second of each transmitting port, over all engines.
	Ports map[string]*big.Rat
}

func newLoad() Load {
	return Load{Packets: new(big.Rat), L2Bits: new(big.Rat), L1Bits: new(big.Rat), Ports: map[string]*big.Rat{}}
}

func (l *Load) add(port string, packets *big.Rat, wireBytes int) {
	l1 := times(packets, int64(wireBytes+mediumBytes)*8)
	l.Packets.Add(l.Packets, packets)
	l.L2Bits.Add(l.L2Bits, times(packets, int64(wireBytes)*8))
	l.L1Bits.Add(l.L1Bits, l1)
	if l.Ports[port] == nil {
		l.Ports[port] = new(big.Rat)
	}
	l.Ports[port].Add(l.Ports[port], l1)
}

// Plus gives both loads together.
func (l Load) Plus(others ...Load) Load {
	sum := l.Scaled(big.NewRat(1, 1))
	for _, other := range others {
		sum.Packets.Add(sum.Packets, other.Packets)
		sum.L2Bits.Add(sum.L2Bits, other.L2Bits)
		sum.L1Bits.Add(sum.L1Bits, other.L1Bits)
		for port, bits := range other.Ports {
			if sum.Ports[port] == nil {
				sum.Ports[port] = new(big.Rat)
			}
			sum.Ports[port].Add(sum.Ports[port], bits)
		}
	}
	return sum
}

// Scaled gives the load at a factor.
func (l Load) Scaled(factor *big.Rat) Load {
	scaled := newLoad()
	scaled.Packets.Mul(l.Packets, factor)
	scaled.L2Bits.Mul(l.L2Bits, factor)
	scaled.L1Bits.Mul(l.L1Bits, factor)
	for port, bits := range l.Ports {
		scaled.Ports[port] = new(big.Rat).Mul(bits, factor)
	}
	return scaled
}

// in gives the load in a unit.
func (l Load) in(unit Unit) *big.Rat {
	switch unit {
	case PacketsPerSecond:
		return l.Packets
	case L2BitsPerSecond:
		return l.L2Bits
	default:
		return l.L1Bits
	}
}

// LoadOf gives what a plan asks for at its own rates; disabled streams ask for nothing.
func LoadOf(plan *enginev1.Plan) (Load, error) {
	load := newLoad()
	for _, stream := range plan.GetStreams() {
		if stream.GetDisabled() {
			continue
		}
		wire := len(stream.GetPacket().GetFrame()) + packet.FCSBytes
		packets, err := packetsOf(stream.GetContinuous().GetRate(), wire)
		if err != nil {
			return Load{}, fmt.Errorf("stream %s: %w", stream.GetName(), err)
		}
		load.add(stream.GetTxPort(), packets, wire)
	}
	return load, nil
}

// packetsOf gives a plan's rate in packets a second.
func packetsOf(rate *enginev1.Rate, wireBytes int) (*big.Rat, error) {
	ratio, quantity := (*enginev1.Ratio)(nil), Quantity{}
	switch kind := rate.GetKind().(type) {
	case *enginev1.Rate_PacketsPerSecond:
		ratio, quantity.Unit = kind.PacketsPerSecond, PacketsPerSecond
	case *enginev1.Rate_L2BitsPerSecond:
		ratio, quantity.Unit = kind.L2BitsPerSecond, L2BitsPerSecond
	case *enginev1.Rate_L1BitsPerSecond:
		ratio, quantity.Unit = kind.L1BitsPerSecond, L1BitsPerSecond
	default:
		return nil, fmt.Errorf("its rate depends on a port")
	}
	if ratio.GetDenominator() == 0 {
		return nil, fmt.Errorf("its rate has a denominator of 0")
	}
	quantity.Value = rational(ratio)
	return quantity.packets(wireBytes), nil
}

// packets gives an absolute rate in packets a second of frames of this length.
func (q Quantity) packets(wireBytes int) *big.Rat {
	switch q.Unit {
	case L2BitsPerSecond:
		return new(big.Rat).Quo(q.Value, new(big.Rat).SetInt64(int64(wireBytes)*8))
	case L1BitsPerSecond:
		return new(big.Rat).Quo(q.Value, new(big.Rat).SetInt64(int64(wireBytes+mediumBytes)*8))
	default:
		return q.Value
	}
}

// CheckLoad tells whether a generator's limits and line rates allow a load: one profile's, or that of all that run at
// once. `at` is the field to blame.
func CheckLoad(load Load, generator *spatev1.TrafficGenerator, at *field.Path) Problems {
	var problems Problems
	if limits := generator.Spec.Limits; limits != nil && limits.MaxRate != "" {
		most, err := ParseAbsoluteRate(limits.MaxRate)
		switch {
		case err != nil:
			problems.add(spatev1.ReasonInvalidSpec, at, "the limits.maxRate of generator %s, %q: %v", generator.Name, limits.MaxRate, err)
		case load.in(most.Unit).Cmp(most.Value) > 0:
			problems.add(spatev1.ReasonLimitExceeded, at, "the traffic needs %s in all, and generator %s allows %s (its spec.limits.maxRate); lower the rates",
				FormatRate(load.in(most.Unit), unitName[most.Unit]), generator.Name, limits.MaxRate)
		}
	}
	ports := newPorts(generator)
	for _, name := range slices.Sorted(maps.Keys(load.Ports)) {
		line := ports.lineRate(name)
		if line == nil {
			continue
		}
		available := times(line, ports.engines)
		if load.Ports[name].Cmp(available) > 0 {
			problems.add(spatev1.ReasonOversubscribed, at, "port %s of generator %s would have to carry %s on layer 1, and can carry %s%s; lower the rates",
				name, generator.Name, FormatRate(load.Ports[name], "bps"), FormatRate(available, "bps"), ports.overEngines())
		}
	}
	return problems
}

var unitName = map[Unit]string{PacketsPerSecond: "pps", L2BitsPerSecond: "bpsL2", L1BitsPerSecond: "bpsL1"}

// checkDestinations judges where a frame goes by its bytes, however they were described.
func checkDestinations(frame []byte, generator *spatev1.TrafficGenerator, at *field.Path) Problems {
	var problems Problems
	limits := generator.Spec.Limits
	if limits == nil || len(limits.AllowedDestinations)+len(limits.AllowedPorts) == 0 {
		return nil
	}
	refuse := func(limit, allowed, format string, args ...any) {
		problems.add(spatev1.ReasonLimitExceeded, at, "%s; generator %s allows %s (its spec.limits.%s)",
			fmt.Sprintf(format, args...), generator.Name, allowed, limit)
	}
	seen := packet.Inspect(frame)
	if prefixes := limits.AllowedDestinations; len(prefixes) > 0 {
		allowed := "only " + joined(prefixes)
		switch {
		case seen.Opaque != "":
			refuse("allowedDestinations", allowed, "where the packet goes cannot be told: %s", seen.Opaque)
		case len(seen.Destinations) == 0:
			refuse("allowedDestinations", allowed, "the packet is not IP")
		}
		for _, destination := range seen.Destinations {
			if !slices.ContainsFunc(prefixes, func(p spatev1.CIDR) bool { return holds(p, destination) }) {
				refuse("allowedDestinations", allowed, "the packet goes to %s", destination)
			}
		}
	}
	if ranges := limits.AllowedPorts; len(ranges) > 0 {
		allowed := "only " + joined(ranges)
		switch {
		case !seen.Transport:
			refuse("allowedPorts", allowed, "the packet is neither TCP nor UDP")
		case !slices.ContainsFunc(ranges, func(r spatev1.PortRange) bool { return inRange(r, seen.DestinationPort) }):
			refuse("allowedPorts", allowed, "the packet goes to port %d", seen.DestinationPort)
		}
	}
	return problems
}

func holds(prefix spatev1.CIDR, address netip.Addr) bool {
	network, err := netip.ParsePrefix(string(prefix))
	return err == nil && network.Contains(address.Unmap())
}

func inRange(ports spatev1.PortRange, port uint16) bool {
	low, high, ranged := strings.Cut(string(ports), "-")
	if !ranged {
		high = low
	}
	first, errFirst := strconv.ParseUint(low, 10, 16)
	last, errLast := strconv.ParseUint(high, 10, 16)
	return errFirst == nil && errLast == nil && first <= uint64(port) && uint64(port) <= last
}

func joined[T ~string](items []T) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = string(item)
	}
	return strings.Join(texts, ", ")
}

func times(value *big.Rat, n int64) *big.Rat {
	return new(big.Rat).Mul(value, new(big.Rat).SetInt64(n))
}

// rational gives a plan's ratio, whose denominator is not 0.
func rational(ratio *enginev1.Ratio) *big.Rat {
	return new(big.Rat).SetFrac(new(big.Int).SetUint64(ratio.GetNumerator()), new(big.Int).SetUint64(ratio.GetDenominator()))
}

// Ratio gives a rational number as the contract has it, if it fits.
func Ratio(value *big.Rat) (*enginev1.Ratio, error) {
	if !value.Num().IsUint64() || !value.Denom().IsUint64() {
		return nil, fmt.Errorf("%s is no fraction of 64-bit numbers; use a rounder one", value.RatString())
	}
	return &enginev1.Ratio{Numerator: value.Num().Uint64(), Denominator: value.Denom().Uint64()}, nil
}
