// SPDX-License-Identifier: Apache-2.0
//! VLAN tags (IEEE 802.1Q): two bytes of EtherType, then three bits of priority, one of drop eligibility, and 12 of the VLAN's
//! identifier. The EtherType of what the tag stands before follows.
use crate::field::get_be16;

/// Bytes of a tag.
pub const LEN: usize = 4;
/// EtherType of a customer's tag.
pub const CUSTOMER: u16 = 0x8100;
/// EtherType of a provider's tag, outside a customer's (IEEE 802.1ad).
pub const SERVICE: u16 = 0x88a8;
/// EtherType of a provider's tag from before IEEE 802.1ad.
pub const OLD_SERVICE: u16 = 0x9100;

/// Whether an EtherType is that of a tag.
#[inline(always)]
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, CUSTOMER | SERVICE | OLD_SERVICE)
}

/// A tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag {
    /// Its EtherType: see [`is_tag`].
    pub ethertype: u16,
    /// The VLAN, 12 bits; 0: the tag has only a priority.
    pub vlan: u16,
}

impl Tag {
    /// The tag at an offset, if there is one.
    #[inline]
    pub fn at(frame: &[u8], at: usize) -> Option<Self> {
        let ethertype = get_be16(frame, at).filter(|ethertype| is_tag(*ethertype))?;
        Some(Self { ethertype, vlan: get_be16(frame, at + 2)? & 0xfff })
    }

    /// A customer's tag.
    pub const fn customer(vlan: u16) -> Self {
        Self { ethertype: CUSTOMER, vlan }
    }

    /// Its bytes, with priority 0.
    pub const fn bytes(self) -> [u8; LEN] {
        ((self.ethertype as u32) << 16 | self.vlan as u32).to_be_bytes()
    }
}
