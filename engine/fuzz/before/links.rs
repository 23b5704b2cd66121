// SPDX-License-Identifier: Apache-2.0
//! As of before the protocol library: Ethernet headers and VLAN tags, and where extension headers end.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const MACS: usize = 12;
const TAG: usize = 4;
const VLAN_BYTES: [u8; 2] = [0x81, 0x00];
const SERVICE_VLAN_BYTES: [u8; 2] = [0x88, 0xa8];
/// EtherTypes (IANA, IEEE 802 Numbers).
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;

/// A received frame's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub destination: [u8; 6],
    pub source: [u8; 6],
    /// VLAN identifier, 0 where there is no tag or one that carries only a priority.
    pub vlan: u16,
    pub ethertype: u16,
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The parts of a frame with at most one tag; none if it is cut short.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let destination = *bytes.first_chunk()?;
        let source = *bytes.get(6..)?.first_chunk()?;
        let ethertype = word(bytes, 12)?;
        if ethertype == VLAN {
            let (tag, ethertype) = (word(bytes, 14)?, word(bytes, 16)?);
            return Some(Self { destination, source, vlan: tag & 0xfff, ethertype, payload: &bytes[18..] });
        }
        Some(Self { destination, source, vlan: 0, ethertype, payload: &bytes[14..] })
    }
}

/// The EtherType behind all VLAN tags, and what follows it.
pub fn behind_tags(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let mut at = 12;
    loop {
        match word(bytes, at)? {
            VLAN | SERVICE_VLAN => at += 4,
            ethertype => return Some((ethertype, &bytes[at + 2..])),
        }
    }
}

/// The big-endian 16-bit word at an offset, if all of it is there.
#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
}

fn ipv4(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    bytes.get(at..)?.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets))
}

fn ipv6(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    bytes.get(at..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets))
}

/// The destination of a packet's first IP header, if it has one behind its VLAN tags.
pub fn ip_destination(bytes: &[u8]) -> Option<IpAddr> {
    match behind_tags(bytes)? {
        (IPV4, packet) if packet.first()? >> 4 == 4 => ipv4(packet, 16).map(IpAddr::from),
        (IPV6, packet) if packet.first()? >> 4 == 6 => ipv6(packet, 24).map(IpAddr::from),
        _ => None,
    }
}

/// Whether a frame is of a VLAN (0: of none): in its only tag, as all that a port in a VLAN says has one. A tag of VLAN 0 has
/// but a priority (IEEE 802.1Q).
pub fn in_vlan(frame: &[u8], vlan: u16) -> bool {
    let kind = |at: usize| frame.get(at..).and_then(|rest| rest.first_chunk::<2>());
    match kind(MACS) {
        Some(&VLAN_BYTES) => {
            let tag = kind(MACS + 2).map_or(0, |tag| u16::from_be_bytes(*tag) & 0xfff);
            tag == vlan && kind(MACS + TAG).is_some_and(|inner| ![VLAN_BYTES, SERVICE_VLAN_BYTES].contains(inner))
        }
        Some(&SERVICE_VLAN_BYTES) => false,
        _ => vlan == 0,
    }
}

/// 14 bytes, and 4 for each of up to two VLAN tags (IEEE 802.1Q, 802.1ad).
pub fn ethernet_header_bytes(frame: &[u8]) -> usize {
    let tagged = |at: usize| matches!(frame.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8]));
    match (tagged(12), tagged(16)) {
        (true, true) => 22,
        (true, false) => 18,
        _ => 14,
    }
}

/// Where the extension headers of an IPv6 header end, behind that of a fragment at the latest.
pub fn extensions_end(frame: &[u8], at: usize) -> usize {
    let (mut next, mut end) = (frame[at + 6], at + 40);
    while let Some(&[following, length, ..]) = frame.get(end..).and_then(|rest| rest.first_chunk::<8>()) {
        let len = match next {
            0 | 43 | 60 | 135 => (usize::from(length) + 1) * 8,
            51 => (usize::from(length) + 2) * 4,
            44 => return end + 8,
            _ => break,
        };
        (next, end) = (following, end + len);
    }
    end
}
