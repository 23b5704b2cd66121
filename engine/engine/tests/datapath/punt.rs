// SPDX-License-Identifier: Apache-2.0
//! Punts: the kernel sends through a port, and receives what the filter takes.
use std::process::{Child, Command};

use spate_engine::datapath::{Link, OpenError, PollMode, PortDevice, Punt, RunState};
use spate_engine::index::PortIndex;
use spate_neighbour::{Ping, PingEvent};

use crate::{
    kernel::{answered, run, run_inside},
    setup::{MS, assert_all_received, open, pps, spec, start, stream, wait_for},
    slow::{link, mac_of, output},
};

fn punt(interface: &str, filter: &str) -> Link {
    let filter = spate_dpdk::compile(filter).unwrap();
    Link { punt: Some(Punt::new(interface, filter)), ..Link::default() }
}

/// Another network namespace, as long as a process of its own lives.
struct Elsewhere(Child);

impl Elsewhere {
    fn new() -> Self {
        let this = Self(Command::new("unshare").args(["--net", "sleep", "120"]).spawn().unwrap());
        // Until it has gone there, it is here.
        let here = std::fs::read_link("/proc/self/ns/net").unwrap();
        while std::fs::read_link(format!("/proc/{}/ns/net", this.0.id())).is_ok_and(|there| there == here) {
            std::thread::yield_now();
        }
        this
    }

    fn output(&self, command: &str) -> String {
        let pid = self.0.id().to_string();
        let inside = ["--net", "--target", &pid];
        let output = Command::new("nsenter").args(inside).args(command.split(' ')).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_kernel_pings_through_a_port_beside_its_traffic() {
    run_inside("punt::inside_ping", "1500");
}

/// `sp1` is a station of the kernel's; behind the port on `sp0`, and its interface, is another in a namespace of its own.
#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_ping() {
    run(&["ip", "address", "add", "198.18.0.2/24", "dev", "sp1"]);
    let ports = [("east", PortDevice::Kernel("sp0".into())), ("loop", PortDevice::Loopback)];
    let mut datapath = open(&ports, 1, PollMode::Auto);
    datapath.join(vec![("east".into(), punt("bgp", "arp or icmp"))]).unwrap();
    let elsewhere = Elsewhere::new();
    run(&["ip", "link", "set", "bgp", "netns", &elsewhere.0.id().to_string()]);
    for command in ["ip link set lo up", "ip link set bgp up", "ip address add 198.18.0.1/24 dev bgp"] {
        assert_eq!(elsewhere.output(command), "", "{command}");
    }
    let about = elsewhere.output("ip link show bgp");
    let mac = std::fs::read_to_string("/sys/class/net/sp0/address").unwrap();
    assert!(about.contains(mac.trim()) && about.contains("mtu 1500"), "{about}");

    let streams = vec![stream(1, 0, None, 60, pps(5000)), stream(2, 1, Some(1), 60, pps(5000))];
    let traffic = start(&datapath, spec(1, 0, Some(6000 * MS), streams));
    // Both ways, short frames and long ones.
    for size in ["10", "56", "1400"] {
        let answer = elsewhere.output(&format!("busybox ping -c 3 -i 0.2 -W 2 -s {size} 198.18.0.2"));
        assert!(answered(&answer), "{answer}");
        let ping = Command::new("busybox")
            .args(["ping", "-c", "3", "-i", "0.2", "-W", "2", "-s", size, "198.18.0.1"])
            .output();
        let answer = String::from_utf8_lossy(&ping.unwrap().stdout).into_owned();
        assert!(answered(&answer), "{answer}");
    }
    let neighbours = elsewhere.output("ip neighbour show dev bgp");
    let theirs = std::fs::read_to_string("/sys/class/net/sp1/address").unwrap();
    assert!(neighbours.contains(theirs.trim()), "{neighbours}");
    // What the filter does not take is not received.
    let connect = Command::new("timeout").args(["1", "busybox", "nc", "198.18.0.1", "179"]).output().unwrap();
    assert_eq!(connect.status.code(), Some(124), "{connect:?}");
    let counted = elsewhere.output("cat /proc/net/snmp");
    let tcp = counted.lines().filter(|line| line.starts_with("Tcp:")).nth(1).unwrap();
    assert_eq!(tcp.split(' ').nth(10), Some("0"), "segments received: {tcp}");

    wait_for(&traffic, RunState::Complete, 10);
    let counters = traffic.counters();
    assert_eq!((counters[0].measured.tx_packets, counters[0].measured.tx_dropped), (30_000, 0));
    assert_all_received(&counters[1].measured, 30_000);
    traffic.remove();
    drop(datapath);
    assert!(elsewhere.output("ip link show bgp").contains("does not exist"));
}

#[test]
fn interfaces_that_cannot_be_made_are_refused_with_the_remedy() {
    run_inside("punt::inside_refused", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_refused() {
    let mut datapath =
        open(&[("east", PortDevice::Kernel("sp0".into())), ("loop", PortDevice::Loopback)], 1, PollMode::Auto);
    for (port, interface, message) in [
        ("east", "sp1", "punt to interface sp1: it cannot be made: "),
        ("east", "sp1", "NET_ADMIN, and no interface may have that name yet"),
        ("loop", "bgp", "this is a software port, which no other station sends to"),
    ] {
        let refused = datapath.join(vec![(port.into(), punt(interface, "arp"))]).unwrap_err();
        let OpenError::Config { field, problem } = refused else { panic!("{refused}") };
        assert_eq!(field, format!("port {port}"));
        assert!(problem.contains(message), "{problem}");
    }
}

#[test]
fn a_port_without_an_address_but_a_punt_finds_no_next_hop() {
    run_inside("punt::inside_no_address", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_no_address() {
    let mut datapath = open(&[("east", PortDevice::Kernel("sp0".into()))], 1, PollMode::Auto);
    datapath.join(vec![("east".into(), punt("bgp", "arp"))]).unwrap();
    let mut packet = vec![0; 60];
    packet[12..15].copy_from_slice(&[8, 0, 0x45]);
    let problem = datapath.next_hops(&[(PortIndex(0), &packet)]).remove(0).unwrap_err().to_string();
    assert!(problem.contains("port east: the port has no IPv4 address: give it one"), "{problem}");
}

#[test]
fn a_routers_interface_has_the_ports_addresses_vlan_and_gateways() {
    run_inside("punt::inside_router", "1500");
}

/// The other port is a station that answers in the same VLAN.
#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_router() {
    let own = ["10.99.0.1/24", "2001:db8:99::1/64"];
    let all_rules = || ["-4", "-6"].map(|family| output(&["ip", family, "rule"]));
    let before = all_rules();
    for vlan in [None, Some(100)] {
        let ports = [("east", PortDevice::Kernel("sp0".into())), ("west", PortDevice::Kernel("sp1".into()))];
        let mut datapath = open(&ports, 1, PollMode::Auto);
        let mut east = link(&own, vlan);
        east.config.gateway_v4 = Some([10, 99, 0, 254].into());
        east.punt = Some(Punt::of_router("rt", &east.config).unwrap());
        let west = link(&["10.99.0.2/24", "2001:db8:99::2/64"], vlan);
        datapath.join(vec![("east".into(), east), ("west".into(), west)]).unwrap();

        let about = output(&["ip", "address", "show", "dev", "rt"]);
        for line in own {
            let line = about.lines().find(|about| about.contains(line)).expect(&about);
            assert!(!line.contains("tentative"), "{line}");
        }
        assert!(about.contains(&mac_of("sp0")) && about.contains("mtu 1500 "), "{about}");
        let rules = output(&["ip", "rule"]);
        let rule = rules.lines().find(|rule| rule.contains("from 10.99.0.1 lookup")).expect(&rules);
        let routes = output(&["ip", "route", "show", "table", rule.split(' ').next_back().unwrap()]);
        assert!(routes.starts_with("default via 10.99.0.254 dev rt"), "{routes}");
        assert!(routes.contains("10.99.0.0/24 dev rt"), "what is on the link is reached through the gateway: {routes}");
        let own_routes = output(&["ip", "route"]);
        assert!(!own_routes.contains("rt"), "the namespace's own routes have changed: {own_routes}");
        // What the kernel receives on the port's own interface is dropped, or it would answer, too.
        for family in ["-4", "-6"] {
            let rules = output(&["ip", family, "rule"]);
            let [first, second] = [0, 1].map(|n| rules.lines().nth(n).unwrap_or_default());
            assert!(first.contains("iif sp0") && first.contains("blackhole"), "{rules}");
            assert!(second.starts_with("1:") && second.contains("lookup local"), "{rules}");
        }

        // The kernel finds the other station by the port, and hears its replies.
        for (from, to) in [("10.99.0.1", "10.99.0.2"), ("2001:db8:99::1", "2001:db8:99::2")] {
            let ping = output(&["busybox", "ping", "-c", "3", "-i", "0.2", "-W", "2", "-I", from, to]);
            assert!(answered(&ping), "{vlan:?}: {ping}");
        }
        let neighbors = output(&["ip", "neighbour", "show", "dev", "rt"]);
        assert_eq!(neighbors.matches(&mac_of("sp1")).count(), 2, "{neighbors}");
        // Requests for the port's addresses are answered once: by the port.
        for to in ["10.99.0.1", "2001:db8:99::1"] {
            let (to, count) = (to.parse().unwrap(), 3);
            let ping =
                Ping { to, from: None, count, interval_ns: 50 * MS, timeout_ns: 1000 * MS, size: 56, hop_limit: 64 };
            let mut reader = datapath.ping(PortIndex(1), ping).unwrap();
            let events: Vec<PingEvent> = std::iter::from_fn(|| reader.blocking_recv()).collect();
            let replies = events.iter().filter(|event| matches!(event, PingEvent::Reply { .. })).count();
            assert_eq!(replies, 3, "{vlan:?}: {events:?}");
        }

        drop(datapath);
        assert!(output(&["ip", "link", "show", "rt"]).contains("does not exist"));
        assert_eq!(all_rules(), before, "the namespace's rules are not as they were");
    }
}
