// SPDX-License-Identifier: Apache-2.0
//! MPLS label stacks (RFC 3032): entries of four bytes, the last of which has the bottom-of-stack bit.
use crate::ip::Version;

/// EtherType of unicast packets.
pub const UNICAST: u16 = 0x8847;
/// EtherTypes of unicast packets and, as RFC 5332 has them, of those with an upstream-assigned label.
pub const ETHERTYPES: [u16; 2] = [UNICAST, 0x8848];
/// Bytes of an entry.
pub const LEN: usize = 4;
/// The greatest label: it has 20 bits.
pub const MAX_LABEL: u32 = (1 << 20) - 1;
/// The least label that is not reserved (RFC 3032 section 2.1).
pub const FIRST_LABEL: u32 = 16;
/// Label that is assigned where packets are to arrive without one, and is in no stack.
pub const IMPLICIT_NULL: u32 = 3;
/// The bits of an entry, as a number, that are its label.
pub const LABEL: u32 = MAX_LABEL << LABEL_SHIFT;
/// Offset of the label from the lowest bit.
pub const LABEL_SHIFT: u32 = 12;
const BOTTOM: u32 = 1 << 8;

/// An entry of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// 20 bits.
    pub label: u32,
    /// Traffic class, three bits (RFC 5462).
    pub traffic_class: u8,
    /// Time to live.
    pub ttl: u8,
}

impl Entry {
    /// Its bytes as a number, with the bottom-of-stack bit or without.
    pub const fn bits(self, bottom: bool) -> u32 {
        let bottom = if bottom { BOTTOM } else { 0 };
        (self.label & MAX_LABEL) << LABEL_SHIFT | (self.traffic_class as u32 & 7) << 9 | bottom | self.ttl as u32
    }
}

/// The IP packet behind the label stack that begins at an offset. Nothing names its protocol: its version does.
pub fn find_ip(frame: &[u8], mut at: usize) -> Option<(Version, usize)> {
    loop {
        let bottom = *frame.get(at + 2)? & 1 == 1;
        at += LEN;
        if bottom {
            return Some((Version::of_packet(frame.get(at..)?)?, at));
        }
    }
}

/// The entry at the bottom of a stack, as a number, and what is behind it; none if it is cut short.
pub fn split_bottom(mut stack: &[u8]) -> Option<(u32, &[u8])> {
    loop {
        let (entry, behind) = stack.split_first_chunk::<LEN>()?;
        let entry = u32::from_be_bytes(*entry);
        if entry & BOTTOM != 0 {
            return Some((entry, behind));
        }
        stack = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bottom_of_a_stack_is_its_last_entry() {
        let [outer, inner] =
            [Entry { label: 16, traffic_class: 5, ttl: 64 }, Entry { label: MAX_LABEL, ..Entry::default() }];
        let stack = [outer.bits(false), inner.bits(true)].map(u32::to_be_bytes).concat();
        assert_eq!(stack, [0, 1, 0x0a, 64, 0xff, 0xff, 0xf1, 0]);
        let packet = [&stack[..], &[0x45, 6, 7]].concat();
        assert_eq!(split_bottom(&packet), Some((inner.bits(true), &packet[8..])));
        assert_eq!(find_ip(&packet, 0), Some((Version::V4, 8)));
        assert_eq!(inner.bits(true) & LABEL, MAX_LABEL << LABEL_SHIFT);
        for cut in 0..8 {
            assert_eq!((split_bottom(&packet[..cut]), find_ip(&packet[..cut], 0)), (None, None), "{cut}");
        }
    }
}
