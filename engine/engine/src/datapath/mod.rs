// SPDX-License-Identifier: Apache-2.0
//! The data path: ports, workers and runs. All that the control side may ask of it is here.
#![allow(unused_variables, dead_code)] // while the skeleton stands
mod types;

use std::sync::Arc;

pub use spate_stateless::{Checksum, Rate, RateError, Template, TemplateError};
pub use spate_stats::{PhaseCounters, StreamCounters};
pub use types::*;

/// The open ports and their workers.
pub struct Datapath {}

impl Datapath {
    /// Initialises DPDK, opens the ports and starts the workers.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        unimplemented!()
    }

    /// The ports, in the order of the configuration: a port's index is its number in `StreamSpec`.
    pub fn ports(&self) -> Vec<PortInfo> {
        unimplemented!()
    }

    /// The clock that workers keep.
    pub fn clock(&self) -> Clock {
        unimplemented!()
    }

    /// Validates a run, allocates what it needs and hands it to the workers. Nothing is sent yet.
    pub fn prepare(&self, spec: RunSpec) -> Result<Arc<Run>, PrepareError> {
        unimplemented!()
    }

    /// Counters of every port since `open`, in the order of the configuration.
    pub fn port_counters(&self) -> Vec<PortCounters> {
        unimplemented!()
    }

    /// Counters of every worker since `open`.
    pub fn worker_counters(&self) -> Vec<WorkerCounters> {
        unimplemented!()
    }

    /// Things worth telling the user about ports, such as a peer that leaves checksums to be filled in.
    pub fn warnings(&self) -> Vec<String> {
        unimplemented!()
    }

    /// Stops every run, then the workers, then the ports.
    pub fn close(self) {
        unimplemented!()
    }
}

/// A prepared run. It forgets nothing until `remove`.
pub struct Run {}

impl Run {
    /// The id it was prepared under.
    pub fn id(&self) -> &str {
        unimplemented!()
    }

    /// Starts transmission at a wall-clock instant (nanoseconds since the epoch) that has not passed.
    pub fn start(&self, at_wall_ns: u64) -> Result<(), RunError> {
        unimplemented!()
    }

    /// Changes streams (indices in `RunSpec::streams`) at an instant, or as soon as possible if it has passed (0: now).
    /// Returns the instant it takes effect.
    pub fn update(&self, streams: &[usize], change: Change, at_wall_ns: u64) -> Result<u64, RunError> {
        unimplemented!()
    }

    /// Stops transmission and the run's clock at an instant (0: now); returns it.
    pub fn pause(&self, at_wall_ns: u64) -> Result<u64, RunError> {
        unimplemented!()
    }

    /// Goes on at an instant (0: now); returns it.
    pub fn resume(&self, at_wall_ns: u64) -> Result<u64, RunError> {
        unimplemented!()
    }

    /// Ends transmission now. A run without a duration that was stopped is `Complete`, else it is `Stopped`.
    /// Stopping an ended run changes nothing.
    pub fn stop(&self, reason: &str) {
        unimplemented!()
    }

    /// Stops it if need be, without a drain, and makes the workers forget it; its counters stay readable here.
    pub fn remove(&self) {
        unimplemented!()
    }

    /// Its state now.
    pub fn state(&self) -> RunState {
        unimplemented!()
    }

    /// Wall-clock instant of the start; none before `start`.
    pub fn started_at(&self) -> Option<u64> {
        unimplemented!()
    }

    /// What ended it early, if something did.
    pub fn end_reason(&self) -> Option<String> {
        unimplemented!()
    }

    /// Nanoseconds on the run's own clock: 0 before the start, standing while paused.
    pub fn elapsed_ns(&self) -> u64 {
        unimplemented!()
    }

    /// Counters of all streams, in the order of `RunSpec::streams`.
    pub fn counters(&self) -> Vec<StreamCounters> {
        unimplemented!()
    }
}
