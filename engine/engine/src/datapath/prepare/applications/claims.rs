// SPDX-License-Identifier: Apache-2.0
//! Addresses that the clients and servers of a run answer for, each by one run alone.
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use spate_neighbour::{Group, MAX_GROUPS, Range};
use spate_net::vlan::Tags;
use spate_stateful::{FieldPath, Pool, Scenario, pool::Order};

use super::{name, refused};
use crate::datapath::{PrepareError, RunSpec, prepare::Context, run::Run};
use crate::index::{PortIndex, TemplateIndex};

/// Addresses that a side of a template answers for.
pub(super) struct Claim {
    /// The field that says so.
    field: FieldPath,
    pub(super) port: PortIndex,
    pub(super) pool: Pool,
    /// Stations have the MACs that the pool says.
    own_macs: bool,
    /// Tags of the addresses, if they are not the port's.
    tags: Option<Tags>,
}

/// What a scenario answers for: of each pool the engine's own part, for those that share a run have parts that do not overlap.
/// Clients in tunnels are behind near ends, and the servers of mirrored ones behind the remote end. Mirrored tags lead to the gateway.
pub(super) fn claims(scenario: &Scenario) -> Vec<Claim> {
    let mut claims: Vec<Claim> = Vec::new();
    let mut add = |field: FieldPath, port: PortIndex, pool: Pool, own_macs: bool, tags: Option<Tags>| {
        let is_there =
            |claim: &Claim| (claim.port, claim.own_macs, claim.tags) == (port, own_macs, tags) && claim.pool == pool;
        if !claims.iter().any(is_there) {
            claims.push(Claim { field, port, pool, own_macs, tags });
        }
    };
    for (index, template) in scenario.templates.iter().enumerate() {
        let field = |side: &'static str| TemplateIndex(index).path().field(side);
        let clients = || template.clients.iter().map(|weighted| &scenario.pools[weighted.pool]);
        if let Some(client) = &template.client {
            clients().for_each(|pool| {
                add(field("client_port"), PortIndex(client.port), pool.on_clients_link(), true, pool.access.tags);
            });
        }
        if let Some(server) = &template.server {
            for weighted in &template.servers {
                add(field("server_port"), PortIndex(server.port), scenario.pools[weighted.pool].clone(), false, None);
            }
            for pool in clients() {
                let remote = pool.tunnels.filter(|tunnels| tunnels.mirror).map(|tunnels| tunnels.remote);
                let tags = pool.access.tags.filter(|_| pool.access.mirror);
                let gateway = pool.access.gateway.filter(|_| tags.is_some());
                for station in remote.into_iter().chain(gateway) {
                    if let Ok(station) = Pool::new(station, station, Order::Sequential) {
                        add(field("server_port"), PortIndex(server.port), station, false, tags);
                    }
                }
            }
        }
    }
    claims
}

/// Addresses that a scenario's clients and servers have on this engine, by port.
pub(in crate::datapath) fn ranges(scenario: &Scenario) -> BTreeMap<PortIndex, Vec<Range>> {
    let mut ranges: BTreeMap<PortIndex, Vec<Range>> = BTreeMap::new();
    // The MAC of a group is computed, not resolved, and emulated clients answer for their addresses themselves.
    let asked_for = claims(scenario).into_iter().filter(|claim| !claim.pool.is_of_groups() && !claim.pool.is_leased());
    for Claim { port, pool, own_macs, tags, .. } in asked_for {
        let Some(first_own) = pool.first_own() else { continue };
        let end = |offset: u128| IpAddr::from(pool.address(offset));
        let first_mac = pool.mac(first_own).filter(|_| own_macs);
        let (first, last, step) = (end(first_own), end(pool.last_offset()), pool.part().of);
        let range = Range { first, last, step, first_mac, tags };
        let of_port = ranges.entry(port).or_default();
        if !of_port.contains(&range) {
            of_port.push(range);
        }
    }
    ranges
}

/// Multicast groups that a scenario's servers are reached by on this engine, by port; and how many more there are than a port can be a
/// member of.
pub(in crate::datapath) fn groups(scenario: &Scenario) -> (BTreeMap<PortIndex, Vec<Group>>, u128) {
    let (mut groups, mut omitted): (BTreeMap<PortIndex, BTreeSet<IpAddr>>, u128) = (BTreeMap::new(), 0);
    for Claim { port, pool, own_macs: of_clients, .. } in claims(scenario) {
        let Some(first) = pool.first_own().filter(|_| pool.is_of_groups() && !of_clients) else { continue };
        let of_port = groups.entry(port).or_default();
        let step = u128::from(pool.part().of);
        let all = (pool.last_offset() - first) / step + 1;
        // Addresses that several pools have are claimed once.
        let looked_at = all.min(2 * MAX_GROUPS as u128);
        for n in 0..looked_at {
            let address = IpAddr::from(pool.address(first + n * step));
            if of_port.len() < MAX_GROUPS {
                of_port.insert(address);
            } else if !of_port.contains(&address) {
                omitted += 1;
            }
        }
        omitted += all - looked_at;
    }
    let members = |addresses: BTreeSet<IpAddr>| {
        addresses.into_iter().map(|address| Group { address, sources: Vec::new() }).collect()
    };
    (groups.into_iter().map(|(port, addresses)| (port, members(addresses))).collect(), omitted)
}

/// Refuses what another run, or this one, does already.
pub(super) fn refuse_conflicts(context: &Context<'_>, spec: &RunSpec, claims: &[Claim]) -> Result<(), PrepareError> {
    for Claim { field, port, pool, .. } in claims {
        let other = |run: &&Arc<Run>| run.templates().is_some_and(|templates| templates.claim(*port, pool));
        if let Some(run) = context.present.iter().find(other) {
            let problem = format!(
                "run {:?} answers for addresses from {:?} to {:?} on {} too: use others, or remove that run",
                run.id(),
                pool.address(0),
                pool.address(pool.last_offset()),
                name(context, port.0)
            );
            return Err(refused(field.clone(), problem));
        }
        if pool.is_leased() && !context.tags[port.0].is_empty() {
            let problem = format!(
                "{} is in a VLAN, and its emulated clients are in none: use another port, or one without VLANs",
                name(context, port.0)
            );
            return Err(refused(field.clone(), problem));
        }
        let reflects = spec.measure.reflectors.iter().any(|reflector| reflector.port == *port);
        if reflects || context.present.iter().any(|run| run.reflects(*port)) {
            let problem =
                format!("{} sends back what it receives: use another port, or no reflector", name(context, port.0));
            return Err(refused(field.clone(), problem));
        }
    }
    Ok(())
}
