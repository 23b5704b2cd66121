// SPDX-License-Identifier: Apache-2.0

// How much traffic do the flows of templates cause on ports, at least?

package load

import (
	"maps"
	"math/big"
	"slices"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/packet"
	"spate.dev/operator/internal/plan/quantity"
)

// Lengths of headers: of Ethernet, IP and the transport.
const (
	ethernetHeader = 14
	ipv4Header     = 20
	ipv6Header     = 40
	tcpHeader      = 20
	udpHeader      = 8
)

// defaultMSS is the engine's maximum segment size if a template sets none.
const defaultMSS = 1460

// flowAsks returns the minimum load of each side of each template at the plan's rates. Data is known from programs, in
// as few packets as possible, with SYN and FIN for TCP; without acknowledgements and retransmissions. Of programs that
// jump, loop or switch, only what every flow sends counts. Templates derived from a capture count as nothing here:
// engines know their programs. Connections that a program opens for certain count with it.
func flowAsks(s *enginev1.Stateful) []ask {
	var asks []ask
	opened := openings{s, map[uint32]map[uint32]*big.Int{}}
	for i, t := range s.GetTemplates() {
		if t.GetClientPort() == "" || t.GetFlowsPerSecond().GetDenominator() == 0 {
			continue // other hosts determine the number of flows, or programs of other templates
		}
		flows := quantity.Rational(t.GetFlowsPerSecond())
		asks = append(asks, asksOf(s, t, flows)...)
		counts := opened.of(uint32(i))
		for _, other := range slices.Sorted(maps.Keys(counts)) {
			asks = append(asks, asksOf(s, s.Templates[other], new(big.Rat).Mul(flows, new(big.Rat).SetInt(counts[other])))...)
		}
	}
	return asks
}

// openings are the numbers of connections of other templates that a flow of a template opens at least, with those that these open.
type openings struct {
	s     *enginev1.Stateful
	known map[uint32]map[uint32]*big.Int
}

// of returns those of a template. Of templates that open each other, which engines refuse, it returns some.
func (o *openings) of(template uint32) map[uint32]*big.Int {
	if counts, found := o.known[template]; found {
		return counts
	}
	counts := map[uint32]*big.Int{}
	o.known[template] = counts
	add := func(of uint32, count *big.Int) {
		if counts[of] == nil {
			counts[of] = new(big.Int)
		}
		counts[of].Add(counts[of], count)
	}
	for _, instruction := range certain(o.s.GetTemplates()[template].GetClient()) {
		open := instruction.GetOpenConnection()
		if open == nil || open.Template == nil || int(open.GetTemplate()) >= len(o.s.GetTemplates()) || open.GetTemplate() == template {
			continue
		}
		add(open.GetTemplate(), big.NewInt(1))
		for of, count := range maps.Clone(o.of(open.GetTemplate())) {
			add(of, count)
		}
	}
	return counts
}

// asksOf returns the minimum load of each side of a template at a rate of its flows.
func asksOf(s *enginev1.Stateful, t *enginev1.Template, flows *big.Rat) []ask {
	var asks []ask
	for _, side := range []struct {
		place    Place
		program  *enginev1.Program
		tunables *enginev1.Tunables
	}{
		{placeOf(t.GetClientPort(), t.GetClientEngines()), t.GetClient(), t.GetClientTunables()},
		{placeOf(t.GetServerPort(), t.GetServerEngines()), t.GetServer(), t.GetServerTunables()},
	} {
		if side.place.Port == "" || side.program == nil {
			continue
		}
		packets, bytes := leastSent(s, t, side.program, side.tunables)
		l2 := quantity.Times(flows, 8*bytes)
		asks = append(asks, ask{
			place: side.place, packets: quantity.Times(flows, packets), l2Bits: l2, l1Bits: new(big.Rat).Add(l2, quantity.Times(flows, 8*mediumBytes*packets)),
		})
	}
	return asks
}

// leastSent returns the minimum number of packets that a flow of a side sends, and their bytes with FCS.
func leastSent(s *enginev1.Stateful, t *enginev1.Template, program *enginev1.Program, tunables *enginev1.Tunables) (packets, bytes int64) {
	network, mss := int64(ethernetHeader+ipv4Header), int64(defaultMSS)
	if isV6(s, t) {
		network = ethernetHeader + ipv6Header
	}
	if set := int64(tunables.GetMss()); set > 0 {
		mss = set
	}
	wire := func(frame int64) int64 { return max(frame, packet.MinFrameBytes) + packet.FCSBytes }
	data := int64(0)
	for _, instruction := range certain(program) {
		switch kind := instruction.GetKind().(type) {
		case *enginev1.Instruction_Send:
			data += PayloadLength(s, kind.Send.GetPayload())
		case *enginev1.Instruction_SendMessage:
			packets++
			bytes += wire(network + udpHeader + PayloadLength(s, kind.SendMessage.GetPayload()))
		}
	}
	if t.GetProtocol() == enginev1.TransportProtocol_TRANSPORT_PROTOCOL_TCP {
		segments := (data + mss - 1) / mss
		packets += segments + 2
		bytes += data + segments*(network+tcpHeader+packet.FCSBytes) + 2*wire(network+tcpHeader)
	}
	return packets, bytes
}

// certain returns the instructions that every flow executes.
func certain(program *enginev1.Program) []*enginev1.Instruction {
	all := program.GetInstructions()
	for at, instruction := range all {
		switch kind := instruction.GetKind().(type) {
		case *enginev1.Instruction_Jump:
			if int64(kind.Jump.GetTo()) > int64(at) {
				return all[:at] // the instructions after it may be skipped
			}
		case *enginev1.Instruction_SwitchTemplate, *enginev1.Instruction_Close, *enginev1.Instruction_Reset_, *enginev1.Instruction_LeaveOpen:
			return all[:at]
		}
	}
	return all
}

func isV6(s *enginev1.Stateful, t *enginev1.Template) bool {
	for _, weighted := range t.GetServers() {
		if pool := int(weighted.GetPool()); pool < len(s.GetPools()) {
			return len(s.GetPools()[pool].GetFirst()) == 16
		}
	}
	return false
}

// PayloadLength returns a payload's length.
func PayloadLength(s *enginev1.Stateful, payload uint32) int64 {
	if int(payload) >= len(s.GetPayloads()) {
		return 0
	}
	switch content := s.GetPayloads()[payload].GetContent().(type) {
	case *enginev1.Payload_Bytes:
		return int64(len(content.Bytes))
	case *enginev1.Payload_Data:
		return int64(min(content.Data.GetBytes(), 1<<50))
	case *enginev1.Payload_Size:
		return int64(min(content.Size, 1<<50)) // more than any port can send
	}
	return 0
}
