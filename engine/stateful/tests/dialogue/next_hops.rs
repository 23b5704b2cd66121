// SPDX-License-Identifier: Apache-2.0
//! Next hops that have another MAC while flows are open.
use spate_stateful::{Address, Instruction, MovedRouter, NextHops};

use super::net::{CLIENT_PORT, SERVER_PORT};
use super::peer::{MSS, Peer, SEND, plain};

/// Where the test's segments come from.
const FORMER: [u8; 6] = [2; 6];
const NEW: [u8; 6] = [2, 0, 0, 0, 0, 7];

/// The destinations of what a stack sends again, as nothing was acknowledged, before its next hops change and after.
fn destinations(mut peer: Peer, port: usize, mut hops: NextHops) -> [Vec<[u8; 6]>; 2] {
    peer.handshake(MSS, 65_535);
    let sent = |peer: &mut Peer| {
        peer.wait(3000);
        let mut macs: Vec<[u8; 6]> = peer.all().iter().map(|reply| *reply.frame.first_chunk().unwrap()).collect();
        macs.dedup();
        macs
    };
    let before = sent(&mut peer);
    assert!(!peer.stack.redirects());
    peer.stack.swap_next_hops(port, &mut hops);
    while peer.stack.redirects() {
        peer.stack.redirect();
    }
    [before, sent(&mut peer)]
}

#[test]
fn an_open_connection_of_a_client_goes_on_at_the_next_hops_other_mac() {
    let client = || Peer::client(vec![Instruction::Connect, SEND], 1000, plain());
    let former = [2, 0, 0, 0, 0, 2];
    let others = NextHops { others: [NEW, former], ..NextHops::default() };
    assert_eq!(destinations(client(), CLIENT_PORT, others), [[former], [NEW]]);
    let neighbours = [(Address::v4(48 << 24 | 1), NEW)].into();
    let neighbour = NextHops { neighbours, others: [former; 2], ..NextHops::default() };
    assert_eq!(destinations(client(), CLIENT_PORT, neighbour), [[former], [NEW]]);
    let v6 = NextHops { others: [former, NEW], ..NextHops::default() };
    assert_eq!(destinations(client(), CLIENT_PORT, v6), [[former], [former]]);
}

#[test]
fn an_open_connection_of_a_server_goes_on_at_the_other_mac_of_its_clients_router() {
    let server = || Peer::server(vec![Instruction::Accept, SEND], 1000, plain());
    let moved: Box<[_]> = [MovedRouter { v6: false, mac: NEW, former: [FORMER].into() }].into();
    let hops = NextHops { moved: moved.clone(), ..NextHops::default() };
    assert_eq!(destinations(server(), SERVER_PORT, hops.clone()), [[FORMER], [NEW]]);
    // The client is on the link: it is no router's.
    let on_link = [(Address::v4(16 << 24), Address::v4((17 << 24) - 1))].into();
    assert_eq!(destinations(server(), SERVER_PORT, NextHops { on_link, ..hops }), [[FORMER], [FORMER]]);
    let unknown: Box<[_]> = [MovedRouter { former: [[4; 6]].into(), ..moved[0].clone() }].into();
    let hops = NextHops { moved: unknown, ..NextHops::default() };
    assert_eq!(destinations(server(), SERVER_PORT, hops), [[FORMER], [FORMER]]);
}
