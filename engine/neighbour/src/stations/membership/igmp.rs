// SPDX-License-Identifier: Apache-2.0
//! IGMP: membership of IPv4 groups in its three versions (RFC 1112, RFC 2236, RFC 3376).
use std::net::{IpAddr, Ipv4Addr};

use spate_net::{
    checksum,
    ethernet::IPV4,
    field::{be16, be32, put_be16},
    ip::{Fixed, is_right},
    ipv4,
};

use crate::{
    Mac,
    address::group_mac,
    frame::Frame,
    message::Station,
    stations::membership::groups::{Query, Record, Report, Version},
};

/// Protocol number of IGMP.
pub(crate) const IGMP: u8 = 2;
/// Types of messages.
const QUERY: u8 = 0x11;
const REPORT_V1: u8 = 0x12;
const REPORT_V2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT_V3: u8 = 0x22;
const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
const V3_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
/// Bytes of records in a report: with all headers, less than any Ethernet link's MTU.
const MAX_RECORD_BYTES: usize = 1400;
const TENTH_NS: u64 = 100_000_000;

/// Destination MAC of a querier's frames to all hosts.
pub(crate) fn all_hosts_mac() -> Mac {
    group_mac(ALL_HOSTS.into())
}

/// The query in a frame, if it is one that a host may answer.
pub(crate) fn query(frame: &Frame<'_>) -> Option<Query> {
    let packet = frame.payload;
    let fixed = packet.first_chunk::<{ ipv4::HEADER }>().filter(|_| frame.ethertype == IPV4)?;
    let Fixed { destination, header, len, .. } = Fixed::read(packet)?;
    let whole = fixed[0] >> 4 == 4 && header >= ipv4::HEADER && header <= len && len <= packet.len();
    if !whole || fixed[9] != IGMP || ipv4::Part::of(fixed).is_fragment() || !ipv4::is_header_right(&packet[..header]) {
        return None;
    }
    let message = &packet[header..len];
    if message.len() < 8 || message[0] != QUERY || !is_right(message, 0) {
        return None;
    }
    let group = Some(Ipv4Addr::from_bits(be32(message, 4))).filter(|group| !group.is_unspecified());
    // RFC 3376 section 9.1: a query for all groups goes to all hosts, one for a group to the group.
    if destination != IpAddr::from(group.unwrap_or(ALL_HOSTS)).into() && destination != IpAddr::from(ALL_HOSTS).into() {
        return None;
    }
    let (version, tenths) = match (message.len(), message[1]) {
        (8, 0) => (Version::Reports, 100),
        (8, tenths) => (Version::Leaves, u64::from(tenths)),
        (12.., code) => (Version::Sources, floating(code)),
        _ => return None,
    };
    Some(Query { version, within_ns: tenths * TENTH_NS, group: group.map(IpAddr::V4) })
}

/// A code of RFC 3376 section 4.1.1.
fn floating(code: u8) -> u64 {
    let code = u64::from(code);
    if code < 128 { code } else { (code & 15 | 16) << ((code >> 4 & 7) + 3) }
}

/// The frames of a report.
pub(crate) fn frames(station: &Station, from: Option<Ipv4Addr>, report: &Report) -> Vec<Vec<u8>> {
    let from = from.unwrap_or(Ipv4Addr::UNSPECIFIED);
    match report {
        Report::Records(records) => {
            v3(records).iter().map(|message| frame(station, from, V3_ROUTERS, message)).collect()
        }
        Report::Member(IpAddr::V4(group), version) => {
            let kind = if *version == Version::Reports { REPORT_V1 } else { REPORT_V2 };
            vec![frame(station, from, *group, &old(kind, *group))]
        }
        Report::Leave(IpAddr::V4(group)) => vec![frame(station, from, ALL_ROUTERS, &old(LEAVE, *group))],
        Report::Member(..) | Report::Leave(_) => Vec::new(),
    }
}

fn old(kind: u8, group: Ipv4Addr) -> Vec<u8> {
    [&[kind, 0, 0, 0], &group.octets()[..]].concat()
}

/// Version 3 reports, without their checksums, with as many records each as fit.
fn v3(records: &[Record]) -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = Vec::new();
    for record in records {
        let IpAddr::V4(group) = record.group else { continue };
        let mut bytes = vec![record.kind as u8, 0];
        bytes.extend_from_slice(&(record.sources.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&group.octets());
        for source in &record.sources {
            if let IpAddr::V4(source) = source {
                bytes.extend_from_slice(&source.octets());
            }
        }
        append(&mut messages, &[REPORT_V3, 0, 0, 0, 0, 0, 0, 0], &bytes);
    }
    messages
}

/// Appends a record to the last message, or to a new one that begins with a header, whose last two bytes count records.
pub(crate) fn append(messages: &mut Vec<Vec<u8>>, header: &[u8; 8], record: &[u8]) {
    if messages.last().is_none_or(|last| last.len() + record.len() > MAX_RECORD_BYTES) {
        messages.push(header.to_vec());
    }
    if let Some(last) = messages.last_mut() {
        let records = be16(last, 6) + 1;
        put_be16(last, 6, records);
        last.extend_from_slice(record);
    }
}

/// A message with its checksum in a packet of one hop with a Router Alert option (RFC 3376 section 4, RFC 2113).
fn frame(station: &Station, from: Ipv4Addr, to: Ipv4Addr, message: &[u8]) -> Vec<u8> {
    const ROUTER_ALERT: [u8; 4] = [0x94, 4, 0, 0];
    // Internetwork control (RFC 3376 section 4).
    const PRECEDENCE: u8 = 0xc0;
    let (source, destination) = (from.to_bits(), to.to_bits());
    let mut header = [0; ipv4::HEADER];
    let fields = ipv4::Header { tos: PRECEDENCE, id: 0, ttl: 1, protocol: IGMP, source, destination };
    fields.write(&mut header, ROUTER_ALERT.len() + message.len());
    header[0] += 1;
    let mut packet = [&header[..], &ROUTER_ALERT, message].concat();
    let (header, message) = packet.split_at_mut(ipv4::HEADER + ROUTER_ALERT.len());
    ipv4::complete(header);
    let sum = checksum::checksum(checksum::sum(message));
    put_be16(message, 2, sum);
    station.frame(group_mac(to.into()), IPV4, &packet)
}
