// SPDX-License-Identifier: Apache-2.0
//! VLAN tags (IEEE 802.1Q): two bytes of EtherType, then three bits of priority, one of drop eligibility, and 12 of the VLAN's
//! identifier. The EtherType of what the tag stands before follows.
use core::fmt;

use crate::{field::get_be16, mac::MACS};

/// Bytes of a tag.
pub const LEN: usize = 4;
/// EtherType of a customer's tag.
pub const CUSTOMER: u16 = 0x8100;
/// EtherType of a provider's tag, outside a customer's (IEEE 802.1ad).
pub const SERVICE: u16 = 0x88a8;
/// EtherType of a provider's tag from before IEEE 802.1ad.
pub const OLD_SERVICE: u16 = 0x9100;

/// The greatest identifier of a VLAN: 0 marks a tag with a priority only, and 4095 is reserved (IEEE 802.1Q table 9-2).
pub const MAX_VLAN: u16 = 4094;

/// Whether an EtherType is that of a tag.
#[inline(always)]
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, CUSTOMER | SERVICE | OLD_SERVICE)
}

/// A tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

/// The tags of a station's frames, the outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tags {
    /// The first `len`; all others are the default.
    tags: [Tag; Self::MAX],
    len: u8,
}

impl Tags {
    /// Maximum number of tags: a provider's and a customer's (IEEE 802.1ad).
    pub const MAX: usize = 2;
    /// Frames are untagged.
    pub const NONE: Self = Self { tags: [Tag { ethertype: 0, vlan: 0 }; Self::MAX], len: 0 };

    /// These tags; none if there are more than [`Tags::MAX`].
    pub fn new(tags: &[Tag]) -> Option<Self> {
        let mut all = Self::NONE;
        all.tags.get_mut(..tags.len())?.copy_from_slice(tags);
        all.len = tags.len() as u8;
        Some(all)
    }

    /// The tags of a frame; none if it has more than [`Tags::MAX`]. A frame with one tag, a customer's with a priority alone, is
    /// untagged (IEEE 802.1Q).
    #[inline]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let mut all = Self::NONE;
        while let Some(tag) = Tag::at(frame, MACS + usize::from(all.len) * LEN) {
            *all.tags.get_mut(usize::from(all.len))? = tag;
            all.len += 1;
        }
        Some(if all.as_slice() == [Tag::customer(0)] { Self::NONE } else { all })
    }

    /// The tags, the outermost first.
    #[inline]
    pub fn as_slice(&self) -> &[Tag] {
        &self.tags[..usize::from(self.len)]
    }

    /// The tags with a customer's tag as the outermost, as frames are seen where the EtherType of that tag is lost.
    #[must_use]
    pub fn with_customer_outermost(mut self) -> Self {
        if self.len > 0 {
            self.tags[0].ethertype = CUSTOMER;
        }
        self
    }

    /// Whether frames are untagged.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The tags of a station in a VLAN, or in none.
impl From<Option<u16>> for Tags {
    fn from(vlan: Option<u16>) -> Self {
        vlan.and_then(|vlan| Self::new(&[Tag::customer(vlan)])).unwrap_or_default()
    }
}

/// For messages: "without VLAN", "in VLAN 5", "in VLAN 802.1ad 7, 802.1Q 5".
impl fmt::Display for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |tag: &Tag| match tag.ethertype {
            SERVICE => format!("802.1ad {}", tag.vlan),
            _ => format!("802.1Q {}", tag.vlan),
        };
        match self.as_slice() {
            [] => f.write_str("without VLAN"),
            [Tag { ethertype: CUSTOMER, vlan }] => write!(f, "in VLAN {vlan}"),
            tags => write!(f, "in VLAN {}", tags.iter().map(named).collect::<Vec<_>>().join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_the_tags_before_its_ethertype() {
        let service = Tag { ethertype: SERVICE, vlan: 7 };
        let frame = |tags: &[Tag]| {
            let tags = tags.iter().flat_map(|tag| tag.bytes());
            [0; MACS].into_iter().chain(tags).chain([8, 0, 0x45]).collect::<Vec<u8>>()
        };
        for (tags, text) in [
            (&[][..], "without VLAN"),
            (&[Tag::customer(5)], "in VLAN 5"),
            (&[service], "in VLAN 802.1ad 7"),
            (&[service, Tag::customer(5)], "in VLAN 802.1ad 7, 802.1Q 5"),
        ] {
            let found = Tags::of(&frame(tags)).unwrap();
            assert_eq!((Some(found), found.to_string().as_str()), (Tags::new(tags), text));
            assert_eq!(found.as_slice(), tags);
        }
        assert_eq!(Tags::of(&frame(&[Tag::customer(0)])), Some(Tags::NONE));
        let seen = Tags::new(&[service; 2]).unwrap().with_customer_outermost();
        assert_eq!(
            (seen.as_slice(), Tags::NONE.with_customer_outermost()),
            (&[Tag::customer(7), service][..], Tags::NONE)
        );
        assert_eq!((Tags::of(&frame(&[service; 3])), Tags::new(&[service; 3])), (None, None));
    }
}
