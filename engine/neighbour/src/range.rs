// SPDX-License-Identifier: Apache-2.0
//! Ranges of addresses that a port answers for beside its own: stations that are emulated behind it, by the million.
use std::net::IpAddr;

use spate_net::vlan::Tags;

use crate::Mac;

/// Addresses of one family from `first` to `last`, both included: every `step`-th of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first of them.
    pub first: IpAddr,
    /// The last of them; not before the first.
    pub last: IpAddr,
    /// From one to the next; at least 1.
    pub step: u32,
    /// The MAC of the first address's station; that of the address n behind it is n higher, around at 2^48. None: the port's own
    /// for all.
    pub first_mac: Option<Mac>,
    /// The tags of the stations' frames. None: those of the port.
    pub tags: Option<Tags>,
}

impl Range {
    /// How far an address is from the first, if it is in the range.
    pub fn offset(&self, address: IpAddr) -> Option<u128> {
        let (first, last, address) = (key(self.first), key(self.last), key(address));
        let offset = (first..=last).contains(&address).then(|| address - first)?;
        offset.is_multiple_of(self.step.into()).then_some(offset)
    }

    /// The MAC at which an address is, if it is in the range; `own` is the port's.
    pub(crate) fn mac(&self, address: IpAddr, own: Mac) -> Option<Mac> {
        let offset = self.offset(address)?;
        let Some(first) = self.first_mac else { return Some(own) };
        let [_, _, mac @ ..] = number(first).wrapping_add(offset as u64).to_be_bytes();
        Some(mac)
    }
}

/// A MAC as a number of 48 bits.
pub(crate) fn number([a, b, c, d, e, f]: Mac) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// Both families in one order; IPv4 as `::ffff:a.b.c.d` (RFC 4291 §2.5.5.2).
pub(crate) fn key(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Ranges, whatever is left out within them, without overlap in ascending order: finding an address takes few looks, however many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Union(Vec<(u128, u128)>);

impl Union {
    pub(crate) fn new(ranges: impl Iterator<Item = Range>) -> Self {
        let mut all: Vec<_> = ranges.map(|range| (key(range.first), key(range.last))).collect();
        all.sort_unstable();
        all.dedup_by(|next, before| {
            let joined = next.0 <= before.1;
            if joined {
                before.1 = before.1.max(next.1);
            }
            joined
        });
        Self(all)
    }

    /// Those of IPv6, first and last.
    pub(crate) fn v6(&self) -> impl Iterator<Item = (u128, u128)> + '_ {
        let is_v4 = |address: u128| address >> 32 == 0xffff;
        self.0.iter().copied().filter(move |(first, _)| !is_v4(*first))
    }

    /// Whether an address, as `key` gives it, is in one of them.
    #[inline]
    pub(crate) fn contains(&self, address: u128) -> bool {
        let above = self.0.partition_point(|(first, _)| *first <= address);
        above > 0 && address <= self.0[above - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(first: u128, last: u128) -> Range {
        Range { first: IpAddr::V6(first.into()), last: IpAddr::V6(last.into()), step: 1, first_mac: None, tags: None }
    }

    #[test]
    fn stations_have_the_ports_mac_or_count_up_from_their_own() {
        let own = [2, 0, 0, 0, 0, 1];
        let [first, last] = ["10.0.0.1", "10.0.2.0"].map(|address| address.parse().unwrap());
        let mut range = Range { first, last, step: 1, first_mac: None, tags: None };
        assert_eq!(range.mac("10.0.1.2".parse().unwrap(), own), Some(own));
        assert_eq!(range.mac("10.0.2.1".parse().unwrap(), own), None);
        assert_eq!(range.mac("::ffff:0:1".parse().unwrap(), own), None);
        range.first_mac = Some([2, 0, 0, 0, 0, 0xff]);
        assert_eq!(range.mac("10.0.1.2".parse().unwrap(), own), Some([2, 0, 0, 0, 2, 0]));
        range.first_mac = Some([0xff; 6]);
        assert_eq!(range.mac("10.0.0.2".parse().unwrap(), own), Some([0; 6]));
        (range.step, range.first_mac) = (3, Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(range.mac("10.0.0.7".parse().unwrap(), own), Some([2, 0, 0, 0, 0, 7]));
        assert_eq!(range.mac("10.0.0.6".parse().unwrap(), own), None);
    }

    proptest! {
        #[test]
        fn a_union_has_what_any_of_its_ranges_has(ends in prop::collection::vec((0u128..60, 0u128..60), 0..8), any in 0u128..70) {
            let ranges: Vec<_> = ends.iter().map(|(a, b)| range(*a.min(b), *a.max(b))).collect();
            let expected = ranges.iter().any(|range| range.offset(IpAddr::V6(any.into())).is_some());
            prop_assert_eq!(Union::new(ranges.into_iter()).contains(any), expected);
        }
    }
}
