// SPDX-License-Identifier: Apache-2.0
//! Ports with addresses, against the kernel's own neighbor tables and ping.
use std::{
    collections::BTreeMap,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use spate_engine::datapath::{Blueprint, Datapath, Hop, Link, PollMode, PortDevice, RunState, StreamSpec, Template};
use spate_engine::index::PortIndex;
use spate_neighbour::{Config, Ping, PingEvent};

use crate::{
    answers::all,
    kernel::{answered, run, run_inside},
    packet_socket::{BATCH, PacketSocket, ROOM},
    setup::{MS, open, pps, spec, start, stream, turn, wait_for},
};

pub fn link(addresses: &[&str], vlan: Option<u16>) -> Link {
    let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
    Link { config: Config { addresses, vlan, ..Config::default() }, ..Link::default() }
}

fn with_gateways(mut link: Link, v4: &str, v6: Option<&str>) -> Link {
    link.config.gateway_v4 = Some(v4.parse().unwrap());
    link.config.gateway_v6 = v6.map(|gateway| gateway.parse().unwrap());
    link
}

/// An engine's port on `sp0`; its peer `sp1` is the kernel's.
pub fn east(link: Link) -> Datapath {
    let mut datapath = open(&[("east", PortDevice::Kernel("sp0".into()))], 1, PollMode::Auto);
    datapath.join(vec![("east".into(), link)]).unwrap();
    datapath
}

pub fn output(command: &[&str]) -> String {
    let output = Command::new(command[0]).args(&command[1..]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub fn mac_of(interface: &str) -> String {
    std::fs::read_to_string(format!("/sys/class/net/{interface}/address")).unwrap().trim().to_owned()
}

pub fn mac_bytes(text: &str) -> [u8; 6] {
    let bytes: Vec<u8> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    bytes.try_into().unwrap()
}

/// An IPv4 packet to an address, as a stream's template.
fn packet(to: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[30..34].copy_from_slice(&to);
    frame
}

#[test]
fn the_kernel_pings_a_port_and_each_side_knows_the_others_mac() {
    run_inside("slow::inside_ping", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_ping() {
    for command in [
        "sysctl -qw net.ipv6.conf.sp1.disable_ipv6=0",
        "ip address add 198.18.0.2/24 dev sp1",
        "ip address add 2001:db8::2/64 dev sp1 nodad",
        "ip route add default via 198.18.0.1",
    ] {
        run(&command.split(' ').collect::<Vec<_>>());
    }
    let link = link(&["198.18.0.1/24", "198.18.0.77/24", "2001:db8::1/64"], None);
    let datapath = east(with_gateways(link, "198.18.0.2", Some("2001:db8::2")));
    let (ours, theirs) = (mac_of("sp0"), mac_of("sp1"));

    // The engine finds the kernel's station: by its gateway, as a peer, and for both kinds of addresses.
    let to_peer = packet([198, 18, 0, 2]);
    let to_far = packet([48, 0, 0, 1]);
    let mut to_far_v6 = vec![0; 60];
    to_far_v6[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
    to_far_v6[38] = 0x20;
    let hops = datapath.next_hops(&[&to_peer, &to_far, &to_far_v6].map(|packet| (PortIndex(0), &packet[..])));
    let by = |neighbour: &str| Ok(Hop { mac: mac_bytes(&theirs), neighbour: Some(neighbour.parse().unwrap()) });
    assert_eq!(hops, ["198.18.0.2", "198.18.0.2", "2001:db8::2"].map(by));
    let port = &datapath.ports()[0];
    assert_eq!(port.addresses.len(), 3);
    let known: Vec<_> = port.gateways.iter().map(|gateway| (gateway.mac, gateway.problem.clone())).collect();
    assert_eq!(known, vec![(Some(mac_bytes(&theirs)), None); 2]);

    // The kernel finds the engine's addresses, and pings them.
    for (address, more) in [("198.18.0.1", "64"), ("198.18.0.77", "1400"), ("2001:db8::1", "1400")] {
        let answer = output(&["busybox", "ping", "-c", "3", "-i", "0.2", "-W", "2", "-s", more, address]);
        assert!(answered(&answer), "{answer}");
        let neighbours = output(&["ip", "neighbour", "show", "dev", "sp1", address]);
        assert!(neighbours.contains(&ours), "{neighbours}");
    }
    the_port_pings_the_kernel(&datapath);
    // Nobody answers for addresses that are not the port's.
    let answer = output(&["busybox", "ping", "-c", "1", "-W", "1", "198.18.0.78"]);
    assert!(answer.contains("100% packet loss"), "{answer}");
    let problem = datapath.next_hops(&[(PortIndex(0), &packet([198, 18, 0, 99]))]).remove(0).unwrap_err().to_string();
    assert_eq!(
        problem,
        "port east: next hop 198.18.0.99 did not answer 4 ARP requests within 3 s (port's addresses: 198.18.0.1/24, \
         198.18.0.77/24, 2001:db8::1/64, without VLAN): is it on this link, and is the link up?"
    );
}

#[test]
fn traffic_and_the_slow_path_do_not_hinder_each_other() {
    run_inside("slow::inside_traffic", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_traffic() {
    run(&["ip", "address", "add", "198.18.0.2/24", "dev", "sp1"]);
    let datapath = east(link(&["198.18.0.1/24"], None));
    let run_ = start(&datapath, spec(1, 0, Some(2500 * MS), vec![stream(1, 0, None, 60, pps(20_000))]));
    let answer = output(&["busybox", "ping", "-c", "3", "-i", "0.2", "-W", "2", "198.18.0.1"]);
    println!("{answer}");
    assert!(answered(&answer), "{answer}");
    wait_for(&run_, RunState::Complete, 5);
    let counters = run_.counters()[0].measured;
    assert_eq!((counters.tx_packets, counters.tx_dropped), (50_000, 0));
    // The kernel's packets to the address were no run's, and the answers were sent by the port.
    let port = &datapath.port_counters()[0];
    assert!(port.foreign_packets >= 4 && port.tx_packets >= 50_000 + 4, "{port:?}");
}

/// EtherType of the frames of `numbered`: no host answers it (IEEE 802).
const EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];

/// Frames of `numbered` streams that come to an interface: by number, the MACs that they are for, in order of arrival, and how many.
struct Seen {
    socket: PacketSocket,
    rooms: Box<[[u8; ROOM]; BATCH]>,
    by_number: BTreeMap<u8, Vec<([u8; 6], u64)>>,
}

impl Seen {
    fn on(interface: &str) -> Self {
        let rooms = Box::new([[0; ROOM]; BATCH]);
        Self { socket: PacketSocket::open(interface).unwrap(), rooms, by_number: BTreeMap::new() }
    }

    fn look(&mut self) {
        let mut lengths = [0; BATCH];
        loop {
            let taken = self.socket.receive(&mut self.rooms, &mut lengths).unwrap();
            if taken == 0 {
                return;
            }
            for frame in self.rooms[..taken].iter().filter(|frame| frame[12..14] == EXPERIMENTAL) {
                let (mac, macs) = (*frame.first_chunk().unwrap(), self.by_number.entry(frame[14]).or_default());
                match macs.last_mut() {
                    Some((last, count)) if *last == mac => *count += 1,
                    _ => macs.push((mac, 1)),
                }
            }
        }
    }

    /// Waits until the frames of a stream were for these, one after the other.
    fn await_macs(&mut self, number: u8, macs: &[[u8; 6]]) {
        let deadline = Instant::now() + Duration::from_secs(3);
        loop {
            self.look();
            let seen: Vec<_> = self.by_number.get(&number).into_iter().flatten().map(|(mac, _)| *mac).collect();
            if seen == macs {
                return;
            }
            assert!(Instant::now() < deadline, "stream {number}: {seen:x?}, not {macs:x?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn count(&self, number: u8) -> u64 {
        self.by_number[&number].iter().map(|(_, count)| count).sum()
    }
}

/// A stream to a next hop, whose frames have this number.
fn numbered(number: u8, len: usize, flow: bool, hop: Hop) -> StreamSpec {
    let mut frame = vec![number; len];
    frame[..6].copy_from_slice(&hop.mac);
    frame[12..14].copy_from_slice(&EXPERIMENTAL);
    let template = Template::new(&Blueprint { frame, flow, ..Blueprint::default() }).unwrap();
    StreamSpec { template, next_hop: hop.neighbour, ..stream(number.into(), 0, None, len, pps(500)) }
}

#[test]
fn a_run_follows_its_next_hop_to_another_mac() {
    run_inside("slow::inside_moves", "1500");
}

/// Two next hops at one MAC, of which first one is taken over by another station, and then the MAC of the other changes.
#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_moves() {
    all(&[
        "sysctl -qw net.ipv4.conf.all.arp_ignore=1",
        "sysctl -qw net.ipv4.conf.default.arp_notify=1",
        "sysctl -qw net.ipv4.conf.sp1.arp_notify=1",
        "ip address add 198.18.0.3/24 dev sp1",
        "ip address add 198.18.0.2/24 dev sp1",
        "ip link add link sp1 name mv1 type macvlan mode bridge",
        "ip address add 198.18.0.2/24 dev mv1",
    ]);
    let datapath = east(with_gateways(link(&["198.18.0.1/24"], None), "198.18.0.2", None));
    let (one, backup, other) = (mac_bytes(&mac_of("sp1")), mac_bytes(&mac_of("mv1")), [2, 0x99, 0, 0, 0, 1]);
    let packets = [packet([48, 0, 0, 1]), packet([198, 18, 0, 3])];
    let hops = datapath.next_hops(&[(PortIndex(0), &packets[0]), (PortIndex(0), &packets[1])]);
    let [gateway, peer] = [0, 1].map(|n| hops[n].clone().unwrap());
    assert_eq!((gateway.mac, peer.mac), (one, one));

    let mut seen = Seen::on("sp1");
    let short = vec![numbered(1, 60, false, gateway), numbered(2, 60, false, peer)];
    let cached = StreamSpec { cache: 16, ..numbered(4, 100, false, gateway) };
    let long = vec![numbered(3, 200, true, gateway), cached, numbered(5, 200, true, peer)];
    let runs = [(1, short), (2, long)].map(|(tag, streams)| start(&datapath, spec(tag, 0, Some(7000 * MS), streams)));
    // A neighbor that was heard a moment ago is not replaced.
    thread::sleep(Duration::from_millis(1500));
    (1..=5).for_each(|number| seen.await_macs(number, &[one]));

    all(&["ip address del 198.18.0.2/24 dev sp1", "ip link set mv1 up"]);
    [1, 3, 4].into_iter().for_each(|number| seen.await_macs(number, &[one, backup]));
    all(&["ip link set sp1 address 02:99:00:00:00:01"]);
    [2, 5].into_iter().for_each(|number| seen.await_macs(number, &[one, other]));
    [1, 3, 4].into_iter().for_each(|number| seen.await_macs(number, &[one, backup]));
    assert_eq!(datapath.neighbor_moves().collect::<Vec<_>>(), [("east", 2)]);

    // A run is prepared with what was known before.
    let late = start(&datapath, spec(3, 0, Some(500 * MS), vec![numbered(6, 60, false, gateway)]));
    wait_for(&late, RunState::Complete, 5);
    seen.look();
    assert_eq!(seen.by_number[&6].last().unwrap().0, backup);

    for (run, streams) in runs.iter().zip([&[1, 2][..], &[3, 4, 5]]) {
        wait_for(run, RunState::Complete, 10);
        seen.look();
        for (counters, number) in run.counters().iter().zip(streams) {
            assert_eq!((counters.measured.tx_packets, counters.measured.tx_dropped), (3500, 0));
            assert_eq!(seen.count(*number), 3500);
        }
    }
    assert_eq!(seen.socket.missed().unwrap(), 0);
}

#[test]
fn a_ports_vlan_is_on_all_it_says_and_needed_to_be_heard() {
    run_inside("slow::inside_vlan", "1500");
}

/// This kernel may have no VLAN devices: both ends are ports of ours, and tcpdump says what is between them.
#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_vlan() {
    let tcpdump = Command::new("timeout")
        .args(["60", "tcpdump", "-e", "-n", "-l", "-i", "sp0", "-c", "1", "vlan 100 and arp and arp[6:2] = 2"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    for (vlan, heard) in [(None, false), (Some(101), false), (Some(100), true)] {
        let ports = [("east", PortDevice::Kernel("sp0".into())), ("west", PortDevice::Kernel("sp1".into()))];
        let mut datapath = open(&ports, 1, PollMode::Auto);
        let east = with_gateways(link(&["198.18.0.1/24"], Some(100)), "198.18.0.2", None);
        datapath.join(vec![("east".into(), east), ("west".into(), link(&["198.18.0.2/24"], vlan))]).unwrap();
        let hop = datapath.next_hops(&[(PortIndex(0), &packet([48, 0, 0, 1]))]).remove(0);
        match heard {
            true => assert_eq!(hop.unwrap().mac, mac_bytes(&mac_of("sp1"))),
            false => assert!(hop.unwrap_err().to_string().contains("in VLAN 100"), "VLAN {vlan:?}"),
        }
    }
    let seen = String::from_utf8_lossy(&tcpdump.wait_with_output().unwrap().stdout).into_owned();
    assert!(seen.contains("vlan 100") && seen.contains("Reply 198.18.0.2 is-at"), "{seen}");
}

/// Over IPv4 and IPv6, and one whose requests a router does not pass on.
fn the_port_pings_the_kernel(datapath: &Datapath) {
    let ping = |to: &str, hop_limit| Ping {
        to: to.parse().unwrap(),
        from: None,
        count: 3,
        interval_ns: 50 * MS,
        timeout_ns: 1000 * MS,
        size: 1200,
        hop_limit,
    };
    let events = |ping: Ping| {
        let mut events = datapath.ping(PortIndex(0), ping).unwrap();
        std::iter::from_fn(move || events.blocking_recv()).collect::<Vec<_>>()
    };
    for to in ["198.18.0.2", "2001:db8::2"] {
        let events = events(ping(to, 64));
        let [PingEvent::Started(from, mac), replies @ .., PingEvent::Over] = &events[..] else {
            panic!("{to}: {events:?}");
        };
        assert_eq!((from.is_ipv4(), *mac), (!to.contains(':'), mac_bytes(&mac_of("sp1"))));
        for (number, reply) in replies.iter().enumerate() {
            let PingEvent::Reply { sequence, round_trip_ns, hop_limit: 64, corrupt: false } = reply else {
                panic!("{to}: {reply:?}");
            };
            assert_eq!(*sequence, number as u64);
            // What the slow path takes until it looks at the reply does not count.
            assert!((1..1000 * MS).contains(round_trip_ns), "{to}: {round_trip_ns} ns");
        }
        assert_eq!(replies.len(), 3, "{to}: {events:?}");
    }
    run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"]);
    let events = events(ping("48.0.0.1", 1));
    let router = "198.18.0.2".parse().unwrap();
    let exceeded = |sequence| PingEvent::Error { sequence, from: router, kind: 11, code: 0 };
    assert_eq!(events[1..], [exceeded(0), exceeded(1), exceeded(2), PingEvent::Over]);
    run(&["sysctl", "-qw", "net.ipv4.ip_forward=0"]);
}

#[test]
fn ports_without_addresses_find_no_next_hop() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy);
    let problem = datapath.next_hops(&[(PortIndex(0), &packet([198, 18, 0, 2]))]).remove(0).unwrap_err().to_string();
    assert!(problem.contains("has no address to find a next hop from"), "{problem}");
}
