// SPDX-License-Identifier: Apache-2.0
//! Is an address in one of many ranges? The search is binary, however many there are.
use crate::Address;

/// Ranges of addresses of both families.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRanges {
    /// First and last address of ranges of IPv4, and of IPv6: disjoint, in ascending order.
    by_family: [Box<[(Address, Address)]>; 2],
}

impl AddressRanges {
    /// First and last address of each range, both included and of one family; ranges may overlap.
    pub fn new(ranges: impl IntoIterator<Item = (Address, Address)>) -> Self {
        let (v6, v4): (Vec<_>, Vec<_>) = ranges.into_iter().partition(|(first, _)| first.is_v6());
        Self { by_family: [v4, v6].map(disjoint) }
    }

    /// Ranges of IPv6, merged where they overlap, in ascending order: first and last address.
    pub fn v6(&self) -> &[(Address, Address)] {
        &self.by_family[1]
    }

    /// Whether an address is in one of them.
    #[inline]
    pub fn contains(&self, address: Address) -> bool {
        let ranges = &self.by_family[usize::from(address.is_v6())];
        let behind = ranges.partition_point(|(first, _)| *first <= address);
        behind.checked_sub(1).is_some_and(|at| address <= ranges[at].1)
    }
}

/// Merges ranges that overlap.
fn disjoint(mut ranges: Vec<(Address, Address)>) -> Box<[(Address, Address)]> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, range| {
        let overlaps = next.0 <= range.1;
        if overlaps {
            range.1 = range.1.max(next.1);
        }
        overlaps
    });
    ranges.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_address_is_in_the_merged_ranges_if_it_is_in_one_of_them(
            ranges in proptest::collection::vec((0..40u32, 0..10u32, any::<bool>()), 0..8),
            address in 0..60u32,
            is_v6: bool,
        ) {
            let of = |number: u32, is_v6| if is_v6 { Address(number.into()) } else { Address::v4(number) };
            let ranges = || ranges.iter().map(|&(first, more, is_v6)| (of(first, is_v6), of(first + more, is_v6)));
            let address = of(address, is_v6);
            let expected = ranges().any(|(first, last)| (first..=last).contains(&address));
            prop_assert_eq!(AddressRanges::new(ranges()).contains(address), expected);
        }
    }

    #[test]
    fn ranges_that_overlap_are_merged_and_those_that_only_touch_are_not() {
        let of = |first: u32, last: u32| (Address(first.into()), Address(last.into()));
        let ranges =
            AddressRanges::new([of(20, 29), of(5, 12), of(1, 9), of(13, 13), (Address::v4(0), Address::v4(9))]);
        assert_eq!(ranges.v6(), [of(1, 12), of(13, 13), of(20, 29)]);
    }

    #[test]
    fn all_of_ipv6_has_no_ipv4() {
        let all = AddressRanges::new([(Address(0), Address(u128::MAX))]);
        assert_eq!([Address(0x2001_0db8 << 96), Address::v4(1)].map(|address| all.contains(address)), [true, false]);
    }
}
