// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
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

func TestLimitsJudgeWhatIsVaried(t *testing.T) {
	const text = `
packet:
  headers: [{ethernet: {}}, {vlan: {id: 5}}, {ipv4: {source: 198.18.0.1, destination: 198.19.0.1}}, {udp: {destinationPort: 7}}]
  size: 128
fields: [{name: x, %s}]
transmit: {continuous: {rate: 1pps}}
`
	limits := &spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"198.18.0.0/16", "198.19.0.0/17", "198.19.128.0/17", "10.0.0.0/30"}, AllowedPorts: []spatev1.PortRange{"7", "1000-1999", "2000-2100"}}
	for name, c := range map[string]struct{ field, want string }{
		"the source":             {`range: {start: 1.1.1.1, end: 9.9.9.9}, order: Random, writes: [{field: ipv4.source}]`, ""},
		"the tag":                {`range: {start: 0, end: 4095}, order: Random, writes: [{field: vlan.id}]`, ""},
		"within, over two":       {`range: {start: 198.18.0.0, end: 198.19.255.255}, order: Random, writes: [{field: ipv4.destination}]`, ""},
		"beyond":                 {`range: {start: 198.18.0.0, end: 198.20.0.0}, order: Random, writes: [{field: ipv4.destination}]`, "the packets may go to all from 198.18.0.0 to 198.20.0.0"},
		"added to":               {`range: {start: 198.18.0.0, end: 198.19.0.255}, writes: [{field: ipv4.destination, add: 65536}]`, "all from 198.19.0.0 to 198.20.0.255"},
		"listed":                 {`values: [198.18.0.9, 10.0.0.3], writes: [{field: ipv4.destination}]`, ""},
		"one listed is outside":  {`values: [198.18.0.9, 10.0.0.4], writes: [{field: ipv4.destination}]`, "the packet goes to 10.0.0.4"},
		"the last byte":          {`range: {start: 0, end: 255}, order: Random, writes: [{offset: 37, size: 1}]`, ""},
		"the second byte":        {`values: [18, 19], writes: [{offset: 35, size: 1}]`, "all from 198.0.0.1 to 198.255.0.1"},
		"a masked bit":           {`values: [0, 1], writes: [{field: ipv4.destination, shift: 16, mask: "0x10000"}]`, ""},
		"little-endian":          {`values: [1], writes: [{field: ipv4.destination, byteOrder: Little}]`, "all from 0.0.0.0 to 255.255.255.255"},
		"ports within":           {`range: {start: 1000, end: 2100}, writes: [{field: udp.destinationPort}]`, ""},
		"ports beyond":           {`range: {start: 1000, end: 2101}, writes: [{field: udp.destinationPort}]`, "may go to all ports from 1000 to 2101"},
		"a port with the source": {`range: {start: 0, end: 0xffffffff}, order: Random, writes: [{offset: 38, size: 4}]`, "may go to all ports from 0 to 65535"},
		"what follows the tag":   {`values: [0x86dd], writes: [{field: vlan.etherType}]`, "cannot be determined when fields are written to vlan.etherType (by x)"},
		"the protocol":           {`values: [6], writes: [{field: ipv4.protocol}]`, "written to ipv4.protocol (by x)"},
		"the header's length":    {`values: [6], writes: [{field: ipv4.headerLength}]`, "written to ipv4.headerLength (by x)"},
		"the payload":            {`values: [6], writes: [{offset: 60, size: 8}]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := generator(func(g *spatev1.TrafficGenerator) { g.Spec.Limits = limits })
			s := described(t, fmt.Sprintf(text, c.field))
			s.Packet.Headers[0].Ethernet.Destination = "02:00:00:00:00:01"
			_, problems := Resolve(Input{Profile: profile(entryOf("a", "east", "", s)), Generator: g})
			if (c.want == "") != (len(problems) == 0) || !strings.Contains(problems.Message(), c.want) {
				t.Errorf("got %q, want %q", problems.Message(), c.want)
			}
			if c.want != "" && problems.Reason() != spatev1.ReasonLimitExceeded {
				t.Errorf("reason %s", problems.Reason())
			}
		})
	}
}

// Destinations within service chains and L2TP count, and fields that name what is in them cannot vary.
func TestLimitsJudgeWhatServiceChainsAndL2TPCarry(t *testing.T) {
	const text = `
packet:
  headers: [{ethernet: {destination: "02:00:00:00:00:01"}}, {ipv4: {source: 198.18.0.1, destination: 198.19.0.1}}, %s, {ipv4: {source: 198.18.0.1, destination: %s}}, {udp: {destinationPort: 7}}]
fields: [{name: x, values: [1], writes: [{field: "%s"}]}]
transmit: {continuous: {rate: 1pps}}
`
	const (
		chain      = `{udp: {}}, {vxlan: {vni: 1}}, {nsh: {servicePathIdentifier: 1}}`
		l2tp       = `{udp: {}}, {l2tp: {tunnelID: 1}}, {ppp: {}}`
		pseudowire = `{l2tpv3: {sessionID: 1, cookie: "00000000"}}`
	)
	limits := &spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"198.18.0.0/15"}}
	for name, c := range map[string]struct{ tunnel, inner, field, want string }{
		"a chain inside":      {chain, "198.19.0.1", "nsh.servicePathIdentifier", ""},
		"a chain outside":     {chain, "10.0.0.1", "nsh.serviceIndex", "the packet goes to 10.0.0.1"},
		"what the chain has":  {chain, "198.19.0.1", "nsh.nextProtocol", "written to nsh.nextProtocol (by x)"},
		"what the tunnel has": {chain, "198.19.0.1", "vxlan.nextProtocol", "written to vxlan.nextProtocol (by x)"},
		"the tunnel's port":   {l2tp, "198.19.0.1", "udp[0].destinationPort", "written to udp.destinationPort (by x)"},
		"L2TP inside":         {l2tp, "198.19.0.1", "l2tp.sessionID", ""},
		"L2TP outside":        {l2tp, "10.0.0.1", "l2tp.tunnelID", "the packet goes to 10.0.0.1"},
		"what PPP has":        {l2tp, "198.19.0.1", "ppp.protocol", "written to ppp.protocol (by x)"},
		"L2TPv3 inside":       {pseudowire, "198.19.0.1", "l2tpv3.sessionID", ""},
		"L2TPv3 outside":      {pseudowire, "10.0.0.1", "l2tpv3.cookie", "the packet goes to 10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			g := generator(func(g *spatev1.TrafficGenerator) { g.Spec.Limits = limits })
			s := described(t, fmt.Sprintf(text, c.tunnel, c.inner, c.field))
			_, problems := Resolve(Input{Profile: profile(entryOf("a", "east", "", s)), Generator: g})
			if (c.want == "") != (len(problems) == 0) || !strings.Contains(problems.Message(), c.want) {
				t.Errorf("got %q, want %q", problems.Message(), c.want)
			}
		})
	}
}

func TestLimitsJudgeTunnelsAndIPv6(t *testing.T) {
	const text = `
packet:
  headers:
  - ethernet: {destination: "02:00:00:00:00:01"}
  - ipv4: {source: 198.18.0.1, destination: 198.19.0.1}
  - udp: {%s}
  - vxlan: {vni: 1}
  - ethernet: {source: "02:00:00:00:00:02", destination: "02:00:00:00:00:03"}
  - ipv6: {source: "2001:2::1", destination: "%s"}
  - udp: {destinationPort: 7}
fields: [{name: x, %s}]
transmit: {continuous: {rate: 1pps}}
`
	limits := &spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"198.18.0.0/15", "2001:2::/120"}}
	for name, c := range map[string]struct{ udp, inner, field, want string }{
		"inside":              {"", "2001:2::1", `range: {start: "2001:2::", end: "2001:2::ff"}, writes: [{field: ipv6.destination}]`, ""},
		"inner is outside":    {"", "2001:3::1", `values: [1], writes: [{field: vxlan.vni}]`, "the packet goes to 2001:3::1"},
		"inner goes outside":  {"", "2001:2::1", `range: {start: "2001:2::", end: "2001:2::100"}, writes: [{field: ipv6.destination}]`, "all from 2001:2:: to 2001:2::100"},
		"on another port too": {"destinationPort: 5555", "2001:3::1", `values: [1], writes: [{field: vxlan.vni}]`, "the packet goes to 2001:3::1"},
		"the tunnel's port":   {"", "2001:2::1", `values: [4789, 7], writes: [{field: "udp[0].destinationPort"}]`, "written to udp.destinationPort (by x)"},
	} {
		t.Run(name, func(t *testing.T) {
			g := generator(func(g *spatev1.TrafficGenerator) { g.Spec.Limits = limits })
			s := described(t, fmt.Sprintf(text, c.udp, c.inner, c.field))
			_, problems := Resolve(Input{Profile: profile(entryOf("a", "east", "", s)), Generator: g})
			if (c.want == "") != (len(problems) == 0) || !strings.Contains(problems.Message(), c.want) {
				t.Errorf("got %q, want %q", problems.Message(), c.want)
			}
		})
	}
}
