// SPDX-License-Identifier: Apache-2.0
//! Data paths and runs for tests.
use std::{
    fs,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use spate_engine::datapath::{
    Blueprint, ClockError, Config, Datapath, Measure, Memory, OpenError, PhaseCounters, PollMode, PortConfig,
    PortDevice, Rate, Run, RunError, RunSpec, RunState, StampedBy, StreamReceive, StreamSpec, StreamTiming, Template,
    Timing, UseOffloads, WorkerGroup,
};
use spate_engine::index::PortIndex;

pub const MS: u64 = 1_000_000;
/// Packet memory, in bytes.
pub const MEMORY: u64 = 192 << 20;

/// Held by a test while it runs.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A data path with these ports, its workers on CPUs 0, 1, ... and control on the last one there is.
pub fn open(ports: &[(&str, PortDevice)], workers: usize, poll: PollMode) -> Datapath {
    open_with(ports, workers, poll, UseOffloads::Auto)
}

/// The same, with what devices do of the work on packets.
pub fn open_with(ports: &[(&str, PortDevice)], workers: usize, poll: PollMode, offloads: UseOffloads) -> Datapath {
    Datapath::open(config(ports, workers, poll, offloads)).unwrap()
}

/// The same, to be opened.
pub fn open_config(ports: &[(&str, PortDevice)], workers: usize, poll: PollMode) -> Config {
    config(ports, workers, poll, UseOffloads::Auto)
}

/// With one worker, whose clock is wrong.
pub fn open_wrong(ports: &[(&str, PortDevice)], clock_error: ClockError) -> Datapath {
    Datapath::open(Config { clock_error, ..config(ports, 1, PollMode::Auto, UseOffloads::Auto) }).unwrap()
}

/// A data path with these groups of workers, each by the indices of its ports and its size. Workers share the CPUs there are.
pub fn open_groups(ports: &[(&str, PortDevice)], groups: &[(&[usize], usize)]) -> Datapath {
    try_groups(ports, groups).unwrap()
}

/// The same, or why not.
pub fn try_groups(ports: &[(&str, PortDevice)], groups: &[(&[usize], usize)]) -> Result<Datapath, OpenError> {
    let group = |&(ports, workers): &(&[usize], usize)| WorkerGroup {
        ports: ports.iter().copied().map(PortIndex).collect(),
        workers,
    };
    let worker_groups: Vec<_> = groups.iter().map(group).collect();
    let workers = worker_groups.iter().map(|group| group.workers).sum();
    Datapath::open_without_own_cpus(Config {
        worker_cpus: (0..workers).collect(),
        worker_groups,
        ..config(ports, 1, PollMode::Adaptive, UseOffloads::Auto)
    })
}

fn config(ports: &[(&str, PortDevice)], workers: usize, poll: PollMode, offloads: UseOffloads) -> Config {
    let cpus = thread::available_parallelism().unwrap().get();
    assert!(workers <= cpus, "{workers} workers need as many CPUs");
    Config {
        ports: ports
            .iter()
            .map(|(name, device)| PortConfig {
                name: (*name).into(),
                device: device.clone(),
                line_rate_bps: None,
                offloads,
                mac: None,
                any_mac: false,
                stamped_by: StampedBy::Cpu,
            })
            .collect(),
        worker_cpus: (0..workers).collect(),
        worker_groups: Vec::new(),
        control_cpus: vec![cpus - 1],
        memory: Memory::Normal { bytes: MEMORY },
        poll,
        clock_error: ClockError::default(),
    }
}

pub fn pps(packets: u64) -> Rate {
    Rate::packets_per_second(packets, 1).unwrap()
}

/// A stream of `len`-byte frames (without FCS) from one port to another.
pub fn stream(id: u16, tx_port: usize, rx_port: Option<usize>, len: usize, rate: Rate) -> StreamSpec {
    let mut frame = vec![0; len];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    // A local experimental Ethertype (IEEE 802): no host answers it.
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    let template = Template::new(&Blueprint { frame, flow: true, ..Blueprint::default() }).unwrap();
    let timing = StreamTiming::continuous(Some(rate));
    StreamSpec {
        name: format!("s{id}"),
        id,
        tx_port: PortIndex(tx_port),
        rx_port: rx_port.map(PortIndex),
        part: Some((0, 1)),
        template,
        replay: None,
        timing,
        enabled: true,
        paused: false,
        cache: 0,
        receive: StreamReceive::default(),
        next_hop: None,
    }
}

pub fn spec(tag: u16, warmup_ns: u64, duration_ns: Option<u64>, streams: Vec<StreamSpec>) -> RunSpec {
    RunSpec {
        run_id: format!("run-{tag}"),
        tag,
        timing: Timing { warmup_ns, duration_ns, drain_ns: 50 * MS },
        late_after_ns: None,
        share: (0, 1),
        streams,
        stateful: None,
        measure: Measure::default(),
    }
}

/// Prepares a run and starts it in 20 ms.
pub fn start(datapath: &Datapath, spec: RunSpec) -> Arc<Run> {
    let run = datapath.prepare(spec).unwrap();
    assert_eq!(run.state(), RunState::Prepared);
    start_soon(datapath, &run);
    run
}

/// Starts a run in 20 ms. A busy machine may take longer to ask for the start, which is then asked for again.
pub fn start_soon(datapath: &Datapath, run: &Run) {
    let mut asked = (0..10).map(|_| run.start(datapath.clock().now_wall_ns() + 20 * MS));
    asked.find(|asked| !matches!(asked, Err(RunError::Passed { .. }))).expect("each was late").unwrap();
}

/// Waits for a state that must come within `seconds`.
pub fn wait_for(run: &Run, state: RunState, seconds: u64) {
    let start = Instant::now();
    while run.state() != state {
        assert!(start.elapsed() < Duration::from_secs(seconds), "the run is {:?}, not {state:?}", run.state());
        thread::sleep(Duration::from_millis(2));
    }
}

/// Every packet of a phase came back, once and in order.
pub fn assert_all_received(counters: &PhaseCounters, packets: u64) {
    assert_eq!(
        (
            counters.tx_packets,
            counters.tx_dropped,
            counters.rx_packets,
            counters.rx_bytes,
            counters.duplicates,
            counters.out_of_order,
            counters.misdirected
        ),
        (packets, 0, packets, counters.tx_bytes, 0, 0, 0)
    );
}

/// A claim about time. It counts while nothing else had the CPUs of this process: where it does not hold although its threads
/// always ran when they could, the test fails. Otherwise it is tried again. Threads that end in it are not seen: a data path
/// is opened before.
pub fn undisturbed(claim: impl Fn() -> Result<(), String>) {
    const TRIES: usize = 12;
    let mut failures = Vec::new();
    for _ in 0..TRIES {
        let before = kept_from_cpu();
        let Err(failure) = claim() else { return };
        let kept = kept_from_cpu().saturating_sub(before);
        assert!(kept >= Duration::from_micros(500), "{failure}, and threads waited for CPUs {kept:?} only");
        failures.push(format!("{failure}, with threads kept from CPUs for {kept:?}"));
    }
    panic!("it never held in {TRIES} tries: {failures:#?}");
}

/// How long threads of this process were runnable and did not run, because others did; and other machines of the same host.
fn kept_from_cpu() -> Duration {
    let mut waited = 0;
    for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
        // A thread may have ended since.
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        waited += text.split_whitespace().nth(1).map_or(0, |ns| ns.parse::<u64>().unwrap());
    }
    let stat = fs::read_to_string("/proc/stat").unwrap();
    // In hundredths of a second; the eighth number of the first line.
    let stolen: u64 = stat.split_whitespace().nth(8).unwrap().parse().unwrap();
    Duration::from_nanos(waited) + Duration::from_millis(10 * stolen)
}
