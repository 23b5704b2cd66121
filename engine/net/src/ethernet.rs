// SPDX-License-Identifier: Apache-2.0
//! Ethernet (IEEE 802.3) with VLAN tags: what a frame carries and where, and frames built around a payload.
use crate::{
    field::get_be16,
    vlan::{self, Tag, Tags},
};

pub use crate::mac::{MACS, Mac};

/// Bytes of a header without tags.
pub const HEADER: usize = 14;
/// Bytes of the shortest frame, without FCS.
pub const MIN_LEN: usize = 60;
/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;

/// The Ethernet header of a frame, with its tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The first tag.
    pub tag: Option<Tag>,
    /// The EtherType behind all tags.
    pub ethertype: u16,
    /// The offset of what that names; it may be the end of the frame.
    pub end: usize,
}

impl Link {
    /// Reads the header of a frame behind any number of tags; none if the frame ends before.
    #[inline(always)]
    pub fn find(frame: &[u8]) -> Option<Self> {
        let mut found = Self { tag: None, ethertype: get_be16(frame, MACS)?, end: HEADER };
        if vlan::is_tag(found.ethertype) {
            found.tag = Tag::at(frame, MACS);
            while vlan::is_tag(found.ethertype) {
                found.ethertype = get_be16(frame, found.end + 2)?;
                found.end += vlan::LEN;
            }
        }
        Some(found)
    }

    /// Number of tags.
    #[inline]
    pub fn tags(&self) -> usize {
        (self.end - HEADER) / vlan::LEN
    }

    /// The VLAN of a station's frame, which has at most one tag, a customer's: 0 without one, or with one that has only a priority.
    /// None for other tags.
    #[inline]
    pub fn station_vlan(&self) -> Option<u16> {
        match self.tag {
            None => Some(0),
            Some(tag) => (tag.ethertype == vlan::CUSTOMER && self.tags() == 1).then_some(tag.vlan),
        }
    }
}

/// Whether a frame has a tag.
#[inline]
pub fn is_tagged(frame: &[u8]) -> bool {
    get_be16(frame, MACS).is_some_and(vlan::is_tag)
}

/// Both MACs, as a frame begins with them.
#[inline(always)]
pub fn macs(destination: Mac, source: Mac) -> [u8; MACS] {
    // From two registers: bytes that are written by six and read by eight would be in memory meanwhile.
    let number = |[a, b, c, d, e, f]: Mac| u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    let source = number(source);
    let mut macs = [0; MACS];
    macs[..8].copy_from_slice(&(number(destination) | source << 48).to_le_bytes());
    macs[8..].copy_from_slice(&((source >> 16) as u32).to_le_bytes());
    macs
}

/// A frame around a payload, padded to the shortest length.
pub fn build(destination: Mac, source: Mac, tags: Tags, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((HEADER + Tags::MAX * vlan::LEN + payload.len()).max(MIN_LEN));
    bytes.extend_from_slice(&destination);
    bytes.extend_from_slice(&source);
    bytes.extend(tags.as_slice().iter().flat_map(|tag| tag.bytes()));
    bytes.extend_from_slice(&ethertype.to_be_bytes());
    bytes.extend_from_slice(payload);
    if bytes.len() < MIN_LEN {
        bytes.resize(MIN_LEN, 0);
    }
    bytes
}
