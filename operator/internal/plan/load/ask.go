// SPDX-License-Identifier: Apache-2.0

// Which load does one stream of a plan cause?

package load

import (
	"errors"
	"fmt"
	"math/big"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/packet"
	"spate.dev/operator/internal/plan/capture"
	"spate.dev/operator/internal/plan/quantity"
)

// ask is the load of one stream.
type ask struct {
	place                   Place
	packets, l2Bits, l1Bits *big.Rat
}

func askOf(s *enginev1.Stream) (ask, error) {
	var packets, wire *big.Rat
	var err error
	switch mode := s.GetTransmit().(type) {
	case *enginev1.Stream_Continuous:
		wire = meanWire(s)
		packets, err = packetsOf(mode.Continuous.GetRate(), wire)
	case *enginev1.Stream_Bursts:
		wire = meanWire(s)
		packets, err = packetsOf(mode.Bursts.GetRate(), wire)
	case *enginev1.Stream_Replay:
		packets, wire, err = replayAsks(mode.Replay)
	default:
		err = errors.New("it has no way to transmit")
	}
	if err != nil {
		return ask{}, err
	}
	bits := func(overhead int64) *big.Rat {
		each := new(big.Rat).Add(wire, big.NewRat(overhead, 1))
		return each.Mul(each, quantity.Times(packets, 8))
	}
	return ask{place: placeOf(s.GetTxPort(), s.GetEngines()), packets: packets, l2Bits: bits(0), l1Bits: bits(mediumBytes)}, nil
}

// replayAsks returns a replay's packets per second, and their mean size with FCS. For a file on a volume only the gaps
// in the spec are known, and a half counts as one half of its packets.
func replayAsks(r *enginev1.Replay) (packets, wire *big.Rat, err error) {
	read := r.GetData().GetCapture()
	wire = big.NewRat(packet.MinFrameBytes+packet.FCSBytes, 1)
	if data := r.GetPcap(); data != nil {
		whole, err := capture.Read(data)
		if err != nil {
			return nil, nil, err
		}
		read = whole.Summary(r.GetHalf())
	}
	if read.GetPackets() > 0 {
		wire = capture.MeanWire(read)
	}
	captured, part := max(read.GetCaptured(), read.GetPackets()), big.NewRat(1, 1)
	switch {
	case r.GetHalf() == nil:
	case captured == 0:
		part = big.NewRat(1, 2)
	default:
		part = big.NewRat(int64(read.GetPackets()), int64(captured))
	}
	least := new(big.Rat).SetInt(new(big.Int).SetUint64(r.GetMinGapNs()))
	gap := new(big.Rat)
	switch {
	case r.GetFixedNs() > 0:
		gap.SetInt(new(big.Int).SetUint64(r.GetFixedNs()))
	case captured > 1 && r.GetScale().GetDenominator() != 0:
		gap.Mul(big.NewRat(int64(read.GetSpanNs()), int64(captured-1)), quantity.Rational(r.GetScale()))
	default:
		return new(big.Rat), wire, nil
	}
	if gap.Cmp(least) < 0 {
		gap = least
	}
	if gap.Sign() == 0 {
		return new(big.Rat), wire, nil // all packets have the same time: as fast as the port
	}
	return part.Mul(part, new(big.Rat).Quo(big.NewRat(1e9, 1), gap)), wire, nil
}

// meanWire returns the mean size of a stream's packets with FCS.
func meanWire(s *enginev1.Stream) *big.Rat {
	wire := big.NewRat(int64(len(s.GetPacket().GetFrame()))+packet.FCSBytes, 1)
	switch kind := s.GetPacket().GetSizes().GetKind().(type) {
	case *enginev1.Sizes_List:
		sum, weights := new(big.Rat), int64(0)
		for _, size := range kind.List.GetSizes() {
			sum.Add(sum, big.NewRat(int64(size.GetBytes())*int64(size.GetWeight()), 1))
			weights += int64(size.GetWeight())
		}
		if weights > 0 {
			wire = sum.Add(sum.Quo(sum, big.NewRat(weights, 1)), big.NewRat(packet.FCSBytes, 1))
		}
	case *enginev1.Sizes_Variable:
		for _, v := range s.GetProgram().GetVariables() {
			if v.GetName() == kind.Variable {
				wire = new(big.Rat).Add(meanOf(v), big.NewRat(packet.FCSBytes, 1))
			}
		}
	}
	return wire
}

// meanOf returns the mean of a variable's values.
func meanOf(v *enginev1.Variable) *big.Rat {
	middle := func(low, high uint64) *big.Rat {
		sum := new(big.Int).Add(new(big.Int).SetUint64(low), new(big.Int).SetUint64(high))
		return new(big.Rat).SetFrac(sum, big.NewInt(2))
	}
	switch kind := v.GetKind().(type) {
	case *enginev1.Variable_Counter:
		return middle(kind.Counter.GetMin(), kind.Counter.GetMax())
	case *enginev1.Variable_Random:
		return middle(kind.Random.GetMin(), kind.Random.GetMax())
	}
	sum := new(big.Int)
	for _, one := range v.GetList().GetValues() {
		sum.Add(sum, new(big.Int).SetUint64(one))
	}
	return new(big.Rat).SetFrac(sum, big.NewInt(int64(max(len(v.GetList().GetValues()), 1))))
}

// packetsOf returns a plan's rate in packets per second.
func packetsOf(rate *enginev1.Rate, wire *big.Rat) (*big.Rat, error) {
	ratio, requested := (*enginev1.Ratio)(nil), quantity.Quantity{}
	switch kind := rate.GetKind().(type) {
	case *enginev1.Rate_PacketsPerSecond:
		ratio, requested.Unit = kind.PacketsPerSecond, quantity.PacketsPerSecond
	case *enginev1.Rate_L2BitsPerSecond:
		ratio, requested.Unit = kind.L2BitsPerSecond, quantity.L2BitsPerSecond
	case *enginev1.Rate_L1BitsPerSecond:
		ratio, requested.Unit = kind.L1BitsPerSecond, quantity.L1BitsPerSecond
	default:
		return nil, fmt.Errorf("its rate depends on a port")
	}
	if ratio.GetDenominator() == 0 {
		return nil, fmt.Errorf("its rate has a denominator of 0")
	}
	requested.Value = quantity.Rational(ratio)
	return packetsAt(requested, wire), nil
}

// packetsAt returns an absolute rate in packets per second of frames of this mean size, FCS included.
func packetsAt(q quantity.Quantity, wire *big.Rat) *big.Rat {
	eight := big.NewRat(8, 1)
	switch q.Unit {
	case quantity.L2BitsPerSecond:
		return new(big.Rat).Quo(q.Value, eight.Mul(eight, wire))
	case quantity.L1BitsPerSecond:
		return new(big.Rat).Quo(q.Value, eight.Mul(eight, new(big.Rat).Add(wire, big.NewRat(mediumBytes, 1))))
	default:
		return q.Value
	}
}
