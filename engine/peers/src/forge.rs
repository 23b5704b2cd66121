// SPDX-License-Identifier: Apache-2.0
//! Packets that the router sends of its own: what is too long for a link, and resets of connections.
use std::net::IpAddr;

use spate_net::{
    checksum::{checksum, sum},
    headers::{Headers, TCP},
};
use spate_stateful::{
    OffloadRequest,
    packet::{Content, ETHERNET, Endpoints, LowerHeaders, Options, Packet, Segment, SegmentHeader, TCP_HEADER, flag},
};

use crate::namespaces::{Family, ROUTER};

/// Bytes of an IPv4 header without options.
const IPV4: usize = 20;
/// Bytes of an IPv6 header without extensions.
const IPV6: usize = 40;
/// Bytes of an ICMP header.
const ICMP: usize = 8;
/// Bytes of the packet's transport header that an error quotes (RFC 792; sequence numbers are among them).
const QUOTED: usize = 8;

/// Distance of a forged reset from the next expected sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aim {
    /// The next expected sequence number: the connection ends.
    Exact,
    /// In the window: challenged (RFC 5961 section 3.2).
    InWindow,
    /// Outside: dropped without a word.
    Outside,
}

impl Aim {
    fn offset(self) -> u32 {
        match self {
            Self::Exact => 0,
            Self::InWindow => 1000,
            Self::Outside => 1 << 30,
        }
    }
}

/// The answer to a frame that is longer than a link's MTU.
pub fn too_long(frame: &[u8], mtu: usize) -> Vec<u8> {
    if frame[12..14] == [0x86, 0xdd] { too_long_v6(frame, mtu) } else { too_long_v4(frame, mtu) }
}

/// Destination unreachable, fragmentation needed and DF set (RFC 792, RFC 1191).
fn too_long_v4(frame: &[u8], mtu: usize) -> Vec<u8> {
    let quoted = (IPV4 + QUOTED).min(frame.len() - ETHERNET);
    let length = IPV4 + ICMP + quoted;
    let mut answer = vec![0; ETHERNET + length];
    answer[..6].copy_from_slice(&frame[6..12]);
    answer[6..12].copy_from_slice(&frame[..6]);
    answer[12..14].copy_from_slice(&[0x08, 0x00]);
    let ip = &mut answer[ETHERNET..ETHERNET + IPV4];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    ip[8..10].copy_from_slice(&[64, 1]);
    ip[12..16].copy_from_slice(&ROUTER);
    ip[16..20].copy_from_slice(&frame[ETHERNET + 12..ETHERNET + 16]);
    let check = checksum(sum(ip));
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    let icmp = &mut answer[ETHERNET + IPV4..];
    icmp[..2].copy_from_slice(&[3, 4]);
    icmp[6..8].copy_from_slice(&(mtu as u16).to_be_bytes());
    icmp[ICMP..].copy_from_slice(&frame[ETHERNET..ETHERNET + quoted]);
    let check = checksum(sum(icmp));
    icmp[2..4].copy_from_slice(&check.to_be_bytes());
    answer
}

/// Packet too big (RFC 4443 section 3.2).
fn too_long_v6(frame: &[u8], mtu: usize) -> Vec<u8> {
    let quoted = (IPV6 + QUOTED).min(frame.len() - ETHERNET);
    let length = ICMP + quoted;
    let mut answer = vec![0; ETHERNET + IPV6 + length];
    answer[..6].copy_from_slice(&frame[6..12]);
    answer[6..12].copy_from_slice(&frame[..6]);
    answer[12..14].copy_from_slice(&[0x86, 0xdd]);
    let (ip, icmp) = answer[ETHERNET..].split_at_mut(IPV6);
    ip[0] = 0x60;
    ip[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    ip[6..8].copy_from_slice(&[58, 64]);
    let IpAddr::V6(router) = Family::V6.of(ROUTER) else { unreachable!("it is of IPv6") };
    ip[8..24].copy_from_slice(&router.octets());
    ip[24..40].copy_from_slice(&frame[ETHERNET + 8..ETHERNET + 24]);
    icmp[0] = 2;
    icmp[4..8].copy_from_slice(&(mtu as u32).to_be_bytes());
    icmp[ICMP..].copy_from_slice(&frame[ETHERNET..ETHERNET + quoted]);
    // The pseudo header of RFC 8200 section 8.1.
    let pseudo = [&ip[8..40], &(length as u32).to_be_bytes(), &[0, 0, 0, 58], icmp].concat();
    let check = checksum(sum(&pseudo));
    icmp[2..4].copy_from_slice(&check.to_be_bytes());
    answer
}

/// A reset of the connection that a frame with data belongs to, to its sender and as if from its receiver.
/// None if the frame has no data.
pub fn reset(frame: &[u8], aim: Aim) -> Option<Vec<u8>> {
    let packet = Packet::read(frame).ok()?;
    let Content::Tcp(Segment { source_port, destination_port, ack, payload, .. }) = packet.content else { return None };
    if payload.is_empty() {
        return None;
    }
    let mut macs = [0; 12];
    macs[..6].copy_from_slice(&frame[6..12]);
    macs[6..].copy_from_slice(&frame[..6]);
    let below = LowerHeaders {
        macs,
        ends: Endpoints::of(packet.destination, packet.source),
        tos: 0,
        ttl: 64,
        id: 0,
        finish: OffloadRequest::Nothing,
    };
    let head = SegmentHeader {
        source_port: destination_port,
        destination_port: source_port,
        seq: ack.wrapping_add(aim.offset()),
        ack: 0,
        flags: flag::RST,
        window: 0,
        ecn: 0,
    };
    let mut reset = vec![0; below.len() + TCP_HEADER];
    below.write_tcp(&mut reset, &head, &Options::default(), (0, 0));
    Some(reset)
}

/// The ports of a TCP segment, source first.
pub fn ports(frame: &[u8]) -> Option<(u16, u16)> {
    let (_, at) = Headers::find(frame)?.transport.filter(|(protocol, _)| *protocol == TCP)?;
    let ports = frame.get(at..at + 4)?;
    Some((u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spate_stateful::{Address, packet::ErrorKind};

    fn segment(family: Family, data: usize) -> Vec<u8> {
        let [source, destination] = [1, 2].map(|n| Address::from(family.of([10, 9, 0, n])));
        let ends = Endpoints::of(source, destination);
        let below = LowerHeaders { macs: [2; 12], ends, tos: 0, ttl: 64, id: 7, finish: OffloadRequest::Nothing };
        let mut frame = vec![0; below.len() + TCP_HEADER + data];
        let (source_port, destination_port, flags) = (80, 1024, flag::ACK);
        let head = SegmentHeader { source_port, destination_port, seq: 7000, ack: 500, flags, window: 9, ecn: 0 };
        below.write_tcp(&mut frame, &head, &Options::default(), (data, 0));
        frame
    }

    #[test]
    fn an_error_quotes_what_it_is_about() {
        for family in [Family::V4, Family::V6] {
            let answer = too_long(&segment(family, 1200), 1000);
            let Content::Icmp(error) = Packet::read(&answer).unwrap().content else { panic!("{answer:?}") };
            assert_eq!((error.kind, error.seq), (ErrorKind::TooBig(1000), 7000));
            assert_eq!((error.source_port, error.destination_port), (80, 1024));
        }
    }

    #[test]
    fn a_reset_goes_to_who_sent_data() {
        assert_eq!(reset(&segment(Family::V4, 0), Aim::Exact), None);
        for (aim, seq) in [(Aim::Exact, 500), (Aim::InWindow, 1500), (Aim::Outside, 500 + (1 << 30))] {
            let reset = reset(&segment(Family::V4, 100), aim).unwrap();
            let Content::Tcp(s) = Packet::read(&reset).unwrap().content else { panic!("{reset:?}") };
            assert_eq!((s.flags, s.seq, s.source_port, s.destination_port), (flag::RST, seq, 1024, 80));
        }
        for family in [Family::V4, Family::V6] {
            assert_eq!(ports(&segment(family, 1)), Some((80, 1024)));
        }
    }
}
