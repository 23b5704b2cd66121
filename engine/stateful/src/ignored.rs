// SPDX-License-Identifier: Apache-2.0
//! Sources to ignore: probes and other hosts on the link that a test has nothing to do with.
use crate::Address;

/// Sources whose packets of no flow are dropped and counted as [`IgnoredPackets`](crate::Count::IgnoredPackets).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoredSources {
    /// In ascending order.
    macs: Box<[[u8; 6]]>,
    /// First and last address of ranges of IPv4, and of IPv6: disjoint, in ascending order.
    ranges: [Box<[(Address, Address)]>; 2],
}

impl IgnoredSources {
    /// Stations with one of these MACs, and hosts with an address of one of these ranges, first to last, both of one family.
    pub fn new(macs: impl IntoIterator<Item = [u8; 6]>, ranges: impl IntoIterator<Item = (Address, Address)>) -> Self {
        let mut macs: Vec<_> = macs.into_iter().collect();
        macs.sort_unstable();
        let (v6, v4): (Vec<_>, Vec<_>) = ranges.into_iter().partition(|(first, _)| first.is_v6());
        Self { macs: macs.into(), ranges: [v4, v6].map(disjoint) }
    }

    /// Whether the source of a packet, by its MAC or its address, is one of them.
    pub(crate) fn has(&self, mac: [u8; 6], source: Address) -> bool {
        let ranges = &self.ranges[usize::from(source.is_v6())];
        let behind = ranges.partition_point(|(first, _)| *first <= source);
        let in_range = behind.checked_sub(1).is_some_and(|at| source <= ranges[at].1);
        in_range || self.macs.binary_search(&mac).is_ok()
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

    const NO_MAC: [u8; 6] = [2; 6];

    proptest! {
        #[test]
        fn an_address_is_in_the_merged_ranges_if_it_is_in_one_of_them(
            ranges in proptest::collection::vec((0..40u32, 0..10u32), 0..8),
            source in 0..60u32,
        ) {
            let ranges = || ranges.iter().map(|(first, more)| (Address::v4(*first), Address::v4(first + more)));
            let expected = ranges().any(|(first, last)| (first..=last).contains(&Address::v4(source)));
            prop_assert_eq!(IgnoredSources::new([], ranges()).has(NO_MAC, Address::v4(source)), expected);
        }
    }

    #[test]
    fn macs_and_addresses_are_independent_and_all_of_ipv6_has_no_ipv4() {
        let ignored = IgnoredSources::new([[9; 6], [3; 6]], [(Address(0), Address(u128::MAX))]);
        let (v4, v6) = (Address::v4(1), Address(0x2001_0db8 << 96));
        let found =
            [([3; 6], v4), ([9; 6], v4), (NO_MAC, v6), (NO_MAC, v4)].map(|(mac, source)| ignored.has(mac, source));
        assert_eq!(found, [true, true, true, false]);
    }
}
