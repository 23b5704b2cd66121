// SPDX-License-Identifier: Apache-2.0
//! Frames that other threads than workers send on a port: the slow path, answers for the port's addresses, neighbor discovery and ping; and
//! emulated clients, DHCP and what else they speak. They are no traffic of a run, and not within the bound on that.
use super::{Ending, Inject, Pass, Source};
use crate::datapath::worker::{Device, WorkerRun, outlet::Outlet};
use crate::index::PortIndex;

/// The way out of a port of one of these threads.
pub(in crate::datapath::worker) struct Injected<D: Device>(Option<Box<Inject<D>>>);

impl<D: Device> Injected<D> {
    /// Sends these from now on; back comes what it sent before.
    pub(in crate::datapath::worker) fn set(&mut self, inject: Box<Inject<D>>) -> Option<Box<Inject<D>>> {
        self.0.replace(inject)
    }
}

impl<D: Device> Source<D> for Injected<D> {
    const OF_RUNS: bool = false;

    fn new(_: &Outlet<D>) -> Self {
        Self(None)
    }

    fn is_in(_: &WorkerRun<D>) -> bool {
        false
    }

    #[inline]
    fn send(&mut self, pass: &mut Pass<'_, D>, outlet: &mut Outlet<D>) -> usize {
        let Some(inject) = &mut self.0 else { return 0 };
        inject.send(pass.clock, outlet)
    }

    fn is_waiting(&self, _: PortIndex, _: &[Option<Box<WorkerRun<D>>>]) -> bool {
        self.0.as_ref().is_some_and(|inject| inject.is_waiting())
    }

    fn due_ns(_: &WorkerRun<D>) -> Option<u64> {
        None
    }

    fn settle(&mut self, _: &mut WorkerRun<D>, _: &mut Ending<'_, D>, _: &mut Outlet<D>) -> bool {
        true
    }
}
