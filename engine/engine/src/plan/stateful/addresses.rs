// SPDX-License-Identifier: Apache-2.0
//! Where clients and servers are: pools of addresses, and which of them a template takes.
use super::super::Violations;
use contract::{Pool, PoolOrder, Stateful, WeightedPool};

/// Pools of a plan, at most.
const MOST_POOLS: usize = 65_536;
/// The sum of a side's weights, at most.
const MOST_WEIGHT: u64 = 65_535;

/// Checks every pool by itself.
pub fn pools(asked: &Stateful, wrong: &mut Violations) {
    if asked.pools.len() > MOST_POOLS {
        wrong.add("stateful.pools", format!("{} of them; must be at most {MOST_POOLS}", asked.pools.len()));
    }
    for (i, pool) in asked.pools.iter().enumerate() {
        one(&format!("stateful.pools[{i}]"), pool, wrong);
    }
}

fn one(at: &str, pool: &Pool, wrong: &mut Violations) {
    super::name(&format!("{at}.name"), &pool.name, 0, wrong);
    for (field, address) in [("first", &pool.first), ("last", &pool.last)] {
        if !matches!(address.len(), 4 | 16) {
            wrong.add(format!("{at}.{field}"), format!("{} bytes; must be 4 (IPv4) or 16 (IPv6)", address.len()));
            return;
        }
    }
    if pool.first.len() != pool.last.len() {
        return wrong.add(format!("{at}.last"), "is of another family than first; both must be IPv4, or both IPv6");
    }
    if pool.first > pool.last {
        return wrong.add(format!("{at}.last"), "is before first; must be the same or behind it");
    }
    if PoolOrder::try_from(pool.order).is_err() {
        wrong.add(format!("{at}.order"), format!("{} is none that this engine knows", pool.order));
    }
    first_mac(at, pool, wrong);
    if let Some(ports) = &pool.source_ports {
        for (field, value) in [("first", ports.first), ("step", ports.step)] {
            if value > u32::from(u16::MAX) {
                wrong.add(format!("{at}.source_ports.{field}"), format!("{value}; must be 0..65535"));
            }
        }
    }
}

fn first_mac(at: &str, pool: &Pool, wrong: &mut Violations) {
    let field = format!("{at}.first_mac");
    match pool.first_mac.len() {
        0 => return,
        6 => {}
        len => return wrong.add(field, format!("{len} bytes; must be 6, or none")),
    }
    if pool.first_mac[0] & 1 == 1 {
        wrong.add(&field, "is a group address; clients need individual ones (the first byte must be even)");
    }
    let first = number(&pool.first_mac[1..]);
    if first.saturating_add(number(&pool.last) - number(&pool.first)) >= 1 << 40 {
        wrong.add(field, "the last client's differs in its first byte; use a lower one, or a smaller pool");
    }
}

/// An address as a number.
fn number(address: &[u8]) -> u128 {
    address.iter().fold(0, |number, &byte| number << 8 | u128::from(byte))
}

/// Checks which pools a template takes: there must be some, all of one family.
pub fn of_template(at: &str, template: &contract::Template, pools: &[Pool], wrong: &mut Violations) {
    let mut family = None;
    if template.client_port.is_empty() {
        if !template.clients.is_empty() {
            let problem = "are for clients, and there are none here; leave them out, or set client_port";
            wrong.add(format!("{at}.clients"), problem);
        }
    } else {
        side(&format!("{at}.clients"), &template.clients, pools, &mut family, wrong);
    }
    side(&format!("{at}.servers"), &template.servers, pools, &mut family, wrong);
}

fn side(at: &str, taken: &[WeightedPool], pools: &[Pool], family: &mut Option<usize>, wrong: &mut Violations) {
    if taken.is_empty() {
        wrong.add(at, "none; must be at least one pool");
    }
    if taken.iter().map(|one| u64::from(one.weight)).sum::<u64>() > MOST_WEIGHT {
        wrong.add(at, format!("weights sum up to more than {MOST_WEIGHT}; use lower ones"));
    }
    for (i, one) in taken.iter().enumerate() {
        if one.weight == 0 {
            wrong.add(format!("{at}[{i}].weight"), "0; must be at least 1");
        }
        let Some(pool) = pools.get(one.pool as usize) else {
            wrong.add(format!("{at}[{i}].pool"), format!("there is no pool {}; there are {}", one.pool, pools.len()));
            continue;
        };
        let found = pool.first.len();
        if *family.get_or_insert(found) != found {
            let problem = "is of another family than those before it; clients and servers must be all IPv4 or all IPv6";
            wrong.add(format!("{at}[{i}].pool"), problem);
        }
    }
}
