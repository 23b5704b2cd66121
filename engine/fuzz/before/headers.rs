// SPDX-License-Identifier: Apache-2.0
//! As of before the protocol library: where a packet's first IP header is, and what follows it.
//!
//! Looks through VLAN tags, MPLS labels and PPPoE; never past the end of the bytes it is given.

/// VLAN tags and MPLS labels looked through, each.
const MOST_TAGS: usize = 8;
/// IPv6 extension headers looked through.
const MOST_EXTENSIONS: usize = 8;

/// TCP's protocol number.
pub const TCP: u8 = 6;
/// UDP's protocol number.
pub const UDP: u8 = 17;
/// SCTP's protocol number.
pub const SCTP: u8 = 132;

/// Version of an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

/// The first IP header of a packet. All of its fixed part lies in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Its version.
    pub version: Version,
    /// Its offset.
    pub at: usize,
    /// One of several fragments, be it the first.
    pub fragment: bool,
    /// Protocol and offset of what it carries, unless that is a fragment other than the first. The offset may be that of
    /// the end of the packet.
    pub transport: Option<(u8, usize)>,
}

impl Headers {
    /// Finds the headers of an Ethernet frame; none if it carries no IP.
    #[inline]
    pub fn find(frame: &[u8]) -> Option<Self> {
        let mut at = 14;
        let mut kind = word(frame, 12)?;
        for _ in 0..MOST_TAGS {
            match kind {
                0x0800 => return Self::v4(frame, at),
                0x86dd => return Self::v6(frame, at),
                // IEEE 802.1Q, 802.1ad, and what came before the latter.
                0x8100 | 0x88a8 | 0x9100 => {
                    kind = word(frame, at + 2)?;
                    at += 4;
                }
                0x8847 | 0x8848 => return Self::behind_labels(frame, at),
                // A PPPoE session (RFC 2516) with an IP protocol of PPP.
                0x8864 => {
                    return match word(frame, at + 6)? {
                        0x0021 => Self::v4(frame, at + 8),
                        0x0057 => Self::v6(frame, at + 8),
                        _ => None,
                    };
                }
                _ => return None,
            }
        }
        None
    }

    /// MPLS (RFC 3032): what follows the last label is told by its first four bits only.
    fn behind_labels(frame: &[u8], mut at: usize) -> Option<Self> {
        for _ in 0..MOST_TAGS {
            let last = *frame.get(at + 2)? & 1 == 1;
            at += 4;
            if last {
                return match *frame.get(at)? >> 4 {
                    4 => Self::v4(frame, at),
                    6 => Self::v6(frame, at),
                    _ => None,
                };
            }
        }
        None
    }

    fn v4(frame: &[u8], at: usize) -> Option<Self> {
        let header: &[u8; 20] = frame.get(at..)?.first_chunk()?;
        let words = usize::from(header[0] & 0xf);
        if header[0] >> 4 != 4 || words < 5 || at + words * 4 > frame.len() {
            return None;
        }
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
        let transport = (fragment & 0x1fff == 0).then_some((header[9], at + words * 4));
        Some(Self { version: Version::V4, at, fragment: fragment != 0, transport })
    }

    fn v6(frame: &[u8], at: usize) -> Option<Self> {
        let header: &[u8; 40] = frame.get(at..)?.first_chunk()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let mut found = Self { version: Version::V6, at, fragment: false, transport: None };
        let (mut next, mut offset) = (header[6], at + 40);
        for _ in 0..MOST_EXTENSIONS {
            // Next header and length, of all kinds but the last.
            let extension = frame.get(offset..).and_then(|rest| rest.first_chunk::<4>());
            let len = match (next, extension) {
                (0 | 43 | 60 | 135, Some(extension)) => (usize::from(extension[1]) + 1) * 8,
                (51, Some(extension)) => (usize::from(extension[1]) + 2) * 4,
                (44, Some(extension)) => {
                    let fragment = u16::from_be_bytes([extension[2], extension[3]]);
                    found.fragment |= fragment & 0xfff9 != 0;
                    if fragment & 0xfff8 != 0 {
                        return Some(found);
                    }
                    8
                }
                (0 | 43 | 44 | 51 | 60 | 135, None) => return Some(found),
                _ => {
                    found.transport = Some((next, offset));
                    return Some(found);
                }
            };
            (next, offset) = (extension?[0], offset + len);
            if offset > frame.len() {
                return Some(found);
            }
        }
        Some(found)
    }

    /// Offset and length of its two addresses, source first.
    #[inline]
    pub fn addresses(&self) -> (usize, usize) {
        match self.version {
            Version::V4 => (self.at + 12, 4),
            Version::V6 => (self.at + 8, 16),
        }
    }
}

#[inline]
fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}
