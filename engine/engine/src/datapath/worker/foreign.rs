// SPDX-License-Identifier: Apache-2.0
//! Packets that carry no trailer of a run here: recognized by a mark, measured by a receiver, sent back by a reflector.
//!
//! Runs do so from their start until they are closed. A mark does not say of which phase a packet is: what arrives before
//! the warm-up has passed counts as the warm-up's. A reflector sends everybody's packets back while its run sends; while that
//! is paused and after it has ended, only the run's own, which are still under way.
use std::sync::Arc;

use spate_net::{
    Headers, Mark, Trailer, pktgen,
    reflect::{Rules, reflect},
};
use spate_stats::Arrivals;

use super::{Device, Time, WorkerRun};

/// In the tables of `Marks`: no such mark.
const NO_STREAM: u32 = u32::MAX;
/// A delay beyond this is taken for a misread time stamp: any bytes are a trailer once in 128 times.
const LONGEST_DELAY_NS: i64 = 10_000_000_000;

/// What a run does with packets that carry no trailer of it.
pub(in crate::datapath) struct RunForeign {
    pub(in crate::datapath) marks: Option<Arc<Marks>>,
    /// By port.
    pub(in crate::datapath) reflectors: Arc<[(usize, Rules)]>,
    /// By receiver of the run.
    pub(in crate::datapath) receivers: Box<[RunReceiver]>,
    /// Other clocks are known to agree with this one.
    pub(in crate::datapath) clocks_agree: bool,
}

/// A receiver as one worker knows it.
pub(in crate::datapath) struct RunReceiver {
    pub(in crate::datapath) port: usize,
    pub(in crate::datapath) arrivals: Arrivals,
}

/// From marks to indices of streams; no longer than they have to be.
#[derive(Debug, Default)]
pub(in crate::datapath) struct Marks {
    ipv4_identification: Vec<u32>,
    ipv6_flow_label: Vec<u32>,
}

impl Marks {
    /// The table of some marks; of streams that share one, the first stands for all. None if there are no marks.
    pub(in crate::datapath) fn new(marks: impl Iterator<Item = (usize, Mark)>) -> Option<Self> {
        let mut this = Self::default();
        for (stream, mark) in marks {
            let (table, at) = match mark {
                Mark::Ipv4Identification(id) => (&mut this.ipv4_identification, usize::from(id)),
                Mark::Ipv6FlowLabel(label) => (&mut this.ipv6_flow_label, label as usize),
            };
            if table.len() <= at {
                table.resize(at + 1, NO_STREAM);
            }
            if table[at] == NO_STREAM {
                table[at] = stream as u32;
            }
        }
        let some = !this.ipv4_identification.is_empty() || !this.ipv6_flow_label.is_empty();
        some.then_some(this)
    }

    #[inline]
    fn stream(&self, mark: Mark) -> Option<usize> {
        let stream = match mark {
            Mark::Ipv4Identification(id) => *self.ipv4_identification.get(usize::from(id))?,
            Mark::Ipv6FlowLabel(label) => *self.ipv6_flow_label.get(label as usize)?,
        };
        (stream != NO_STREAM).then_some(stream as usize)
    }
}

impl RunForeign {
    /// Whether packets that arrive on a port concern the run.
    pub(super) fn watches(&self, port: usize) -> bool {
        self.marks.is_some()
            || self.reflectors.iter().any(|(p, _)| *p == port)
            || self.receivers.iter().any(|r| r.port == port)
    }
}

/// A packet that no stream's trailer is in.
pub(super) struct Packet<'a> {
    /// Its first segment.
    pub(super) frame: &'a [u8],
    /// All of them, with FCS.
    pub(super) bytes: u64,
    /// Monotonic.
    pub(super) at_ns: u64,
    /// What its end reads as; of a run that is not here, if it is one.
    pub(super) trailer: Option<Trailer>,
}

/// Counts a packet where it has a mark of a run (true), else for the receivers of its port.
pub(super) fn watch<D: Device>(
    watching: &[usize],
    runs: &mut [Option<Box<WorkerRun<D>>>],
    port: usize,
    clock: &D::Clock,
    packet: &Packet<'_>,
) -> bool {
    let headers = Headers::find(packet.frame);
    let mark = headers.and_then(|headers| Mark::read(packet.frame, &headers));
    for slot in watching {
        let Some(run) = &mut runs[*slot] else { continue };
        if let (Some(marks), Some(mark), Some(at)) = (&run.receive.foreign.marks, mark, run.time(packet.at_ns))
            && let Some(stream) = marks.stream(mark)
        {
            let misdirected = run.receive.streams[stream].port != Some(port as u16);
            let measured = at >= run.warmup_ns;
            run.share.rx[stream].marked(measured, packet.bytes, misdirected);
            run.share.note_arrival(stream, packet.at_ns, measured);
            return true;
        }
    }
    for slot in watching {
        let Some(run) = &mut runs[*slot] else { continue };
        if run.time(packet.at_ns).is_none() {
            continue;
        }
        let foreign = &mut run.receive.foreign;
        for receiver in foreign.receivers.iter_mut().filter(|receiver| receiver.port == port) {
            let delay_ns = if foreign.clocks_agree { delay(clock, headers.as_ref(), packet) } else { None };
            receiver.arrivals.add(packet.at_ns, packet.bytes, delay_ns);
        }
    }
    false
}

/// From a packet's time stamp, of another engine or of the kernel's pktgen, to its arrival.
fn delay(clock: &impl Time, headers: Option<&Headers>, packet: &Packet<'_>) -> Option<u64> {
    let pktgen = headers.and_then(|headers| pktgen::sent_at_ns(packet.frame, headers));
    let delay = match (pktgen, packet.trailer) {
        (Some(sent), _) => clock.wall_of(packet.at_ns).wrapping_sub(sent).cast_signed(),
        (None, Some(trailer)) => clock.wall_timescale().since_stamp(trailer.timestamp, packet.at_ns),
        (None, None) => return None,
    };
    (0..=LONGEST_DELAY_NS).contains(&delay).then(|| delay.cast_unsigned())
}

/// Leaves what receivers of a port know for control.
pub(super) fn publish<D: Device>(watching: &[usize], runs: &[Option<Box<WorkerRun<D>>>], port: usize) {
    for run in watching.iter().filter_map(|slot| runs[*slot].as_ref()) {
        for (receiver, slot) in run.receive.foreign.receivers.iter().zip(&run.share.receivers) {
            if receiver.port == port {
                slot.publish(&receiver.arrivals);
            }
        }
    }
}

/// Which run sends the packets of a port back.
#[derive(Clone, Copy)]
pub(super) struct Reflection {
    slot: usize,
    /// Index of its reflector.
    reflector: usize,
    /// It does not send: only packets of its own are sent back.
    only_own: bool,
}

/// The run that sends the packets of a port back, if there is one now.
pub(super) fn reflection<D: Device>(
    watching: &[usize],
    runs: &[Option<Box<WorkerRun<D>>>],
    port: usize,
    at_ns: u64,
) -> Option<Reflection> {
    watching.iter().find_map(|&slot| {
        let run = runs[slot].as_ref()?;
        run.time(at_ns)?;
        let reflector = run.receive.foreign.reflectors.iter().position(|(p, _)| *p == port)?;
        Some(Reflection { slot, reflector, only_own: run.clock.is_stopped() || run.ended(at_ns) })
    })
}

impl Reflection {
    /// Swaps a packet's source and destination. False if it must not be sent back.
    #[inline]
    pub(super) fn turn<D: Device>(self, runs: &[Option<Box<WorkerRun<D>>>], frame: &mut [u8]) -> bool {
        let Some(run) = &runs[self.slot] else { return false };
        (!self.only_own || run.has_sent(frame)) && reflect(frame, &run.receive.foreign.reflectors[self.reflector].1)
    }
}

impl<D: Device> WorkerRun<D> {
    /// Run time at a monotonic instant, from its start until it is closed.
    #[inline]
    fn time(&self, at_ns: u64) -> Option<u64> {
        if self.share.closed.is_up() {
            return None;
        }
        self.clock.at(at_ns).and_then(|at| u64::try_from(at).ok())
    }

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

    /// Resets a receiver's statistics.
    pub(super) fn reset_receiver(&mut self, index: usize) {
        if let Some(receiver) = self.receive.foreign.receivers.get_mut(index) {
            receiver.arrivals = Arrivals::default();
            self.share.receivers[index].publish(&receiver.arrivals);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_mark_counts_for_the_first_and_others_are_none() {
        let id = Mark::Ipv4Identification;
        let marks = [(3, id(7)), (5, id(7)), (6, id(65_535)), (8, Mark::Ipv6FlowLabel(7))];
        let marks = Marks::new(marks.into_iter()).unwrap();
        let streams = [id(7), id(8), id(65_535), Mark::Ipv6FlowLabel(7), Mark::Ipv6FlowLabel(0xf_ffff)];
        assert_eq!(streams.map(|mark| marks.stream(mark)), [Some(3), None, Some(6), Some(8), None]);
        assert!(Marks::new(std::iter::empty()).is_none());
    }
}
