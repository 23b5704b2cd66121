// SPDX-License-Identifier: Apache-2.0
//! Addresses that clients of a pool are given while they are used, such as by DHCP: which client has which at an instant.
//!
//! It never changes. When clients get or lose addresses another takes its place ([`Stack::swap_leased`](crate::Stack::swap_leased)), so
//! that workers read it without a lock.
use crate::{Address, random::mix, slab::NONE};

/// What a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeasedAddress {
    /// Its address.
    pub address: Address,
    /// MAC of its gateway, to which all its frames go.
    pub gateway: [u8; 6],
}

/// A lease in 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    address: [u64; 2],
    gateway: [u8; 6],
    /// The client has an address.
    leased: bool,
}

/// LeasedAddresses of a pool's clients.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LeasedAddresses {
    /// By client, in the order of the engine's own.
    clients: Box<[Row]>,
    /// Clients by a hash of their addresses, each in the first free cell from there on; `NONE`: free. Half of them are free at least.
    cells: Box<[u32]>,
    count: u32,
}

impl Row {
    const NOTHING: Self = Self { address: [0; 2], gateway: [0; 6], leased: false };

    fn of(lease: LeasedAddress) -> Self {
        Self { address: halves(lease.address), gateway: lease.gateway, leased: true }
    }

    #[inline]
    fn address(&self) -> Address {
        let [upper, lower] = self.address;
        Address(u128::from(upper) << 64 | u128::from(lower))
    }
}

fn halves(address: Address) -> [u64; 2] {
    [(address.0 >> 64) as u64, address.0 as u64]
}

fn hash(address: Address) -> u64 {
    let [upper, lower] = halves(address);
    mix(lower ^ mix(upper))
}

impl LeasedAddresses {
    /// LeasedAddresses of this many clients, by client. Of two with one address the first has it.
    pub fn new(clients: usize, leased: impl IntoIterator<Item = (u32, LeasedAddress)>) -> Self {
        let cells = if clients == 0 { 0 } else { (2 * clients).next_power_of_two() };
        let (clients, cells) = (vec![Row::NOTHING; clients].into(), vec![NONE; cells].into());
        let mut all = Self { clients, cells, count: 0 };
        for (client, lease) in leased {
            all.add(client, lease);
        }
        all
    }

    fn add(&mut self, client: u32, lease: LeasedAddress) {
        if self.find(lease.address).is_some() || self.clients[client as usize].leased {
            return;
        }
        let mut at = self.first_cell(lease.address);
        while self.cells[at] != NONE {
            at = (at + 1) & (self.cells.len() - 1);
        }
        self.cells[at] = client;
        self.clients[client as usize] = Row::of(lease);
        self.count += 1;
    }

    fn first_cell(&self, address: Address) -> usize {
        hash(address) as usize & (self.cells.len() - 1)
    }

    /// Clients that have an address.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// A client's lease, if it has one.
    #[inline]
    pub fn of(&self, client: u32) -> Option<LeasedAddress> {
        let row = self.clients.get(client as usize).filter(|row| row.leased)?;
        Some(LeasedAddress { address: row.address(), gateway: row.gateway })
    }

    /// The client that has an address.
    #[inline]
    pub fn find(&self, address: Address) -> Option<u32> {
        if self.cells.is_empty() {
            return None;
        }
        let mut at = self.first_cell(address);
        loop {
            let client = self.cells[at];
            if client == NONE {
                return None;
            }
            if self.clients[client as usize].address() == address {
                return Some(client);
            }
            at = (at + 1) & (self.cells.len() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const GATEWAY: [u8; 6] = [2, 0, 0, 0, 0, 1];

    proptest! {
        #[test]
        fn clients_and_addresses_lead_to_each_other(
            clients in 0usize..40, leased in prop::collection::vec((0u32..40, 0u128..60, any::<bool>()), 0..80),
        ) {
            let address = |n: u128, v6: bool| if v6 { Address(n << 70) } else { Address::v4(n as u32) };
            let given = leased.into_iter().filter(|(client, ..)| (*client as usize) < clients);
            let given: Vec<_> = given.map(|(client, n, v6)| (client, address(n, v6))).collect();
            let lease = |(client, address): &(u32, Address)| (*client, LeasedAddress { address: *address, gateway: GATEWAY });
            let leased = LeasedAddresses::new(clients, given.iter().map(lease));
            let mut by_client = BTreeMap::new();
            for (client, address) in given {
                if !by_client.contains_key(&client) && !by_client.values().any(|other| *other == address) {
                    by_client.insert(client, address);
                }
            }
            prop_assert_eq!(leased.count() as usize, by_client.len());
            for client in 0..41 {
                let expected = by_client.get(&client).map(|address| LeasedAddress { address: *address, gateway: GATEWAY });
                prop_assert_eq!(leased.of(client), expected);
            }
            for address in (0..60).flat_map(|n| [address(n, false), address(n, true)]) {
                let expected = by_client.iter().find(|(_, other)| **other == address).map(|(client, _)| *client);
                prop_assert_eq!(leased.find(address), expected);
            }
        }
    }
}
