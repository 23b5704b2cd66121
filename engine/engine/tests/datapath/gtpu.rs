// SPDX-License-Identifier: Apache-2.0
//! Clients in tunnels of GTP-U, on a port that gives back what it takes, where their servers are behind the UPF: every packet
//! passes through a tunnel there and back, whichever worker it arrives at.
use spate_engine::datapath::{Blueprint, PollMode, RunState, Template};
use spate_stateful::{Count, Protocol, Scenario, gtpu::Tunnels};
use spate_wire::{Headers, checksum};

use crate::setup::{MS, pps, start, stream, turn, wait_for};
use crate::stateful::{assert_all_complete, emulated, loopback, over_v4, scenario, v4, v6};

fn tunnels() -> Tunnels {
    Tunnels {
        local: v4(172, 16, 0, 10),
        local_count: 4,
        remote: v4(172, 16, 0, 1),
        uplink: 0x100,
        downlink: 0x8000_0000,
        step: 1,
        qfi: Some(5),
        mirror: true,
    }
}

fn through(tunnels: Tunnels, mut scenario: Scenario) -> Scenario {
    scenario.pools[0].tunnels = Some(tunnels);
    scenario
}

fn complete(workers: usize, poll: PollMode, scenario: Scenario) {
    let _turn = turn();
    let datapath = loopback(workers, poll);
    // Only what is in a tunnel may pass.
    let tunnels = scenario.pools[0].tunnels.unwrap();
    let inside = move |frame: &[u8]| {
        let headers = Headers::find(frame).unwrap();
        let (udp, at) = headers.transport.unwrap();
        (udp, frame[at + 2..at + 4] == 2152u16.to_be_bytes(), frame[at + 9]) == (17, true, 255)
    };
    datapath.disturb(
        0,
        Box::new(move |burst: &[(&[u8], usize)]| (0..burst.len()).filter(|at| inside(burst[*at].0)).collect()),
    );
    let protocol = scenario.templates[0].protocol;
    let run = start(&datapath, emulated(&datapath, 7, Some(1000 * MS), scenario));
    wait_for(&run, RunState::Complete, 10);
    let sides = run.template_counters();
    let (client, server) = assert_all_complete(&sides, 1000);
    assert_eq!(run.contradictions(), Vec::<String>::new());
    let (received, bytes) = match protocol {
        Protocol::Tcp => (Count::ReceivedDataBytes, [crate::stateful::RESPONSE, crate::stateful::REQUEST]),
        Protocol::Udp => (Count::MessageBytesReceived, [1000, crate::stateful::REQUEST]),
    };
    assert_eq!([client, server].map(|side| side.get(received)), bytes.map(|bytes| 1000 * bytes));
    for side in [client, server] {
        assert_eq!([Count::GtpuUnknownTunnel, Count::GtpuMalformed].map(|count| side.get(count)), [0, 0]);
    }
    // Each packet is longer by as much as is said, and all that came was theirs.
    let sent = client.get(Count::SentPackets) + server.get(Count::SentPackets);
    let port = &datapath.port_counters()[0];
    assert_eq!((port.tx_packets, port.rx_packets, port.foreign_packets), (sent, sent, 0));
    let (headers, data) = match protocol {
        // Its data alone, and headers without options.
        Protocol::Tcp => (54, 1000 * bytes.iter().sum::<u64>()),
        Protocol::Udp => (42, 1000 * bytes.iter().sum::<u64>()),
    };
    assert!(port.tx_bytes >= data + sent * (headers + tunnels.overhead() as u64 + 4), "{}", port.tx_bytes);
    assert_eq!(port.tx_bytes, port.rx_bytes);
    // The hash outside has nothing to do with the flow's worker.
    let handed: u64 = run.steering().iter().map(|s| s.handed_off).sum();
    let lost: u64 = run.steering().iter().map(|s| s.handoff_lost).sum();
    assert_eq!((handed > 0, lost), (workers > 1, 0), "{:?}", run.steering());
}

#[test]
fn a_thousand_connections_in_tunnels_complete_with_one_worker_and_with_two() {
    complete(1, PollMode::Busy, through(tunnels(), over_v4(Protocol::Tcp, 1000)));
    complete(2, PollMode::Busy, through(tunnels(), over_v4(Protocol::Tcp, 1000)));
}

#[test]
fn connections_over_ipv6_in_tunnels_over_ipv6_complete() {
    let over_v6 = |protocol| scenario(protocol, 1000, [v6(1, 1), v6(1, 0xff)], [v6(2, 1), v6(2, 0x20)]);
    let tunnels = Tunnels { local: v6(7, 10), remote: v6(7, 1), qfi: None, ..tunnels() };
    complete(2, PollMode::Busy, through(tunnels, over_v6(Protocol::Tcp)));
    complete(2, PollMode::Adaptive, through(tunnels, over_v6(Protocol::Udp)));
}

/// A packet for the first client, in a tunnel of that TEID from the UPF to the first gNB.
fn g_pdu(teid: u32) -> Vec<u8> {
    let header = |protocol: u8, len: usize, from: [u8; 4], to: [u8; 4]| {
        let mut header = vec![0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0, 0, 64, protocol, 0, 0];
        header.extend([from, to].concat());
        let sum = checksum::checksum(checksum::sum(&header));
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    };
    let words = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let inside = [header(17, 40, [48, 0, 0, 1], [16, 0, 0, 1]), words(&[80, 5, 20, 0]), vec![0; 12]].concat();
    let gtp = [words(&[0x30ff, 40, (teid >> 16) as u16, teid as u16]), inside].concat();
    let outside = header(17, 28 + gtp.len(), [172, 16, 0, 1], [172, 16, 0, 10]);
    [vec![0; 12], vec![8, 0], outside, words(&[2152, 2152, 8 + gtp.len() as u16, 0]), gtp].concat()
}

#[test]
fn packets_in_a_wrong_tunnel_are_counted_beside_flows_that_complete() {
    let _turn = turn();
    for (teid, unknown) in [(0x8000_0000, 0), (0x8000_0001, 50), (0x100, 50)] {
        let datapath = loopback(2, PollMode::Busy);
        let mut spec = emulated(&datapath, 7, Some(500 * MS), through(tunnels(), over_v4(Protocol::Udp, 200)));
        let mut forged = stream(1, 0, None, 60, pps(100));
        forged.template =
            Template::new(&Blueprint { frame: g_pdu(teid), flow: false, ..Blueprint::default() }).unwrap();
        spec.streams = vec![forged];
        let run = start(&datapath, spec);
        wait_for(&run, RunState::Complete, 10);
        let sides = run.template_counters();
        assert_all_complete(&sides, 100);
        let client = &sides[0];
        assert_eq!((client.get(Count::GtpuUnknownTunnel), client.get(Count::GtpuMalformed)), (unknown, 0), "{teid:x}");
        assert_eq!(datapath.port_counters()[0].foreign_packets, 0);
    }
}

#[test]
fn gnbs_are_in_one_run_only() {
    let _turn = turn();
    let datapath = loopback(1, PollMode::Busy);
    let first = datapath.prepare(emulated(&datapath, 1, None, through(tunnels(), over_v4(Protocol::Tcp, 1)))).unwrap();
    let others = || scenario(Protocol::Tcp, 1, [v4(17, 0, 0, 1), v4(17, 0, 0, 9)], [v4(49, 0, 0, 1), v4(49, 0, 0, 9)]);
    let refused = datapath.prepare(emulated(&datapath, 2, None, through(tunnels(), others()))).map(|_| ());
    let expected =
        "stateful.templates[0].client_port: run \"run-1\" answers for addresses from 172.16.0.10 to 172.16.0.13 on a";
    let told = refused.unwrap_err().to_string();
    assert!(told.starts_with(expected), "{told}");
    let apart = Tunnels { local: v4(172, 16, 1, 10), remote: v4(172, 16, 1, 1), ..tunnels() };
    datapath.prepare(emulated(&datapath, 2, None, through(apart, others()))).unwrap().remove();
    first.remove();
}
