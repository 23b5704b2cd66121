// SPDX-License-Identifier: Apache-2.0
//! A few ranges of sequence numbers, in order, apart from each other.
use crate::flow::{seq_before, seq_max, seq_min};

/// Up to `N` ranges, each from its first number to behind its last.
#[derive(Clone, Copy, Debug)]
pub struct Ranges<const N: usize> {
    ranges: [(u32, u32); N],
    len: u8,
}

impl<const N: usize> Ranges<N> {
    pub const EMPTY: Self = Self { ranges: [(0, 0); N], len: 0 };

    #[inline]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.ranges[..usize::from(self.len)]
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes in them.
    pub fn bytes(&self) -> u32 {
        self.as_slice().iter().map(|(from, to)| to.wrapping_sub(*from)).sum()
    }

    /// The number behind the last range.
    pub fn end(&self) -> Option<u32> {
        self.as_slice().last().map(|range| range.1)
    }

    /// Adds a range. Returns how many bytes of it are new; none if no slot is free.
    pub fn insert(&mut self, from: u32, to: u32) -> Option<u32> {
        let mut bytes = to.wrapping_sub(from);
        // Those that touch it: first..last.
        let all = self.as_slice();
        let first = all.iter().take_while(|range| seq_before(range.1, from)).count();
        let last = first + all[first..].iter().take_while(|range| !seq_before(to, range.0)).count();
        let (mut merged_from, mut merged_to) = (from, to);
        for range in &all[first..last] {
            let overlap = seq_min(range.1, to).wrapping_sub(seq_max(range.0, from)) as i32;
            bytes -= overlap.max(0) as u32;
            merged_from = seq_min(merged_from, range.0);
            merged_to = seq_max(merged_to, range.1);
        }
        let len = usize::from(self.len);
        if first == last {
            if len == N {
                return None;
            }
            self.ranges.copy_within(first..len, first + 1);
            self.len += 1;
        } else {
            self.ranges.copy_within(last..len, first + 1);
            self.len -= (last - first - 1) as u8;
        }
        self.ranges[first] = (merged_from, merged_to);
        Some(bytes)
    }

    /// Removes what lies below a sequence number. Returns how many bytes that were.
    pub fn remove_below(&mut self, seq: u32) -> u32 {
        let mut bytes = 0;
        let mut gone = 0;
        for range in &mut self.ranges[..usize::from(self.len)] {
            if !seq_before(range.0, seq) {
                break;
            }
            if seq_before(seq, range.1) {
                bytes += seq.wrapping_sub(range.0);
                range.0 = seq;
                break;
            }
            bytes += range.1.wrapping_sub(range.0);
            gone += 1;
        }
        self.ranges.copy_within(gone..usize::from(self.len), 0);
        self.len -= gone as u8;
        bytes
    }

    /// The first bytes of a range that are in these.
    pub fn overlap(&self, from: u32, to: u32) -> Option<(u32, u32)> {
        let range = self.as_slice().iter().find(|range| seq_before(from, range.1))?;
        let (from, to) = (seq_max(from, range.0), seq_min(to, range.1));
        seq_before(from, to).then_some((from, to))
    }

    /// The range that holds a number.
    pub fn around(&self, seq: u32) -> Option<(u32, u32)> {
        self.as_slice().iter().copied().find(|range| !seq_before(seq, range.0) && seq_before(seq, range.1))
    }

    /// Where the next range behind a number begins.
    pub fn next_from(&self, seq: u32) -> Option<u32> {
        self.as_slice().iter().map(|range| range.0).find(|from| seq_before(seq, *from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn they_are_a_set(start in any::<u32>(), steps in prop::collection::vec((0u32..200, 1u32..30, any::<bool>()), 1..40)) {
            let mut ranges = Ranges::<64>::EMPTY;
            let mut model = BTreeSet::new();
            let mut floor = 0;
            for (at, len, remove) in steps {
                if remove {
                    let at = at / 4;
                    floor = floor.max(at);
                    let below = model.iter().filter(|n| **n < at).count() as u32;
                    prop_assert_eq!(ranges.remove_below(start.wrapping_add(at)), below);
                    model.retain(|n| *n >= at);
                } else {
                    let new = (at..at + len).filter(|n| model.insert(*n)).count() as u32;
                    prop_assert_eq!(ranges.insert(start.wrapping_add(at), start.wrapping_add(at + len)), Some(new));
                }
                prop_assert_eq!(ranges.bytes() as usize, model.len());
                for n in 0..240 {
                    prop_assert_eq!(ranges.around(start.wrapping_add(n)).is_some(), model.contains(&n));
                }
                let slice = ranges.as_slice();
                prop_assert!(slice.windows(2).all(|pair| seq_before(pair[0].1, pair[1].0)), "in order, apart");
            }
        }

        #[test]
        fn what_has_no_place_is_not_added(count in 1usize..4) {
            let mut ranges = Ranges::<3>::EMPTY;
            for n in 0..count as u32 {
                prop_assert_eq!(ranges.insert(n * 10, n * 10 + 5), Some(5));
            }
            let full = count == 3;
            prop_assert_eq!(ranges.insert(100, 105).is_none(), full);
            // What joins others always has.
            prop_assert_eq!(ranges.insert(5, 7), Some(2));
        }
    }
}
