// SPDX-License-Identifier: Apache-2.0
//! One pass over a frame that finds its layers: Ethernet with any number of VLAN tags, MPLS labels or a PPPoE session, the first IP
//! header with its options or extension headers, and what it carries.
//!
//! Nothing is verified but that headers lie in the frame; [`crate::packet`] does that. What a tunnel carries is not
//! looked into.
use crate::{
    ethernet::{self, Link},
    field::be16,
    ip::Address,
    ipv4,
    ipv6::{self, Extensions},
    mpls, pppoe,
};

pub use crate::ip::{SCTP, TCP, UDP, Version};

/// The layers of a frame up to what its first IP header carries. All of that header's fixed part lies in the frame, and of IPv4 its
/// options too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The Ethernet header.
    pub link: Link,
    /// Version of the first IP header.
    pub version: Version,
    /// Its offset.
    pub at: usize,
    /// Whether the packet is one of several fragments, the first included.
    pub fragment: bool,
    /// Protocol and offset of what it carries, unless that is a fragment other than the first. The offset may be that of
    /// the end of the packet.
    pub transport: Option<(u8, usize)>,
    /// The offset behind its options or extension headers, as far as these are known. Without a transport it may lie beyond the
    /// frame.
    pub end: usize,
}

impl Headers {
    /// Finds the headers of an Ethernet frame; none if it carries no IP.
    #[inline]
    pub fn find(frame: &[u8]) -> Option<Self> {
        Self::behind(frame, Link::find(frame)?)
    }

    /// Finds the headers behind an Ethernet header.
    #[inline]
    pub(crate) fn behind(frame: &[u8], link: Link) -> Option<Self> {
        match link.ethertype {
            ethernet::IPV4 => Self::v4(frame, link, link.end),
            ethernet::IPV6 => Self::v6(frame, link, link.end),
            _ => Self::within(frame, link),
        }
    }

    /// IP behind other headers than tags.
    fn within(frame: &[u8], link: Link) -> Option<Self> {
        let (version, at) = match link.ethertype {
            kind if mpls::ETHERTYPES.contains(&kind) => mpls::find_ip(frame, link.end)?,
            pppoe::ETHERTYPE => pppoe::find_ip(frame, link.end)?,
            _ => return None,
        };
        match version {
            Version::V4 => Self::v4(frame, link, at),
            Version::V6 => Self::v6(frame, link, at),
        }
    }

    #[inline]
    fn v4(frame: &[u8], link: Link, at: usize) -> Option<Self> {
        let header: &[u8; ipv4::HEADER] = frame.get(at..)?.first_chunk()?;
        let len = ipv4::header_len(header);
        let end = at + len;
        if header[0] >> 4 != 4 || len < ipv4::HEADER || end > frame.len() {
            return None;
        }
        let part = ipv4::Part::of(header);
        let transport = (!part.is_later()).then_some((header[9], end));
        Some(Self { link, version: Version::V4, at, fragment: part.is_fragment(), transport, end })
    }

    #[inline]
    fn v6(frame: &[u8], link: Link, at: usize) -> Option<Self> {
        let header: &[u8; ipv6::HEADER] = frame.get(at..)?.first_chunk()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let Extensions { fragment, protocol, end } = Extensions::read(frame, header[6], at + ipv6::HEADER);
        let transport = protocol.map(|protocol| (protocol, end));
        Some(Self { link, version: Version::V6, at, fragment, transport, end })
    }

    /// Whether the IP header follows Ethernet and its tags, with nothing in between.
    #[inline]
    pub fn is_native(&self) -> bool {
        self.at == self.link.end
    }

    /// Offset and length of its two addresses, source first.
    #[inline]
    pub fn addresses(&self) -> (usize, usize) {
        match self.version {
            Version::V4 => (self.at + 12, 4),
            Version::V6 => (self.at + 8, 16),
        }
    }

    /// Source of the frame that these are of. IPv4-mapped ones of IPv6 are not distinguished from IPv4.
    #[inline]
    pub fn source(&self, frame: &[u8]) -> Address {
        self.address(frame, 0)
    }

    /// Destination, as `source`.
    #[inline]
    pub fn destination(&self, frame: &[u8]) -> Address {
        self.address(frame, 1)
    }

    #[inline]
    fn address(&self, frame: &[u8], which: usize) -> Address {
        let (at, len) = self.addresses();
        match frame[at + which * len..][..len] {
            [a, b, c, d] => Address::v4(u32::from_be_bytes([a, b, c, d])),
            ref bytes => Address(bytes.iter().fold(0, |address, byte| address << 8 | u128::from(*byte))),
        }
    }

    /// Where the IP packet ends in the frame that these are of, as its header says: it may be before its headers do, and beyond the
    /// frame.
    #[inline]
    pub fn packet_end(&self, frame: &[u8]) -> usize {
        match self.version {
            Version::V4 => self.at + usize::from(be16(frame, self.at + 2)),
            Version::V6 => self.at + ipv6::HEADER + usize::from(be16(frame, self.at + 4)),
        }
    }
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

    #[test]
    fn any_number_of_tags_and_extension_headers_is_looked_through() {
        let found = Headers::find(&samples::v4(40, 0, UDP, &[])).unwrap();
        assert_eq!((found.link.tags(), found.at), (40, 14 + 4 * 40));
        let mut next = [0; 8 * 8];
        next.iter_mut().skip(8 * 7).step_by(8).for_each(|next| *next = TCP);
        assert_eq!(Headers::find(&samples::v6(0, &next)).unwrap().transport, Some((TCP, 54 + 64)));
        // More of them is an attack.
        let more = [next.as_slice(), &next].concat();
        let mut more: Vec<u8> = more.iter().map(|_| 0).collect();
        more[120] = TCP;
        assert_eq!(Headers::find(&samples::v6(0, &more)).unwrap().transport, None);
    }

    #[test]
    fn a_fragment_that_is_all_of_its_packet_is_none() {
        let found = Headers::find(&samples::v6(44, &[17, 0, 0, 0, 0, 0, 0, 1])).unwrap();
        assert_eq!((found.fragment, found.transport), (false, Some((UDP, 62))));
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
