// SPDX-License-Identifier: Apache-2.0
//! Clients in tunnels of GTP-U, on a port that gives back what it takes, where their servers are behind the UPF: every packet
//! passes through a tunnel there and back, whichever worker it arrives at.
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use spate_engine::datapath::{Blueprint, PollMode, RunState, Template};
use spate_net::{
    Headers, checksum,
    oracle::{Inner, Tunnel},
};
use spate_stateful::{
    Count, Protocol, Scenario,
    gtpu::Gtpu,
    tunnel::{Kind, TunnelDirection, Tunnels},
};

use crate::answers::{all, one_side, resolved};
use crate::kernel::run_inside;
use crate::setup::{MS, pps, start, stream, turn, wait_for};
use crate::slow::{east, link};
use crate::stateful::{assert_all_complete, emulated, keep_only, loopback, over_v4, scenario, v4, v6};

pub fn tunnels() -> Tunnels {
    Tunnels {
        local: v4(172, 16, 0, 10),
        local_count: 4,
        remote: v4(172, 16, 0, 1),
        uplink: 0x100,
        downlink: 0x8000_0000,
        step: 1,
        mirror: true,
        kind: Kind::Gtpu(Gtpu { qfi: Some(5) }),
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
        matches!(Inner::of(&headers, frame), Some(Inner { tunnel: Tunnel::Gtpu { .. }, .. }))
    };
    keep_only(&datapath, inside);
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
    // Each packet is longer by the overhead, and all that came was theirs.
    let sent = client.get(Count::SentPackets) + server.get(Count::SentPackets);
    let port = &datapath.port_counters()[0];
    assert_eq!((port.tx_packets, port.rx_packets, port.foreign_packets), (sent, sent, 0));
    let (headers, data) = match protocol {
        // Its data alone, and headers without options.
        Protocol::Tcp => (54, 1000 * bytes.iter().sum::<u64>()),
        Protocol::Udp => (42, 1000 * bytes.iter().sum::<u64>()),
    };
    assert!(
        port.tx_bytes >= data + sent * (headers + tunnels.encap(TunnelDirection::Up).overhead() as u64 + 4),
        "{}",
        port.tx_bytes
    );
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
    let tunnels = Tunnels { local: v6(7, 10), remote: v6(7, 1), kind: Kind::Gtpu(Gtpu { qfi: None }), ..tunnels() };
    complete(2, PollMode::Busy, through(tunnels, over_v6(Protocol::Tcp)));
    complete(2, PollMode::Adaptive, through(tunnels, over_v6(Protocol::Udp)));
}

/// An IPv4 header without options.
pub fn header(protocol: u8, len: usize, from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    let mut header = vec![0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0, 0, 64, protocol, 0, 0];
    header.extend([from, to].concat());
    let sum = checksum::checksum(checksum::sum(&header));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

/// In network order.
pub fn words(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A packet for the first client, in a tunnel of that TEID from the UPF to the first gNB.
fn g_pdu(teid: u32) -> Vec<u8> {
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
    let error = refused.unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
    let apart = Tunnels { local: v4(172, 16, 1, 10), remote: v4(172, 16, 1, 1), ..tunnels() };
    datapath.prepare(emulated(&datapath, 2, None, through(apart, others()))).unwrap().remove();
    first.remove();
}

/// A UPF on the kernel's UDP: it finds gNBs by asking for them, and verifies what comes from them. Servers are in it: they give
/// messages back, for which it is enough to swap addresses and ports.
struct Upf {
    socket: UdpSocket,
    gnbs: [IpAddr; 4],
}

impl Upf {
    /// Serves this many messages.
    fn serve(&self, messages: u32) {
        let mut buffer = [0; 2048];
        for _ in 0..messages {
            let (len, from) = self.socket.recv_from(&mut buffer).expect("a message within ten seconds");
            let message = &mut buffer[..len];
            assert_eq!((message[0], message[1], usize::from(message[3])), (0x34, 255, (len - 8) & 0xff));
            let n = u32::from_be_bytes(message[28..32].try_into().unwrap()) - 0x1000_0001;
            let container = [0, 0, 0, 0x85, 1, 0x10, 5, 0];
            assert_eq!((&message[4..8], &message[8..16]), (&(0x100 + n).to_be_bytes()[..], &container[..]));
            assert_eq!(from.ip(), self.gnbs[n as usize % 4]);
            let inner = &mut message[16..];
            for (a, b, len) in [(12, 16, 4), (20, 22, 2)] {
                let (front, back) = inner.split_at_mut(b);
                front[a..a + len].swap_with_slice(&mut back[..len]);
            }
            message[4..8].copy_from_slice(&(0x8000_0000 + n).to_be_bytes());
            message[13] = 0;
            self.socket.send_to(message, SocketAddr::new(from.ip(), 2152)).unwrap();
        }
    }

    /// Whether a gNB is there.
    fn asks(&self, gnb: IpAddr) -> bool {
        self.socket.send_to(&[0x32, 1, 0, 4, 0, 0, 0, 0, 7, 9, 0, 0], SocketAddr::new(gnb, 2152)).unwrap();
        let mut buffer = [0; 64];
        let Ok((len, from)) = self.socket.recv_from(&mut buffer) else { return false };
        assert_eq!(
            (from, &buffer[..len]),
            (SocketAddr::new(gnb, 2152), &[0x32, 2, 0, 6, 0, 0, 0, 0, 7, 9, 0, 0, 14, 0][..])
        );
        true
    }
}

#[test]
fn a_upf_on_the_kernels_udp_finds_gnbs_and_is_found() {
    run_inside("gtpu::inside_upf", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_upf() {
    all(&[
        "sysctl -qw net.ipv6.conf.sp1.disable_ipv6=0",
        "ip address add 10.9.0.2/16 dev sp1",
        "ip address add 2001:db8:0:9::2/64 dev sp1 nodad",
        "ethtool -K sp1 tx off",
    ]);
    // Nobody knows the way to the servers.
    let datapath = east(link(&["10.9.0.1/16", "2001:db8:0:9::1/64"], None));
    let ends = [(v4(10, 9, 1, 10), v4(10, 9, 0, 2)), (v6(9, 0x10), v6(9, 2))];
    for (local, remote) in ends {
        let (gnb, upf) = (IpAddr::from(local), IpAddr::from(remote));
        let gnbs = [0, 1, 2, 3].map(|n| match gnb {
            IpAddr::V4(v4) => IpAddr::from(Ipv4Addr::from_bits(v4.to_bits() + n)),
            IpAddr::V6(v6) => IpAddr::from(std::net::Ipv6Addr::from_bits(v6.to_bits() + u128::from(n))),
        });
        let socket = UdpSocket::bind(SocketAddr::new(upf, 2152)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let upf = Upf { socket, gnbs };
        let tunnels = Tunnels { local, remote, mirror: false, ..tunnels() };
        let mut clients = through(tunnels, one_side(over_v4(Protocol::Udp, 200), true));
        clients.templates[0].latency = false;
        let run = start(&datapath, resolved(&datapath, clients));
        thread::scope(|scope| scope.spawn(|| upf.serve(100)).join().unwrap());
        assert!(upf.asks(gnbs[3]), "{gnb}");
        wait_for(&run, RunState::Complete, 10);
        let client = &run.template_counters()[0];
        let counts =
            [Count::FlowsAttempted, Count::MessagesReceived, Count::FlowsClosed].map(|count| client.get(count));
        assert_eq!((counts, client.get(Count::GtpuEchoes)), ([100; 3], 1));
        assert_eq!([Count::GtpuUnknownTunnel, Count::GtpuMalformed].map(|count| client.get(count)), [0, 0]);
        run.remove();
    }
}
