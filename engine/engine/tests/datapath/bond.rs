// SPDX-License-Identifier: Apache-2.0
//! Bonds by LACP over two pairs of veth interfaces, one to another: they find each other, use both links, and report a link that is lost.
use std::{
    thread,
    time::{Duration, Instant},
};

use spate_engine::datapath::{Blueprint, BondMember, Datapath, PollMode, PortDevice, RunState, StreamSpec, Template};

use crate::{
    answers::all,
    kernel::{run, run_inside},
    setup::{MS, assert_all_received, open, pps, spec, start, stream, wait_for},
};

fn bond(members: [&str; 2]) -> PortDevice {
    PortDevice::Bond(members.iter().map(|name| PortDevice::Kernel((*name).into())).collect())
}

/// Waits until all members of both bonds are in use.
fn wait_for_aggregation(datapath: &Datapath) {
    let since = Instant::now();
    let both = |member: &BondMember| member.is_in_use() && member.lacp.as_ref().unwrap().partner.is_in_use();
    while !datapath.ports().iter().all(|port| port.bond.iter().all(both)) {
        assert!(since.elapsed() < Duration::from_secs(30), "{:#?}", datapath.ports());
        thread::sleep(Duration::from_millis(50));
    }
    println!("aggregated after {:?}", since.elapsed());
}

/// Packets that an interface has sent.
fn sent(interface: &str) -> u64 {
    let path = format!("/sys/class/net/{interface}/statistics/tx_packets");
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

fn mac_of(interface: &str) -> String {
    std::fs::read_to_string(format!("/sys/class/net/{interface}/address")).unwrap().trim().to_owned()
}

#[test]
fn two_links_are_one_by_lacp_and_lose_nothing() {
    run_inside("bond::inside_two_links", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_two_links() {
    all(&["ip link add sq0 type veth peer name sq1"]);
    for interface in ["sq0", "sq1"] {
        all(&[&format!("sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=1"), &format!("ip link set {interface} up")]);
    }
    let own = ["sp0", "sq0", "sp1", "sq1"].map(mac_of);
    // An adaptive worker sleeps for up to a second when nothing is expected, and LACP needs it ten times as often.
    for (workers, poll) in [(1, PollMode::Auto), (2, PollMode::Busy)] {
        let datapath = open(&[("east", bond(["sp0", "sq0"])), ("west", bond(["sp1", "sq1"]))], workers, poll);
        assert!(datapath.ports().iter().all(|port| !port.link_up), "no partner has answered yet");
        wait_for_aggregation(&datapath);
        let ports = datapath.ports();
        let macs: Vec<[u8; 6]> = ports.iter().map(|port| port.mac).collect();
        for (port, (partner, members)) in ports.iter().zip([(macs[1], ["sp0", "sq0"]), (macs[0], ["sp1", "sq1"])]) {
            assert!(port.link_up && port.mtu == 1500 && port.line_rate_bps.is_some(), "{port:?}");
            for (member, name) in port.bond.iter().zip(members) {
                let lacp = member.lacp.as_ref().unwrap();
                assert_eq!((member.device.as_str(), lacp.partner_system), (name, partner));
                assert_eq!(lacp.aggregator, port.bond[0].lacp.as_ref().unwrap().aggregator, "one link");
                assert!(lacp.partner_port > 0, "{lacp:?}");
            }
        }

        let before = ["sp0", "sq0"].map(sent);
        // By addresses and ports: flows of many are on both links.
        let streams = (0..16).map(|n| flow(n + 1, usize::from(n % 2), usize::from(1 - n % 2))).collect();
        let run_ = start(&datapath, spec(1, 0, Some(1000 * MS), streams));
        wait_for(&run_, RunState::Complete, 10);
        for counters in run_.counters() {
            assert_all_received(&counters.measured, 1250);
        }
        for port in datapath.port_counters() {
            assert_eq!((port.tx_dropped, port.rx_missed, port.rx_errors, port.foreign_packets), (0, 0, 0, 0));
        }
        let used: Vec<u64> = ["sp0", "sq0"].iter().zip(before).map(|(name, before)| sent(name) - before).collect();
        assert!(used.iter().all(|&packets| packets > 2000), "{used:?} packets on the links");

        run(&["ip", "link", "set", "sq1", "down"]);
        let up =
            |datapath: &Datapath| -> Vec<bool> { datapath.ports()[0].bond.iter().map(|m| m.is_in_use()).collect() };
        assert_eq!(up(&datapath), [true, false], "{:#?}", datapath.ports()[0].bond);
        assert!(datapath.ports()[0].link_up, "the other link is there");
        run(&["ip", "link", "set", "sp1", "down"]);
        assert!(!datapath.ports()[0].link_up);
        drop(run_);
        drop(datapath);
        all(&["ip link set sq1 up", "ip link set sp1 up"]);
        assert_eq!(["sp0", "sq0", "sp1", "sq1"].map(mac_of), own, "members have their own addresses again");
    }
}

/// 1,250 packets a second of UDP from a port of its own.
fn flow(id: u16, from: usize, to: usize) -> StreamSpec {
    let mut spec = stream(id, from, Some(to), 60, pps(1250));
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    frame[26..34].copy_from_slice(&[198, 18, 0, 1, 198, 19, 0, 1]);
    frame[34..42].copy_from_slice(&[4, id as u8 / 2, 0, 7, 0, 26, 0, 0]);
    spec.template = Template::new(&Blueprint { frame, flow: true, ..Blueprint::default() }).unwrap();
    spec
}
