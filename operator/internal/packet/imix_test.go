// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"slices"
	"testing"

	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

// mixed returns a UDP over IPv4 packet with the sizes of a mix.
func mixed(name spatev1.IMIX, payload string) *spatev1.Packet {
	p := &spatev1.Packet{IMIX: name, Headers: []spatev1.Header{
		{Ethernet: &spatev1.EthernetHeader{Destination: "02:00:00:00:00:01"}},
		{IPv4: &spatev1.IPv4Header{Source: "198.18.0.1", Destination: "198.19.0.1"}},
		{UDP: &spatev1.UDPHeader{DestinationPort: ptr.To[int32](7)}},
	}}
	if payload != "" {
		p.Payload = &spatev1.Payload{Text: payload}
	}
	return p
}

// Sizes on the wire, FCS included, in parts of a whole.
func TestMixesAreThePublishedOnes(t *testing.T) {
	for name, c := range map[spatev1.IMIX]struct {
		sizes []WeightedSize
		whole int
	}{
		spatev1.IMIXSimple: {[]WeightedSize{{64, 7}, {594, 4}, {1518, 1}}, 12},
		spatev1.IMIXTCP:    {[]WeightedSize{{90, 5867}, {92, 200}, {594, 2366}, {1518, 1567}}, 10000},
		spatev1.IMIXIPsec:  {[]WeightedSize{{90, 5867}, {92, 200}, {594, 2366}, {1418, 1567}}, 10000},
		spatev1.IMIXTolly:  {[]WeightedSize{{64, 55}, {78, 5}, {576, 17}, {1518, 23}}, 100},
	} {
		built, errs := Build(mixed(name, ""), at, Options{})
		if len(errs) > 0 {
			t.Fatalf("%s: %v", name, errs)
		}
		whole, longest := 0, 0
		var got []WeightedSize
		for _, size := range built.Sizes.List {
			got = append(got, WeightedSize{size.Bytes + FCSBytes, size.Weight})
			whole, longest = whole+size.Weight, max(longest, size.Bytes+FCSBytes)
		}
		if !slices.Equal(got, c.sizes) || whole != c.whole || built.WireBytes() != longest || built.Sizes.Random || built.Sizes.Range != nil {
			t.Errorf("%s: got %v of %d, %d bytes long, want %v of %d", name, got, whole, built.WireBytes(), c.sizes, c.whole)
		}
	}
}

func TestMixesThatAPacketCannotHave(t *testing.T) {
	withSize := mixed(spatev1.IMIXSimple, "")
	withSize.Size = ptr.To[int32](64)
	for want, c := range map[string]struct {
		packet  *spatev1.Packet
		options Options
	}{
		`spec.packet.imix: Unsupported value: "Fancy": supported values: "IPsec", "Simple", "TCP", "Tolly"`:                                                                           {mixed("Fancy", ""), Options{}},
		`spec.packet.imix: Invalid value: "Simple": has packets of 64 bytes: must be at least 65: the packet has 42 bytes of headers, 19 of payload and 4 of FCS`:                     {mixed(spatev1.IMIXSimple, "nineteen characters"), Options{}},
		`spec.packet.imix: Invalid value: "Simple": has packets of 64 bytes: must be at least 66: the packet has 42 bytes of headers, 4 of payload, 16 for measure.flow and 4 of FCS`: {mixed(spatev1.IMIXSimple, "four"), Options{Trailer: true}},
		`spec.packet.sizes: Forbidden: set at most one of size, sizes and imix`:                                                                                                       {withSize, Options{}},
	} {
		_, errs := Build(c.packet, at, c.options)
		if len(errs) != 1 || errs[0].Error() != want {
			t.Errorf("got %v\nwant %s", errs, want)
		}
	}
	if _, errs := Build(mixed(spatev1.IMIXSimple, "18 characters long"), at, Options{}); len(errs) > 0 {
		t.Error(errs)
	}
}
