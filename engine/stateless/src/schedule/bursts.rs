// SPDX-License-Identifier: Apache-2.0
//! Streams that send in bursts, and chains of them. Every worker follows every burst, whether it sends in it or not: the end
//! of a burst, and so the start of what comes after it, is the due time of its last packet, which all compute alike.
use super::{Batch, Entry, Next, Schedule, Source, Step, StreamTiming, Successor, Transmit, WorkerShare};
use crate::Pace;

/// Where a bursting stream stands, beside its cursor, whose pace is the present burst's.
#[derive(Clone, Debug)]
pub(super) struct Bursting {
    packets: u64,
    count: Option<u64>,
    gap_ns: u64,
    /// Bursts that come after the present one; none: without an end.
    left: Option<u64>,
    /// Not waiting, and not done.
    active: bool,
    /// Packets of the bursts before, over all workers.
    base: u64,
    /// Packets of the present burst that this worker has taken.
    taken: u64,
    /// What starts after it.
    next: Option<Successor>,
}

impl Bursting {
    /// The state of a bursting stream; none for a continuous stream that nothing starts.
    pub(super) fn new(timing: &StreamTiming) -> Option<Box<Self>> {
        let (packets, count, gap_ns) = match timing.transmit {
            // A stream that another one starts is one endless burst.
            Transmit::Continuous if timing.waits => (u64::MAX, Some(1), 0),
            Transmit::Continuous => return None,
            Transmit::Bursts { packets, count, gap_ns } => (packets, count, gap_ns),
        };
        Some(Box::new(Self {
            packets,
            count,
            gap_ns,
            left: count.map(|n| n.saturating_sub(1)),
            active: !timing.waits && count != Some(0),
            base: 0,
            taken: 0,
            next: timing.next,
        }))
    }

    /// The number of this worker's next packet in the present burst; none if the burst has none for it.
    fn next(&self, share: Option<WorkerShare>) -> Option<u64> {
        let share = share?;
        let number = self.taken.checked_mul(share.stride)?.checked_add(share.first)?;
        (number < self.packets).then_some(number)
    }
}

impl Schedule {
    /// When a bursting stream's next packet, or the end of its burst, is due; none if it stands, waits or is done.
    pub(super) fn aim_burst(&self, stream: usize) -> Option<u64> {
        let bursting = self.bursting[stream].as_ref().filter(|b| b.active)?;
        let number = bursting.next(self.share_of(stream)).unwrap_or(bursting.packets - 1);
        self.streams[stream].pace.due(number).map(|due| due.ns)
    }

    /// Takes packets of the bursting stream on top of the heap, or handles the end of its burst. Returns how many
    /// packets.
    pub(super) fn take_burst(
        &mut self,
        stream: usize,
        before_ns: u64,
        most: usize,
        take: &mut impl FnMut(Batch),
    ) -> usize {
        let share = self.share_of(stream);
        let cursor = &mut self.streams[stream];
        let (Some(bursting), Some(rate)) = (&mut self.bursting[stream], cursor.pace.rate()) else { return 0 };
        let mut count = 0;
        if let (Some(share), Some(first)) = (share, bursting.next(share)) {
            let Some(due) = cursor.pace.due(first) else { return 0 };
            let mine = (bursting.packets - first).div_ceil(share.stride);
            let most = usize::try_from(mine).unwrap_or(usize::MAX).min(most);
            let (taken, last_due_ns, _) = Step::new(rate, share.stride).run(most, due.ns, due.remainder, before_ns);
            let number = bursting.base + first;
            let sequence = cursor.sequence;
            take(Batch { stream, each: false, count: taken, number, sequence, due_ns: due.ns, last_due_ns });
            cursor.sequence += taken as u64;
            bursting.taken += taken as u64;
            count = taken;
            let next = self.aim_burst(stream);
            self.reschedule(next);
            return count;
        }
        let end_ns = self.heap[0].due_ns;
        bursting.base = bursting.base.saturating_add(bursting.packets);
        bursting.taken = 0;
        let more = bursting.left != Some(0);
        bursting.left = bursting.left.map(|n| n.saturating_sub(1));
        if more {
            cursor.pace = Pace::starting(end_ns.saturating_add(bursting.gap_ns), cursor.timing.rate);
            let next = self.aim_burst(stream);
            self.reschedule(next);
        } else {
            bursting.active = false;
            self.reschedule(None);
            self.follow(stream, end_ns);
        }
        count
    }

    /// Starts what comes after a stream, if anything.
    fn follow(&mut self, stream: usize, end_ns: u64) {
        let bursting = self.bursting[stream].as_mut();
        match bursting.and_then(|bursting| bursting.next.as_mut()?.follow()) {
            Some(Next::Scheduled(next)) => self.start(next, end_ns),
            Some(Next::Elsewhere(next)) => self.started.push((next, end_ns)),
            None => {}
        }
    }

    /// Starts a stream that something else comes before, which ended at an instant.
    pub fn start(&mut self, stream: usize, end_ns: u64) {
        let cursor = &mut self.streams[stream];
        let Some(bursting) = &mut self.bursting[stream] else { return };
        let running = bursting.active;
        if running {
            // The stream starts again: packets that it had not sent are not sent.
            bursting.base = bursting.base.saturating_add(bursting.packets);
        }
        bursting.active = bursting.count != Some(0);
        bursting.left = bursting.count.map(|n| n.saturating_sub(1));
        bursting.taken = 0;
        cursor.pace = Pace::starting(end_ns.saturating_add(cursor.timing.start_delay_ns), cursor.timing.rate);
        if running {
            self.heap.retain(|e| e.who != Source::Burst(stream));
            for at in (0..self.heap.len() / 2).rev() {
                self.sift_down(at);
            }
        }
        if let Some(due_ns) = self.aim_burst(stream) {
            self.insert(Entry { due_ns, who: Source::Burst(stream) });
        }
    }
}
