// SPDX-License-Identifier: Apache-2.0
//! Ranges of addresses, in which order they are taken, and the MACs and source ports of clients in them.
//!
//! A client or server is known by its *offset*: how far its address is from the pool's first. The order says which offset
//! is the n-th. All of it is computed from n alone, so any split over workers finds the same.
//!
//! Engines that share a run have a *part* of a pool each: of P engines, engine k the addresses at offsets k, k + P, k + 2 P, ...,
//! whatever the order, so that the owner of an address follows from the address alone. The order is then that of the part.
//!
//! A *leased* pool has no range: its clients are numbered, and each has the address that it was given, or none ([`LeasedAddresses`]). The client with
//! a number stands for the address at that offset, and an engine's part is of its clients.
use std::sync::Arc;

use crate::{
    Address,
    access::Access,
    leased::{LeasedAddress, LeasedAddresses},
    random::mix,
    tunnel::Tunnels,
};

/// Addresses of one family, first to last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    first: Address,
    /// The last address's offset: a length of 2^128 fits in no integer.
    last_offset: u128,
    order: Order,
    part: Part,
    /// Index within the part of its last address, from 0.
    part_last: u128,
    /// What the engine's own clients have, if they have no range.
    leased: Option<Arc<LeasedAddresses>>,
    /// MAC of the client with offset 0; that of offset n is n higher. None: the port's own for all.
    pub first_mac: Option<[u8; 6]>,
    /// Source ports of its clients.
    pub source_ports: SourcePorts,
    /// Which its clients' packets pass through, each through its own; none: they pass as they are.
    pub tunnels: Option<Tunnels>,
    /// Their VLAN and gateway.
    pub access: Access,
    /// Whether addresses may be multicast: frames to one go to the group's MAC, and ports of its templates take frames to and from one.
    pub allow_multicast: bool,
}

/// Order in which addresses are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// From the first to the last, and again.
    #[default]
    Sequential,
    /// Shuffled: each once, and again in the same order. Equal seeds shuffle pools of equal length equally.
    Random {
        /// Seed of the shuffle.
        seed: u64,
    },
}

/// Which of a pool's addresses are an engine's own: those at offsets `index`, `index + of`, `index + 2 of`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of the part, below `of`.
    pub index: u32,
    /// Number of parts; at least 1.
    pub of: u32,
}

impl Part {
    /// The whole pool.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Whether an offset is in the part.
    #[inline]
    fn has(self, offset: u128) -> bool {
        self.of == 1 || offset % u128::from(self.of) == u128::from(self.index)
    }
}

/// A pool and how often it is taken among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WeightedPool {
    /// Index in `Scenario::pools`.
    pub pool: usize,
    /// Weight; at least 1.
    pub weight: u32,
}

/// Why there is no such pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// First and last address are of different families.
    #[error("first and last are of different families; give both as IPv4 or both as IPv6")]
    Families,
    /// The last address is before the first.
    #[error("last is before first; swap them")]
    Reversed,
}

impl Pool {
    /// The addresses from `first` to `last`, both included.
    ///
    /// # Errors
    /// If they are of two families or in the wrong order.
    pub fn new(first: Address, last: Address, order: Order) -> Result<Self, PoolError> {
        if first.is_v6() != last.is_v6() {
            return Err(PoolError::Families);
        }
        let last_offset = last.0.checked_sub(first.0).ok_or(PoolError::Reversed)?;
        let (part, part_last) = (Part::WHOLE, last_offset);
        let (first_mac, source_ports, tunnels, allow_multicast) = (None, SourcePorts::default(), None, false);
        let access = Access::default();
        Ok(Self {
            first,
            last_offset,
            order,
            part,
            part_last,
            leased: None,
            first_mac,
            source_ports,
            tunnels,
            access,
            allow_multicast,
        })
    }

    /// A leased pool of this many clients, which have none yet, over IPv6 or IPv4; the first has this MAC.
    pub fn leased(v6: bool, clients: u32, order: Order, first_mac: [u8; 6]) -> Self {
        // A host's address, which says the family and is never used.
        let first = if v6 { Address(0x2001_0db8 << 96) } else { Address::v4(0x0a00_0000) };
        let last_offset = u128::from(clients.saturating_sub(1));
        Self {
            first,
            last_offset,
            order,
            part: Part::WHOLE,
            part_last: last_offset,
            leased: Some(Arc::default()),
            first_mac: Some(first_mac),
            source_ports: SourcePorts::default(),
            tunnels: None,
            access: Access::default(),
            allow_multicast: false,
        }
    }

    /// Whether it is a leased pool.
    #[inline]
    pub fn is_leased(&self) -> bool {
        self.leased.is_some()
    }

    /// Its clients have these leased addresses from now on. What was before is given back; without a change, if it is no leased pool.
    pub fn swap_leased(&mut self, leased: &mut Arc<LeasedAddresses>) {
        if let Some(own) = &mut self.leased {
            core::mem::swap(own, leased);
        }
    }

    /// The lease of the client at an offset, if it has one; none as well of a range.
    #[inline]
    pub fn leased_address(&self, offset: u128) -> Option<LeasedAddress> {
        self.leased.as_ref()?.of(self.place_of_own(offset))
    }

    /// The place of an own offset among the engine's own.
    #[inline]
    fn place_of_own(&self, offset: u128) -> u32 {
        let Part { index, of } = self.part;
        let beyond = (offset as u64).wrapping_sub(index.into());
        if of == 1 { beyond as u32 } else { (beyond / u64::from(of)) as u32 }
    }

    /// The own offset of the client that has a leased address.
    #[inline(never)]
    fn holder(&self, leased: &LeasedAddresses, address: Address) -> Option<u128> {
        let Part { index, of } = self.part;
        Some(u128::from(leased.find(address)?) * u128::from(of) + u128::from(index))
    }

    /// The first and the last address that it may have.
    pub fn span(&self) -> (Address, Address) {
        match (&self.leased, self.is_v6()) {
            (None, _) => (self.first, self.address(self.last_offset)),
            (Some(_), false) => (Address::v4(0), Address::v4(u32::MAX)),
            (Some(_), true) => (Address(0), Address(u128::MAX)),
        }
    }

    /// Whether any of its addresses is multicast.
    pub fn has_groups(&self) -> bool {
        const V4_GROUPS: [u128; 2] = [Address::v4(0xe000_0000).0, Address::v4(0xefff_ffff).0];
        let [first, last] = [self.first, self.address(self.last_offset)];
        let over_v4_groups = !self.is_v6() && first.0 <= V4_GROUPS[1] && last.0 >= V4_GROUPS[0];
        over_v4_groups || last.group_mac().is_some()
    }

    /// Whether all of its addresses are multicast.
    pub fn is_of_groups(&self) -> bool {
        self.first.group_mac().and(self.address(self.last_offset).group_mac()).is_some()
    }

    /// The pool, of which a part is an engine's own.
    #[must_use]
    pub fn part_of(&self, part: Part) -> Self {
        let behind = self.last_offset.saturating_sub(part.index.into());
        Self { part, part_last: behind / u128::from(part.of), ..self.clone() }
    }

    /// The offset of the first of the engine's own addresses, if it has any.
    pub fn first_own(&self) -> Option<u128> {
        Some(self.part.index.into()).filter(|first| *first <= self.last_offset)
    }

    /// The engine's part of the addresses.
    #[inline]
    pub fn part(&self) -> Part {
        self.part
    }

    /// The number of the engine's own addresses less one, if it has any.
    #[inline]
    pub fn part_last(&self) -> u128 {
        self.part_last
    }

    /// Whether an address is one of the engine's own.
    #[inline]
    pub fn owns(&self, address: Address) -> bool {
        self.contains(address).is_some_and(|offset| self.part.has(offset))
    }

    /// The offset of the last address: the number of addresses less one.
    #[inline]
    pub fn last_offset(&self) -> u128 {
        self.last_offset
    }

    /// Whether its addresses are of IPv6.
    pub fn is_v6(&self) -> bool {
        self.first.is_v6()
    }

    /// The address of the client at an offset now; none: nothing is leased to it.
    #[inline]
    pub fn client_address(&self, offset: u128) -> Option<Address> {
        if self.is_leased() {
            self.leased_address(offset).map(|lease| lease.address)
        } else {
            Some(self.address(offset))
        }
    }

    /// The address at an offset of a range, which is not beyond the last.
    #[inline]
    pub fn address(&self, offset: u128) -> Address {
        debug_assert!(offset <= self.last_offset, "beyond the pool's end");
        Address(self.first.0 + offset)
    }

    /// An address's offset, if it is in the pool; in a leased one, if it is an own client's now.
    #[inline]
    pub fn contains(&self, address: Address) -> Option<u128> {
        if let Some(leased) = &self.leased {
            return self.holder(leased, address);
        }
        address.0.checked_sub(self.first.0).filter(|offset| *offset <= self.last_offset)
    }

    /// The addresses that are answered for on the clients' link: theirs, or those of the near ends of their tunnels, of which an
    /// engine has the same part, if they are a multiple of the parts.
    pub fn on_clients_link(&self) -> Self {
        let near = self.tunnels.and_then(|t| Self::new(t.local, t.last_near_end(), Order::Sequential).ok());
        near.map_or_else(|| self.clone(), |near| Self { access: self.access, ..near.part_of(self.part) })
    }

    /// Whether anything stands around its clients' packets that does not around others of their port.
    pub fn has_envelope(&self) -> bool {
        self.tunnels.is_some() || self.access.tags.is_some() || self.access.gateway.is_some()
    }

    /// Whether both pools have a common address. Of leased ones that is not known: MACs keep them apart.
    pub fn overlaps(&self, other: &Self) -> bool {
        let ranges = !self.is_leased() && !other.is_leased();
        ranges && (self.contains(other.first).is_some() || other.contains(self.first).is_some())
    }

    /// The position in the round of the n-th own one, and which round it is.
    #[inline]
    pub(crate) fn place(&self, n: u64) -> (u64, u64) {
        match u64::try_from(self.part_last).ok().and_then(|last| last.checked_add(1)) {
            Some(len) => (n % len, n / len),
            None => (n, 0),
        }
    }

    /// The offset of the n-th address, n = 0, 1, 2, ..., of the whole pool.
    #[inline]
    pub fn nth(&self, n: u64) -> u128 {
        self.at(match u64::try_from(self.last_offset).ok().and_then(|last| last.checked_add(1)) {
            Some(len) => n % len,
            None => n,
        })
    }

    /// The offset of the address at a position of the whole pool's round.
    #[inline]
    fn at(&self, position: u64) -> u128 {
        match self.order {
            Order::Sequential => position.into(),
            Order::Random { seed } => shuffled(position.into(), self.last_offset, seed),
        }
    }

    /// The offset of the engine's own address at a position of its round (see `place`). Parts are shuffled each in its own way.
    #[inline]
    pub(crate) fn own_at(&self, position: u64) -> u128 {
        let Part { index, of } = self.part;
        if of == 1 {
            return self.at(position);
        }
        let own = match self.order {
            Order::Sequential => position.into(),
            Order::Random { seed } => shuffled(position.into(), self.part_last, mix(seed ^ u64::from(index))),
        };
        u128::from(index) + own * u128::from(of)
    }

    /// Whether the own client that has an address has a MAC; none if there is none, or its MAC is the port's.
    #[inline]
    pub fn is_mac_of(&self, mac: [u8; 6], address: Address) -> Option<bool> {
        let offset = self.contains(address).filter(|offset| self.part.has(*offset))?;
        self.mac(offset).map(|own| own == mac)
    }

    /// Whether a client has a MAC.
    pub fn has_mac(&self, mac: [u8; 6]) -> bool {
        let number = |[a, b, c, d, e, f]: [u8; 6]| u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let ahead = |first| number(mac).wrapping_sub(number(first)) & (u64::MAX >> 16);
        self.first_mac.is_some_and(|first| u128::from(ahead(first)) <= self.last_offset)
    }

    /// The MAC of the client at an offset; around at 2^48.
    #[inline]
    pub fn mac(&self, offset: u128) -> Option<[u8; 6]> {
        let [a, b, c, d, e, f] = self.first_mac?;
        let mac = u64::from_be_bytes([0, 0, a, b, c, d, e, f]).wrapping_add(offset as u64).to_be_bytes();
        Some([mac[2], mac[3], mac[4], mac[5], mac[6], mac[7]])
    }
}

/// Which source ports a client takes: from its start on, one after the other from `lowest` to `highest` and around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePorts {
    /// Port of a client's first flow.
    pub start: Start,
    /// Lowest port; not 0.
    pub lowest: u16,
    /// Highest port; not below the lowest.
    pub highest: u16,
}

/// The port of a client's first flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At a hash of the client's offset, so that clients differ.
    Hashed,
    /// The client at offset n at `first + n * step` modulo 65536; what is not between lowest and highest is moved there.
    Stepped {
        /// First port of the address at offset 0.
        first: u16,
        /// Difference from one offset to the next.
        step: u16,
    },
}

/// Ports that are not well known (RFC 6335 section 6).
impl Default for SourcePorts {
    fn default() -> Self {
        Self { start: Start::Hashed, lowest: 1024, highest: 65_535 }
    }
}

impl SourcePorts {
    /// Number of ports of a client.
    #[inline]
    pub fn count(&self) -> u32 {
        u32::from(self.highest) - u32::from(self.lowest) + 1
    }

    /// The port of the first flow of the client at an offset.
    ///
    /// A start outside is moved by whole multiples of `count`, counted from `lowest` up through 65535 and on from 0: with
    /// 1024..=65535, 636 becomes 1660. With first 41668, step 17405 and 1024..=63999 clients start where those of TRex's
    /// simulator do (636 becomes 3196, 65535 becomes 2559), save one offset of 65,536 (1024, which it makes 3584).
    #[inline]
    pub fn start(&self, offset: u128) -> u16 {
        self.port(offset, 0)
    }

    /// The port at an offset (less than `count`) from a client's first.
    #[inline]
    pub fn port(&self, offset: u128, after: u32) -> u16 {
        let above = match self.start {
            Start::Hashed => {
                // That of nearly all, known beforehand.
                const NEAR: u64 = mix(GOLDEN);
                let far = (offset >> 64) as u64;
                mix(offset as u64 ^ if far == 0 { NEAR } else { mix(far ^ GOLDEN) }) as u16
            }
            Start::Stepped { first, step } => {
                first.wrapping_add((offset as u16).wrapping_mul(step)).wrapping_sub(self.lowest)
            }
        };
        self.lowest + ((u32::from(above) + after) % self.count()) as u16
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The position of an index in a shuffle of 0..=last: a Feistel network over the next larger even number of bits, repeated until it
/// comes out in range (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002). At most 4 times on average.
fn shuffled(position: u128, last: u128, seed: u64) -> u128 {
    let half = (u128::BITS - last.leading_zeros()).div_ceil(2).max(1);
    let mask = u64::MAX >> (u64::BITS - half);
    let mut value = position;
    loop {
        let (mut left, mut right) = ((value >> half) as u64 & mask, value as u64 & mask);
        for round in 0..4 {
            let key = seed.wrapping_add(GOLDEN.wrapping_mul(round + 1));
            (left, right) = (right, left ^ mix(mix(key) ^ right) & mask);
        }
        value = u128::from(left) << half | u128::from(right);
        if value <= last {
            return value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::IpAddr;
    use proptest::prelude::*;

    fn pool(first: u128, last: u128, order: Order) -> Pool {
        Pool::new(Address(first), Address(last), order).unwrap()
    }

    #[test]
    fn ranges_of_two_families_or_backwards_are_refused() {
        let (low, high) = (Address::v4(1), Address::v4(2));
        assert_eq!(Pool::new(low, Address(1 << 100), Order::Sequential), Err(PoolError::Families));
        assert_eq!(Pool::new(high, low, Order::Sequential), Err(PoolError::Reversed));
    }

    #[test]
    fn the_whole_of_ipv6_is_a_pool() {
        for order in [Order::Sequential, Order::Random { seed: 1 }] {
            let all = pool(0, u128::MAX, order);
            assert_eq!(all.contains(Address(u128::MAX)), Some(u128::MAX));
            assert_eq!(all.contains(all.address(all.nth(u64::MAX))), Some(all.nth(u64::MAX)));
        }
        assert_eq!(pool(0, u128::MAX, Order::Sequential).nth(u64::MAX), u128::from(u64::MAX));
        let part = pool(0, u128::MAX, Order::Sequential).part_of(Part { index: 2, of: 3 });
        assert_eq!(part.own_at(part.place(u64::MAX).0), u128::from(u64::MAX) * 3 + 2);
        assert!(part.owns(Address(u128::MAX - 1)) && !part.owns(Address(u128::MAX)));
    }

    /// First flows of TRex's simulator, clients 0.. of one pool (its shared_port and udp_mix examples).
    #[test]
    fn clients_start_at_the_ports_that_were_captured() {
        let captured = [
            41668, 59073, 10942, 28347, 45752, 63157, 15026, 32431, 49836, 1705, 19110, 36515, 53920, 5789, 23194,
            40599, 58004, 9873, 27278, 44683, 62088, 13957, 31362, 48767, 3196, 18041, 35446, 52851, 4720, 22125,
        ];
        let start = Start::Stepped { first: 41668, step: 17405 };
        let ports = SourcePorts { start, lowest: 1024, highest: 63_999 };
        assert_eq!(captured, std::array::from_fn(|n| ports.start(n as u128)));
        assert_eq!(ports.port(0, 1), 41669);
        let ports = SourcePorts { start, ..SourcePorts::default() };
        assert_eq!((ports.start(23), ports.start(24)), (48767, 1660));
    }

    #[test]
    fn groups_have_the_macs_of_the_rfcs_and_hosts_none() {
        let mac = |address: &str| Address::from(address.parse::<IpAddr>().unwrap()).group_mac();
        assert_eq!(mac("239.129.2.3"), Some([0x01, 0x00, 0x5e, 1, 2, 3]));
        assert_eq!(mac("ff02::10.1.2.3"), Some([0x33, 0x33, 10, 1, 2, 3]));
        for host in ["223.255.255.255", "240.0.0.0", "255.255.255.255", "fe80::1", "::ffff:1.2.3.4", "::"] {
            assert_eq!(mac(host), None, "{host}");
        }
    }

    #[test]
    fn a_pool_has_groups_wherever_they_are_in_it() {
        let pool = |first: &str, last: &str| {
            let [first, last] = [first, last].map(|text| Address::from(text.parse::<IpAddr>().unwrap()));
            Pool::new(first, last, Order::Sequential).unwrap()
        };
        for (first, last, any, all) in [
            ("10.0.0.1", "223.255.255.255", false, false),
            ("10.0.0.1", "224.0.0.0", true, false),
            ("10.0.0.1", "255.0.0.0", true, false),
            ("224.0.0.0", "239.255.255.255", true, true),
            ("239.255.255.255", "240.0.0.0", true, false),
            ("240.0.0.0", "250.0.0.0", false, false),
            ("fe00::", "feff::", false, false),
            ("fe00::", "ff02::1", true, false),
            ("ff02::16.0.0.1", "ff02::16.0.0.255", true, true),
        ] {
            let pool = pool(first, last);
            assert_eq!((pool.has_groups(), pool.is_of_groups()), (any, all), "{first} to {last}");
        }
    }

    #[test]
    fn macs_count_up_with_a_carry() {
        let mut pool = pool(0, 1 << 40, Order::Sequential);
        assert_eq!(pool.mac(3), None);
        pool.first_mac = Some([2, 0, 0, 0, 0, 0xff]);
        assert_eq!(pool.mac(0x101), Some([2, 0, 0, 0, 2, 0]));
        let has = [[2, 0, 0, 0, 2, 0], [2, 0, 0, 0, 0, 0xff], [2, 0, 0, 0, 0, 0xfe], [4, 0, 0, 0, 0, 0]];
        assert_eq!(has.map(|mac| pool.has_mac(mac)), [true, true, false, false]);
        pool.first_mac = Some([0xff; 6]);
        assert_eq!(pool.mac(1), Some([0; 6]));
    }

    #[test]
    fn a_leased_pool_has_what_the_engines_own_clients_have_now() {
        let v4 = |n: u32| Address::v4(n);
        let whole = Pool::leased(false, 10, Order::Sequential, [2, 0, 0, 0, 0, 0xfe]);
        // Clients 1, 4 and 7.
        let mut part = whole.part_of(Part { index: 1, of: 3 });
        assert_eq!((0..3).map(|n| part.own_at(n)).collect::<Vec<_>>(), [1, 4, 7]);
        assert_eq!((part.contains(v4(5)), part.client_address(4), part.owns(v4(0x0a00_0000))), (None, None, false));
        let has = |client, n| (client, LeasedAddress { address: v4(n), gateway: [4; 6] });
        let mut given = Arc::new(LeasedAddresses::new(3, [has(1, 5), has(2, 0xe000_0001)]));
        part.swap_leased(&mut given);
        assert_eq!(given.count(), 0, "what was before");
        assert_eq!(
            (part.contains(v4(5)), part.contains(v4(0xe000_0001)), part.contains(v4(6))),
            (Some(4), Some(7), None)
        );
        assert_eq!((part.client_address(4), part.client_address(1), part.owns(v4(5))), (Some(v4(5)), None, true));
        let is_mac_of = |last: u8, n| part.is_mac_of([2, 0, 0, 0, 1, last], v4(n));
        assert_eq!((is_mac_of(2, 5), is_mac_of(3, 5), is_mac_of(2, 6)), (Some(true), Some(false), None));
        assert!(!part.overlaps(&part) && !part.has_groups() && !part.is_of_groups());
        assert_eq!(
            (whole.span(), Pool::leased(true, 1, Order::Sequential, [2; 6]).is_v6()),
            ((v4(0), v4(u32::MAX)), true)
        );
    }

    proptest! {
        #[test]
        fn each_round_takes_every_address_once(first in 0u128..1 << 90, len in 1u64..600, seed: u64, round in 0u64..9) {
            for order in [Order::Sequential, Order::Random { seed }] {
                let pool = pool(first, first + u128::from(len) - 1, order);
                let mut all: Vec<_> = (0..len).map(|n| pool.address(pool.nth(round * len + n)).0 - first).collect();
                all.sort_unstable();
                prop_assert_eq!(all, (0..u128::from(len)).collect::<Vec<_>>());
                prop_assert_eq!(pool.nth(round * len), pool.nth(0));
            }
        }

        #[test]
        fn shuffles_of_any_length_stay_in_range_and_differ(last: u128, by in 0u32..128, a: u64, b: u64, seed: u64) {
            let last = last >> by;
            let (a, b) = (u128::from(a).min(last), u128::from(b).min(last));
            let (x, y) = (shuffled(a, last, seed), shuffled(b, last, seed));
            prop_assert!(x <= last && y <= last);
            prop_assert_eq!(a == b, x == y);
        }

        #[test]
        fn what_is_contained_has_its_offset_and_nothing_else_is(first: u128, len: u128, offset: u128, any: u128) {
            let last = first.saturating_add(len);
            let pool = pool(first, last, Order::Sequential);
            let offset = if last - first == u128::MAX { offset } else { offset % (last - first + 1) };
            prop_assert_eq!(pool.contains(pool.address(offset)), Some(offset));
            prop_assert_eq!(pool.contains(Address(any)).is_some(), (first..=last).contains(&any));
        }

        #[test]
        fn a_client_takes_every_port_of_the_range_once(
            a in 1u16.., b in 1u16.., first: u16, step: u16, stepped: bool, offset: u128,
        ) {
            let start = if stepped { Start::Stepped { first, step } } else { Start::Hashed };
            let ports = SourcePorts { start, lowest: a.min(b), highest: a.max(b) };
            let range = ports.lowest..=ports.highest;
            let mut seen = vec![false; 65_536];
            for after in 0..ports.count() {
                let port = ports.port(offset, after);
                prop_assert!(range.contains(&port) && !std::mem::replace(&mut seen[usize::from(port)], true));
            }
            let stated = first.wrapping_add((offset as u16).wrapping_mul(step));
            prop_assert!(!stepped || !range.contains(&stated) || ports.start(offset) == stated);
        }

        #[test]
        fn parts_have_each_address_once_and_take_their_own_in_turn(
            first in 0u128..1 << 90, len in 1u64..300, of in 1u32..20, seed: u64, round in 0u64..9,
        ) {
            for order in [Order::Sequential, Order::Random { seed }] {
                let whole = pool(first, first + u128::from(len) - 1, order);
                let mut owners = vec![0; len as usize];
                for index in 0..of {
                    let part = whole.part_of(Part { index, of });
                    if part.first_own().is_none() {
                        prop_assert!((0..u128::from(len)).all(|offset| !part.owns(part.address(offset))));
                        prop_assert!(u64::from(index) >= len);
                        continue;
                    }
                    let own = part.part_last() as u64 + 1;
                    let mut taken: Vec<_> = (0..own).map(|n| part.own_at(part.place(round * own + n).0)).collect();
                    taken.sort_unstable();
                    prop_assert!(taken.iter().map(|offset| *offset as u64).eq((u64::from(index)..len).step_by(of as usize)));
                    for offset in 0..u128::from(len) {
                        let owns = part.owns(part.address(offset));
                        prop_assert_eq!(owns, taken.binary_search(&offset).is_ok());
                        owners[offset as usize] += u32::from(owns);
                    }
                    // A client of a pool's servers connects to all of them.
                    prop_assert_eq!(part.nth(round), whole.nth(round));
                }
                prop_assert!(owners.iter().all(|owners| *owners == 1));
            }
        }

        #[test]
        fn pools_overlap_if_one_has_the_others_end(a in 0u128..30, b in 0u128..30, c in 0u128..30, d in 0u128..30) {
            let one = pool(a.min(b), a.max(b), Order::Sequential);
            let two = pool(c.min(d), c.max(d), Order::Sequential);
            prop_assert_eq!(one.overlaps(&two), (0..30).any(|n| one.contains(Address(n)).and(two.contains(Address(n))).is_some()));
        }
    }
}
