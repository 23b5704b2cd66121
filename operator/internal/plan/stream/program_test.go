// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// described returns a stream's spec.
func described(t *testing.T, text string) *spatev1.StatelessStreamSpec {
	t.Helper()
	s := &spatev1.StatelessStreamSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return s
}

// varied is a stream whose packet has fields of all widths; %s is replaced by its fields.
const varied = `
packet:
  headers:
  - ethernet: {}
  - vlan: {id: 100}
  - mpls: {label: 16}
  - ipv6: {source: "2001:db8::1", destination: "2001:db8:0:1::1"}
  - udp: {destinationPort: 7}
  size: 256
fields: %s
transmit: {continuous: {rate: 1pps}}
`

func programText(p *enginev1.FieldProgram) string {
	var lines []string
	for _, v := range p.GetVariables() {
		line := v.Name + ": "
		switch kind := v.Kind.(type) {
		case *enginev1.Variable_Counter:
			c := kind.Counter
			line += fmt.Sprintf("counter %d..%d step %d from %d", c.Min, c.Max, c.Step, c.First)
			if c.Down {
				line += " down"
			}
		case *enginev1.Variable_Random:
			line += fmt.Sprintf("random %d..%d seed %d", kind.Random.Min, kind.Random.Max, kind.Random.Seed)
		case *enginev1.Variable_List:
			line += fmt.Sprintf("list %v %s seed %d", kind.List.Values, strings.TrimPrefix(kind.List.Order.String(), "LIST_ORDER_"), kind.List.Seed)
		}
		if v.After != "" {
			line += " after " + v.After
		}
		if v.Limit > 0 {
			line += fmt.Sprintf(" limit %d", v.Limit)
		}
		if v.PerWorker {
			line += " per worker"
		}
		lines = append(lines, line)
	}
	for _, w := range p.GetWrites() {
		line := fmt.Sprintf("%s -> %d+%d", w.Variable, w.Offset, w.Size)
		if w.Add != 0 {
			line += fmt.Sprintf(" add %d", int64(w.Add))
		}
		if w.Shift != 0 {
			line += fmt.Sprintf(" shift %d", w.Shift)
		}
		if w.Mask != 0 {
			line += fmt.Sprintf(" mask %#x", w.Mask)
		}
		if w.LittleEndian {
			line += " little"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestFieldsBecomeAProgram(t *testing.T) {
	// Offsets: ethernet 0, vlan 14, mpls 18, ipv6 22, udp 62.
	cases := map[string]struct{ fields, want string }{
		"a port counts up": {`[{name: p, range: {start: 1, end: 10, step: 4}, writes: [{field: udp.sourcePort}]}]`,
			"p: counter 1..9 step 4 from 1\np -> 62+2"},
		"a port counts down from the top": {`[{name: p, range: {start: 0, end: 10, step: 3}, order: Reverse, writes: [{field: udp.sourcePort}]}]`,
			"p: counter 1..10 step 3 from 10 down\np -> 62+2"},
		"from the middle": {`[{name: p, range: {start: 1, end: 9, step: 4, first: 5}, writes: [{field: udp.sourcePort}]}]`,
			"p: counter 1..9 step 4 from 5\np -> 62+2"},
		"random": {`[{name: p, range: {start: 0, end: 65535}, order: Random, seed: 7, repeatAfter: 100, scope: Worker, writes: [{field: udp.sourcePort}]}]`,
			"p: random 0..65535 seed 7 limit 100 per worker\np -> 62+2"},
		"values": {`[{name: p, values: [1, 0x10, "0x20"], writes: [{field: udp.sourcePort}]}]`, "p: list [1 16 32] FORWARD seed 0\np -> 62+2"},
		"a list": {`[{name: p, values: [3, 1], order: Random, seed: 2, writes: [{field: udp.sourcePort}]}]`,
			"p: list [3 1] RANDOM seed 2\np -> 62+2"},
		"a count": {`[{name: p, range: {start: 10, count: 5, step: 2}, writes: [{field: udp.sourcePort}]}]`,
			"p: counter 10..18 step 2 from 10\np -> 62+2"},
		"a count, in reverse": {`[{name: p, range: {start: 10, count: 5, step: 2}, order: Reverse, writes: [{field: udp.sourcePort}]}]`,
			"p: counter 10..18 step 2 from 18 down\np -> 62+2"},
		"a count, in random order": {`[{name: p, range: {start: 100, count: 50}, order: Random, writes: [{field: udp.sourcePort}]}]`,
			"p: random 100..149 seed 0\np -> 62+2"},
		"a count of one": {`[{name: p, range: {start: 5, count: 1, step: 9}, writes: [{field: udp.sourcePort}]}]`,
			"p: counter 5..5 step 9 from 5\np -> 62+2"},
		"a count of addresses": {`[{name: p, range: {start: 10.0.0.254, count: 4}, writes: [{offset: 100, size: 4}]}]`,
			"p: counter 167772414..167772417 step 1 from 167772414\np -> 100+4"},
		"a count up to the last of 64 bits": {`[{name: p, range: {start: "0xfffffffffffffff0", count: 16}, writes: [{offset: 100, size: 8}]}]`,
			"p: counter 18446744073709551600..18446744073709551615 step 1 from 18446744073709551600\np -> 100+8"},
		"the last of a range is taken where steps meet it": {`[{name: p, range: {start: 1, end: 9, step: 4}, writes: [{field: udp.sourcePort}]}]`,
			"p: counter 1..9 step 4 from 1\np -> 62+2"},
		"from the middle, in reverse": {`[{name: p, range: {start: 0, end: 10, step: 3, first: 4}, order: Reverse, writes: [{field: udp.sourcePort}]}]`,
			"p: counter 1..10 step 3 from 4 down\np -> 62+2"},
		"values in reverse": {`[{name: p, values: [3, 1, 2], order: Reverse, writes: [{field: udp.sourcePort}]}]`,
			"p: list [3 1 2] BACKWARD seed 0\np -> 62+2"},
		"part of a byte": {`[{name: p, range: {start: 0, end: 7}, writes: [{field: vlan.priority}, {field: vlan.id, add: 100}]}]`,
			"p: counter 0..7 step 1 from 0\np -> 14+1 shift 5 mask 0xe0\np -> 14+2 add 100 mask 0xfff"},
		"20 bits in 24": {`[{name: p, range: {start: 16, end: 1048575}, writes: [{field: mpls.label}, {field: ipv6.flowLabel}]}]`,
			"p: counter 16..1048575 step 1 from 16\np -> 18+3 shift 4 mask 0xfffff0\np -> 23+3 mask 0xfffff"},
		"a mask within a field": {`[{name: p, range: {start: 0, end: 65535}, order: Random, writes: [{field: vlan.id, mask: "0x0f0", shift: -2}]}]`,
			"p: random 0..65535 seed 0\np -> 14+2 shift -2 mask 0xf0"},
		"an address within its /64": {`[{name: p, range: {start: "2001:db8::10", end: "2001:db8::ffff:0:0"}, writes: [{field: ipv6.source}]}]`,
			"p: counter 16..281470681743360 step 1 from 16\np -> 38+8"},
		"a hardware address": {`[{name: p, values: ["02:00:00:00:00:05"], writes: [{field: ethernet.source}]}]`,
			"p: list [2199023255557] FORWARD seed 0\np -> 6+6"},
		"bytes at an offset": {`[{name: p, values: [258], writes: [{offset: 100, size: 4, byteOrder: Little, shift: 8, mask: "0xffff00"}]}]`,
			"p: list [258] FORWARD seed 0\np -> 100+4 shift 8 mask 0xffff00 little"},
		"what is carried to stands behind": {`[{name: b, range: {start: 0, end: 1}, writes: [{offset: 100, size: 1}]},
			{name: a, range: {start: 0, end: 1}, carryTo: b, writes: [{offset: 101, size: 1}]}]`,
			"a: counter 0..1 step 1 from 0\nb: counter 0..1 step 1 from 0 after a\nb -> 100+1\na -> 101+1"},
		"tuples": {`[{name: client, range: {start: 10, end: 20}, repeatAfter: 5, carryTo: port, writes: [{offset: 100, size: 4}]},
			{name: port, range: {start: 1, end: 9}, writes: [{offset: 104, size: 2}]}]`,
			"client: counter 10..20 step 1 from 10 limit 5\nport: counter 1..9 step 1 from 1 after client\n" +
				"client -> 100+4\nport -> 104+2"},
		"a size, written to a field too": {`[{name: s, range: {start: 100, end: 256, step: 4}, writes: [{field: packet.size}, {offset: 100, size: 2}]}]`,
			"s: counter 96..252 step 4 from 96\ns -> 100+2 add 4"},
		"a size with something added": {`[{name: s, range: {start: 0, end: 156}, order: Random, writes: [{field: packet.size, add: 100}, {offset: 100, size: 1}]}]`,
			"s: random 96..252 seed 0\ns -> 100+1 add -96"},
		"only a clock": {`[{name: a, range: {start: 0, end: 1}, carryTo: b}, {name: b, values: [1, 2], writes: [{offset: 100, size: 1}]}]`,
			"a: counter 0..1 step 1 from 0\nb: list [1 2] FORWARD seed 0 after a\nb -> 100+1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, problems := Check(described(t, fmt.Sprintf(varied, c.fields)))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if got := programText(s.Program); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if strings.Contains(c.fields, "packet.size") != (s.packet.Sizes.GetVariable() == "s") {
				t.Errorf("sizes %v", s.packet.Sizes)
			}
		})
	}
}

func TestFieldsTellWhatIsWrong(t *testing.T) {
	cases := map[string]struct{ fields, want string }{
		"no field of it":        {`[{name: p, values: [1], writes: [{field: ipv4.source}]}]`, `spec.fields[0].writes[0].field: "ipv4.source": the packet has 0 ipv4 headers`},
		"no such field":         {`[{name: p, values: [1], writes: [{field: udp.port}]}]`, `this udp header has no field port; it has checksum, destinationPort, length, sourcePort`},
		"outside":               {`[{name: p, values: [1], writes: [{offset: 250, size: 4}]}]`, "spec.fields[0].writes[0].offset: 250 with 4 bytes is not within the packet, which has 252"},
		"an odd size":           {`[{name: p, values: [1], writes: [{offset: 100, size: 5}]}]`, "spec.fields[0].writes[0].size: 5: must be 1, 2, 3, 4, 6 or 8"},
		"too large":             {`[{name: p, values: [1, 8], writes: [{field: vlan.priority}]}]`, "spec.fields[0].writes[0]: values up to 8 do not fit into 3 bits; use lower ones, or write a mask"},
		"too large, added":      {`[{name: p, values: [65535], writes: [{field: udp.sourcePort, add: 1}]}]`, "values up to 65536 do not fit into 16 bits"},
		"too large, shifted":    {`[{name: p, values: [255], writes: [{field: udp.sourcePort, shift: 9}]}]`, "values up to 130560 do not fit into 16 bits"},
		"below zero":            {`[{name: p, values: [1], writes: [{field: udp.sourcePort, add: -2}]}]`, "adding -2 to values from 1 gives less than zero"},
		"a mask too wide":       {`[{name: p, values: [1], writes: [{field: vlan.id, mask: "0x1000"}]}]`, `spec.fields[0].writes[0].mask: "0x1000": must be hex digits such as 0xfff0, of 12 bits at most`},
		"order of bits":         {`[{name: p, values: [1], writes: [{field: vlan.id, byteOrder: Little}]}]`, "only whole bytes have an order"},
		"a step beside":         {`[{name: p, range: {start: 0, end: 9, step: 3, first: 4}}]`, "spec.fields[0].range.first: 4 is no whole number of steps of 3 from the range's start"},
		"first outside":         {`[{name: p, range: {start: 1, end: 9, first: 10}}]`, "spec.fields[0].range.first: 10 is not within the range"},
		"start over end":        {`[{name: p, range: {start: "02:00:00:00:00:05", end: "02:00:00:00:00:04"}, order: Random}]`, "spec.fields[0].range.start: 02:00:00:00:00:05 is greater than end, which is 02:00:00:00:00:04; use order: Reverse to count down"},
		"no end":                {`[{name: p, range: {start: 1}}]`, "spec.fields[0].range: set exactly one of end and count"},
		"two ends":              {`[{name: p, range: {start: 1, end: 2, count: 2}}]`, "spec.fields[0].range: set exactly one of end and count"},
		"a count of none":       {`[{name: p, range: {start: 1, count: 0}}]`, "spec.fields[0].range.count: 0: must be at least 1"},
		"a count too high":      {`[{name: p, range: {start: "0xfffffffffffffff0", count: 17}}]`, "spec.fields[0].range.count: 17 values with a step of 1 do not fit behind 0xfffffffffffffff0"},
		"steps too long":        {`[{name: p, range: {start: 0, count: 9007199254740991, step: 4096}}]`, "spec.fields[0].range.count: 9007199254740991 values with a step of 4096 do not fit behind 0"},
		"out of a network":      {`[{name: p, range: {start: "2001:db8::ffff:ffff:ffff:ffff", count: 2}}]`, "spec.fields[0].range.count: 2 values with a step of 1 do not fit behind 2001:db8::ffff:ffff:ffff:ffff"},
		"no step":               {`[{name: p, range: {start: 1, end: 2, step: 0}}]`, "spec.fields[0].range.step: 0: must be at least 1"},
		"a random step":         {`[{name: p, range: {start: 1, end: 9, step: 2}, order: Random}]`, "spec.fields[0].range: first and step do not go with order: Random"},
		"a random first":        {`[{name: p, range: {start: 1, end: 9, first: 2}, order: Random}]`, "spec.fields[0].range: first and step do not go with order: Random"},
		"a reverse step":        {`[{name: p, range: {start: 0, end: 10, step: 3, first: 0}, order: Reverse}]`, "spec.fields[0].range.first: 0 is no whole number of steps of 3 from the range's end"},
		"reverse over end":      {`[{name: p, range: {start: 9, end: 1}, order: Reverse}]`, "spec.fields[0].range.start: 9 is greater than end, which is 1"},
		"no order":              {`[{name: p, values: [1], order: Backward}]`, `spec.fields[0].order: "Backward": must be Forward, Reverse or Random`},
		"a seed for nothing":    {`[{name: p, values: [1], seed: 1}]`, "spec.fields[0].seed: goes with order: Random"},
		"no repetition":         {`[{name: p, values: [1], repeatAfter: 0}]`, "spec.fields[0].repeatAfter: 0: must be at least 1"},
		"65 bits":               {`[{name: p, values: ["0x10000000000000000"]}]`, `spec.fields[0].values[0]: "0x10000000000000000" must be a whole number of at most 64 bits`},
		"two ways":              {`[{name: p, values: [1], range: {start: 1, end: 2}, order: Random}]`, "spec.fields[0]: set exactly one of values and range"},
		"over two networks":     {`[{name: p, range: {start: "2001:db8::", end: "2001:db8:0:1::"}}]`, "a range of IPv6 addresses stays within one /64"},
		"mixed networks":        {`[{name: p, values: ["2001:db8::1", "2001:db9::1"]}]`, "spec.fields[0].values[1]: 2001:db8::1 and 2001:db9::1 differ in their first 64 bits"},
		"another network":       {`[{name: p, values: ["2001:db9::1"], writes: [{field: ipv6.source}]}]`, "the addresses are in another /64 than the packet's own"},
		"v6 into a port":        {`[{name: p, values: ["::1"], writes: [{field: udp.sourcePort}]}]`, "an IPv6 address is written to an IPv6 field"},
		"carried to nothing":    {`[{name: a, values: [1], carryTo: b}]`, `spec.fields[0].carryTo: "b" names no other field of the stream`},
		"a circle":              {`[{name: a, values: [1], carryTo: b}, {name: b, values: [1], carryTo: a}]`, "spec.fields[0].carryTo: the fields carry to each other in a circle; leave out one carryTo"},
		"carried to by two":     {`[{name: a, values: [1], carryTo: c}, {name: b, values: [1], carryTo: c}, {name: c, values: [1]}]`, `spec.fields[1].carryTo: "c" is advanced by "a" already`},
		"random without an end": {`[{name: a, range: {start: 1, end: 2}, order: Random, carryTo: b}, {name: b, values: [1]}]`, `spec.fields[0].carryTo: random values have no last one: set repeatAfter, the number of them after which "b" advances`},
		"two scopes":            {`[{name: a, values: [1], carryTo: b, scope: Worker}, {name: b, values: [1]}]`, `spec.fields[0].carryTo: "b" and this field must have the same scope`},
		"a name twice":          {`[{name: a, values: [1]}, {name: a, values: [1]}]`, `spec.fields[1].name: "a" is another field's name already`},
		"sizes too small":       {`[{name: s, values: [73], writes: [{field: packet.size}]}]`, "sizes of 73 to 73: this packet can have 74 to 256"},
		"sizes too large":       {`[{name: s, values: [257], writes: [{field: packet.size}]}]`, "sizes of 257 to 257: this packet can have 74 to 256"},
		"two sizes":             {`[{name: s, values: [100], writes: [{field: packet.size}]}, {name: u, values: [100], writes: [{field: packet.size}]}]`, "the packet's size is set elsewhere too"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, problems := Check(described(t, fmt.Sprintf(varied, c.fields)))
			if !strings.Contains(problems.Message(), c.want) {
				t.Errorf("got %s\nwant %s", problems.Message(), c.want)
			}
		})
	}
}

func TestSizesOfAPacket(t *testing.T) {
	stream := func(sizes string) string {
		return `
packet:
  headers: [{ethernet: {}}, {ipv4: {source: 198.18.0.1, destination: 198.19.0.1}}, {udp: {destinationPort: 7}}]
  sizes: ` + sizes + `
transmit: {continuous: {rate: 1pps}}
measure: {flow: true}
`
	}
	for name, c := range map[string]struct{ sizes, want, err string }{
		"a list":     {sizes: `{list: [{size: 64, weight: 7}, {size: 1518}], order: Random, seed: 3}`, want: `list:{sizes:{bytes:60 weight:7} sizes:{bytes:1514 weight:1} random:true seed:3}`},
		"a range":    {sizes: `{range: {start: 64, end: 100, step: 10}}`, want: "packet.size: counter 60..90 step 10 from 60"},
		"downwards":  {sizes: `{range: {start: 64, end: 100, step: 10, order: Reverse}}`, want: "packet.size: counter 66..96 step 10 from 96 down"},
		"random":     {sizes: `{range: {start: 64, end: 100, order: Random, seed: 4}}`, want: "packet.size: random 60..96 seed 4"},
		"too short":  {sizes: `{list: [{size: 63}]}`, err: "spec.packet.sizes.list[0].size: Invalid value: 63: must be 64 to 9234 bytes, FCS included"},
		"backwards":  {sizes: `{range: {start: 100, end: 64}}`, err: "spec.packet.sizes.range.start: Invalid value: 100: must not be greater than end; use order: Reverse to count down"},
		"no sizes":   {sizes: `{}`, err: "spec.packet.sizes: Invalid value: 0: set exactly one of list and range"},
		"a bad step": {sizes: `{range: {start: 64, end: 100, order: Random, step: 2}}`, err: "spec.packet.sizes.range.step: Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			s, problems := Check(described(t, stream(c.sizes)))
			if c.err != "" {
				if !strings.Contains(problems.Message(), c.err) {
					t.Errorf("got %s\nwant %s", problems.Message(), c.err)
				}
				return
			}
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			got := programText(s.Program)
			if list := s.packet.Sizes.GetList(); list != nil {
				got = strings.ReplaceAll(s.packet.Sizes.String(), "  ", " ")
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if lengths := s.packet.Lengths; len(lengths) != 2 || lengths[0].Offset != 16 || lengths[0].Minus != 14 || lengths[1].Offset != 38 || lengths[1].Minus != 34 {
				t.Errorf("lengths %v", lengths)
			}
			udp := s.packet.Checksums[0]
			if udp.End != 0 || udp.LengthMinus != 34 || udp.AddressesStart != 26 || udp.AddressesEnd != 34 || udp.PseudoHeaderSum != 17 {
				t.Errorf("the UDP checksum goes to the end, however long: %v", udp)
			}
		})
	}
}
