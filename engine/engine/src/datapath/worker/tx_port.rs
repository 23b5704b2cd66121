// SPDX-License-Identifier: Apache-2.0
//! A port as one worker sends on it: the outlet that all sources share, and the sources.
use std::sync::Arc;

use super::{
    Device, WorkerRun,
    device::TxDevice as _,
    egress::Egress,
    outlet::Outlet,
    sources::{Active, Ending, Pass, Sources},
    taps::Taps,
};
use crate::datapath::shared::QueueShare;
use crate::index::{PortIndex, RunSlot};

/// A port as one worker sends on it.
pub(super) struct TxPort<D: Device> {
    pub(super) outlet: Outlet<D>,
    pub(super) sources: Sources<D>,
}

impl<D: Device> TxPort<D> {
    pub(super) fn new(port: PortIndex, queue: D::Tx, share: Arc<QueueShare>, pool: D::Pool) -> Self {
        let offloads = queue.offloads();
        let outlet = Outlet { port, egress: Egress::new(queue, share), pool, taps: Taps::new(), offloads };
        Self { sources: Sources::new(&outlet), outlet }
    }

    /// Index of the port.
    pub(super) fn port(&self) -> PortIndex {
        self.outlet.port
    }

    /// Sends up to a burst of each source. Returns how many packets the device took.
    #[inline(always)]
    pub(super) fn send(&mut self, active: Active, pass: &mut Pass<'_, D>) -> usize {
        self.sources.send(active, pass, &mut self.outlet)
    }

    /// Lets sources send what belongs to no run.
    pub(super) fn send_unlimited(&mut self, pass: &mut Pass<'_, D>) -> usize {
        self.sources.send_unlimited(pass, &mut self.outlet)
    }

    /// Lets the source with this number send, if what it sends belongs to runs.
    pub(super) fn send_one(&mut self, number: usize, active: Active, pass: &mut Pass<'_, D>) -> usize {
        self.sources.send_one(number, active, pass, &mut self.outlet)
    }

    /// Whether packets that are built wait for the device.
    pub(super) fn is_waiting(&self, runs: &[Option<Box<WorkerRun<D>>>]) -> bool {
        self.sources.is_waiting(self.outlet.port, runs)
    }

    /// At the end of a run: whether all sources have sent, or given up and counted, what they had to.
    pub(super) fn settle(&mut self, run: &mut WorkerRun<D>, ending: &mut Ending<'_, D>) -> bool {
        self.sources.settle(run, ending, &mut self.outlet)
    }

    /// The run in a slot goes.
    pub(super) fn remove(&mut self, slot: RunSlot, run: &mut WorkerRun<D>) {
        self.sources.remove(slot, run, &mut self.outlet);
        self.outlet.egress.reclaim();
    }

    /// Some of the sources that were active are not any more.
    pub(super) fn retire(&mut self, before: Active, now: Active) {
        self.sources.retire(before, now, &mut self.outlet);
    }
}
