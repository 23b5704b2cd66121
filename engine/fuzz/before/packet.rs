// SPDX-License-Identifier: Apache-2.0
//! Frames of TCP, UDP and ICMP over IPv4 and IPv6: read without copying, and verified; written from their parts.
use spate_net::checksum::{checksum, fold, sum, sum_le, swapped};

use spate_net::Address;

use super::{
    headers::{Headers, Version},
    offload::{Finish, leave_checksums},
};

/// Bits of a TCP header's flags (RFC 9293 section 3.1).
pub mod flag {
    pub const FIN: u8 = 1;
    pub const SYN: u8 = 2;
    pub const RST: u8 = 4;
    pub const PSH: u8 = 8;
    pub const ACK: u8 = 16;
    pub const URG: u8 = 32;
    pub const ECE: u8 = 64;
    pub const CWR: u8 = 128;
}

/// What a frame carries.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Who sent it on the link.
    pub source_mac: [u8; 6],
    /// IP addresses.
    pub source: Address,
    /// IP addresses.
    pub destination: Address,
    /// The two bits of explicit congestion notification (RFC 3168): 3 means congestion experienced.
    pub ecn: u8,
    /// What is in it.
    pub content: Content<'a>,
}

/// What an IP packet carries.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// A TCP segment.
    Tcp(Segment<'a>),
    /// A UDP datagram.
    Udp(Datagram<'a>),
    /// An ICMP error about a packet of ours.
    Icmp(Trouble),
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    pub source_port: u16,
    pub destination_port: u16,
    pub payload: &'a [u8],
}

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Ports.
    pub source_port: u16,
    /// Ports.
    pub destination_port: u16,
    /// Sequence number of the first byte, or of SYN.
    pub seq: u32,
    /// What is expected next.
    pub ack: u32,
    /// See [`flag`].
    pub flags: u8,
    /// Not scaled.
    pub window: u16,
    /// Value and echo, if its options begin with them, as nearly all do.
    first_timestamps: Option<(u32, u32)>,
    /// Its options, behind these.
    more_options: &'a [u8],
    /// Data.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Of a TCP header, of what lies between it and the data, and of the data.
    #[inline(always)]
    fn of(header: &[u8; TCP], options: &'a [u8], payload: &'a [u8]) -> Self {
        let (first_timestamps, more_options) = match options.split_first_chunk::<12>() {
            Some((first, more)) if be32(first, 0) == TIMESTAMPS => (Some((be32(first, 4), be32(first, 8))), more),
            _ => (None, options),
        };
        Self {
            source_port: be16(header, 0),
            destination_port: be16(header, 2),
            seq: be32(header, 4),
            ack: be32(header, 8),
            flags: header[13],
            window: be16(header, 14),
            first_timestamps,
            more_options,
            payload,
        }
    }

    /// All of its options.
    pub fn options(&self) -> Options {
        Options::read(self.first_timestamps, self.more_options)
    }

    /// Its timestamps: value and echo.
    #[inline]
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        if self.more_options.is_empty() { self.first_timestamps } else { self.options().timestamps }
    }

    /// Whether it has other options than timestamps.
    #[inline]
    pub fn has_more_options(&self) -> bool {
        !self.more_options.is_empty()
    }

    /// Whether a flag is set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Sequence numbers it takes: bytes of data, SYN and FIN.
    #[inline]
    pub fn len(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.has(flag::SYN)) + u32::from(self.has(flag::FIN))
    }

    /// Whether it takes none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Blocks of selective acknowledgement that fit into a header beside timestamps, and without.
pub const SACK_BLOCKS: usize = 4;

/// Options of a TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Shift of the window (RFC 7323).
    pub window_scale: Option<u8>,
    /// Selective acknowledgement permitted.
    pub sack_permitted: bool,
    /// Value and echo.
    pub timestamps: Option<(u32, u32)>,
    /// Blocks, from the first.
    pub sack: [(u32, u32); SACK_BLOCKS],
    /// How many of them.
    pub sacks: usize,
}

/// An ICMP error: which packet of ours it is about, and what happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What happened.
    pub kind: TroubleKind,
    /// Of the packet it is about.
    pub tcp: bool,
    /// Of the packet it is about.
    pub source: Address,
    /// Of the packet it is about.
    pub destination: Address,
    /// Of the packet it is about.
    pub source_port: u16,
    /// Of the packet it is about.
    pub destination_port: u16,
    /// Of the packet it is about, if of TCP.
    pub seq: u32,
}

/// What an ICMP error tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// Longer than a link's MTU, which may be told (else 0), and must not be fragmented.
    TooBig(u16),
    /// Port or protocol unreachable, or prohibited.
    Refused,
    /// Network or host unreachable, time exceeded: may pass.
    Transient,
}

/// Why a frame is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// It is no TCP, UDP or ICMP error over IP.
    Other,
    /// Shorter than its headers say.
    Truncated,
    /// A checksum is wrong.
    Checksum,
    /// A part of a packet: parts are not put together.
    Fragment,
}

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;
pub const IPV4: usize = 20;
pub const IPV6: usize = 40;
const TCP: usize = 20;
pub const UDP: usize = 8;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

#[inline]
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl<'a> Packet<'a> {
    /// Reads a frame without FCS, behind up to two VLAN tags, and verifies its checksums.
    #[inline]
    pub fn read(frame: &'a [u8]) -> Result<Self, Reject> {
        Self::read_marked(frame, false)
    }

    /// The same; a device may have verified the checksum of the TCP segment that is in it.
    // Part of what receives it: returned by a function of its own, a packet costs 40 instructions to be handed over.
    #[inline(always)]
    pub fn read_marked(frame: &'a [u8], verified: bool) -> Result<Self, Reject> {
        if frame.len() < ETHERNET + IPV4 {
            return Err(Reject::Other);
        }
        let mut at = ETHERNET;
        let mut kind = be16(frame, 12);
        while matches!(kind, 0x8100 | 0x88a8) && at < ETHERNET + 8 && frame.len() >= at + 4 {
            kind = be16(frame, at + 2);
            at += 4;
        }
        let mut source_mac = [0; 6];
        source_mac.copy_from_slice(&frame[6..12]);
        let packet = &frame[at..];
        let (source, destination, ecn, protocol, body) = match kind {
            0x0800 => ipv4(packet)?,
            0x86dd => ipv6(packet)?,
            _ => return Err(Reject::Other),
        };
        let pseudo = pseudo_header(source, destination, protocol, body.len());
        let content = match protocol {
            PROTOCOL_TCP => Content::Tcp(segment(body, pseudo, verified)?),
            PROTOCOL_UDP => Content::Udp(datagram(body, pseudo, source.is_v6())?),
            1 if !source.is_v6() => Content::Icmp(trouble_v4(body)?),
            58 if source.is_v6() => Content::Icmp(trouble_v6(body, pseudo)?),
            _ => return Err(Reject::Other),
        };
        Ok(Self { source_mac, source, destination, ecn, content })
    }
}

/// Whom a frame is for that is of IP, be it broken behind its addresses.
pub fn destination(frame: &[u8]) -> Option<Address> {
    let Headers { version, at, .. } = Headers::find(frame)?;
    Some(match version {
        Version::V4 => Address::v4(be32(frame, at + 16)),
        Version::V6 => Address(u128::from_be_bytes(*frame.get(at + 24..)?.first_chunk()?)),
    })
}

/// What nearly all frames are: a TCP segment over IPv4, without tags or options of IP.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a> {
    /// IP address.
    pub source: u32,
    /// IP address.
    pub destination: u32,
    /// As in `Packet`.
    pub ecn: u8,
    /// What is in it.
    pub segment: Segment<'a>,
}

impl<'a> Plain<'a> {
    /// Reads a frame without FCS if it is such and its checksums are right, of which a device may have verified that of TCP;
    /// `Packet::read` tells of others what they are.
    #[inline(always)]
    pub fn read(frame: &'a [u8], verified: bool) -> Option<Self> {
        const HEADERS: usize = ETHERNET + IPV4;
        let fixed = frame.first_chunk::<{ HEADERS + TCP }>()?;
        let plain = be16(fixed, 12) == 0x0800
            && fixed[ETHERNET] == 0x45
            && be16(fixed, ETHERNET + 6) & 0x3fff == 0
            && fixed[ETHERNET + 9] == PROTOCOL_TCP;
        let end = ETHERNET + usize::from(be16(fixed, ETHERNET + 2));
        let data = HEADERS + usize::from(fixed[HEADERS + 12] >> 4) * 4;
        if !plain || end > frame.len() || data < HEADERS + TCP || data > end {
            return None;
        }
        let body = &frame[HEADERS..end];
        let word = |at: usize| u64::from(le32(fixed, ETHERNET + at));
        let addresses = word(12) + word(16);
        let ip = word(0) + word(4) + word(8) + addresses;
        let pseudo = addresses + u64::from((PROTOCOL_TCP as u16).to_be()) + u64::from((body.len() as u16).to_be());
        // A sum that is not 0 folds to 0xffff if it is a multiple of it.
        if !ip.is_multiple_of(0xffff) || !(verified || (sum_le(body) + pseudo).is_multiple_of(0xffff)) {
            return None;
        }
        let (_, header) = fixed.split_last_chunk()?;
        Some(Self {
            source: be32(fixed, ETHERNET + 12),
            destination: be32(fixed, ETHERNET + 16),
            ecn: fixed[ETHERNET + 1] & 3,
            segment: Segment::of(header, &frame[HEADERS + TCP..data], &frame[data..end]),
        })
    }

    /// Where `read` finds them in a frame that it takes, which is not looked at: source, destination, and their ports in the upper
    /// and the lower half; and whether it is UDP instead. None if it is too short.
    #[inline(always)]
    pub fn ends(frame: &[u8]) -> Option<(u32, u32, u32, bool)> {
        let fixed = frame.first_chunk::<{ ETHERNET + IPV4 + 4 }>()?;
        let (source, destination) = (be32(fixed, ETHERNET + 12), be32(fixed, ETHERNET + 16));
        Some((source, destination, be32(fixed, ETHERNET + IPV4), fixed[ETHERNET + 9] == PROTOCOL_UDP))
    }

    /// The same of a frame of IPv6 that has neither tags nor other headers of IP; of others, nothing or anything.
    #[inline]
    pub fn ends_v6(frame: &[u8]) -> Option<(Address, Address, u32, bool)> {
        let fixed = frame.first_chunk::<{ ETHERNET + IPV6 + 4 }>()?;
        let address =
            |at: usize| fixed[ETHERNET + at..].first_chunk().map(|bytes| Address(u128::from_be_bytes(*bytes)));
        let of_v6 = be16(fixed, 12) == 0x86dd;
        let ports = be32(fixed, ETHERNET + IPV6);
        of_v6.then_some((address(8)?, address(24)?, ports, fixed[ETHERNET + 6] == PROTOCOL_UDP))
    }

    /// The same, as others are read.
    pub fn packet(&self, frame: &[u8]) -> Packet<'a> {
        let mut source_mac = [0; 6];
        source_mac.copy_from_slice(&frame[6..12]);
        let (source, destination) = (Address::v4(self.source), Address::v4(self.destination));
        Packet { source_mac, source, destination, ecn: self.ecn, content: Content::Tcp(self.segment) }
    }
}

/// `fold` of a sum of few 32-bit words.
#[inline(always)]
fn fold_words(sum: u64) -> u16 {
    let (sum, carry) = (sum as u32).overflowing_add((sum >> 32) as u32);
    let sum = sum + u32::from(carry);
    // The upper half gets both halves' sum, and its carry from the lower one, which gets the same.
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

type Ip<'a> = (Address, Address, u8, u8, &'a [u8]);

#[inline]
fn ipv4(packet: &[u8]) -> Result<Ip<'_>, Reject> {
    if packet.len() < IPV4 || packet[0] >> 4 != 4 {
        return Err(Reject::Truncated);
    }
    let header = usize::from(packet[0] & 15) * 4;
    let total = usize::from(be16(packet, 2));
    if header < IPV4 || total < header || packet.len() < total {
        return Err(Reject::Truncated);
    }
    if fold(sum(&packet[..header])) != 0xffff {
        return Err(Reject::Checksum);
    }
    // More fragments, or an offset.
    if be16(packet, 6) & 0x3fff != 0 {
        return Err(Reject::Fragment);
    }
    let (source, destination) = (Address::v4(be32(packet, 12)), Address::v4(be32(packet, 16)));
    Ok((source, destination, packet[1] & 3, packet[9], &packet[header..total]))
}

fn ipv6(packet: &[u8]) -> Result<Ip<'_>, Reject> {
    if packet.len() < IPV6 || packet[0] >> 4 != 6 {
        return Err(Reject::Truncated);
    }
    let total = IPV6 + usize::from(be16(packet, 4));
    if packet.len() < total {
        return Err(Reject::Truncated);
    }
    let address = |at: usize| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&packet[at..at + 16]);
        Address(u128::from_be_bytes(bytes))
    };
    let (mut next, mut at) = (packet[6], IPV6);
    // Hop-by-hop options, routing and destination options (RFC 8200 section 4).
    while matches!(next, 0 | 43 | 60) {
        if total < at + 8 {
            return Err(Reject::Truncated);
        }
        next = packet[at];
        at += 8 * (usize::from(packet[at + 1]) + 1);
    }
    if next == 44 {
        return Err(Reject::Fragment);
    }
    if at > total {
        return Err(Reject::Truncated);
    }
    let (source, destination) = (address(8), address(24));
    // Those of IPv4 within IPv6 are on no wire (RFC 4942 section 2.2), and would be taken for IPv4.
    if !source.is_v6() || !destination.is_v6() {
        return Err(Reject::Other);
    }
    Ok((source, destination, packet[1] >> 4 & 3, next, &packet[at..total]))
}

/// Sum of the pseudo header's 16-bit words (RFC 9293 section 3.1, RFC 8200 section 8.1).
#[inline]
fn pseudo_header(source: Address, destination: Address, protocol: u8, len: usize) -> u64 {
    let addresses = match (source.as_v4(), destination.as_v4()) {
        (Some(source), Some(destination)) => halves(source) + halves(destination),
        _ => words(source) + words(destination),
    };
    addresses + u64::from(protocol) + len as u64
}

#[inline]
fn halves(v: u32) -> u64 {
    u64::from(v >> 16) + u64::from(v & 0xffff)
}

#[inline]
fn words(address: Address) -> u64 {
    (0..4).map(|word| halves((address.0 >> (32 * word)) as u32)).sum()
}

#[inline]
fn segment(body: &[u8], pseudo: u64, verified: bool) -> Result<Segment<'_>, Reject> {
    if body.len() < TCP {
        return Err(Reject::Truncated);
    }
    let header = usize::from(body[12] >> 4) * 4;
    if header < TCP || body.len() < header {
        return Err(Reject::Truncated);
    }
    if !verified && fold(u64::from(fold(sum_le(body)).swap_bytes()) + pseudo) != 0xffff {
        return Err(Reject::Checksum);
    }
    let Some(fixed) = body.first_chunk() else { return Err(Reject::Truncated) };
    Ok(Segment::of(fixed, &body[TCP..header], &body[header..]))
}

fn datagram(body: &[u8], pseudo: u64, v6: bool) -> Result<Datagram<'_>, Reject> {
    if body.len() < UDP {
        return Err(Reject::Truncated);
    }
    let len = usize::from(be16(body, 4));
    if len < UDP || body.len() < len {
        return Err(Reject::Truncated);
    }
    let told = be16(body, 6);
    // Without a checksum (RFC 768), which IPv6 does not allow.
    let none = told == 0 && !v6;
    // The pseudo header holds UDP's own length.
    if !none && fold(sum(&body[..len]) + pseudo - body.len() as u64 + len as u64) != 0xffff {
        return Err(Reject::Checksum);
    }
    Ok(Datagram { source_port: be16(body, 0), destination_port: be16(body, 2), payload: &body[UDP..len] })
}

/// RFC 792: type, code, checksum, 4 bytes, then the packet's own header and at least 8 bytes of what follows.
fn trouble_v4(body: &[u8]) -> Result<Trouble, Reject> {
    if body.len() < 8 + IPV4 + 8 {
        return Err(Reject::Other);
    }
    let kind = match (body[0], body[1]) {
        (3, 4) => TroubleKind::TooBig(be16(body, 6)),
        (3, 2 | 3 | 9 | 10 | 13) => TroubleKind::Refused,
        (3 | 11, _) => TroubleKind::Transient,
        _ => return Err(Reject::Other),
    };
    if fold(sum(body)) != 0xffff {
        return Err(Reject::Checksum);
    }
    let about = &body[8..];
    let header = usize::from(about[0] & 15) * 4;
    if about[0] >> 4 != 4 || header < IPV4 || about.len() < header + 8 {
        return Err(Reject::Truncated);
    }
    let addresses = (Address::v4(be32(about, 12)), Address::v4(be32(about, 16)));
    Trouble::about(kind, about[9], addresses, &about[header..])
}

/// RFC 4443.
fn trouble_v6(body: &[u8], pseudo: u64) -> Result<Trouble, Reject> {
    if body.len() < 8 + IPV6 + 8 {
        return Err(Reject::Other);
    }
    let kind = match (body[0], body[1]) {
        (2, _) => TroubleKind::TooBig(be32(body, 4).min(0xffff) as u16),
        (1, 1 | 4 | 5 | 6) | (4, _) => TroubleKind::Refused,
        (1 | 3, _) => TroubleKind::Transient,
        _ => return Err(Reject::Other),
    };
    if fold(sum(body) + pseudo) != 0xffff {
        return Err(Reject::Checksum);
    }
    let about = &body[8..];
    let address = |at: usize| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&about[at..at + 16]);
        Address(u128::from_be_bytes(bytes))
    };
    Trouble::about(kind, about[6], (address(8), address(24)), &about[IPV6..])
}

impl Trouble {
    fn about(kind: TroubleKind, protocol: u8, addresses: (Address, Address), body: &[u8]) -> Result<Self, Reject> {
        if !matches!(protocol, PROTOCOL_TCP | PROTOCOL_UDP) {
            return Err(Reject::Other);
        }
        Ok(Self {
            kind,
            tcp: protocol == PROTOCOL_TCP,
            source: addresses.0,
            destination: addresses.1,
            source_port: be16(body, 0),
            destination_port: be16(body, 2),
            seq: be32(body, 4),
        })
    }
}

/// NOP, NOP, timestamps of 10 bytes: how nearly all segments begin (RFC 7323 appendix A).
const TIMESTAMPS: u32 = 0x0101_080a;
/// SACK permitted instead of the NOPs.
const SACK_AND_TIMESTAMPS: u32 = 0x0402_080a;

impl Options {
    /// Reads them; what is malformed or unknown is skipped (RFC 9293 section 3.1).
    fn read(timestamps: Option<(u32, u32)>, mut bytes: &[u8]) -> Self {
        let mut options = Self { timestamps, ..Self::default() };
        if let Some(usual) = bytes.first_chunk()
            && options.add_usual(usual)
        {
            bytes = &bytes[usual.len()..];
        }
        while let [kind, rest @ ..] = bytes {
            match (kind, rest) {
                (0, _) => break,
                (1, _) => bytes = rest,
                (kind, [len, ..]) if *len >= 2 && bytes.len() >= usize::from(*len) => {
                    options.add(*kind, &bytes[2..usize::from(*len)]);
                    bytes = &bytes[usize::from(*len)..];
                }
                _ => break,
            }
        }
        options
    }

    /// What SYNs usually have, in this order: maximum segment size, SACK permitted, timestamps, NOP, window scale. False if it
    /// is something else.
    #[inline]
    fn add_usual(&mut self, bytes: &[u8; 20]) -> bool {
        let (mss, scale) = (be32(bytes, 0), be32(bytes, 16));
        let usual = mss >> 16 == 0x0204 && be32(bytes, 4) == SACK_AND_TIMESTAMPS && scale >> 8 == 0x01_0303;
        if usual {
            self.mss = Some(mss as u16);
            self.sack_permitted = true;
            self.timestamps = Some((be32(bytes, 8), be32(bytes, 12)));
            self.window_scale = Some((scale as u8).min(14));
        }
        usual
    }

    fn add(&mut self, kind: u8, value: &[u8]) {
        match (kind, value.len()) {
            (2, 2) => self.mss = Some(be16(value, 0)),
            // A shift above 14 counts as 14 (RFC 7323 section 2.3).
            (3, 1) => self.window_scale = Some(value[0].min(14)),
            (4, 0) => self.sack_permitted = true,
            (5, _) => {
                for block in value.chunks_exact(8).take(SACK_BLOCKS - self.sacks) {
                    self.sack[self.sacks] = (be32(block, 0), be32(block, 4));
                    self.sacks += 1;
                }
            }
            (8, 8) => self.timestamps = Some((be32(value, 0), be32(value, 4))),
            _ => {}
        }
    }

    /// Bytes they take in a header: a multiple of 4.
    #[inline]
    pub fn len(&self) -> usize {
        if self.mss.is_some() {
            let scale = if self.window_scale.is_some() { 4 } else { 0 };
            // SACK permitted takes the place of the NOPs before the timestamps.
            let rest = if self.timestamps.is_some() { 12 } else { 4 * usize::from(self.sack_permitted) };
            return 4 + scale + rest;
        }
        let timestamps = if self.timestamps.is_some() { 12 } else { 0 };
        timestamps + if self.sacks > 0 { 4 + 8 * self.sacks } else { 0 }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes them; `out` is as long as `len` says. Gives their sum.
    #[inline]
    fn write(&self, out: &mut [u8]) -> u64 {
        let (Some(mss), Some((value, echo)), true, Some(scale)) =
            (self.mss, self.timestamps, self.sack_permitted, self.window_scale)
        else {
            return self.write_all(out);
        };
        let Some(out) = out.first_chunk_mut::<20>() else { return 0 };
        let words = [0x0204_0000 | u32::from(mss), SACK_AND_TIMESTAMPS, value, echo, 0x0103_0300 | u32::from(scale)];
        let (places, _) = out.as_chunks_mut::<4>();
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        words.iter().map(|word| u64::from(*word)).sum()
    }

    #[inline(never)]
    fn write_all(&self, out: &mut [u8]) -> u64 {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if let Some(mss) = self.mss {
            put(&(0x0204_0000 | u32::from(mss)).to_be_bytes());
        }
        if let Some((value, echo)) = self.timestamps {
            put(&(if self.sack_permitted { SACK_AND_TIMESTAMPS } else { TIMESTAMPS }).to_be_bytes());
            put(&value.to_be_bytes());
            put(&echo.to_be_bytes());
        } else if self.sack_permitted {
            put(&0x0101_0402u32.to_be_bytes());
        }
        if let (Some(scale), Some(_)) = (self.window_scale, self.mss) {
            put(&(0x0103_0300 | u32::from(scale)).to_be_bytes());
        }
        if self.sacks > 0 {
            put(&(0x0101_0500 | (2 + 8 * self.sacks as u32)).to_be_bytes());
            for (from, to) in &self.sack[..self.sacks] {
                put(&from.to_be_bytes());
                put(&to.to_be_bytes());
            }
        }
        sum(out)
    }
}

/// Between whom a packet goes.
#[derive(Clone, Copy, Debug)]
pub enum Ends {
    /// IPv4 addresses.
    V4 {
        /// Of the sender.
        source: u32,
        /// Of the receiver.
        destination: u32,
    },
    /// IPv6 addresses.
    V6 {
        /// Of the sender.
        source: Address,
        /// Of the receiver.
        destination: Address,
    },
}

impl Ends {
    /// From one address to another of the same family.
    #[inline]
    pub fn of(source: Address, destination: Address) -> Self {
        match (source.as_v4(), destination.as_v4()) {
            (Some(source), Some(destination)) => Self::V4 { source, destination },
            _ => Self::V6 { source, destination },
        }
    }
}

/// The headers below the transport of what a flow sends.
#[derive(Clone, Copy, Debug)]
pub struct Below {
    /// Ethernet destination and source.
    pub macs: [u8; 12],
    /// IP addresses.
    pub ends: Ends,
    /// IPv4 type of service, IPv6 traffic class.
    pub tos: u8,
    /// Time to live, hop limit.
    pub ttl: u8,
    /// IPv4 identification.
    pub id: u16,
    /// What the port's device does of the rest.
    pub finish: Finish,
}

/// The header of a segment to send.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub source_port: u16,
    pub destination_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// Of IP: explicit congestion notification.
    pub ecn: u8,
}

impl Head {
    /// Writes all before so many bytes of options; `sum` is of all else that the checksum covers.
    #[inline(always)]
    fn write(&self, fixed: &mut [u8; TCP], options: usize, sum: u64) {
        let ports = u32::from(self.source_port) << 16 | u32::from(self.destination_port);
        let last = ((TCP + options) as u32 / 4) << 28 | u32::from(self.flags) << 16 | u32::from(self.window);
        let words = u64::from(ports) + u64::from(self.seq) + u64::from(self.ack) + u64::from(last);
        fixed[0..4].copy_from_slice(&ports.to_be_bytes());
        fixed[4..8].copy_from_slice(&self.seq.to_be_bytes());
        fixed[8..12].copy_from_slice(&self.ack.to_be_bytes());
        fixed[12..16].copy_from_slice(&last.to_be_bytes());
        // Checksum and urgent pointer.
        fixed[16..20].copy_from_slice(&(u32::from(!fold_words(sum + words)) << 16).to_be_bytes());
    }
}

impl Below {
    /// Bytes before the transport's header.
    #[inline]
    pub fn len(&self) -> usize {
        match self.ends {
            Ends::V4 { .. } => ETHERNET + IPV4,
            Ends::V6 { .. } => ETHERNET + IPV6,
        }
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the headers of Ethernet and IP for a transport's packet of so many bytes. Gives the sum of its pseudo header.
    #[inline]
    fn write(&self, frame: &mut [u8], ecn: u8, protocol: u8, len: usize) -> u64 {
        match self.ends {
            Ends::V4 { source, destination } => {
                let Some(header) = frame.first_chunk_mut() else { return 0 };
                self.write_v4(header, (source, destination), ecn, protocol, len)
            }
            Ends::V6 { source, destination } => self.write_v6(frame, (source, destination), ecn, protocol, len),
        }
    }

    #[inline(always)]
    fn write_v4(
        &self,
        header: &mut [u8; ETHERNET + IPV4],
        (source, destination): (u32, u32),
        ecn: u8,
        protocol: u8,
        len: usize,
    ) -> u64 {
        header[..12].copy_from_slice(&self.macs);
        let total = (IPV4 + len) as u32;
        // Do not fragment (RFC 1191).
        let first = 0x4500_0000 | u32::from(self.tos | ecn) << 16 | total;
        let second = u32::from(self.id) << 16 | 0x4000;
        let third = u32::from(self.ttl) << 24 | u32::from(protocol) << 16;
        let addresses = u64::from(source) + u64::from(destination);
        let sum = u64::from(first) + u64::from(second) + u64::from(third) + addresses;
        let third = third | u32::from(!fold_words(sum));
        header[12..14].copy_from_slice(&[0x08, 0x00]);
        header[14..18].copy_from_slice(&first.to_be_bytes());
        header[18..22].copy_from_slice(&second.to_be_bytes());
        header[22..26].copy_from_slice(&third.to_be_bytes());
        header[26..30].copy_from_slice(&source.to_be_bytes());
        header[30..34].copy_from_slice(&destination.to_be_bytes());
        addresses + u64::from(protocol) + len as u64
    }

    #[cold]
    fn write_v6(
        &self,
        frame: &mut [u8],
        (source, destination): (Address, Address),
        ecn: u8,
        protocol: u8,
        len: usize,
    ) -> u64 {
        frame[..12].copy_from_slice(&self.macs);
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        let header = &mut frame[ETHERNET..ETHERNET + IPV6];
        header[..4].copy_from_slice(&(6 << 28 | u32::from(self.tos | ecn) << 20).to_be_bytes());
        header[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        header[6..8].copy_from_slice(&[protocol, self.ttl]);
        header[8..24].copy_from_slice(&source.0.to_be_bytes());
        header[24..40].copy_from_slice(&destination.0.to_be_bytes());
        pseudo_header(source, destination, protocol, len)
    }

    /// Writes the headers of a TCP segment whose data, so many bytes with this sum, is or will be behind them. The frame
    /// holds all of it.
    pub fn write_tcp(&self, frame: &mut [u8], head: &Head, options: &Options, (data, data_sum): (usize, u16)) {
        let (below, at, len) = (self.len(), self.len() + TCP, options.len());
        let sum = options.write(&mut frame[at..at + len]) + u64::from(data_sum);
        let pseudo = self.write(frame, head.ecn, PROTOCOL_TCP, TCP + len + data);
        if let Some(fixed) = frame[below..].first_chunk_mut() {
            head.write(fixed, len, pseudo + sum);
        }
        if self.finish != Finish::Nothing {
            leave_checksums(frame, self.finish, true, pseudo, TCP + len + data);
        }
    }

    /// The same with timestamps (value and echo) as its only option, if any: what nearly all segments are.
    #[inline(always)]
    pub fn write_plain(
        &self,
        frame: &mut [u8],
        head: &Head,
        timestamps: Option<(u32, u32)>,
        (data, data_sum): (usize, u16),
    ) {
        if let (Ends::V4 { source, destination }, Some((value, echo))) = (self.ends, timestamps)
            && self.finish == Finish::Nothing
            && let Some((below, frame)) = frame.split_first_chunk_mut()
            && let Some((fixed, frame)) = frame.split_first_chunk_mut()
            && let Some(out) = frame.first_chunk_mut::<TIMESTAMPS_LEN>()
        {
            let len = TCP + TIMESTAMPS_LEN + data;
            let pseudo = self.write_v4(below, (source, destination), head.ecn, PROTOCOL_TCP, len);
            out[..4].copy_from_slice(&TIMESTAMPS.to_be_bytes());
            out[4..8].copy_from_slice(&value.to_be_bytes());
            out[8..].copy_from_slice(&echo.to_be_bytes());
            let sum = u64::from(TIMESTAMPS) + u64::from(value) + u64::from(echo) + u64::from(data_sum);
            head.write(fixed, TIMESTAMPS_LEN, pseudo + sum);
        } else {
            self.write_tcp(frame, head, &Options { timestamps, ..Options::default() }, (data, data_sum));
        }
    }

    /// The same for a UDP datagram.
    #[inline]
    pub fn write_udp(&self, frame: &mut [u8], ports: (u16, u16), data: usize, data_sum: u16) {
        let start = self.len();
        let len = UDP + data;
        let pseudo = self.write(frame, 0, PROTOCOL_UDP, len);
        let bytes = &mut frame[start..start + UDP];
        bytes[0..2].copy_from_slice(&ports.0.to_be_bytes());
        bytes[2..4].copy_from_slice(&ports.1.to_be_bytes());
        bytes[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        bytes[6..8].fill(0);
        // 0 would mean that there is none.
        let check = match checksum(sum(bytes) + pseudo + u64::from(data_sum)) {
            0 => 0xffff,
            check => check,
        };
        bytes[6..8].copy_from_slice(&check.to_be_bytes());
        if self.finish != Finish::Nothing {
            leave_checksums(frame, self.finish, false, pseudo, len);
        }
    }
}

/// Bytes of the timestamps that every segment carries, if agreed on.
pub const TIMESTAMPS_LEN: usize = 12;
/// Bytes of a TCP header without options.
pub const TCP_HEADER: usize = TCP;
/// Bytes of a UDP header.
pub const UDP_HEADER: usize = UDP;

/// The sum of two adjacent pieces: of the first, so many bytes long, and of the second.
#[inline]
pub fn joined(first: u16, len: usize, second: u16) -> u16 {
    let second = if len.is_multiple_of(2) { u64::from(second) } else { swapped(u64::from(second)) };
    fold(u64::from(first) + second)
}
