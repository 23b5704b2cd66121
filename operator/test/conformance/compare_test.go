// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// udpFrame is IPv4 and UDP without a checksum of UDP, of `size` bytes.
func udpFrame(size int) []byte {
	frame := bytes.Repeat([]byte{'x'}, size)
	copy(frame, "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x02\x00\x00\x08\x00\x45\x00\x00\x00\x00\x01\x00\x00\x40\x11\x00\x00\x10\x00\x00\x01\x30\x00\x00\x01\x04\x01\x00\x0c\x00\x00\x00\x00")
	binary.BigEndian.PutUint16(frame[16:], uint16(size-14))
	binary.BigEndian.PutUint16(frame[38:], uint16(size-34))
	return sealed(frame)
}

// sealed has the IPv4 header's checksum right.
func sealed(frame []byte) []byte {
	frame[24], frame[25] = 0, 0
	sum := words(frame[14:34])
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(frame[24:], ^uint16(sum))
	return frame
}

// with changes a copy.
func with(frame []byte, at int, bytes ...byte) []byte {
	frame = slices.Clone(frame)
	copy(frame[at:], bytes)
	return frame
}

// profileOf has one stream.
func profileOf(t *testing.T, frame []byte, instructions, more string) *Profile {
	t.Helper()
	text := fmt.Sprintf(`[{"packet": {"binary": %q}, "vm": {"instructions": [%s]}%s}]`, base64.StdEncoding.EncodeToString(frame), instructions, more)
	p, err := ReadProfile([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func packets(gap time.Duration, frames ...[]byte) []Packet {
	all := make([]Packet, len(frames))
	for i, frame := range frames {
		all[i] = Packet{time.Duration(i) * gap, frame}
	}
	return all
}

// expect a difference, or none where it is empty.
func expect(t *testing.T, err error, want string) {
	t.Helper()
	if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestPacketsThatDifferAreReported(t *testing.T) {
	frame := udpFrame(64)
	// Packets that are distinguished by their first byte of payload.
	a, b, c, d := with(frame, 42, 'a'), with(frame, 42, 'b'), with(frame, 42, 'c'), with(frame, 42, 'd')
	profile := profileOf(t, frame, "", "")
	want := packets(time.Millisecond, a, b, c)
	late := func(i int, by time.Duration) []Packet {
		got := slices.Clone(want)
		got[i].At += by
		return got
	}
	for name, c := range map[string]struct {
		got  []Packet
		want string
	}{
		"the same":           {want, ""},
		"5 us late":          {late(1, 5*time.Microsecond), ""},
		"6 us late":          {late(1, 6*time.Microsecond), "packet 2: want it at 1ms, got it at 1.006ms"},
		"6 us early":         {late(2, -6*time.Microsecond), "packet 3: want it at 2ms, got it at 1.994ms"},
		"all of them late":   {[]Packet{{6 * time.Microsecond, a}, {time.Millisecond, b}, {2 * time.Millisecond, c}}, "packet 1: want it at 0s"},
		"an altered byte":    {packets(time.Millisecond, a, with(b, 50, 'y', 'z'), c), "packet 2: byte 50: want 78787878, got 797a7878"},
		"an address":         {packets(time.Millisecond, a, with(b, 6, 9), c), "packet 2: byte 6: want 00000002, got 09000002"},
		"a byte less":        {packets(time.Millisecond, a, b[:63], c), "packet 2: want 64 bytes, got 63"},
		"a byte more":        {packets(time.Millisecond, a, append(slices.Clone(b), 'x'), c), "packet 2: want 64 bytes, got 65"},
		"the last missing":   {packets(time.Millisecond, a, b), "packet 3: want it at 2ms, got 2 packets"},
		"the first missing":  {[]Packet{{time.Millisecond, b}, {2 * time.Millisecond, c}}, "packet 1: want it at 0s, got at 1ms: byte 42"},
		"one more":           {packets(time.Millisecond, a, b, c, c), "packet 4: want no more packets, got one at 3ms"},
		"another in between": {[]Packet{want[0], want[1], {time.Millisecond, a}, want[2]}, "want no more packets"},
		"changed places":     {packets(time.Millisecond, b, a, c), "packet 1: byte 42: want 61787878, got 62787878"},
		"none":               {nil, "packet 1: want it at 0s, got 0 packets"},
		"another packet":     {packets(time.Millisecond, a, d, c), "packet 2: byte 42: want 62787878, got 64787878"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, profile.Compare(want, Simulated{Packets: c.got}), c.want)
		})
	}
}

func TestPacketsSwapOnlyNearEachOther(t *testing.T) {
	frame := udpFrame(64)
	a, b, c := with(frame, 42, 'a'), with(frame, 42, 'b'), with(frame, 42, 'c')
	profile := profileOf(t, frame, "", "")
	us := time.Microsecond
	for name, test := range map[string]struct {
		want, got, beyond []Packet
		difference        string
	}{
		"at one instant":          {packets(0, a, b, c), packets(0, c, b, a), nil, ""},
		"within 5 us":             {packets(5*us, a, b), packets(5*us, b, a), nil, ""},
		"beyond 5 us":             {packets(6*us, a, b), packets(6*us, b, a), nil, "packet 1: "},
		"beyond 5 us, in time":    {packets(6*us, a, b), []Packet{{3 * us, b}, {3 * us, a}}, nil, "packets 1 and 2 have changed places, and are 6µs apart"},
		"alike":                   {packets(6*us, a, a), []Packet{{3 * us, a}, {3 * us, a}}, nil, ""},
		"twice for one":           {packets(0, a, b), packets(0, a, a), nil, "packet 2: byte 42"},
		"at the end":              {packets(0, a, c), packets(0, a, b), packets(0, c), ""},
		"at the end, too late":    {[]Packet{{0, a}, {0, c}}, packets(0, a, b), []Packet{{6 * us, c}}, "packet 2: byte 42"},
		"at the end, too early":   {[]Packet{{0, a}, {6 * us, c}}, packets(0, a, b), []Packet{{6 * us, c}}, "packet 2: got none of it within the limit, but at 0s one that is not wanted"},
		"none of it in the limit": {packets(0, a, c), packets(0, a), packets(0, c), "packet 2: got 1 packets in all"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, profile.Compare(test.want, Simulated{test.got, test.beyond}), test.difference)
		})
	}
}

const (
	randomPort = `{"type": "flow_var", "name": "v", "size": 2, "op": "random", "min_value": 1000, "max_value": 1010, "step": 1},
		{"type": "write_flow_var", "name": "v", "pkt_offset": 34, "add_value": 5, "is_big_endian": true}`
	randomAddress = `{"type": "flow_var", "name": "v", "size": 4, "op": "random", "min_value": 268435457, "max_value": 301989888, "step": 1},
		{"type": "write_flow_var", "name": "v", "pkt_offset": 26, "add_value": 0, "is_big_endian": true}`
	ipChecksum = `{"type": "fix_checksum_ipv4", "pkt_offset": 14}`
)

func TestRandomValuesAreInTheirRange(t *testing.T) {
	frame := udpFrame(64)
	low, high := []byte{0x03, 0xed}, []byte{0x03, 0xf7} // 1005 to 1015
	masked := func(shift int, mask, size string) string {
		return `{"type": "flow_var", "name": "v", "size": ` + size + `, "op": "random", "min_value": 3, "max_value": 6, "step": 1},
			{"type": "write_mask_flow_var", "name": "v", "pkt_offset": 34, "pkt_cast_size": 2, "mask": ` + mask + `, "shift": ` + strconv.Itoa(shift) + `, "add_value": 1, "is_big_endian": true}`
	}
	wide := `{"type": "flow_var", "name": "v", "size": 4, "op": "random", "min_value": 1000000, "max_value": 1100000, "step": 1},
		{"type": "write_mask_flow_var", "name": "v", "pkt_offset": 34, "pkt_cast_size": 4, "mask": 4294901760, "shift": 0, "add_value": 0, "is_big_endian": true}`
	listed := `{"type": "flow_var", "name": "v", "size": 2, "op": "random", "value_list": [7, 300], "step": 1},
		{"type": "write_flow_var", "name": "v", "pkt_offset": 34, "add_value": 0, "is_big_endian": true}`
	for name, c := range map[string]struct {
		program string
		got     []byte
		want    string
	}{
		"least":                   {randomPort, with(frame, 34, low...), ""},
		"most":                    {randomPort, with(frame, 34, high...), ""},
		"less":                    {randomPort, with(frame, 34, 0x03, 0xec), "variable v is 03ec at byte 34, which is what none of 1000 to 1010 becomes"},
		"more":                    {randomPort, with(frame, 34, 0x03, 0xf8), "variable v is 03f8"},
		"beside it":               {randomPort, with(with(frame, 34, low...), 36, 9), "byte 36"},
		"as in TRex but wrong":    {randomPort, frame, "variable v is 0401"},
		"repeated":                {strings.NewReplacer("flow_var\", \"name\": \"v\", \"size\"", "flow_var_rand_limit\", \"name\": \"v\", \"size\"", `"op": "random", `, "").Replace(randomPort), with(frame, 34, 0x03, 0xf8), "variable v is 03f8"},
		"shifted":                 {masked(4, "240", "1"), with(frame, 34, 0x04, 0x41), ""},
		"shifted, more":           {masked(4, "240", "1"), with(frame, 34, 0x04, 0x81), "variable v is 0481"},
		"beside the mask":         {masked(4, "240", "1"), with(frame, 34, 0x04, 0x42), "byte 35: want 01000c00, got 42000c00"},
		"shifted right":           {masked(-1, "255", "1"), with(frame, 34, 0x04, 0x03), ""},
		"shifted right, more":     {masked(-1, "255", "1"), with(frame, 34, 0x04, 0x04), "variable v is 0404"},
		"some bits of many":       {wide, with(frame, 34, 0x00, 0x10), ""},
		"some bits of many, less": {wide, with(frame, 34, 0x00, 0x0e), "variable v is 000e000c"},
		"listed":                  {listed, with(frame, 34, 0x01, 0x2c), ""},
		"not listed":              {listed, with(frame, 34, 0x01, 0x2d), "none one of [7 300] becomes"},
		"two of one": {randomPort + `, {"type": "write_flow_var", "name": "v", "pkt_offset": 36, "add_value": 5, "is_big_endian": true}`,
			with(frame, 34, 0x03, 0xf0, 0x03, 0xf1), "variable v is 03f0 at byte 34 03f1 at byte 36"},
		"overwritten": {randomPort + `, {"type": "flow_var", "name": "w", "size": 1, "op": "inc", "min_value": 1, "max_value": 1, "step": 1},
			{"type": "write_flow_var", "name": "w", "pkt_offset": 35, "add_value": 0, "is_big_endian": true}`, with(frame, 34, 0x03), ""},
		"overwritten by another": {randomPort + `, {"type": "flow_var", "name": "w", "size": 1, "op": "inc", "min_value": 1, "max_value": 1, "step": 1},
			{"type": "write_flow_var", "name": "w", "pkt_offset": 35, "add_value": 0, "is_big_endian": true}`, with(frame, 34, 0x03, 0x02), "byte 35: want 01000c00, got 02000c00"},
	} {
		t.Run(name, func(t *testing.T) {
			profile := profileOf(t, frame, c.program, "")
			expect(t, profile.Compare(packets(0, frame), Simulated{Packets: packets(0, c.got)}), c.want)
		})
	}
}

func TestChecksumsOverRandomValuesVerify(t *testing.T) {
	frame := udpFrame(64)
	drawn := with(frame, 26, 0x10, 0x20, 0x30, 0x40)
	hardware := `, {"type": "fix_checksum_hw", "l2_len": 14, "l3_len": 20, "l4_type": 11}`
	summed := func(frame []byte) []byte {
		frame = sealed(slices.Clone(frame))
		sum := words(frame[34:]) + words(frame[26:34]) + uint64(len(frame)-34) + 17
		for sum > 0xffff {
			sum = sum>>16 + sum&0xffff
		}
		binary.BigEndian.PutUint16(frame[40:], ^uint16(sum))
		return frame
	}
	for name, c := range map[string]struct {
		program string
		got     []byte
		want    string
	}{
		"right":              {randomAddress + ", " + ipChecksum, sealed(slices.Clone(drawn)), ""},
		"as it was":          {randomAddress + ", " + ipChecksum, drawn, "IPv4 checksum"},
		"out of range":       {randomAddress + ", " + ipChecksum, sealed(with(frame, 26, 0x30)), "variable v is 30000001"},
		"not kept":           {randomAddress, drawn, ""},
		"not kept, but is":   {randomAddress, sealed(slices.Clone(drawn)), "byte 24"},
		"over nothing free":  {randomPort + ", " + ipChecksum, with(with(frame, 34, 0x03, 0xed), 24, 0), "byte 24"},
		"hardware":           {randomAddress + hardware, summed(drawn), ""},
		"hardware, UDP only": {randomAddress + hardware, with(summed(drawn), 24, 0, 0), "IPv4 checksum 0000 at byte 24 is wrong"},
		"hardware, not UDP":  {randomAddress + hardware, sealed(slices.Clone(drawn)), "UDP checksum 0000 at byte 40 is wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			profile := profileOf(t, frame, c.program, "")
			expect(t, profile.Compare(packets(0, frame), Simulated{Packets: packets(0, c.got)}), c.want)
		})
	}
}

func TestLengthsThatAreRandom(t *testing.T) {
	frame := udpFrame(200)
	program := `{"type": "flow_var", "name": "v", "size": 2, "op": "random", "min_value": 64, "max_value": 150, "step": 1},
		{"type": "trim_pkt_size", "name": "v"},
		{"type": "write_flow_var", "name": "v", "pkt_offset": 16, "add_value": -14, "is_big_endian": true},
		{"type": "write_flow_var", "name": "v", "pkt_offset": 38, "add_value": -34, "is_big_endian": true}, ` + ipChecksum
	profile := profileOf(t, frame, program, "")
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"shorter":            {udpFrame(64), ""},
		"longer":             {udpFrame(150), ""},
		"too short":          {udpFrame(63), "63 bytes are not in the range of v, 64 to 150"},
		"too long":           {udpFrame(151), "151 bytes are not in the range of v, 64 to 150"},
		"beyond the packet":  {udpFrame(201), "got 201 bytes, of a packet of 200"},
		"another length":     {sealed(with(udpFrame(100), 17, 80)), "variable v is 0050 at byte 16"},
		"altered":            {with(udpFrame(100), 90, 'y'), "byte 90"},
		"altered beyond it":  {with(udpFrame(140), 130, 'y'), "byte 130"},
		"a checksum too old": {with(udpFrame(100), 24, 1), "IPv4 checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, profile.Compare(packets(0, udpFrame(120)), Simulated{Packets: packets(0, c.got)}), c.want)
		})
	}
}

func TestTrailersAreTheirMakersOwn(t *testing.T) {
	frame := udpFrame(64)
	measured := func(rule string) *Profile {
		return profileOf(t, frame, "", `, "flow_stats": {"enabled": true, "rule_type": "`+rule+`"}`)
	}
	theirs, ours := with(frame, 48, 0xab, 1, 2), with(frame, 48, 0x5a, 7)
	expect(t, measured("latency").Compare(packets(0, theirs), Simulated{Packets: packets(0, ours)}), "")
	expect(t, measured("latency").Compare(packets(0, theirs), Simulated{Packets: packets(0, with(ours, 47, 'y'))}), "byte 47")
	expect(t, measured("stats").Compare(packets(0, theirs), Simulated{Packets: packets(0, ours)}), "byte 48")
}

func TestDescriptionsThatAreNotKnown(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:      "is no list of TRex's streams",
		`[{}, 3]`: "is no list of TRex's streams",
		`[{"vm": {"instructions": [{"type": "jump"}]}}]`:                                                                                                     `stream 0: instruction 0: "jump" is not known to the comparison`,
		`[{"vm": {"instructions": [{"type": "write_flow_var", "name": "x"}]}}]`:                                                                              `there is no variable "x"`,
		`[{"vm": {"instructions": [{"type": "fix_checksum_hw", "l4_type": 99}]}}]`:                                                                           "l4_type 99 is not known",
		`[{"vm": {"instructions": [{"type": "flow_var", "name": "x", "size": 4, "op": "inc"}, {"type": "write_flow_var", "name": "x", "pkt_offset": 58}]}}]`: "bytes 58 to 62 are not in the packet",
	} {
		_, err := ReadProfile([]byte(text))
		expect(t, err, want)
	}
}

func TestCoresThatSendAreThoseOfTRex(t *testing.T) {
	const (
		split   = `{"core_id": -1, "mode": {"type": "continuous"}}`
		latency = `{"core_id": -1, "mode": {"type": "continuous"}, "flow_stats": {"enabled": true, "rule_type": "latency"}}`
		counted = `{"core_id": -1, "mode": {"type": "continuous"}, "flow_stats": {"enabled": true, "rule_type": "stats"}}`
	)
	for text, want := range map[string]int{
		split:                            2,
		split + `, ` + latency:           2,
		latency:                          1,
		latency + `, ` + latency:         1,
		counted:                          2,
		latency + `, {"core_id": 0}`:     1,
		latency + `, {"core_id": 1}`:     2,
		`{"core_id": 0}`:                 1,
		`{"core_id": 0}, {"core_id": 1}`: 2,
		latency + `, {"core_id": -1, "enabled": false}`:                                1,
		`{"core_id": -1, "mode": {"type": "single_burst", "total_pkts": 2}}`:           2,
		`{"core_id": -1, "mode": {"type": "single_burst", "total_pkts": 1}}`:           1,
		split + `, {"core_id": -1, "mode": {"type": "single_burst", "total_pkts": 1}}`: 2,
		`{"core_id": -1, "mode": {"type": "multi_burst", "pkts_per_burst": 1}}`:        1,
	} {
		profile, err := ReadProfile([]byte("[" + text + "]"))
		if err != nil {
			t.Fatal(err)
		}
		if got := cores(profile.described, 2); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}
