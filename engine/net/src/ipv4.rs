// SPDX-License-Identifier: Apache-2.0
//! IPv4 (RFC 791): its header's lengths, fragments and checksum, and headers written.
use crate::{
    checksum::{checksum, fold_words, sum},
    field::{be16, put_be16},
    ip,
};

/// Bytes of a header without options.
pub const HEADER: usize = 20;
/// Offset of the checksum.
pub const CHECKSUM: usize = 10;

/// Bytes of a header with its options, as it says: at least 20 of a valid one.
#[inline(always)]
pub fn header_len(header: &[u8; HEADER]) -> usize {
    usize::from(header[0] & 0xf) * 4
}

/// Which part of a packet a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part(u16);

impl Part {
    /// The part that a header describes.
    #[inline(always)]
    pub fn of(header: &[u8; HEADER]) -> Self {
        Self(be16(header, 6))
    }

    /// Whether it is one of several, be it the first.
    #[inline(always)]
    pub fn is_fragment(self) -> bool {
        self.0 & 0x3fff != 0
    }

    /// Whether it is not the first part.
    #[inline(always)]
    pub fn is_later(self) -> bool {
        self.0 & 0x1fff != 0
    }
}

/// Whether the checksum of a header, with its options, is right.
#[inline]
pub fn is_header_right(header: &[u8]) -> bool {
    ip::is_right(header, 0)
}

/// Recomputes the checksum of a header, with its options.
pub fn complete(header: &mut [u8]) {
    put_be16(header, CHECKSUM, 0);
    let check = checksum(sum(header));
    put_be16(header, CHECKSUM, check);
}

/// A header without options, of a packet that must not be fragmented (RFC 1191).
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names of the header's fields")]
pub struct Header {
    pub tos: u8,
    pub id: u16,
    pub ttl: u8,
    pub protocol: u8,
    pub source: u32,
    pub destination: u32,
}

impl Header {
    /// Writes it before a payload of this many bytes. Gives the sum of the pseudo header.
    #[inline(always)]
    pub fn write(&self, header: &mut [u8; HEADER], len: usize) -> u64 {
        let total = (HEADER + len) as u32;
        let first = 0x4500_0000 | u32::from(self.tos) << 16 | total;
        let second = u32::from(self.id) << 16 | 0x4000;
        let third = u32::from(self.ttl) << 24 | u32::from(self.protocol) << 16;
        let addresses = u64::from(self.source) + u64::from(self.destination);
        let sum = u64::from(first) + u64::from(second) + u64::from(third) + addresses;
        let third = third | u32::from(!fold_words(sum));
        header[0..4].copy_from_slice(&first.to_be_bytes());
        header[4..8].copy_from_slice(&second.to_be_bytes());
        header[8..12].copy_from_slice(&third.to_be_bytes());
        header[12..16].copy_from_slice(&self.source.to_be_bytes());
        header[16..20].copy_from_slice(&self.destination.to_be_bytes());
        addresses + u64::from(self.protocol) + len as u64
    }
}
