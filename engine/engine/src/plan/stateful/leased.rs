// SPDX-License-Identifier: Apache-2.0
//! Pools of which the clients are emulated ones of the plan.
use super::super::Violations;
use crate::index::{PoolIndex, TemplateIndex};
use contract::{ClientGroup, Plan, PoolOfClients, Stateful, client_ipv4};
use spate_stateful::{FieldPath, Pool, pool::Order};

/// The pool of a group's clients; or none, and a violation says why. Violations of the group itself are not of the pool.
pub fn pool(
    at: &FieldPath,
    asked: &contract::Pool,
    of: &PoolOfClients,
    order: Order,
    groups: &[ClientGroup],
    wrong: &mut Violations,
) -> Option<Pool> {
    let before = wrong.0.len();
    let others = [
        ("first", !asked.first.is_empty()),
        ("last", !asked.last.is_empty()),
        ("first_mac", !asked.first_mac.is_empty()),
        ("allow_multicast", asked.allow_multicast),
        ("vlans", !asked.vlans.is_empty()),
        ("gateway", !asked.gateway.is_empty()),
        ("mirror_vlans", asked.mirror_vlans),
        ("gtpu", asked.gtpu.is_some()),
        ("vxlan", asked.vxlan.is_some()),
        ("gre", asked.gre.is_some()),
        ("mpls", asked.mpls.is_some()),
    ];
    for (field, _) in others.iter().filter(|(_, given)| *given) {
        wrong.add(at.field(field), "is of pools with a range; leave it, or from_clients, out");
    }
    let at = at.field("from_clients");
    let Some(group) = groups.iter().find(|group| group.name == of.group) else {
        let names: Vec<&str> = groups.iter().map(|group| &*group.name).collect();
        let problem = format!("{:?} is no group of clients; must be one of {}", of.group, names.join(", "));
        wrong.add(at.field("group"), problem);
        return None;
    };
    if !group.vlans.is_empty() {
        let problem = format!("clients {:?} have VLANs, from which no flows come; name clients without", of.group);
        wrong.add(at.field("group"), problem);
    }
    let fixed = group.ipv4.as_ref().and_then(|ipv4| match &ipv4.kind {
        Some(client_ipv4::Kind::Fixed(fixed)) => Some(fixed),
        _ => None,
    });
    if of.ipv6 && group.ipv6.is_none() {
        wrong.add(at.field("ipv6"), format!("clients {:?} have no IPv6; leave it out", of.group));
    } else if !of.ipv6 && group.ipv4.is_none() {
        wrong.add(at.field("ipv6"), format!("clients {:?} have IPv6 only; set it", of.group));
    } else if !of.ipv6 && fixed.is_some_and(|fixed| fixed.gateway.is_empty()) {
        let problem = format!("clients {:?} have no gateway to send to; give their ipv4.fixed.gateway", of.group);
        wrong.add(at.field("group"), problem);
    }
    let first_mac = <[u8; 6]>::try_from(group.mac.as_ref().map(|mac| &mac.first[..]).unwrap_or_default()).ok()?;
    (wrong.0.len() == before).then(|| Pool::leased(of.ipv6, group.count.max(1), order, first_mac))
}

/// Checks that templates take pools of emulated clients for their clients, where these are.
pub fn check(plan: &Plan, asked: &Stateful, wrong: &mut Violations) {
    let of = |pool: u32| asked.pools.get(pool as usize).and_then(|pool| pool.from_clients.as_ref());
    for (index, template) in asked.templates.iter().enumerate() {
        let at = TemplateIndex(index).path();
        for (i, server) in template.servers.iter().enumerate().filter(|(_, server)| of(server.pool).is_some()) {
            let problem = format!("{} is one of emulated clients; use another pool", server.pool);
            wrong.add(at.field("servers").index(i).field("pool"), problem);
        }
        for (i, client) in template.clients.iter().enumerate() {
            let Some(group) = of(client.pool).and_then(|of| plan.clients.iter().find(|group| group.name == of.group))
            else {
                continue;
            };
            if group.port != template.client_port {
                let problem = format!(
                    "{} is one of clients {:?}, which are on port {:?}; use that as client_port, or another pool",
                    client.pool, group.name, group.port
                );
                wrong.add(at.field("clients").index(i).field("pool"), problem);
            } else if template.client_engines.is_some() {
                wrong.add(
                    at.field("client_engines"),
                    format!("pool {} is one of emulated clients, which all engines have; leave it out", client.pool),
                );
            }
        }
    }
}

/// Pools of a plan without fault that are of emulated clients, with the names of these, and whether of their IPv6 addresses.
pub fn groups(asked: &Stateful) -> impl Iterator<Item = (PoolIndex, &str, bool)> {
    let pools = asked.pools.iter().enumerate();
    pools.filter_map(|(i, pool)| pool.from_clients.as_ref().map(|of| (PoolIndex(i), &*of.group, of.ipv6)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Site, decode, stateful};
    use contract::{ClientFixed, ClientVlans, Engines, Gre, WeightedPool};
    use spate_stateful::{Part, Scenario};

    const PLAN: &str = r#"{"runId": "r", "runTag": 1, "timing": {"durationNs": 1000000000}, "clients": [{
        "name": "subs", "port": "east", "count": 10, "mac": {"first": "AhAAAAAA"}, "ipv4": {"dhcp": {}},
        "rate": {"numerator": 1000, "denominator": 1}
    }], "stateful": {
        "payloads": [{"bytes": "AQ=="}],
        "pools": [{"name": "subs", "fromClients": {"group": "subs"}}, {"name": "web", "first": "CmMAAQ==", "last": "CmMAAQ=="}],
        "templates": [{
            "name": "web", "protocol": "TRANSPORT_PROTOCOL_TCP", "clientPort": "east", "destinationPort": 80,
            "flowsPerSecond": {"numerator": 1, "denominator": 1},
            "clients": [{"pool": 0, "weight": 1}], "servers": [{"pool": 1, "weight": 1}],
            "client": {"instructions": [{"send": {"payload": 0}}, {"close": {}}]}
        }]
    }}"#;

    fn plan() -> Plan {
        decode::plan(PLAN.into(), decode::Format::Json).unwrap()
    }

    fn scenario(plan: &Plan) -> Result<Option<Scenario>, Violations> {
        let mut wrong = Violations::default();
        let found = stateful::scenario(plan, &Site::of_plan(plan), &mut wrong);
        wrong.or(found)
    }

    #[test]
    fn the_clients_of_each_engine_are_its_part_of_the_pool() {
        let whole = &scenario(&plan()).unwrap().unwrap().pools[0];
        assert!(whole.is_leased() && !whole.is_v6());
        assert_eq!((whole.last_offset(), whole.mac(9)), (9, Some([2, 0x10, 0, 0, 0, 9])));
        let mut shared = plan();
        shared.share = Some(contract::Share { index: 1, count: 3 });
        let part = &scenario(&shared).unwrap().unwrap().pools[0];
        assert_eq!((part.part(), part.part_last()), (Part { index: 1, of: 3 }, 2));
        let found: Vec<_> = groups(shared.stateful.as_ref().unwrap()).collect();
        assert_eq!(found, [(PoolIndex(0), "subs", false)]);
    }

    /// A change of the plan, and the errors that it leads to.
    type Case = (fn(&mut Plan), &'static str);

    #[test]
    fn what_is_wrong_is_reported_with_its_field() {
        fn pool(plan: &mut Plan) -> &mut contract::Pool {
            &mut plan.stateful.as_mut().unwrap().pools[0]
        }
        fn template(plan: &mut Plan) -> &mut contract::Template {
            &mut plan.stateful.as_mut().unwrap().templates[0]
        }
        let cases: [Case; 11] = [
            (|plan| pool(plan).first = vec![10, 0, 0, 1].into(), "stateful.pools[0].first: is of pools with a range"),
            (|plan| pool(plan).gre = Some(Gre::default()), "stateful.pools[0].gre: is of pools with a range"),
            (
                |plan| pool(plan).from_clients.as_mut().unwrap().group = "others".into(),
                "stateful.pools[0].from_clients.group: \"others\" is no group of clients; must be one of subs",
            ),
            (
                |plan| plan.clients[0].vlans.push(ClientVlans { first: 1, count: 1, tpid: 0 }),
                "stateful.pools[0].from_clients.group: clients \"subs\" have VLANs",
            ),
            (
                |plan| pool(plan).from_clients.as_mut().unwrap().ipv6 = true,
                "stateful.pools[0].from_clients.ipv6: clients \"subs\" have no IPv6",
            ),
            (
                |plan| (plan.clients[0].ipv4, plan.clients[0].ipv6) = (None, Some(Default::default())),
                "stateful.pools[0].from_clients.ipv6: clients \"subs\" have IPv6 only",
            ),
            (
                |plan| {
                    let fixed = ClientFixed { first: vec![10, 0, 0, 1].into(), prefix_len: 24, ..Default::default() };
                    plan.clients[0].ipv4.as_mut().unwrap().kind = Some(client_ipv4::Kind::Fixed(fixed));
                },
                "stateful.pools[0].from_clients.group: clients \"subs\" have no gateway",
            ),
            (
                |plan| template(plan).servers[0] = WeightedPool { pool: 0, weight: 1 },
                "stateful.templates[0].servers[0].pool: 0 is one of emulated clients",
            ),
            (
                |plan| template(plan).client_port = "west".into(),
                "stateful.templates[0].clients[0].pool: 0 is one of clients \"subs\", which are on port \"east\"",
            ),
            (
                |plan| template(plan).client_engines = Some(Engines { first: 0, count: 1 }),
                "stateful.templates[0].client_engines: pool 0 is one of emulated clients",
            ),
            (|plan| plan.clients[0].mac = None, ""),
        ];
        for (change, expected) in cases {
            let mut plan = plan();
            change(&mut plan);
            let found = scenario(&plan).map(drop).map_err(|wrong| wrong.to_string()).err().unwrap_or_default();
            assert!(
                found.lines().any(|line| line.contains(expected)) || found.is_empty() && expected.is_empty(),
                "{found:?}, not {expected:?}"
            );
        }
    }
}
