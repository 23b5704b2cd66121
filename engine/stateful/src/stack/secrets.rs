// SPDX-License-Identifier: Apache-2.0
//! What peers cannot know: keys of the hash that finds flows, and of initial sequence numbers. All come from one seed.
//!
//! The hash multiplies what it hashes, mixed with keys, and folds the product: a sender that does not know them cannot choose addresses
//! and ports that lie together in the table.
use siphasher::sip::SipHasher13;

use super::Tuple;

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

/// All of a stack.
#[derive(Debug)]
pub(super) struct Secrets {
    pub(super) hash: HashKeys,
    /// Seed of the rate limit of challenge ACKs.
    pub(super) challenges: u64,
    /// A pseudo-random function of a connection's endpoints (RFC 6528 section 3).
    sequence: SipHasher13,
}

impl Secrets {
    /// Equal seeds have equal secrets.
    pub(super) fn new(seed: u128) -> Self {
        let keyed = SipHasher13::new_with_keys(seed as u64, (seed >> 64) as u64);
        // No tuple is one byte long.
        let nth = |n: u8| keyed.hash(&[n]);
        let hash = HashKeys { tuple: [nth(0), nth(1)], upper: [nth(2), nth(3)] };
        Self { hash, challenges: nth(4), sequence: keyed }
    }

    /// Where the sequence numbers of a connection begin, but for the clock.
    #[inline]
    pub(super) fn sequence(&self, tuple: &Tuple) -> u32 {
        let (local, remote) = (tuple.local.0, tuple.remote.0);
        let ports = u32::from(tuple.local_port) << 16 | u32::from(tuple.remote_port);
        // Both are of one family.
        let hash = if tuple.local.is_v6() {
            let mut bytes = [0; 36];
            bytes[..16].copy_from_slice(&local.to_le_bytes());
            bytes[16..32].copy_from_slice(&remote.to_le_bytes());
            bytes[32..].copy_from_slice(&ports.to_le_bytes());
            self.sequence.hash(&bytes)
        } else {
            let mut bytes = [0; 12];
            bytes[..4].copy_from_slice(&(remote as u32).to_le_bytes());
            bytes[4..8].copy_from_slice(&(local as u32).to_le_bytes());
            bytes[8..].copy_from_slice(&ports.to_le_bytes());
            self.sequence.hash(&bytes)
        };
        hash as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

    #[test]
    fn numbers_of_connections_follow_from_the_seed_and_from_nothing_else() {
        let tuple = |n: u32, v6: bool| {
            let address = |n: u32| if v6 { Address(1 << 120 | u128::from(n)) } else { Address::v4(n) };
            Tuple { local: address(n), remote: address(9), local_port: 80, remote_port: 1024 }
        };
        for v6 in [false, true] {
            let numbers = |seed| (0..100).map(|n| Secrets::new(seed).sequence(&tuple(n, v6))).collect::<Vec<_>>();
            assert_eq!(numbers(7), numbers(7));
            for other in [8, 7 | 1 << 64] {
                assert!(numbers(7).iter().zip(numbers(other)).all(|(one, other)| *one != other), "both halves count");
            }
            let mut all = numbers(7);
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 100);
        }
    }
}
