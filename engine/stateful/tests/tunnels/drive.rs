// SPDX-License-Identifier: Apache-2.0
//! Gives envelopes frames of any bytes, in headers that lead to GTP-U, GRE and MPLS or not, and puts packets of clients into tunnels and
//! takes them out again. Shared by a property test and a fuzz target.
use std::sync::Arc;

use spate_net::{
    checksum::{checksum, sum},
    mpls::Entry,
};
use spate_stateful::{
    Address, Client, Counters, Pool, PortLink, Program, Protocol, Ratio, Scenario, Server, Template, Tunables,
    WeightedPool, arrivals,
    envelope::{Arrival, Envelopes, Ports},
    gre::Gre,
    gtpu::Gtpu,
    mpls::Mpls,
    pool::Order,
    tunnel::{Kind, Tunnels},
};

const GNB: u32 = 0xac10_000a;
const UPF: u32 = 0xac10_0001;
const CLIENT: u32 = 0x1000_0000;
const TEID: u32 = 0x100;

/// An entry at the bottom of a label stack.
const fn bottom(label: u32) -> u32 {
    Entry { label, traffic_class: 0, ttl: 64 }.bits(true)
}

fn envelopes(kind: Kind) -> Box<Envelopes> {
    let pool = |first: u32| Pool::new(Address::v4(first), Address::v4(first + 7), Order::Sequential).expect("a pool");
    let mut clients = pool(CLIENT);
    let (local, remote) = (Address::v4(GNB), Address::v4(UPF));
    let (first, step) = match kind {
        Kind::Mpls(_) => (bottom(TEID), 2 << 12),
        _ => (TEID, 2),
    };
    let tunnels = Tunnels { local, local_count: 2, remote, uplink: first, downlink: first, step, mirror: true, kind };
    clients.tunnels = Some(tunnels);
    let program = || Program { instructions: Box::default(), counters: Box::default() };
    let tunables = Tunables::default();
    let client =
        Client { port: 0, program: program(), tunables: tunables.clone(), rate: Ratio::ONE, limit: 0, most_open: 0 };
    let taken = |pool| vec![WeightedPool { pool, weight: 1 }];
    let scenario = Scenario {
        payloads: vec![],
        pools: vec![clients, pool(0x3000_0000)],
        templates: vec![Template {
            name: "t".into(),
            group: "t".into(),
            protocol: Protocol::Udp,
            destination_port: 80,
            clients: taken(0),
            servers: taken(1),
            client: Some(client),
            server: Some(Server { port: 1, program: program(), tunables, matches: vec![] }),
            looped: false,
            seed: 1,
            latency: false,
        }],
        most_flows: 1,
        ramp_up: 0.into(),
        order: arrivals::Order::default(),
        ignored: None,
    };
    let known = Ports { links: &[PortLink::default(); 2], ..Ports::default() };
    Envelopes::new(&scenario, &known, |_, _| Arc::<Counters>::default()).expect("it has tunnels")
}

/// An Ethernet frame of a packet from the remote end to the first near end.
fn to_near_end(protocol: u8, body: &[u8]) -> Vec<u8> {
    let len = 20 + body.len() as u16;
    let mut header = vec![0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0, 0, 64, protocol, 0, 0];
    header.extend([UPF.to_be_bytes(), GNB.to_be_bytes()].concat());
    let check = checksum(sum(&header));
    header[10..12].copy_from_slice(&check.to_be_bytes());
    [&[0; 12][..], &[8, 0], &header, body].concat()
}

/// The same of a UDP datagram of GTP-U.
fn to_gnb(message: &[u8]) -> Vec<u8> {
    let udp = [2152u16, 2152, 8 + message.len() as u16, 0].map(u16::to_be_bytes).concat();
    to_near_end(17, &[&udp[..], message].concat())
}

/// Reads what bytes say.
pub fn drive(bytes: &[u8]) {
    let (choice, rest) = bytes.split_first().unwrap_or((&0, &[]));
    in_gre_and_labels(*choice, rest);
    let mut envelopes = envelopes(Kind::Gtpu(Gtpu { qfi: (choice & 1 == 1).then_some(choice >> 2) }));
    envelopes.receive(0, rest);
    envelopes.receive(1, rest);
    envelopes.receive(0, &to_gnb(rest));
    // As a G-PDU of the first client's tunnel, or another's.
    let teid = TEID + u32::from(choice >> 1 & 1);
    let mut message = vec![0x30 | choice >> 5, 255];
    message.extend((rest.len() as u16).to_be_bytes());
    message.extend(teid.to_be_bytes());
    message.extend(rest);
    if let Arrival::Inner(frame) = envelopes.receive(0, &to_gnb(&message)) {
        assert_eq!(teid, TEID, "it came through the client's own tunnel");
        assert_for_the_first_client(frame);
        assert!(frame.ends_with(&rest[rest.len() - (frame.len() - 14)..]));
    }
    there_and_back(&mut envelopes, *choice, rest);
}

/// The same by way of GRE and of MPLS.
fn in_gre_and_labels(choice: u8, rest: &[u8]) {
    let above = vec![Entry { label: 7, ..Entry::default() }; usize::from(choice & 7)];
    for kind in [
        Kind::Gre(Gre { keyed: choice & 1 == 1 }),
        Kind::Mpls(Mpls::new(&above, false).expect("at most 7 labels above")),
    ] {
        let mut envelopes = envelopes(kind);
        let mpls = [&[0; 12][..], &[0x88, 0x47]].concat();
        for frame in [rest.to_vec(), to_near_end(47, rest), [&mpls[..], rest].concat()] {
            for port in [0, 1] {
                envelopes.receive(port, &frame);
            }
        }
        // In the first client's tunnel, or another's.
        let id = TEID + u32::from(choice >> 1 & 1);
        let frame = match kind {
            Kind::Gre(_) => to_near_end(47, &[&[0x20, 0, 8, 0][..], &id.to_be_bytes(), rest].concat()),
            _ => [&mpls[..], &bottom(id).to_be_bytes(), rest].concat(),
        };
        if let Arrival::Inner(frame) = envelopes.receive(0, &frame) {
            assert_eq!(id, TEID, "it came through the client's own tunnel");
            assert_for_the_first_client(frame);
        }
        there_and_back(&mut envelopes, choice, rest);
    }
}

fn assert_for_the_first_client(frame: &[u8]) {
    let v4 = frame.len() >= 34 && frame[14] >> 4 == 4 && frame[12..14] == [8, 0];
    assert!(v4 && frame[30..34] == CLIENT.to_be_bytes(), "it is for the first client");
}

/// A packet of a client arrives at the UPF as it left, with the MACs outside.
fn there_and_back(envelopes: &mut Envelopes, choice: u8, data: &[u8]) {
    let client = CLIENT + u32::from(choice & 7);
    let len = 20 + data.len() as u16;
    let mut inner = vec![0; 12];
    inner.extend([8, 0, 0x45, choice, (len >> 8) as u8, len as u8, 0, 0, 0, 0, 64, 17, 0, 0]);
    inner.extend([client.to_be_bytes(), 0x3000_0001u32.to_be_bytes()].concat());
    inner.extend(data);
    let gap = envelopes.gap(0);
    let mut frame = vec![0; gap];
    frame.extend(&inner);
    let len = envelopes.encapsulate(0, &mut frame);
    assert_eq!(len, inner.len() + gap);
    assert_eq!(envelopes.receive(1, &frame), Arrival::Inner(&inner));
    // One that is nobody's goes as it is.
    let mut other = vec![0; gap];
    other.extend(&inner);
    other[gap + 26] = 99;
    inner[26] = 99;
    let len = envelopes.encapsulate(0, &mut other);
    assert_eq!(other[..len], inner);
}
