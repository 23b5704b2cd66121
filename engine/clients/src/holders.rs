// SPDX-License-Identifier: Apache-2.0
//! Which client has this address? Clients by hashes of the addresses that they have, or probe for.
use spate_stateful::{
    slab::{self, SlotIndex},
    table::Table,
};

/// Index of a client in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClientIndex(u32);

impl SlotIndex for ClientIndex {
    const NONE: Self = Self(slab::NONE);

    #[inline]
    fn new(number: u32) -> Self {
        Self(number)
    }

    #[inline]
    fn position(self) -> usize {
        self.0 as usize
    }
}

/// From hashes of addresses to clients.
#[derive(Debug)]
pub(crate) struct Holders(Table<ClientIndex>);

impl Holders {
    /// For up to `count` clients.
    pub(crate) fn new(count: usize) -> Self {
        Self(Table::new(count, count / 2))
    }

    /// The client with this hash of which `is` holds.
    #[inline]
    pub(crate) fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.0.find(hash, |client| is(client.0)).map(|client| client.0)
    }

    /// Adds a client that is not there.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, client: u32) {
        self.0.insert(hash, ClientIndex(client));
    }

    /// Removes a client. False if it is not there.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u32, client: u32) -> bool {
        self.0.remove(hash, ClientIndex(client))
    }
}
