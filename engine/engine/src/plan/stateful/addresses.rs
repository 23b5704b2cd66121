// SPDX-License-Identifier: Apache-2.0
//! Where clients and servers are: pools of addresses, which of them a template takes, and when.
use super::super::{Site, Violations};
use super::address::address;
use super::{access, leased, tunnels};
use crate::index::PoolIndex;
use contract::{ClientGroup, PoolOrder, Stateful};
use spate_net::encap::Carries;
use spate_stateful::arrivals::{FlowSchedule, Order, Timing};
use spate_stateful::tuples::{Sharding, Share, Tuples};
use spate_stateful::{
    FieldPath,
    pool::{self, SourcePorts, Start},
};
use spate_stateful::{Part, Pool, Ratio, Scenario, Template, WeightedPool};
use std::collections::BTreeMap;

/// Pools of a plan, at most.
const MAX_POOLS: usize = 65_536;
/// Pools of a side of a template, at most.
const MAX_POOLS_OF_SIDE: usize = 1024;

/// The pools of a plan with these groups of emulated clients in its order, or none, and a violation says why.
pub fn pools(asked: &Stateful, groups: &[ClientGroup], wrong: &mut Violations) -> Option<Vec<Pool>> {
    if asked.pools.len() > MAX_POOLS {
        wrong.add("stateful.pools", format!("{} of them; must be at most {MAX_POOLS}", asked.pools.len()));
        return None;
    }
    let found: Vec<_> =
        asked.pools.iter().enumerate().map(|(i, pool)| one(&PoolIndex(i).path(), pool, groups, wrong)).collect();
    found.into_iter().collect()
}

fn one(at: &FieldPath, asked: &contract::Pool, groups: &[ClientGroup], wrong: &mut Violations) -> Option<Pool> {
    super::name(&at.field("name"), &asked.name, 0, wrong);
    let order = match PoolOrder::try_from(asked.order) {
        Ok(PoolOrder::Unspecified | PoolOrder::Sequential) => Some(pool::Order::Sequential),
        Ok(PoolOrder::Random) => Some(pool::Order::Random { seed: asked.seed }),
        Err(_) => {
            wrong.add(at.field("order"), format!("{} is none that this engine knows", asked.order));
            None
        }
    };
    let source_ports = source_ports(&at.field("source_ports"), asked.source_ports.as_ref(), wrong);
    if let Some(of) = &asked.from_clients {
        let mut pool = leased::pool(at, asked, of, order?, groups, wrong)?;
        pool.source_ports = source_ports?;
        return Some(pool);
    }
    let first = address(&at.field("first"), &asked.first, wrong);
    let last = address(&at.field("last"), &asked.last, wrong);
    let pool = Pool::new(first?, last?, order?).map_err(|error| wrong.add(at.field("last"), error.to_string()));
    let mut pool = pool.ok()?;
    pool.first_mac = first_mac(&at.field("first_mac"), &asked.first_mac, &pool, wrong)?;
    pool.source_ports = source_ports?;
    pool.tunnels = tunnels::tunnels(at, asked, &pool, wrong)?;
    if pool.tunnels.is_some_and(|tunnels| tunnels.carries() == Carries::Packet) && pool.first_mac.is_some() {
        wrong.add(
            at.field("first_mac"),
            "clients in tunnels of packets have no MACs, and local ends have the port's; leave it out",
        );
        return None;
    }
    pool.access = access::access(at, asked, &pool, wrong)?;
    pool.allow_multicast = asked.allow_multicast;
    multicast(at, &pool, wrong)?;
    Some(pool)
}

/// Checks that multicast addresses are only where they are allowed, and nothing else is there.
fn multicast(at: &FieldPath, pool: &Pool, wrong: &mut Violations) -> Option<()> {
    if pool.has_groups() && !pool.allow_multicast {
        wrong.add(
            at.field("allow_multicast"),
            "has multicast addresses, which no client or server can have: use others, or set it to send to and from them on \
             purpose",
        );
    } else if pool.allow_multicast && !pool.is_of_groups() {
        wrong.add(at.field("allow_multicast"), "has addresses that are not multicast: use a pool of its own for them");
    } else if pool.allow_multicast && pool.tunnels.is_some() {
        wrong.add(
            at.field("allow_multicast"),
            "clients in tunnels have addresses of hosts; leave it, or gtpu, vxlan, gre and mpls, out",
        );
    } else if pool.allow_multicast && pool.has_envelope() {
        wrong.add(
            at.field("allow_multicast"),
            "clients with vlans or a gateway have addresses of hosts; leave it or these out",
        );
    } else {
        return Some(());
    }
    None
}

/// The MAC of the first client, if clients have some of their own.
fn first_mac(field: &FieldPath, bytes: &[u8], pool: &Pool, wrong: &mut Violations) -> Option<Option<[u8; 6]>> {
    if bytes.is_empty() {
        return Some(None);
    }
    let Ok(mac) = <[u8; 6]>::try_from(bytes) else {
        wrong.add(field, format!("{} bytes; must be 6, or none", bytes.len()));
        return None;
    };
    let [first, rest @ ..] = mac;
    let rest = rest.iter().fold(0, |number, &byte| number << 8 | u128::from(byte));
    if first & 1 == 1 {
        wrong.add(field, "is a group address; clients need individual ones (the first byte must be even)");
    } else if rest.saturating_add(pool.last_offset()) >= 1 << 40 {
        wrong.add(field, "the last client's differs in its first byte; use a lower one, or a smaller pool");
    } else {
        return Some(Some(mac));
    }
    None
}

fn source_ports(at: &FieldPath, asked: Option<&contract::SourcePorts>, wrong: &mut Violations) -> Option<SourcePorts> {
    let usual = SourcePorts::default();
    let Some(asked) = asked else { return Some(usual) };
    let mut port = |field: &'static str, value: u32, or: u16| match u16::try_from(value) {
        Ok(0) => Some(or),
        Ok(value) => Some(value),
        Err(_) => {
            wrong.add(at.field(field), format!("{value}; must be 0..65535"));
            None
        }
    };
    let (first, step) = (port("first", asked.first, 0), port("step", asked.step, 0));
    let (lowest, highest) = (port("lowest", asked.lowest, usual.lowest), port("highest", asked.highest, usual.highest));
    let (first, step, lowest, highest) = (first?, step?, lowest?, highest?);
    if lowest > highest {
        wrong.add(at.field("highest"), format!("{highest}; must not be below the lowest, which is {lowest}"));
        return None;
    }
    let start = if (first, step) == (0, 0) { Start::Hashed } else { Start::Stepped { first, step } };
    Some(SourcePorts { start, lowest, highest })
}

/// Which pools a side of a template takes; at least one, unless it is not `needed`.
pub fn taken(
    at: &FieldPath,
    asked: &[contract::WeightedPool],
    count: usize,
    needed: bool,
    wrong: &mut Violations,
) -> Vec<WeightedPool> {
    match (asked.is_empty(), needed) {
        (true, true) => wrong.add(at, "none; must be at least one pool"),
        (false, false) => wrong.add(at, "are for clients, and there are none here; leave them out, or set client_port"),
        _ => {}
    }
    if asked.len() > MAX_POOLS_OF_SIDE {
        wrong.add(at, format!("{} of them; must be at most {MAX_POOLS_OF_SIDE}", asked.len()));
    }
    for (i, one) in asked.iter().enumerate() {
        if one.weight == 0 {
            wrong.add(at.index(i).field("weight"), "0; must be at least 1");
        }
        if one.pool as usize >= count {
            wrong.add(at.index(i).field("pool"), format!("there is no pool {}; there are {count}", one.pool));
        }
    }
    asked.iter().map(|one| WeightedPool { pool: one.pool as usize, weight: one.weight }).collect()
}

/// Lets an engine answer for all servers of templates: their pools are added as whole ones.
pub fn all_servers<'a>(pools: &mut Vec<Pool>, templates: impl Iterator<Item = &'a mut Template>) {
    let mut copies = BTreeMap::new();
    for servers in templates.flat_map(|template| &mut template.servers) {
        if pools[servers.pool].part() != Part::WHOLE {
            servers.pool = *copies.entry(servers.pool).or_insert_with_key(|original| {
                pools.push(pools[*original].part_of(Part::WHOLE));
                pools.len() - 1
            });
        }
    }
}

/// The order of flows.
pub fn order(asked: &Stateful) -> Order {
    asked.draw_seed.map_or(Order::Even, |seed| Order::Drawn { seed })
}

/// Checks what only shows with all templates: that addresses and times of new flows can be distributed.
pub fn distribute(site: &Site, scenario: &Scenario, wrong: &mut Violations) {
    let mut add = |field: FieldPath, problem: String| wrong.add(FieldPath::from("stateful").join(&field), problem);
    let pools = |t: &'_ Template| (t.clients.clone(), t.servers.clone());
    let mixes: Vec<_> = scenario.templates.iter().map(pools).collect();
    let mixes = mixes.iter().map(|(clients, servers)| (&clients[..], &servers[..]));
    // How many ports each worker needs depends on how its port spreads flows, which is known where it runs.
    let engines = scenario.client_part().of;
    let alone = Share { worker: 0, workers: engines.into() };
    let opened: Vec<_> = scenario.opened().collect();
    if let Err(error) = Tuples::with_opened(&scenario.pools, mixes, &opened, alone, Sharding::ByNumber) {
        return add(error.field(), error.to_string());
    }
    let share = Share { worker: 0, workers: u64::from(engines) * u64::from(site.workers.max(1)) };
    // Where clients are real, no connection is started here.
    let timing = |t: &Template| t.client.as_ref().map_or(Ratio::ZERO, |client| client.rate);
    let timings: Vec<_> = scenario
        .templates
        .iter()
        .map(|t| Timing { rate: timing(t), limit: t.client.as_ref().map_or(0, |c| c.limit) })
        .collect();
    if let Err(error) = FlowSchedule::new(&timings, scenario.order, share, 0, scenario.ramp_up) {
        add(error.field(), error.to_string());
    }
}
