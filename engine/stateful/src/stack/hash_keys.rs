// SPDX-License-Identifier: Apache-2.0
//! The keyed hash that finds flows.
//!
//! It multiplies what it hashes, mixed with keys, and folds the product: a sender that does not know them cannot choose addresses and
//! ports that lie together in the table.

/// Keys of the hash of a flow's tuple.
#[derive(Clone, Copy, Debug)]
pub(super) struct HashKeys {
    /// Keys of addresses, and of ports.
    pub(super) tuple: [u64; 2],
    /// Keys of the upper bits of IPv6 addresses.
    pub(super) upper: [u64; 2],
}

impl HashKeys {
    /// Keys that are the same for all, at both ends of a flow: by their hash it is decided which flows are recorded.
    pub(super) const COMMON: Self = Self {
        tuple: [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03],
        upper: [0x2545_f491_4f6c_dd1d, 0x9fb2_1c65_1e98_df25],
    };
}

/// The product of two numbers, its halves on one another.
#[inline]
pub(super) fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a).wrapping_mul(u128::from(b));
    (product >> 64) as u64 ^ product as u64
}
