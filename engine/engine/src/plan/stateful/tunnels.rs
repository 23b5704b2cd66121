// SPDX-License-Identifier: Apache-2.0
//! Tunnels of GTP-U that clients' packets pass through: which, and whether all of a plan's go together.
use super::super::Violations;
use super::addresses::address;
use contract::Gtpu;
use spate_stateful::Address;
use spate_stateful::gtpu::Tunnels;
use spate_stateful::{Part, Pool, Scenario, Template, WeightedPool};

/// gNBs of a pool, at most.
const MOST_GNBS: u32 = 65_536;
/// A QoS flow identifier has six bits (TS 38.415 section 5.5.3.3).
const HIGHEST_QFI: u32 = 63;

/// The tunnels of a pool's clients, or none, and a violation says why.
pub fn tunnels(at: &str, asked: &Gtpu, pool: &Pool, wrong: &mut Violations) -> Option<Tunnels> {
    let at = |field: &str| format!("{at}.{field}");
    let local = address(&at("local"), &asked.local, wrong);
    let remote = address(&at("remote"), &asked.remote, wrong);
    let local_count = asked.local_count.max(1);
    let step = asked.teid_step.max(1);
    if asked.teid == 0 {
        wrong.add(at("teid"), "0 is for messages of no tunnel; must be at least 1");
    }
    if asked.qfi.is_some_and(|qfi| qfi > HIGHEST_QFI) {
        wrong.add(at("qfi"), format!("{}; must be 0..{HIGHEST_QFI}", asked.qfi()));
    }
    let downlink = if asked.downlink_teid == 0 { asked.teid } else { asked.downlink_teid };
    for (field, first) in [("teid", asked.teid), ("downlink_teid", downlink)] {
        let last = pool.last_offset().saturating_mul(step.into()).saturating_add(first.into());
        if last > u32::MAX.into() {
            let problem = format!(
                "the last client's would be {last}, and they have 32 bits; use a lower one, a lower teid_step or a smaller pool"
            );
            wrong.add(at(field), problem);
            return None;
        }
    }
    let (local, remote) = (local?, remote?);
    if local.is_v6() != remote.is_v6() {
        wrong.add(at("remote"), "is not of the family of local; give both as IPv4 or both as IPv6");
        return None;
    }
    let last = local.0.checked_add(u128::from(local_count - 1)).map(Address);
    let Some(last) = last.filter(|last| local_count <= MOST_GNBS && last.is_v6() == local.is_v6()) else {
        wrong.add(
            at("local_count"),
            format!("{local_count} from {local:?} on; must be at most {MOST_GNBS}, all of one family"),
        );
        return None;
    };
    if (local..=last).contains(&remote) {
        wrong.add(at("remote"), format!("{remote:?} is a gNB's address too; use another, or fewer gNBs (local_count)"));
        return None;
    }
    let (qfi, mirror) = (asked.qfi.map(|qfi| qfi as u8), asked.mirror);
    (asked.teid > 0 && qfi.is_none_or(|qfi| u32::from(qfi) <= HIGHEST_QFI)).then_some(Tunnels {
        local,
        local_count,
        remote,
        uplink: asked.teid,
        downlink,
        step,
        qfi,
        mirror,
    })
}

/// Bytes that tunnels add to the packets of a side of a template, at most.
pub fn most_added(pools: Option<&[Pool]>, clients: &[WeightedPool], of_clients: bool) -> u32 {
    let added = |weighted: &WeightedPool| {
        let pool = pools?.get(weighted.pool)?;
        let tunnels = pool.tunnels.filter(|tunnels| of_clients || tunnels.mirror)?;
        Some(tunnels.encap().overhead() as u32)
    };
    clients.iter().filter_map(added).max().unwrap_or(0)
}

/// Checks what only shows with all templates: that pools with tunnels are clients', and that a packet tells whose it is.
pub fn fit_together(scenario: &Scenario, wrong: &mut Violations) {
    for (index, template) in scenario.templates.iter().enumerate() {
        for (i, weighted) in template.servers.iter().enumerate() {
            if scenario.pools[weighted.pool].tunnels.is_some() {
                let at = format!("stateful.templates[{index}].servers[{i}].pool");
                wrong.add(at, format!("pool {} has gtpu, which is for clients; use another pool", weighted.pool));
            }
        }
        mirrors(index, scenario, template, wrong);
    }
    for (index, pool) in scenario.pools.iter().enumerate() {
        let of = pool.part().of;
        if let Some(tunnels) = pool.tunnels.filter(|tunnels| !tunnels.local_count.is_multiple_of(of)) {
            let problem = format!(
                "{} gNBs cannot be shared out to {of} engines as their clients are; use a multiple of {of}",
                tunnels.local_count
            );
            wrong.add(format!("stateful.pools[{index}].gtpu.local_count"), problem);
        }
        let others = scenario.pools[..index].iter().enumerate();
        let Some((other, problem)) = others.filter_map(|(i, other)| Some((i, conflict(pool, other)?))).next() else {
            continue;
        };
        let (a, b) = (clients_port(scenario, index), clients_port(scenario, other));
        if a.is_some() && a == b {
            wrong.add(format!("stateful.pools[{index}].gtpu"), format!("stateful.pools[{other}] {problem}"));
        }
    }
}

/// Mirrored tunnels need servers, and on one port both ends hear each other only through such.
fn mirrors(index: usize, scenario: &Scenario, template: &Template, wrong: &mut Violations) {
    let Some(client) = &template.client else { return };
    for pool in template.clients.iter().map(|weighted| weighted.pool) {
        let Some(tunnels) = scenario.pools[pool].tunnels else { continue };
        let one_port = template.server.as_ref().map(|server| server.port == client.port);
        let problem = match (tunnels.mirror, one_port) {
            (true, None) => {
                "is for servers that are emulated here, and there are none; leave it out, or set server_port"
            }
            (false, Some(true)) => {
                "not set, and what clients send comes back in its tunnel; set it, or use another server_port"
            }
            (true, Some(false)) if scenario.pools[pool].part() != Part::WHOLE => {
                "set, and several engines would stand for the UPF on one link; use one engine (replicas: 1), or clients and \
                 servers on one loopback port"
            }
            _ => continue,
        };
        wrong.add(format!("stateful.pools[{pool}].gtpu.mirror"), format!("{problem} (templates[{index}])"));
    }
}

/// The port of a pool's clients.
fn clients_port(scenario: &Scenario, pool: usize) -> Option<usize> {
    let has = |template: &&Template| template.clients.iter().any(|weighted| weighted.pool == pool);
    scenario.templates.iter().filter(has).find_map(|template| Some(template.client.as_ref()?.port))
}

/// Why two pools cannot be on one port, if one has tunnels. The same clients may be in several templates.
fn conflict(one: &Pool, other: &Pool) -> Option<&'static str> {
    let ends = |pool: &Pool| [pool.address(0), pool.address(pool.last_offset())];
    if ends(one) == ends(other) && one.tunnels == other.tunnels {
        return None;
    }
    if (one.tunnels.is_some() || other.tunnels.is_some()) && one.overlaps(other) {
        return Some("has clients of the same addresses, and other tunnels or none; use addresses apart");
    }
    let (a, b) = (one.tunnels?, other.tunnels?);
    let last = |first: u32, pool: &Pool, step: u32| u128::from(first) + pool.last_offset() * u128::from(step);
    let meet = |a_first: u32, b_first: u32| {
        u128::from(a_first) <= last(b_first, other, b.step) && u128::from(b_first) <= last(a_first, one, a.step)
    };
    if a.local <= b.last_gnb() && b.local <= a.last_gnb() && meet(a.downlink, b.downlink) {
        return Some("has gNBs in common and TEIDs of the downlink in the same range; use ranges apart");
    }
    (a.remote == b.remote && meet(a.uplink, b.uplink))
        .then_some("has the same UPF and TEIDs of the uplink in the same range; use ranges apart")
}
