// SPDX-License-Identifier: Apache-2.0
//! The messages a station receives and sends: ARP, neighbor discovery, echo. Read with everything the RFCs
//! require receivers to check, written with checksums.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) use spate_net::ndp::SOLICITATION;
use spate_net::{
    Address, Headers,
    arp::{self, Arp},
    checksum,
    ethernet::{self, ARP, IPV4, IPV6},
    field::put_be16,
    icmp::{CHECKSUM, ECHO_REPLY, ECHO_REQUEST},
    icmpv6::{ECHO_REPLY as ECHO_REPLY_V6, ECHO_REQUEST as ECHO_REQUEST_V6},
    ip::{Fixed, ICMP, ICMPV6, is_right, pseudo_header},
    ipv4, ipv6,
    ndp::{ADVERTISEMENT, HOP_LIMIT as NEVER_ROUTED, OVERRIDE, SOLICITED, SOURCE_MAC, TARGET_MAC},
    vlan::Tags,
};

use crate::{Mac, address::is_group, frame::Frame};

const HOP_LIMIT: u8 = 64;

/// The contents of a received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// ARP request or neighbor solicitation for `target`. A probe (duplicate address detection) comes from the unspecified address.
    Request { target: IpAddr, sender: IpAddr, mac: Mac },
    /// ARP reply or neighbor advertisement: the sender has `address`. Unless it `overrides`, what is known of the address stays
    /// (RFC 4861 section 7.2.5); ARP always does.
    Reply { address: IpAddr, mac: Mac, overrides: bool },
    /// ICMP echo request with `data` (identifier, sequence number, payload).
    Echo { from: IpAddr, to: IpAddr, mac: Mac, data: &'a [u8] },
    /// ICMP echo reply, with what it replies to.
    EchoReply { from: IpAddr, to: IpAddr, hop_limit: u8, of: EchoOf<'a> },
    /// ICMP error (its type and code) about an echo request from `to` to `destination`.
    EchoError { from: IpAddr, to: IpAddr, destination: IpAddr, kind: [u8; 2], of: EchoOf<'a> },
}

/// The identifier, sequence number and data of an echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EchoOf<'a> {
    pub(crate) identifier: u16,
    pub(crate) sequence: u16,
    pub(crate) data: &'a [u8],
}

impl<'a> EchoOf<'a> {
    /// Reads a message of ICMP from its type on.
    fn read(icmp: &'a [u8]) -> Option<Self> {
        let [_, _, _, _, a, b, c, d] = *icmp.first_chunk()?;
        let (identifier, sequence) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        Some(Self { identifier, sequence, data: &icmp[8..] })
    }
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
    let Arp { operation, sender_mac: mac, sender, target, .. } =
        Arp::read(packet).filter(|arp| is_station(arp.sender_mac))?;
    match operation {
        // An announcement is a request by the owner for itself (RFC 5227 §3).
        arp::REQUEST if sender == target => Some(Message::Reply { address: sender.into(), mac, overrides: true }),
        arp::REQUEST => Some(Message::Request { target: target.into(), sender: sender.into(), mac }),
        arp::REPLY => Some(Message::Reply { address: sender.into(), mac, overrides: true }),
        _ => None,
    }
}

fn echo_v4<'a>(frame: &Frame<'a>) -> Option<Message<'a>> {
    let packet = frame.payload;
    let Fixed { source, destination, header, len, .. } = Fixed::read(packet)?;
    let fixed = packet.first_chunk::<{ ipv4::HEADER }>()?;
    if fixed[0] >> 4 != 4 || header < ipv4::HEADER || len < header || packet.len() < len {
        return None;
    }
    // Fragments are left alone.
    if ipv4::Part::of(fixed).is_fragment() || fixed[9] != ICMP || !ipv4::is_header_right(&packet[..header]) {
        return None;
    }
    let (from, to) = (IpAddr::from(source), IpAddr::from(destination));
    let icmp = &packet[header..len];
    let valid = is_right(icmp, 0) && icmp.len() >= 8;
    if !valid || is_group(from) || from.is_unspecified() || !is_station(frame.source) {
        return None;
    }
    match [icmp[0], icmp[1]] {
        [ECHO_REQUEST, 0] => Some(Message::Echo { from, to, mac: frame.source, data: &icmp[4..] }),
        [ECHO_REPLY, 0] => Some(Message::EchoReply { from, to, hop_limit: fixed[8], of: EchoOf::read(icmp)? }),
        // Unreachable, time exceeded, parameter problem; then the packet that they are about.
        kind @ [3 | 11 | 12, _] => {
            let about = &icmp[8..];
            let header = usize::from(*about.first()? & 15) * 4;
            let echo = about.get(header..).filter(|_| header >= ipv4::HEADER && about[9] == ICMP)?;
            let destination = IpAddr::from(*about[16..].first_chunk::<4>()?);
            let of = EchoOf::read(echo).filter(|_| echo[0] == ECHO_REQUEST)?;
            Some(Message::EchoError { from, to, destination, kind, of })
        }
        _ => None,
    }
}

fn icmp_v6<'a>(frame: &Frame<'a>) -> Option<Message<'a>> {
    let packet = frame.payload;
    let Fixed { source, destination, header, len, .. } = Fixed::read(packet)?;
    if packet[0] >> 4 != 6 || packet[6] != ICMPV6 || packet.len() < len || len < header + 8 {
        return None;
    }
    let (from, to) = (Ipv6Addr::from(source.0), Ipv6Addr::from(destination.0));
    let icmp = &packet[header..len];
    let right = is_right(icmp, pseudo_header(source, destination, ICMPV6, icmp.len()));
    if !right || from.is_multicast() || !is_station(frame.source) {
        return None;
    }
    if let kind @ [1..=4, _] = [icmp[0], icmp[1]] {
        let echo = icmp.get(8 + ipv6::HEADER..).filter(|_| icmp[8 + 6] == ICMPV6)?;
        let of = EchoOf::read(echo).filter(|_| echo[0] == ECHO_REQUEST_V6)?;
        let destination = ipv6(icmp, 8 + 24)?.into();
        return Some(Message::EchoError { from: from.into(), to: to.into(), destination, kind, of });
    }
    if icmp[1] != 0 {
        return None;
    }
    let routed = packet[7] != NEVER_ROUTED;
    match icmp[0] {
        ECHO_REPLY_V6 => {
            let (hop_limit, of) = (packet[7], EchoOf::read(icmp)?);
            Some(Message::EchoReply { from: from.into(), to: to.into(), hop_limit, of })
        }
        ECHO_REQUEST_V6 if !from.is_unspecified() => {
            Some(Message::Echo { from: from.into(), to: to.into(), mac: frame.source, data: &icmp[4..] })
        }
        SOLICITATION if !routed => {
            let target = ipv6(icmp, 8).filter(|target| !target.is_multicast())?;
            let option = option(icmp, SOURCE_MAC)?;
            // RFC 4861 §7.1.1: a station that has no address yet must not claim a MAC, and asks the group.
            if from.is_unspecified() && (option.is_some() || !to.is_multicast()) {
                return None;
            }
            let mac = option.unwrap_or(frame.source);
            Some(Message::Request { target: target.into(), sender: from.into(), mac })
        }
        ADVERTISEMENT if !routed => {
            let address = ipv6(icmp, 8).filter(|target| !target.is_multicast())?;
            if to.is_multicast() && icmp[4] & SOLICITED != 0 {
                return None;
            }
            let option = option(icmp, TARGET_MAC)?;
            // Without the option it says no more than that the neighbor is there.
            let overrides = option.is_some() && icmp[4] & OVERRIDE != 0;
            Some(Message::Reply { address: address.into(), mac: option.unwrap_or(frame.source), overrides })
        }
        _ => None,
    }
}

/// The MAC in an option of a neighbor discovery message; the outer none means that the options are not valid.
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

fn ipv6(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    bytes.get(at..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets))
}

/// The destination of a packet's first IP header, if that is behind nothing but Ethernet and VLAN tags.
pub(crate) fn ip_destination(bytes: &[u8]) -> Option<IpAddr> {
    let headers = Headers::find(bytes).filter(Headers::is_native)?;
    Some(headers.destination(bytes).into())
}

/// Source MAC and tags of a station's frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Station {
    pub(crate) mac: Mac,
    pub(crate) tags: Tags,
}

impl Station {
    /// An ARP packet; operation 1 asks, 2 answers.
    pub(crate) fn arp(&self, to: Mac, operation: u16, sender: Ipv4Addr, target_mac: Mac, target: Ipv4Addr) -> Vec<u8> {
        let arp = Arp { operation, sender_mac: self.mac, sender, target_mac, target };
        self.frame(to, ARP, &arp.bytes())
    }

    pub(crate) fn frame(&self, to: Mac, ethertype: u16, payload: &[u8]) -> Vec<u8> {
        ethernet::build(to, self.mac, self.tags, ethertype, payload)
    }

    /// A neighbor solicitation for an IPv6 address.
    pub(crate) fn solicitation(&self, to_mac: Mac, from: Ipv6Addr, to: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
        self.discovery(to_mac, from, to, [SOLICITATION, 0], target, SOURCE_MAC)
    }

    /// A neighbor advertisement of this station's IPv6 address; the answer to a solicitation if `solicited`.
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
        self.echo([ECHO_REPLY, ECHO_REPLY_V6], to_mac, (from, to), HOP_LIMIT, data)
    }

    /// An echo request with an identifier, sequence number and data.
    pub(crate) fn echo_request(
        &self,
        to_mac: Mac,
        addresses: (IpAddr, IpAddr),
        hop_limit: u8,
        data: &[u8],
    ) -> Option<Vec<u8>> {
        self.echo([ECHO_REQUEST, ECHO_REQUEST_V6], to_mac, addresses, hop_limit, data)
    }

    fn echo(
        &self,
        [kind_v4, kind_v6]: [u8; 2],
        to_mac: Mac,
        (from, to): (IpAddr, IpAddr),
        hop_limit: u8,
        data: &[u8],
    ) -> Option<Vec<u8>> {
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let icmp = echo(kind_v4, data);
                u16::try_from(ipv4::HEADER + icmp.len()).ok()?;
                let mut packet = vec![0; ipv4::HEADER];
                // Not to be fragmented: it is as long as the request was.
                let (source, destination) = (from.to_bits(), to.to_bits());
                let header = ipv4::Header { tos: 0, id: 0, ttl: hop_limit, protocol: ICMP, source, destination };
                header.write(packet.first_chunk_mut()?, icmp.len());
                packet.extend(with_checksum(icmp, 0));
                Some(self.frame(to_mac, IPV4, &packet))
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                u16::try_from(4 + data.len()).ok()?;
                Some(self.icmp_v6(to_mac, from, to, hop_limit, echo(kind_v6, data)))
            }
            _ => None,
        }
    }

    /// `icmp` with its checksum, which is 0 so far, in an IPv6 packet.
    pub(crate) fn icmp_v6(&self, to_mac: Mac, from: Ipv6Addr, to: Ipv6Addr, hop_limit: u8, icmp: Vec<u8>) -> Vec<u8> {
        let (source, destination) = (Address(from.to_bits()), Address(to.to_bits()));
        let mut header = [0; ipv6::HEADER];
        let pseudo = ipv6::Header { traffic_class: 0, flow_label: 0, next: ICMPV6, hop_limit, source, destination }
            .write(&mut header, icmp.len());
        let packet = [&header[..], &with_checksum(icmp, pseudo)].concat();
        self.frame(to_mac, IPV6, &packet)
    }
}

/// A message of echo with an identifier, sequence number and data, without its checksum.
fn echo(kind: u8, data: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0], data].concat()
}

/// Fills in the checksum of a message of ICMP, which is 0 so far, with the sum of its pseudo header.
fn with_checksum(mut icmp: Vec<u8>, pseudo: u64) -> Vec<u8> {
    let sum = checksum::checksum(pseudo + checksum::sum(&icmp));
    put_be16(&mut icmp, CHECKSUM, sum);
    icmp
}
