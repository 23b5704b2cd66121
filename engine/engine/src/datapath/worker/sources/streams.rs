// SPDX-License-Identifier: Apache-2.0
//! Streams on one port: gather what is due, write it, offer it, count what the device took.
//!
//! A burst that the device did not take whole is offered again before anything else is built, so packets leave in order.
use std::sync::Arc;

use rtrb::Producer;
use spate_dpdk::BURST;
use spate_net::{FCS_LEN, Trailer, trailer::TIMESTAMP_MODULUS};
use spate_stateless::{Batch, Frames, Lanes, Numbers, PIECE, Schedule, StreamTiming, WorkerShare};
use spate_stats::Sent;

use super::{Ending, NewStreams, Pass, PortRun, Replay, SendStream, Source, port_run::Copies};
use crate::datapath::{
    shared::RunShare,
    worker::{
        Device, Time, WorkerRun, changes,
        command::Reclaim,
        device::{Origin, Packets as _},
        egress::Egress,
        outlet::Outlet,
    },
};
use crate::index::{PortIndex, RunSlot};

const NOTHING: Batch = Batch { stream: 0, each: false, count: 0, number: 0, sequence: 0, due_ns: 0, last_due_ns: 0 };

/// The source of streams' packets on a port.
pub(in crate::datapath::worker) struct Streams<D: Device> {
    burst: D::Burst,
    /// What is in the burst, or to be built: `batches[head..tail]`, of the run in `slot`.
    batches: [Batch; BURST],
    head: usize,
    tail: usize,
    slot: RunSlot,
    /// Packets of the batches.
    packets: usize,
    /// Index of this port among the run's ports.
    part: usize,
    /// The batches are in the burst.
    built: bool,
    /// Bytes without FCS of the packets in the burst, as it was built, where packets of a batch differ in length and are no
    /// copies.
    lens: [u16; BURST],
    /// Packets of the burst that the device took before.
    taken: usize,
    lanes: Lanes,
    /// The batches that wait for the budget are counted.
    held: bool,
}

impl<D: Device> Source<D> for Streams<D> {
    fn new(_: &Outlet<D>) -> Self {
        Self {
            burst: D::Burst::new(),
            batches: [NOTHING; BURST],
            head: 0,
            tail: 0,
            slot: RunSlot(0),
            packets: 0,
            part: 0,
            built: false,
            lens: [0; BURST],
            taken: 0,
            lanes: Lanes::new(),
            held: false,
        }
    }

    fn is_in(run: &WorkerRun<D>) -> bool {
        !run.ports.is_empty()
    }

    #[inline]
    fn send(&mut self, pass: &mut Pass<'_, D>, outlet: &mut Outlet<D>) -> usize {
        if self.head == self.tail && !self.gather(pass, outlet.port) {
            return 0;
        }
        if !self.built && outlet.egress.is_limited() && self.hold(pass.now, &mut outlet.egress) {
            return 0;
        }
        let Some(run) = pass.runs.get_mut(self.slot.0).and_then(Option::as_mut) else { return 0 };
        if !self.built && !self.build(run, pass.clock, outlet) {
            return 0;
        }
        self.offer(run, pass.clock, &mut outlet.egress)
    }

    fn is_waiting(&self, _: PortIndex, _: &[Option<Box<WorkerRun<D>>>]) -> bool {
        self.head < self.tail
    }

    fn due_ns(run: &WorkerRun<D>) -> Option<u64> {
        if run.share.sent.is_up() {
            return None;
        }
        let due = run.ports.iter().filter_map(|part| part.schedule.next_due_ns());
        let changes = run.ports.iter().filter_map(|part| Some(part.changes.front()?.at_ns));
        due.chain(changes).min().and_then(|due| run.clock.mono_of(due))
    }

    fn settle(&mut self, run: &mut WorkerRun<D>, ending: &mut Ending<'_, D>, outlet: &mut Outlet<D>) -> bool {
        if ending.past_grace {
            self.give_up(ending.slot, run, outlet);
            outlet.egress.flush(ending.now);
        }
        let Some(part) = run.ports.iter_mut().find(|part| part.port == outlet.port) else { return true };
        if ending.past_grace {
            return part.give_up(run.warmup_ns, run.end_ns, &run.share, &run.replays, ending.reclaim);
        }
        !self.holds(ending.slot)
            && part.schedule.next_due_ns().is_none_or(|due| due >= run.end_ns)
            && outlet.egress.flush(ending.now)
    }

    fn remove(&mut self, slot: RunSlot, run: &mut WorkerRun<D>, outlet: &mut Outlet<D>) {
        self.give_up(slot, run, outlet);
    }
}

impl<D: Device> Streams<D> {
    /// Whether what is due has to wait for the budget. It is not built before it may leave, so that its time stamps are right.
    #[cold]
    fn hold(&mut self, now: u64, egress: &mut Egress<D>) -> bool {
        if !egress.is_closed(now) {
            return false;
        }
        if !std::mem::replace(&mut self.held, true) {
            egress.throttled(self.packets as u64);
        }
        true
    }

    /// Takes what is due from the runs in turn, a burst from one run. False if nothing is due.
    fn gather(&mut self, pass: &mut Pass<'_, D>, port: PortIndex) -> bool {
        let Pass { now, runs, reclaim, .. } = pass;
        let count = runs.len();
        for offset in 1..=count {
            let slot = RunSlot((self.slot.0 + offset) % count);
            let Some(run) = &mut runs[slot.0] else { continue };
            if run.share.sent.is_up() || run.clock.is_stopped() {
                continue;
            }
            let Some(at) = run.clock.at(*now).and_then(|at| u64::try_from(at).ok()) else { continue };
            let (warmup_ns, end_ns) = (run.warmup_ns, run.end_ns);
            let Some(part) = run.ports.iter().position(|part| part.port == port) else { continue };
            let (batches, packets) =
                run.ports[part].take_due(at, warmup_ns, end_ns, &mut self.batches, &run.replays, reclaim);
            if packets > 0 {
                (self.head, self.tail, self.packets) = (0, batches, packets);
                (self.slot, self.part, self.built) = (slot, part, false);
                self.held = false;
                return true;
            }
        }
        false
    }

    /// Writes the packets. False if there is no memory for them now.
    #[inline]
    fn build(&mut self, run: &mut WorkerRun<D>, clock: &D::Clock, outlet: &mut Outlet<D>) -> bool {
        let timestamp = run.timescale.of(clock.mono_ns()) % TIMESTAMP_MODULUS;
        let part = &mut run.ports[self.part];
        let pool = part.long_packets.as_ref().unwrap_or(&outlet.pool);
        let each = !part.prebuilt.is_empty();
        if !each && !self.burst.alloc(pool, self.packets) {
            return false;
        }
        if !outlet.egress.is_null() {
            // The buffers were with a device or a receiver since.
            self.burst.fetch();
        }
        let mut first = 0;
        for batch in &self.batches[..self.tail] {
            if batch.each
                && let Some(copies) = &part.copies
            {
                let streams = batch.stream..batch.stream + batch.count;
                self.burst.fill(first, &copies.pieces[streams.clone()], &copies.lens[streams]);
                first += batch.count;
                continue;
            }
            let stamp = Trailer {
                run_tag: run.tag,
                stream: 0,
                sender: run.sender,
                measured: batch.due_ns >= run.warmup_ns,
                sequence: 0,
                timestamp,
            };
            for (stream, count) in batch.streams() {
                let send = &part.streams[stream];
                // In all other cases `offer` knows them from the template.
                let keep_lens = batch.each || send.template.one_len().is_none();
                if each && let Some(prebuilt) = &part.prebuilt[stream] {
                    self.burst.repeat(prebuilt, batch.sequence, count);
                    if keep_lens {
                        self.burst.lens(first, &mut self.lens[first..first + count]);
                    }
                    first += count;
                    continue;
                }
                if each && !self.burst.alloc(pool, count) {
                    self.burst.clear();
                    return false;
                }
                let stamp = Trailer { stream: send.id, ..stamp };
                let numbers = Numbers { number: batch.number, sequence: batch.sequence, count };
                let mut frames = Packets::<D>(&mut self.burst);
                send.template.write(&mut part.writers[stream], &mut self.lanes, numbers, stamp, &mut frames, first);
                if keep_lens {
                    self.lens[first..first + count].copy_from_slice(&self.lanes.lens()[..count]);
                }
                first += count;
            }
        }
        (self.built, self.taken) = (true, 0);
        if D::TRACES {
            self.trace(&run.ports[self.part]);
        }
        outlet.taps.copy::<D>(&self.burst, clock);
        true
    }

    /// Notes which packets of which streams the burst holds.
    fn trace(&mut self, part: &PortRun<D>) {
        let mut first = 0;
        for batch in &self.batches[..self.tail] {
            for (stream, count) in batch.streams() {
                let origin = Origin { stream: part.streams[stream].index, number: batch.number };
                self.burst.note(first..first + count, origin, part.schedule.stride(stream));
                first += count;
            }
        }
    }

    /// Offers the burst to the device and counts what it took.
    #[inline]
    fn offer(&mut self, run: &mut WorkerRun<D>, clock: &D::Clock, egress: &mut Egress<D>) -> usize {
        let part = &run.ports[self.part];
        let taken = egress.send(&mut self.burst, |taken| {
            let at = run.clock.at(clock.mono_ns()).map_or(0, |at| at.max(0).cast_unsigned());
            let late_before = at.saturating_sub(part.late_after_ns);
            let (mut left, mut bytes) = (taken, 0);
            while left > 0 {
                let batch = &mut self.batches[self.head];
                let count = batch.count.min(left);
                let measured = batch.due_ns >= run.warmup_ns;
                let last_due_ns = batch.due_of(count - 1);
                let sent = Sent {
                    packets: count as u64,
                    bytes: 0,
                    late: batch.due_before(late_before).min(count) as u64,
                    max_delay_ns: at.saturating_sub(batch.due_ns),
                    last_delay_ns: at.saturating_sub(last_due_ns),
                    last_due_ns,
                };
                let lens = &self.lens[self.taken + taken - left..][..count];
                if batch.each {
                    let sent = Sent { packets: 1, late: sent.late.min(1), ..sent };
                    let streams = batch.stream..batch.stream + count;
                    if let Some(copies) = &part.copies {
                        let slots = &run.share.tx[copies.first.0..][streams.clone()];
                        for (slot, &len) in slots.iter().zip(&copies.lens[streams]) {
                            let len = u64::from(len) + FCS_LEN;
                            slot.sent(measured, &Sent { bytes: len, ..sent });
                            bytes += len;
                        }
                    } else {
                        for (stream, &len) in part.streams[streams].iter().zip(lens) {
                            let len = u64::from(len) + FCS_LEN;
                            run.share.tx[stream.index.0].sent(measured, &Sent { bytes: len, ..sent });
                            bytes += len;
                        }
                    }
                } else {
                    let stream = &part.streams[batch.stream];
                    let sum = match stream.template.one_len() {
                        Some(len) => (len as u64 + FCS_LEN) * count as u64,
                        None => lens.iter().map(|&len| u64::from(len) + FCS_LEN).sum(),
                    };
                    run.share.tx[stream.index.0].sent(measured, &Sent { bytes: sum, ..sent });
                    bytes += sum;
                }
                left -= count;
                if count == batch.count {
                    self.head += 1;
                } else {
                    batch.advance(count, part.schedule.stride(batch.stream));
                }
            }
            bytes
        });
        self.taken += taken;
        self.packets -= taken;
        taken
    }

    /// Whether packets of the run in a slot are neither sent nor given up.
    fn holds(&self, slot: RunSlot) -> bool {
        self.slot == slot && self.head < self.tail
    }

    /// Drops the packets of a run that wait for the device, and counts them.
    fn give_up(&mut self, slot: RunSlot, run: &WorkerRun<D>, outlet: &Outlet<D>) {
        if !self.holds(slot) {
            return;
        }
        if let Some(part) = run.ports.iter().find(|part| part.port == outlet.port) {
            for batch in &self.batches[self.head..self.tail] {
                for (stream, count) in batch.streams() {
                    let share = &run.share.tx[part.streams[stream].index.0];
                    share.dropped(batch.due_ns >= run.warmup_ns, count as u64);
                }
            }
        }
        if self.built {
            outlet.egress.dropped(self.packets as u64);
        }
        self.burst.clear();
        self.head = 0;
        self.tail = 0;
    }
}

impl<D: Device> PortRun<D> {
    /// A worker's part of the streams of a port: the packets that `share` gives it, at the times of `timings`, by stream. `prebuild` makes
    /// the packets that are built before the run.
    pub(in crate::datapath) fn new<E>(
        port: PortIndex,
        streams: &Arc<[SendStream]>,
        share: WorkerShare,
        timings: impl Iterator<Item = StreamTiming>,
        late_after_ns: u64,
        long_packets: Option<D::Pool>,
        prebuild: impl FnOnce(&Schedule) -> Result<Box<[Option<D::Prebuilt>]>, E>,
    ) -> Result<Self, E> {
        let schedule = Schedule::new(share, timings);
        let writers = (streams.iter().enumerate())
            .map(|(index, s)| s.template.writer(WorkerShare { stride: schedule.stride(index), ..share }))
            .collect();
        let prebuilt = prebuild(&schedule)?;
        Ok(Self {
            port,
            schedule,
            streams: Arc::clone(streams),
            writers,
            copies: Copies::of(streams).filter(|_| prebuilt.is_empty()),
            prebuilt,
            changes: changes(),
            late_after_ns,
            long_packets,
        })
    }

    /// Sends packets of these streams from now on, and gives back those of before. Packets in the burst stay as they were built.
    pub(in crate::datapath::worker) fn swap_streams(&mut self, new: &mut NewStreams<D>) {
        debug_assert_eq!(self.streams.len(), new.streams.len(), "they are the same streams");
        std::mem::swap(&mut self.streams, &mut new.streams);
        std::mem::swap(&mut self.copies, &mut new.copies);
        for (stream, packets) in &mut new.prebuilt {
            std::mem::swap(&mut self.prebuilt[stream.0], packets);
        }
    }

    /// Takes up to a burst of what is due at run time `at` and before the end, making changes when their time has come.
    /// Returns how many batches and how many packets. No batch is partly of the warm-up.
    #[inline]
    fn take_due(
        &mut self,
        at: u64,
        warmup_ns: u64,
        end_ns: u64,
        batches: &mut [Batch; BURST],
        replays: &[Replay<D>],
        reclaim: &mut Producer<Reclaim<D>>,
    ) -> (usize, usize) {
        let (mut count, mut packets) = (0, 0);
        loop {
            let change_ns = self.changes.front().map_or(u64::MAX, |change| change.at_ns);
            let before = (at + 1).min(end_ns).min(change_ns);
            while packets < BURST
                && let Some(due) = self.schedule.next_due_ns()
                && due < before
            {
                let before = if due < warmup_ns { before.min(warmup_ns) } else { before };
                packets += self.schedule.take(before, BURST - packets, |batch| {
                    batches[count] = batch;
                    count += 1;
                });
            }
            if packets == BURST || change_ns > at || self.may_be_started_before(change_ns, replays) {
                return (count, packets);
            }
            self.make_change(reclaim);
        }
    }

    /// Whether a stream may yet be started by a replay before an instant: a change at that instant comes after what it sends until then.
    #[cold]
    fn may_be_started_before(&self, at_ns: u64, replays: &[Replay<D>]) -> bool {
        // In a chain that a worker only follows, another worker has the replay.
        !replays.is_empty()
            && (self.schedule.first_started_ns().is_some()
                || replays.iter().any(|replay| replay.is_on(self.port) && replay.may_be_followed_before(at_ns)))
    }

    /// Makes the next change; what is due before it has been taken.
    fn make_change(&mut self, reclaim: &mut Producer<Reclaim<D>>) {
        if let Some(change) = self.changes.pop_front() {
            self.schedule.change(change.at_ns, change.rates.iter().map(|&(stream, rate)| (stream.0, rate)));
            let _ = reclaim.push(Reclaim::Rates(change.rates));
        }
    }

    /// Counts all packets that are due and not sent as dropped, by the rates that were in force when it was due. False while a replay may start more.
    pub(super) fn give_up(
        &mut self,
        warmup_ns: u64,
        end_ns: u64,
        share: &RunShare,
        replays: &[Replay<D>],
        reclaim: &mut Producer<Reclaim<D>>,
    ) -> bool {
        loop {
            let change_ns = self.changes.front().map_or(u64::MAX, |change| change.at_ns);
            let before_ns = end_ns.min(change_ns);
            let streams = &self.streams;
            let mut give_up = |before_ns, measured| {
                let dropped = |stream: usize, count| share.tx[streams[stream].index.0].dropped(measured, count);
                self.schedule.give_up(before_ns, dropped);
            };
            give_up(warmup_ns.min(before_ns), false);
            give_up(before_ns, true);
            if change_ns >= end_ns {
                return true;
            }
            if self.may_be_started_before(change_ns, replays) {
                return false;
            }
            self.make_change(reclaim);
        }
    }
}

/// A burst whose packets are being written.
struct Packets<'a, D: Device>(&'a mut D::Burst);

impl<D: Device> Frames for Packets<'_, D> {
    #[inline]
    fn frames<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8]> {
        self.0.noted_mut(first, lens).map(|(frame, note)| {
            *note = 0;
            frame
        })
    }

    #[inline]
    fn noted<'a>(
        &'a mut self,
        first: usize,
        lens: &'a [u16],
    ) -> impl Iterator<Item = (&'a mut [u8], Option<&'a mut u64>)> {
        self.0.noted_mut(first, lens).map(|(frame, note)| (frame, Some(note)))
    }

    #[inline]
    fn pieces<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8; PIECE]> {
        self.0.pieces_mut(first, lens)
    }
}
