// SPDX-License-Identifier: Apache-2.0

// What does the engine have to know of a packet that is given as bytes?

package packet

import (
	"encoding/binary"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

func buildRaw(description *spatev1.Packet, at *field.Path, options Options) (*Packet, field.ErrorList) {
	for name, set := range map[string]bool{
		"payload": description.Payload != nil, "size": description.Size != nil, "sizes": description.Sizes != nil, "imix": description.IMIX != "",
	} {
		if set {
			return nil, field.ErrorList{field.Forbidden(at.Child(name), "bytes is the whole packet")}
		}
	}
	if n := len(description.Bytes); n < MinFrameBytes || n > MaxFrameBytes {
		return nil, field.ErrorList{field.Invalid(at.Child("bytes"), fmt.Sprintf("%d bytes", n), fmt.Sprintf(
			"must be %d to %d bytes, without FCS", MinFrameBytes, MaxFrameBytes))}
	}
	frame := append([]byte(nil), description.Bytes...)
	seen := Inspect(frame)
	built := &Packet{Frame: frame, Headers: seen.Headers, Shortest: MinFrameBytes}
	if err := built.addressFromPort(description.FromPort, at.Child("fromPort"), options); err != nil {
		return nil, field.ErrorList{err}
	}
	if options.Trailer {
		if err := roomForTrailer(seen, len(frame)); err != "" {
			return nil, field.ErrorList{field.Invalid(at.Child("bytes"), fmt.Sprintf("%d bytes", len(frame)), err)}
		}
		built.Shortest = max(MinFrameBytes, seen.PayloadStart+TrailerBytes)
	}
	sums, errs := askedChecksums(frame, description.Checksums, seen, at.Child("checksums"))
	if len(errs) > 0 {
		return nil, errs
	}
	if options.Trailer && len(description.Checksums) == 0 {
		sums = trueChecksums(frame, seen) // the trailer must not invalidate them
	}
	slices.SortStableFunc(sums, func(a, b Checksum) int { return b.Start - a.Start })
	for i := range sums {
		sums[i].write(frame)
		if options.SizesVary && sums[i].End == len(frame) {
			sums[i].toTheEnd()
		}
	}
	built.Checksums = sums
	return built, nil
}

// addressFromPort marks the Ethernet addresses that the engine writes, because only the port knows them.
func (p *Packet) addressFromPort(asked []spatev1.PortAddress, at *field.Path, options Options) *field.Error {
	for i, address := range asked {
		switch {
		case address == spatev1.PortSource:
			p.SourceMACFromPort = true
		case address != spatev1.PortDestination:
			return field.NotSupported(at.Index(i), address, []spatev1.PortAddress{spatev1.PortSource, spatev1.PortDestination})
		case options.NextHopFromPort:
			p.DestinationMACFromPort = true
		case options.NextHop != nil:
			copy(p.Frame, options.NextHop)
		default:
			return field.Invalid(at.Index(i), address, "the transmitting port has no address to find its next hop with: leave "+
				"Destination out and write the MAC address of the device the port is connected to into bytes, or give the port "+
				"addresses in the generator's spec.ports")
		}
	}
	return nil
}

// roomForTrailer says why a trailer cannot be written at the end of a raw packet; empty if it can.
func roomForTrailer(seen Inspection, length int) string {
	switch {
	case seen.PayloadEnd < length:
		return fmt.Sprintf("measure.flow takes the last %d bytes, and here the IP packet ends %d bytes before the "+
			"frame does: forwarding drops what is behind it", TrailerBytes, length-seen.PayloadEnd)
	case length-seen.PayloadStart < TrailerBytes:
		return fmt.Sprintf("measure.flow takes the last %d bytes, and behind the headers are only %d: append %d",
			TrailerBytes, length-seen.PayloadStart, TrailerBytes-(length-seen.PayloadStart))
	}
	return ""
}

// rawKinds are the kinds of header by the type of checksum that is requested.
var rawKinds = map[spatev1.RawChecksumType]Kind{
	spatev1.RawIPv4: IPv4, spatev1.RawUDP: UDP, spatev1.RawTCP: TCP, spatev1.RawICMP: ICMPv4, spatev1.RawICMPv6: ICMPv6, spatev1.RawIGMP: IGMP,
	spatev1.RawSCTP: SCTP,
}

// checksumAt returns the offset of the checksum in a kind of header.
func checksumAt(kind Kind) int { return fixedParts[kind].fields["checksum"].Bit / 8 }

// askedChecksums returns the requested checksums, which the engine keeps correct.
func askedChecksums(frame []byte, asked []spatev1.RawChecksum, seen Inspection, at *field.Path) ([]Checksum, field.ErrorList) {
	var sums []Checksum
	var errs field.ErrorList
	for i, a := range asked {
		at := at.Index(i)
		kind, known := rawKinds[a.Type]
		if !known {
			errs = append(errs, field.NotSupported(at.Child("type"), a.Type, sorted(rawKinds)))
			continue
		}
		where := HeaderAt{Kind: kind, Offset: int(a.Offset), End: len(frame)}
		if kind == IPv4 {
			if where.Offset+20 > len(frame) || where.Offset < 0 {
				errs = append(errs, field.Invalid(at.Child("offset"), a.Offset, "no IPv4 header has room there"))
				continue
			}
			where.Length = int(frame[where.Offset]&0xf) * 4
			if where.Length < 20 || where.Offset+where.Length > len(frame) {
				errs = append(errs, field.Invalid(at.Child("offset"), a.Offset, "there is no IPv4 header"))
				continue
			}
		}
		network, found := seen.network(where.Offset)
		if found && kind != IPv4 {
			where.End = network.End
		}
		width := 2
		if kind == SCTP {
			width = 4
		}
		if least := checksumAt(kind) + width; where.Offset < 0 || where.Offset+least > where.End {
			errs = append(errs, field.Invalid(at.Child("offset"), a.Offset, fmt.Sprintf("no %s header has room there", kind)))
			continue
		}
		if !found && (kind == UDP || kind == TCP || kind == ICMPv6) {
			errs = append(errs, field.Invalid(at.Child("offset"), a.Offset, "no IP header is before it whose addresses the checksum covers"))
			continue
		}
		sums = append(sums, checksumOf(where, network))
	}
	return sums, errs
}

// network returns the last IP header before an offset.
func (s Inspection) network(offset int) (found HeaderAt, ok bool) {
	for _, h := range s.Headers {
		if (h.Kind == IPv4 || h.Kind == IPv6) && h.Offset < offset {
			found, ok = h, true
		}
	}
	return found, ok
}

// checksumOf returns the checksum field of a header in an IP packet.
func checksumOf(h, network HeaderAt) Checksum {
	c := Checksum{Offset: h.Offset + checksumAt(h.Kind), Start: h.Offset, End: h.End}
	switch h.Kind {
	case IPv4:
		c.End = h.Offset + h.Length
	case UDP:
		c.ZeroMeansAbsent = true
		c.pseudo(network, protocolUDP, nil)
	case TCP:
		c.pseudo(network, protocolTCP, nil)
	case ICMPv6:
		c.pseudo(network, protocolICMPv6, nil)
	case SCTP:
		c.Kind = CRC32C
	}
	return c
}

// trueChecksums returns those that are correct in a raw frame. A wrong one is intended, and an absent one (UDP over
// IPv4) stays absent.
func trueChecksums(frame []byte, seen Inspection) []Checksum {
	var sums []Checksum
	for i, h := range seen.Headers {
		if !slices.Contains([]Kind{IPv4, UDP, TCP, ICMPv4, ICMPv6, IGMP, SCTP}, h.Kind) {
			continue
		}
		network, found := (Inspection{Headers: seen.Headers[:i]}).network(h.Offset)
		if !found && h.Kind != IPv4 {
			continue
		}
		c := checksumOf(h, network)
		absent := c.ZeroMeansAbsent && binary.BigEndian.Uint16(frame[c.Offset:]) == 0
		if !absent && c.holds(frame) {
			sums = append(sums, c)
		}
	}
	return sums
}
