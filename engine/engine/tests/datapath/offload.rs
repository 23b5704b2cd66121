// SPDX-License-Identifier: Apache-2.0
//! Ports whose device does a part of the work on packets: a tap, whose driver completes checksums and cuts segments, and behind
//! which the kernel receives. Every byte arrives, the kernel finds no checksum wrong, and ports count what was on the wire.
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use spate_engine::datapath::{Datapath, PollMode, PortDevice, RunSpec, RunState, UseOffloads};
use spate_stateful::{Count, Instruction, Payload, Protocol, Scenario, Tunables};

use crate::kernel::{run, run_inside};
use crate::setup::{MS, open_with, start, wait_for};
use crate::stateful::{emulated, program, scenario, v4};

const INTERFACE: &str = "spt0";
const KERNEL: &str = "10.9.0.2";
const HERE: &str = "10.9.0.1";
pub const CONNECTIONS: u64 = 20;
pub const BYTES: usize = 1 << 20;
/// The driver compares a segment with its Ethernet header to the MTU of 1500.
const MSS: u16 = 1440;

fn open_tap(offloads: UseOffloads) -> Datapath {
    let datapath = open_with(&[("east", PortDevice::Tap(INTERFACE.into()))], 1, PollMode::Auto, offloads);
    run(&["sysctl", "-qw", &format!("net.ipv6.conf.{INTERFACE}.disable_ipv6=1")]);
    run(&["ip", "address", "add", &format!("{KERNEL}/24"), "dev", INTERFACE]);
    run(&["ip", "link", "set", INTERFACE, "up"]);
    let expected: &[&str] = match offloads {
        UseOffloads::Auto => &["tcp-segmentation", "rx-checksum"],
        UseOffloads::All => &["tx-checksum", "tcp-segmentation", "rx-checksum"],
        UseOffloads::None => &[],
    };
    assert_eq!(datapath.ports()[0].offloads.names(), expected);
    datapath
}

/// The scenario's frames go to the kernel's interface.
fn to_kernel(mut spec: RunSpec) -> RunSpec {
    let address = fs::read_to_string(format!("/sys/class/net/{INTERFACE}/address")).unwrap();
    let mut bytes = address.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap());
    spec.stateful.as_mut().unwrap().links[0].next_hop = std::array::from_fn(|_| bytes.next().unwrap());
    spec
}

/// Sends a payload and receives as many bytes.
fn both_ways(begins: Instruction, then: Instruction) -> Vec<Instruction> {
    let bytes = BYTES as u64;
    vec![begins, Instruction::Send { payload: 0, wait: false }, Instruction::Receive { bytes, clear: true }, then]
}

pub fn megabytes() -> Scenario {
    let mut all = scenario(Protocol::Tcp, 10, [v4(10, 9, 0, 1); 2], [v4(10, 9, 0, 2); 2]);
    all.payloads = vec![Payload::pattern(BYTES as u64)];
    let tunables = Tunables { mss: MSS, ..Tunables::default() };
    let template = &mut all.templates[0];
    if let (Some(client), Some(server)) = (&mut template.client, &mut template.server) {
        client.program = program(both_ways(Instruction::Connect, Instruction::Close));
        server.program = program(both_ways(Instruction::Accept, Instruction::WaitForPeerClose));
        (client.limit, client.tunables, server.tunables) = (CONNECTIONS, tunables.clone(), tunables);
    }
    all
}

/// The kernel's end of a connection: sends and receives at once, and compares every byte.
pub fn talk(stream: TcpStream) {
    let mut pattern = vec![0; BYTES];
    Payload::pattern(BYTES as u64).fill(0, 0, &mut pattern);
    let (mut writer, expected) = (stream.try_clone().unwrap(), pattern.clone());
    let sending = thread::spawn(move || writer.write_all(&pattern).unwrap());
    let mut reader = stream;
    let mut received = vec![0; BYTES];
    reader.read_exact(&mut received).unwrap();
    assert!(received == expected, "bytes arrived changed");
    sending.join().unwrap();
}

/// A counter of TCP in this namespace (/proc/net/snmp: a line of names, and one of values).
fn tcp_counter(name: &str) -> u64 {
    let all = fs::read_to_string("/proc/net/snmp").unwrap();
    let mut lines = all.lines().filter(|line| line.starts_with("Tcp:")).map(str::split_whitespace);
    let (mut names, mut values) = (lines.next().unwrap(), lines.next().unwrap());
    values.nth(names.position(|other| other == name).unwrap()).unwrap().parse().unwrap()
}

fn interface_counter(name: &str) -> u64 {
    let text = fs::read_to_string(format!("/sys/class/net/{INTERFACE}/statistics/{name}")).unwrap();
    text.trim().parse().unwrap()
}

/// All of the transfers are done, as both ends see it.
fn assert_all_arrived(datapath: &Datapath, side: &spate_engine::datapath::TemplateCounters, offloads: UseOffloads) {
    let bytes = CONNECTIONS * BYTES as u64;
    assert_eq!(
        (side.get(Count::FlowsEstablished), side.get(Count::FlowsClosed)),
        (CONNECTIONS, CONNECTIONS),
        "{side:?}"
    );
    let data = [Count::SentDataBytes, Count::AckedBytes, Count::ReceivedDataBytes].map(|count| side.get(count));
    assert_eq!(data, [bytes; 3], "{side:?}");
    assert_eq!((tcp_counter("InCsumErrors"), tcp_counter("InErrs")), (0, 0));
    let [port] = &datapath.port_counters()[..] else { panic!("one port") };
    assert_eq!((port.tx_dropped, port.rx_missed, port.rx_errors), (0, 0, 0), "{port:?}");
    assert_eq!(port.tx_packets, interface_counter("rx_packets"), "what was on the wire");
    assert_eq!(port.tx_bytes - 4 * port.tx_packets, interface_counter("rx_bytes"), "what was on the wire");
    println!(
        "{offloads:?}: {} packets, {} frames cut, {} segments sent again",
        port.tx_packets,
        port.tx_segmented_frames,
        side.get(Count::RetransmittedPackets)
    );
    match offloads {
        UseOffloads::Auto | UseOffloads::All => assert!(port.tx_segmented_frames > port.tx_packets / 50, "{port:?}"),
        UseOffloads::None => assert_eq!(port.tx_segmented_frames, 0),
    }
}

fn clients_of_the_kernel(offloads: UseOffloads) {
    let datapath = open_tap(offloads);
    let listener = TcpListener::bind((KERNEL, 80)).unwrap();
    let served = thread::spawn(move || {
        let talking: Vec<_> = (0..CONNECTIONS)
            .map(|_| listener.accept().unwrap().0)
            .map(|stream| thread::spawn(move || talk(stream)))
            .collect();
        talking.into_iter().for_each(|talking| talking.join().unwrap());
    });
    let mut clients = megabytes();
    clients.templates[0].server = None;
    let run = start(&datapath, to_kernel(emulated(&datapath, 5, Some(3000 * MS), clients)));
    wait_for(&run, RunState::Complete, 20);
    served.join().unwrap();
    assert_all_arrived(&datapath, &run.template_counters()[0], offloads);
}

fn servers_of_the_kernel(offloads: UseOffloads) {
    let datapath = open_tap(offloads);
    let mut servers = megabytes();
    servers.pools.swap(0, 1);
    servers.templates[0].client = None;
    let run = start(&datapath, to_kernel(emulated(&datapath, 6, Some(4000 * MS), servers)));
    let talk_to = || talk(TcpStream::connect((HERE, 80)).unwrap());
    let talking: Vec<_> = (0..CONNECTIONS).map(|_| thread::spawn(talk_to)).collect();
    talking.into_iter().for_each(|talking| talking.join().unwrap());
    wait_for(&run, RunState::Complete, 20);
    assert_all_arrived(&datapath, &run.template_counters()[0], offloads);
}

#[test]
fn megabytes_pass_between_our_clients_and_the_kernel_behind_a_tap() {
    run_inside("offload::inside_clients_with_offloads", "1500");
    run_inside("offload::inside_clients_with_all", "1500");
    run_inside("offload::inside_clients_without", "1500");
}

#[test]
fn megabytes_pass_between_our_servers_and_the_kernel_behind_a_tap() {
    run_inside("offload::inside_servers_with_offloads", "1500");
    run_inside("offload::inside_servers_with_all", "1500");
    run_inside("offload::inside_servers_without", "1500");
}

#[test]
#[ignore = "runs in the namespace that a test above makes"]
fn inside_clients_with_offloads() {
    clients_of_the_kernel(UseOffloads::Auto);
}

#[test]
#[ignore = "runs in the namespace that a test above makes"]
fn inside_clients_without() {
    clients_of_the_kernel(UseOffloads::None);
}

#[test]
#[ignore = "runs in the namespace that a test above makes"]
fn inside_servers_with_offloads() {
    servers_of_the_kernel(UseOffloads::Auto);
}

#[test]
#[ignore = "runs in the namespace that a test above makes"]
fn inside_servers_without() {
    servers_of_the_kernel(UseOffloads::None);
}

#[test]
#[ignore = "runs in the namespace that a test above makes"]
fn inside_clients_with_all() {
    clients_of_the_kernel(UseOffloads::All);
}

#[test]
#[ignore = "runs in the namespace that a test above makes"]
fn inside_servers_with_all() {
    servers_of_the_kernel(UseOffloads::All);
}
