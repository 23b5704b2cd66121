// SPDX-License-Identifier: Apache-2.0
//! Flows of clients with leased addresses: which client each is of, and what becomes of it when leased addresses change.
use std::sync::Arc;

use super::{Stack, Tuple, side_index::TemplateIndex};
use crate::{
    Scenario,
    counters::Count,
    flow::{FlowIndex, State, flags},
    leased::{LeasedAddress, LeasedAddresses},
    slab::NONE,
};

/// A client of a leased pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeasedClient {
    /// Index of the pool, or `NONE`: it is no such client.
    pub(super) pool: u32,
    /// The client's offset.
    pub(super) offset: u32,
}

impl LeasedClient {
    /// Another client, or a server.
    pub(super) const NONE: Self = Self { pool: NONE, offset: 0 };
}

fn any(scenario: &Scenario) -> bool {
    let clients = scenario.templates.iter().filter(|template| template.client.is_some());
    clients.flat_map(|template| &template.clients).any(|weighted| scenario.pools[weighted.pool].is_leased())
}

/// For this many flows; none if no client has a leased address.
pub(super) fn slots(scenario: &Scenario, flows: usize) -> Box<[LeasedClient]> {
    vec![LeasedClient::NONE; if any(scenario) { flows } else { 0 }].into()
}

/// Bytes that they take.
pub(super) fn bytes(scenario: &Scenario, flows: usize) -> usize {
    if any(scenario) { flows * size_of::<LeasedClient>() } else { 0 }
}

impl Stack {
    /// Clients of a leased pool have these from now on. Flows of addresses that are lost end without a packet, and others follow their
    /// gateways, as soon as [`Stack::redirect`] has come to them. What was before is given back.
    pub fn swap_leased(&mut self, pool: usize, leased: &mut Arc<LeasedAddresses>) {
        self.pools[pool].swap_leased(leased);
        self.redirected = 0;
    }

    /// The client of a flow, if its address is leased.
    #[inline]
    pub(super) fn leased_client(&self, index: FlowIndex) -> Option<LeasedClient> {
        self.leased.get(index.position()).copied().filter(|client| client.pool != NONE)
    }

    /// The client of a template that has an address, if that is leased, and the MAC of the next hop to its peer.
    #[inline(never)]
    pub(super) fn find_leased(&self, template: TemplateIndex, tuple: &Tuple) -> Option<(LeasedClient, [u8; 6])> {
        let client = self.found.leased(&self.pools, template, tuple.local)?;
        let port = self.scenario.templates[template.position()].client.as_ref()?.port;
        Some((client, self.next_hop(port, tuple, self.address_of(client)?)))
    }

    fn address_of(&self, client: LeasedClient) -> Option<LeasedAddress> {
        self.pools[client.pool as usize].leased_address(client.offset.into())
    }

    fn next_hop(&self, port: usize, tuple: &Tuple, lease: LeasedAddress) -> [u8; 6] {
        self.ports[port].group_mac(tuple.remote).unwrap_or(lease.gateway)
    }

    /// A flow follows its client's gateway, or ends, as its client has its address no more.
    pub(super) fn follow_leased_address(&mut self, index: FlowIndex, client: LeasedClient) {
        let (tuple, port) = (self.tuple_of(index), self.side(index).port);
        if let Some(lease) = self.address_of(client).filter(|lease| lease.address == tuple.local) {
            self.flows[index].remote_mac = self.next_hop(port, &tuple, lease);
            return;
        }
        self.note_before(index);
        let flow = &mut self.flows[index];
        flow.state = State::Closed;
        flow.clear(flags::HAS_OUTPUT | flags::TIMED_AT_ALL);
        // One in TIME-WAIT had ended before.
        if flow.has(flags::OPEN) {
            self.side(index).counters.one(Count::FlowsClientLost);
        }
        self.settle(index);
    }
}
