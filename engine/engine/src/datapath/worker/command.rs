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
use crate::index::{PortIndex, PortStreamIndex, ReceiverIndex, RunSlot};

/// Commands that can be waiting.
pub(in crate::datapath) const QUEUE: usize = 1024;

/// An instruction about the run in a slot, which is below `MAX_RUNS`.
pub(in crate::datapath) enum Command<D: Device = Dpdk> {
    /// Take a new run.
    Install(RunSlot, Box<WorkerRun<D>>),
    /// Run time 0 is at a monotonic instant.
    Start(RunSlot, u64),
    /// The run's clock stops or resumes at a monotonic instant.
    Clock(RunSlot, u64, ClockChange),
    /// Changes rates of streams.
    Change(RunSlot, RateChange),
    /// Streams with other templates.
    Streams(RunSlot, Box<NewStreams<D>>),
    /// Changes the speed of a replay.
    Speed(RunSlot, SpeedChange),
    /// Changes next hops of flows.
    NextHops(RunSlot, Box<NewNextHops>),
    /// Changes leased addresses of clients of flows.
    LeasedAddresses(RunSlot, Box<NewLeasedAddresses>),
    /// Changes the rate of new flows of the run's templates.
    FlowRate(RunSlot, FlowRate),
    /// Resets the statistics of a receiver of the run.
    ResetReceiver(RunSlot, ReceiverIndex),
    /// Transmission ends at a run time that has come.
    Stop(RunSlot, u64),
    /// Read all that has arrived, and hand over what other workers count.
    Empty(RunSlot),
    /// Count nothing more.
    Close(RunSlot),
    /// Forget the run.
    Remove(RunSlot),
    /// Send no more than this, on all ports together.
    Limit(Option<Arc<Budget>>),
    /// Attach a tap, an injector or the slow path to a port.
    Attach(PortIndex, Hook<D>),
    /// Detach a tap.
    Detach(u64),
    /// End.
    Quit,
}

/// What a worker gives back, to be freed by another thread: workers neither allocate nor free memory.
pub(in crate::datapath) enum Reclaim<D: Device = Dpdk> {
    Run(#[allow(dead_code, reason = "only ever dropped")] Box<WorkerRun<D>>),
    Rates(#[allow(dead_code, reason = "only ever dropped")] Arc<[(PortStreamIndex, Option<Rate>)]>),
    Streams(#[allow(dead_code, reason = "only ever dropped")] Box<NewStreams<D>>),
    NextHops(#[allow(dead_code, reason = "only ever dropped")] Box<NewNextHops>),
    LeasedAddresses(#[allow(dead_code, reason = "only ever dropped")] Box<NewLeasedAddresses>),
    FlowSchedule(#[allow(dead_code, reason = "only ever dropped")] Box<FlowSchedule>),
    Hook(#[allow(dead_code, reason = "only ever dropped")] Hook<D>),
    Budget(#[allow(dead_code, reason = "only ever dropped")] Arc<Budget>),
}
