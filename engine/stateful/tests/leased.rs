// SPDX-License-Identifier: Apache-2.0
//! Flows of clients whose addresses are leased: they come from what is leased now, and end when their client loses its address.
mod net;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use net::{CLIENT_PORT, Host, LINKS, MS, Net, Path, SERVER_PORT, START, scenario};
use spate_stateful::{
    Address, Count, Counters, Emulation, Instruction, LeasedAddress, LeasedAddresses, OffloadRequest, Payload, Pool,
    Protocol, Ratio, Received, Scenario,
    packet::{Endpoints, LowerHeaders, Packet, UDP_HEADER},
    pool::Order,
    tcp::Output,
    tuples::{Sharding, Share},
};

type Mac = [u8; 6];

const FIRST_MAC: Mac = [2, 0x10, 0, 0, 0, 0xfe];
const GATEWAY: Mac = LINKS[SERVER_PORT].mac;
const CLIENTS: u32 = 8;

/// A worker, and frames that came for no client that has an address.
struct Worker {
    emulation: Emulation,
    homeless: u64,
}

impl Host for Worker {
    fn advance(&mut self, now_ns: u64) {
        self.emulation.advance(now_ns, now_ns, false);
        while self.emulation.redirects() {
            self.emulation.redirect();
        }
    }

    fn receive(&mut self, port: usize, frame: &[u8], now_ns: u64) -> Received {
        let received = self.emulation.receive(port, frame, now_ns);
        self.homeless += u64::from(received == Received::OtherMac);
        Received::Taken
    }

    fn is_ready(&self, port: usize) -> bool {
        self.emulation.is_ready(port)
    }

    fn transmit(&mut self, port: usize, now_ns: u64, out: &mut impl Output) {
        self.emulation.transmit(port, now_ns, out);
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.emulation.next_due_ns()
    }
}

fn mac(client: u32) -> Mac {
    let [.., a, b, c, d] = (0xfe + client).to_be_bytes();
    [2, 0x10, a, b, c, d]
}

fn address(n: u32, v6: bool) -> Address {
    if v6 { Address(0x2001_0db8 << 96 | u128::from(n) << 70 | 9) } else { Address::v4(0x0a00_0000 + n * 77) }
}

/// Clients, each with the number of its address.
fn leases(given: &[(u32, u32)], v6: bool, gateway: Mac) -> Arc<LeasedAddresses> {
    let lease = |(client, n): &(u32, u32)| (*client, LeasedAddress { address: address(*n, v6), gateway });
    Arc::new(LeasedAddresses::new(CLIENTS as usize, given.iter().map(lease)))
}

/// Flows that ask every 100 ms, and are open until their server closes after 2 s.
fn slow(v6: bool) -> Scenario {
    let (pause, ask) =
        (Instruction::Delay { min_ns: 100 * MS, max_ns: 100 * MS }, Instruction::Send { payload: 0, wait: true });
    let mut client = vec![Instruction::Connect];
    client.extend((0..20).flat_map(|_| [ask.clone(), pause.clone()]));
    let server = vec![Instruction::Accept, Instruction::WaitForPeerClose];
    let mut of = scenario(Protocol::Tcp, client, server, vec![Payload::pattern(50)]);
    let servers = if v6 { Address(0x2001_0db8 << 96 | 1 << 32) } else { Address::v4(0x3000_0001) };
    let servers = Pool::new(servers, servers, Order::Sequential).expect("a pool");
    of.pools = vec![Pool::leased(v6, CLIENTS, Order::Sequential, FIRST_MAC), servers];
    let client = of.templates[0].client.as_mut().expect("clients");
    client.rate = Ratio::new(100, 1);
    client.limit = 100;
    of
}

fn worker(of: &Arc<Scenario>) -> Worker {
    let share = Share { worker: 0, workers: 1 };
    let owned = Box::new(|_: usize, _: u16, _: &spate_stateful::tuples::Tuple| true);
    let emulation = Emulation::new(Arc::clone(of), share, Sharding::ByNumber, owned, &LINKS, 1, START);
    Worker { emulation: emulation.expect("a share"), homeless: 0 }
}

fn start(of: Scenario, first: &Arc<LeasedAddresses>) -> Net<Worker> {
    let of = Arc::new(of);
    let mut net = Net::of(worker(&of), of, Path::default());
    lease(&mut net, first);
    net.stack.emulation.start(START);
    net.record = true;
    net
}

fn lease(net: &mut Net<Worker>, leases: &Arc<LeasedAddresses>) {
    net.stack.emulation.swap_leased(0, &mut [Arc::clone(leases), Arc::clone(leases)]);
}

fn counters(net: &Net<Worker>) -> &Counters {
    net.stack.emulation.counters(0, true)
}

/// Destination MAC, source MAC and source address of what clients sent since the last call.
fn sent(net: &mut Net<Worker>) -> BTreeSet<(Mac, Mac, Address)> {
    let sent = std::mem::take(&mut net.sent);
    let of_clients = sent.iter().filter(|(_, port, _)| *port == CLIENT_PORT).map(|(.., frame)| {
        let source = Packet::read(frame).expect("a packet").source;
        (*frame.first_chunk().expect("a MAC"), *frame[6..].first_chunk().expect("a MAC"), source)
    });
    of_clients.collect()
}

#[test]
fn flows_come_from_what_is_leased_and_go_to_the_gateway() {
    for v6 in [false, true] {
        let given = [(0, 5), (3, 1), (7, 9)];
        let mut net = start(slow(v6), &leases(&given, v6, GATEWAY));
        net.run_for(400 * MS);
        let expected = given.map(|(client, n)| (GATEWAY, mac(client), address(n, v6)));
        assert_eq!(sent(&mut net), expected.into());
        let moved = [4; 6];
        lease(&mut net, &leases(&given, v6, moved));
        net.run_for(MS);
        sent(&mut net);
        net.run_for(400 * MS);
        assert_eq!(sent(&mut net), expected.map(|(_, mac, address)| (moved, mac, address)).into());
        assert_eq!(counters(&net).get(Count::FlowsClientLost), 0);
    }
}

#[test]
fn flows_of_a_client_that_loses_its_address_end_without_a_packet_and_others_take_its_turns() {
    for v6 in [false, true] {
        let mut net = start(slow(v6), &leases(&[(0, 5), (3, 1), (7, 9)], v6, GATEWAY));
        net.run_for(300 * MS);
        let open = net.stack.emulation.open_flows(0, true);
        assert!((25..=31).contains(&open), "{open}");
        // Client 3 has lost its address to another, client 7 has another one, and client 4 has come.
        lease(&mut net, &leases(&[(0, 5), (4, 2), (6, 1), (7, 8)], v6, GATEWAY));
        net.run_for(MS);
        let lost = counters(&net).get(Count::FlowsClientLost);
        assert!((open * 2 / 3 - 1..=open * 2 / 3 + 1).contains(&lost), "{lost} of {open}");
        sent(&mut net);
        net.run_for(400 * MS);
        let has = [(0, 5), (4, 2), (6, 1), (7, 8)].map(|(client, n)| (GATEWAY, mac(client), address(n, v6)));
        assert_eq!(sent(&mut net), has.into());
        assert!(net.stack.homeless > 0, "servers of lost clients still send to them");
        let count = |count| counters(&net).get(count);
        assert_eq!(count(Count::FlowsAttempted), count(Count::FlowsClosed) + net.stack.emulation.open_flows(0, true));
        assert_eq!((count(Count::FlowsClientLost), count(Count::FlowsClosed)), (lost, lost));
        assert_eq!((count(Count::ResetsSent), count(Count::ResetsReceived), count(Count::TimeoutDrops)), (0, 0, 0));
        net.run_for(10_000 * MS);
        let count = |count| counters(&net).get(count);
        assert_eq!((count(Count::FlowsAttempted), count(Count::FlowsWithoutClient)), (100, 0));
        assert_eq!(net.stack.emulation.open_flows(0, true), 0);
    }
}

#[test]
fn no_flow_begins_while_no_client_has_an_address() {
    let mut net = start(slow(false), &Arc::default());
    net.run_for(500 * MS);
    let count = |net: &Net<Worker>, count| counters(net).get(count);
    let without = count(&net, Count::FlowsWithoutClient);
    assert!((49..=51).contains(&without), "{without}");
    assert_eq!((count(&net, Count::FlowsAttempted), count(&net, Count::PortsExhausted)), (0, 0));
    lease(&mut net, &leases(&[(2, 2)], false, GATEWAY));
    net.run_for(1000 * MS);
    assert_eq!(count(&net, Count::FlowsAttempted), 100 - without);
    assert_eq!(sent(&mut net), [(GATEWAY, mac(2), address(2, false))].into());
    lease(&mut net, &Arc::default());
    net.run_for(MS);
    assert_eq!(count(&net, Count::FlowsClientLost), 100 - without);
    assert_eq!(net.stack.emulation.flows(), (100 - without) as usize, "those of servers, which do not know");
}

/// A datagram to a client.
fn datagram(to: (Mac, Address), port: u16) -> Vec<u8> {
    let ends = Endpoints::of(address(60, to.1.is_v6()), to.1);
    let mut macs = [0; 12];
    macs[..6].copy_from_slice(&to.0);
    macs[6..].copy_from_slice(&GATEWAY);
    let below = LowerHeaders { macs, ends, tos: 0, ttl: 64, id: 0, finish: OffloadRequest::Nothing };
    let mut frame = vec![0; below.len() + UDP_HEADER];
    below.write_udp(&mut frame, (67, port), 0, 0);
    frame
}

#[test]
fn what_keeps_a_lease_is_left_to_others_and_frames_to_another_clients_mac_are_not_taken() {
    for (v6, lease_port) in [(false, 68), (true, 546)] {
        let of = Arc::new(slow(v6));
        let mut worker = worker(&of).emulation;
        let leases = leases(&[(3, 1)], v6, GATEWAY);
        worker.swap_leased(0, &mut [Arc::clone(&leases), leases]);
        let mut take = |mac, n, port| worker.receive(CLIENT_PORT, &datagram((mac, address(n, v6)), port), START);
        assert_eq!(take(mac(3), 1, lease_port), Received::Foreign);
        assert_eq!(take(mac(3), 1, 53), Received::Taken);
        assert_eq!(take(mac(4), 1, lease_port), Received::OtherMac);
        assert_eq!(take(mac(3), 2, lease_port), Received::OtherMac, "an offer");
    }
}

#[test]
fn each_tuple_is_taken_once_by_workers_of_engines_whatever_is_leased() {
    for engines in [1, 3] {
        let mut taken: BTreeMap<_, (u64, u32)> = BTreeMap::new();
        for (worker, index) in (0..2).flat_map(|worker| (0..engines).map(move |index| (worker, index))) {
            let mut of = slow(false);
            let part = spate_stateful::Part { index, of: engines };
            of.pools[0] = of.pools[0].part_of(part);
            let own = (0..CLIENTS).filter(|client| client % engines == index);
            // Every third of the engine's clients has none.
            let given = own.enumerate().filter(|(place, _)| place % 3 != 1).map(|(place, client)| {
                (place as u32, LeasedAddress { address: address(client, false), gateway: GATEWAY })
            });
            let leases = Arc::new(LeasedAddresses::new(CLIENTS as usize, given));
            let share = Share::of_engine(worker, 2, part);
            let lists = [(&of.templates[0].clients[..], &of.templates[0].servers[..])];
            let mut tuples = spate_stateful::tuples::Tuples::new(&of.pools, lists, share, Sharding::ByNumber).unwrap();
            tuples.swap_leased(0, &mut Arc::clone(&leases));
            for _ in 0..500 {
                // Those that are a worker's own may have none.
                let Some(tuple) = tuples.next(0, |_| true).map(|draw| draw.tuple) else { continue };
                let before = taken.insert((tuple.client, tuple.server, tuple.source_port), (worker, index));
                assert_eq!(before, None, "{tuple:?} of {worker} {index}");
                assert!(leases.find(tuple.client).is_some());
            }
        }
        assert!(taken.len() >= 1000, "{}", taken.len());
    }
}
