// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

// fuzzKinds are the headers that fuzzed stacks are made of.
var fuzzKinds = []func(address string, number int32) spatev1.Header{
	func(string, int32) spatev1.Header { return eth() },
	func(_ string, n int32) spatev1.Header {
		return spatev1.Header{VLAN: &spatev1.VLANHeader{ID: n, Protocol: spatev1.VLANService}}
	},
	func(address string, n int32) spatev1.Header {
		return spatev1.Header{IPv4: &spatev1.IPv4Header{Source: spatev1.IPv4Address(address), Destination: "198.19.0.1", Identification: n}}
	},
	func(address string, n int32) spatev1.Header {
		return spatev1.Header{IPv6: &spatev1.IPv6Header{Source: "::1", Destination: spatev1.IPv6Address(address), FlowLabel: n}}
	},
	func(_ string, n int32) spatev1.Header {
		return spatev1.Header{UDP: &spatev1.UDPHeader{DestinationPort: &n}}
	},
	func(_ string, n int32) spatev1.Header {
		return spatev1.Header{TCP: &spatev1.TCPHeader{DestinationPort: n, Window: &n}}
	},
	func(_ string, n int32) spatev1.Header { return mpls(n) },
	func(string, int32) spatev1.Header { return arp() },
	func(_ string, n int32) spatev1.Header { return pppoe(n) },
	func(string, int32) spatev1.Header { return ppp() },
	func(string, int32) spatev1.Header { return ip4Options() },
	func(string, int32) spatev1.Header { return hopByHop() },
	func(string, int32) spatev1.Header { return destinationOptions() },
	func(_ string, n int32) spatev1.Header { return segments(n) },
	func(string, int32) spatev1.Header { return fragment6() },
	func(string, int32) spatev1.Header { return tcpOptions() },
	func(string, int32) spatev1.Header { return ping4() },
	func(string, int32) spatev1.Header { return ping6() },
	func(string, int32) spatev1.Header { return unreachable4() },
	func(string, int32) spatev1.Header { return solicitation() },
	func(string, int32) spatev1.Header { return sctpData() },
	func(string, int32) spatev1.Header { return sctpInit() },
	func(string, int32) spatev1.Header { return greFull() },
	func(string, int32) spatev1.Header { return tunnel() },
	func(string, int32) spatev1.Header { return vxlan() },
	func(string, int32) spatev1.Header { return geneve() },
	func(string, int32) spatev1.Header { return gtpuFull() },
	func(string, int32) spatev1.Header { return innerEth() },
	func(_ string, n int32) spatev1.Header { return pause(n) },
	func(_ string, n int32) spatev1.Header {
		return spatev1.Header{MACControl: &spatev1.MACControlHeader{PriorityEnableVector: &n, Times: []int32{n, n}}}
	},
	func(address string, n int32) spatev1.Header {
		h := lacp()
		h.LACP.Actor.System, h.LACP.Actor.Key = spatev1.MACAddress(address), n
		return h
	},
	func(string, int32) spatev1.Header { return lacp() },
	func(address string, n int32) spatev1.Header {
		h := igmp(spatev1.IGMPReportV3)
		h.IGMP.GroupRecords[1].SourceAddresses = slices.Repeat([]string{address}, int(n)&0xff)
		return h
	},
	func(string, int32) spatev1.Header { return igmp(spatev1.IGMPQueryV3) },
	func(address string, n int32) spatev1.Header {
		h := igmp(spatev1.IGMPQueryV2)
		h.IGMP.GroupAddress, h.IGMP.MaxRespCode = spatev1.IPv4Address(address), &n
		return h
	},
	func(address string, n int32) spatev1.Header {
		h := mld(spatev1.MLDQueryV2)
		h.ICMPv6.MulticastListener.SourceAddresses = slices.Repeat([]string{address}, int(n)&0xff)
		return h
	},
	func(string, int32) spatev1.Header { return mld(spatev1.MLDReportV2) },
	func(string, int32) spatev1.Header { return nsh() },
	func(address string, n int32) spatev1.Header {
		return spatev1.Header{NSH: &spatev1.NSHHeader{ServicePathIdentifier: n, FixedContext: address, NextProtocol: &n}}
	},
	func(_ string, n int32) spatev1.Header {
		h := nshMetadata()
		h.NSH.Metadata = slices.Repeat(h.NSH.Metadata, int(n)&0xf)
		return h
	},
	func(string, int32) spatev1.Header { return l2tp() },
	func(_ string, n int32) spatev1.Header {
		return spatev1.Header{L2TP: &spatev1.L2TPHeader{Control: n&1 != 0, TunnelID: n & 0xffff, LengthPresent: n&2 != 0, Ns: &n, OffsetSize: ptr.To(n & 0x1ff)}}
	},
	func(string, int32) spatev1.Header { return l2tpControl() },
	func(address string, _ int32) spatev1.Header { return l2tpv3(address) },
	func(string, int32) spatev1.Header { return l2tpv3("") },
	func(string, int32) spatev1.Header { return l2tpv3Control() },
	func(address string, n int32) spatev1.Header {
		return spatev1.Header{SCTP: &spatev1.SCTPHeader{DestinationPort: n, Chunks: []spatev1.SCTPChunk{{Raw: &spatev1.SCTPRawChunk{Type: n, Value: address}}}}}
	},
	func(address string, n int32) spatev1.Header {
		return spatev1.Header{IPv6Routing: &spatev1.IPv6RoutingHeader{Type: n, SegmentsLeft: n, Data: address, Addresses: []string{address}}}
	},
}

// FuzzBuild builds stacks of any shape. The builder must refuse with a field path, or make a frame of the requested
// length with correct checksums and all fields within the frame.
func FuzzBuild(f *testing.F) {
	f.Add([]byte{0, 2, 4}, int32(64), "198.18.0.1", int32(7), "spate", true)
	f.Add([]byte{0, 1, 1, 3, 5}, int32(1518), "2001:db8::1", int32(65535), "", true)
	f.Add([]byte{0, 2, 2, 5}, int32(0), "10.0.0.1", int32(-1), "x", false)
	f.Add([]byte{0, 2, 23, 24, 27, 3, 11, 13, 14, 20}, int32(512), "2001:db8::1", int32(1), "", true)
	f.Add([]byte{0, 6, 6, 2, 22, 3, 12, 17}, int32(0), "2001:db8::1", int32(0), "ping", false)
	f.Add([]byte{0, 8, 9, 2, 23, 26, 2, 18, 2, 4}, int32(-300), "198.18.0.1", int32(0), "", true)
	f.Add([]byte{0, 30}, int32(64), "", int32(65535), "", true)
	f.Add([]byte{0, 1, 32}, int32(0), "02:00:00:00:00:01", int32(7), "", false)
	f.Add([]byte{0, 2, 34}, int32(0), "198.18.0.1", int32(3), "", false)
	f.Add([]byte{0, 3, 11, 37}, int32(0), "2001:db8::1", int32(3), "", false)
	f.Add([]byte{0, 39, 27, 2, 4}, int32(0), "198.18.0.1", int32(3), "x", true)
	f.Add([]byte{0, 2, 23, 24, 41, 3, 5}, int32(-300), "2001:db8::1", int32(3), "", true)
	f.Add([]byte{0, 2, 23, 42, 9, 2, 4}, int32(0), "198.18.0.1", int32(3), "x", true)
	f.Add([]byte{0, 2, 45, 27, 3, 4}, int32(0), "01020304", int32(3), "", true)
	f.Fuzz(func(t *testing.T, kinds []byte, size int32, address string, number int32, text string, trailer bool) {
		if len(kinds) > 24 {
			return
		}
		p := &spatev1.Packet{}
		for _, k := range kinds {
			p.Headers = append(p.Headers, fuzzKinds[int(k)%len(fuzzKinds)](address, number))
		}
		switch {
		case size > 0:
			p.Size = &size
		case size < 0:
			p.Sizes = &spatev1.PacketSizes{Range: &spatev1.SizeRange{Start: -(size + 4), End: -size, Step: 4}}
		}
		if text != "" {
			p.Payload = &spatev1.Payload{Text: text}
		}
		built, errs := Build(p, at, Options{Trailer: trailer, NextHop: InternalDestination})
		if len(errs) > 0 {
			for _, err := range errs {
				if !strings.HasPrefix(err.Field, "spec.packet.") {
					t.Fatalf("no path: %v", err)
				}
			}
			return
		}
		if size > 0 && built.WireBytes() != int(size) || size < 0 && built.WireBytes() != int(-size) {
			t.Fatalf("%d bytes on the wire, asked for %d", built.WireBytes(), size)
		}
		if len(built.Frame) < MinFrameBytes || len(built.Frame) > MaxFrameBytes {
			t.Fatalf("a frame of %d bytes", len(built.Frame))
		}
		checksumsHold(t, built)
		for _, h := range built.Headers {
			for name, l := range h.Fields {
				place := built.Place(Location{l.Bit + h.Offset*8, l.Bits})
				if place.Offset < h.Offset-8 || place.Offset+place.Size > len(built.Frame) || place.Mask == 0 {
					t.Fatalf("%s.%s at %+v", h.Kind, name, place)
				}
			}
		}
		if seen := Inspect(built.Frame); seen.PayloadEnd > len(built.Frame) {
			t.Fatalf("read back %v", seen)
		}
	})
}

// FuzzInspect inspects arbitrary bytes. The offsets returned must lie within the frame, and raw packets must be built
// or refused.
func FuzzInspect(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x01\x08\x00\x45\x00\x00\x2e"), int32(14))
	for i, stack := range dissected() {
		if i%40 != 0 {
			continue
		}
		if built, errs := Build(stack.packet, at, Options{NextHop: InternalDestination}); len(errs) == 0 {
			f.Add(built.Frame, int32(34))
		}
	}
	types := []spatev1.RawChecksumType{"IPv4", "UDP", "TCP", "ICMP", "ICMPv6", "IGMP", "SCTP"}
	f.Fuzz(func(t *testing.T, frame []byte, offset int32) {
		seen := Inspect(frame)
		if seen.PayloadStart > seen.PayloadEnd || seen.PayloadEnd > len(frame) {
			t.Fatalf("payload %d..%d of %d bytes", seen.PayloadStart, seen.PayloadEnd, len(frame))
		}
		_ = seen.String()
		for _, kind := range types {
			p := &spatev1.Packet{Bytes: bytes.Clone(frame), Checksums: []spatev1.RawChecksum{{Type: kind, Offset: offset}}}
			if built, errs := Build(p, at, Options{SizesVary: true}); len(errs) == 0 {
				checksumsHold(t, built)
			}
		}
		if len(frame) > 0 {
			_, _ = Build(&spatev1.Packet{Bytes: frame}, at, Options{Trailer: true})
		}
	})
}
