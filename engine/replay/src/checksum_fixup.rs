// SPDX-License-Identifier: Apache-2.0
//! Checksums of a packet recomputed, and completed once its trailer is known.
use spate_net::{
    Headers,
    checksum::{checksum, sum, sum_16, swapped},
    field::be16,
    headers::{TCP, UDP, Version},
    icmp,
    ip::{ICMP, ICMPV6},
    ipv4, tcp, trailer, udp,
};

/// The checksum that a trailer is still to be added to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChecksumFixup {
    /// Offset of the field; 0 for none.
    at: u16,
    /// Bytes of the trailer that are covered: the first ones. The rest is Ethernet padding.
    covered: u8,
    /// The trailer starts at an odd distance from where the sum does.
    odd: bool,
    /// 0 is written as 0xffff (UDP, RFC 768).
    zero_means_absent: bool,
}

impl ChecksumFixup {
    /// Nothing is left to do.
    pub const NOTHING: Self = Self { at: 0, covered: 0, odd: false, zero_means_absent: false };

    /// The value as a number, to be kept beside the packet.
    pub fn to_bits(self) -> u32 {
        u32::from(self.at)
            | u32::from(self.covered) << 16
            | u32::from(self.odd) << 24
            | u32::from(self.zero_means_absent) << 25
    }

    /// The value of a number that `to_bits` gave.
    pub fn from_bits(bits: u32) -> Self {
        Self {
            at: bits as u16,
            covered: (bits >> 16) as u8,
            odd: bits >> 24 & 1 == 1,
            zero_means_absent: bits >> 25 & 1 == 1,
        }
    }

    /// Completes the checksum for the trailer's bytes, which were 0 when it was computed.
    #[inline]
    pub(crate) fn close(self, frame: &mut [u8], trailer: &[u8; trailer::LEN]) {
        let at = usize::from(self.at);
        if at == 0 {
            return;
        }
        let added = match usize::from(self.covered) {
            trailer::LEN => sum_16(trailer),
            part => sum(&trailer[..part]),
        };
        let added = if self.odd { swapped(added) } else { added };
        let before = be16(frame, at);
        let value = checksum(u64::from(!before) + added);
        put(frame, at, value, self.zero_means_absent);
    }
}

fn put(frame: &mut [u8], at: usize, value: u16, zero_means_absent: bool) {
    let value = if value == 0 && zero_means_absent { 0xffff } else { value };
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Recomputes the checksums of the first IPv4 header and of TCP, UDP or ICMP behind the first IP header; the last
/// `trailer` bytes, which are 0, are to be sealed. A UDP checksum that says it is absent stays so. Fragments and packets
/// whose lengths contradict each other keep that of what they carry.
pub(crate) fn fix(frame: &mut [u8], trailer: usize) -> ChecksumFixup {
    let Some(headers) = Headers::find(frame) else { return ChecksumFixup::NOTHING };
    if headers.version == Version::V4 {
        ipv4::complete(&mut frame[headers.at..headers.end]);
    }
    let end = headers.packet_end(frame);
    let Some((protocol, start)) = headers.transport.filter(|_| !headers.fragment) else {
        return ChecksumFixup::NOTHING;
    };
    let (offset, least) = match (protocol, headers.version) {
        (TCP, _) => (tcp::CHECKSUM, tcp::HEADER),
        (UDP, _) => (udp::CHECKSUM, udp::HEADER),
        (ICMP, Version::V4) | (ICMPV6, Version::V6) => (icmp::CHECKSUM, 4),
        _ => return ChecksumFixup::NOTHING,
    };
    let field = start + offset;
    if end > frame.len() || start + least > end {
        return ChecksumFixup::NOTHING;
    }
    if (protocol, headers.version) == (UDP, Version::V4) && be16(frame, field) == 0 {
        return ChecksumFixup::NOTHING;
    }
    let pseudo = if protocol == ICMP {
        0
    } else {
        let (addresses, len) = headers.addresses();
        sum(&frame[addresses..addresses + 2 * len]) + u64::from(protocol) + (end - start) as u64
    };
    frame[field..field + 2].fill(0);
    let value = checksum(pseudo + sum(&frame[start..end]));
    put(frame, field, value, protocol == UDP);
    let trailer_at = frame.len() - trailer;
    let covered = end.saturating_sub(trailer_at);
    if covered == 0 {
        return ChecksumFixup::NOTHING;
    }
    ChecksumFixup {
        at: field as u16,
        covered: covered as u8,
        odd: (trailer_at - start) % 2 == 1,
        zero_means_absent: protocol == UDP,
    }
}
