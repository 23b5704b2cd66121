// SPDX-License-Identifier: Apache-2.0
//! Ports that are given a MAC address: what they send from, receive, answer for and report.
use std::fs;

use spate_engine::datapath::{
    ClockError, Config, Datapath, Memory, PollMode, PortConfig, PortDevice, RunState, StampedBy, UseOffloads,
};
use spate_stateful::Protocol;

use crate::{
    answers::all,
    kernel::{answered, run_inside},
    setup::{MS, start, turn, wait_for},
    slow::{link, output},
    stateful::{assert_all_complete, emulated, over_v4},
};

const GIVEN: [u8; 6] = [2, 0xaa, 0, 0, 0, 0x17];

fn open(device: PortDevice) -> Datapath {
    let (name, offloads) = ("east".into(), UseOffloads::Auto);
    Datapath::open(Config {
        ports: vec![PortConfig {
            name,
            device,
            line_rate_bps: None,
            offloads,
            mac: Some(GIVEN),
            any_mac: false,
            stamped_by: StampedBy::Cpu,
        }],
        worker_cpus: vec![0],
        worker_groups: Vec::new(),
        control_cpus: vec![1],
        memory: Memory::Normal { bytes: 192 << 20 },
        poll: PollMode::Auto,
        clock_error: ClockError::default(),
    })
    .unwrap()
}

#[test]
fn software_ports_have_the_address_that_they_are_given() {
    let _turn = turn();
    assert_eq!(open(PortDevice::Null).ports()[0].mac, GIVEN);
    let datapath = open(PortDevice::Loopback);
    assert_eq!(datapath.ports()[0].mac, GIVEN);
    let mut spec = emulated(&datapath, 7, Some(1000 * MS), over_v4(Protocol::Tcp, 100));
    let to = &mut spec.stateful.as_mut().unwrap().links[0];
    assert_eq!(to.mac, GIVEN);
    to.next_hop = GIVEN;
    let run = start(&datapath, spec);
    wait_for(&run, RunState::Complete, 20);
    assert_all_complete(&run.template_counters(), 100);
    assert_eq!(datapath.port_counters()[0].other_mac_packets, 0);
}

#[test]
fn interfaces_have_the_address_that_they_are_given_until_they_are_closed() {
    run_inside("own_mac::inside", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside() {
    address_while_open(PortDevice::Kernel("sp0".into()));
}

#[test]
fn interfaces_that_are_opened_by_af_xdp_have_it_too() {
    run_inside("own_mac::inside_by_af_xdp", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_by_af_xdp() {
    address_while_open(PortDevice::Xdp("sp0".into()));
}

fn address_while_open(device: PortDevice) {
    let address = || fs::read_to_string("/sys/class/net/sp0/address").unwrap().trim().to_owned();
    let own = address();
    all(&["ip address add 10.9.0.2/16 dev sp1"]);
    let mut datapath = open(device);
    datapath.join(vec![("east".into(), link(&["10.9.0.1/16"], None))]).unwrap();
    assert_eq!((datapath.ports()[0].mac, address().as_str()), (GIVEN, "02:aa:00:00:00:17"));
    let ping = || answered(&output(&["busybox", "ping", "-c", "3", "-i", "0.2", "-W", "2", "10.9.0.1"]));
    assert!(ping());
    let known = output(&["ip", "neighbour", "show", "10.9.0.1"]);
    assert!(known.contains("lladdr 02:aa:00:00:00:17"), "{known}");
    assert_eq!(datapath.port_counters()[0].other_mac_packets, 0);
    // What is sent to the address that its device had is for another station.
    all(&[&format!("ip neighbour replace 10.9.0.1 lladdr {own} nud permanent dev sp1")]);
    assert!(!ping());
    assert!(datapath.port_counters()[0].other_mac_packets >= 3);
    drop(datapath);
    assert_eq!(address(), own);
}
