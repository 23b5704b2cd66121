// SPDX-License-Identifier: Apache-2.0
//! Sources to ignore: probes and other hosts on the link that a test has nothing to do with.
use spate_net::{Address, AddressRanges};

/// Sources whose packets of no open flow are dropped and counted as [`IgnoredPackets`](crate::Count::IgnoredPackets).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoredSources {
    /// MACs in ascending order.
    macs: Box<[[u8; 6]]>,
    ranges: AddressRanges,
}

impl IgnoredSources {
    /// Stations with one of these MACs, and hosts with an address of one of these ranges, first to last, both of one family.
    pub fn new(macs: impl IntoIterator<Item = [u8; 6]>, ranges: impl IntoIterator<Item = (Address, Address)>) -> Self {
        let mut macs: Vec<_> = macs.into_iter().collect();
        macs.sort_unstable();
        Self { macs: macs.into(), ranges: AddressRanges::new(ranges) }
    }

    /// Whether the source of a packet, by its MAC or its address, is one of them.
    pub(crate) fn has(&self, mac: [u8; 6], source: Address) -> bool {
        self.ranges.contains(source) || self.macs.binary_search(&mac).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_MAC: [u8; 6] = [2; 6];

    #[test]
    fn macs_and_addresses_are_independent_and_all_of_ipv6_has_no_ipv4() {
        let ignored = IgnoredSources::new([[9; 6], [3; 6]], [(Address(0), Address(u128::MAX))]);
        let (v4, v6) = (Address::v4(1), Address(0x2001_0db8 << 96));
        let found =
            [([3; 6], v4), ([9; 6], v4), (NO_MAC, v6), (NO_MAC, v4)].map(|(mac, source)| ignored.has(mac, source));
        assert_eq!(found, [true, true, true, false]);
    }
}
