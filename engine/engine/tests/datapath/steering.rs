// SPDX-License-Identifier: Apache-2.0
//! Packets and the workers that have their flows: they meet by the hash that is computed, or by handing packets over.
use std::sync::Arc;

use spate_engine::datapath::{Blueprint, PollMode, Run, RunState, Steering, Template};
use spate_engine::index::{PortIndex, WorkerIndex};
use spate_net::{checksum, spread};
use spate_stateful::{Count, Instruction, Protocol, pool::SourcePorts};

use crate::setup::{MS, pps, start, stream, turn, wait_for};
use crate::stateful::{assert_all_complete, emulated, loopback, over_v4, program, scenario, v4};

/// No packets.
const NONE: Steering = Steering { worker: WorkerIndex(0), rss: 0, placed: 0, handed_off: 0, handoff_lost: 0 };

fn sum(run: &Run) -> Steering {
    run.steering().into_iter().fold(NONE, |sum, s| Steering {
        worker: NONE.worker,
        rss: sum.rss + s.rss,
        placed: sum.placed + s.placed,
        handed_off: sum.handed_off + s.handed_off,
        handoff_lost: sum.handoff_lost + s.handoff_lost,
    })
}

/// Packets that clients and servers received.
fn received(run: &Run) -> [u64; 2] {
    let sides = run.template_counters();
    [0, 1].map(|side| sides[side].get(Count::ReceivedPackets))
}

#[test]
fn where_the_device_hashes_as_is_computed_no_packet_is_handed_over() {
    let _turn = turn();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let datapath = loopback(2, PollMode::Busy);
        let run = start(&datapath, emulated(&datapath, 7, Some(500 * MS), over_v4(protocol, 200)));
        wait_for(&run, RunState::Complete, 10);
        assert_all_complete(&run.template_counters(), 100);
        let [clients, servers] = received(&run);
        let expected = Steering { rss: clients, placed: servers, ..NONE };
        assert_eq!(sum(&run), expected);
        // Both have some.
        assert!(run.steering().iter().all(|s| s.rss > 0 && s.placed > 0), "{:?}", run.steering());
    }
}

/// To clients alone: each packet goes to the other queue.
fn otherwise(frame: &[u8], queues: usize) -> usize {
    let to_client = frame.get(30) == Some(&16);
    spread::queue(frame, queues) + usize::from(to_client)
}

#[test]
fn where_the_device_hashes_otherwise_packets_reach_their_flows_all_the_same() {
    let _turn = turn();
    for (protocol, poll) in [(Protocol::Tcp, PollMode::Busy), (Protocol::Udp, PollMode::Adaptive)] {
        let datapath = loopback(2, poll);
        datapath.spread(PortIndex(0), Box::new(otherwise));
        let run = start(&datapath, emulated(&datapath, 7, Some(500 * MS), over_v4(protocol, 200)));
        wait_for(&run, RunState::Complete, 10);
        assert_all_complete(&run.template_counters(), 100);
        let [clients, servers] = received(&run);
        let all = sum(&run);
        assert_eq!((all.rss, all.placed, all.handoff_lost), (0, servers, 0));
        // What came again for a flow that was over has been handed over too.
        assert!(clients >= 100 && all.handed_off >= clients, "{all:?}, clients received {clients}");
    }
}

const CLIENT: [u8; 4] = [16, 0, 0, 1];
const SERVER: [u8; 4] = [48, 0, 0, 1];

/// "Host unreachable" about a datagram from the client's port, from a router whose packets go to a queue.
fn unreachable(port: u16, queue: usize) -> Vec<u8> {
    let ip = |protocol: u8, from: [u8; 4], to: [u8; 4], len: u8| {
        let mut header = vec![0x45, 0, 0, len, 0, 0, 0, 0, 64, protocol, 0, 0];
        header.extend([from, to].concat());
        let sum = checksum::checksum(checksum::sum(&header));
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    };
    let frame = |router: u8| {
        let mut icmp = vec![3, 1, 0, 0, 0, 0, 0, 0];
        icmp.extend(ip(17, CLIENT, SERVER, 28 + 100));
        icmp.extend([port.to_be_bytes(), 80u16.to_be_bytes(), 108u16.to_be_bytes(), [0; 2]].concat());
        let sum = checksum::checksum(checksum::sum(&icmp));
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut frame = vec![0; 12];
        frame.extend([8, 0]);
        frame.extend(ip(1, [10, 0, 0, router], CLIENT, 20 + icmp.len() as u8));
        frame.extend(icmp);
        frame
    };
    (1..).map(frame).find(|frame| spread::queue(frame, 2) == queue).unwrap()
}

#[test]
fn an_icmp_error_finds_its_flow_on_whichever_worker_it_arrives() {
    let _turn = turn();
    let between = |port: u16| spread::queue_between((SERVER.into(), 80), (CLIENT.into(), port), 2);
    // The first flow is the first worker's.
    let port = (2000..).find(|port| between(*port) == 0).unwrap();
    for queue in [0, 1] {
        let datapath = loopback(2, PollMode::Busy);
        let hour = 3_600_000_000_000;
        let mut one = scenario(Protocol::Udp, 1000, [v4(16, 0, 0, 1); 2], [v4(48, 0, 0, 1); 2]);
        one.pools[0].source_ports = SourcePorts { lowest: port, highest: port, ..SourcePorts::default() };
        let client = one.templates[0].client.as_mut().unwrap();
        client.limit = 1;
        client.program = program(vec![Instruction::Delay { min_ns: hour, max_ns: hour }]);
        let mut spec = emulated(&datapath, 7, Some(500 * MS), one);
        let mut errors = stream(1, 0, None, 60, pps(100));
        let blueprint = Blueprint { frame: unreachable(port, queue), flow: false, ..Blueprint::default() };
        errors.template = Template::new(&blueprint).unwrap();
        spec.streams = vec![errors];
        let run: Arc<Run> = start(&datapath, spec);
        wait_for(&run, RunState::Complete, 10);
        let client = &run.template_counters()[0];
        assert_eq!(client.get(Count::FlowsAttempted), 1);
        // The first may come before the flow starts.
        assert!((49..=50).contains(&client.get(Count::IcmpErrors)), "{client:?}");
        let handed = if queue == 0 { 0 } else { 50 };
        assert_eq!(sum(&run).handed_off, handed, "errors arrive on queue {queue}");
    }
}
