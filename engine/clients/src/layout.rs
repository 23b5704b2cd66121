// SPDX-License-Identifier: Apache-2.0
//! Numbers, MACs and VLAN tags of a group's clients: all follow from a client's index, and lead back to it.
use num_integer::Integer;
use spate_net::{
    ethernet::Mac,
    vlan::{Tag, Tags},
};

use crate::config::{Config, VlanRange, mac_number};

/// Where a group's clients are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    mac: u64,
    first: u64,
    stride: u64,
    count: u32,
    /// Of the outer tag and of the inner one; of one of them if there is but one.
    vlans: [Option<VlanRange>; 2],
}

/// The clients of a VLAN: every `step`-th from the first one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Members {
    pub(crate) first: u64,
    pub(crate) step: u64,
}

impl Layout {
    pub(crate) fn new(config: &Config) -> Self {
        let &Config { mac, first, stride, count, .. } = config;
        let mut ranges = config.vlans.iter().copied();
        Self { mac: mac_number(mac), first, stride, count, vlans: [ranges.next(), ranges.next()] }
    }

    /// Clients of the group.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// A client's number, over all engines.
    #[inline]
    pub(crate) fn number(&self, index: u32) -> u64 {
        self.first + u64::from(index) * self.stride
    }

    #[inline]
    pub(crate) fn mac(&self, index: u32) -> Mac {
        let [_, _, mac @ ..] = (self.mac + self.number(index)).to_be_bytes();
        mac
    }

    /// The client with a MAC.
    #[inline]
    pub(crate) fn index_of(&self, mac: Mac) -> Option<u32> {
        let number = mac_number(mac).checked_sub(self.mac)?;
        self.index_of_number(number)
    }

    /// The client with a number.
    #[inline]
    pub(crate) fn index_of_number(&self, number: u64) -> Option<u32> {
        let beyond = number.checked_sub(self.first)?;
        // Most often there is one engine.
        let (index, rest) = if self.stride == 1 { (beyond, 0) } else { (beyond / self.stride, beyond % self.stride) };
        u32::try_from(index).ok().filter(|index| rest == 0 && *index < self.count)
    }

    /// The tags of a client's frames.
    #[inline]
    pub(crate) fn tags(&self, index: u32) -> Tags {
        let number = self.number(index);
        match self.vlans {
            [None, _] => Tags::NONE,
            [Some(range), None] => Tags::new(&[tag(range, number)]).unwrap_or_default(),
            [Some(outer), Some(inner)] => {
                let tags = [tag(outer, number / u64::from(inner.count)), tag(inner, number)];
                Tags::new(&tags).unwrap_or_default()
            }
        }
    }

    /// The clients that send frames with these tags.
    pub(crate) fn members(&self, tags: Tags) -> Option<Members> {
        let (residue, modulus) = match (self.vlans, tags.as_slice()) {
            ([None, _], []) => (0, 1),
            ([Some(range), None], [tag]) => (offset(range, *tag)?, u64::from(range.count)),
            ([Some(outer), Some(inner)], [outer_tag, inner_tag]) => {
                let (outer_offset, inner_offset) = (offset(outer, *outer_tag)?, offset(inner, *inner_tag)?);
                let inner_count = u64::from(inner.count);
                (outer_offset * inner_count + inner_offset, u64::from(outer.count) * inner_count)
            }
            _ => return None,
        };
        let members = solve(self.stride, self.first, residue, modulus)?;
        (members.first < u64::from(self.count)).then_some(members)
    }
}

#[inline]
fn tag(range: VlanRange, number: u64) -> Tag {
    let offset = (number % u64::from(range.count)) as u16;
    Tag { ethertype: range.ethertype, vlan: range.first + offset }
}

/// Which of a range's identifiers a tag has.
fn offset(range: VlanRange, tag: Tag) -> Option<u64> {
    let offset = tag.vlan.checked_sub(range.first).filter(|offset| *offset < range.count)?;
    (tag.ethertype == range.ethertype).then_some(u64::from(offset))
}

/// The indices i with `first + i * stride = residue` modulo a number below 2^24.
fn solve(stride: u64, first: u64, residue: u64, modulus: u64) -> Option<Members> {
    let missing = (residue + modulus - first % modulus) % modulus;
    let stride = (stride % modulus) as i64;
    let found = stride.extended_gcd(&(modulus as i64));
    let common = found.gcd.unsigned_abs().max(1);
    if !missing.is_multiple_of(common) {
        return None;
    }
    let step = modulus / common;
    // The stride's inverse, modulo the step.
    let inverse = found.x.rem_euclid(step as i64) as u64;
    Some(Members { first: missing / common * inverse % step, step })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::Rate;
    use proptest::prelude::*;
    use spate_net::vlan::{CUSTOMER, SERVICE};

    fn layout(first: u64, stride: u64, count: u32, vlans: &[(u16, u16)]) -> Layout {
        let range = |(index, (first, count)): (usize, &(u16, u16))| VlanRange {
            ethertype: if index == 0 && vlans.len() == 2 { SERVICE } else { CUSTOMER },
            first: *first,
            count: *count,
        };
        let vlans = vlans.iter().enumerate().map(range).collect();
        let config = Config::dhcp([2, 0x10, 0, 0, 0xff, 0], count, Rate::per_second(1));
        Layout::new(&Config { first, stride, vlans, ..config })
    }

    #[test]
    fn the_inner_tag_counts_fastest() {
        let layout = layout(0, 1, 10, &[(100, 2), (1, 3)]);
        let tags = |index| layout.tags(index).as_slice().iter().map(|tag| tag.vlan).collect::<Vec<_>>();
        let all: Vec<_> = (0..7).map(tags).collect();
        assert_eq!(all, [[100, 1], [100, 2], [100, 3], [101, 1], [101, 2], [101, 3], [100, 1]]);
        assert_eq!((layout.mac(0), layout.mac(1)), ([2, 0x10, 0, 0, 0xff, 0], [2, 0x10, 0, 0, 0xff, 1]));
        assert_eq!(layout.mac(256), [2, 0x10, 0, 1, 0, 0]);
    }

    proptest! {
        #[test]
        fn macs_and_tags_lead_back_to_their_clients(
            first in 0u64..50, stride in 1u64..20, count in 1u32..300,
            vlans in prop::collection::vec((1u16..20, 1u16..12), 0..=2), other in 0u16..40,
        ) {
            let layout = layout(first, stride, count, &vlans);
            for index in 0..count {
                prop_assert_eq!(layout.index_of(layout.mac(index)), Some(index));
                let tags = layout.tags(index);
                let members = layout.members(tags).unwrap();
                let found: Vec<u64> = (members.first..u64::from(count)).step_by(members.step as usize).collect();
                let expected: Vec<u64> = (0..count).filter(|i| layout.tags(*i) == tags).map(u64::from).collect();
                prop_assert_eq!(found, expected);
            }
            let numbers: Vec<u64> = (0..count).map(|index| layout.number(index)).collect();
            for number in 0..first + stride * 3 {
                let expected = numbers.iter().position(|found| *found == number);
                prop_assert_eq!(layout.index_of_number(number).map(|index| index as usize), expected);
            }
            let tags = Tags::new(&vec![Tag::customer(other); vlans.len()]).unwrap();
            let any = (0..count).any(|index| layout.tags(index) == tags);
            prop_assert_eq!(layout.members(tags).is_some(), any);
        }
    }
}
