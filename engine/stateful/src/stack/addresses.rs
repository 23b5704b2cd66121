// SPDX-License-Identifier: Apache-2.0
//! What a flow has of its addresses in its first cache line, and for IPv6 beside it. Of IPv6 the upper 96 bits lie beside, and their
//! hash is in the lower 32 bits that the flow has: so these find it, and the upper ones give back the address.
use super::secrets::{HashKeys, folded};
use crate::Address;

/// The upper 96 bits of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Upper([u32; 3]);

impl Upper {
    /// Of no address.
    pub(super) const NOTHING: Self = Self([0; 3]);

    /// An address's.
    #[inline]
    pub(super) fn of(address: Address) -> Self {
        Self([(address.0 >> 96) as u32, (address.0 >> 64) as u32, (address.0 >> 32) as u32])
    }

    #[inline]
    fn hash(self, keys: &HashKeys) -> u32 {
        let [first, second, third] = self.0.map(u64::from);
        let [one, other] = keys.upper;
        folded((first << 32 | second) ^ one, third ^ other) as u32
    }

    /// The address of IPv6 that has these, and in a flow is that.
    #[inline]
    pub(super) fn with(self, short: u32, keys: &HashKeys) -> Address {
        let [first, second, third] = self.0.map(u128::from);
        Address(first << 96 | second << 64 | third << 32 | u128::from(short ^ self.hash(keys)))
    }
}

/// What a flow has of an address.
#[inline]
pub(super) fn short(address: Address, keys: &HashKeys) -> u32 {
    address.as_v4().unwrap_or_else(|| address.0 as u32 ^ Upper::of(address).hash(keys))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_address_comes_back(address in any::<u128>(), lower in any::<u32>(), upper in any::<[u64; 2]>()) {
            let keys = &HashKeys { upper, ..HashKeys::COMMON };
            let address = Address(address);
            prop_assume!(address.is_v6());
            prop_assert_eq!(Upper::of(address).with(short(address, keys), keys), address);
            // With the same upper bits none have the same in common.
            let other = Address(address.0 >> 32 << 32 | u128::from(lower));
            prop_assert_eq!(short(other, keys) == short(address, keys), other == address);
        }
    }

    #[test]
    fn of_ipv4_all_is_in_the_flow() {
        assert_eq!(short(Address::v4(0x0102_0304), &HashKeys::COMMON), 0x0102_0304);
    }
}
