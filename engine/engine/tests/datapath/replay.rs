// SPDX-License-Identifier: Apache-2.0
//! Captures replayed by workers: every packet arrives, at its time, whether the capture is held or read while it is sent.
use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use spate_engine::datapath::{
    Blueprint, Change, Changes, Gap, Half, Mark, Next, PhaseCounters, PollMode, PortDevice, Rate, Recording,
    ReplaySpec, Rewrite, Run, RunState, SplitBy, StreamReceive, StreamSpec, StreamTiming, Successor, Template,
    Transmit,
};

use spate_engine::index::{PortIndex, StreamIndex};

use crate::kernel::run_inside;
use crate::setup::{MS, assert_all_received, open, pps, spec, start, stream, turn, undisturbed, wait_for};
use spate_stateful::Ratio;

/// A pcap file of packets of a local experimental Ethertype, `every_ns` apart; packet n has `len(n)` bytes.
fn write_pcap(file: impl Write, packets: u64, every_ns: u64, len: impl Fn(u64) -> usize) {
    let mut file = BufWriter::new(file);
    let words = |file: &mut BufWriter<_>, words: &[u32]| {
        words.iter().for_each(|word| file.write_all(&word.to_le_bytes()).unwrap());
    };
    words(&mut file, &[0xa1b2_3c4d, 2 | 4 << 16, 0, 0, 65_535, 1]);
    for n in 0..packets {
        let (at, len) = (n * every_ns, len(n));
        words(&mut file, &[(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, len as u32, len as u32]);
        let mut frame = vec![n as u8; len];
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        file.write_all(&frame).unwrap();
    }
    file.flush().unwrap();
}

/// A file that is deleted at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, packets: u64, every_ns: u64, len: usize) -> Self {
        let path = std::env::temp_dir().join(format!("spate-{}-{name}.pcap", std::process::id()));
        write_pcap(File::create(&path).unwrap(), packets, every_ns, |_| len);
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn rewrite() -> Rewrite {
    Rewrite::new(&Changes { flow: true, ..Changes::default() }).unwrap()
}

/// A measured stream that replays a capture from port 0 to itself.
pub fn replaying(id: u16, capture: Recording, gap: Gap, loops: Option<u64>) -> StreamSpec {
    let rate = Rate::new(1, 1).unwrap();
    StreamSpec {
        replay: Some(ReplaySpec { capture, rewrite: rewrite(), gap, loops, min_gap_ns: 0, first_id: id }),
        timing: StreamTiming::continuous(Some(rate)),
        ..stream(id, 0, Some(0), 60, rate)
    }
}

pub fn held(packets: u64, every_ns: u64, len: impl Fn(u64) -> usize) -> Recording {
    let mut file = Vec::new();
    write_pcap(&mut file, packets, every_ns, len);
    Recording::of_bytes(&file, Gap::Captured, None, &rewrite(), |_| Ok(())).unwrap()
}

fn from_file(path: &Path, gap: Gap) -> Recording {
    Recording::of_file(path, gap, None, &rewrite(), |_| Ok(())).unwrap()
}

fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn replays_beside_a_stream_all_arrive_in_their_phases() {
    let _turn = turn();
    for workers in [1, 2] {
        let datapath = open(&[("a", PortDevice::Loopback)], workers, PollMode::Adaptive);
        // Two captures by two workers, where there are two; one has packets longer than most.
        let long = |n: u64| if n.is_multiple_of(10) { 9000 } else { 60 + n as usize % 1400 };
        let streams = vec![
            replaying(1, held(100, MS, long), Gap::Captured, None),
            replaying(2, held(700, MS / 2, |n| 60 + n as usize), Gap::Captured, Some(1)),
            stream(3, 0, Some(0), 60, pps(10_000)),
        ];
        let run = start(&datapath, spec(7, 100 * MS, Some(400 * MS), streams));
        wait_for(&run, RunState::Complete, 5);
        let counters = run.counters();
        for (stream, warmup, measured) in [(0, 100, 400), (1, 200, 500), (2, 1000, 4000)] {
            assert_all_received(&counters[stream].warmup, warmup);
            assert_all_received(&counters[stream].measured, measured);
        }
        let bytes = |from: u64| (from..from + 100).map(|n| long(n % 100) as u64 + 4).sum::<u64>();
        assert_eq!(counters[0].warmup.tx_bytes, bytes(0));
        let sent: Vec<u64> = datapath.worker_counters().iter().map(|worker| worker.tx_packets).collect();
        assert_eq!(sent.iter().sum::<u64>(), 6200);
        let port = &datapath.port_counters()[0];
        assert_eq!((port.tx_packets, port.rx_packets, port.foreign_packets), (6200, 6200, 0));
        run.remove();
    }
}

/// The halves of a capture of 100 packets, a millisecond apart, of which the initiator sent every fourth: that one from port 0, the
/// responder's from port 1, each to a port of its own.
fn halves(to: [usize; 2]) -> Vec<StreamSpec> {
    let mut file = Vec::new();
    write_pcap(&mut file, 100, MS, |_| 60);
    for (n, frame) in file[24..].chunks_mut(16 + 60).enumerate() {
        frame[16 + 6..][..6].copy_from_slice(&[2, 0, 0, 0, 0, u8::from(n % 4 == 0)]);
    }
    let half = |responder| {
        let half = Half { by: SplitBy::Mac, responder };
        Recording::of_bytes(&file, Gap::Captured, Some(half), &rewrite(), |_| Ok(())).unwrap()
    };
    let from = |(tx_port, responder)| {
        let replay = replaying(tx_port as u16 + 1, half(responder), Gap::Captured, None);
        StreamSpec { tx_port: PortIndex(tx_port), rx_port: Some(PortIndex(to[tx_port])), ..replay }
    };
    [(0, false), (1, true)].map(from).into()
}

/// Fails unless both halves were sent for 100 ms and then 400 ms, in which the whole capture is sent five times.
fn assert_whole_passes(run: &Run) {
    let counters = run.counters();
    for (stream, warmup, measured) in [(0, 25, 100), (1, 75, 300)] {
        assert_all_received(&counters[stream].warmup, warmup);
        assert_all_received(&counters[stream].measured, measured);
    }
}

#[test]
fn halves_of_a_capture_leave_from_their_ports_at_its_times_in_every_pass() {
    let _turn = turn();
    for workers in [1, 2] {
        let ports = [("a", PortDevice::Loopback), ("b", PortDevice::Loopback)];
        let datapath = open(&ports, workers, PollMode::Adaptive);
        let run = start(&datapath, spec(7, 100 * MS, Some(400 * MS), halves([0, 1])));
        wait_for(&run, RunState::Complete, 5);
        assert_whole_passes(&run);
        let sent: Vec<u64> = datapath.port_counters().iter().map(|port| port.tx_packets).collect();
        assert_eq!(sent, [125, 375]);
        run.remove();
        // Twice as fast from the fourth pass on: three passes, and four in the time of two.
        let run = start(&datapath, spec(8, 0, Some(500 * MS), halves([0, 1])));
        let at = run.started_at().unwrap();
        run.update(&[StreamIndex(0), StreamIndex(1)], Change::Factor(Ratio::new(2, 1)), at + 300 * MS).unwrap();
        wait_for(&run, RunState::Complete, 5);
        let counters = run.counters();
        assert_all_received(&counters[0].measured, 7 * 25);
        assert_all_received(&counters[1].measured, 7 * 75);
        run.remove();
    }
}

#[test]
fn a_conversation_goes_both_ways_over_veth() {
    run_inside("replay::inside_both_ways", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_both_ways() {
    let ports = [("east", PortDevice::Kernel("sp0".into())), ("west", PortDevice::Kernel("sp1".into()))];
    let datapath = open(&ports, 1, PollMode::Auto);
    let run = start(&datapath, spec(7, 100 * MS, Some(400 * MS), halves([1, 0])));
    wait_for(&run, RunState::Complete, 5);
    assert_whole_passes(&run);
}

#[test]
fn a_replays_speed_changes_while_it_plays_and_it_stands_and_goes_on() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 2, PollMode::Adaptive);
    let run =
        start(&datapath, spec(7, 0, Some(600 * MS), vec![replaying(9, held(100, MS, |_| 60), Gap::Captured, None)]));
    let at = run.started_at().unwrap();
    run.update(&[StreamIndex(0)], Change::Factor(Ratio::new(5, 2)), at + 100 * MS).unwrap();
    run.update(&[StreamIndex(0)], Change::Paused(true), at + 300 * MS).unwrap();
    run.update(&[StreamIndex(0)], Change::Paused(false), at + 400 * MS).unwrap();
    wait_for(&run, RunState::Complete, 5);
    // 100 in 100 ms, then 250 every 100 ms for 400 ms.
    assert_all_received(&run.counters()[0].measured, 100 + 1000);
    run.remove();

    // A run that is paused keeps what is between its packets.
    let run =
        start(&datapath, spec(8, 0, Some(300 * MS), vec![replaying(9, held(100, MS, |_| 60), Gap::Captured, Some(2))]));
    let at = run.started_at().unwrap();
    run.pause(at + 50 * MS).unwrap();
    wait_for(&run, RunState::Paused, 5);
    thread::sleep(Duration::from_millis(50));
    assert!(run.counters()[0].measured.tx_packets <= 50);
    run.resume(0).unwrap();
    wait_for(&run, RunState::Complete, 5);
    assert_all_received(&run.counters()[0].measured, 200);
}

/// A burst of packets that are a tenth of a millisecond apart.
fn burst(id: u16, packets: u64) -> StreamSpec {
    let one = stream(id, 0, Some(0), 60, pps(10_000));
    let transmit = Transmit::Bursts { packets, count: Some(1), gap_ns: 0 };
    StreamSpec { timing: StreamTiming { transmit, ..one.timing }, ..one }
}

/// Streams that start each other in a circle, which is gone through this many times.
fn circle(mut streams: Vec<StreamSpec>, rounds: u64) -> Vec<StreamSpec> {
    let count = streams.len();
    for index in 0..count {
        let next = (index + 1) % count;
        let to = if streams[next].replay.is_some() { Next::Elsewhere(next) } else { Next::Scheduled(next) };
        let times = (next == 0).then_some(rounds - 1);
        let timing = &mut streams[index].timing;
        (timing.pinned, timing.waits, timing.next) = (true, index > 0, Some(Successor { next: to, times }));
    }
    streams
}

#[test]
fn a_chain_goes_through_a_replay_with_exact_counts_and_times() {
    let _turn = turn();
    for workers in [1, 2] {
        let datapath = open(&[("a", PortDevice::Loopback)], workers, PollMode::Adaptive);
        let mut replay = replaying(2, held(100, MS / 10, |_| 80), Gap::Captured, Some(2));
        replay.timing.start_delay_ns = 5 * MS;
        let streams = circle(vec![burst(1, 100), replay, burst(3, 50)], 3);
        let run = start(&datapath, spec(7, 30 * MS, Some(270 * MS), streams));
        wait_for(&run, RunState::Complete, 5);
        let counters = run.counters();
        // A round takes 9.9 ms, then 5 and 19.9, then 4.9: 39.7 ms. 151 packets of the replay are of the warm-up.
        for (counters, warmup, measured) in [(&counters[0], 100, 200), (&counters[1], 151, 449), (&counters[2], 0, 150)]
        {
            assert_all_received(&counters.warmup, warmup);
            assert_all_received(&counters.measured, measured);
        }
        let last: Vec<u64> = counters.iter().map(|stream| stream.measured.last_due_ns / (MS / 10)).collect();
        assert_eq!(last, [794 + 99, 794 + 348, 794 + 397]);
        let sent: Vec<u64> = datapath.worker_counters().iter().map(|worker| worker.tx_packets).collect();
        assert_eq!((sent[0], sent.iter().sum::<u64>()), (1050, 1050));
        run.remove();
    }
}

#[test]
fn a_long_file_is_read_again_whenever_its_chain_comes_to_it() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 2, PollMode::Adaptive);
    let file = Temporary::new("chained", 9000, 20_000, 1000);
    assert!(fs::metadata(&file.0).unwrap().len() > 8 << 20);
    let streams =
        circle(vec![burst(1, 10), replaying(2, from_file(&file.0, Gap::Captured), Gap::Captured, Some(1))], 3);
    let run = start(&datapath, spec(7, 0, Some(800 * MS), streams));
    wait_for(&run, RunState::Complete, 10);
    let counters = run.counters();
    assert_all_received(&counters[0].measured, 30);
    assert_all_received(&counters[1].measured, 27_000);
    // Rounds of 0.9 ms and 179.98 ms.
    assert_eq!(counters[1].measured.last_due_ns, 3 * 180_880_000);
}

#[test]
fn a_chain_with_a_replay_that_several_workers_would_send_is_refused_by_name() {
    type Spoil = fn(&mut [StreamSpec]);
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 2, PollMode::Adaptive);
    let rows: [(Spoil, &str); 2] = [
        (
            |streams| streams[0].timing.pinned = false,
            "streams[0].timing.next: it and streams[1] must be pinned, as one of them replays a capture",
        ),
        (
            |streams| streams[1].replay = None,
            "streams[0].timing.next: streams[1] is to be elsewhere exactly if it replays a capture",
        ),
    ];
    for (change, problem) in rows {
        let mut streams = circle(vec![burst(1, 10), replaying(2, held(3, MS, |_| 60), Gap::Captured, Some(1))], 3);
        change(&mut streams);
        let refused = datapath.prepare(spec(7, 0, Some(100 * MS), streams)).map(|_| ()).unwrap_err();
        assert_eq!(refused.to_string(), problem);
    }
}

#[test]
fn departures_keep_the_captures_times() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy);
    undisturbed(|| {
        let run = start(
            &datapath,
            spec(7, 0, Some(100 * MS), vec![replaying(1, held(1000, MS / 10, |_| 60), Gap::Captured, Some(1))]),
        );
        wait_for(&run, RunState::Complete, 5);
        let c = run.counters()[0].measured;
        run.remove();
        // Another thread may have the worker's CPU for milliseconds; most leave within one all the same.
        if c.tx_packets == 1000 && c.late < 300 { Ok(()) } else { Err(format!("{c:?}")) }
    });
}

#[test]
fn a_long_file_is_sent_whole_with_little_memory() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Adaptive);
    // What DPDK touches for the first time is not the file's.
    let warm = start(&datapath, spec(1, 0, Some(100 * MS), vec![stream(1, 0, Some(0), 1000, pps(100_000))]));
    wait_for(&warm, RunState::Complete, 5);
    let file = Temporary::new("long", 67_000, 15_000, 1000);
    assert!(fs::metadata(&file.0).unwrap().len() > 64 << 20);
    let before = resident();
    let run = start(
        &datapath,
        spec(2, 0, Some(2200 * MS), vec![replaying(1, from_file(&file.0, Gap::Captured), Gap::Captured, Some(2))]),
    );
    let mut most = 0;
    while run.state() != RunState::Complete {
        most = most.max(resident());
        thread::sleep(Duration::from_millis(20));
    }
    let more = most.saturating_sub(before) >> 20;
    println!("{more} MiB more are resident, late {}", run.counters()[0].measured.late);
    assert_all_received(&run.counters()[0].measured, 134_000);
    assert!(more < 24, "{more} MiB more are resident");
}

/// What was due is either sent or counted as dropped.
fn accounted(counters: &PhaseCounters, due: u64) {
    assert_eq!(counters.tx_packets + counters.tx_dropped, due, "{counters:?}");
    assert_eq!(counters.rx_packets, counters.tx_packets);
}

#[test]
fn a_file_that_is_read_too_slowly_is_late_and_what_is_due_at_the_end_dropped() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Adaptive);
    let file = Temporary::new("fast", 66_000, 1, 1000);
    // All is due within 0.5 ms, and at most for 15 ms and the grace after that it can be sent: more than a quick machine sends in that time.
    let streams = vec![replaying(1, from_file(&file.0, Gap::Captured), Gap::Captured, Some(60))];
    let run = start(&datapath, spec(2, 0, Some(15 * MS), streams));
    wait_for(&run, RunState::Complete, 20);
    let counters = run.counters()[0].measured;
    accounted(&counters, 60 * 66_000);
    assert!(counters.late > 0 && counters.tx_dropped > 0, "{counters:?}");
}

#[test]
fn a_file_that_shrinks_under_the_reader_is_reported_by_what_it_drops() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Adaptive);
    let file = Temporary::new("shrinks", 66_000, 10_000, 1000);
    let streams = vec![replaying(1, from_file(&file.0, Gap::Captured), Gap::Captured, Some(1))];
    let run = start(&datapath, spec(2, 0, Some(1000 * MS), streams));
    File::options().write(true).open(&file.0).unwrap().set_len(40 << 20).unwrap();
    wait_for(&run, RunState::Complete, 20);
    let counters = run.counters()[0].measured;
    accounted(&counters, 66_000);
    assert!(counters.tx_packets > 40_000 && counters.tx_dropped > 20_000, "{counters:?}");
}

#[test]
fn a_replay_that_is_stopped_or_forgotten_leaves_nothing_behind() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Adaptive);
    let file = Temporary::new("stopped", 66_000, 100_000, 1000);
    // Names of tests' own threads are longer.
    let is_reader =
        |thread: &fs::DirEntry| fs::read_to_string(thread.path().join("comm")).is_ok_and(|c| c == "replay\n");
    let readers = || fs::read_dir("/proc/self/task").unwrap().filter(|t| is_reader(t.as_ref().unwrap())).count();
    let wait_until = |count| {
        let start = Instant::now();
        while readers() != count {
            assert!(start.elapsed() < Duration::from_secs(5), "{} readers", readers());
            thread::sleep(Duration::from_millis(2));
        }
    };
    let capture = from_file(&file.0, Gap::Captured);
    for tag in 1..=10 {
        let streams = vec![replaying(1, capture.clone(), Gap::Captured, None)];
        let run = start(&datapath, spec(tag, 0, None, streams));
        wait_until(1);
        while run.counters()[0].measured.tx_packets == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        if tag % 2 == 0 {
            run.stop("enough");
            wait_for(&run, RunState::Complete, 5);
            let counters = run.counters()[0].measured;
            assert_eq!(counters.rx_packets, counters.tx_packets);
        }
        run.remove();
        drop(run);
        wait_until(0);
    }
}

#[test]
fn marked_packets_of_a_replay_are_counted_where_they_arrive() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Adaptive);
    let mut file = Vec::new();
    write_ip_pcap(&mut file, 50);
    let mark = Mark::Ipv4Identification(77);
    let rewrite = Rewrite::new(&Changes { mark: Some(mark), fix_checksums: true, ..Changes::default() }).unwrap();
    let capture = Recording::of_bytes(&file, Gap::Even, None, &rewrite, |_| Ok(())).unwrap();
    let template = Template::new(&Blueprint { frame: capture.survey.first.clone(), ..Blueprint::default() }).unwrap();
    let rate = pps(10_000);
    let one = StreamSpec {
        template,
        replay: Some(ReplaySpec { capture, rewrite, gap: Gap::Even, loops: Some(4), min_gap_ns: 0, first_id: 1 }),
        receive: StreamReceive { mark: Some(mark), ..StreamReceive::default() },
        ..stream(1, 0, Some(0), 60, rate)
    };
    let run = start(&datapath, spec(2, 0, Some(100 * MS), vec![one]));
    wait_for(&run, RunState::Complete, 5);
    let counters = run.counters()[0].measured;
    assert_eq!((counters.tx_packets, counters.rx_packets, counters.rx_bytes), (200, 200, counters.tx_bytes));
    assert_eq!(datapath.port_counters()[0].foreign_packets, 0);
}

/// A pcap file of packets that are little more than an IPv4 header.
fn write_ip_pcap(file: &mut Vec<u8>, packets: u32) {
    let mut frame = vec![0; 60];
    frame[12..17].copy_from_slice(&[8, 0, 0x45, 0, 0]);
    frame[17] = 46;
    frame[23] = 253;
    let words = [0xa1b2_3c4d, 2 | 4 << 16, 0, 0, 65_535, 1u32];
    file.extend(words.into_iter().flat_map(u32::to_le_bytes));
    for n in 0..packets {
        file.extend([0, n, 60, 60].into_iter().flat_map(u32::to_le_bytes));
        file.extend(&frame);
    }
}
