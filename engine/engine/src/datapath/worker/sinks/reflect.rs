// SPDX-License-Identifier: Apache-2.0
//! Reflectors: packets that a port receives are sent back on it.
//!
//! A reflector sends everybody's packets back from the start of its run while that sends; while it is paused and after it has ended, only
//! the run's own, which are still under way.
use spate_dpdk::BURST;
use spate_net::{FCS_LEN, Headers, Mark, Trailer, reflect::reflect};

use super::{After, Inlet, Marks, Sink};
use crate::datapath::worker::{Device, WorkerRun, change::MAX_RUNS, device::Packets as _, outlet::Outlet};
use crate::index::{PortIndex, RunSlot};

/// The reflectors of a port.
pub(in crate::datapath::worker) struct Reflect {
    port: PortIndex,
    /// Slots of runs that send packets of the port back.
    slots: Vec<RunSlot>,
    /// The reflection that sends the received burst back.
    reflection: Option<Reflection>,
}

/// The run that sends the packets of a port back.
#[derive(Clone, Copy)]
struct Reflection {
    slot: RunSlot,
    /// Index of its reflector.
    reflector: usize,
    /// Whether the run does not send: only packets of its own are sent back.
    only_own: bool,
}

impl Reflect {
    pub(super) fn new(inlet: &Inlet) -> Self {
        Self { port: inlet.port, slots: Vec::with_capacity(MAX_RUNS), reflection: None }
    }

    /// The run that sends packets back, if there is one now.
    #[inline]
    fn reflection<D: Device>(&self, at_ns: u64, runs: &[Option<Box<WorkerRun<D>>>]) -> Option<Reflection> {
        self.slots.iter().find_map(|&slot| {
            let run = runs[slot.0].as_ref()?;
            run.time(at_ns)?;
            let reflector = run.receive.foreign.reflectors.iter().position(|(port, _)| *port == self.port)?;
            Some(Reflection { slot, reflector, only_own: run.clock.is_stopped() || run.ended(at_ns) })
        })
    }
}

impl<D: Device> Sink<D> for Reflect {
    fn know(&mut self, run: &WorkerRun<D>, slot: RunSlot) {
        if run.receive.foreign.reflectors.iter().any(|(port, _)| *port == self.port) {
            self.slots.push(slot);
        }
    }

    fn forget(&mut self, _: u16, slot: RunSlot) {
        self.slots.retain(|reflecting| *reflecting != slot);
    }

    #[inline]
    fn begin(&mut self, at_ns: u64, runs: &[Option<Box<WorkerRun<D>>>]) -> bool {
        self.reflection = self.reflection(at_ns, runs);
        self.reflection.is_some()
    }

    #[inline]
    fn end(&mut self, burst: &mut D::Burst, after: &mut After<'_, D>) {
        let Some(reflection) = self.reflection else { return };
        let Some(tx) = after.tx.iter_mut().find(|tx| tx.port() == self.port) else { return };
        let received = burst.len();
        burst.retain(|frame| reflection.turn(after.runs, frame));
        after.share.not_reflected.add((received - burst.len()) as u64);
        send_back(burst, after.at_ns, &mut tx.outlet);
    }
}

impl Reflection {
    /// Swaps a packet's source and destination. False if it must not be sent back.
    #[inline]
    fn turn<D: Device>(self, runs: &[Option<Box<WorkerRun<D>>>], frame: &mut [u8]) -> bool {
        let Some(run) = &runs[self.slot.0] else { return false };
        (!self.only_own || run.has_sent(frame)) && reflect(frame, &run.receive.foreign.reflectors[self.reflector].1)
    }
}

/// Sends packets that were received back. What the device does not take at once, or the budget does not let pass, is dropped,
/// and counted.
fn send_back<D: Device>(packets: &mut D::Burst, now: u64, outlet: &mut Outlet<D>) {
    let (egress, all) = (&mut outlet.egress, packets.len());
    if egress.is_closed_to_reflectors(now) {
        return egress.throttled(all as u64);
    }
    let lens: [u64; BURST] = std::array::from_fn(|i| if i < all { packets.frame_len(i) as u64 + FCS_LEN } else { 0 });
    let taken = egress.send(packets, |taken| lens[..taken].iter().sum());
    egress.reflected(taken);
    egress.dropped((all - taken) as u64);
    egress.charge_reflectors();
}

impl<D: Device> WorkerRun<D> {
    /// Whether a packet is one of its own, by trailer or mark.
    #[cold]
    fn has_sent(&self, frame: &[u8]) -> bool {
        let marked = |marks: &Marks| {
            let mark = Headers::find(frame).and_then(|headers| Mark::read(frame, &headers));
            mark.is_some_and(|mark| marks.stream(mark).is_some())
        };
        Trailer::decode(frame).is_some_and(|trailer| trailer.run_tag == self.tag)
            || self.receive.foreign.marks.as_deref().is_some_and(marked)
    }
}
