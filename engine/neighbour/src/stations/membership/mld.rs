// SPDX-License-Identifier: Apache-2.0
//! MLD: membership of IPv6 groups in its two versions (RFC 2710, RFC 3810).
use std::net::{IpAddr, Ipv6Addr};

use spate_net::{
    Address, checksum,
    ethernet::IPV6,
    field::{be16, put_be16},
    ip::{Fixed, ICMPV6, is_right, pseudo_header},
    ipv6,
};

use crate::{
    address::{ALL_NODES, group_mac, is_link_local},
    frame::Frame,
    message::Station,
    stations::membership::groups::{Query, Record, Report, Version},
    stations::membership::igmp::append,
};

/// Types of ICMPv6 messages.
pub(crate) const QUERY: u8 = 130;
const REPORT_V1: u8 = 131;
const DONE: u8 = 132;
const REPORT_V2: u8 = 143;
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const V2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// Hop-by-hop options: a Router Alert of MLD (RFC 2711), and padding.
const ROUTER_ALERT: [u8; 8] = [ICMPV6, 0, 5, 2, 0, 0, 1, 0];
/// Next header of hop-by-hop options.
const HOP_BY_HOP: u8 = 0;
const MS_NS: u64 = 1_000_000;

/// Offset of a query's type in a packet: it has hop-by-hop options of 8 bytes.
pub(crate) const TYPE: usize = ipv6::HEADER + ROUTER_ALERT.len();

/// Whether a packet may be a query: the check that the data path makes.
#[inline]
pub(crate) fn may_be_query(packet: &[u8]) -> bool {
    packet.get(6) == Some(&HOP_BY_HOP) && packet.get(TYPE) == Some(&QUERY)
}

/// The query in a frame, if it is one that a host may answer: from a link-local address, of one hop, with a Router Alert.
pub(crate) fn query(frame: &Frame<'_>) -> Option<Query> {
    let packet = frame.payload;
    let Fixed { source, destination, len, .. } = Fixed::read(packet).filter(|_| frame.ethertype == IPV6)?;
    if len > packet.len() || len < TYPE || packet[6] != HOP_BY_HOP || packet[7] != 1 {
        return None;
    }
    let options = &packet[ipv6::HEADER..TYPE];
    // The option comes first or behind padding, which no known host sends.
    if options[..6] != ROUTER_ALERT[..6] {
        return None;
    }
    let (from, to) = (Ipv6Addr::from(source.0), Ipv6Addr::from(destination.0));
    let message = &packet[TYPE..len];
    let right = is_right(message, pseudo_header(source, destination, ICMPV6, message.len()));
    if message.len() < 24 || message[0] != QUERY || !right || !is_link_local(from) {
        return None;
    }
    let group = Some(Ipv6Addr::from(*message[8..].first_chunk::<16>()?)).filter(|group| !group.is_unspecified());
    if to != group.unwrap_or(ALL_NODES) && to != ALL_NODES {
        return None;
    }
    let code = be16(message, 4);
    let (version, within) = match message.len() {
        24 => (Version::Leaves, u64::from(code)),
        28.. => (Version::Sources, floating(code)),
        _ => return None,
    };
    Some(Query { version, within_ns: within * MS_NS, group: group.map(IpAddr::V6) })
}

/// A code of RFC 3810 section 5.1.3.
fn floating(code: u16) -> u64 {
    let code = u64::from(code);
    if code < 1 << 15 { code } else { (code & 0xfff | 0x1000) << ((code >> 12 & 7) + 3) }
}

/// The frames of a report, from a link-local address or from none (RFC 3590).
pub(crate) fn frames(station: &Station, from: Option<Ipv6Addr>, report: &Report) -> Vec<Vec<u8>> {
    let from = from.unwrap_or(Ipv6Addr::UNSPECIFIED);
    match report {
        Report::Records(records) => v2(records).into_iter().map(|m| frame(station, from, V2_ROUTERS, m)).collect(),
        Report::Member(IpAddr::V6(group), _) => vec![frame(station, from, *group, old(REPORT_V1, *group))],
        Report::Leave(IpAddr::V6(group)) => vec![frame(station, from, ALL_ROUTERS, old(DONE, *group))],
        Report::Member(..) | Report::Leave(_) => Vec::new(),
    }
}

fn old(kind: u8, group: Ipv6Addr) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0, 0, 0, 0], &group.octets()[..]].concat()
}

/// Version 2 reports, without their checksums, with as many records each as fit.
fn v2(records: &[Record]) -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = Vec::new();
    for record in records {
        let IpAddr::V6(group) = record.group else { continue };
        let mut bytes = vec![record.kind as u8, 0];
        bytes.extend_from_slice(&(record.sources.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&group.octets());
        for source in &record.sources {
            if let IpAddr::V6(source) = source {
                bytes.extend_from_slice(&source.octets());
            }
        }
        append(&mut messages, &[REPORT_V2, 0, 0, 0, 0, 0, 0, 0], &bytes);
    }
    messages
}

fn frame(station: &Station, from: Ipv6Addr, to: Ipv6Addr, mut message: Vec<u8>) -> Vec<u8> {
    let (source, destination) = (Address(from.to_bits()), Address(to.to_bits()));
    let pseudo = pseudo_header(source, destination, ICMPV6, message.len());
    let sum = checksum::checksum(pseudo + checksum::sum(&message));
    put_be16(&mut message, 2, sum);
    let mut header = [0; ipv6::HEADER];
    let fields = ipv6::Header { traffic_class: 0, flow_label: 0, next: HOP_BY_HOP, hop_limit: 1, source, destination };
    fields.write(&mut header, ROUTER_ALERT.len() + message.len());
    station.frame(group_mac(to.into()), IPV6, &[&header[..], &ROUTER_ALERT, &message].concat())
}
