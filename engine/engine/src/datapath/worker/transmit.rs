// SPDX-License-Identifier: Apache-2.0
//! Transmission on one port: gather what is due, write it, offer it, count what the device took.
//!
//! A burst that the device did not take whole is offered again before anything else is built, so packets leave in order.
use std::{collections::VecDeque, sync::Arc};

use rtrb::Producer;
use spate_dpdk::{BURST, Burst, Mempool, TxQueue};
use spate_stateless::{Departure, Schedule, Template};
use spate_wire::{FCS_LEN, Trailer, trailer::TIMESTAMP_MODULUS};

use super::WorkerRun;
use crate::datapath::{
    clock::Clock,
    command::{PaceChange, Trash},
    shared::QueueShare,
};

/// How long after the end of transmission packets may still leave.
pub(super) const GRACE_NS: u64 = 100_000_000;

const NOTHING: Departure = Departure { due_ns: 0, stream: 0, number: 0, sequence: 0 };

/// A run's part on one transmit port of one worker.
pub(in crate::datapath) struct PortRun {
    /// Index of the port.
    pub(in crate::datapath) port: usize,
    pub(in crate::datapath) schedule: Schedule,
    /// By stream of the schedule.
    pub(in crate::datapath) streams: Arc<[SendStream]>,
    /// What is to change, in order of time.
    pub(in crate::datapath) changes: VecDeque<PaceChange>,
    pub(in crate::datapath) late_after_ns: u64,
    /// Where packets come from if they are longer than the port's own pool has room for.
    pub(in crate::datapath) long_packets: Option<Mempool>,
}

/// What a worker needs to know of a stream to send it.
#[derive(Debug)]
pub(in crate::datapath) struct SendStream {
    pub(in crate::datapath) template: Template,
    /// Its number in trailers.
    pub(in crate::datapath) id: u16,
    /// Its index among all streams of the run.
    pub(in crate::datapath) index: usize,
}

/// A port as one worker sends on it.
pub(super) struct TxPort {
    port: usize,
    queue: TxQueue,
    share: Arc<QueueShare>,
    pool: Mempool,
    burst: Burst,
    /// What is in the burst, or to be built: `departures[head..tail]`, of the run in `slot`.
    departures: [Departure; BURST],
    head: usize,
    tail: usize,
    slot: usize,
    /// The departures are in the burst.
    built: bool,
    /// The device may hold packets back that it took.
    unflushed: bool,
    /// Not to be asked to send them before this instant.
    flush_at: u64,
}

/// Between attempts to make the kernel send what it could not.
pub(super) const FLUSH_NS: u64 = 1_000_000;

impl TxPort {
    pub(super) fn new(port: usize, queue: TxQueue, share: Arc<QueueShare>, pool: Mempool) -> Self {
        Self {
            port,
            queue,
            share,
            pool,
            burst: Burst::new(),
            departures: [NOTHING; BURST],
            head: 0,
            tail: 0,
            slot: 0,
            built: false,
            unflushed: false,
            flush_at: 0,
        }
    }

    /// Sends up to a burst. Returns how many packets the device took.
    #[inline]
    pub(super) fn transmit(
        &mut self,
        now: u64,
        clock: &Clock,
        runs: &mut [Option<Box<WorkerRun>>],
        trash: &mut Producer<Trash>,
    ) -> usize {
        if self.head == self.tail && !self.gather(now, runs, trash) {
            return 0;
        }
        let Some(run) = &mut runs[self.slot] else { return 0 };
        let Some(part) = run.ports.iter().position(|p| p.port == self.port) else { return 0 };
        if !self.built && !self.build(run, part, clock) {
            return 0;
        }
        self.offer(run, part, clock)
    }

    /// Takes what is due from the runs in turn, a burst from one run. False if nothing is due.
    fn gather(&mut self, now: u64, runs: &mut [Option<Box<WorkerRun>>], trash: &mut Producer<Trash>) -> bool {
        let count = runs.len();
        for offset in 1..=count {
            let slot = (self.slot + offset) % count;
            let Some(run) = &mut runs[slot] else { continue };
            if run.share.sent.is_up() || run.clock.stands() {
                continue;
            }
            let Some(at) = run.clock.at(now).and_then(|at| u64::try_from(at).ok()) else { continue };
            let end_ns = run.end_ns;
            let Some(part) = run.ports.iter_mut().find(|p| p.port == self.port) else { continue };
            let taken = part.take_due(at, end_ns, &mut self.departures, trash);
            if taken > 0 {
                (self.head, self.tail, self.slot, self.built) = (0, taken, slot, false);
                return true;
            }
        }
        false
    }

    /// Writes the packets. False if there is no memory for them now.
    fn build(&mut self, run: &WorkerRun, part: usize, clock: &Clock) -> bool {
        let part = &run.ports[part];
        let pool = part.long_packets.as_ref().unwrap_or(&self.pool);
        if !self.burst.alloc(pool, self.tail) {
            return false;
        }
        let timestamp = clock.now_wall_ns() % TIMESTAMP_MODULUS;
        for (index, departure) in self.departures[..self.tail].iter().enumerate() {
            let stream = &part.streams[departure.stream];
            let trailer = Trailer {
                run_tag: run.tag,
                stream: stream.id,
                sender: run.sender,
                measured: departure.due_ns >= run.warmup_ns,
                sequence: departure.sequence as u32,
                timestamp,
            };
            stream.template.write(&trailer, self.burst.frame_mut(index, stream.template.frame_len()));
        }
        self.built = true;
        true
    }

    /// Offers the burst to the device and counts what it took.
    fn offer(&mut self, run: &WorkerRun, part: usize, clock: &Clock) -> usize {
        let taken = self.burst.send(&mut self.queue);
        if taken == 0 {
            return 0;
        }
        self.unflushed = true;
        self.flush_at = 0;
        let part = &run.ports[part];
        let at = run.clock.at(clock.mono_ns()).map_or(0, |at| at.max(0).cast_unsigned());
        let mut bytes = 0;
        for departure in &self.departures[self.head..self.head + taken] {
            let stream = &part.streams[departure.stream];
            let delay = at.saturating_sub(departure.due_ns);
            run.share.tx[stream.index].sent(
                departure.due_ns >= run.warmup_ns,
                departure.due_ns,
                delay,
                delay > part.late_after_ns,
            );
            bytes += stream.template.frame_len() as u64 + FCS_LEN;
        }
        self.head += taken;
        self.share.tx_packets.add(taken as u64);
        self.share.tx_bytes.add(bytes);
        taken
    }

    /// Whether packets of the run in a slot are neither sent nor given up.
    pub(super) fn is_waiting(&self, slot: usize) -> bool {
        self.slot == slot && self.head < self.tail
    }

    /// Makes the device send what it took. True if nothing is left in it.
    pub(super) fn flush(&mut self, now: u64) -> bool {
        if self.unflushed && now >= self.flush_at {
            self.unflushed = !self.queue.flush();
            self.flush_at = now + FLUSH_NS;
        }
        !self.unflushed
    }

    /// At the end of a run: whether all is sent. Past the grace, gives up what is not, and counts it.
    pub(super) fn settle(&mut self, now: u64, slot: usize, run: &WorkerRun, past_grace: bool) -> bool {
        let Some(part) = run.ports.iter().find(|p| p.port == self.port) else { return true };
        if past_grace {
            self.give_up(slot, run);
            self.flush(now);
            part.give_up(run);
            return true;
        }
        !self.is_waiting(slot) && part.schedule.next_due_ns().is_none_or(|due| due >= run.end_ns) && self.flush(now)
    }

    /// Drops the packets of a run that wait for the device, and counts them.
    pub(super) fn give_up(&mut self, slot: usize, run: &WorkerRun) {
        if !self.is_waiting(slot) {
            return;
        }
        if let Some(part) = run.ports.iter().find(|p| p.port == self.port) {
            for departure in &self.departures[self.head..self.tail] {
                run.share.tx[part.streams[departure.stream].index].dropped(departure.due_ns >= run.warmup_ns, 1);
            }
        }
        if self.built {
            self.share.tx_dropped.add((self.tail - self.head) as u64);
        }
        self.burst.clear();
        self.head = 0;
        self.tail = 0;
    }
}

impl PortRun {
    /// Takes up to a burst of what is due at run time `at` and before the end, making changes when their time has come.
    #[inline]
    fn take_due(
        &mut self,
        at: u64,
        end_ns: u64,
        departures: &mut [Departure; BURST],
        trash: &mut Producer<Trash>,
    ) -> usize {
        let mut taken = 0;
        loop {
            let change_ns = self.changes.front().map_or(u64::MAX, |change| change.at_ns);
            let before = (at + 1).min(end_ns).min(change_ns);
            while taken < BURST {
                let Some(departure) = self.schedule.take(before) else { break };
                departures[taken] = departure;
                taken += 1;
            }
            if taken == BURST || change_ns > at {
                return taken;
            }
            if let Some(change) = self.changes.pop_front() {
                self.schedule.change(change.paces.iter().copied());
                let _ = trash.push(Trash::Paces(change.paces));
            }
        }
    }

    /// Counts all that is owed as dropped.
    fn give_up(&self, run: &WorkerRun) {
        for (stream, send) in self.streams.iter().enumerate() {
            let warmup = self.schedule.owed(stream, run.warmup_ns.min(run.end_ns));
            let all = self.schedule.owed(stream, run.end_ns);
            run.share.tx[send.index].dropped(false, warmup);
            run.share.tx[send.index].dropped(true, all - warmup);
        }
    }
}
