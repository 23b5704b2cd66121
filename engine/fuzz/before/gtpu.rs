// SPDX-License-Identifier: Apache-2.0
//! As of before the protocol library: GTP-U messages.
use spate_net::{
    Address,
    checksum::{fold, sum},
};

use super::{
    headers::{self, Headers, Version},
    packet::{IPV4, IPV6, UDP},
};

/// UDP port of GTP-U (TS 29.281 section 4.4.2).
pub const PORT: u16 = 2152;

const PROTOCOL_UDP: u8 = 17;
/// Bytes of the header that every message has (TS 29.281 section 5.1), and of the fields behind it, there if any of its last
/// three flags is set: sequence number, N-PDU number, type of the next extension header.
const GTP: usize = 8;
const OPTIONAL: usize = 4;
/// Version 1, GTP and not GTP'.
const VERSION_1: u8 = 0x30;
const VERSION_BITS: u8 = 0xf0;
/// An extension header follows; there is a sequence number; any of the optional fields is there.
const EXTENDED: u8 = 4;
const NUMBERED: u8 = 2;
const ANY_OPTIONAL: u8 = 7;
/// Types of extension headers (TS 29.281 section 5.2.1): one that is understood, and the bit of those that its receiver must.
const SESSION_CONTAINER: u8 = 0x85;
const MUST_BE_UNDERSTOOD: u8 = 0x80;
/// A GTP-U message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub source_port: u16,
    pub kind: u8,
    pub teid: u32,
    pub sequence: Option<u16>,
    /// Behind all headers.
    pub payload: &'a [u8],
}

/// It cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

#[inline]
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Source and destination of a packet.
#[inline]
pub fn addresses(frame: &[u8], headers: &Headers) -> (Address, Address) {
    let (at, len) = headers.addresses();
    let read = |bytes: &[u8]| match *bytes {
        [a, b, c, d] => Address::v4(u32::from_be_bytes([a, b, c, d])),
        _ => Address(bytes.iter().fold(0, |address, byte| address << 8 | u128::from(*byte))),
    };
    (read(&frame[at..at + len]), read(&frame[at + len..at + 2 * len]))
}

/// Source, destination, type of service or traffic class, and bytes of the fixed header, of a packet that begins with one.
#[inline]
pub fn inner_header(packet: &[u8]) -> Option<(Address, Address, u8, usize)> {
    match packet.first()? >> 4 {
        4 => {
            let header = packet.first_chunk::<IPV4>()?;
            let address = |at: usize| Address::v4(u32::from(be16(header, at)) << 16 | u32::from(be16(header, at + 2)));
            Some((address(12), address(16), header[1], IPV4))
        }
        6 => {
            let header = packet.first_chunk::<IPV6>()?;
            let address = |at: usize| {
                let mut bytes = [0; 16];
                bytes.copy_from_slice(&header[at..at + 16]);
                Address(u128::from_be_bytes(bytes))
            };
            // Those that stand for IPv4 are on no link (RFC 4291 section 2.5.5.2), and would be taken for it.
            let (source, destination) = (address(8), address(24));
            let both = source.is_v6() && destination.is_v6();
            both.then_some((source, destination, header[0] << 4 | header[1] >> 4, IPV6))
        }
        _ => None,
    }
}

/// The GTP-U message of a frame to a tunnel's end; none if it is something else.
pub fn read<'a>(frame: &'a [u8], headers: &Headers) -> Result<Option<Message<'a>>, Malformed> {
    let udp = match headers.transport {
        Some((headers::UDP, at)) => at,
        // A later fragment does not tell its protocol.
        None if headers.fragment => return Err(Malformed),
        _ => return Ok(None),
    };
    let ip = &frame[headers.at..];
    let (fixed, len) = match headers.version {
        Version::V4 => (udp - headers.at, usize::from(be16(ip, 2))),
        Version::V6 => (IPV6, IPV6 + usize::from(be16(ip, 4))),
    };
    let packet = frame.get(udp..headers.at + len).ok_or(Malformed)?;
    if packet.len() < UDP {
        return Err(Malformed);
    }
    if be16(packet, 2) != PORT {
        return Ok(None);
    }
    let len = usize::from(be16(packet, 4));
    if headers.fragment || len < UDP || len > packet.len() {
        return Err(Malformed);
    }
    let datagram = &packet[..len];
    let v4 = headers.version == Version::V4;
    if v4 && fold(sum(&ip[..fixed])) != 0xffff {
        return Err(Malformed);
    }
    // Without one: RFC 768, and over IPv6 as tunnels may (RFC 6935).
    if be16(datagram, 6) != 0 {
        let (at, bytes) = headers.addresses();
        let pseudo = sum(&frame[at..at + 2 * bytes]) + u64::from(PROTOCOL_UDP) + len as u64;
        if fold(pseudo + sum(datagram)) != 0xffff {
            return Err(Malformed);
        }
    }
    message(be16(datagram, 0), &datagram[UDP..]).map(Some)
}

/// TS 29.281 section 5.
pub fn message(source_port: u16, bytes: &[u8]) -> Result<Message<'_>, Malformed> {
    let header = bytes.first_chunk::<GTP>().ok_or(Malformed)?;
    let end = GTP + usize::from(be16(header, 2));
    let bytes = bytes.get(..end).ok_or(Malformed)?;
    let flags = header[0];
    if flags & VERSION_BITS != VERSION_1 {
        return Err(Malformed);
    }
    let mut at = GTP;
    let mut sequence = None;
    if flags & ANY_OPTIONAL != 0 {
        at += OPTIONAL;
        let fields = bytes.get(GTP..at).ok_or(Malformed)?;
        sequence = (flags & NUMBERED != 0).then(|| be16(fields, 0));
        let mut next = if flags & EXTENDED != 0 { fields[3] } else { 0 };
        while next != 0 {
            if next & MUST_BE_UNDERSTOOD != 0 && next != SESSION_CONTAINER {
                return Err(Malformed);
            }
            let words = usize::from(*bytes.get(at).ok_or(Malformed)?);
            at += 4 * words;
            next = match bytes.get(at - 1) {
                Some(next) if words > 0 => *next,
                _ => return Err(Malformed),
            };
        }
    }
    let teid = u32::from(be16(header, 4)) << 16 | u32::from(be16(header, 6));
    Ok(Message { source_port, kind: header[1], teid, sequence, payload: &bytes[at..] })
}
