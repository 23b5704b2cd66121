// SPDX-License-Identifier: Apache-2.0
//! The messages a station has to understand and to say: ARP, neighbour discovery, echo. Read with everything the RFCs
//! tell receivers to check, written with checksums.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use spate_net::checksum;

use crate::{
    Mac,
    address::is_group,
    frame::{self, ARP, Frame, IPV4, IPV6, word},
};

/// Protocol numbers (IANA).
pub(crate) const ICMP: u8 = 1;
pub(crate) const ICMPV6: u8 = 58;
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
pub(crate) const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Options of neighbour discovery (RFC 4861 §4.6.1).
const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
/// Flags of advertisements (RFC 4861 §4.4).
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
/// Neighbour discovery is valid only with this hop limit: then no router has passed it on.
const NEVER_ROUTED: u8 = 255;
const HOP_LIMIT: u8 = 64;
const HEADER_V6: usize = 40;

/// What a received frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// Somebody asks who has `target`. A probe for an address it wants to take comes from the unspecified one.
    Who { target: IpAddr, sender: IpAddr, mac: Mac },
    /// Somebody says that it has `address`.
    Has { address: IpAddr, mac: Mac },
    /// Somebody wants `data` (identifier, sequence number, payload) back.
    Echo { from: IpAddr, to: IpAddr, mac: Mac, data: &'a [u8] },
}

impl<'a> Message<'a> {
    /// Reads a frame; none if it is something else or not valid.
    pub(crate) fn parse(frame: &Frame<'a>) -> Option<Self> {
        match frame.ethertype {
            ARP => arp(frame.payload),
            IPV4 => echo_v4(frame),
            IPV6 => icmp_v6(frame),
            _ => None,
        }
    }
}

fn arp(packet: &[u8]) -> Option<Message<'_>> {
    // Ethernet and IPv4, with addresses of 6 and 4 bytes.
    if packet.get(..6)? != [0, 1, 8, 0, 6, 4] {
        return None;
    }
    let operation = word(packet, 6)?;
    let mac: Mac = *packet.get(8..)?.first_chunk()?;
    let sender = ipv4(packet, 14)?;
    let target = ipv4(packet, 24)?;
    if !is_station(mac) {
        return None;
    }
    match operation {
        // An announcement is a request by the owner for itself (RFC 5227 §3).
        1 if sender == target => Some(Message::Has { address: sender.into(), mac }),
        1 => Some(Message::Who { target: target.into(), sender: sender.into(), mac }),
        2 => Some(Message::Has { address: sender.into(), mac }),
        _ => None,
    }
}

fn echo_v4<'a>(frame: &Frame<'a>) -> Option<Message<'a>> {
    let packet = frame.payload;
    let first = *packet.first()?;
    let header = usize::from(first & 15) * 4;
    let total = usize::from(word(packet, 2)?);
    if first >> 4 != 4 || header < 20 || total < header || packet.len() < total {
        return None;
    }
    // Fragments are left alone.
    if word(packet, 6)? & 0x3fff != 0 || packet[9] != ICMP || checksum::fold(checksum::sum(&packet[..header])) != 0xffff
    {
        return None;
    }
    let (from, to) = (IpAddr::from(ipv4(packet, 12)?), IpAddr::from(ipv4(packet, 16)?));
    let icmp = &packet[header..total];
    let valid = checksum::fold(checksum::sum(icmp)) == 0xffff && icmp.get(..2)? == [ECHO_REQUEST, 0];
    if !valid || icmp.len() < 8 || is_group(from) || from.is_unspecified() || !is_station(frame.source) {
        return None;
    }
    Some(Message::Echo { from, to, mac: frame.source, data: &icmp[4..] })
}

fn icmp_v6<'a>(frame: &Frame<'a>) -> Option<Message<'a>> {
    let packet = frame.payload;
    let len = usize::from(word(packet, 4)?);
    if packet[0] >> 4 != 6 || packet.get(6) != Some(&ICMPV6) || packet.len() < HEADER_V6 + len || len < 8 {
        return None;
    }
    let (from, to) = (ipv6(packet, 8)?, ipv6(packet, 24)?);
    let icmp = &packet[HEADER_V6..HEADER_V6 + len];
    let sum = pseudo_header(from, to, len) + checksum::sum(icmp);
    if checksum::fold(sum) != 0xffff || icmp[1] != 0 || from.is_multicast() || !is_station(frame.source) {
        return None;
    }
    let routed = packet[7] != NEVER_ROUTED;
    match icmp[0] {
        ECHO_REQUEST_V6 if !from.is_unspecified() => {
            Some(Message::Echo { from: from.into(), to: to.into(), mac: frame.source, data: &icmp[4..] })
        }
        SOLICITATION if !routed => {
            let target = ipv6(icmp, 8).filter(|target| !target.is_multicast())?;
            let option = option(icmp, SOURCE_MAC)?;
            // RFC 4861 §7.1.1: whoever has no address yet must not claim a MAC, and asks the group.
            if from.is_unspecified() && (option.is_some() || !to.is_multicast()) {
                return None;
            }
            let mac = option.unwrap_or(frame.source);
            Some(Message::Who { target: target.into(), sender: from.into(), mac })
        }
        ADVERTISEMENT if !routed => {
            let address = ipv6(icmp, 8).filter(|target| !target.is_multicast())?;
            if to.is_multicast() && icmp[4] & SOLICITED != 0 {
                return None;
            }
            let mac = option(icmp, TARGET_MAC)?.unwrap_or(frame.source);
            Some(Message::Has { address: address.into(), mac })
        }
        _ => None,
    }
}

/// The MAC in an option of a neighbour discovery message; the outer none means that the options are not valid.
#[allow(clippy::option_option, reason = "absent and broken are different things here")]
fn option(icmp: &[u8], kind: u8) -> Option<Option<Mac>> {
    let mut options = icmp.get(24..)?;
    let mut found = None;
    while !options.is_empty() {
        let len = usize::from(*options.get(1)?) * 8;
        // RFC 4861 §4.6: a length of 0 makes the whole packet invalid.
        if len == 0 || len > options.len() {
            return None;
        }
        if options[0] == kind && found.is_none() {
            found = Some(*options[2..].first_chunk::<6>()?).filter(|mac| is_station(*mac));
        }
        options = &options[len..];
    }
    Some(found)
}

/// Whether a MAC can be a single station's.
fn is_station(mac: Mac) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

fn ipv4(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    bytes.get(at..)?.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets))
}

fn ipv6(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    bytes.get(at..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets))
}

/// The destination of a packet's first IP header, if it has one behind its VLAN tags.
pub(crate) fn ip_destination(bytes: &[u8]) -> Option<IpAddr> {
    match frame::behind_tags(bytes)? {
        (IPV4, packet) if packet.first()? >> 4 == 4 => ipv4(packet, 16).map(IpAddr::from),
        (IPV6, packet) if packet.first()? >> 4 == 6 => ipv6(packet, 24).map(IpAddr::from),
        _ => None,
    }
}

/// How a station's frames begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Station {
    pub(crate) mac: Mac,
    pub(crate) vlan: Option<u16>,
}

impl Station {
    /// An ARP packet; operation 1 asks, 2 answers.
    pub(crate) fn arp(&self, to: Mac, operation: u16, sender: Ipv4Addr, target_mac: Mac, target: Ipv4Addr) -> Vec<u8> {
        let mut packet = vec![0, 1, 8, 0, 6, 4];
        packet.extend_from_slice(&operation.to_be_bytes());
        packet.extend_from_slice(&self.mac);
        packet.extend_from_slice(&sender.octets());
        packet.extend_from_slice(&target_mac);
        packet.extend_from_slice(&target.octets());
        frame::build(to, self.mac, self.vlan, ARP, &packet)
    }

    /// Asks who has an IPv6 address.
    pub(crate) fn solicitation(&self, to_mac: Mac, from: Ipv6Addr, to: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
        self.discovery(to_mac, from, to, [SOLICITATION, 0], target, SOURCE_MAC)
    }

    /// Says that this station has an IPv6 address; to an asker if `solicited`.
    pub(crate) fn advertisement(&self, to_mac: Mac, target: Ipv6Addr, to: Ipv6Addr, solicited: bool) -> Vec<u8> {
        let flags = OVERRIDE | if solicited { SOLICITED } else { 0 };
        self.discovery(to_mac, target, to, [ADVERTISEMENT, flags], target, TARGET_MAC)
    }

    fn discovery(
        &self,
        to_mac: Mac,
        from: Ipv6Addr,
        to: Ipv6Addr,
        [kind, flags]: [u8; 2],
        target: Ipv6Addr,
        option: u8,
    ) -> Vec<u8> {
        let mut icmp = vec![kind, 0, 0, 0, flags, 0, 0, 0];
        icmp.extend_from_slice(&target.octets());
        icmp.extend_from_slice(&[option, 1]);
        icmp.extend_from_slice(&self.mac);
        self.icmp_v6(to_mac, from, to, NEVER_ROUTED, icmp)
    }

    /// The answer to an echo request for `from`; none if it would not fit into a packet.
    pub(crate) fn echo_reply(&self, to_mac: Mac, from: IpAddr, to: IpAddr, data: &[u8]) -> Option<Vec<u8>> {
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let total = u16::try_from(24 + data.len()).ok()?;
                let mut packet = vec![0x45, 0];
                packet.extend_from_slice(&total.to_be_bytes());
                // Not to be fragmented: it is as long as the request was.
                packet.extend_from_slice(&[0, 0, 0x40, 0, HOP_LIMIT, ICMP, 0, 0]);
                packet.extend_from_slice(&from.octets());
                packet.extend_from_slice(&to.octets());
                let sum = checksum::checksum(checksum::sum(&packet));
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
                packet.extend_from_slice(&[ECHO_REPLY, 0, 0, 0]);
                packet.extend_from_slice(data);
                let sum = checksum::checksum(checksum::sum(&packet[20..]));
                packet[22..24].copy_from_slice(&sum.to_be_bytes());
                Some(frame::build(to_mac, self.mac, self.vlan, IPV4, &packet))
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                u16::try_from(4 + data.len()).ok()?;
                let mut icmp = vec![ECHO_REPLY_V6, 0, 0, 0];
                icmp.extend_from_slice(data);
                Some(self.icmp_v6(to_mac, from, to, HOP_LIMIT, icmp))
            }
            _ => None,
        }
    }

    /// `icmp` with its checksum, which is 0 so far, in an IPv6 packet.
    fn icmp_v6(&self, to_mac: Mac, from: Ipv6Addr, to: Ipv6Addr, hop_limit: u8, mut icmp: Vec<u8>) -> Vec<u8> {
        let sum = checksum::checksum(pseudo_header(from, to, icmp.len()) + checksum::sum(&icmp));
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend_from_slice(&(icmp.len() as u16).to_be_bytes());
        packet.extend_from_slice(&[ICMPV6, hop_limit]);
        packet.extend_from_slice(&from.octets());
        packet.extend_from_slice(&to.octets());
        packet.extend_from_slice(&icmp);
        frame::build(to_mac, self.mac, self.vlan, IPV6, &packet)
    }
}

/// Sum of the pseudo header (RFC 8200 §8.1).
fn pseudo_header(from: Ipv6Addr, to: Ipv6Addr, len: usize) -> u64 {
    checksum::sum(&from.octets()) + checksum::sum(&to.octets()) + len as u64 + u64::from(ICMPV6)
}
