// SPDX-License-Identifier: Apache-2.0
//! Which of a list of VLAN tags does a frame have? A list is looked through by halves: it takes no memory but its ranges.
use crate::{
    ethernet::MACS,
    vlan::{LEN, Tag},
};

/// Tags with successive identifiers: of frames with one tag, or with two of which the outer one is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TagRange {
    /// The outer VLAN; none: the frames have one tag.
    pub outer: Option<u16>,
    /// The inner, or only, VLAN from this one on
    pub first: u16,
    /// to this one.
    pub last: u16,
}

impl TagRange {
    /// Number of tags; 0 if the last is before the first.
    pub fn count(self) -> usize {
        usize::from((self.last + 1).saturating_sub(self.first))
    }

    fn key(self, vlan: u16) -> u32 {
        key(self.outer, vlan)
    }
}

/// Numbers in ascending order, frames with one tag first.
fn key(outer: Option<u16>, vlan: u16) -> u32 {
    outer.map_or(0, |outer| 1 << 24 | u32::from(outer) << 12) | u32::from(vlan)
}

/// A list of tags, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagList {
    /// Each with the number of its first tag.
    ranges: Box<[(TagRange, usize)]>,
    len: usize,
}

impl TagList {
    /// Number of frames with none of the tags.
    pub const OTHER: usize = 0;
    /// Number of frames without a tag, or whose only tag has a priority alone (IEEE 802.1Q).
    pub const UNTAGGED: usize = 1;
    /// Number of the first tag.
    pub const FIRST: usize = 2;

    /// The tags of these ranges; the index of the first range that has a tag of another one is the error.
    pub fn new(ranges: impl IntoIterator<Item = TagRange>) -> Result<Self, usize> {
        let mut all: Vec<_> = ranges.into_iter().enumerate().collect();
        all.sort_by_key(|(index, range)| (range.key(range.first), *index));
        if let Some(pair) = all.windows(2).find(|pair| pair[0].1.key(pair[0].1.last) >= pair[1].1.key(pair[1].1.first))
        {
            return Err(pair[0].0.max(pair[1].0));
        }
        let mut len = 0;
        let numbered = |(_, range): (usize, TagRange)| {
            let first = Self::FIRST + len;
            len += range.count();
            (range, first)
        };
        let ranges = all.into_iter().map(numbered).collect();
        Ok(Self { ranges, len })
    }

    /// Number of tags.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no tags.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Numbers that `of` may give: below this.
    pub fn numbers(&self) -> usize {
        Self::FIRST + self.len
    }

    /// The tags, in the order of their numbers.
    pub fn tags(&self) -> impl Iterator<Item = (Option<u16>, u16)> {
        self.ranges.iter().flat_map(|(range, _)| (range.first..=range.last).map(|vlan| (range.outer, vlan)))
    }

    /// The number of a frame's tags. Of more than two the outer two count.
    #[inline]
    pub fn of(&self, frame: &[u8]) -> usize {
        let Some(outer) = Tag::at(frame, MACS) else { return Self::UNTAGGED };
        let key = match Tag::at(frame, MACS + LEN) {
            None if outer.vlan == 0 => return Self::UNTAGGED,
            None => key(None, outer.vlan),
            Some(inner) => key(Some(outer.vlan), inner.vlan),
        };
        let behind = self.ranges.partition_point(|(range, _)| range.key(range.first) <= key);
        match self.ranges[..behind].last() {
            Some((range, first)) if key <= range.key(range.last) => first + (key - range.key(range.first)) as usize,
            _ => Self::OTHER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vlan::{MAX_VLAN, SERVICE};
    use proptest::prelude::*;

    /// A frame with these tags.
    fn frame(tags: &[u16]) -> Vec<u8> {
        let service = |vlan| Tag { ethertype: SERVICE, vlan };
        let tag = |(at, vlan): (usize, &u16)| {
            if at + 1 < tags.len() { service(*vlan).bytes() } else { Tag::customer(*vlan).bytes() }
        };
        [0; MACS].into_iter().chain(tags.iter().enumerate().flat_map(tag)).chain([8, 0, 0x45, 0]).collect()
    }

    fn single(first: u16, last: u16) -> TagRange {
        TagRange { outer: None, first, last }
    }

    fn within(outer: u16, first: u16, last: u16) -> TagRange {
        TagRange { outer: Some(outer), first, last }
    }

    #[test]
    fn tags_are_numbered_in_ascending_order_whatever_the_order_of_the_ranges() {
        let list = TagList::new([within(7, 1, 2), single(100, 101), within(6, 4094, 4094), single(5, 5)]).unwrap();
        let tags: Vec<_> = list.tags().collect();
        assert_eq!(tags, [(None, 5), (None, 100), (None, 101), (Some(6), 4094), (Some(7), 1), (Some(7), 2)]);
        assert_eq!((list.len(), list.numbers()), (6, 8));
        for (number, (outer, vlan)) in tags.into_iter().enumerate() {
            let tags: Vec<u16> = outer.into_iter().chain([vlan]).collect();
            assert_eq!(list.of(&frame(&tags)), TagList::FIRST + number, "{tags:?}");
        }
    }

    #[test]
    fn frames_without_a_tag_and_with_other_tags_have_numbers_of_their_own() {
        let list = TagList::new([single(5, 9), within(5, 5, 5)]).unwrap();
        for (tags, number) in [
            (&[][..], TagList::UNTAGGED),
            (&[0], TagList::UNTAGGED),
            (&[4], TagList::OTHER),
            (&[10], TagList::OTHER),
            (&[0, 5], TagList::OTHER),
            (&[5, 0], TagList::OTHER),
            (&[5, 6], TagList::OTHER),
            (&[5, 5], TagList::FIRST + 5),
            (&[5, 5, 8], TagList::FIRST + 5),
            (&[5, 6, 5], TagList::OTHER),
        ] {
            assert_eq!(list.of(&frame(tags)), number, "{tags:?}");
        }
        assert_eq!(list.of(&[0; 13]), TagList::UNTAGGED);
        assert_eq!(TagList::default().of(&frame(&[5])), TagList::OTHER);
    }

    #[test]
    fn a_tag_is_in_one_range_only() {
        assert_eq!(TagList::new([single(5, 9), within(1, 5, 9), single(9, 10)]), Err(2));
        assert_eq!(TagList::new([single(9, 10), single(5, 9)]), Err(1));
        assert_eq!(TagList::new([within(1, 5, 5), within(1, 5, 5)]), Err(1));
        assert!(TagList::new([within(1, 5, 5), within(2, 5, 5), single(5, 5)]).is_ok());
    }

    proptest! {
        #[test]
        fn any_frame_has_a_number(frame: Vec<u8>, first in 1..=MAX_VLAN) {
            let list = TagList::new([single(first, MAX_VLAN), within(first, 1, first)]).unwrap();
            prop_assert!(list.of(&frame) < list.numbers());
        }
    }
}
