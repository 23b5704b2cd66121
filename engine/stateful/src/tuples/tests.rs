// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::pool::{Order, SourcePorts, Start};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

const ALONE: Share = Share { worker: 0, workers: 1 };

fn v4(a: u8, b: u8, c: u8, d: u8) -> Address {
    Address::v4(u32::from_be_bytes([a, b, c, d]))
}

fn range(first: Address, count: u128) -> Pool {
    Pool::new(first, Address(first.0 + count - 1), Order::Sequential).unwrap()
}

fn weighted(pool: usize, weight: u32) -> WeightedPool {
    WeightedPool { pool, weight }
}

/// Tuples of templates by their lists of pools.
fn tuples(
    pools: &[Pool],
    templates: &[(Vec<WeightedPool>, Vec<WeightedPool>)],
    share: Share,
    sharding: Sharding,
) -> Result<Tuples, TupleError> {
    Tuples::new(pools, templates.iter().map(|(clients, servers)| (&clients[..], &servers[..])), share, sharding)
}

fn unasked(_: &Tuple) -> bool {
    true
}

/// The queue, among this many, of the reply to a UDP flow to port 53.
fn queue(tuple: &Tuple, queues: usize) -> usize {
    let mut frame = [0; 42];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[17] = 28;
    frame[22] = 64;
    frame[23] = 17;
    frame[26..30].copy_from_slice(&tuple.server.as_v4().unwrap().to_be_bytes());
    frame[30..34].copy_from_slice(&tuple.client.as_v4().unwrap().to_be_bytes());
    frame[35] = 53;
    frame[36..38].copy_from_slice(&tuple.source_port.to_be_bytes());
    frame[39] = 8;
    spate_net::spread::queue(&frame, queues)
}

/// TRex's simulator with four clients from 16.0.0.1 (its udp_topo_traffic example).
#[test]
fn clients_and_ports_follow_each_other_as_captured() {
    let mut clients = range(v4(16, 0, 0, 1), 4);
    let start = Start::Stepped { first: 41668, step: 17405 };
    clients.source_ports = SourcePorts { start, lowest: 1024, highest: 63_999 };
    let pools = [clients, range(v4(48, 0, 0, 0), 65_536)];
    let lists = [(vec![weighted(0, 1)], vec![weighted(1, 1)])];
    let mut tuples = tuples(&pools, &lists, ALONE, Sharding::ByNumber).unwrap();
    for (client, port, server) in [(1, 41668, 0), (2, 59073, 1), (3, 10942, 2), (4, 28347, 3), (1, 41669, 4)] {
        let tuple = tuples.next(0, unasked).unwrap().tuple;
        let expected = (v4(16, 0, 0, client), port, v4(48, 0, 0, server));
        assert_eq!((tuple.client, tuple.source_port, tuple.server), expected);
    }
}

#[test]
fn templates_of_one_mix_share_its_sequence() {
    let pools = [range(v4(16, 0, 0, 0), 9), range(v4(48, 0, 0, 0), 9), range(v4(49, 0, 0, 0), 9)];
    let lists = [
        (vec![weighted(0, 1)], vec![weighted(1, 1)]),
        (vec![weighted(0, 7)], vec![weighted(2, 1)]),
        (vec![], vec![weighted(2, 1)]),
    ];
    let mut tuples = tuples(&pools, &lists, ALONE, Sharding::ByNumber).unwrap();
    let taken = [0, 1, 1, 0].map(|template| tuples.next(template, unasked).unwrap().tuple);
    assert_eq!(taken.map(|tuple| tuple.client), [0, 1, 2, 3].map(|n| v4(16, 0, 0, n)));
    let servers = [v4(48, 0, 0, 0), v4(49, 0, 0, 0), v4(49, 0, 0, 1), v4(48, 0, 0, 1)];
    assert_eq!(taken.map(|tuple| tuple.server), servers);
}

#[test]
fn weights_are_spread_evenly() {
    let mix = |weights: &[u32]| {
        let pools = weights.iter().enumerate().map(|(pool, weight)| weighted(pool, *weight)).collect();
        let mut mix = Mix::new(pools, 0, 1);
        (0..mix.round.len() * 2).map(|_| mix.draw()).collect::<Vec<_>>()
    };
    assert_eq!(mix(&[1, 1]), [(0, 0), (1, 0), (0, 1), (1, 1)]);
    let members: Vec<_> = mix(&[5, 1, 1]).iter().map(|turn| turn.0).collect();
    assert_eq!(members[..7], [0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn a_client_without_another_port_is_exhausted() {
    let mut client = range(v4(16, 0, 0, 0), 1);
    (client.source_ports.lowest, client.source_ports.highest) = (2000, 2005);
    let pools = [client, range(v4(48, 0, 0, 0), 1)];
    let lists = [(vec![weighted(0, 1)], vec![weighted(1, 1)])];
    let mut tuples = tuples(&pools, &lists, Share { worker: 1, workers: 2 }, Sharding::ByNumber).unwrap();
    let mut draw = tuples.next(0, unasked).unwrap();
    let mut seen = HashSet::from([draw.tuple.source_port]);
    while tuples.skip(&mut draw, unasked) {
        assert!(seen.insert(draw.tuple.source_port));
    }
    assert_eq!((seen.len(), tuples.exhausted()), (3, 1));
}

#[test]
fn a_client_of_many_ports_is_asked_for_so_many() {
    let pools = [range(v4(16, 0, 0, 0), 1), range(v4(48, 0, 0, 0), 1)];
    let lists = [(vec![weighted(0, 1)], vec![weighted(1, 1)])];
    for sharding in [Sharding::ByNumber, Sharding::ByHash] {
        let mut tuples = tuples(&pools, &lists, ALONE, sharding).unwrap();
        let mut draw = tuples.next(0, unasked).unwrap();
        let mut seen = HashSet::from([draw.tuple.source_port]);
        while tuples.skip(&mut draw, unasked) {
            assert!(seen.insert(draw.tuple.source_port));
        }
        assert_eq!((seen.len() as u32, tuples.exhausted()), (1 + TRIES, 1));
    }
}

#[test]
fn what_is_never_owned_is_exhausted() {
    let pools = [range(v4(16, 0, 0, 0), 1), range(v4(48, 0, 0, 0), 1)];
    let lists = [(vec![weighted(0, 1)], vec![weighted(1, 1)])];
    let mut tuples = tuples(&pools, &lists, ALONE, Sharding::ByHash).unwrap();
    assert!(tuples.next(0, |_| false).is_none());
    assert_eq!(tuples.exhausted(), 1);
    assert!(tuples.next(0, unasked).is_some());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut few = range(v4(17, 0, 0, 0), 3);
    (few.source_ports.lowest, few.source_ports.highest) = (2000, 2004);
    let pools = [range(v4(16, 0, 0, 0), 9), few, range(Address(1 << 100), 5)];
    let fine = || vec![weighted(0, 1)];
    for (clients, servers, problem) in [
        (fine(), vec![], TupleProblem::NoServers),
        (vec![weighted(3, 1)], fine(), TupleProblem::Unknown("clients", 3)),
        (fine(), vec![weighted(0, 0)], TupleProblem::Weightless("servers")),
        (fine(), vec![weighted(2, 1)], TupleProblem::Families),
        (vec![weighted(0, 1), weighted(2, 1)], fine(), TupleProblem::Families),
        (vec![weighted(0, 65_536), weighted(1, 1)], fine(), TupleProblem::TooFine("clients", 65_537)),
        (vec![weighted(1, 1)], fine(), TupleProblem::TooFewPorts { pool: 1, ports: 5, needed: 7 }),
    ] {
        let lists = [(fine(), fine()), (clients, servers)];
        let error = tuples(&pools, &lists, Share { worker: 0, workers: 7 }, Sharding::ByNumber).unwrap_err();
        assert_eq!(error, TupleError { template: 1, problem });
    }
}

fn pool(at: u8) -> impl Strategy<Value = Pool> {
    let start = prop_oneof![
        Just(Start::Hashed),
        (any::<u16>(), any::<u16>()).prop_map(|(first, step)| { Start::Stepped { first, step } })
    ];
    let order = prop_oneof![Just(Order::Sequential), any::<u64>().prop_map(|seed| Order::Random { seed })];
    (1u32..40, order, start).prop_map(move |(len, order, start)| {
        let mut pool = Pool::new(v4(at, 0, 0, 1), v4(at, 0, 0, len as u8), order).unwrap();
        pool.source_ports.start = start;
        pool.first_mac = Some([2, at, 0, 0, 0, 0]);
        pool
    })
}

/// Three pools of clients and two of servers.
fn pools() -> impl Strategy<Value = Vec<Pool>> {
    (pool(16), pool(17), pool(18), pool(48), pool(49)).prop_map(|(a, b, c, d, e)| vec![a, b, c, d, e])
}

fn mix(pools: std::ops::Range<usize>) -> impl Strategy<Value = Vec<WeightedPool>> {
    let one = (pools, 1u32..5).prop_map(|(pool, weight)| WeightedPool { pool, weight });
    prop::collection::vec(one, 1..4)
}

/// Pools of which an engine has its part.
fn parts(pools: &[Pool], index: u32, of: u32) -> Vec<Pool> {
    pools.iter().map(|pool| pool.part_of(Part { index, of })).collect()
}

#[test]
fn engines_without_clients_are_refused_and_such_without_servers_are_not() {
    let pools = [range(v4(16, 0, 0, 0), 3), range(v4(48, 0, 0, 0), 1)];
    let lists = [(vec![weighted(0, 1)], vec![weighted(1, 1)])];
    let of = |index, of| {
        let share = Share::of_engine(0, 2, Part { index, of });
        tuples(&parts(&pools, index, of), &lists, share, Sharding::ByNumber)
    };
    for index in 0..4 {
        let problem = TupleProblem::TooFewClients { pool: 0, addresses: 3, engines: 4 };
        assert_eq!(of(index, 4).unwrap_err(), TupleError { template: 0, problem });
    }
    for index in 0..3u32 {
        let taken = of(index, 3).unwrap().next(0, unasked).unwrap().tuple;
        assert_eq!((taken.client, taken.server), (v4(16, 0, 0, index as u8), v4(48, 0, 0, 0)));
    }
}

proptest! {
    /// Where all engines have as many clients, in turn.
    #[test]
    fn engines_take_together_what_one_would(
        mut pools in pools(), each in 1u8..20, servers in mix(3..5), engines in 1u32..7, workers in 1u64..5,
    ) {
        let ports = pools[0].source_ports;
        pools[0] = range(v4(16, 0, 0, 1), u128::from(each) * u128::from(engines));
        pools[0].source_ports = ports;
        let lists = [(vec![weighted(0, 1)], servers)];
        let mut whole = tuples(&pools, &lists, ALONE, Sharding::ByNumber).unwrap();
        let all = u64::from(engines) * workers;
        let mut split: Vec<_> = (0..all).map(|place| {
            let engine = Part { index: (place % u64::from(engines)) as u32, of: engines };
            let share = Share::of_engine(place / u64::from(engines), workers, engine);
            assert_eq!(share, Share { worker: place, workers: all });
            tuples(&parts(&pools, engine.index, engines), &lists, share, Sharding::ByNumber).unwrap()
        }).collect();
        for n in 0..400 {
            let expected = whole.next(0, unasked).unwrap().tuple;
            prop_assert_eq!(split[n % all as usize].next(0, unasked).unwrap().tuple, expected);
        }
    }

    /// Of any order and length, distributed by number and by hash.
    #[test]
    fn engines_have_clients_of_their_own_and_all_of_them_together(
        pools in pools(), clients in mix(0..3), engines in 1u32..6, workers in 1usize..5, by_hash: bool, skip: bool,
    ) {
        let lists = [(clients.clone(), vec![weighted(3, 1), weighted(4, 2)])];
        let taken_pools: HashSet<_> = clients.iter().map(|weighted| weighted.pool).collect();
        let least = taken_pools.iter().map(|pool| pools[*pool].last_offset() + 1).min().unwrap();
        prop_assume!(least >= u128::from(engines));
        let sharding = if by_hash { Sharding::ByHash } else { Sharding::ByNumber };
        let (mut owners, mut seen, mut servers) = (HashMap::new(), HashMap::new(), HashSet::new());
        for (index, worker) in (0..engines).flat_map(|index| (0..workers).map(move |worker| (index, worker))) {
            let own = parts(&pools, index, engines);
            let share = Share::of_engine(worker as u64, workers as u64, Part { index, of: engines });
            let owned = |tuple: &Tuple| queue(tuple, workers) == worker;
            let mut tuples = tuples(&own, &lists, share, sharding).unwrap();
            // Each of at most 40 clients of three pools of weight 15 of 1 at most.
            for n in 0..40 * 15 * 3 {
                let mut draw = tuples.next(0, owned).unwrap();
                if skip && n % 5 == 0 {
                    prop_assert!(tuples.skip(&mut draw, owned));
                }
                let Tuple { client, server, source_port } = draw.tuple;
                prop_assert!(!by_hash || owned(&draw.tuple));
                prop_assert_eq!(*owners.entry(client).or_insert(index), index);
                prop_assert!(own[..3].iter().any(|pool| pool.owns(client)));
                // A port that a client skipped to has its turn again.
                let before = seen.insert((client, source_port, server), (index, worker));
                let fine = before.is_none_or(|before| skip && before == (index, worker));
                prop_assert!(fine, "{:?}", draw.tuple);
                servers.insert(server);
            }
        }
        let all = |of: &HashSet<usize>| of.iter().map(|pool| pools[*pool].last_offset() as usize + 1).sum::<usize>();
        prop_assert_eq!(owners.len(), all(&taken_pools));
        prop_assert_eq!(servers.len(), all(&HashSet::from([3, 4])));
    }

    #[test]
    fn workers_take_together_what_one_would(
        pools in pools(), clients in mix(0..3), servers in mix(3..5), workers in 1u64..20,
    ) {
        let lists = [(clients, servers)];
        let of = |share| tuples(&pools, &lists, share, Sharding::ByNumber).unwrap();
        let mut whole = of(ALONE);
        let mut split: Vec<_> = (0..workers).map(|worker| of(Share { worker, workers })).collect();
        for n in 0..400 {
            let expected = whole.next(0, unasked).unwrap().tuple;
            prop_assert_eq!(split[n % workers as usize].next(0, unasked).unwrap().tuple, expected);
        }
    }

    #[test]
    fn no_two_workers_or_mixes_ever_have_one_tuple(
        mut pools in pools(), first in mix(0..3), second in mix(0..3), workers in 1u64..12, lowest in 1000u16..1020,
        highest in 2000u16..2100, skips in prop::collection::vec(0usize..3, 7),
    ) {
        for pool in &mut pools {
            (pool.source_ports.lowest, pool.source_ports.highest) = (lowest, highest);
        }
        let lists = [(first, vec![weighted(3, 1)]), (second, vec![weighted(4, 1)])];
        let mut owners = HashMap::new();
        for worker in 0..workers {
            let mut tuples = tuples(&pools, &lists, Share { worker, workers }, Sharding::ByNumber).unwrap();
            let mixes = tuples.templates.clone();
            for n in 0..12_000 / workers as usize {
                let mut draw = tuples.next(n % 2, unasked).unwrap();
                for _ in 0..skips[n % 7] {
                    tuples.skip(&mut draw, unasked);
                }
                let owner = (worker, mixes[n % 2].unwrap().0);
                let key = (draw.tuple.client, draw.tuple.source_port);
                prop_assert_eq!(*owners.entry(key).or_insert(owner), owner);
            }
        }
    }

    #[test]
    fn clients_are_taken_evenly_with_all_their_ports(mut pools in pools(), workers in 1u64..9, ports in 20u16..60) {
        let len = pools[0].last_offset() as u64 + 1;
        pools[0].source_ports.lowest = 5000;
        pools[0].source_ports.highest = 5000 + ports - 1;
        let lists = [(vec![weighted(0, 1)], vec![weighted(3, 1)])];
        let mut seen = HashSet::new();
        for worker in 0..workers {
            let mut tuples = tuples(&pools, &lists, Share { worker, workers }, Sharding::ByNumber).unwrap();
            let port = tuples.clients[0].ports[0];
            for _ in (worker..len * u64::from(port.count)).step_by(workers as usize) {
                let tuple = tuples.next(0, unasked).unwrap().tuple;
                prop_assert!(seen.insert((tuple.client, tuple.source_port)));
            }
            prop_assert!(u32::from(ports) - port.count < port.step);
        }
    }

    #[test]
    fn what_is_distributed_by_hash_is_owned_by_one_worker(
        pools in pools(), clients in mix(0..3), workers in 1usize..9, skip: bool,
    ) {
        let lists = [(clients, vec![weighted(3, 1)])];
        let mut seen = HashSet::new();
        for worker in 0..workers {
            let share = Share { worker: worker as u64, workers: workers as u64 };
            let owned = |tuple: &Tuple| queue(tuple, workers) == worker;
            let mut tuples = tuples(&pools, &lists, share, Sharding::ByHash).unwrap();
            for _ in 0..300 {
                let mut draw = tuples.next(0, owned).unwrap();
                if skip {
                    prop_assert!(tuples.skip(&mut draw, owned));
                }
                prop_assert!(owned(&draw.tuple));
                let Tuple { client, server, source_port, .. } = draw.tuple;
                prop_assert!(seen.insert((client, server, source_port)));
            }
        }
    }
}

#[test]
fn one_client_serves_sixteen_workers_with_all_its_ports() {
    let pools = [range(v4(16, 0, 0, 1), 1), range(v4(48, 0, 0, 1), 1)];
    let lists = [(vec![weighted(0, 1)], vec![weighted(1, 1)])];
    for sharding in [Sharding::ByNumber, Sharding::ByHash] {
        let mut seen = HashSet::new();
        for worker in 0..16 {
            let owned = |tuple: &Tuple| queue(tuple, 16) == worker;
            let share = Share { worker: worker as u64, workers: 16 };
            let mut tuples = tuples(&pools, &lists, share, sharding).unwrap();
            while seen.insert(tuples.next(0, owned).unwrap().tuple.source_port) {}
        }
        assert_eq!(seen.len(), 65_536 - 1024);
    }
}

/// Ports owned by one worker, of more clients than there are entries: none is taken twice before all were.
#[test]
fn clients_that_share_an_entry_repeat_no_port() {
    let clients = 5u64;
    let pools = [range(v4(16, 0, 0, 1), u128::from(clients)), range(v4(48, 0, 0, 1), 1)];
    let lists = [(vec![weighted(0, 1)], vec![weighted(1, 1)])];
    let mut tuples = tuples(&pools, &lists, ALONE, Sharding::ByHash).unwrap();
    tuples.clients[0].looked = vec![0; 2].into();
    let mut seen = HashSet::new();
    for _ in 0..clients * 20_000 {
        let tuple = tuples.next(0, unasked).unwrap().tuple;
        assert!(seen.insert((tuple.client, tuple.source_port)));
    }
}

/// Client and source port of what a worker's programs open from clients in turn.
fn opened_by(share: Share, sharding: Sharding, own: impl Fn(&Tuple) -> bool) -> Vec<(Address, u16)> {
    let address = |n: u32| Address::v4(0x1000_0000 + n);
    let server = Address::v4(0x3000_0001);
    let pools = [
        Pool::new(address(0), address(2), Order::Sequential).unwrap(),
        Pool::new(server, server, Order::Sequential).unwrap(),
    ];
    let [clients, servers] = [0, 1].map(|pool| vec![WeightedPool { pool, weight: 1 }]);
    let templates = [(&clients[..], &servers[..]), (&clients[..], &servers[..])];
    let mut tuples = Tuples::with_opened(&pools, templates, &[1], share, sharding).unwrap();
    let mut taken = Vec::new();
    for n in 0..3000 {
        let draw = tuples.next_of(1, address(n % 3), &own).expect("a port");
        assert_eq!(draw.tuple.client, address(n % 3));
        taken.push((draw.tuple.client, draw.tuple.source_port));
        // Those that begin in turn have other ports.
        let draw = tuples.next(0, &own).expect("a port");
        taken.push((draw.tuple.client, draw.tuple.source_port));
    }
    assert!(tuples.next_of(0, address(0), &own).is_none(), "programs open none of these");
    assert!(tuples.next_of(1, Address::v4(1), &own).is_none(), "no such client");
    taken
}

#[test]
fn no_two_workers_open_a_connection_from_the_same_port_of_a_client() {
    let mut all = Vec::new();
    for worker in 0..3 {
        all.extend(opened_by(Share { worker, workers: 3 }, Sharding::ByNumber, |_| false));
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
    let owned = |tuple: &Tuple| tuple.source_port % 3 == 1;
    let taken = opened_by(Share { worker: 1, workers: 3 }, Sharding::ByHash, owned);
    assert!(taken.iter().all(|(_, port)| port % 3 == 1), "replies to all arrive here");
}
