// SPDX-License-Identifier: Apache-2.0
//! A light thread beside the workers: follows the wall clock and the clocks of devices, moves runs through their drain, passes them next hops
//! that have another MAC and leased addresses that have changed, frees what workers are done with.
use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use spate_dpdk::DeviceCounter;

use super::{
    Clock, Run,
    device_clock::{DeviceClock, REFRESH_NS},
    slow::Moves,
    workers::Workers,
};
use crate::index::PortIndex;
use crate::lock::lock;

/// Interval at which the wall clock is read.
const WALL_NS: u64 = 1_000_000_000;
/// How often runs are looked at until they have ended: they may receive commands at any time.
const RUNS_NS: u64 = 20_000_000;

/// The monitor thread; ends when dropped.
pub(super) struct Monitor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A device that stamps packets.
pub(super) struct Stamping {
    /// Its port.
    pub(super) port: PortIndex,
    pub(super) counter: DeviceCounter,
    pub(super) clock: Arc<DeviceClock>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    runs: Vec<Arc<Run>>,
    quit: bool,
}

impl Monitor {
    pub(super) fn start(
        clock: Clock,
        workers: Arc<Workers>,
        moves: Arc<Moves>,
        devices: Vec<Stamping>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("monitor".into())
            .spawn(move || watch(&theirs, &clock, &workers, &moves, &devices))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Watches a run until it is removed.
    pub(super) fn add(&self, run: Arc<Run>) {
        lock(&self.shared.state).runs.push(run);
        self.shared.changed.notify_one();
    }

    /// The runs that are not removed.
    pub(super) fn runs(&self) -> Vec<Arc<Run>> {
        let state = lock(&self.shared.state);
        state.runs.iter().filter(|run| !run.is_removed()).cloned().collect()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        lock(&self.shared.state).quit = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(shared: &Shared, clock: &Clock, workers: &Workers, moves: &Moves, devices: &[Stamping]) {
    let mut wall_at = 0;
    let mut devices_at = if devices.is_empty() { u64::MAX } else { 0 };
    let mut state = lock(&shared.state);
    while !state.quit {
        let now = clock.mono_ns();
        if now >= wall_at {
            clock.follow_wall();
            wall_at = now + WALL_NS;
        }
        if now >= devices_at {
            for device in devices {
                // Each run keeps by how much time stamps were off at most while it was active.
                if let Some(was_off_ns) = device.clock.follow(&device.counter, clock) {
                    state.runs.iter().for_each(|run| run.note_stamp_bound(device.port, was_off_ns));
                }
            }
            devices_at = now + REFRESH_NS;
        }
        workers.clean_up();
        state.runs.retain(|run| !run.is_removed());
        // While there are runs that have not ended, this is looked at every `RUNS_NS`.
        let moved = moves.take();
        if !moved.is_empty() {
            state.runs.iter().for_each(|run| run.follow(&moved));
        }
        state.runs.iter().for_each(|run| run.follow_leased(now));
        let mut until = wall_at.min(devices_at);
        for run in &state.runs {
            if let Some(at) = run.proceed() {
                until = until.min(at).min(now + RUNS_NS);
            }
        }
        let pause = Duration::from_nanos(until.saturating_sub(clock.mono_ns()).max(200_000));
        state = shared.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
    }
    workers.clean_up();
}
