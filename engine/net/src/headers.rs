// SPDX-License-Identifier: Apache-2.0
//! Where a packet's first IP header is, and what follows it.
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

/// Frames for the tests of what builds on this.
#[cfg(test)]
pub(crate) mod samples {
    /// Ethernet, `tags` 802.1Q tags, IPv4 with `options` words of options, the protocol, then `rest`.
    pub(crate) fn v4(tags: usize, options: u8, protocol: u8, rest: &[u8]) -> Vec<u8> {
        let mut frame = ethernet(tags, 0x0800);
        let header = frame.len();
        frame.extend([0x45 + options, 0, 0, 0, 0x12, 0x34, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(vec![1; usize::from(options) * 4]);
        let sum = crate::checksum::checksum(crate::checksum::sum(&frame[header..]));
        frame[header + 10..header + 12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(rest);
        frame
    }

    /// Ethernet, IPv6, then `rest`.
    pub(crate) fn v6(next: u8, rest: &[u8]) -> Vec<u8> {
        let mut frame = ethernet(0, 0x86dd);
        frame.extend([0x6a, 0xb0, 0, 0, 0, 0, next, 64]);
        frame.extend((0..32).collect::<Vec<u8>>());
        frame.extend(rest);
        frame
    }

    pub(crate) fn ethernet(tags: usize, kind: u16) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        for tag in 0..tags {
            frame.extend([0x81, 0, 0, tag as u8]);
        }
        frame.extend(kind.to_be_bytes());
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_ip_header_is_found_behind_what_may_stand_before_it() {
        for (tags, options) in [(0, 0), (1, 2), (2, 10)] {
            let found = Headers::find(&samples::v4(tags, options, UDP, &[])).unwrap();
            let at = 14 + 4 * tags;
            assert_eq!((found.version, found.at), (Version::V4, at));
            assert_eq!(found.transport, Some((UDP, at + 20 + 4 * usize::from(options))));
        }
        let inner = &samples::v4(0, 0, TCP, &[])[14..];
        let mpls = [samples::ethernet(1, 0x8847), vec![0, 1, 0x00, 64, 0, 2, 0x01, 64], inner.to_vec()].concat();
        assert_eq!(Headers::find(&mpls).unwrap().transport, Some((TCP, 18 + 8 + 20)));
        let pppoe = [samples::ethernet(0, 0x8864), vec![0x11, 0, 0, 1, 0, 22, 0, 0x21], inner.to_vec()].concat();
        assert_eq!(Headers::find(&pppoe).unwrap().at, 22);
        assert_eq!(Headers::find(&samples::ethernet(0, 0x0806)), None);
    }

    #[test]
    fn extension_headers_are_looked_through_and_later_fragments_carry_no_transport() {
        let hop = [60, 0, 0, 0, 0, 0, 0, 0, 17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Headers::find(&samples::v6(0, &hop)).unwrap().transport, Some((UDP, 54 + 24)));
        let fragment = |offset: u8| samples::v6(44, &[17, 0, 0, offset, 0, 0, 0, 1]);
        let first = Headers::find(&fragment(1)).unwrap();
        assert_eq!((first.fragment, first.transport), (true, Some((UDP, 62))));
        let later = Headers::find(&fragment(8)).unwrap();
        assert_eq!((later.fragment, later.transport), (true, None));
        let mut v4 = samples::v4(0, 0, UDP, &[]);
        v4[20..22].copy_from_slice(&[0x20, 0]);
        assert_eq!(Headers::find(&v4).unwrap().transport, Some((UDP, 34)));
        v4[20..22].copy_from_slice(&[0, 5]);
        let later = Headers::find(&v4).unwrap();
        assert_eq!((later.fragment, later.transport), (true, None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic_and_offsets_lie_inside(
            kind in prop::sample::select(vec![0x0800u16, 0x86dd, 0x8100, 0x88a8, 0x8847, 0x8864, 0]),
            bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(0x45), Just(0x60), Just(44), any::<u8>()], 0..200),
            cut in 0usize..200,
        ) {
            let mut frame = samples::ethernet(0, kind);
            frame.extend(bytes);
            frame.truncate(cut);
            if let Some(found) = Headers::find(&frame) {
                let (at, len) = found.addresses();
                prop_assert!(at + 2 * len <= frame.len());
                prop_assert!(found.transport.is_none_or(|(_, at)| at <= frame.len()));
            }
        }
    }
}
