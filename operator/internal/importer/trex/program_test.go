// SPDX-License-Identifier: Apache-2.0

package trex

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
)

// Instructions of TRex.
const (
	counting  = `{"type": "flow_var", "name": "v", "size": 2, "op": "inc", "init_value": 10, "min_value": 10, "max_value": 19, "step": 1}`
	writing   = `{"type": "write_flow_var", "name": "v", "pkt_offset": 34, "add_value": 0, "is_big_endian": true}`
	fixIPv4   = `{"type": "fix_checksum_ipv4", "pkt_offset": 14}`
	trimming  = `{"type": "trim_pkt_size", "name": "v"}`
	oneTuple  = `{"type": "tuple_flow_var", "name": "c", "ip_min": 16777217, "ip_max": 16777218, "port_min": 1025, "port_max": 2000, "limit_flows": 7, "flags": 0}`
	writingIP = `{"type": "write_flow_var", "name": "c.ip", "pkt_offset": 26, "add_value": 0, "is_big_endian": true}`
)

// changed returns an instruction with parts replaced.
func changed(instruction string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(instruction, pairs[i]) {
			panic("nothing to change: " + pairs[i])
		}
	}
	return strings.NewReplacer(pairs...).Replace(instruction)
}

func TestInstructionsBecomeFields(t *testing.T) {
	for name, c := range map[string]struct {
		instructions []string
		want         string
	}{
		"inc": {[]string{counting, writing},
			`[{name: v, range: {start: 10, end: 19}, writes: [{offset: 34, size: 2}]}]`},
		"dec that begins within": {[]string{changed(counting, `"inc"`, `"dec"`, `"init_value": 10`, `"init_value": 12`), writing},
			`[{name: v, range: {start: 10, end: 19, first: 12}, order: Reverse, writes: [{offset: 34, size: 2}]}]`},
		"a range that is no whole number of steps is made one": {[]string{changed(counting, `"step": 1`, `"step": 3`)},
			`[{name: v, range: {start: 10, end: 19, step: 3}}]`},
		"only values a whole number of steps from the first": {[]string{changed(counting, `"step": 1`, `"step": 3`, `"init_value": 10`, `"init_value": 14`)},
			`[{name: v, range: {start: 11, end: 20, step: 3, first: 14}}]`},
		"dec is made longer at its low end": {[]string{changed(counting, `"inc"`, `"dec"`, `"init_value": 10`, `"init_value": 19`, `"step": 1`, `"step": 4`)},
			`[{name: v, range: {start: 11, end: 19, step: 4}, order: Reverse}]`},
		"random": {[]string{changed(counting, `"inc"`, `"random"`)},
			`[{name: v, range: {start: 10, end: 19}, order: Random, seed: 1}]`},
		"not split to cores": {[]string{changed(counting, `"step": 1`, `"step": 1, "split_to_cores": false`)},
			`[{name: v, range: {start: 10, end: 19}, scope: Worker}]`},
		"list": {[]string{`{"type": "flow_var", "name": "v", "size": 2, "op": "inc", "value_list": [5, 1, 3], "step": 1}`},
			`[{name: v, values: [5, 1, 3]}]`},
		"list that goes back": {[]string{`{"type": "flow_var", "name": "v", "size": 2, "op": "dec", "value_list": [5, 1, 3], "step": 1}`},
			`[{name: v, values: [5, 1, 3], order: Reverse}]`},
		"list with steps": {[]string{`{"type": "flow_var", "name": "v", "size": 2, "op": "inc", "value_list": [5, 1, 3, 4, 2], "step": 2}`},
			`[{name: v, values: [5, 3, 2, 1, 4]}]`},
		"list with steps back": {[]string{`{"type": "flow_var", "name": "v", "size": 2, "op": "dec", "value_list": [5, 1, 3, 4], "step": 2}`},
			`[{name: v, values: [4, 1]}]`},
		"list at random": {[]string{`{"type": "flow_var", "name": "v", "size": 2, "op": "random", "value_list": [5, 1], "step": 1}`},
			`[{name: v, values: [5, 1], order: Random, seed: 1}]`},
		"random that repeats": {[]string{`{"type": "flow_var_rand_limit", "name": "v", "size": 2, "limit": 5, "seed": 9, "min_value": 1, "max_value": 4, "next_var": null}`},
			`[{name: v, range: {start: 1, end: 4}, order: Random, seed: 9, repeatAfter: 5}]`},
		"addresses are written as such": {[]string{
			`{"type": "flow_var", "name": "Src_IP", "size": 4, "op": "inc", "init_value": 268435457, "min_value": 268435457, "max_value": 268435460, "step": 1}`,
			`{"type": "write_flow_var", "name": "Src_IP", "pkt_offset": 26, "add_value": 0, "is_big_endian": true}`},
			`[{name: src-ip, range: {start: 16.0.0.1, end: 16.0.0.4}, writes: [{offset: 26, size: 4}]}]`},
		"something added": {[]string{counting, changed(writing, `"add_value": 0`, `"add_value": -3`)},
			`[{name: v, range: {start: 10, end: 19}, writes: [{offset: 34, size: 2, add: -3}]}]`},
		"something added beyond the field": {[]string{counting, changed(writing, `"add_value": 0`, `"add_value": -15`)},
			`[{name: v, range: {start: 10, end: 19}, writes: [{offset: 34, size: 2, add: -15, mask: "0xffff"}]}]`},
		"little endian": {[]string{counting, changed(writing, `"is_big_endian": true`, `"is_big_endian": false`)},
			`[{name: v, range: {start: 10, end: 19}, writes: [{offset: 34, size: 2, byteOrder: Little}]}]`},
		"mask": {[]string{counting, `{"type": "write_mask_flow_var", "name": "v", "pkt_offset": 36, "pkt_cast_size": 4, "mask": 4294963200, "shift": 12, "add_value": 5, "is_big_endian": true}`},
			`[{name: v, range: {start: 10, end: 19}, writes: [{offset: 36, size: 4, mask: "0xfffff000", shift: 12, add: 5}]}]`},
		"mask is cut to the bytes": {[]string{counting, `{"type": "write_mask_flow_var", "name": "v", "pkt_offset": 36, "pkt_cast_size": 1, "mask": 4095, "shift": -1, "add_value": 0, "is_big_endian": true}`},
			`[{name: v, range: {start: 10, end: 19}, writes: [{offset: 36, size: 1, mask: "0xff", shift: -1}]}]`},
		"mask, little endian, is as wide as the variable": {[]string{counting, `{"type": "write_mask_flow_var", "name": "v", "pkt_offset": 36, "pkt_cast_size": 1, "mask": 4095, "shift": 0, "add_value": 0, "is_big_endian": false}`},
			`[{name: v, range: {start: 10, end: 19}, writes: [{offset: 36, size: 2, mask: "0xfff", byteOrder: Little}]}]`},
		"mask of nothing": {[]string{counting, `{"type": "write_mask_flow_var", "name": "v", "pkt_offset": 36, "pkt_cast_size": 1, "mask": 3840, "shift": 0, "add_value": 0, "is_big_endian": true}`},
			`[{name: v, range: {start: 10, end: 19}}]`},
		"size": {[]string{changed(counting, `"init_value": 10, "min_value": 10, "max_value": 19`, `"init_value": 60, "min_value": 50, "max_value": 1000`), trimming,
			changed(writing, `"pkt_offset": 34`, `"pkt_offset": 16`, `"add_value": 0`, `"add_value": -14`)},
			`[{name: v, range: {start: 60, end: 66}, writes: [{field: packet.size, add: 4}, {offset: 16, size: 2, add: -14}]}]`},
		"size at random": {[]string{changed(counting, `"inc"`, `"random"`, `"max_value": 19`, `"max_value": 64`), trimming},
			`[{name: v, range: {start: 60, end: 64}, order: Random, seed: 1, writes: [{field: packet.size, add: 4}]}]`},
		"size of a list": {[]string{`{"type": "flow_var", "name": "v", "size": 2, "op": "inc", "value_list": [64, 60], "step": 1}`, trimming},
			`[{name: v, values: [64, 60], writes: [{field: packet.size, add: 4}]}]`},
		"tuple": {[]string{oneTuple, writingIP, changed(writing, `"v"`, `"c.port"`)},
			`[{name: c-ip, range: {start: 1.0.0.1, end: 1.0.0.2}, carryTo: c-port, repeatAfter: 7, writes: [{offset: 26, size: 4}]},
			  {name: c-port, range: {start: 1025, end: 2000}, writes: [{offset: 34, size: 2}]}]`},
		"tuple without a limit": {[]string{changed(oneTuple, `"limit_flows": 7`, `"limit_flows": 0`), writingIP},
			`[{name: c-ip, range: {start: 1.0.0.1, end: 1.0.0.2}, carryTo: c-port, writes: [{offset: 26, size: 4}]},
			  {name: c-port, range: {start: 1025, end: 2000}}]`},
		"unlimited tuple goes on behind its last port": {[]string{changed(oneTuple, `"flags": 0`, `"flags": 1`)},
			`[{name: c-ip, range: {start: 16777217, end: 16777218}, carryTo: c-port},
			  {name: c-port, range: {start: 1025, end: 65535, first: 2001}}]`},
		"unlimited tuple of all ports": {[]string{changed(oneTuple, `"flags": 0`, `"flags": 1`, `"port_max": 2000`, `"port_max": 65535`)},
			`[{name: c-ip, range: {start: 16777217, end: 16777218}, carryTo: c-port},
			  {name: c-port, range: {start: 1025, end: 65535}}]`},
		"chain": {[]string{
			changed(counting, `"step": 1`, `"step": 1, "next_var": "w"`),
			changed(counting, `"v"`, `"w"`, `"step": 1`, `"step": 1, "split_to_cores": false`)},
			`[{name: v, range: {start: 10, end: 19}, carryTo: w}, {name: w, range: {start: 10, end: 19}}]`},
		"chain that is the same on each core": {[]string{
			changed(counting, `"step": 1`, `"step": 1, "next_var": "w", "split_to_cores": false`),
			changed(counting, `"v"`, `"w"`, `"step": 1`, `"step": 1, "split_to_cores": false`)},
			`[{name: v, range: {start: 10, end: 19}, carryTo: w, scope: Worker}, {name: w, range: {start: 10, end: 19}, scope: Worker}]`},
		"chain whose head begins within: the rest waits one value before its first": {[]string{
			changed(counting, `"init_value": 10`, `"init_value": 15`, `"step": 1`, `"step": 1, "next_var": "w"`),
			changed(counting, `"v"`, `"w"`, `"step": 1`, `"step": 1, "split_to_cores": false`)},
			`[{name: v, range: {start: 10, end: 19, first: 15}, carryTo: w}, {name: w, range: {start: 10, end: 19, first: 19}}]`},
		"fields stand in the order of their writes": {[]string{
			changed(counting, `"v"`, `"second"`), counting, writing, changed(writing, `"v"`, `"second"`, `"pkt_offset": 34`, `"pkt_offset": 35`)},
			`[{name: v, range: {start: 10, end: 19}, writes: [{offset: 34, size: 2}]},
			  {name: second, range: {start: 10, end: 19}, writes: [{offset: 35, size: 2}]}]`},
		"names that would be the same": {[]string{changed(counting, `"v"`, `"a_b"`), changed(counting, `"v"`, `"a.b"`)},
			`[{name: a-b, range: {start: 10, end: 19}}, {name: a-b-2, range: {start: 10, end: 19}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			got := imports(t, Options{}, streamJSON(parts{"vm": vmJSON(c.instructions...)}))
			var want []spatev1.PacketField
			if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(c.want, "\t", " ")), &want); err != nil {
				t.Fatal(err)
			}
			same(t, got.Streams[0].Spec.Fields, want)
		})
	}
}

// same compares two values as YAML.
func same(t *testing.T, got, want any) {
	t.Helper()
	g, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(g) != string(w) {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

func TestChecksumInstructionsKeepThemTrue(t *testing.T) {
	hardware := `{"type": "fix_checksum_hw", "l2_len": 14, "l3_len": 20, "l4_type": 11}`
	ipv6 := changed(hardware, `"l3_len": 20`, `"l3_len": 40`)
	for name, c := range map[string]struct {
		frame        []byte
		instructions []string
		want         string
	}{
		"IPv4":                        {udp4, []string{fixIPv4}, `[{type: IPv4, offset: 14}]`},
		"UDP":                         {udp4, []string{hardware}, `[{type: IPv4, offset: 14}, {type: UDP, offset: 34}]`},
		"TCP is read from the header": {tcp4, []string{hardware}, `[{type: IPv4, offset: 14}, {type: TCP, offset: 34}]`},
		"IP takes what the header is": {tcp4, []string{changed(hardware, `"l4_type": 11`, `"l4_type": 17`, `"l3_len": 20`, `"l3_len": 0`)}, `[{type: IPv4, offset: 14}, {type: TCP, offset: 34}]`},
		"UDP over IPv6":               {udp6, []string{ipv6}, `[{type: UDP, offset: 54}]`},
		"ICMPv6":                      {icmp, []string{`{"type": "fix_checksum_icmpv6", "l2_len": 14, "l3_len": 40}`}, `[{type: ICMPv6, offset: 54}]`},
		"twice is once":               {udp4, []string{fixIPv4, fixIPv4}, `[{type: IPv4, offset: 14}]`},
	} {
		t.Run(name, func(t *testing.T) {
			got := imports(t, Options{}, streamJSON(parts{"packet": packetJSON(c.frame), "vm": vmJSON(c.instructions...)}))
			var want []spatev1.RawChecksum
			if err := yaml.UnmarshalStrict([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			same(t, got.Streams[0].Spec.Packet.Checksums, want)
		})
	}
}

func TestProgramsThatCannotBeKeptAreRefusedByName(t *testing.T) {
	eight := changed(counting, `"size": 2`, `"size": 8`)
	mask := `{"type": "write_mask_flow_var", "name": "v", "pkt_offset": 36, "pkt_cast_size": 2, "mask": 255, "shift": 0, "add_value": 0, "is_big_endian": true}`
	for name, c := range map[string]struct {
		instructions []string
		want         string
	}{
		"unknown instruction":       {[]string{`{"type": "dance"}`}, `stream 1: $[0].vm.instructions[0].type: "dance" is not supported`},
		"unknown key":               {[]string{changed(counting, `"step": 1`, `"step": 1, "wobble": 1`)}, "$[0].vm.instructions[0].wobble: is not known to the import"},
		"no name":                   {[]string{changed(counting, `"v"`, `""`), fixIPv4}, "instructions[0]: the variable has no name"},
		"missing key":               {[]string{changed(counting, `, "step": 1`, ``)}, "$[0].vm.instructions[0].step: is missing"},
		"odd size":                  {[]string{changed(counting, `"size": 2`, `"size": 3`)}, "instructions[0].size: 3 is not one of 1, 2, 4, 8"},
		"unknown operation":         {[]string{changed(counting, `"inc"`, `"mul"`)}, `instructions[0].op: "mul" is not one of inc, dec, random`},
		"min over max":              {[]string{changed(counting, `"min_value": 10`, `"min_value": 20`)}, "instructions[0].min_value: 20 is greater than max_value"},
		"init out of range":         {[]string{changed(counting, `"init_value": 10`, `"init_value": 9`)}, "instructions[0].init_value: 9 is not from"},
		"value too great":           {[]string{changed(counting, `"max_value": 19`, `"max_value": 70000`)}, "instructions[0].max_value: 70000 is not a whole number from 0 to 65535"},
		"no whole number":           {[]string{changed(counting, `"max_value": 19`, `"max_value": 19.5`)}, "max_value: 39/2 is not a whole number"},
		"no room for the last step": {[]string{changed(counting, `"max_value": 19`, `"max_value": 65535`, `"step": 1`, `"step": 7`)}, "instructions[0].step: values from 10 to 65535"},
		"all 64 bits":               {[]string{changed(eight, `"init_value": 10, "min_value": 10, "max_value": 19`, `"init_value": 0, "min_value": 0, "max_value": 18446744073709551615`)}, "instructions[0].step: counting through all 64 bits"},
		"empty list":                {[]string{`{"type": "flow_var", "name": "v", "size": 2, "op": "inc", "value_list": [], "step": 1}`}, "value_list: 0 values"},
		"list and range":            {[]string{changed(counting, `"step": 1`, `"step": 1, "value_list": [1]`)}, "instructions[0].init_value: 10: does not go with value_list"},
		"list value too great":      {[]string{`{"type": "flow_var", "name": "v", "size": 1, "op": "inc", "value_list": [256], "step": 1}`}, "value_list.0: 256 is not"},
		"step over the list":        {[]string{`{"type": "flow_var", "name": "v", "size": 1, "op": "inc", "value_list": [25], "step": 2}`}, "instructions[0].step: 2 is more than the 1 values"},
		"limit of zero":             {[]string{`{"type": "flow_var_rand_limit", "name": "v", "size": 2, "limit": 0, "seed": 9, "min_value": 1, "max_value": 4}`}, "limit: 0 is not a whole number from 1"},
		"twice":                     {[]string{counting, counting}, `instructions[1]: there is another variable "v"`},
		"write of nothing":          {[]string{changed(writing, `"v"`, `"w"`)}, `instructions[0].name: "w" is no variable`},
		"write behind the packet":   {[]string{counting, changed(writing, `34`, `65`)}, "instructions[1].pkt_offset: 65 with 2 bytes is not within the packet, which has 66"},
		"tuple's count":             {[]string{oneTuple, changed(writingIP, `"c.ip"`, `"c.flow_limit"`)}, `"c.flow_limit" is no variable`},
		"tuple's flags":             {[]string{changed(oneTuple, `"flags": 0`, `"flags": 2`)}, "instructions[0].flags: 2 is not"},
		"unlimited tuple, low port": {[]string{changed(oneTuple, `"flags": 0`, `"flags": 1`, `1025`, `10`, `2000`, `20`)}, "instructions[0].port_max: 20"},
		"mask of 3 bytes":           {[]string{counting, changed(mask, `"pkt_cast_size": 2`, `"pkt_cast_size": 3`)}, "pkt_cast_size: 3 is not one of 1, 2, 4"},
		"mask of 8 bytes":           {[]string{eight, mask}, `instructions[1].name: "v" has 8 bytes`},
		"mask that brings back":     {[]string{counting, changed(mask, `"shift": 0`, `"shift": -1`, `"add_value": 0`, `"add_value": -11`)}, "instructions[1].add_value: -11 makes values"},
		"shift too far":             {[]string{counting, changed(mask, `"shift": 0`, `"shift": 32`)}, "shift: 32 is not"},
		"no IPv4":                   {[]string{changed(fixIPv4, `14`, `30`)}, "pkt_offset: there is no IPv4 header at offset 30"},
		"no IPv6":                   {[]string{`{"type": "fix_checksum_icmpv6", "l2_len": 14, "l3_len": 40}`}, "l2_len: there is no IPv6 header"},
		"other transport":           {[]string{`{"type": "fix_checksum_hw", "l2_len": 14, "l3_len": 20, "l4_type": 6}`}, "l4_type: 6 is not one of"},
		"size twice":                {[]string{changed(counting, `10`, `60`, `19`, `66`), trimming, trimming}, `instructions[2].name: the packet's size is set by "v"`},
		"size of one byte":          {[]string{changed(counting, `"size": 2`, `"size": 1`), trimming}, `must be a flow_var of 2 bytes`},
		"size begins too small":     {[]string{changed(counting, `"max_value": 19`, `"max_value": 66`), trimming}, `begins with 10: sizes of this packet are 60 to 66`},
		"sizes in odd steps":        {[]string{changed(counting, `10`, `60`, `19`, `70`, `"step": 1`, `"step": 4`), trimming}, "no whole number of them"},
		"list of wrong sizes":       {[]string{`{"type": "flow_var", "name": "v", "size": 2, "op": "inc", "value_list": [64, 59], "step": 1}`, trimming}, "the list has values from 59 to 64"},
		"next of nothing":           {[]string{changed(counting, `"step": 1`, `"step": 1, "next_var": "w"`)}, `instructions[0].next_var: "w" must name another variable`},
		"next in a circle": {[]string{
			changed(counting, `"step": 1`, `"step": 1, "next_var": "w", "split_to_cores": false`),
			changed(counting, `"v"`, `"w"`, `"step": 1`, `"step": 1, "next_var": "v", "split_to_cores": false`)}, "lead around in a circle"},
		"next of a random one": {[]string{changed(counting, `"inc"`, `"random"`, `"step": 1`, `"step": 1, "next_var": "w"`), changed(counting, `"v"`, `"w"`)}, "random variables never wrap"},
		"next that is split":   {[]string{changed(counting, `"step": 1`, `"step": 1, "next_var": "w"`), changed(counting, `"v"`, `"w"`)}, "instructions[1].split_to_cores: must be false"},
		"next of a list that wraps within its cycle": {[]string{
			`{"type": "flow_var", "name": "v", "size": 2, "op": "inc", "value_list": [5, 1, 3], "step": 2, "next_var": "w"}`,
			changed(counting, `"v"`, `"w"`, `"step": 1`, `"step": 1, "split_to_cores": false`)}, "wraps within its cycle"},
		"list behind a head that begins within": {[]string{
			changed(counting, `"init_value": 10`, `"init_value": 15`, `"step": 1`, `"step": 1, "next_var": "w"`),
			`{"type": "flow_var", "name": "w", "size": 2, "op": "inc", "value_list": [5, 1], "step": 1, "split_to_cores": false}`}, "only counters can follow"},
		"writes in turn to one place": {[]string{counting, changed(counting, `"v"`, `"w"`), writing, changed(writing, `"v"`, `"w"`), writing}, `instructions[4]: writes where "w" is written in between`},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, c.want, streamJSON(parts{"vm": vmJSON(c.instructions...)}))
		})
	}
}

func TestTooManyVariablesAreRefused(t *testing.T) {
	var all []string
	for i := range mostFields + 1 {
		all = append(all, changed(counting, `"v"`, `"v`+strings.Repeat("i", i+1)+`"`))
	}
	refused(t, "21 variables: a stream can have 20", streamJSON(parts{"vm": vmJSON(all...)}))
}

func TestChecksumsThatTRexWouldLeaveWrongAreNoted(t *testing.T) {
	got := imports(t, Options{}, streamJSON(parts{"vm": vmJSON(counting, fixIPv4, changed(writing, `34`, `18`))}))
	if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "$[0].vm.instructions[2]: writes behind the instruction that computes the IPv4 checksum") {
		t.Errorf("notes %q", got.Notes)
	}
}

// trexSteps returns the values of a flow_var as TRex computes them: stepping through its range, starting from the value
// before the first.
func trexSteps(low, high, step, first uint64, down bool, count int) (values []uint64, wrapped []bool) {
	around := high - low + 1
	// place is the offset from where the range starts after a wrap.
	place := first - low
	if down {
		place = high - first
	}
	place = (place + around - step) % around
	for range count {
		place += step
		wrapped = append(wrapped, place >= around)
		place %= around
		if down {
			values = append(values, high-place)
		} else {
			values = append(values, low+place)
		}
	}
	return values, wrapped
}

func TestCountersTakeTheValuesThatTRexSteps(t *testing.T) {
	for low := range uint64(4) {
		for length := uint64(1); length <= 12; length++ {
			for step := uint64(1); step <= length; step++ {
				if length%step != 0 {
					continue // the range would have been extended to a multiple of the step
				}
				for first := low; first < low+length; first++ {
					for _, down := range []bool{false, true} {
						want, wrapped := trexSteps(low, low+length-1, step, first, down, 30)
						c := newCounter(low, low+length-1, step, first, down)
						value := c.first
						for n := range want {
							if value != want[n] {
								t.Fatalf("%d..%d by %d from %d, down %v: value %d is %d, want %d", low, low+length-1, step, first, down, n, value, want[n])
							}
							if wraps := value == c.start(); wraps != wrapped[n] {
								t.Fatalf("%d..%d by %d from %d, down %v: at value %d wraps %v, want %v", low, low+length-1, step, first, down, n, wraps, wrapped[n])
							}
							switch {
							case down && value == c.least:
								value = c.most
							case down:
								value -= step
							case value == c.most:
								value = c.least
							default:
								value += step
							}
						}
					}
				}
			}
		}
	}
}
