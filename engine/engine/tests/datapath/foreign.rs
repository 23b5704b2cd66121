// SPDX-License-Identifier: Apache-2.0
//! Receivers, reflectors and other engines, over veth: inside the namespace that the tests of kernel ports make.
use std::time::Duration;

use spate_engine::datapath::{
    Allowed, Blueprint, ClockError, Datapath, LimitUnit, MaxRate, Measure, PollMode, PortCounters, PortDevice,
    ReferenceClock, Reflector, RunState, StreamReceive, StreamSpec, Swap, Template, Transmit,
};
use spate_engine::index::{PortIndex, ReceiverIndex, StreamIndex, WorkerIndex};
use spate_stateful::Ratio;

use crate::{
    kernel::run_inside,
    setup::{MS, assert_all_received, open, open_wrong, pps, spec, start, stream, wait_for},
};

fn two_ports() -> Datapath {
    two(PortDevice::Kernel)
}

fn two(device: fn(String) -> PortDevice) -> Datapath {
    open(&[("east", device("sp0".into())), ("west", device("sp1".into()))], 2, PollMode::Auto)
}

/// UDP packets without a trailer, with a payload.
fn udp(id: u16, tx_port: usize, rate: u64, payload: &[u8]) -> StreamSpec {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1]);
    frame.extend([0x10, 0, 0, 9, 0, 26, 0, 0]);
    frame.extend(payload);
    frame.resize(60.max(frame.len()), 0);
    let template = Template::new(&Blueprint { frame, ..Blueprint::default() }).unwrap();
    StreamSpec { template, ..stream(id, tx_port, None, 60, pps(rate)) }
}

#[test]
fn receivers_measure_what_others_send() {
    run_inside("foreign::inside_receivers", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_receivers() {
    let datapath = two_ports();
    let mut receiving = spec(2, 0, None, vec![]);
    receiving.measure =
        Measure { receivers: vec![PortIndex(1), PortIndex(0)], clock_bound_ns: Some(1000), ..Measure::default() };
    let receiver = start(&datapath, receiving);
    wait_for(&receiver, RunState::Running, 2);
    // What pktgen would have written just now.
    let sent = datapath.clock().now_wall_ns();
    let mut payload = [0; 16];
    payload[..4].copy_from_slice(&0xbe9b_e955u32.to_be_bytes());
    payload[8..12].copy_from_slice(&((sent / 1_000_000_000) as u32).to_be_bytes());
    payload[12..].copy_from_slice(&((sent % 1_000_000_000 / 1000) as u32).to_be_bytes());
    let sender = start(
        &datapath,
        spec(
            1,
            0,
            Some(1000 * MS),
            vec![udp(1, 0, 1000, &payload), udp(2, 0, 1000, &[]), stream(3, 0, Some(1), 60, pps(500))],
        ),
    );
    wait_for(&sender, RunState::Complete, 5);
    let received = receiver.received();
    let total = received[0].total();
    // A packet with a trailer of a run here is not foreign.
    assert_eq!((total.packets, total.bytes), (2000, 2000 * 64));
    assert_eq!(received[0].workers.iter().map(|(w, a)| (*w, a.packets)).collect::<Vec<_>>(), [(WorkerIndex(1), 2000)]);
    assert_eq!(received[1].total().packets, 0);
    assert_eq!((total.inter_arrival.count, total.jitter.count, total.latency.count), (1999, 1998, 1000));
    // 2000 packets in a second, in pairs.
    let gaps = total.inter_arrival;
    println!("{gaps:?} {:?} {:?}", total.jitter, total.latency);
    assert!((gaps.mean_ns - 500_000.0).abs() < 20_000.0, "{gaps:?}");
    assert!(gaps.variance_ns2() > 0.0 && gaps.max_ns > 500_000);
    // All were stamped before the first left: half a second on the average, and some time to start.
    let latency = total.latency;
    assert!(latency.min_ns < 400_000_000 && (400e6..900e6).contains(&latency.mean_ns), "{latency:?}");
    assert!(latency.max_ns > 900_000_000);

    receiver.reset_receiver(ReceiverIndex(0));
    std::thread::sleep(Duration::from_millis(50));
    let reset = &receiver.received()[0];
    assert_eq!((reset.total().packets, reset.total().inter_arrival.count), (0, 0));
    assert!(reset.since_wall_ns > received[0].since_wall_ns);
    let sender = start(&datapath, spec(3, 0, Some(100 * MS), vec![udp(1, 0, 1000, &[])]));
    wait_for(&sender, RunState::Complete, 5);
    assert_eq!(receiver.received()[0].total().packets, 100);
    // Once it has ended it measures nothing more.
    receiver.stop("enough");
    wait_for(&receiver, RunState::Complete, 2);
    let sender = start(&datapath, spec(4, 0, Some(100 * MS), vec![udp(1, 0, 1000, &[])]));
    wait_for(&sender, RunState::Complete, 5);
    assert_eq!(receiver.received()[0].total().packets, 100);
}

/// The same to and from these MACs, measured or not.
fn udp_between(id: u16, ports: (usize, Option<usize>), rate: u64, macs: [[u8; 6]; 2], flow: bool) -> StreamSpec {
    let plain = udp(id, ports.0, rate, &[]);
    let mut frame = plain.template.frame().to_vec();
    frame[..12].copy_from_slice(macs.as_flattened());
    let template = Template::new(&Blueprint { frame, flow, ..Blueprint::default() }).unwrap();
    StreamSpec { template, rx_port: ports.1.map(PortIndex), ..plain }
}

fn reflector(port: usize, swap: Swap) -> Reflector {
    Reflector { port: PortIndex(port), swap, any_mac: false, allowed: Allowed::default() }
}

/// Packets that a port sent back, and those that it did not, since `before`.
fn sent_back(datapath: &Datapath, port: usize, before: &[PortCounters]) -> (u64, u64) {
    let now = &datapath.port_counters()[port];
    let before = &before[port];
    (now.reflected_packets - before.reflected_packets, now.not_reflected_packets - before.not_reflected_packets)
}

#[test]
fn reflectors_send_back_what_they_receive() {
    run_inside("foreign::inside_reflectors", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_reflectors() {
    reflect_between(&two_ports());
}

/// What one port sends, the other sends back, as exactly as it is counted.
fn reflect_between(datapath: &Datapath) {
    let macs: Vec<_> = datapath.ports().iter().map(|port| port.mac).collect();
    let (east, west) = (macs[0], macs[1]);
    for (tag, swap, any_mac) in [(1, Swap::Mac, false), (2, Swap::Addresses, false), (3, Swap::Addresses, true)] {
        let before = datapath.port_counters();
        // Out of the first port and back to it; the reflecting port sends a stream of its own too.
        let mut sending = spec(
            tag,
            0,
            Some(900 * MS),
            vec![
                udp_between(1, (0, Some(0)), 5000, [west, east], true),
                stream(2, 1, Some(0), 300, pps(1000)),
                udp_between(3, (0, None), 100, [[0xff; 6], east], false),
                udp_between(4, (0, None), 200, [west, [3, 0, 0, 0, 0, 1]], false),
                udp_between(5, (0, None), 1000, [[2, 9, 9, 9, 9, 9], east], false),
                stream(6, 0, None, 60, pps(400)),
            ],
        );
        // What arrives after the sending phase is not reflected: all are sent well before its end.
        for (stream, packets) in sending.streams.iter_mut().zip([2500, 500, 50, 100, 500, 200]) {
            stream.timing.transmit = Transmit::Bursts { packets, count: Some(1), gap_ns: 0 };
        }
        sending.measure.reflectors = vec![Reflector { any_mac, ..reflector(1, swap) }];
        let run = start(datapath, sending);
        wait_for(&run, RunState::Complete, 5);
        assert_all_received(&run.counters()[0].measured, 2500);
        assert_all_received(&run.counters()[1].measured, 500);
        let after = datapath.port_counters();
        assert_eq!(after[1].rx_packets - before[1].rx_packets, 3350);
        // Not those to everybody (50), from a group (100) and without IP (200); to another station (500) only where any will do.
        let (back, not) = if any_mac { (3000, 350) } else { (2500, 850) };
        assert_eq!(sent_back(datapath, 1, &before), (back, not));
        assert_eq!(after[1].tx_packets - before[1].tx_packets, back + 500);
        assert_eq!(after[0].rx_packets - before[0].rx_packets, back + 500);
        run.remove();
    }
    let mut one = spec(7, 0, None, vec![]);
    one.measure.reflectors = vec![reflector(1, Swap::Mac)];
    let held = datapath.prepare(one.clone()).unwrap();
    one.tag = 8;
    let error = datapath.prepare(one).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "reflectors[0].port: west reflects for run \"run-7\" already: stop that first");
    held.remove();
}

#[test]
fn reflectors_on_af_xdp_sockets_send_back_what_they_receive() {
    run_inside("foreign::inside_reflectors_on_af_xdp", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_reflectors_on_af_xdp() {
    reflect_between(&two(PortDevice::Xdp));
}

#[test]
fn reflectors_send_others_packets_back_only_while_their_run_sends_and_where_they_may() {
    run_inside("foreign::inside_reflecting_phase", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_reflecting_phase() {
    let datapath = two_ports();
    let macs: Vec<_> = datapath.ports().iter().map(|port| port.mac).collect();
    let towards = [macs[1], macs[0]];
    let mut reflecting = spec(1, 0, None, vec![]);
    reflecting.timing.drain_ns = 5000 * MS;
    reflecting.measure.reflectors = vec![reflector(1, Swap::Addresses)];
    let reflecting = start(&datapath, reflecting);
    wait_for(&reflecting, RunState::Running, 2);
    let mut tag = 10;
    let mut offered = || {
        tag += 1;
        let before = datapath.port_counters();
        let sender =
            start(&datapath, spec(tag, 0, Some(100 * MS), vec![udp_between(1, (0, None), 1000, towards, false)]));
        wait_for(&sender, RunState::Complete, 5);
        sender.remove();
        sent_back(&datapath, 1, &before)
    };
    assert_eq!(offered(), (100, 0));
    // Beside a sender that needs all of the rate itself, half of it is the reflector's. What is beyond that does not wait.
    datapath.limit(Some(MaxRate { unit: LimitUnit::Packets, per_second: Ratio::new(400, 1) }));
    let before = datapath.port_counters();
    let sender = spec(9, 0, Some(500 * MS), vec![udp_between(1, (0, None), 1000, towards, false)]);
    let sender = start(&datapath, sender);
    wait_for(&sender, RunState::Complete, 5);
    sender.remove();
    let (back, not) = sent_back(&datapath, 1, &before);
    let after = datapath.port_counters();
    let sent = after[0].tx_packets - before[0].tx_packets;
    let held = after[1].throttled_packets - before[1].throttled_packets;
    println!("{sent} sent, {back} of them sent back, {held} throttled");
    assert_eq!((back + held, not), (sent, 0));
    // 240 in half a second and the grace behind it, and a burst of each port. A worker that loses its CPU sends
    // fewer of both.
    assert!(
        4 * sent.min(back) >= sent + back && sent + back <= 240 + 2 * 64,
        "{sent} sent, {back} of them sent back, {held} throttled"
    );
    datapath.limit(None);
    reflecting.pause(0).unwrap();
    wait_for(&reflecting, RunState::Paused, 2);
    assert_eq!(offered(), (0, 100));
    reflecting.resume(0).unwrap();
    wait_for(&reflecting, RunState::Running, 2);
    assert_eq!(offered(), (100, 0));
    reflecting.stop("enough");
    assert_eq!(reflecting.state(), RunState::Draining);
    assert_eq!(offered(), (0, 100));
    reflecting.remove();
    // From 198.18.0.1, which they would be sent back to.
    for (first, last, sent) in
        [([198, 18, 0, 0], [198, 18, 0, 9], (100, 0)), ([198, 19, 0, 0], [198, 19, 0, 9], (0, 100))]
    {
        let mut limited = spec(2, 0, None, vec![]);
        let allowed = Allowed { addresses: [(first.into(), last.into())].into(), ..Allowed::default() };
        limited.measure.reflectors = vec![Reflector { allowed, ..reflector(1, Swap::Addresses) }];
        let limited = start(&datapath, limited);
        wait_for(&limited, RunState::Running, 2);
        assert_eq!(offered(), sent);
        limited.remove();
    }
}

#[test]
fn two_reflectors_do_not_pass_packets_round_for_ever() {
    run_inside("foreign::inside_reflect_loop", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_reflect_loop() {
    let datapath = two_ports();
    let macs: Vec<_> = datapath.ports().iter().map(|port| port.mac).collect();
    let towards = [macs[1], macs[0]];
    for (tag, swap) in [(1, Swap::Mac), (3, Swap::Addresses)] {
        let mut facing = spec(tag, 0, None, vec![]);
        facing.measure.reflectors = [0, 1].map(|port| Reflector { any_mac: tag == 1, ..reflector(port, swap) }).into();
        let facing = start(&datapath, facing);
        wait_for(&facing, RunState::Running, 2);
        let before = datapath.port_counters();
        let streams = vec![udp_between(1, (0, None), 100, towards, false), stream(2, 0, None, 60, pps(100))];
        let sender = start(&datapath, spec(tag + 1, 0, Some(100 * MS), streams));
        wait_for(&sender, RunState::Complete, 5);
        std::thread::sleep(Duration::from_millis(500));
        // With a TTL of 64, each of ten packets is sent back 63 times, by both ports in turn, first by west; the ten without one
        // never are.
        let (east, west) = (sent_back(&datapath, 0, &before), sent_back(&datapath, 1, &before));
        println!("sent back, and not: east {east:?}, west {west:?}");
        assert_eq!((east, west), ((310, 10), (320, 10)));
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!((sent_back(&datapath, 0, &before), sent_back(&datapath, 1, &before)), (east, west));
        facing.remove();
        sender.remove();
    }
}

#[test]
fn delays_between_engines_are_by_the_reference_clock_of_the_run() {
    run_inside("foreign::inside_reference", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_reference() {
    const SECOND: u64 = 1000 * MS;
    let right = open_wrong(&[("port", PortDevice::Null)], ClockError::default());
    let since_ns = right.clock().mono_ns();
    right.close();
    let errors = [(2_000_000_000, 50.0), (-2_000_000_000, -50.0)];
    let engines: Vec<_> = ["sp0", "sp1"]
        .into_iter()
        .zip(errors)
        .map(|(port, (offset_ns, ppm))| {
            open_wrong(&[("port", PortDevice::Kernel(port.into()))], ClockError { offset_ns, ppm, since_ns })
        })
        .collect();
    let clocks: Vec<_> = engines.iter().map(Datapath::clock).collect();
    // By how much the second's clock is behind the first's, and the error of that: the best of some readings.
    let behind = || {
        let reading = || {
            let (before, second, after) = (clocks[0].mono_ns(), clocks[1].mono_ns(), clocks[0].mono_ns());
            (after - before, before + (after - before) / 2, second)
        };
        let (width, first, second) = (0..20).map(|_| reading()).min_by_key(|(width, ..)| *width).unwrap();
        (first.wrapping_sub(second).cast_signed(), width / 2 + 1, second)
    };
    let runs: Vec<_> = (0..2)
        .map(|index| {
            let timed = StreamReceive { histogram: Some(0), ..StreamReceive::default() };
            let streams = vec![StreamSpec { receive: timed, ..stream(1, 0, Some(0), 60, pps(2000)) }];
            let mut part = spec(1, 0, Some(SECOND), streams);
            part.share = (index, 2);
            part.streams[0].part = Some(part.share);
            engines[index as usize].prepare(part).unwrap()
        })
        .collect();
    let (first, at) = (ReferenceClock { offset_ns: 7, ..ReferenceClock::default() }, clocks[0].mono_ns() + 200 * MS);
    runs[0].set_reference(first).unwrap();
    runs[0].start_at_mono(at).unwrap();
    let follow = || {
        let (behind, bound_ns, measured_at_ns) = behind();
        let second = ReferenceClock { offset_ns: 7 + behind, bound_ns, measured_at_ns, drift_ppb: 120_000 };
        runs[1].set_reference(second).unwrap();
        behind
    };
    runs[1].start_at_mono(at.checked_add_signed(-follow()).unwrap()).unwrap();
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(100));
        follow();
    }
    assert_eq!(runs[0].reference_bound_ns(), Some(0));
    let bound = runs[1].reference_bound_ns().unwrap();
    assert!((12_000..1_000_000).contains(&bound), "{bound}");
    let starts: Vec<_> = runs.iter().map(|run| run.started_at().unwrap()).collect();
    assert!(starts[0].abs_diff(starts[1] + 4 * SECOND) < 10 * MS, "by their own wall clocks: {starts:?}");
    for run in &runs {
        wait_for(run, RunState::Complete, 5);
        let delays = run.delays(&[StreamIndex(0)]).unwrap();
        println!("bound {bound} ns, {delays:?}");
        assert_eq!((delays.count, delays.between_engines, delays.unknown), (1000, 1000, 0));
        assert_eq!((delays.negative > 0, run.distribution(0).total()), (delays.min_ns == 0, 1000));
        // Less than 4 s and a drift of 0.1 ms: what a busy machine takes.
        assert!(delays.negative < 100 && delays.sum_ns / delays.count < 20 * MS, "{delays:?}");
        run.remove();
    }
}

#[test]
fn between_engines_only_jitter_is_known_unless_clocks_agree() {
    run_inside("foreign::inside_engines", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_engines() {
    let engines = ["sp0", "sp1"].map(|port| open(&[("port", PortDevice::Kernel(port.into()))], 1, PollMode::Auto));
    for (tag, bound) in [(1, None), (2, Some(1_000_000))] {
        let runs: Vec<_> = (0..2)
            .map(|index| {
                let timed = StreamReceive { histogram: Some(0), ..StreamReceive::default() };
                let streams = vec![StreamSpec { receive: timed, ..stream(1, 0, Some(0), 60, pps(2000)) }];
                let mut part = spec(tag, 0, Some(500 * MS), streams);
                part.share = (index, 2);
                part.streams[0].part = Some(part.share);
                part.measure.clock_bound_ns = bound;
                engines[index as usize].prepare(part).unwrap()
            })
            .collect();
        let at = engines[0].clock().now_wall_ns() + 200 * MS;
        runs.iter().for_each(|run| run.start(at).unwrap());
        for run in &runs {
            wait_for(run, RunState::Complete, 5);
            let c = run.counters()[0].measured;
            // Each sends its half, and receives the other's.
            assert_eq!((c.tx_packets, c.rx_packets, c.duplicates, c.out_of_order, c.misdirected), (500, 500, 0, 0, 0));
            let delays = run.delays(&[StreamIndex(0)]).unwrap();
            assert_eq!(delays.differences, 499);
            assert!(delays.difference_sum_ns > 0);
            let known = run.distribution(0).total();
            match bound {
                None => assert_eq!((delays.count, delays.unknown, delays.max_ns, known), (0, 500, 0, 0)),
                Some(_) => assert_eq!((delays.count, delays.unknown, known), (500, 0, 500)),
            }
            run.remove();
        }
    }
}
