// SPDX-License-Identifier: Apache-2.0
//! Workers that serve some ports only: all that a port sends is shared out over those of its group, and nothing is by others.
use std::collections::BTreeSet;

use spate_engine::datapath::{
    Blueprint, CaptureSpec, Captured, Datapath, Direction, FieldProgram, Gap, Next, OpenError, PollMode, PortDevice,
    RunState, Sequence, StreamReceive, StreamSpec, StreamTiming, Successor, Template, Transmit, Variable, Write,
};
use spate_engine::index::{PortIndex, WorkerIndex, WorkerRange};
use spate_filter::{Instruction, Program};
use spate_stateful::{Count, Protocol, Scenario};

use crate::{
    kernel::run_inside,
    replay::{held, replaying},
    setup::{MS, assert_all_received, open, open_groups, pps, spec, start, stream, try_groups, turn, wait_for},
    stateful::{assert_all_complete, emulated, scenario, v4},
};

/// East and north are served by workers 0 and 1, west and south by workers 2 and 3.
const GROUPS: [(&[usize], usize); 2] = [(&[0, 2], 2), (&[1, 3], 2)];

fn four(device: &PortDevice) -> [(&'static str, PortDevice); 4] {
    ["east", "west", "north", "south"].map(|name| (name, device.clone()))
}

fn numbers(workers: &[WorkerIndex]) -> Vec<usize> {
    workers.iter().map(|worker| worker.0).collect()
}

#[test]
fn workers_have_queues_of_the_ports_of_their_group_only() {
    let _turn = turn();
    let ports = [("a", PortDevice::Loopback), ("b", PortDevice::Null), ("c", PortDevice::Loopback)];
    let datapath = open_groups(&ports, &[(&[2], 1), (&[0, 1], 3)]);
    let served: Vec<_> = datapath.ports().iter().map(|p| (p.workers.clone(), numbers(&p.tx_workers))).collect();
    let group = |first, count| WorkerRange::new(WorkerIndex(first), count);
    assert_eq!(served, [(group(1, 3), vec![1, 2, 3]), (group(1, 3), vec![1, 2, 3]), (group(0, 1), vec![0])]);
    let receiving: Vec<_> =
        datapath.ports().iter().map(|p| numbers(&p.rx_workers).into_iter().collect::<BTreeSet<_>>()).collect();
    assert_eq!([&receiving[0], &receiving[2]], [&BTreeSet::from([1, 2, 3]), &BTreeSet::from([0])]);
    // Without groups all serve all.
    drop(datapath);
    let datapath = open(&ports, 2, PollMode::Adaptive);
    assert!(datapath.ports().iter().all(|port| port.workers == group(0, 2) && numbers(&port.tx_workers) == [0, 1]));
}

#[test]
fn groups_that_contradict_the_ports_are_refused() {
    let _turn = turn();
    let ports = four(&PortDevice::Null);
    for (groups, message) in [
        (&[(&[0, 1, 2][..], 2)][..], "worker_groups: port south is in none: add it to one"),
        (
            &[(&[0, 1, 2, 3], 1), (&[1], 1)],
            "worker_groups[1].ports: west is in a group already: workers of one group serve a port",
        ),
        (&[(&[0, 1, 2, 3, 4], 1)], "worker_groups[0].ports: there is no port 4"),
        (&[(&[0, 1, 2, 3], 1), (&[], 1)], "worker_groups[1]: it needs a port and a worker at least"),
        (&[(&[0, 1, 2], 1), (&[3], 0)], "worker_groups[1]: it needs a port and a worker at least"),
    ] {
        let refused = try_groups(&ports, groups).map(|_| ()).unwrap_err();
        assert!(matches!(refused, OpenError::Config { .. }));
        assert_eq!(refused.to_string(), message);
    }
}

/// Packets that each worker has sent.
fn sent(datapath: &Datapath) -> Vec<u64> {
    datapath.worker_counters().iter().map(|worker| worker.tx_packets).collect()
}

#[test]
fn streams_bursts_and_replays_are_shared_out_over_the_group_of_their_port() {
    let _turn = turn();
    let datapath = open_groups(&four(&PortDevice::Loopback), &GROUPS);
    // A chain on port 3: ten packets, then once four.
    let burst = |packets, next, waits| StreamTiming {
        transmit: Transmit::Bursts { packets, count: Some(1), gap_ns: 0 },
        next,
        waits,
        ..StreamTiming::continuous(Some(pps(10_000)))
    };
    let streams = vec![
        stream(1, 0, Some(0), 60, pps(20_000)),
        stream(2, 1, Some(1), 60, pps(10_000)),
        StreamSpec {
            tx_port: PortIndex(2),
            rx_port: Some(PortIndex(2)),
            ..replaying(3, held(100, MS, |_| 80), Gap::Captured, Some(2))
        },
        StreamSpec {
            timing: burst(10, Some(Successor { next: Next::Scheduled(4), times: Some(1) }), false),
            ..stream(4, 3, Some(3), 60, pps(10_000))
        },
        StreamSpec { timing: burst(4, None, true), ..stream(5, 3, Some(3), 60, pps(10_000)) },
    ];
    let run = start(&datapath, spec(1, 0, Some(500 * MS), streams));
    wait_for(&run, RunState::Complete, 10);
    for (counters, packets) in run.counters().iter().zip([10_000, 5000, 200, 10, 4]) {
        assert_all_received(&counters.measured, packets);
    }
    // The replay is sent by one worker: number 3 modulo two.
    assert_eq!(sent(&datapath), [5000, 5200, 2507, 2507]);
    for port in datapath.port_counters() {
        assert_eq!((port.queues.len(), port.foreign_packets, port.tx_dropped), (2, 0, 0), "{port:?}");
    }
}

/// Packets that differ in a 16-bit field, unmeasured.
fn numbered(id: u16, port: usize) -> StreamSpec {
    let mut frame = stream(id, port, None, 60, pps(1)).template.frame().to_vec();
    frame[20] = id as u8;
    let program = FieldProgram {
        variables: vec![Variable {
            sequence: Sequence::Counter { min: 0, max: 9996, step: 7, first: 21, down: false },
            after: None,
            limit: 0,
            per_worker: false,
        }],
        writes: vec![Write { variable: 0, offset: 30, size: 2, add: 0, shift: 0, mask: 0, little_endian: false }],
    };
    let template = Template::new(&Blueprint { frame, program, ..Blueprint::default() }).unwrap();
    let receive = StreamReceive { varied: true, ..StreamReceive::default() };
    StreamSpec { template, receive, ..stream(id, port, None, 60, pps(5000)) }
}

/// All that is sent on each port by streams on all of them, in the order of its bytes.
fn packets_sent(datapath: &Datapath) -> Vec<Vec<Vec<u8>>> {
    let all = Program::new(&[Instruction { code: 6, jt: 0, jf: 0, k: 65_535 }]).unwrap();
    let capture = |port| {
        datapath.capture(
            PortIndex(port),
            CaptureSpec { filter: all.clone(), direction: Some(Direction::Tx), snap_len: 65_535 },
        )
    };
    let mut captures: Vec<_> = (0..4).map(capture).collect();
    let run = start(datapath, spec(1, 0, Some(200 * MS), (0..4).map(|port| numbered(port as u16, port)).collect()));
    wait_for(&run, RunState::Complete, 10);
    run.remove();
    let mut taken = Vec::new();
    for capture in &mut captures {
        let mut packets: Vec<Vec<u8>> = capture.take(8 << 20).into_iter().map(|Captured { bytes, .. }| bytes).collect();
        assert_eq!(capture.missed(), 0);
        packets.sort_unstable();
        taken.push(packets);
    }
    taken
}

#[test]
fn groups_send_the_packets_that_one_worker_sends() {
    let _turn = turn();
    let ports = four(&PortDevice::Null);
    let alone = packets_sent(&open(&ports, 1, PollMode::Adaptive));
    assert_eq!(alone.iter().map(Vec::len).collect::<Vec<_>>(), [1000; 4]);
    assert_eq!(alone[0].iter().collect::<BTreeSet<_>>().len(), 1000);
    let datapath = open_groups(&ports, &[(&[3, 0], 3), (&[1], 1), (&[2], 2)]);
    assert_eq!(packets_sent(&datapath), alone);
    // 1000 of each port over three workers.
    assert_eq!(sent(&datapath), [668, 666, 666, 1000, 500, 500]);
}

/// Templates with clients and servers on two loopback ports, with addresses of their own.
fn on_two_ports(protocol: Protocol, rates: [u64; 2]) -> Scenario {
    let of = |n: u8, rate| {
        scenario(protocol, rate, [v4(16, n, 0, 1), v4(16, n, 0, 250)], [v4(48, n, 0, 1), v4(48, n, 0, 20)])
    };
    let (mut both, other) = (of(0, rates[0]), of(1, rates[1]));
    both.pools.extend(other.pools);
    let mut template = other.templates.into_iter().next().unwrap();
    template.name = "second".into();
    template.clients[0].pool = 2;
    template.servers[0].pool = 3;
    template.client.as_mut().unwrap().port = 1;
    template.server.as_mut().unwrap().port = 1;
    both.templates.push(template);
    both
}

#[test]
fn flows_of_each_port_are_started_and_served_by_its_group() {
    let _turn = turn();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let ports = [("a", PortDevice::Loopback), ("b", PortDevice::Loopback)];
        let datapath = open_groups(&ports, &[(&[0], 2), (&[1], 3)]);
        let mut asked = emulated(&datapath, 7, Some(1000 * MS), on_two_ports(protocol, [400, 600]));
        asked.timing.drain_ns = 20_000 * MS;
        let run = start(&datapath, asked);
        wait_for(&run, RunState::Complete, 40);
        let sides = run.template_counters();
        assert_all_complete(&sides[..2], 400);
        assert_all_complete(&sides[2..], 600);
        assert_eq!(run.contradictions(), Vec::<String>::new());
        // Each worker has some of its group's, and nothing was given to another.
        let steering = run.steering();
        assert!(steering.iter().all(|s| s.rss > 0 && s.placed > 0 && s.handed_off == 0), "{steering:?}");
        let received =
            |group: std::ops::Range<usize>| -> u64 { steering[group].iter().map(|s| s.rss + s.placed).sum() };
        let of = |sides: &[spate_engine::datapath::TemplateCounters]| -> u64 {
            sides.iter().map(|side| side.get(Count::ReceivedPackets)).sum()
        };
        assert_eq!([received(0..2), received(2..5)], [of(&sides[..2]), of(&sides[2..])]);
    }
}

#[test]
fn clients_of_two_groups_with_the_same_addresses_are_refused() {
    let _turn = turn();
    let ports = [("a", PortDevice::Loopback), ("b", PortDevice::Loopback)];
    let same = |destination_port| {
        let mut same = on_two_ports(Protocol::Tcp, [100, 100]);
        for (template, port) in same.templates.iter_mut().zip([80, destination_port]) {
            template.clients[0].pool = 0;
            template.servers[0].pool = 1;
            template.destination_port = port;
        }
        same
    };
    let datapath = open_groups(&ports, &[(&[0], 1), (&[1], 1)]);
    let refused = datapath.prepare(emulated(&datapath, 7, Some(MS), same(80))).map(|_| ()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "stateful.templates[1].clients: clients of templates[0] have the same addresses on port a, which other workers serve than port \
         b, and could open the same connections: give the clients of each worker group addresses of their own"
    );
    // To another port they open others; and workers of one group share these addresses out.
    datapath.prepare(emulated(&datapath, 7, Some(MS), same(81))).unwrap().remove();
    drop(datapath);
    let datapath = open_groups(&ports, &[(&[0, 1], 2)]);
    datapath.prepare(emulated(&datapath, 7, Some(MS), same(80))).unwrap().remove();
}

#[test]
fn what_one_group_sends_another_receives_and_measures() {
    run_inside("groups::inside_across", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_across() {
    let ports = [
        ("east", PortDevice::Kernel("sp0".into())),
        ("west", PortDevice::Kernel("sp1".into())),
        ("null", PortDevice::Null),
    ];
    // A kernel interface is used by one worker of its group.
    let datapath = open_groups(&ports, &[(&[2, 0], 2), (&[1], 2)]);
    let used: Vec<_> =
        datapath.ports().iter().map(|port| (numbers(&port.tx_workers), numbers(&port.rx_workers))).collect();
    assert_eq!(used[..2], [(vec![0], vec![0]), (vec![2], vec![2])]);
    // Latency is measured by one, the other counts by trailer alone; clients are in the east, their servers in the west.
    let delayed = StreamReceive { histogram: Some(0), ..StreamReceive::default() };
    let streams = vec![
        StreamSpec { receive: delayed, ..stream(1, 0, Some(1), 60, pps(10_000)) },
        stream(2, 1, Some(0), 60, pps(5000)),
    ];
    let mut flows =
        scenario(Protocol::Tcp, 200, [v4(16, 0, 0, 1), v4(16, 0, 0, 250)], [v4(48, 0, 0, 1), v4(48, 0, 0, 20)]);
    flows.templates[0].looped = false;
    flows.templates[0].server.as_mut().unwrap().port = 1;
    let mut asked = emulated(&datapath, 7, Some(1000 * MS), flows);
    let macs: Vec<_> = datapath.ports().iter().map(|port| port.mac).collect();
    let stateful = asked.stateful.as_mut().unwrap();
    (stateful.links[0].next_hop, stateful.links[1].next_hop) = (macs[1], macs[0]);
    asked.streams = streams;
    asked.timing.drain_ns = 10_000 * MS;
    let run = start(&datapath, asked);
    wait_for(&run, RunState::Complete, 40);
    for (counters, packets) in run.counters().iter().zip([10_000, 5000]) {
        assert_all_received(&counters.measured, packets);
    }
    assert_eq!(run.distribution(0).total(), 10_000);
    assert_all_complete(&run.template_counters(), 200);
    let placed: Vec<_> = run.steering().iter().map(|s| (s.worker.0, s.rss > 0, s.placed > 0)).collect();
    assert_eq!(placed, [(0, true, false), (2, false, true)]);
    let idle = |worker: usize| datapath.worker_counters()[worker].tx_packets == 0;
    assert_eq!([0, 1, 2, 3].map(idle), [false, true, false, true]);
}
