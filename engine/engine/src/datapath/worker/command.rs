// SPDX-License-Identifier: Apache-2.0
//! Commands from control to a worker, through a queue with one writer and one reader, and what it gets back to free.
use std::sync::Arc;

use spate_stateful::arrivals::FlowSchedule;
use spate_stateless::Rate;

use super::{
    Device, Dpdk, WorkerRun,
    change::{FlowRate, NewLeasedAddresses, NewNextHops, RateChange, SpeedChange},
    hook::Hook,
    sources::NewStreams,
};
use crate::datapath::{limit::Budget, run::clock::ClockChange};

/// Commands that can be waiting.
pub(in crate::datapath) const QUEUE: usize = 1024;
/// An instruction about the run in a slot, which is below `MAX_RUNS`.
pub(in crate::datapath) enum Command<D: Device = Dpdk> {
    /// Take a new run.
    Install(usize, Box<WorkerRun<D>>),
    /// Run time 0 is at a monotonic instant.
    Start(usize, u64),
    /// The run's clock stops or resumes at a monotonic instant.
    Clock(usize, u64, ClockChange),
    /// Changes rates of streams.
    Change(usize, RateChange),
    /// Streams with other templates.
    Streams(usize, Box<NewStreams<D>>),
    /// Changes the speed of a replay.
    Speed(usize, SpeedChange),
    /// Changes next hops of flows.
    NextHops(usize, Box<NewNextHops>),
    /// Changes leased addresses of clients of flows.
    LeasedAddresses(usize, Box<NewLeasedAddresses>),
    /// Changes the rate of new flows of the run's templates.
    FlowRate(usize, FlowRate),
    /// Resets the statistics of a receiver of the run.
    ResetReceiver(usize, usize),
    /// Transmission ends at a run time that has come.
    Stop(usize, u64),
    /// Read all that has arrived, and hand over what other workers count.
    Empty(usize),
    /// Count nothing more.
    Close(usize),
    /// Forget the run.
    Remove(usize),
    /// Send no more than this, on all ports together.
    Limit(Option<Arc<Budget>>),
    /// Attach a tap, an injector or the slow path to a port.
    Attach(usize, Hook<D>),
    /// Detach a tap.
    Detach(u64),
    /// End.
    Quit,
}

/// What a worker gives back, to be freed by another thread: workers neither allocate nor free memory.
pub(in crate::datapath) enum Reclaim<D: Device = Dpdk> {
    Run(#[allow(dead_code, reason = "only ever dropped")] Box<WorkerRun<D>>),
    Rates(#[allow(dead_code, reason = "only ever dropped")] Arc<[(usize, Option<Rate>)]>),
    Streams(#[allow(dead_code, reason = "only ever dropped")] Box<NewStreams<D>>),
    NextHops(#[allow(dead_code, reason = "only ever dropped")] Box<NewNextHops>),
    LeasedAddresses(#[allow(dead_code, reason = "only ever dropped")] Box<NewLeasedAddresses>),
    FlowSchedule(#[allow(dead_code, reason = "only ever dropped")] Box<FlowSchedule>),
    Hook(#[allow(dead_code, reason = "only ever dropped")] Hook<D>),
    Budget(#[allow(dead_code, reason = "only ever dropped")] Arc<Budget>),
}
