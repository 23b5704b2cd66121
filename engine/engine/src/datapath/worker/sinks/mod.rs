// SPDX-License-Identifier: Apache-2.0
//! Sinks: what takes the packets that a port receives, one file each, and their registration.
//!
//! A new sink is a file here that implements `Sink`, a line of `register!`, and what it has of a run, which is a field of `RunReceive` or
//! `WorkerRun`. It is dispatched statically. A packet is offered to one after another: first, by its end alone, to `measure`, which is the
//! worker's, since the packets of a sequence come in on all its ports; then to those of its port, in the order of their registration, until
//! one takes it.
mod clients;
mod flows;
mod foreign;
mod measure;
mod receivers;
mod reflect;
mod slow_path;
mod station;

use spate_net::{FCS_LEN, Trailer, trailer};
use spate_stateful::Hints;

pub(in crate::datapath) use clients::ClientCopy;
pub(in crate::datapath) use foreign::{Marks, RunForeign};
pub(in crate::datapath) use measure::{DelayIndex, Owner, RunReceive, StreamReceive};
pub(in crate::datapath) use receivers::RunReceiver;
pub(in crate::datapath) use slow_path::SlowPathCopy;

use super::{Device, WorkerRun, flows::Demux, tx_port::TxPort};
use crate::datapath::shared::QueueShare;
use crate::index::{PortIndex, RunSlot};
use flows::Flows;
use foreign::Foreign;
pub(super) use measure::Measure;
use reflect::Reflect;
use station::Station;

/// Something that takes packets which a worker receives. `runs` are the worker's, by slot.
///
/// For each burst that is read from a port the worker calls, in this order: `has_room` and `reads_trailers`; `begin`; `offer_sequence` or
/// `offer` for each packet, as long as no sink has taken it; `end`.
pub(super) trait Sink<D: Device> {
    /// A run is installed in a slot, and counts packets from now on.
    fn know(&mut self, run: &WorkerRun<D>, slot: RunSlot);

    /// The run in a slot, with this tag, counts nothing more. It may be unknown already.
    fn forget(&mut self, tag: u16, slot: RunSlot);

    /// Whether there is room for whatever a burst may hold; if not, none is read, and packets wait in the device's queue.
    fn has_room(&mut self, _runs: &mut [Option<Box<WorkerRun<D>>>]) -> bool {
        true
    }

    /// Whether a run uses it on the port, and it may look at packets' trailers. Where no sink says so, packets' ends are not read, and packets
    /// are offered to flows and to the station only.
    fn reads_trailers(&self) -> bool {
        false
    }

    /// A burst has arrived, at a monotonic instant. Whether its packets go on from here: to `measure`, the port is then a part of their way.
    fn begin(&mut self, _at_ns: u64, _runs: &[Option<Box<WorkerRun<D>>>]) -> bool {
        false
    }

    /// Takes packets of a burst by their trailers alone: that at `first`, which has this one, and those that follow it in its sequence.
    /// Returns how many it takes; 0: the packet is offered to others.
    fn offer_sequence(
        &mut self,
        _trailer: Trailer,
        _first: usize,
        _arrivals: &Arrivals<'_, D>,
        _runs: &mut [Option<Box<WorkerRun<D>>>],
    ) -> usize {
        0
    }

    /// Takes a packet (true), or leaves it to the next sink; it may have counted it all the same.
    fn offer(&mut self, _packet: &mut Packet<'_>, _clock: &D::Clock, _runs: &mut [Option<Box<WorkerRun<D>>>]) -> bool {
        false
    }

    /// All packets of a burst have been offered. It leaves for control what it has counted.
    fn end(&mut self, _burst: &mut D::Burst, _after: &mut After<'_, D>) {}
}

/// A burst that a port has received.
pub(super) struct Arrivals<'a, D: Device> {
    pub(super) port: PortIndex,
    /// When the packets arrived, on the monotonic clock.
    pub(super) at_ns: u64,
    /// A sink sends the packets on.
    pub(super) sent_on: bool,
    pub(super) burst: &'a D::Burst,
    /// By packet: bytes without FCS.
    pub(super) lens: &'a [u32],
    /// By packet: its end, if a sink reads trailers.
    pub(super) tails: &'a [[u8; trailer::LEN]],
}

/// A packet that is of no stream's sequence.
pub(super) struct Packet<'a> {
    /// Its first segment.
    pub(super) frame: &'a [u8],
    /// Bytes of all of it, without FCS.
    pub(super) len: u32,
    /// When the packet was read, on the monotonic clock.
    pub(super) at_ns: u64,
    /// When it arrived: the same, or earlier where the device stamps packets.
    pub(super) arrived_ns: u64,
    /// What the device and the look ahead found of it.
    pub(super) hints: Hints<'a>,
    /// What its end reads as, if it was read; of a run that is not here, if it is one.
    pub(super) trailer: Option<Trailer>,
    /// Result of the flows' demultiplexing; none: the port has no flows.
    pub(super) demux: Option<Demux>,
}

impl Packet<'_> {
    /// Its bytes, FCS included.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.len) + FCS_LEN
    }
}

/// Argument of sinks after a burst.
pub(super) struct After<'a, D: Device> {
    /// When the burst arrived, on the monotonic clock.
    pub(super) at_ns: u64,
    pub(super) runs: &'a [Option<Box<WorkerRun<D>>>],
    /// Ports that this worker sends on.
    pub(super) tx: &'a mut [TxPort<D>],
    /// Counters of the receiving port.
    pub(super) share: &'a QueueShare,
}

/// A port as its sinks know it from the beginning.
pub(super) struct Inlet {
    /// Its index.
    pub(super) port: PortIndex,
    /// MAC of its station; none: frames are taken whatever MAC they are for.
    pub(super) mac: Option<[u8; 6]>,
}

/// Makes the registry of a port's sinks: a field each, which are offered packets in the order of the fields. `new` makes one for an `Inlet`.
macro_rules! register {
    ($($name:ident: $sink:ident,)+) => {
        /// The sinks of a port.
        pub(super) struct Sinks {
            $(pub(super) $name: $sink,)+
        }

        impl Sinks {
            pub(super) fn new(inlet: &Inlet) -> Self {
                Self { $($name: $sink::new(inlet),)+ }
            }
        }

        impl<D: Device> Sink<D> for Sinks {
            fn know(&mut self, run: &WorkerRun<D>, slot: RunSlot) {
                $(self.$name.know(run, slot);)+
            }

            fn forget(&mut self, tag: u16, slot: RunSlot) {
                $(Sink::<D>::forget(&mut self.$name, tag, slot);)+
            }

            #[inline(always)]
            fn has_room(&mut self, runs: &mut [Option<Box<WorkerRun<D>>>]) -> bool {
                $(self.$name.has_room(runs))&&+
            }

            #[inline(always)]
            fn reads_trailers(&self) -> bool {
                $(Sink::<D>::reads_trailers(&self.$name))||+
            }

            #[inline(always)]
            fn begin(&mut self, at_ns: u64, runs: &[Option<Box<WorkerRun<D>>>]) -> bool {
                let mut sent_on = false;
                $(sent_on |= self.$name.begin(at_ns, runs);)+
                sent_on
            }

            #[inline(always)]
            fn offer(
                &mut self,
                packet: &mut Packet<'_>,
                clock: &D::Clock,
                runs: &mut [Option<Box<WorkerRun<D>>>],
            ) -> bool {
                $(Sink::<D>::offer(&mut self.$name, packet, clock, runs))||+
            }

            #[inline(always)]
            fn end(&mut self, burst: &mut D::Burst, after: &mut After<'_, D>) {
                $(self.$name.end(burst, after);)+
            }
        }
    };
}

register! {
    flows: Flows,
    foreign: Foreign,
    reflect: Reflect,
    station: Station,
}
