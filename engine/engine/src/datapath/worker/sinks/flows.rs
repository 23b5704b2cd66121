// SPDX-License-Identifier: Apache-2.0
//! Packets of emulated applications' flows: the first run that has a packet's flow, or its server, takes it.
use spate_dpdk::BURST;
use spate_stateful::Prefetched;

use super::{Inlet, Packet, Sink};
use crate::datapath::worker::{
    Device, Emulated, WorkerRun,
    change::MAX_RUNS,
    device::Packets as _,
    flows::{Arrived, Demux},
};
use crate::index::{PortIndex, RunSlot};

/// The flows that packets of a port may be of.
pub(in crate::datapath::worker) struct Flows {
    port: PortIndex,
    /// Slots of runs that emulate applications on it.
    slots: Vec<RunSlot>,
}

impl Flows {
    pub(super) fn new(inlet: &Inlet) -> Self {
        Self { port: inlet.port, slots: Vec::with_capacity(MAX_RUNS) }
    }

    /// Whether no run emulates applications on the port.
    #[inline(always)]
    pub(in crate::datapath::worker) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The applications of the only run that emulates some on the port.
    #[inline]
    pub(in crate::datapath::worker) fn only<'a, D: Device>(
        &self,
        runs: &'a mut [Option<Box<WorkerRun<D>>>],
    ) -> Option<&'a mut Emulated<D>> {
        let [slot] = self.slots.as_slice() else { return None };
        runs[slot.0].as_mut().and_then(|run| run.emulated.as_deref_mut())
    }

    /// What is found of the packets of a burst ahead, for the run that `only` gives; false if it does not look ahead.
    #[inline(always)]
    pub(in crate::datapath::worker) fn look_ahead<D: Device>(
        &self,
        only: Option<&Emulated<D>>,
        burst: &D::Burst,
        found: &mut [Prefetched; BURST],
    ) -> bool {
        only.is_some_and(|emulated| emulated.look_ahead(self.port, burst.heads(), found))
    }
}

impl<D: Device> Sink<D> for Flows {
    fn know(&mut self, run: &WorkerRun<D>, slot: RunSlot) {
        if run.emulated.as_ref().is_some_and(|emulated| emulated.uses(self.port)) {
            self.slots.push(slot);
        }
    }

    fn forget(&mut self, _: u16, slot: RunSlot) {
        self.slots.retain(|emulating| *emulating != slot);
    }

    /// Whether frames of flows that belong to other workers could be handed over.
    #[inline]
    fn has_room(&mut self, runs: &mut [Option<Box<WorkerRun<D>>>]) -> bool {
        self.slots.iter().all(|slot| {
            let emulated = runs[slot.0].as_mut().and_then(|run| run.emulated.as_mut());
            emulated.is_none_or(|emulated| emulated.may_receive())
        })
    }

    /// A packet that no run takes is for another station if it is for none that any of them has.
    #[inline]
    fn offer(&mut self, packet: &mut Packet<'_>, _: &D::Clock, runs: &mut [Option<Box<WorkerRun<D>>>]) -> bool {
        let &mut Packet { frame, hints, at_ns, .. } = packet;
        for (index, slot) in self.slots.iter().enumerate() {
            let emulated = runs[slot.0].as_mut().and_then(|run| run.emulated.as_mut());
            let arrived = Arrived { port: self.port, frame, hints, at_ns };
            match emulated.map_or(Demux::Foreign, |emulated| emulated.receive(&arrived)) {
                Demux::Taken => return true,
                Demux::OtherMac if index == 0 => packet.demux = Some(Demux::OtherMac),
                Demux::OtherMac => {}
                Demux::Foreign => packet.demux = Some(Demux::Foreign),
            }
        }
        false
    }
}
