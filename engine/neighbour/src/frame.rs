// SPDX-License-Identifier: Apache-2.0
//! Ethernet frames with an optional 802.1Q tag: what is in one, and how one is begun.
use crate::Mac;

/// EtherTypes (IANA, IEEE 802 Numbers).
pub(crate) const ARP: u16 = 0x0806;
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;

/// Shortest frame without FCS.
const SHORTEST: usize = 60;

/// A received frame's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) destination: Mac,
    pub(crate) source: Mac,
    /// VLAN identifier, 0 where there is no tag or one that carries only a priority.
    pub(crate) vlan: u16,
    pub(crate) ethertype: u16,
    pub(crate) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The parts of a frame with at most one tag; none if it is cut short.
    #[inline]
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let destination = *bytes.first_chunk()?;
        let source = *bytes.get(6..)?.first_chunk()?;
        let ethertype = word(bytes, 12)?;
        if ethertype == VLAN {
            let (tag, ethertype) = (word(bytes, 14)?, word(bytes, 16)?);
            return Some(Self { destination, source, vlan: tag & 0xfff, ethertype, payload: &bytes[18..] });
        }
        Some(Self { destination, source, vlan: 0, ethertype, payload: &bytes[14..] })
    }
}

/// The EtherType behind all VLAN tags, and what follows it.
pub(crate) fn behind_tags(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let mut at = 12;
    loop {
        match word(bytes, at)? {
            VLAN | SERVICE_VLAN => at += 4,
            ethertype => return Some((ethertype, &bytes[at + 2..])),
        }
    }
}

/// A frame around a payload, padded to the shortest length.
pub(crate) fn build(destination: Mac, source: Mac, vlan: Option<u16>, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((18 + payload.len()).max(SHORTEST));
    bytes.extend_from_slice(&destination);
    bytes.extend_from_slice(&source);
    if let Some(vlan) = vlan {
        bytes.extend_from_slice(&VLAN.to_be_bytes());
        bytes.extend_from_slice(&vlan.to_be_bytes());
    }
    bytes.extend_from_slice(&ethertype.to_be_bytes());
    bytes.extend_from_slice(payload);
    if bytes.len() < SHORTEST {
        bytes.resize(SHORTEST, 0);
    }
    bytes
}

/// The big-endian 16-bit word at an offset, if all of it is there.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
}
