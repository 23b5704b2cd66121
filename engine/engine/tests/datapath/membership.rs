// SPDX-License-Identifier: Apache-2.0
//! Membership of multicast groups, against a bridge of the kernel that snoops on IGMP and MLD and asks for members.
use std::{
    net::UdpSocket,
    time::{Duration, Instant},
};

use spate_engine::datapath::{Datapath, PollMode, PortDevice};
use spate_stateful::{Protocol, Scenario};

use crate::{
    answers::{all, one_side},
    kernel::run_inside,
    setup::{open, start},
    slow::{east, link, output},
    stateful::{emulated, scenario, v4},
};

/// A bridge with the kernel's end of the link, which forwards only groups that have members, and its answers to queries at once.
fn snooping_bridge() {
    all(&[
        "ip link add br0 type bridge mcast_snooping 1 mcast_igmp_version 3 mcast_mld_version 2 mcast_query_response_interval 100 \
         mcast_last_member_interval 20",
        "ip link set sp1 master br0",
        "sysctl -qw net.ipv6.conf.br0.disable_ipv6=0",
        "ip address add 198.18.0.254/24 dev br0",
        "ip address add fe80::fe/64 dev br0 nodad",
        "ip link set br0 up",
        "bridge link set dev sp1 mcast_flood off",
        "ip link set br0 type bridge mcast_querier 1",
    ]);
}

/// Waits until the bridge knows the port as a member as lines of its table say, or not any more.
fn await_members(wanted: &[&str], there: bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let table = output(&["bridge", "-d", "mdb", "show", "dev", "br0"]);
        let known = |words: &&str| table.lines().any(|line| words.split(' ').all(|word| line.contains(word)));
        if wanted.iter().all(|words| known(words) == there) {
            return;
        }
        assert!(Instant::now() < deadline, "{wanted:?} {there}: {table}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn foreign(datapath: &Datapath) -> u64 {
    datapath.port_counters()[0].foreign_packets
}

#[test]
fn a_snooping_bridge_forwards_the_groups_that_a_port_is_a_member_of() {
    run_inside("membership::inside_bridge", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_bridge() {
    snooping_bridge();
    let mut member = link(&["198.18.0.1/24"], None);
    member.config.groups = ["239.1.1.1", "232.1.1.1,198.18.0.9", "ff0e::77"].map(|group| group.parse().unwrap()).into();
    let datapath = east(member);
    await_members(&["239.1.1.1 sp1 exclude", "232.1.1.1 sp1 include", "ff0e::77 sp1 exclude"], true);
    // The bridge takes itself for a querier once hosts have had their time to answer.
    std::thread::sleep(Duration::from_secs(2));
    let socket = UdpSocket::bind("198.18.0.254:0").unwrap();
    let send = |group: &str| {
        let before = foreign(&datapath);
        for _ in 0..500 {
            socket.send_to(b"x", (group, 9)).unwrap();
        }
        std::thread::sleep(Duration::from_millis(300));
        foreign(&datapath) - before
    };
    let (of_member, of_others) = (send("239.1.1.1"), send("239.9.9.9"));
    // Queries and other frames of the kernel come beside them.
    assert!((500..550).contains(&of_member) && of_others < 50, "{of_member}, {of_others}");
}

#[test]
fn servers_of_a_run_are_members_of_their_groups_until_it_is_removed() {
    run_inside("membership::inside_run", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_run() {
    snooping_bridge();
    let datapath = open(&[("east", PortDevice::Kernel("sp0".into()))], 1, PollMode::Auto);
    let mut scenario: Scenario =
        scenario(Protocol::Udp, 1, [v4(10, 9, 255, 254); 2], [v4(239, 3, 0, 0), v4(239, 3, 0, 99)]);
    scenario.pools[1].allow_multicast = true;
    let run = start(&datapath, emulated(&datapath, 5, None, one_side(scenario, false)));
    await_members(&["239.3.0.0 sp1 exclude", "239.3.0.99 sp1 exclude"], true);
    run.stop("enough");
    run.remove();
    await_members(&["239.3.0.0", "239.3.0.99"], false);
}
