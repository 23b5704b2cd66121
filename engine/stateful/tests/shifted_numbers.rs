// SPDX-License-Identifier: Apache-2.0
//! Something between two ends has changed sequence numbers and lost its state: each end's segments lie out of the other's window.
//! They answer with challenge ACKs, now and then, and make no storm of it.
mod net;

use net::{CLIENT_PORT, MS, Net, Path, over_ipv6, scenario};
use spate_net::checksum;
use spate_stateful::{Count, Instruction, Payload, Protocol};

const SECOND: u64 = 1_000 * MS;
const FLOWS: u64 = 20;
/// A segment's header behind headers of Ethernet and IPv4.
const TCP: usize = 14 + 20;

/// Moves a segment's sequence number, or where it says so its acknowledgement.
fn shift(frame: &mut [u8], at: usize, by: u32) {
    let field: [u8; 4] = frame[at..at + 4].try_into().expect("four bytes");
    let moved = u32::from_be_bytes(field).wrapping_add(by);
    frame[at..at + 4].copy_from_slice(&moved.to_be_bytes());
    frame[TCP + 16..TCP + 18].fill(0);
    let len = frame.len() - TCP;
    let sum = checksum::sum(&frame[26..34]) + 6 + len as u64 + checksum::sum(&frame[TCP..]);
    let check = checksum::checksum(sum).to_be_bytes();
    frame[TCP + 16..TCP + 18].copy_from_slice(&check);
}

fn both_ways(_: usize, frame: &mut [u8]) {
    shift(frame, TCP + 4, 1 << 30);
}

fn one_way(port: usize, frame: &mut [u8]) {
    // As a firewall does: what it adds to one end's numbers it takes off the other's acknowledgements.
    if port == CLIENT_PORT {
        shift(frame, TCP + 4, 1 << 30)
    } else {
        shift(frame, TCP + 8, 0_u32.wrapping_sub(3 << 29))
    }
}

/// The acknowledgements of both ends, a second, while each end's data lies out of the other's window.
fn storm(rewrite: fn(usize, &mut [u8]), timestamps: bool) -> (u64, u64) {
    let send = Instruction::Send { payload: 0, wait: true };
    let pause = Instruction::Delay { min_ns: SECOND, max_ns: SECOND };
    let talk = |open: Instruction| vec![open, pause.clone(), send.clone(), Instruction::WaitForPeerClose];
    let (client, server) = (talk(Instruction::Connect), talk(Instruction::Accept));
    let mut of = scenario(Protocol::Tcp, client, server, vec![Payload::pattern(100)]);
    for template in &mut of.templates {
        let client = template.client.as_mut().map(|client| &mut client.tunables);
        let server = template.server.as_mut().map(|server| &mut server.tunables);
        client.into_iter().chain(server).for_each(|tunables| tunables.timestamps = timestamps);
    }
    let mut net = Net::new(of, Path::default());
    (0..FLOWS).for_each(|_| net.open(0));
    net.run_for(SECOND / 2);
    assert_eq!(net.count(true, Count::FlowsEstablished), FLOWS);
    net.rewrite = Some(rewrite);
    net.run_for(SECOND);
    let counted = |net: &Net, count| net.count(true, count) + net.count(false, count);
    let acks = counted(&net, Count::SentAckPackets);
    net.run_for(10 * SECOND);
    let sent = counted(&net, Count::SentAckPackets) - acks;
    (sent, counted(&net, Count::AcksSuppressed))
}

#[test]
fn ends_whose_numbers_were_shifted_answer_each_other_twice_a_second_at_most() {
    for rewrite in [both_ways, one_way] {
        for timestamps in [false, true] {
            let (sent, suppressed) = storm(rewrite, timestamps);
            // Each end of each flow answers twice a second, and each segment with data that is sent again, some ten.
            let most = FLOWS * 2 * (2 * 10 + 12);
            assert!(sent <= most, "{sent} acknowledgements in 10 s, of {FLOWS} flows; {suppressed} suppressed");
            assert!(suppressed > 0, "{sent} acknowledgements");
        }
    }
}

#[test]
fn ends_that_agree_suppress_nothing() {
    for v6 in [false, true] {
        let (client, server, payloads) = net::request_response(1000, 100_000);
        let of = scenario(Protocol::Tcp, client, server, payloads);
        let path = Path { loss: 20_000, late: 50_000, duplicates: 20_000, ..Path::default() };
        let mut net = Net::new(if v6 { over_ipv6(of) } else { of }, path);
        (0..50).for_each(|_| net.open(0));
        net.run_for(600 * SECOND);
        assert_eq!(net.count(true, Count::FlowsClosed), 50, "{}", net.summary());
        let suppressed = net.count(true, Count::AcksSuppressed) + net.count(false, Count::AcksSuppressed);
        let received = net.count(true, Count::ReceivedPackets) + net.count(false, Count::ReceivedPackets);
        assert!(suppressed * 50 < received, "{suppressed} of {received}: only copies of acknowledgements");
    }
}
