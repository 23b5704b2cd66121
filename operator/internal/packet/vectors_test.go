// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"encoding/hex"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

// Bytes of headers that were computed by hand from the documents that define them.

// built builds a packet and returns it with the bytes of its last headers.
func built(t *testing.T, headers ...header1) (p *Packet, ends []string) {
	t.Helper()
	p, errs := Build(described(0, headers...), at, Options{NextHop: InternalDestination})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	for _, h := range p.Headers {
		ends = append(ends, hex.EncodeToString(p.Frame[h.Offset:h.Offset+h.Length]))
	}
	return p, ends
}

func TestHeadersAreTheBytesOfTheirDocuments(t *testing.T) {
	zeros := func(bytes int) string { return strings.Repeat("00", bytes) }
	gpe := vxlan()
	gpe.VXLAN.NextProtocol = ptr.To[int32](200)
	unframed := ppp()
	unframed.PPP.AddressAndControl = ptr.To(false)
	framed := ppp()
	framed.PPP.AddressAndControl = ptr.To(true)
	withCookie := l2tpv3("aabbccdd")
	longCookie := l2tpv3("aabbccdd11223344")
	plain := header1{L2TPv3: &spatev1.L2TPv3Header{SessionID: ptr.To[int64](1<<32 - 1)}}
	sublayer := header1{L2TPv3: &spatev1.L2TPv3Header{SessionID: ptr.To[int64](1), L2SpecificSublayer: true}}
	general := header1{IGMP: &spatev1.IGMPHeader{Message: spatev1.IGMPQueryV3}}
	full := header1{IGMP: &spatev1.IGMPHeader{
		Message: spatev1.IGMPQueryV3, GroupAddress: "239.1.1.1", MaxRespCode: ptr.To[int32](255), SuppressRouterProcessing: true, QRV: ptr.To[int32](7), QQIC: ptr.To[int32](0),
	}}
	wrong := igmp(spatev1.IGMPLeave)
	wrong.IGMP.Checksum = ptr.To[int32](0x1234)
	const actor = "0114" + "8000" + "020000000007" + "000d" + "00ff" + "0016" + "0d" + "000000"
	for name, c := range map[string]struct {
		stack stackOf
		// at is the first header that is compared; want are its bytes and those of the headers behind it.
		at   int
		want []string
	}{
		// RFC 1112 appendix I, RFC 2236 section 2
		"IGMP, version 1, query":  {stackOf{eth(), ip4(), igmp(spatev1.IGMPQueryV1)}, 2, []string{"1100fefc" + "ef010101"}},
		"IGMP, version 1, report": {stackOf{eth(), ip4(), igmp(spatev1.IGMPReportV1)}, 2, []string{"1200fdfc" + "ef010101"}},
		"IGMP, version 2, query":  {stackOf{eth(), ip4(), igmp(spatev1.IGMPQueryV2)}, 2, []string{"1164fe98" + "ef010101"}},
		"IGMP, version 2, report": {stackOf{eth(), ip4(), igmp(spatev1.IGMPReportV2)}, 2, []string{"1600f9fc" + "ef010101"}},
		"IGMP, version 2, leave":  {stackOf{eth(), ip4(), igmp(spatev1.IGMPLeave)}, 2, []string{"1700f8fc" + "ef010101"}},
		"IGMP, a wrong checksum":  {stackOf{eth(), ip4(), wrong}, 2, []string{"17001234" + "ef010101"}},
		// RFC 3376 section 4
		"IGMP, version 3, query":         {stackOf{eth(), ip4(), igmp(spatev1.IGMPQueryV3)}, 2, []string{"11643607" + "ef010101" + "027d0001" + "c6120001"}},
		"IGMP, version 3, general query": {stackOf{eth(), ip4(), general}, 2, []string{"1164ec1e" + "00000000" + "027d0000"}},
		"IGMP, version 3, all of it":     {stackOf{eth(), ip4(), full}, 2, []string{"11ffeefd" + "ef010101" + "0f000000"}},
		"IGMP, version 3, report": {stackOf{eth(), ip4(), igmp(spatev1.IGMPReportV3)}, 2, []string{
			"220071cd" + "00000002" + "02000000" + "ef010101" + "05000002" + "e8010101" + "c6120001" + "c6120002"}},
		// RFC 2236 section 2: TTL 1, a router alert (RFC 2113); protocol 2; version 1 has no option
		"IPv4 of IGMP":            {stackOf{eth(), ip4(), igmp(spatev1.IGMPLeave)}, 1, []string{"4600002000000000010298b0" + "c6120001" + "c6130001" + "94040000", "1700f8fc" + "ef010101"}},
		"IPv4 of IGMP, version 1": {stackOf{eth(), ip4(), igmp(spatev1.IGMPQueryV1)}, 1, []string{"4500001c000000000102" + "2db9" + "c6120001" + "c6130001", "1100fefc" + "ef010101"}},
		// IEEE 802.1AX-2014 section 6.4.2.3
		"LACP":                 {stackOf{eth(), lacp()}, 1, []string{"0101" + actor + "0214" + "0000" + "020000000008" + "0001" + "0000" + "0002" + "82" + "000000" + "0310" + "0032" + zeros(12) + "0000" + zeros(50)}},
		"LACP, nobody answers": {stackOf{eth(), lonely()}, 1, []string{"0102" + actor + "0214" + zeros(18) + "0310" + "0032" + zeros(12) + "0000" + zeros(50)}},
		// IEEE 802.3-2018 annex 31B, 31D
		"PAUSE": {stackOf{eth(), pause(65535)}, 1, []string{"0001" + "ffff"}},
		"PFC":   {stackOf{eth(), pfc()}, 1, []string{"0101" + "0088" + "0000" + "0000" + "0000" + "ffff" + "0000" + "0000" + "0000" + "0001"}},
		// RFC 8300 section 2
		"NSH, MD type 1": {stackOf{eth(), nsh(), ip4(), udp()}, 1, []string{"0fc60101" + "abcdefff" + "000102030405060708090a0b0c0d0e0f"}},
		"NSH, MD type 2": {stackOf{eth(), nshMetadata(), ip6(), udp()}, 1, []string{"20c60202" + "00000507" + "01020305" + "0405060708" + "000000" + "00090100"}},
		"NSH in NSH":     {stackOf{eth(), nshSlim(), nshSlim(), innerEth(), ip4(), udp()}, 1, []string{"0fc20204" + "000001ff", "0fc20203" + "000001ff"}},
		// draft-ietf-nvo3-vxlan-gpe section 3
		"VXLAN-GPE":               {stackOf{eth(), ip4(), tunnel(), vxlan(), nshSlim(), ip4(), udp()}, 3, []string{"0c000004" + "abcdef00", "0fc20201" + "000001ff"}},
		"VXLAN-GPE of all kinds":  {stackOf{eth(), ip4(), tunnel(), gpe}, 3, []string{"0c0000c8" + "abcdef00"}},
		"VXLAN, as it was before": {stackOf{eth(), ip4(), tunnel(), vxlan(), innerEth(), ip4(), udp()}, 3, []string{"08000000" + "abcdef00"}},
		// RFC 2661 section 3.1, and RFC 1661 section 2 with RFC 1662 section 3.1
		"L2TPv2":                  {stackOf{eth(), ip4(), tunnel(), l2tp(), ppp(), ip4(), udp()}, 3, []string{"0002" + "000a" + "0014", "ff030021"}},
		"L2TPv2, without framing": {stackOf{eth(), ip4(), tunnel(), l2tp(), unframed, ip6(), udp()}, 3, []string{"0002" + "000a" + "0014", "0057"}},
		"L2TPv2, all of it":       {stackOf{eth(), ip4(), tunnel(), l2tpFull(), ppp(), ip4(), udp()}, 3, []string{"4b02" + "0032" + "000a" + "0014" + "0003" + "0000" + "0004" + "00000000", "ff030021"}},
		"L2TPv2, control":         {stackOf{eth(), ip4(), tunnel(), l2tpControl()}, 3, []string{"c802" + "0014" + "000a" + "0000" + "0003" + "0004" + "8008000000000006"}},
		"PPPoE, framed":           {stackOf{eth(), pppoe(0), framed, ip4(), udp()}, 1, []string{"11001234" + "0028", "ff030021"}},
		// RFC 3931 sections 3.2.1, 4.1.1, 4.1.2, 4.6
		"L2TPv3 over IP":               {stackOf{eth(), ip4(), plain, innerEth(), ip4(), udp()}, 2, []string{"ffffffff"}},
		"L2TPv3 over IP, with cookie":  {stackOf{eth(), ip6(), withCookie, ip4(), udp()}, 2, []string{"01020304" + "aabbccdd" + "40000007"}},
		"L2TPv3 over IP, long cookie":  {stackOf{eth(), ip4(), longCookie, ip4(), udp()}, 2, []string{"01020304" + "aabbccdd11223344" + "40000007"}},
		"L2TPv3 over UDP":              {stackOf{eth(), ip4(), tunnel(), sublayer, innerEth(), ip4(), udp()}, 3, []string{"00030000" + "00000001" + "00000000"}},
		"L2TPv3 over IP, control":      {stackOf{eth(), ip4(), l2tpv3Control()}, 2, []string{"00000000" + "c803" + "000c" + "01020304" + "0003" + "0004"}},
		"L2TPv3 over UDP, control":     {stackOf{eth(), ip4(), tunnel(), l2tpv3Control()}, 3, []string{"c803" + "000c" + "01020304" + "0003" + "0004"}},
		"IPv4 of L2TPv3 (protocol 73)": {stackOf{eth(), ip4(), l2tpv3Control()}, 1, []string{"450000240000000040" + "73" + "ee3f" + "c6120001" + "c6130001"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, got := built(t, c.stack...)
			if got = got[c.at : c.at+len(c.want)]; !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			checksumsHold(t, p)
		})
	}
}

func lonely() header1 {
	h := lacp()
	h.LACP.Partner, h.LACP.Version = nil, ptr.To[int32](2)
	return h
}

func nshSlim() header1 {
	return header1{NSH: &spatev1.NSHHeader{ServicePathIdentifier: 1}}
}

func TestNumbersThatNameTheNextHeader(t *testing.T) {
	for name, c := range map[string]struct {
		stack  stackOf
		offset int
		want   string
	}{
		"LACP":                 {stackOf{eth(), lacp()}, 12, "8809"},
		"LACP behind a tag":    {stackOf{eth(), vlan(5, "802.1ad"), lacp()}, 16, "8809"},
		"MAC control":          {stackOf{eth(), pfc()}, 12, "8808"},
		"NSH":                  {stackOf{eth(), nsh(), ip4(), udp()}, 12, "894f"},
		"NSH in GRE":           {stackOf{eth(), ip4(), gre(), nsh(), ip4(), udp()}, 36, "894f"},
		"the port of GPE":      {stackOf{eth(), ip4(), tunnel(), vxlan(), nsh(), ip4(), udp()}, 36, "12b6"},
		"the port of VXLAN":    {stackOf{eth(), ip4(), tunnel(), vxlan(), innerEth(), ip4(), udp()}, 36, "12b5"},
		"the port of L2TPv2":   {stackOf{eth(), ip4(), tunnel(), l2tp(), ppp(), ip4(), udp()}, 36, "06a5"},
		"the port of L2TPv3":   {stackOf{eth(), ip4(), tunnel(), l2tpv3(""), ip4(), udp()}, 36, "06a5"},
		"MLD: hop limit 1":     {stackOf{eth(), ip6(), mld(spatev1.MLDDone)}, 20, "3a01"},
		"MLD behind options":   {stackOf{eth(), ip6(), header1{IPv6HopByHop: &spatev1.IPv6OptionsHeader{}}, mld(spatev1.MLDDone)}, 20, "0001"},
		"MLD: a router alert":  {stackOf{eth(), ip6(), header1{IPv6HopByHop: &spatev1.IPv6OptionsHeader{}}, mld(spatev1.MLDDone)}, 54, "3a00050200000100"},
		"a ping has no alert":  {stackOf{eth(), ip6(), header1{IPv6HopByHop: &spatev1.IPv6OptionsHeader{}}, ping6()}, 54, "3a00010400000000"},
		"a ping has hop limit": {stackOf{eth(), ip6(), ping6()}, 20, "3a40"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := built(t, c.stack...)
			if got := hex.EncodeToString(p.Frame[c.offset : c.offset+len(c.want)/2]); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestGopacketReadsMessagesOfMembership(t *testing.T) {
	decode := func(t *testing.T, stack ...header1) gopacket.Packet {
		t.Helper()
		p, _ := built(t, stack...)
		decoded := gopacket.NewPacket(p.Frame, layers.LayerTypeEthernet, gopacket.Default)
		if failed := decoded.ErrorLayer(); failed != nil {
			t.Fatal(failed.Error())
		}
		return decoded
	}
	four := func(text string) net.IP { return net.ParseIP(text).To4() }
	t.Run("IGMPv2", func(t *testing.T) {
		got, ok := decode(t, eth(), ip4(), igmp(spatev1.IGMPLeave)).Layer(layers.LayerTypeIGMP).(*layers.IGMPv1or2)
		if !ok || got.Type != layers.IGMPLeaveGroup || !got.GroupAddress.Equal(four("239.1.1.1")) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("IGMPv3 query", func(t *testing.T) {
		got, ok := decode(t, eth(), ip4(), igmp(spatev1.IGMPQueryV3)).Layer(layers.LayerTypeIGMP).(*layers.IGMP)
		if !ok || got.Type != layers.IGMPMembershipQuery || got.RobustnessValue != 2 || got.MaxResponseTime.Seconds() != 10 || got.IntervalTime.Seconds() != 12.5 &&
			got.IntervalTime.Seconds() != 125 || len(got.SourceAddresses) != 1 || !got.SourceAddresses[0].Equal(four("198.18.0.1")) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("IGMPv3 report", func(t *testing.T) {
		got, ok := decode(t, eth(), ip4(), igmp(spatev1.IGMPReportV3)).Layer(layers.LayerTypeIGMP).(*layers.IGMP)
		if !ok || len(got.GroupRecords) != 2 || got.GroupRecords[0].Type != layers.IGMPIsEx || got.GroupRecords[1].Type != layers.IGMPAllow ||
			!got.GroupRecords[1].MulticastAddress.Equal(four("232.1.1.1")) || !got.GroupRecords[1].SourceAddresses[1].Equal(four("198.18.0.2")) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("MLDv1", func(t *testing.T) {
		got, ok := decode(t, eth(), ip6(), mld(spatev1.MLDReportV1)).Layer(layers.LayerTypeMLDv1MulticastListenerReport).(*layers.MLDv1MulticastListenerReportMessage)
		if !ok || !got.MulticastAddress.Equal(net.ParseIP("ff0e::1")) || got.MaximumResponseDelay != 0 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("MLDv2 query", func(t *testing.T) {
		got, ok := decode(t, eth(), ip6(), mld(spatev1.MLDQueryV2)).Layer(layers.LayerTypeMLDv2MulticastListenerQuery).(*layers.MLDv2MulticastListenerQueryMessage)
		if !ok || got.MaximumResponseCode != 10000 || got.QueriersRobustnessVariable != 2 || got.QueriersQueryIntervalCode != 125 || got.SuppressRoutersideProcessing ||
			len(got.SourceAddresses) != 1 || !got.SourceAddresses[0].Equal(net.ParseIP("2001:db8::1")) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("MLDv2 report", func(t *testing.T) {
		got, ok := decode(t, eth(), ip6(), hopByHop(), mld(spatev1.MLDReportV2)).Layer(layers.LayerTypeMLDv2MulticastListenerReport).(*layers.MLDv2MulticastListenerReportMessage)
		if !ok || len(got.MulticastAddressRecords) != 2 || got.MulticastAddressRecords[1].RecordType != layers.MLDv2MulticastAddressRecordTypeBlockOldSources ||
			len(got.MulticastAddressRecords[1].SourceAddresses) != 2 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestInspectReadsWhatWasBuilt(t *testing.T) {
	for name, c := range map[string]struct {
		stack stackOf
		want  string
	}{
		"LACP":      {stackOf{eth(), lacp()}, "ethernet/lacp"},
		"PAUSE":     {stackOf{eth(), pause(1)}, "ethernet/macControl"},
		"PFC":       {stackOf{eth(), pfc()}, "ethernet/macControl"},
		"IGMP":      {stackOf{eth(), ip4(), igmp(spatev1.IGMPReportV3)}, "ethernet/ipv4/igmp 198.18.0.1 > 198.19.0.1"},
		"NSH":       {stackOf{eth(), nshMetadata(), innerEth(), ip4(), udp()}, "ethernet/nsh/ethernet/ipv4/udp 198.18.0.1:49152 > 198.19.0.1:7"},
		"VXLAN-GPE": {stackOf{eth(), ip6(), tunnel(), vxlan(), nsh(), ip4(), udp()}, "ethernet/ipv6/udp/vxlan/nsh/ipv4/udp 198.18.0.1:49152 > 198.19.0.1:7"},
		"GPE of IP": {stackOf{eth(), ip6(), tunnel(), vxlan(), ip4(), udp()}, "ethernet/ipv6/udp/vxlan/ipv4/udp 198.18.0.1:49152 > 198.19.0.1:7"},
		"L2TPv2":    {stackOf{eth(), ip6(), tunnel(), l2tpFull(), ppp(), ip4(), udp()}, "ethernet/ipv6/udp/l2tp/ppp/ipv4/udp 198.18.0.1:49152 > 198.19.0.1:7"},
		"control":   {stackOf{eth(), ip4(), tunnel(), l2tpControl()}, "ethernet/ipv4/udp/l2tp 198.18.0.1:49152 > 198.19.0.1:1701"},
		"L2TPv3":    {stackOf{eth(), ip4(), l2tpv3(""), innerEth(), ip4(), udp()}, "ethernet/ipv4/l2tpv3 198.18.0.1 > 198.19.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := built(t, c.stack...)
			seen := Inspect(p.Frame)
			if seen.String() != c.want || seen.Opaque != "" {
				t.Errorf("got %q, %q, want %q", seen, seen.Opaque, c.want)
			}
			raw, errs := Build(&spatev1.Packet{Bytes: p.Frame}, at, Options{})
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			for i, h := range raw.Headers { // fields of raw bytes have the places of those that were described
				for name, where := range h.Fields {
					if found := p.Headers[i].Fields[name]; found != where {
						t.Errorf("%s.%s is at %v, was built at %v", h.Kind, name, where, found)
					}
				}
			}
		})
	}
	other, _ := built(t, eth(), lacp())
	other.Frame[14] = 3 // OAM of IEEE 802.3 clause 57, another slow protocol
	if seen := Inspect(other.Frame); seen.String() != "ethernet" || seen.Opaque != "" {
		t.Errorf("got %q, %q", seen, seen.Opaque)
	}
}

func TestMisusedHeadersAreRefused(t *testing.T) {
	change := func(h header1, change func(*header1)) header1 {
		change(&h)
		return h
	}
	mac := spatev1.LACPParticipant{System: "02:00:00:00:00:07"}
	for name, c := range map[string]struct {
		stack stackOf
		want  string
	}{
		"IGMP over IPv6": {stackOf{eth(), ip6(), igmp(spatev1.IGMPLeave)}, "spec.packet.headers[2].igmp: Forbidden: must follow ipv4, not ipv6"},
		"IGMP of no kind": {stackOf{eth(), ip4(), {IGMP: &spatev1.IGMPHeader{Message: "Join"}}},
			"spec.packet.headers[2].igmp.message: Unsupported value: \"Join\": supported values: \"LeaveGroup\", \"MembershipQueryV1\""},
		"a report of no group":     {stackOf{eth(), ip4(), {IGMP: &spatev1.IGMPHeader{Message: spatev1.IGMPReportV2}}}, "igmp.groupAddress: Required value: only queries and MembershipReportV3 have none"},
		"a report of one group":    {stackOf{eth(), ip4(), {IGMP: &spatev1.IGMPHeader{Message: spatev1.IGMPReportV3, GroupAddress: "239.1.1.1"}}}, "igmp.groupAddress: Forbidden: MembershipReportV3 has groupRecords instead"},
		"records of version 2":     {stackOf{eth(), ip4(), change(igmp(spatev1.IGMPReportV3), func(h *header1) { h.IGMP.Message = spatev1.IGMPReportV2 })}, "igmp.groupRecords: Forbidden: goes with message: MembershipReportV3"},
		"sources of version 2":     {stackOf{eth(), ip4(), change(igmp(spatev1.IGMPQueryV3), func(h *header1) { h.IGMP.Message = spatev1.IGMPQueryV2 })}, "igmp.sourceAddresses: Forbidden: goes with message: MembershipQueryV3"},
		"a time in a leave":        {stackOf{eth(), ip4(), change(igmp(spatev1.IGMPLeave), func(h *header1) { h.IGMP.MaxRespCode = ptr.To[int32](1) })}, "igmp.maxRespCode: Forbidden: goes with a query"},
		"an IPv6 group":            {stackOf{eth(), ip4(), change(igmp(spatev1.IGMPReportV3), func(h *header1) { h.IGMP.GroupRecords[1].MulticastAddress = "ff0e::1" })}, "igmp.groupRecords[1].multicastAddress: Invalid value: \"ff0e::1\": must be an IPv4 address"},
		"a record of no type":      {stackOf{eth(), ip4(), change(igmp(spatev1.IGMPReportV3), func(h *header1) { h.IGMP.GroupRecords[1].RecordType = "" })}, "igmp.groupRecords[1].recordType: Unsupported value"},
		"an IPv4 listener":         {stackOf{eth(), ip6(), change(mld(spatev1.MLDQueryV2), func(h *header1) { h.ICMPv6.MulticastListener.SourceAddresses[0] = "198.18.0.1" })}, "icmpv6.multicastListener.sourceAddresses[0]: Invalid value"},
		"records of MLDv1":         {stackOf{eth(), ip6(), change(mld(spatev1.MLDReportV2), func(h *header1) { h.ICMPv6.MulticastListener.Message = spatev1.MLDDone })}, "multicastListener.multicastAddressRecords: Forbidden: goes with message: ReportV2"},
		"too many records":         {stackOf{eth(), ip4(), change(igmp(spatev1.IGMPReportV3), func(h *header1) { h.IGMP.GroupRecords = slices.Repeat(h.IGMP.GroupRecords, 65) })}, "igmp.groupRecords: Too many: 130: must have at most 128 items"},
		"payload behind a message": {stackOf{eth(), ip4(), igmp(spatev1.IGMPLeave), udp()}, "headers[3].udp: Forbidden: must follow ipv4"},
		"LACP over IP":             {stackOf{eth(), ip4(), lacp()}, "headers[2].lacp: Forbidden: must follow ethernet or vlan, not ipv4"},
		"LACP of nobody":           {stackOf{eth(), {LACP: &spatev1.LACPHeader{}}}, "lacp.actor.system: Invalid value"},
		"LACP in no state":         {stackOf{eth(), {LACP: &spatev1.LACPHeader{Actor: mac, Partner: &spatev1.LACPParticipant{System: mac.System, State: []spatev1.LACPState{"Up"}}}}}, "lacp.partner.state[0]: Unsupported value"},
		"PAUSE behind a tag":       {stackOf{eth(), vlan(5, ""), pause(1)}, "headers[2].macControl: Forbidden: must follow ethernet, not vlan"},
		"PAUSE and PFC":            {stackOf{eth(), change(pfc(), func(h *header1) { h.MACControl.PauseTime = ptr.To[int32](1) })}, "macControl: Invalid value: \"\": set exactly one of pauseTime and priorityEnableVector"},
		"times of PAUSE":           {stackOf{eth(), change(pause(1), func(h *header1) { h.MACControl.Times = []int32{1} })}, "macControl.times: Forbidden: goes with priorityEnableVector"},
		"nine priorities":          {stackOf{eth(), change(pfc(), func(h *header1) { h.MACControl.Times = make([]int32, 9) })}, "macControl.times: Too many: 9"},
		"NSH of nothing":           {stackOf{eth(), nsh()}, "nsh.nextProtocol: Required value"},
		"NSH with UDP":             {stackOf{eth(), nsh(), udp()}, "headers[2].udp: Forbidden"},
		"NSH of both types":        {stackOf{eth(), change(nsh(), func(h *header1) { h.NSH.Metadata = []spatev1.NSHMetadata{{}} }), ip4(), udp()}, "nsh.metadata: Forbidden: set at most one of fixedContext and metadata"},
		"NSH too long": {stackOf{eth(), change(nshMetadata(), func(h *header1) {
			h.NSH.Metadata = slices.Repeat([]spatev1.NSHMetadata{{Value: strings.Repeat("00", 127)}}, 2)
		}), ip4(), udp()}, "nsh.metadata: Invalid value: 272: the header must be at most 252 bytes"},
		"L2TP over IP":               {stackOf{eth(), ip4(), l2tp(), ppp(), ip4(), udp()}, "headers[2].l2tp: Forbidden: must follow udp, not ipv4"},
		"L2TP without PPP":           {stackOf{eth(), ip4(), tunnel(), l2tp(), ip4(), udp()}, "headers[4].ipv4: Forbidden: must follow"},
		"a control message of PPP":   {stackOf{eth(), ip4(), tunnel(), l2tpControl(), ppp(), ip4(), udp()}, "l2tp.control: Invalid value: true: no header follows a control message"},
		"a control message's offset": {stackOf{eth(), ip4(), tunnel(), change(l2tpControl(), func(h *header1) { h.L2TP.OffsetSize = ptr.To[int32](1) })}, "a control message has neither offsetSize nor priority"},
		"attributes of data":         {stackOf{eth(), ip4(), tunnel(), change(l2tp(), func(h *header1) { h.L2TP.AVPs = "00" }), ppp(), ip4(), udp()}, "l2tp.avps: Forbidden: goes with control: true"},
		"a length that is not there": {stackOf{eth(), ip4(), tunnel(), change(l2tp(), func(h *header1) { h.L2TP.Length = ptr.To[int32](9) }), ppp(), ip4(), udp()}, "l2tp.length: Invalid value: 9: goes with lengthPresent: true or control: true"},
		"L2TPv3 of nothing":          {stackOf{eth(), ip4(), {L2TPv3: &spatev1.L2TPv3Header{}}}, "l2tpv3: Invalid value: \"\": set exactly one of sessionID and controlConnectionID"},
		"L2TPv3, session 0":          {stackOf{eth(), ip4(), {L2TPv3: &spatev1.L2TPv3Header{SessionID: ptr.To[int64](0)}}}, "l2tpv3.sessionID: Invalid value: 0: 0 is a control message over IP: set controlConnectionID"},
		"L2TPv3, an odd cookie":      {stackOf{eth(), ip4(), l2tpv3("aabb"), ip4(), udp()}, "l2tpv3.cookie: Invalid value: \"aabb\": must be 8 or 16 hex digits"},
		"L2TPv3, Ns of data":         {stackOf{eth(), ip4(), change(l2tpv3(""), func(h *header1) { h.L2TPv3.Ns = ptr.To[int32](1) }), ip4(), udp()}, "l2tpv3.ns: Forbidden: goes with controlConnectionID"},
		"L2TPv3, a control's cookie": {stackOf{eth(), ip4(), change(l2tpv3Control(), func(h *header1) { h.L2TPv3.Cookie = "aabbccdd" })}, "l2tpv3.cookie: Forbidden: goes with sessionID"},
		"UDP of L2TP has a port":     {stackOf{eth(), ip4(), tunnel()}, "only vxlan, geneve, gtpu, l2tp and l2tpv3 behind it would determine it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := Build(described(0, c.stack...), at, Options{NextHop: InternalDestination})
			if len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), c.want) {
				t.Errorf("got %v, want %s", errs.ToAggregate(), c.want)
			}
		})
	}
	measured := described(0, eth(), ip4(), igmp(spatev1.IGMPLeave))
	if _, errs := Build(measured, at, Options{NextHop: InternalDestination, Trailer: true}); len(errs) != 1 || !strings.Contains(errs[0].Detail, "behind this igmp header there is none") {
		t.Errorf("got %v", errs)
	}
	measured.Payload = &spatev1.Payload{Text: "x"}
	if _, errs := Build(measured, at, Options{NextHop: InternalDestination}); len(errs) != 1 || errs[0].Detail != "nothing can follow the igmp header" {
		t.Errorf("got %v", errs)
	}
}

// TestFieldsOfMessagesAreLocated locates fields by the names that writes have, and reads what was described there.
func TestFieldsOfMessagesAreLocated(t *testing.T) {
	for name, c := range map[string]struct {
		stack stackOf
		want  uint64
	}{
		"igmp.type":                       {stackOf{eth(), ip4(), igmp(spatev1.IGMPReportV3)}, 0x22},
		"igmp.groupAddress":               {stackOf{eth(), ip4(), igmp(spatev1.IGMPQueryV2)}, 0xef010101},
		"igmp.maxRespCode":                {stackOf{eth(), ip4(), igmp(spatev1.IGMPQueryV3)}, 100},
		"igmp.qrv":                        {stackOf{eth(), ip4(), igmp(spatev1.IGMPQueryV3)}, 2},
		"igmp.numberOfGroupRecords":       {stackOf{eth(), ip4(), igmp(spatev1.IGMPReportV3)}, 2},
		"igmp.recordType":                 {stackOf{eth(), ip4(), igmp(spatev1.IGMPReportV3)}, 2}, // of the first
		"igmp.multicastAddress":           {stackOf{eth(), ip4(), igmp(spatev1.IGMPReportV3)}, 0xef010101},
		"igmp.sourceAddress":              {stackOf{eth(), ip4(), igmp(spatev1.IGMPReportV3)}, 0xc6120001},
		"icmpv6.multicastAddress":         {stackOf{eth(), ip6(), mld(spatev1.MLDQueryV1)}, 1}, // the lower 64 bits
		"icmpv6.maximumResponseCode":      {stackOf{eth(), ip6(), mld(spatev1.MLDQueryV1)}, 10000},
		"icmpv6.qqic":                     {stackOf{eth(), ip6(), mld(spatev1.MLDQueryV2)}, 125},
		"lacp.actorKey":                   {stackOf{eth(), lacp()}, 13},
		"lacp.partnerState":               {stackOf{eth(), lacp()}, 0x82},
		"lacp.actorSystem":                {stackOf{eth(), lacp()}, 0x020000000007},
		"lacp.collectorMaxDelay":          {stackOf{eth(), lacp()}, 50},
		"macControl.pauseTime":            {stackOf{eth(), pause(77)}, 77},
		"macControl.time3":                {stackOf{eth(), pfc()}, 65535},
		"macControl.opcode":               {stackOf{eth(), pfc()}, 0x101},
		"nsh[1].servicePathIdentifier":    {stackOf{eth(), nshSlim(), nsh(), ip4(), udp()}, 0xabcdef},
		"nsh.serviceIndex":                {stackOf{eth(), nshMetadata(), ip4(), udp()}, 7},
		"nsh.context4":                    {stackOf{eth(), nsh(), ip4(), udp()}, 0x0c0d0e0f},
		"nsh.ttl":                         {stackOf{eth(), nshMetadata(), ip4(), udp()}, 3},
		"vxlan.nextProtocol":              {stackOf{eth(), ip4(), tunnel(), vxlan(), nsh(), ip4(), udp()}, 4},
		"l2tp.tunnelID":                   {stackOf{eth(), ip4(), tunnel(), l2tpFull(), ppp(), ip4(), udp()}, 10},
		"l2tp.sessionID":                  {stackOf{eth(), ip4(), tunnel(), l2tp(), ppp(), ip4(), udp()}, 20},
		"l2tp.ns":                         {stackOf{eth(), ip4(), tunnel(), l2tpFull(), ppp(), ip4(), udp()}, 3},
		"ppp.protocol":                    {stackOf{eth(), ip4(), tunnel(), l2tp(), ppp(), ip4(), udp()}, 0x21},
		"l2tpv3.sessionID":                {stackOf{eth(), ip4(), tunnel(), l2tpv3(""), ip4(), udp()}, 0x01020304},
		"l2tpv3.cookie":                   {stackOf{eth(), ip4(), l2tpv3("aabbccdd"), ip4(), udp()}, 0xaabbccdd},
		"l2tpv3.sequenceNumber":           {stackOf{eth(), ip4(), l2tpv3("aabbccdd"), ip4(), udp()}, 7},
		"l2tpv3.controlConnectionID":      {stackOf{eth(), ip4(), l2tpv3Control()}, 0x01020304},
		"ipv4.ttl":                        {stackOf{eth(), ip4(), igmp(spatev1.IGMPLeave)}, 1},
		"macControl.priorityEnableVector": {stackOf{eth(), pfc()}, 0x88},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := built(t, c.stack...)
			where, err := p.Locate(name)
			if err != nil {
				t.Fatal(err)
			}
			place, value := p.Place(where), uint64(0)
			for _, b := range p.Frame[place.Offset : place.Offset+place.Size] {
				value = value<<8 | uint64(b)
			}
			if got := value & place.Mask >> place.Shift; got != c.want {
				t.Errorf("got %#x, want %#x", got, c.want)
			}
		})
	}
}
