// SPDX-License-Identifier: Apache-2.0
//! What is found is what a search of all templates finds, and costs the same however many there are.
use super::*;
use crate::{Client, Part, Program, Ratio, Server, Template, Tunables, WeightedPool, pool};
use proptest::prelude::*;

fn scenario(pools: Vec<Pool>, templates: Vec<Template>) -> Scenario {
    Scenario {
        payloads: vec![],
        pools,
        templates,
        most_flows: 1,
        ramp_up: 0.into(),
        order: crate::arrivals::Order::default(),
        ignored: None,
    }
}

/// Clients of pool `clients` on port 0, and servers of pool `servers` on a port.
fn template(destination_port: u16, udp: bool, clients: usize, servers: usize, port: usize) -> Template {
    let taken = |pool| vec![WeightedPool { pool, weight: 1 }];
    let (program, tunables) = (Program::default(), Tunables::default());
    Template {
        name: String::new(),
        group: String::new(),
        protocol: if udp { Protocol::Udp } else { Protocol::Tcp },
        destination_port,
        clients: taken(clients),
        servers: taken(servers),
        client: Some(Client {
            port: 0,
            program: program.clone(),
            tunables: tunables.clone(),
            rate: Ratio::ONE,
            limit: 0,
            most_open: 0,
        }),
        server: Some(Server { port, program, tunables, matches: vec![] }),
        looped: false,
        seed: 1,
        latency: false,
    }
}

fn pool_of(first: u128, len: u128, part: Part, mac: bool) -> Pool {
    let pool = Pool::new(Address(first), Address(first + len - 1), pool::Order::Sequential).expect("a pool");
    let mut pool = pool.part_of(part);
    pool.first_mac = mac.then_some([2, first as u8, 0, 0, 0, 0]);
    pool
}

/// TCP servers that listen at a port number, on port 1.
fn listening_at(sides: &Sides, number: u16) -> &Intervals {
    let key = listening(1, Protocol::Tcp, number);
    let (_, intervals) = sides.servers.iter().find(|(of, _)| *of == key).expect("servers at this number");
    intervals
}

fn tuple(local: u128, local_port: u16) -> Tuple {
    Tuple { local: Address(local), remote: Address(1 << 100), local_port, remote_port: 1024 }
}

proptest! {
    #[test]
    fn it_finds_what_a_search_of_all_templates_finds(
        pools in prop::collection::vec((100u128..160, 1u128..40, 0u32..2, 1u32..3, any::<bool>()), 1..8),
        templates in prop::collection::vec((0u16..3, any::<bool>(), 0usize..8, 0usize..8, 0usize..3), 1..12),
    ) {
        let pools: Vec<_> = pools
            .into_iter()
            .map(|(first, len, index, of, mac)| pool_of(first, len, Part { index: index % of, of }, mac))
            .collect();
        let count = pools.len();
        let made = |(dst, udp, clients, servers, port)| template(dst, udp, clients % count, servers % count, port);
        let scenario = scenario(pools, templates.into_iter().map(made).collect());
        let (sides, pools) = (Sides::new(&scenario), &scenario.pools);
        let all = || scenario.templates.iter().enumerate();
        let any = |taken: &[WeightedPool], has: &dyn Fn(&Pool) -> bool| taken.iter().any(|w| has(&pools[w.pool]));
        for address in 95..205u128 {
            let owns = |pool: &Pool| pool.owns(Address(address));
            for (port, destination_port) in (0..4).flat_map(|port| (0..4).map(move |dst| (port, dst))) {
                for protocol in [Protocol::Tcp, Protocol::Udp] {
                    let serves = |(_, t): &(usize, &Template)| {
                        (t.protocol, t.destination_port) == (protocol, destination_port)
                            && t.server.as_ref().is_some_and(|server| server.port == port)
                            && any(&t.servers, &owns)
                    };
                    let wanted: Vec<_> = all().filter(serves).map(|(index, _)| TemplateIndex::new(index)).collect();
                    let found = sides.servers(pools, port, protocol, &tuple(address, destination_port));
                    prop_assert_eq!(found.collect::<Vec<_>>(), wanted);
                }
                let owner = all().find_map(|(index, t)| {
                    let client = t.client.as_ref().is_some_and(|client| client.port == port) && any(&t.clients, &owns);
                    let server = t.server.as_ref().is_some_and(|server| server.port == port) && any(&t.servers, &owns);
                    (client || server).then(|| SideIndex::of(TemplateIndex::new(index), client))
                });
                prop_assert_eq!(sides.owner(pools, port, Address(address)), owner);
            }
            for (index, template) in all() {
                let wanted = template.clients.iter().find_map(|weighted| {
                    let pool = &pools[weighted.pool];
                    pool.mac(pool.contains(Address(address))?)
                });
                prop_assert_eq!(sides.own_mac(pools, TemplateIndex::new(index), Address(address)), wanted);
            }
            let clients = all().flat_map(|(_, t)| &t.clients).map(|w| &pools[w.pool]).filter(|pool| owns(pool));
            let macs: Vec<_> = clients.filter_map(|pool| pool.mac(pool.contains(Address(address))?)).collect();
            for mac in [[4; 6]].iter().chain(&macs) {
                let wanted = (!macs.is_empty()).then(|| macs.contains(mac));
                prop_assert_eq!(sides.is_own_mac(pools, 0, Address(address), *mac), wanted);
            }
        }
    }
}

#[test]
fn a_search_costs_the_same_among_4096_templates_as_among_few() {
    // Every template with a port of its own; with addresses of its own on one port; and both.
    for (ports, addresses) in [(true, false), (false, true), (true, true)] {
        for count in [1u16, 4096] {
            let pools = (0..=u128::from(count)).map(|n| pool_of(1000 + 16 * n, 16, Part::WHOLE, false)).collect();
            let of = |n: u16| {
                let (dst, servers) = (if ports { 1 + n } else { 1 }, if addresses { usize::from(n) } else { 0 });
                template(dst, false, usize::from(count), servers, 1)
            };
            let scenario = scenario(pools, (0..count).map(of).collect());
            let sides = Sides::new(&scenario);
            let last = count - 1;
            let local = 1000 + if addresses { 16 * u128::from(last) } else { 0 };
            let tuple = tuple(local, if ports { 1 + last } else { 1 });
            let found: Vec<_> = sides.servers(&scenario.pools, 1, Protocol::Tcp, &tuple).collect();
            assert_eq!(found, [TemplateIndex::new(last.into())]);
            // What is looked at: the only entry, which a search of at most 12 halves finds.
            let intervals = listening_at(&sides, tuple.local_port);
            assert_eq!(intervals.at(tuple.local).len(), 1);
            assert!(intervals.starts.len() <= 2 * usize::from(count));
            let owners = &sides.owners[1];
            assert_eq!(owners.at(tuple.local).len(), 1, "of one pool");
            assert_eq!(
                sides.owner(&scenario.pools, 1, tuple.local),
                Some(SideIndex::of(TemplateIndex::new(if addresses { last.into() } else { 0 }), false))
            );
            assert_eq!(sides.owner(&scenario.pools, 1, Address(3)), None);
        }
    }
}

#[test]
fn pools_that_overlap_in_too_many_ways_are_searched_one_after_the_other() {
    let count = 2048u128;
    let pools: Vec<_> = (0..count).map(|n| pool_of(10_000 + n, 2 * (count - n), Part::WHOLE, false)).collect();
    let templates = (0..count as usize).map(|n| template(80, false, 0, n, 1)).collect();
    let scenario = scenario(pools, templates);
    let sides = Sides::new(&scenario);
    assert_eq!(listening_at(&sides, 80).starts.len(), 1);
    for address in [10_000, 10_700, 12_048] {
        let found: Vec<_> = sides.servers(&scenario.pools, 1, Protocol::Tcp, &tuple(address, 80)).collect();
        let wanted = scenario
            .templates
            .iter()
            .enumerate()
            .filter(|(_, t)| scenario.pools[t.servers[0].pool].owns(Address(address)));
        assert_eq!(found, wanted.map(|(index, _)| TemplateIndex::new(index)).collect::<Vec<_>>());
    }
}
