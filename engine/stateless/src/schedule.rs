// SPDX-License-Identifier: Apache-2.0
//! Which packets of many streams are due next, for one worker.
//!
//! A stream's packets are distributed over all workers round-robin: worker k of S sends the numbers n = k modulo S of each
//! burst (a continuous stream is one endless burst). Due times advance by a fraction (quotient and remainder), so they
//! never drift. Continuous streams of equal rate follow each other in a fixed round, whatever their phases: they form one
//! group that is stepped through, so that thousands of streams cost what one does. Groups and bursting streams lie in a
//! binary heap by due time.
mod bursts;
mod chain;
mod group;

use crate::{Pace, Rate};
use bursts::Bursting;
pub use chain::{Next, Successor};
use group::Group;

/// A worker's part of every stream's packets: the numbers `first`, `first + stride`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerShare {
    /// Which worker it is, below `stride`.
    pub first: u64,
    /// Number of workers.
    pub stride: u64,
}

/// When a stream sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// Without an end.
    Continuous,
    /// In bursts.
    Bursts {
        /// Packets of each burst, over all workers; at least 1.
        packets: u64,
        /// How many bursts; none: without an end.
        count: Option<u64>,
        /// From the last packet of a burst to the first of the next.
        gap_ns: u64,
    },
}

/// What a schedule needs to know of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamTiming {
    /// Rate; none: the stream stands until it is given one.
    pub rate: Option<Rate>,
    /// In what pattern.
    pub transmit: Transmit,
    /// From its start to its first packet.
    pub start_delay_ns: u64,
    /// Starts only when another stream's `next` says so.
    pub waits: bool,
    /// Starts after its last packet.
    pub next: Option<Successor>,
    /// Whether one worker, the first, sends all packets.
    pub pinned: bool,
}

impl StreamTiming {
    /// Continuous from the start on.
    pub fn continuous(rate: Option<Rate>) -> Self {
        Self { rate, transmit: Transmit::Continuous, start_delay_ns: 0, waits: false, next: None, pinned: false }
    }
}

/// Packets that are due, and leave one after the other: of one stream, or one of each of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Index of the (first) stream in the schedule.
    pub stream: usize,
    /// Whether the batch is one packet of each stream from the first on, all with the same number and due at the same time.
    pub each: bool,
    /// How many; at least 1.
    pub count: usize,
    /// The first one's number in its stream, over all workers; the stream's next is as many further as there are workers.
    pub number: u64,
    /// The first one's number among this worker's packets of the stream.
    pub sequence: u64,
    /// When the first is due, on the run's clock.
    pub due_ns: u64,
    /// When the last is due; those between are evenly spaced.
    pub last_due_ns: u64,
}

impl Batch {
    /// The streams of the batch, with the number of packets of each.
    #[inline]
    pub fn streams(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (streams, count) = if self.each { (self.count, 1) } else { (1, self.count) };
        (self.stream..self.stream + streams).map(move |stream| (stream, count))
    }

    /// When packet `index` of it is due, to a nanosecond.
    #[inline]
    pub fn due_of(&self, index: usize) -> u64 {
        if index == 0 {
            return self.due_ns;
        }
        if index + 1 == self.count {
            return self.last_due_ns;
        }
        let span = u128::from(self.last_due_ns - self.due_ns);
        self.due_ns + (span * index as u128 / (self.count as u128 - 1)) as u64
    }

    /// How many of its packets are due before an instant, to a nanosecond of their spacing.
    #[inline]
    pub fn due_before(&self, at_ns: u64) -> usize {
        if at_ns > self.last_due_ns {
            return self.count;
        }
        if at_ns <= self.due_ns {
            return 0;
        }
        let (span, into) = (self.last_due_ns - self.due_ns, at_ns - self.due_ns);
        (u128::from(into) * (self.count as u128 - 1)).div_ceil(u128::from(span)) as usize
    }

    /// Without its first `count` packets, which are not all; `stride` is the number of workers.
    pub fn advance(&mut self, count: usize, stride: u64) {
        if self.each {
            self.stream += count;
            self.count -= count;
            return;
        }
        self.due_ns = self.due_of(count);
        self.count -= count;
        self.number += count as u64 * stride;
        self.sequence += count as u64;
    }
}

/// The packets that one worker has to send, in order of their due times.
#[derive(Clone, Debug)]
pub struct Schedule {
    share: WorkerShare,
    streams: Vec<Cursor>,
    groups: Vec<Group>,
    /// By stream; only those that send in bursts.
    bursting: Vec<Option<Box<Bursting>>>,
    /// A binary min-heap of what has a next packet or event.
    heap: Vec<Entry>,
    /// What is on no schedule and starts now: its number, and when the stream before it ended.
    started: Vec<(usize, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    due_ns: u64,
    who: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Group(usize),
    Burst(usize),
}

/// Where a stream stands.
#[derive(Clone, Debug)]
struct Cursor {
    /// This worker's packets taken so far; of one in a group, when the group last reported them.
    sequence: u64,
    /// Pace of the (continuous) stream, or of its present burst.
    pace: Pace,
    timing: StreamTiming,
}

/// A step from one packet of this worker to its next: `ns + remainder / denominator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    ns: u64,
    remainder: u64,
    denominator: u64,
}

impl Step {
    fn new(rate: Rate, stride: u64) -> Self {
        let step = u128::from(stride) * u128::from(rate.nanoseconds());
        let denominator = rate.packets();
        Self {
            // A step that does not fit is longer than any run.
            ns: u64::try_from(step / u128::from(denominator)).unwrap_or(u64::MAX),
            remainder: (step % u128::from(denominator)) as u64,
            denominator,
        }
    }

    /// The instant after `(ns, remainder)`; none if that is never.
    #[inline]
    fn after(&self, ns: u64, remainder: u64) -> Option<(u64, u64)> {
        let next = ns.checked_add(self.ns)?;
        // Two remainders may exceed 64 bits: compare without adding.
        if remainder >= self.denominator - self.remainder {
            Some((next.checked_add(1)?, remainder - (self.denominator - self.remainder)))
        } else {
            Some((next, remainder + self.remainder))
        }
    }

    /// The instant this many steps after `(ns, remainder)`, if that fits.
    #[inline]
    fn many_after(&self, count: u64, ns: u64, remainder: u64) -> Option<(u64, u64)> {
        let rest = count.checked_mul(self.remainder)?.checked_add(remainder)?;
        let ns = count.checked_mul(self.ns)?.checked_add(rest / self.denominator)?.checked_add(ns)?;
        Some((ns, rest % self.denominator))
    }

    /// A run of at most `most` packets, the first at `(ns, remainder)`, before `before_ns`, which is after the first: their number, when
    /// the last is due, and when the one after it.
    #[inline]
    fn run(&self, most: usize, ns: u64, remainder: u64, before_ns: u64) -> (usize, u64, Option<(u64, u64)>) {
        if let Some((last, rest)) = self.many_after(most as u64 - 1, ns, remainder)
            && last < before_ns
        {
            return (most, last, self.after(last, rest));
        }
        let (mut count, mut last, mut next) = (1, ns, self.after(ns, remainder));
        while let Some((ns, remainder)) = next
            && ns < before_ns
            && count < most
        {
            count += 1;
            last = ns;
            next = self.after(ns, remainder);
        }
        (count, last, next)
    }
}

/// Events that send nothing, handled in one call: a stream that never has a packet for this worker must not hold it.
const EVENTS: usize = 256;

impl Schedule {
    /// A schedule of streams, all at their start.
    pub fn new(share: WorkerShare, streams: impl IntoIterator<Item = StreamTiming>) -> Self {
        let mut this = Self {
            share,
            streams: Vec::new(),
            groups: Vec::new(),
            bursting: Vec::new(),
            heap: Vec::new(),
            started: Vec::new(),
        };
        for timing in streams {
            let pace = Pace::starting(timing.start_delay_ns, timing.rate);
            this.streams.push(Cursor { sequence: 0, pace, timing });
            this.bursting.push(Bursting::new(&timing));
        }
        this.heap.reserve_exact(this.streams.len() + 1);
        let elsewhere =
            |cursor: &&Cursor| matches!(cursor.timing.next, Some(Successor { next: Next::Elsewhere(_), .. }));
        this.started.reserve_exact(this.streams.iter().filter(elsewhere).count());
        this.arrange();
        this
    }

    /// This worker's part of a stream; none if it has none.
    fn share_of(&self, stream: usize) -> Option<WorkerShare> {
        match (self.streams[stream].timing.pinned, self.share.first) {
            (false, _) => Some(self.share),
            (true, 0) => Some(WorkerShare { first: 0, stride: 1 }),
            (true, _) => None,
        }
    }

    /// How many workers share a stream.
    pub fn stride(&self, stream: usize) -> u64 {
        self.share_of(stream).map_or(1, |share| share.stride)
    }

    /// When something is due next, if only the end of a burst; none if every stream stands.
    #[inline]
    pub fn next_due_ns(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.due_ns)
    }

    /// Takes packets that are due before `before_ns`, at most `most`, in order; `take` is called with each batch. Returns how
    /// many packets. Those that are due may be more, even when it returns fewer: ask again until it returns none
    /// and `next_due_ns` is not before.
    #[inline]
    pub fn take(&mut self, before_ns: u64, most: usize, mut take: impl FnMut(Batch)) -> usize {
        let mut taken = 0;
        let mut events = 0;
        while taken < most && events < EVENTS {
            let Some(&Entry { due_ns, who }) = self.heap.first() else { break };
            if due_ns >= before_ns {
                break;
            }
            // As long as nothing else is due before, this one goes on.
            let others = self.heap[1..self.heap.len().min(3)].iter().map(|e| e.due_ns).min();
            let limit = others.map_or(before_ns, |due| before_ns.min(due.saturating_add(1)));
            let next = match who {
                Source::Group(index) => {
                    let group = &mut self.groups[index];
                    taken += group.take(limit, most - taken, &mut take);
                    group.due_ns()
                }
                Source::Burst(stream) => {
                    let count = self.take_burst(stream, limit, most - taken, &mut take);
                    events += usize::from(count == 0);
                    taken += count;
                    // The stream may have started another, or itself: the top of the heap may have changed.
                    continue;
                }
            };
            self.reschedule(next);
        }
        taken
    }

    /// The top of the heap has another due time, or none.
    #[inline]
    fn reschedule(&mut self, next: Option<u64>) {
        match next {
            Some(due_ns) => self.heap[0].due_ns = due_ns,
            None => {
                self.heap.swap_remove(0);
            }
        }
        self.sift_down(0);
    }

    /// When the first of what is to start elsewhere may; none if nothing is.
    pub fn first_started_ns(&self) -> Option<u64> {
        self.started.iter().map(|(_, end_ns)| *end_ns).min()
    }

    /// What is to start elsewhere since streams before it have ended: its number, and when that was. Once.
    pub fn take_started(&mut self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.started.drain(..)
    }

    /// Gives streams other rates (none: to stand) from an instant on. Packets that are due already stay due: take them first.
    /// Costs as much as making the schedule.
    pub fn change(&mut self, at_ns: u64, changes: impl IntoIterator<Item = (usize, Option<Rate>)>) {
        for (stream, rate) in changes {
            let cursor = &mut self.streams[stream];
            cursor.timing.rate = rate;
            cursor.pace = cursor.pace.changed(at_ns, rate);
        }
        self.arrange();
    }

    /// Gives up what is due before an instant; `give_up` is called with how many packets of which stream (maybe in parts).
    pub fn give_up(&mut self, before_ns: u64, mut give_up: impl FnMut(usize, u64)) {
        self.dissolve();
        for stream in 0..self.streams.len() {
            if self.bursting[stream].is_none()
                && let Some(share) = self.share_of(stream)
                && !self.streams[stream].timing.waits
            {
                let cursor = &mut self.streams[stream];
                let due = cursor.pace.count_before(before_ns);
                let mine = due.saturating_sub(share.first).div_ceil(share.stride);
                if mine > cursor.sequence {
                    give_up(stream, mine - cursor.sequence);
                    cursor.sequence = mine;
                }
            }
        }
        self.arrange();
        while self.next_due_ns().is_some_and(|due| due < before_ns) {
            self.take(before_ns, usize::MAX >> 1, |batch| {
                batch.streams().for_each(|(stream, count)| give_up(stream, count as u64));
            });
        }
    }

    /// Takes groups apart: what they know goes to their streams.
    fn dissolve(&mut self) {
        for group in self.groups.drain(..) {
            group.report(&mut self.streams);
        }
    }

    /// Makes groups and heap afresh from where the streams stand.
    fn arrange(&mut self) {
        self.dissolve();
        let mut aims = Vec::new();
        self.heap.clear();
        for stream in 0..self.streams.len() {
            let Some(share) = self.share_of(stream) else { continue };
            let cursor = &self.streams[stream];
            if self.bursting[stream].is_none()
                && !cursor.timing.waits
                && let Some(rate) = cursor.pace.rate()
                && let Some(number) = cursor.sequence.checked_mul(share.stride).and_then(|n| n.checked_add(share.first))
                && let Some(due) = cursor.pace.due(number)
            {
                aims.push(group::Aim { stream, share, rate, due, sequence: cursor.sequence });
            }
        }
        self.groups = Group::gather(aims);
        self.heap.extend(
            self.groups
                .iter()
                .enumerate()
                .filter_map(|(index, group)| Some(Entry { due_ns: group.due_ns()?, who: Source::Group(index) })),
        );
        for stream in 0..self.streams.len() {
            if let Some(due_ns) = self.aim_burst(stream) {
                self.heap.push(Entry { due_ns, who: Source::Burst(stream) });
            }
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
    }

    fn insert(&mut self, entry: Entry) {
        let mut at = self.heap.len();
        self.heap.push(entry);
        while at > 0 && self.heap[at] < self.heap[(at - 1) / 2] {
            self.heap.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    #[inline]
    fn sift_down(&mut self, mut at: usize) {
        let heap = &mut self.heap[..];
        let Some(&moving) = heap.get(at) else { return };
        loop {
            let mut child = 2 * at + 1;
            if child >= heap.len() {
                break;
            }
            if child + 1 < heap.len() && heap[child + 1] < heap[child] {
                child += 1;
            }
            if moving <= heap[child] {
                break;
            }
            heap[at] = heap[child];
            at = child;
        }
        heap[at] = moving;
    }
}

#[cfg(test)]
mod tests;
