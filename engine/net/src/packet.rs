// SPDX-License-Identifier: Apache-2.0
//! Packets of flows: TCP, UDP and ICMP errors over IPv4 and IPv6, read without copying, and verified. [`crate::fast`] reads and
//! writes those that nearly all are.
use crate::{
    ethernet::MACS,
    headers::{Headers, Version},
    icmp, icmpv6,
    ip::{Fixed, ICMP, ICMPV6, TCP, UDP, pseudo_header},
    ipv4,
};

pub use crate::{
    checksum::joined,
    ethernet::HEADER as ETHERNET,
    fast::{Endpoints, FastPathPacket, LowerHeaders},
    icmp::{Error, ErrorKind},
    ip::Address,
    reject::Reject,
    tcp::{HEADER as TCP_HEADER, Offers, Options, SACK_BLOCKS, Segment, SegmentHeader, TIMESTAMPS_LEN, flag},
    udp::{Datagram, HEADER as UDP_HEADER},
};

/// A packet of IP.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Source MAC address.
    pub source_mac: [u8; 6],
    /// IP addresses.
    pub source: Address,
    /// IP addresses.
    pub destination: Address,
    /// The two bits of explicit congestion notification (RFC 3168): 3 means congestion experienced.
    pub ecn: u8,
    /// Content of the packet.
    pub content: Content<'a>,
}

/// Content of an IP packet.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// A TCP segment.
    Tcp(Segment<'a>),
    /// A UDP datagram.
    Udp(Datagram<'a>),
    /// An ICMP error about a packet of ours.
    Icmp(Error),
}

impl<'a> Packet<'a> {
    /// Reads a frame without FCS, behind any VLAN tags, and verifies its checksums.
    #[inline]
    pub fn read(frame: &'a [u8]) -> Result<Self, Reject> {
        Self::read_marked(frame, false)
    }

    /// The same; a device may have verified the checksum of the TCP segment that is in it.
    // Part of what receives it: returned by a function of its own, a packet costs 40 instructions to be handed over.
    #[inline(always)]
    pub fn read_marked(frame: &'a [u8], verified: bool) -> Result<Self, Reject> {
        let headers = Headers::find(frame).filter(Headers::is_native).ok_or(Reject::Other)?;
        let (at, v6) = (headers.at, headers.version == Version::V6);
        let Fixed { source, destination, traffic_class, header, len } =
            Fixed::read(&frame[at..]).ok_or(Reject::Other)?;
        if len < header || frame.len() < at + len {
            return Err(Reject::Truncated);
        }
        if !v6 && !ipv4::is_header_right(&frame[at..at + header]) {
            return Err(Reject::Checksum);
        }
        if headers.fragment {
            return Err(Reject::Fragment);
        }
        let (protocol, start) = headers.transport.ok_or(Reject::Truncated)?;
        let body = frame.get(start..at + len).ok_or(Reject::Truncated)?;
        let pseudo = pseudo_header(source, destination, protocol, body.len());
        let content = match protocol {
            TCP => Content::Tcp(Segment::read(body, pseudo, verified)?),
            UDP => Content::Udp(Datagram::read(body, pseudo, v6)?),
            ICMP if !v6 => Content::Icmp(Error::read(body)?),
            ICMPV6 if v6 => Content::Icmp(Error::read_v6(body, pseudo)?),
            _ => return Err(Reject::Other),
        };
        let mut source_mac = [0; 6];
        source_mac.copy_from_slice(&frame[6..MACS]);
        Ok(Self { source_mac, source, destination, ecn: traffic_class & 3, content })
    }
}

/// The destination of a frame of IP, even if it is broken after its addresses.
pub fn destination(frame: &[u8]) -> Option<Address> {
    Some(Headers::find(frame)?.destination(frame))
}

/// Ends of an ICMP or ICMPv6 echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoRequest {
    /// Source MAC address.
    pub source_mac: [u8; 6],
    /// IP addresses.
    pub source: Address,
    /// IP addresses.
    pub destination: Address,
}

/// The echo request (RFC 792, RFC 4443 section 4.1) in a frame, behind any VLAN tags, if there is one. Its checksums are not verified.
pub fn echo_request(frame: &[u8]) -> Option<EchoRequest> {
    let headers = Headers::find(frame).filter(Headers::is_native)?;
    let (protocol, at) = headers.transport?;
    let request = match headers.version {
        Version::V4 => (ICMP, icmp::ECHO_REQUEST),
        Version::V6 => (ICMPV6, icmpv6::ECHO_REQUEST),
    };
    let source_mac = *frame.get(6..)?.first_chunk()?;
    let (source, destination) = (headers.source(frame), headers.destination(frame));
    ((protocol, *frame.get(at)?) == request).then_some(EchoRequest { source_mac, source, destination })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{field::put_be16, headers::samples, udp};

    /// An IPv6 packet with these bytes of extension headers, of which `next` is the first, and a datagram behind them.
    fn datagram_behind(next: u8, extensions: &[u8]) -> Vec<u8> {
        let mut header = [0; UDP_HEADER];
        udp::write_unsummed(&mut header, (7, 9), 0);
        let mut frame = samples::v6(next, extensions);
        let headers = Headers::find(&frame).unwrap();
        let (source, destination) = (headers.source(&frame), headers.destination(&frame));
        udp::complete(&mut header, pseudo_header(source, destination, UDP, UDP_HEADER));
        frame.extend(header);
        let len = frame.len() - headers.at - 40;
        put_be16(&mut frame, headers.at + 4, len as u16);
        frame
    }

    #[test]
    fn packets_behind_authentication_and_mobility_headers_and_in_whole_fragments_are_read() {
        let authentication = [UDP, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9];
        let fragment = [UDP, 0, 0, 0, 0, 0, 0, 1];
        for (next, extensions) in [(51, &authentication[..]), (135, &[UDP, 0, 5, 0, 0, 0, 0, 0]), (44, &fragment)] {
            let frame = datagram_behind(next, extensions);
            let read = Packet::read(&frame).map(|packet| packet.content);
            assert!(matches!(read, Ok(Content::Udp(Datagram { destination_port: 9, .. }))), "{next}: {read:?}");
        }
    }

    #[test]
    fn a_packet_that_ends_before_the_offset_of_its_fragment_header_is_truncated_and_no_fragment() {
        let whole = datagram_behind(44, &[UDP, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(Packet::read(&whole).err(), Some(Reject::Fragment));
        for bytes in 0..4 {
            let mut frame = whole[..14 + 40 + bytes].to_vec();
            put_be16(&mut frame, 14 + 4, bytes as u16);
            assert_eq!(Packet::read(&frame).err(), Some(Reject::Truncated), "{bytes}");
        }
    }
}
