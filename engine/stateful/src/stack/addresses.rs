// SPDX-License-Identifier: Apache-2.0
//! Where a flow has its addresses: those of IPv4, and the lower 32 bits of those of IPv6, in its first cache line; the other 96 bits of
//! IPv6 lie beside.
use super::hash_keys::{HashKeys, folded};
use crate::Address;

/// The upper 96 bits of an address of IPv6, the least significant 32 of its upper half first: that half is read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Upper([u32; 3]);

impl Upper {
    /// Upper bits of no address.
    pub(super) const NOTHING: Self = Self([0; 3]);

    /// An address's.
    #[inline(always)]
    pub(super) fn of(address: Address) -> Self {
        Self([(address.0 >> 64) as u32, (address.0 >> 96) as u32, (address.0 >> 32) as u32])
    }

    #[inline(always)]
    fn halves(self) -> (u64, u64) {
        let [low, high, next] = self.0.map(u64::from);
        (high << 32 | low, next)
    }

    /// The address that has these, and these lower bits.
    #[inline(always)]
    pub(super) fn with(self, lower: u32) -> Address {
        let (upper, next) = self.halves();
        Address(u128::from(upper) << 64 | u128::from(next << 32 | u64::from(lower)))
    }

    /// What is hashed of the address that has these: the lower 32 bits, mixed with a keyed hash of the others.
    #[inline(always)]
    pub(super) fn short(self, lower: u32, keys: &HashKeys) -> u32 {
        lower ^ self.mixed(keys.upper) as u32
    }

    /// A hash of these bits with two keys.
    #[inline(always)]
    pub(super) fn mixed(self, [one, other]: [u64; 2]) -> u64 {
        let (upper, next) = self.halves();
        folded(upper ^ one, next ^ other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_address_comes_back(address in any::<u128>(), lower in any::<u32>(), upper in any::<[u64; 2]>()) {
            let keys = &HashKeys { upper, ..HashKeys::COMMON };
            let short = |address: Address| Upper::of(address).short(address.0 as u32, keys);
            let address = Address(address);
            prop_assert_eq!(Upper::of(address).with(address.0 as u32), address);
            // With the same upper bits none have the same in common.
            let other = Address(address.0 >> 32 << 32 | u128::from(lower));
            prop_assert_eq!(short(other) == short(address), other == address);
        }
    }
}
