// SPDX-License-Identifier: Apache-2.0
//! Commands from control to a worker, through a queue with one writer and one reader, and what it gets back to free.
use std::sync::Arc;

use spate_stateful::{NextHops, arrivals::Arrivals, envelope::GatewayMac};
use spate_stateless::Rate;

use super::{
    limit::Budget,
    run::clock::ClockChange,
    worker::{Attachment, Device, Dpdk, NewStreams, WorkerRun},
};

/// Commands that can be waiting.
pub(super) const QUEUE: usize = 1024;
/// Runs that an engine can hold.
pub(super) const RUNS: usize = 64;

/// An instruction about the run in a slot, which is below `RUNS`.
pub(super) enum Command<D: Device = Dpdk> {
    /// Take a new run.
    Install(usize, Box<WorkerRun<D>>),
    /// Run time 0 is at a monotonic instant.
    Start(usize, u64),
    /// The run's clock stops or resumes at a monotonic instant.
    Clock(usize, u64, ClockChange),
    /// Changes rates of streams.
    Change(usize, RateChange),
    /// Streams with other templates.
    Streams(usize, Box<NewStreams>),
    /// Changes the speed of a replay.
    Tempo(usize, TempoChange),
    /// Changes next hops of flows.
    NextHops(usize, Box<NewNextHops>),
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
    Attach(usize, Attachment<D>),
    /// Detach a tap.
    Detach(u64),
    /// End.
    Quit,
}

/// Direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    Rx,
    /// Sent.
    Tx,
}

/// Other rates for streams that are sent from one port, from an instant of the run on.
#[derive(Clone, Debug)]
pub(super) struct RateChange {
    pub(super) at_ns: u64,
    /// Index of the port.
    pub(super) port: usize,
    /// By index among the run's streams of that port.
    /// Without a rate a stream stands.
    pub(super) rates: Arc<[(usize, Option<Rate>)]>,
}

/// New speed of a stream that replays a capture, from an instant of the run on.
#[derive(Clone, Copy, Debug)]
pub(super) struct TempoChange {
    pub(super) at_ns: u64,
    /// Its index among all streams of the run.
    pub(super) stream: usize,
    /// Distance in nanoseconds; none: it stands.
    pub(super) speed: Option<Rate>,
}

/// Other rates of new flows, from an instant of the run on.
#[derive(Debug)]
pub(super) struct FlowRate {
    pub(super) at_ns: u64,
    /// The fraction of all rates at which time passes for them.
    pub(super) factor: (u64, u64),
    /// When the worker's flows start by other rates of templates; none: by those of before.
    pub(super) row: Option<Box<Arrivals>>,
}

/// New next hops for a run's flows on a port.
#[derive(Debug)]
pub(super) struct NewNextHops {
    /// Index of the port.
    pub(super) port: usize,
    pub(super) hops: NextHops,
    /// Gateways of client pools that the run follows there.
    pub(super) gateways: Box<[GatewayMac]>,
}

/// What a worker gives back, to be freed by another thread: workers neither allocate nor free memory.
pub(super) enum Reclaim<D: Device = Dpdk> {
    Run(#[allow(dead_code, reason = "only ever dropped")] Box<WorkerRun<D>>),
    Rates(#[allow(dead_code, reason = "only ever dropped")] Arc<[(usize, Option<Rate>)]>),
    Streams(#[allow(dead_code, reason = "only ever dropped")] Box<NewStreams>),
    NextHops(#[allow(dead_code, reason = "only ever dropped")] Box<NewNextHops>),
    Row(#[allow(dead_code, reason = "only ever dropped")] Box<Arrivals>),
    Attachment(#[allow(dead_code, reason = "only ever dropped")] Attachment<D>),
    Budget(#[allow(dead_code, reason = "only ever dropped")] Arc<Budget>),
}
