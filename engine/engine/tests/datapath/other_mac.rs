// SPDX-License-Identifier: Apache-2.0
//! Frames for another station: counted, neither given to flows nor answered, unless a port accepts any MAC. Packets of streams are
//! measured whatever MAC they are for.
use spate_engine::datapath::{
    ClockError, Config, Datapath, Memory, PollMode, PortConfig, PortDevice, RunState, StampedBy, UseOffloads,
};
use spate_stateful::{Count, Protocol};

use crate::{
    answers::all,
    kernel::{answered, run_inside},
    setup::{MS, assert_all_received, pps, start, stream, turn, wait_for},
    slow::{east, link, output},
    stateful::{assert_all_complete, emulated, over_v4},
};

const ELSEWHERE: [u8; 6] = [2, 9, 9, 9, 9, 9];

fn loopback(any_mac: bool) -> Datapath {
    let (name, device, offloads) = ("a".into(), PortDevice::Loopback, UseOffloads::Auto);
    Datapath::open(Config {
        ports: vec![PortConfig {
            name,
            device,
            line_rate_bps: None,
            offloads,
            mac: None,
            any_mac,
            stamped_by: StampedBy::Cpu,
        }],
        worker_cpus: vec![0],
        worker_groups: Vec::new(),
        control_cpus: vec![1],
        memory: Memory::Normal { bytes: 192 << 20 },
        poll: PollMode::Busy,
        clock_error: ClockError::default(),
    })
    .unwrap()
}

#[test]
fn flows_take_no_frames_for_another_station_unless_the_port_accepts_any_mac() {
    let _turn = turn();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        for any_mac in [false, true] {
            let datapath = loopback(any_mac);
            let mut spec = emulated(&datapath, 7, Some(1000 * MS), over_v4(protocol, 100));
            // As a device does that forwards to a wrong station.
            spec.stateful.as_mut().unwrap().links[0].next_hop = ELSEWHERE;
            // Measured packets of streams have any MAC.
            spec.streams = vec![stream(0, 0, Some(0), 60, pps(500))];
            let run = start(&datapath, spec);
            wait_for(&run, RunState::Complete, 20);
            assert_all_received(&run.counters()[0].measured, 500);
            let (sides, port) = (run.template_counters(), &datapath.port_counters()[0]);
            if any_mac {
                assert_all_complete(&sides, 100);
                assert_eq!((port.other_mac_packets, port.foreign_packets), (0, 0), "{port:?}");
                continue;
            }
            let (client, server) = (&sides[0], &sides[1]);
            let answered =
                [Count::FlowsAccepted, Count::SentPackets, Count::ReceivedPackets].map(|count| server.get(count));
            assert_eq!((answered, client.get(Count::ReceivedPackets)), ([0; 3], 0), "{protocol:?}");
            let sent = client.get(Count::SentPackets);
            assert!(sent >= 100, "{sent}");
            assert_eq!((port.other_mac_packets, port.foreign_packets), (sent, sent), "{port:?}");
        }
    }
}

#[test]
fn pings_for_another_station_are_counted_and_not_answered() {
    run_inside("other_mac::inside", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside() {
    all(&["ip address add 10.9.0.2/16 dev sp1"]);
    let datapath = east(link(&["10.9.0.1/16"], None));
    let ping = || answered(&output(&["busybox", "ping", "-c", "3", "-i", "0.2", "-W", "2", "10.9.0.1"]));
    assert!(ping());
    assert_eq!(datapath.port_counters()[0].other_mac_packets, 0);
    all(&["ip neighbour replace 10.9.0.1 lladdr 02:09:09:09:09:09 nud permanent dev sp1"]);
    assert!(!ping());
    assert!(datapath.port_counters()[0].other_mac_packets >= 3);
    all(&["ip neighbour del 10.9.0.1 dev sp1"]);
    assert!(ping(), "a broadcast finds it again");
}
