// SPDX-License-Identifier: Apache-2.0
//! IPv6 (RFC 8200): its header, the extension headers behind it, and headers written.
use crate::{
    field::be16,
    ip::{self, Address},
};

/// Bytes of a header without extension headers.
pub const HEADER: usize = 40;

/// Extension headers that are looked through.
const MAX_EXTENSIONS: usize = 8;
/// Next-header numbers of hop-by-hop options, routing, fragment, authentication, destination options and mobility.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;

/// Source and destination.
#[inline(always)]
pub fn addresses(header: &[u8; HEADER]) -> (Address, Address) {
    let bits = u64::from_be_bytes;
    let eight = |at: usize| {
        let h = header;
        u128::from(bits([h[at], h[at + 1], h[at + 2], h[at + 3], h[at + 4], h[at + 5], h[at + 6], h[at + 7]]))
    };
    (Address(eight(8) << 64 | eight(16)), Address(eight(24) << 64 | eight(32)))
}

/// What the extension headers of a packet lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extensions {
    /// Whether the packet is one of several fragments, the first included. An atomic fragment is none (RFC 6946).
    pub fragment: bool,
    /// The protocol behind them, unless they are a fragment's other than the first, are cut short, or are too many.
    pub protocol: Option<u8>,
    /// The offset behind those that were read; not beyond the end of the bytes if there is a protocol.
    pub end: usize,
}

impl Extensions {
    /// Reads those that begin at an offset; `next` is the first one's number.
    #[inline]
    pub fn read(bytes: &[u8], mut next: u8, at: usize) -> Self {
        let mut found = Self { fragment: false, protocol: None, end: at };
        for _ in 0..=MAX_EXTENSIONS {
            if !matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS | MOBILITY) {
                found.protocol = Some(next).filter(|_| found.end <= bytes.len());
                return found;
            }
            let Some(header) = bytes.get(found.end..).and_then(|rest| rest.first_chunk::<4>()) else { return found };
            let part = if next == FRAGMENT { be16(header, 2) } else { 0 };
            found.fragment |= part & 0xfff9 != 0;
            if bytes.len() < found.end + 8 {
                return found;
            }
            found.end += match next {
                AUTHENTICATION => (usize::from(header[1]) + 2) * 4,
                FRAGMENT => 8,
                _ => (usize::from(header[1]) + 1) * 8,
            };
            if part & 0xfff8 != 0 {
                return found;
            }
            next = header[0];
        }
        found
    }
}

/// A header without extension headers.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names of the header's fields")]
pub struct Header {
    pub traffic_class: u8,
    /// 20 bits.
    pub flow_label: u32,
    pub next: u8,
    pub hop_limit: u8,
    pub source: Address,
    pub destination: Address,
}

impl Header {
    /// Writes it before a payload of this many bytes. Gives the sum of the pseudo header.
    #[inline(always)]
    pub fn write(&self, header: &mut [u8; HEADER], len: usize) -> u64 {
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label;
        let second = (len as u32) << 16 | u32::from(self.next) << 8 | u32::from(self.hop_limit);
        header[0..4].copy_from_slice(&first.to_be_bytes());
        header[4..8].copy_from_slice(&second.to_be_bytes());
        header[8..24].copy_from_slice(&self.source.0.to_be_bytes());
        header[24..40].copy_from_slice(&self.destination.0.to_be_bytes());
        ip::pseudo_header_v6(self.source, self.destination, self.next, len)
    }
}
