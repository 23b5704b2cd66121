// SPDX-License-Identifier: Apache-2.0

package trex

import (
	"encoding/binary"
	"net"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestStreamsKeepTheirModeAndTime(t *testing.T) {
	for name, c := range map[string]struct {
		changes parts
		want    string
	}{
		"continuous":            {parts{"mode": `{"type": "continuous", "rate": {"type": "pps", "value": 1.5}}`}, `{transmit: {continuous: {rate: 1.5pps}}}`},
		"bits on layer 1":       {parts{"mode": `{"type": "continuous", "rate": {"type": "bps_L1", "value": 1e6}}`}, `{transmit: {continuous: {rate: 1000000bpsL1}}}`},
		"bits on layer 2":       {parts{"mode": `{"type": "continuous", "rate": {"type": "bps_L2", "value": 1000000.0}}`}, `{transmit: {continuous: {rate: 1000000bpsL2}}}`},
		"percent":               {parts{"mode": `{"type": "continuous", "rate": {"type": "percentage", "value": 0.1023482498892335}}`}, `{transmit: {continuous: {rate: 0.1023482498892335%}}}`},
		"burst":                 {parts{"mode": `{"type": "single_burst", "total_pkts": 5, "rate": {"type": "pps", "value": 10}}`}, `{transmit: {burst: {packets: 5, rate: 10pps}}}`},
		"bursts":                {parts{"mode": `{"type": "multi_burst", "pkts_per_burst": 5, "count": 3, "ibg": 1000.5, "rate": {"type": "pps", "value": 10}}`}, `{transmit: {multiBurst: {packetsPerBurst: 5, bursts: 3, interBurstGap: 1000500ns, rate: 10pps}}}`},
		"bursts without an end": {parts{"mode": `{"type": "multi_burst", "pkts_per_burst": 5, "count": 0, "ibg": 0, "rate": {"type": "pps", "value": 10}}`}, `{transmit: {multiBurst: {packetsPerBurst: 5, interBurstGap: 0s, rate: 10pps}}}`},
		"delay":                 {parts{"isg": "0.1"}, `{transmit: {continuous: {rate: 10pps}}, startDelay: 100ns}`},
		"delay of ms":           {parts{"isg": "25000.0"}, `{transmit: {continuous: {rate: 10pps}}, startDelay: 25ms}`},
		"pinned":                {parts{"core_id": "0"}, `{transmit: {continuous: {rate: 10pps}}, pinned: true}`},
		"cache":                 {parts{"vm": `{"instructions": [` + fixIPv4 + `], "cache": 255, "split_by_var": ""}`}, `{transmit: {continuous: {rate: 10pps}}, cache: 255}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := imports(t, Options{}, streamJSON(c.changes)).Streams[0].Spec
			got.Packet = nil
			var want spatev1.StatelessStreamSpec
			if err := yaml.UnmarshalStrict([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			same(t, got, want)
		})
	}
}

func TestDisabledStreamsArePaused(t *testing.T) {
	for _, key := range []string{"enabled", "start_paused"} {
		got := imports(t, Options{}, streamJSON(nil), streamJSON(parts{key: map[string]string{"enabled": "false", "start_paused": "true"}[key]}))
		if traffic := got.Profile.Spec.Traffic; traffic[0].Paused || !traffic[1].Paused {
			t.Errorf("%s: %+v", key, traffic)
		}
		if noted := strings.Contains(strings.Join(got.Notes, "\n"), "stream 2: $[1].enabled: is false: it is paused here"); noted != (key == "enabled") {
			t.Errorf("%s: notes %q", key, got.Notes)
		}
	}
}

func TestAddressesComeFromWhereTRexTakesThem(t *testing.T) {
	const source, destination = spatev1.PortSource, spatev1.PortDestination
	for flags, want := range map[string][]spatev1.PortAddress{
		"0": {source, destination}, "1": {destination}, "2": {source}, "3": nil, "4": {source, destination}, "5": {destination},
	} {
		got := imports(t, Options{}, streamJSON(parts{"flags": flags})).Streams[0].Spec.Packet
		if !slices.Equal(got.FromPort, want) {
			t.Errorf("flags %s: %v, want %v", flags, got.FromPort, want)
		}
	}
	given := Options{SourceMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DestinationMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}}
	for flags, want := range map[string]string{
		"0": "\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01", "1": "\x02\x00\x00\x00\x00\x02" + string(udp4[6:12]), "3": string(udp4[:12]),
	} {
		got := imports(t, given, streamJSON(parts{"flags": flags})).Streams[0].Spec.Packet
		if string(got.Bytes[:12]) != want || got.FromPort != nil {
			t.Errorf("flags %s: %x from port %v, want %x", flags, got.Bytes[:12], got.FromPort, want)
		}
	}
}

func TestShortPacketsAreFilledUp(t *testing.T) {
	got := imports(t, Options{}, streamJSON(parts{"packet": packetJSON(udp4[:42])})).Streams[0].Spec.Packet.Bytes
	if want := string(udp4[:42]) + strings.Repeat("\x00", 18); string(got) != want {
		t.Errorf("got %x", got)
	}
}

func TestMeasuredStreamsAreMarkedAsByTRex(t *testing.T) {
	stats := func(group, kind string) string {
		return `{"enabled": true, "stream_id": ` + group + `, "rule_type": "` + kind + `", "vxlan": false, "ieee_1588": false}`
	}
	got := imports(t, Options{ReceivePort: "port0"},
		streamJSON(parts{"flow_stats": stats("7", "stats")}),
		streamJSON(parts{"flow_stats": stats("3", "stats"), "packet": packetJSON(udp6)}),
		streamJSON(parts{"flow_stats": stats("7", "stats")}),
		streamJSON(parts{"flow_stats": stats("9", "latency"), "vm": `{"instructions": [` + fixIPv4 + `], "cache": 10}`}))
	var measures []spatev1.Measure
	for i, stream := range got.Streams {
		measures = append(measures, stream.Spec.Measure)
		if got.Profile.Spec.Traffic[i].ReceivePort != "port0" {
			t.Errorf("stream %d is expected at %q", i+1, got.Profile.Spec.Traffic[i].ReceivePort)
		}
	}
	var want []spatev1.Measure
	if err := yaml.UnmarshalStrict([]byte(`[{mark: {ipv4Identification: 65280}}, {mark: {ipv6FlowLabel: 65281}}, {mark: {ipv4Identification: 65280}}, {flow: true, latency: true}]`), &want); err != nil {
		t.Fatal(err)
	}
	same(t, measures, want)
	counted, labelled, timed := got.Streams[0].Spec.Packet.Bytes, got.Streams[1].Spec.Packet.Bytes, got.Streams[3].Spec
	if counted[15] != 1 || binary.BigEndian.Uint16(counted[18:]) != 0xff00 || sum(counted[14:34]) != 0xffff {
		t.Errorf("counted: %x", counted[14:34])
	}
	if binary.BigEndian.Uint32(labelled[14:]) != 0x6010ff01 {
		t.Errorf("labelled: %x", labelled[14:18])
	}
	if binary.BigEndian.Uint16(timed.Packet.Bytes[18:]) != 0xffff || !timed.Pinned || timed.Cache != 0 {
		t.Errorf("timed: %x, pinned %v, cache %d", timed.Packet.Bytes[14:34], timed.Pinned, timed.Cache)
	}
}

// sum is the one's complement sum.
func sum(bytes []byte) (all uint32) {
	for i := 0; i < len(bytes); i += 2 {
		all += uint32(binary.BigEndian.Uint16(bytes[i:]))
	}
	return all>>16 + all&0xffff
}

// burst returns a burst stream with a name.
func burst(name string, changes parts) string {
	all := parts{"name": `"` + name + `"`, "mode": `{"type": "single_burst", "total_pkts": 2, "rate": {"type": "pps", "value": 10}}`}
	for key, value := range changes {
		all[key] = value
	}
	return streamJSON(all)
}

func TestChainsOfStreams(t *testing.T) {
	got := imports(t, Options{Port: "east", Generator: "lab"},
		burst("S0", parts{"next": `"S1"`}),
		burst("S1", parts{"next": `"S2"`, "self_start": "false"}),
		burst("S2", parts{"next": `"S0"`, "self_start": "false", "action_count": "3", "start_paused": "true"}))
	var want spatev1.TrafficProfileSpec
	if err := yaml.UnmarshalStrict([]byte(`
generatorRef: {name: lab}
traffic:
- {name: s0, transmitPort: east, stream: {ref: {name: p-s0}, next: {entry: s1}}}
- {name: s1, transmitPort: east, stream: {ref: {name: p-s1}, start: Waiting, next: {entry: s2}}}
- {name: s2, transmitPort: east, paused: true, stream: {ref: {name: p-s2}, start: Waiting, next: {entry: s0, loops: 2}}}
`), &want); err != nil {
		t.Fatal(err)
	}
	same(t, got.Profile.Spec, want)
}

func TestNextByNumber(t *testing.T) {
	for name, streams := range map[string][]string{
		"names are numbers": {streamJSON(parts{"name": "1", "next": "2", "mode": `{"type": "single_burst", "total_pkts": 2, "rate": {"type": "pps", "value": 10}}`}), streamJSON(parts{"name": "2", "self_start": "false"})},
		"by id":             {burst("a", parts{"stream_id": "11", "next_stream_id": "12"}), streamJSON(parts{"stream_id": "12", "next_stream_id": "-1", "self_start": "false"})},
	} {
		t.Run(name, func(t *testing.T) {
			got := imports(t, Options{}, streams...).Profile.Spec.Traffic
			if got[0].Stream.Next == nil || got[0].Stream.Next.Entry != got[1].Name {
				t.Errorf("next %v", got[0].Stream.Next)
			}
		})
	}
}

func TestAnActionCountOfOneStartsNothing(t *testing.T) {
	got := imports(t, Options{}, burst("a", parts{"next": `"b"`, "action_count": "1"}), burst("b", parts{"self_start": "false"}))
	if traffic := got.Profile.Spec.Traffic; traffic[0].Stream.Next != nil || traffic[1].Stream.Start != "" || !traffic[1].Paused {
		t.Errorf("%+v", traffic)
	}
	if !strings.Contains(strings.Join(got.Notes, "\n"), "stream 2 (b): $[1].self_start") {
		t.Errorf("notes %q", got.Notes)
	}
}

func TestResourcesAreCalledAfterTheirStreams(t *testing.T) {
	long := strings.Repeat("x", 80)
	got := imports(t, Options{}, streamJSON(parts{"name": `"Big_One"`}), streamJSON(nil), streamJSON(parts{"name": `"big one"`}), streamJSON(parts{"name": `"***"`}),
		streamJSON(parts{"name": `"` + long + `a"`}), streamJSON(parts{"name": `"` + long + `b"`}))
	var names, entries []string
	for i, stream := range got.Streams {
		names, entries = append(names, stream.Name), append(entries, string(got.Profile.Spec.Traffic[i].Name))
	}
	if want := []string{"p-big-one", "p-2", "p-big-one-3", "p-4"}; !slices.Equal(names[:4], want) {
		t.Errorf("streams %q, want %q", names, want)
	}
	if want := []string{"big-one", "stream-2", "big-one-3", "stream-4"}; !slices.Equal(entries[:4], want) {
		t.Errorf("entries %q, want %q", entries, want)
	}
	for _, name := range append(names, entries...) {
		if len(name) > 63 || !validLabel.MatchString(name) {
			t.Errorf("%q is no label", name)
		}
	}
}

func TestStreamsInsideOfAnObject(t *testing.T) {
	inner := strings.TrimPrefix(streamJSON(nil), "{")
	imports(t, Options{}, `{"name": "a", "stream": {`+inner+`}`)
}

func TestRandomValuesAreNoted(t *testing.T) {
	got := imports(t, Options{}, streamJSON(parts{"name": `"a"`, "random_seed": "77", "vm": vmJSON(changed(counting, `"inc"`, `"random"`))}))
	if *got.Streams[0].Spec.Fields[0].Seed != 77 {
		t.Errorf("seed %d", *got.Streams[0].Spec.Fields[0].Seed)
	}
	if len(got.Notes) != 1 || !strings.HasPrefix(got.Notes[0], `stream 1 (a): $[0].vm.instructions[0]: random values of "v"`) {
		t.Errorf("notes %q", got.Notes)
	}
}

func TestWhatIsNotKnownIsRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		streams []string
		want    string
	}{
		"unknown key":           {[]string{streamJSON(nil), streamJSON(parts{"colour": `"red"`})}, "stream 2: $[1].colour: is not known to the import"},
		"missing key":           {[]string{streamJSON(parts{"mode": ""})}, "stream 1: $[0].mode: is missing"},
		"no object":             {[]string{`7`}, "stream 1: $[0]: must be an object, not 7"},
		"dummy":                 {[]string{streamJSON(parts{"flags": "8"})}, "$[0].flags: a dummy stream"},
		"unknown flag":          {[]string{streamJSON(parts{"flags": "16"})}, "$[0].flags: 16: only bit 0"},
		"both destinations":     {[]string{streamJSON(parts{"flags": "6"})}, "$[0].flags: 6: only bit 0"},
		"unknown mode":          {[]string{streamJSON(parts{"mode": `{"type": "wave", "rate": {"type": "pps", "value": 1}}`})}, `$[0].mode.type: "wave" is not one of`},
		"unknown rate":          {[]string{streamJSON(parts{"mode": `{"type": "continuous", "rate": {"type": "mph", "value": 1}}`})}, `$[0].mode.rate.type: "mph" is not one of`},
		"no rate":               {[]string{streamJSON(parts{"mode": `{"type": "continuous", "rate": {"type": "pps", "value": 0}}`})}, `$[0].mode.rate.value: 0.0000000000000000 is not a rate`},
		"negative rate":         {[]string{streamJSON(parts{"mode": `{"type": "continuous", "rate": {"type": "pps", "value": -1}}`})}, `$[0].mode.rate.value: must not be negative`},
		"empty burst":           {[]string{streamJSON(parts{"mode": `{"type": "single_burst", "total_pkts": 0, "rate": {"type": "pps", "value": 1}}`})}, `$[0].mode.total_pkts: 0 is not`},
		"bursts at one instant": {[]string{streamJSON(parts{"mode": `{"type": "multi_burst", "pkts_per_burst": 1, "count": 0, "ibg": 0, "rate": {"type": "pps", "value": 10}}`})}, "as StatelessStream p-1 it cannot be sent: spec.transmit.multiBurst.interBurstGap"},
		"endless exponent":      {[]string{streamJSON(parts{"isg": "1e999999999"})}, "$[0].isg: must be a number, not 1e999999999"},
		"too long a delay":      {[]string{streamJSON(parts{"isg": "1e30"})}, "$[0].isg: 1000000000000000000000000000000 us is too long"},
		"no base64":             {[]string{streamJSON(parts{"packet": `{"binary": "%%%", "meta": ""}`})}, "$[0].packet.binary: is no base64"},
		"too long a packet":     {[]string{streamJSON(parts{"packet": packetJSON(make([]byte, 9231))})}, "as StatelessStream p-1 it cannot be sent: spec.packet.bytes"},
		"unknown measuring":     {[]string{streamJSON(parts{"flow_stats": `{"enabled": true, "stream_id": 1, "rule_type": "tally"}`})}, `$[0].flow_stats.rule_type: "tally" is not one of stats, latency, tpg`},
		"one tpgid for two":     {[]string{streamJSON(parts{"flow_stats": tpg}), streamJSON(parts{"flow_stats": tpg})}, "stream 2: $[1].flow_stats.stream_id: 1 is the tagged packet group of another stream"},
		"no room to be tagged":  {[]string{streamJSON(parts{"packet": packetJSON(tcp4), "flow_stats": tpg})}, "it cannot be sent: spec.packet.bytes"},
		"inner marks":           {[]string{streamJSON(parts{"flow_stats": `{"enabled": true, "stream_id": 1, "rule_type": "stats", "vxlan": true}`})}, "$[0].flow_stats.vxlan: marks in the inner packet"},
		"IEEE 1588":             {[]string{streamJSON(parts{"flow_stats": `{"enabled": true, "stream_id": 1, "rule_type": "latency", "ieee_1588": true}`})}, "$[0].flow_stats.ieee_1588: time stamps of IEEE 1588"},
		"no IP to be measured":  {[]string{streamJSON(parts{"packet": packetJSON(make([]byte, 64)), "flow_stats": `{"enabled": true, "stream_id": 1, "rule_type": "stats"}`})}, "only IPv4 and IPv6 packets can be measured"},
		"no room to be timed":   {[]string{streamJSON(parts{"packet": packetJSON(tcp4), "flow_stats": `{"enabled": true, "stream_id": 1, "rule_type": "latency"}`})}, "it cannot be sent: spec.packet.bytes"},
		"next of nothing":       {[]string{burst("a", parts{"next": `"b"`})}, `stream 1 (a): $[0].next: "b" is the name of no stream`},
		"next by id of nothing": {[]string{burst("a", parts{"next_stream_id": `4`})}, `$[0].next_stream_id: 4 is the stream_id of no stream`},
		"next of continuous":    {[]string{streamJSON(parts{"next": `"b"`}), burst("b", parts{"self_start": "false"})}, "$[0].next: nothing comes after a continuous stream"},
		"nothing starts it":     {[]string{burst("a", parts{"self_start": "false"})}, "$[0].self_start: is false, and no stream names it"},
		"one name for two":      {[]string{burst("a", nil), burst("a", nil)}, `stream 2 (a): $[1].name: "a" is another stream's name`},
		"chain over cores":      {[]string{burst("a", parts{"next": `"b"`, "core_id": "0"}), burst("b", parts{"self_start": "false"})}, "$[0].next: it and stream 2 (b) must both be sent by one core"},
		"old split":             {[]string{streamJSON(parts{"vm": `{"instructions": [], "split_by_var": "a"}`})}, "$[0].vm.split_by_var"},
		"cache too large":       {[]string{streamJSON(parts{"vm": `{"instructions": [], "cache": 10001}`})}, "$[0].vm.cache: 10001 is not"},
		"no truth":              {[]string{streamJSON(parts{"enabled": "1"})}, "$[0].enabled: must be true or false, not 1"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, c.want, c.streams...) })
	}
}

func TestWhatIsNoListOfStreamsIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		``: "no list of TRex streams", `{}`: "no list of TRex streams", `[]`: "there are 0 streams", `[` + strings.Repeat("0,", 65536) + `0]`: "there are 65537 streams",
	} {
		if _, err := Import("p", []byte(text), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.10s: says %v without %q", text, err, want)
		}
	}
	for _, name := range []string{"", "A", "-a", strings.Repeat("a", 49)} {
		if _, err := Import(name, list(streamJSON(nil)), Options{}); err == nil || !strings.Contains(err.Error(), "the name") {
			t.Errorf("name %q: %v", name, err)
		}
	}
}
