// SPDX-License-Identifier: Apache-2.0
//! Ports with addresses, against the kernel's own neighbour tables and ping.
use std::process::Command;

use spate_engine::datapath::{Datapath, Link, PollMode, PortDevice, RunState};
use spate_neighbour::{Config, Ping, PingEvent};

use crate::{
    kernel::{answered, run, run_inside},
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
    let hops = datapath.next_hops(&[(0, &to_peer), (0, &to_far), (0, &to_far_v6)]);
    assert_eq!(hops, vec![Ok(mac_bytes(&theirs)); 3]);
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
    let problem = datapath.next_hops(&[(0, &packet([198, 18, 0, 99]))]).remove(0).unwrap_err().to_string();
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
        let hop = datapath.next_hops(&[(0, &packet([48, 0, 0, 1]))]).remove(0);
        match heard {
            true => assert_eq!(hop, Ok(mac_bytes(&mac_of("sp1")))),
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
        let mut events = datapath.ping(0, ping).unwrap();
        std::iter::from_fn(move || events.blocking_recv()).collect::<Vec<_>>()
    };
    for to in ["198.18.0.2", "2001:db8::2"] {
        let events = events(ping(to, 64));
        let [PingEvent::Begun(from, mac), replies @ .., PingEvent::Over] = &events[..] else {
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
    let problem = datapath.next_hops(&[(0, &packet([198, 18, 0, 2]))]).remove(0).unwrap_err().to_string();
    assert!(problem.contains("has no address to find a next hop from"), "{problem}");
}
