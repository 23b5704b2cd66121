// SPDX-License-Identifier: Apache-2.0

// Package load answers: how much traffic do a generator's ports have to carry, and is that allowed?
package load

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/ports"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/quantity"
)

// mediumBytes is what a packet occupies on the medium beside its frame: preamble, start delimiter, inter-frame gap.
const mediumBytes = 20

// Load is the requested traffic, over all engines of a generator.
type Load struct {
	Packets, L2Bits, L1Bits *big.Rat
	// Ports has the rates of each transmitting port, over the engines that send from it.
	Ports map[Place]*PortLoad
}

// Place is a port on some engines, which send equal parts of what is sent there.
type Place struct {
	Port string
	// First is the index of the first engine, and Count the number of engines; 0 for all.
	First, Count int64
}

func placeOf(port string, engines *enginev1.Engines) Place {
	return Place{port, int64(engines.GetFirst()), int64(engines.GetCount())}
}

// EnginesIn returns the number of engines of a part of a plan, of those that there are.
func EnginesIn(engines *enginev1.Engines, all int64) int64 { return placeOf("", engines).among(all) }

// among returns the number of its engines, of those that there are.
func (p Place) among(all int64) int64 {
	if p.Count == 0 {
		return all
	}
	return p.Count
}

// within returns which fraction of what another place sends is sent by the engines of this one.
func (p Place) within(other Place, all int64) *big.Rat {
	from, to := max(p.First, other.First), min(p.First+p.among(all), other.First+other.among(all))
	return big.NewRat(max(to-from, 0), other.among(all))
}

// compare orders places by port and engines.
func (p Place) compare(other Place) int {
	return cmp.Or(cmp.Compare(p.Port, other.Port), cmp.Compare(p.First, other.First), cmp.Compare(p.Count, other.Count))
}

// PortLoad is the requested traffic of one port.
type PortLoad struct{ Packets, L2Bits, L1Bits *big.Rat }

func newLoad() Load {
	return Load{Packets: new(big.Rat), L2Bits: new(big.Rat), L1Bits: new(big.Rat), Ports: map[Place]*PortLoad{}}
}

func (l *Load) add(a ask) {
	l.Packets.Add(l.Packets, a.packets)
	l.L2Bits.Add(l.L2Bits, a.l2Bits)
	l.L1Bits.Add(l.L1Bits, a.l1Bits)
	l.addPort(a.place, &PortLoad{a.packets, a.l2Bits, a.l1Bits})
}

func (l *Load) addPort(name Place, more *PortLoad) {
	port := l.Ports[name]
	if port == nil {
		port = &PortLoad{new(big.Rat), new(big.Rat), new(big.Rat)}
		l.Ports[name] = port
	}
	port.Packets.Add(port.Packets, more.Packets)
	port.L2Bits.Add(port.L2Bits, more.L2Bits)
	port.L1Bits.Add(port.L1Bits, more.L1Bits)
}

// Busiest returns the packets a second of the port that transmits most; 0 if none does.
func (l Load) Busiest() *big.Rat {
	most := new(big.Rat)
	for _, port := range l.Ports {
		if port.Packets.Cmp(most) > 0 {
			most = port.Packets
		}
	}
	return most
}

// Plus returns the sum of the loads.
func (l Load) Plus(others ...Load) Load {
	sum := l.Scaled(big.NewRat(1, 1))
	for _, other := range others {
		sum.Packets.Add(sum.Packets, other.Packets)
		sum.L2Bits.Add(sum.L2Bits, other.L2Bits)
		sum.L1Bits.Add(sum.L1Bits, other.L1Bits)
		for name, port := range other.Ports {
			sum.addPort(name, port)
		}
	}
	return sum
}

// Scaled returns the load at a factor.
func (l Load) Scaled(factor *big.Rat) Load {
	scaled := newLoad()
	scaled.Packets.Mul(l.Packets, factor)
	scaled.L2Bits.Mul(l.L2Bits, factor)
	scaled.L1Bits.Mul(l.L1Bits, factor)
	for name, port := range l.Ports {
		scaled.Ports[name] = &PortLoad{
			new(big.Rat).Mul(port.Packets, factor), new(big.Rat).Mul(port.L2Bits, factor), new(big.Rat).Mul(port.L1Bits, factor),
		}
	}
	return scaled
}

// in returns the load in a unit.
func (l Load) in(unit quantity.Unit) *big.Rat {
	switch unit {
	case quantity.PacketsPerSecond:
		return l.Packets
	case quantity.L2BitsPerSecond:
		return l.L2Bits
	default:
		return l.L1Bits
	}
}

// in returns the rate of a port in a unit.
func (p *PortLoad) in(unit quantity.Unit) *big.Rat {
	return Load{Packets: p.Packets, L2Bits: p.L2Bits, L1Bits: p.L1Bits}.in(unit)
}

// sendingPorts returns the ports that send, in order.
func (l Load) sendingPorts() []Place {
	places := slices.SortedFunc(maps.Keys(l.Ports), Place.compare)
	return slices.DeleteFunc(places, func(place Place) bool { return l.Ports[place].L1Bits.Sign() == 0 })
}

// factorPerPort returns the factor at which each port that sends has the wanted rate. All of them must have the same
// rate of their own, or the same share of their line rates.
func (l Load) factorPerPort(wanted quantity.Quantity, generator *spatev1.TrafficGenerator) (*big.Rat, error) {
	var factor *big.Rat
	first := Place{}
	for _, name := range l.sendingPorts() {
		rate := wanted.Value
		if wanted.Unit == quantity.LinePercent {
			line, err := lineRateOf(name, generator)
			if err != nil {
				return nil, err
			}
			rate = new(big.Rat).Mul(line, new(big.Rat).Mul(wanted.Value, big.NewRat(1, 100)))
		}
		own := new(big.Rat).Quo(rate, l.Ports[name].in(wanted.Unit))
		if factor != nil && factor.Cmp(own) != 0 {
			return nil, fmt.Errorf("ports %s and %s send at different rates of their own, and a rate for each port scales all entries by one factor: make them equal, or give a total without /port", first.Port, name.Port)
		}
		if factor == nil {
			factor, first = own, name
		}
	}
	return factor, nil
}

// lineRateOf returns a port's line rate over its engines, in bits per second.
func lineRateOf(place Place, generator *spatev1.TrafficGenerator) (*big.Rat, error) {
	if generator == nil {
		return nil, errors.New("the line rate is that of the generator, which does not exist")
	}
	all, name := ports.Of(generator), place.Port
	line := all.LineRate(name)
	if line == nil {
		if port := all.Find(name); port != nil {
			_, message := all.LineRateUnknown(port)
			return nil, errors.New(message)
		}
		return nil, fmt.Errorf("%q is no port of generator %s; it has %s", name, generator.Name, all.Names())
	}
	return quantity.Times(line, place.among(all.Engines)), nil
}

// Of returns the maximum load of a plan at its own rates. A burst counts with its rate, whatever the gaps. Streams
// of one chain take turns: for each of them that starts by itself, the chain counts as its fastest stream. A paused
// stream counts with the rate at which it may be resumed. A replay from a volume counts as far as it is known: packets
// at a fixed gap, of minimum size. Templates count with the minimum that their flows send.
func Of(plan *enginev1.Plan) (Load, error) {
	load, err := OfStreams(plan.GetStreams())
	if err != nil {
		return Load{}, err
	}
	return load.Plus(OfFlows(plan.GetStateful())), nil
}

// OfFlows returns the load of templates at their rates.
func OfFlows(stateful *enginev1.Stateful) Load {
	load := newLoad()
	for _, a := range flowAsks(stateful) {
		load.add(a)
	}
	return load
}

// together is the load of the streams of one chain.
type together struct {
	sum, most ask
	starts    int64
}

// OfStreams returns the load of streams at their rates.
func OfStreams(streams []*enginev1.Stream) (Load, error) {
	chains := map[int]*together{}
	var order []int
	for i, number := range turns(streams) {
		s := streams[i]
		a, err := askOf(s)
		if err != nil {
			return Load{}, fmt.Errorf("stream %s: %w", s.GetName(), err)
		}
		chain := chains[number]
		if chain == nil {
			none := func() *big.Rat { return new(big.Rat) }
			chain = &together{sum: ask{a.place, none(), none(), none()}, most: ask{a.place, none(), none(), none()}}
			chains[number], order = chain, append(order, number)
		}
		chain.add(a, !s.GetWaits())
	}
	load := newLoad()
	for _, number := range order {
		load.add(chains[number].worst())
	}
	return load, nil
}

func (t *together) add(a ask, starts bool) {
	for _, part := range []struct{ sum, most, of *big.Rat }{
		{t.sum.packets, t.most.packets, a.packets}, {t.sum.l2Bits, t.most.l2Bits, a.l2Bits}, {t.sum.l1Bits, t.most.l1Bits, a.l1Bits},
	} {
		part.sum.Add(part.sum, part.of)
		if part.of.Cmp(part.most) > 0 {
			part.most.Set(part.of)
		}
	}
	if starts {
		t.starts++
	}
}

func (t *together) worst() ask {
	least := func(sum, most *big.Rat) *big.Rat {
		if all := quantity.Times(most, max(t.starts, 1)); all.Cmp(sum) < 0 {
			return all
		}
		return sum
	}
	return ask{t.sum.place, least(t.sum.packets, t.most.packets), least(t.sum.l2Bits, t.most.l2Bits), least(t.sum.l1Bits, t.most.l1Bits)}
}

// Check reports a load that exceeds a generator's limits and line rates: the load of one profile, or of all
// concurrent runs. `at` is the field to report.
func Check(load Load, generator *spatev1.TrafficGenerator, at *field.Path) problem.Problems {
	return append(CheckMaxRate(load, generator, at), CheckLineRates(load, generator, at)...)
}

// CheckMaxRate reports a load that exceeds a generator's limits.maxRate.
func CheckMaxRate(load Load, generator *spatev1.TrafficGenerator, at *field.Path) problem.Problems {
	var problems problem.Problems
	if limits := generator.Spec.Limits; limits != nil && limits.MaxRate != "" {
		most, err := quantity.ParseAbsoluteRate(limits.MaxRate)
		switch {
		case err != nil:
			problems.Add(spatev1.ReasonInvalidSpec, at, "the limits.maxRate of generator %s, %q: %v", generator.Name, limits.MaxRate, err)
		case load.in(most.Unit).Cmp(most.Value) > 0:
			problems.Add(spatev1.ReasonLimitExceeded, at, "the traffic needs %s in all, and generator %s allows %s (its spec.limits.maxRate); lower the rates",
				quantity.FormatRate(load.in(most.Unit), unitName[most.Unit]), generator.Name, limits.MaxRate)
		default:
			problems = append(problems, checkPart(load, most, generator, at)...)
		}
	}
	return problems
}

// checkPart reports a load of some engines that exceeds their part of a generator's limits.maxRate, of which each engine has an equal one.
func checkPart(load Load, most quantity.Quantity, generator *spatev1.TrafficGenerator, at *field.Path) (problems problem.Problems) {
	all := ports.Of(generator).Engines
	places := slices.SortedFunc(maps.Keys(load.Ports), Place.compare)
	for i, place := range places {
		same := func(other Place) bool { return other.First == place.First && other.Count == place.Count }
		if place.Count == 0 || slices.ContainsFunc(places[:i], same) {
			continue
		}
		need := new(big.Rat)
		for other, sent := range load.Ports {
			need.Add(need, new(big.Rat).Mul(sent.in(most.Unit), place.within(other, all)))
		}
		part := new(big.Rat).Mul(most.Value, big.NewRat(place.Count, all))
		if need.Cmp(part) > 0 {
			problems.Add(spatev1.ReasonLimitExceeded, at, "the traffic needs %s%s, and these may send %s, their part of the %s that generator %s allows to all its %d pods (its spec.limits.maxRate); lower the rates, or use more pods",
				quantity.FormatRate(need, unitName[most.Unit]), engines(place), quantity.FormatRate(part, unitName[most.Unit]), generator.Spec.Limits.MaxRate, generator.Name, all)
		}
	}
	return problems
}

// engines returns the words for the pods of some engines.
func engines(place Place) string {
	if place.Count == 1 {
		return fmt.Sprintf(" of pod %d", place.First)
	}
	return fmt.Sprintf(" of pods %d to %d", place.First, place.First+place.Count-1)
}

// CheckLineRates reports a load that exceeds the line rates of a generator's ports.
func CheckLineRates(load Load, generator *spatev1.TrafficGenerator, at *field.Path) problem.Problems {
	var problems problem.Problems
	all := ports.Of(generator)
	for _, place := range slices.SortedFunc(maps.Keys(load.Ports), Place.compare) {
		line, need := all.LineRate(place.Port), new(big.Rat)
		if line == nil {
			continue
		}
		for other, sent := range load.Ports {
			if other.Port == place.Port {
				need.Add(need, new(big.Rat).Mul(sent.L1Bits, place.within(other, all.Engines)))
			}
		}
		count := place.among(all.Engines)
		if available := quantity.Times(line, count); need.Cmp(available) > 0 {
			problems.Add(spatev1.ReasonOversubscribed, at, "port %s of generator %s would have to carry %s on layer 1, and can carry %s%s; lower the rates",
				place.Port, generator.Name, quantity.FormatRate(need, "bps"), quantity.FormatRate(available, "bps"), ports.OverEngines(count))
		}
	}
	return problems
}

// NoGreater reports whether a load does not exceed another one, in the unit of limits.maxRate; in packets and bits
// without it.
func (l Load) NoGreater(than Load, limits *spatev1.Limits) bool {
	counted := []quantity.Unit{quantity.PacketsPerSecond, quantity.L2BitsPerSecond, quantity.L1BitsPerSecond}
	if limits != nil {
		if most, err := quantity.ParseAbsoluteRate(limits.MaxRate); err == nil {
			counted = []quantity.Unit{most.Unit}
		}
	}
	return !slices.ContainsFunc(counted, func(unit quantity.Unit) bool { return l.in(unit).Cmp(than.in(unit)) > 0 })
}

// EngineRate returns each engine's part of limits.maxRate; nil if there is none. Its errors say what is wrong with
// limits.maxRate.
func EngineRate(limits *spatev1.Limits, engines int) (*enginev1.Rate, error) {
	if limits == nil || limits.MaxRate == "" || engines == 0 {
		return nil, nil
	}
	most, err := quantity.ParseAbsoluteRate(limits.MaxRate)
	if err != nil {
		return nil, err
	}
	ratio, err := quantity.Ratio(new(big.Rat).Quo(most.Value, new(big.Rat).SetInt64(int64(engines))))
	if err != nil {
		return nil, fmt.Errorf("as each engine's part, %w", err)
	}
	return quantity.PlanRate(most.Unit, ratio), nil
}

var unitName = map[quantity.Unit]string{quantity.PacketsPerSecond: "pps", quantity.L2BitsPerSecond: "bpsL2", quantity.L1BitsPerSecond: "bpsL1"}
