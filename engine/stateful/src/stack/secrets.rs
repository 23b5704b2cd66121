// SPDX-License-Identifier: Apache-2.0
//! What peers cannot know: keys of the hash that finds flows, and of initial sequence numbers. All come from one seed.
use siphasher::sip::SipHasher13;

use super::{
    Tuple,
    addresses::Upper,
    hash_keys::HashKeys,
    key::{both, both_ports},
};

/// All of a stack.
#[derive(Debug)]
pub(super) struct Secrets {
    pub(super) hash: HashKeys,
    /// Seed of the rate limit of challenge ACKs.
    pub(super) challenges: u64,
    /// A pseudo-random function of a connection's endpoints (RFC 6528 section 3).
    sequence: SipHasher13,
    /// Keys of the upper bits of its local and its remote IPv6 address.
    sequence_upper: [[u64; 2]; 2],
}

impl Secrets {
    /// Equal seeds have equal secrets.
    pub(super) fn new(seed: u128) -> Self {
        let keyed = SipHasher13::new_with_keys(seed as u64, (seed >> 64) as u64);
        // No tuple is one byte long.
        let nth = |n: u8| keyed.hash(&[n]);
        let hash = HashKeys { tuple: [nth(0), nth(1)], upper: [nth(2), nth(3)] };
        let sequence_upper = [[nth(5), nth(6)], [nth(7), nth(8)]];
        Self { hash, challenges: nth(4), sequence: keyed, sequence_upper }
    }

    /// Where the sequence numbers of a connection begin, but for the clock.
    ///
    /// The upper bits of IPv6 addresses, 192, go through a keyed hash of 64 bits before the pseudo-random function: two pairs of addresses
    /// that have the same cannot be found without its keys, so the whole is a pseudo-random function as well, of 20 bytes instead of 36.
    #[inline]
    pub(super) fn sequence(&self, tuple: &Tuple) -> u32 {
        let addresses = both(tuple.local.0 as u32, tuple.remote.0 as u32);
        let ports = both_ports(tuple.local_port, tuple.remote_port);
        // Both are of one family.
        let hash = if tuple.local.is_v6() {
            let [local, remote] = self.sequence_upper;
            let upper = Upper::of(tuple.local).mixed(local).wrapping_add(Upper::of(tuple.remote).mixed(remote));
            let mut bytes = [0; 20];
            bytes[..8].copy_from_slice(&addresses.to_le_bytes());
            bytes[8..16].copy_from_slice(&upper.to_le_bytes());
            bytes[16..].copy_from_slice(&ports.to_le_bytes());
            self.sequence.hash(&bytes)
        } else {
            let mut bytes = [0; 12];
            bytes[..8].copy_from_slice(&addresses.to_le_bytes());
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

    #[test]
    fn every_word_of_both_ipv6_addresses_counts() {
        let secrets = Secrets::new(7);
        let number = |local: u128, remote: u128| {
            let address = |bits: u128| Address(1 << 125 | bits);
            let (local, remote) = (address(local), address(remote));
            secrets.sequence(&Tuple { local, remote, local_port: 80, remote_port: 1024 })
        };
        for word in [0, 32, 64, 96] {
            let bit = 1 << word;
            let numbers = [number(0, 0), number(bit, 0), number(0, bit), number(bit, bit)];
            let differ = numbers.iter().enumerate().all(|(n, one)| !numbers[..n].contains(one));
            assert!(differ, "word at bit {word}: {numbers:x?}");
        }
    }
}
