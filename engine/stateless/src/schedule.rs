// SPDX-License-Identifier: Apache-2.0
//! Which packet of many streams is due next, for one worker.
//!
//! A stream's packets are dealt out over all workers in turn: worker k of S sends the numbers n = k modulo S. Each
//! stream's next due time is advanced by a fraction (quotient and remainder), so it never drifts; the streams lie in a
//! binary heap by due time.
use crate::Pace;

/// A worker's part of every stream's packets: the numbers `first`, `first + stride`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deal {
    /// Which worker it is, below `stride`.
    pub first: u64,
    /// Of how many.
    pub stride: u64,
}

/// A packet that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When, on the run's clock.
    pub due_ns: u64,
    /// Index of its stream in the schedule.
    pub stream: usize,
    /// Its number in the stream, over all workers.
    pub number: u64,
    /// Its sequence number among this worker's packets of the stream.
    pub sequence: u64,
}

/// The packets that one worker has to send, in order of their due times (then of their streams).
#[derive(Clone, Debug)]
pub struct Schedule {
    deal: Deal,
    cursors: Vec<Cursor>,
    /// A binary min-heap of the streams that have a next packet.
    heap: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    due_ns: u64,
    stream: usize,
}

/// Where a stream stands.
#[derive(Clone, Debug)]
struct Cursor {
    /// The next packet's part of a nanosecond past its due time, in `1 / denominator`.
    remainder: u64,
    /// From one packet of this worker to the next: `step_ns + step_remainder / denominator`.
    step_ns: u64,
    step_remainder: u64,
    denominator: u64,
    /// Packets of this worker taken so far.
    sequence: u64,
    pace: Pace,
}

impl Schedule {
    /// A schedule of streams with these paces.
    pub fn new(deal: Deal, paces: impl IntoIterator<Item = Pace>) -> Self {
        let mut this = Self { deal, cursors: Vec::new(), heap: Vec::new() };
        for (stream, pace) in paces.into_iter().enumerate() {
            this.cursors.push(Cursor {
                remainder: 0,
                step_ns: 0,
                step_remainder: 0,
                denominator: 1,
                sequence: 0,
                pace,
            });
            if let Some(due_ns) = this.aim(stream) {
                this.heap.push(Entry { due_ns, stream });
            }
        }
        // So that a stream that starts to move later needs no memory.
        this.heap.reserve_exact(this.cursors.len() - this.heap.len());
        this.heapify();
        this
    }

    /// When the next packet is due; none if every stream stands.
    #[inline]
    pub fn next_due_ns(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.due_ns)
    }

    /// Takes the next packet if it is due before `before_ns`.
    #[inline]
    pub fn take(&mut self, before_ns: u64) -> Option<Departure> {
        let Entry { due_ns, stream } = *self.heap.first()?;
        if due_ns >= before_ns {
            return None;
        }
        let cursor = &mut self.cursors[stream];
        let sequence = cursor.sequence;
        cursor.sequence += 1;
        match cursor.advance(due_ns) {
            Some(next_ns) => self.heap[0].due_ns = next_ns,
            None => {
                self.heap.swap_remove(0);
            }
        }
        self.sift_down(0);
        let number = self.deal.first + sequence * self.deal.stride;
        Some(Departure { due_ns, stream, number, sequence })
    }

    /// Gives streams other paces. What they owe already stays owed. Costs as much as making the schedule.
    pub fn change(&mut self, changes: impl IntoIterator<Item = (usize, Pace)>) {
        for (stream, pace) in changes {
            self.cursors[stream].pace = pace;
        }
        self.heap.clear();
        for stream in 0..self.cursors.len() {
            if let Some(due_ns) = self.aim(stream) {
                self.heap.push(Entry { due_ns, stream });
            }
        }
        self.heapify();
    }

    /// How many packets of a stream are due before `before_ns` and not taken.
    pub fn owed(&self, stream: usize, before_ns: u64) -> u64 {
        let cursor = &self.cursors[stream];
        let due = cursor.pace.count_before(before_ns);
        // Numbers first + i * stride below `due`, without those taken.
        due.saturating_sub(self.deal.first).div_ceil(self.deal.stride).saturating_sub(cursor.sequence)
    }

    /// Streams in it.
    pub fn streams(&self) -> usize {
        self.cursors.len()
    }

    /// Computes a stream's next due time afresh from its pace.
    fn aim(&mut self, stream: usize) -> Option<u64> {
        let cursor = &mut self.cursors[stream];
        let rate = cursor.pace.rate()?;
        let step = u128::from(self.deal.stride) * u128::from(rate.nanoseconds());
        cursor.denominator = rate.packets();
        // A step that does not fit is longer than any run.
        cursor.step_ns = u64::try_from(step / u128::from(rate.packets())).unwrap_or(u64::MAX);
        cursor.step_remainder = (step % u128::from(rate.packets())) as u64;
        let number = cursor.sequence.checked_mul(self.deal.stride)?.checked_add(self.deal.first)?;
        let due = cursor.pace.due(number)?;
        cursor.remainder = due.remainder;
        Some(due.ns)
    }

    fn heapify(&mut self) {
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
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

impl Cursor {
    /// The due time of the packet after the one due at `due_ns`; none if that is never.
    #[inline]
    fn advance(&mut self, due_ns: u64) -> Option<u64> {
        let next = due_ns.checked_add(self.step_ns)?;
        // Two remainders may exceed 64 bits: compare without adding.
        if self.remainder >= self.denominator - self.step_remainder {
            self.remainder -= self.denominator - self.step_remainder;
            next.checked_add(1)
        } else {
            self.remainder += self.step_remainder;
            Some(next)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rate;
    use proptest::prelude::*;

    const WHOLE: Deal = Deal { first: 0, stride: 1 };

    prop_compose! {
        fn any_rate()(packets in 1u64..1 << 30, nanoseconds in 1u64..1 << 30) -> Rate {
            // At most a packet a nanosecond and at least a few a second, so that tests see some and end.
            Rate::new(packets.min(nanoseconds).into(), (nanoseconds * 500).min(packets * 50_000_000).max(1).into()).unwrap()
        }
    }

    /// A change of one stream's rate (or standstill) at an instant.
    #[derive(Clone, Debug)]
    struct Change {
        at_ns: u64,
        stream: usize,
        rate: Option<Rate>,
    }

    prop_compose! {
        fn any_plan()(rates in prop::collection::vec(any_rate(), 1..6), end_ns in 1u64..100_000)
            (changes in prop::collection::vec(
                (0..end_ns, 0..rates.len(), prop::option::of(any_rate())), 0..4), rates in Just(rates), end_ns in Just(end_ns))
            -> (Vec<Pace>, Vec<Change>, u64) {
            let mut changes: Vec<Change> =
                changes.into_iter().map(|(at_ns, stream, rate)| Change { at_ns, stream, rate }).collect();
            changes.sort_by_key(|c| c.at_ns);
            (rates.into_iter().map(|r| Pace::from_start(Some(r))).collect(), changes, end_ns)
        }
    }

    /// What a worker would do: all that is due before a change, then the change, then the rest.
    fn drive(deal: Deal, paces: &[Pace], changes: &[Change], end_ns: u64) -> (Vec<Departure>, Vec<Pace>, Schedule) {
        let mut paces = paces.to_vec();
        let mut schedule = Schedule::new(deal, paces.iter().copied());
        let mut taken = Vec::new();
        for change in changes {
            taken.extend(std::iter::from_fn(|| schedule.take(change.at_ns)));
            paces[change.stream] = paces[change.stream].changed(change.at_ns, change.rate);
            schedule.change([(change.stream, paces[change.stream])]);
        }
        taken.extend(std::iter::from_fn(|| schedule.take(end_ns)));
        (taken, paces, schedule)
    }

    proptest! {
        #[test]
        fn all_workers_together_send_what_one_would((paces, changes, end_ns) in any_plan(), stride in 1u64..9) {
            let (whole, ..) = drive(WHOLE, &paces, &changes, end_ns);
            let mut union: Vec<Departure> = (0..stride)
                .flat_map(|first| drive(Deal { first, stride }, &paces, &changes, end_ns).0)
                .collect();
            union.sort_by_key(|d| (d.stream, d.number));
            let mut whole = whole;
            whole.sort_by_key(|d| (d.stream, d.number));
            let key = |d: &Departure| (d.stream, d.number, d.due_ns);
            prop_assert_eq!(union.iter().map(key).collect::<Vec<_>>(), whole.iter().map(key).collect::<Vec<_>>());
        }

        #[test]
        fn counts_are_what_the_pace_says((paces, changes, end_ns) in any_plan()) {
            let (taken, paces, schedule) = drive(WHOLE, &paces, &changes, end_ns);
            for (stream, pace) in paces.iter().enumerate() {
                let count = taken.iter().filter(|d| d.stream == stream).count() as u64;
                prop_assert_eq!(count, pace.count_before(end_ns));
                prop_assert_eq!(schedule.owed(stream, end_ns), 0);
            }
        }

        #[test]
        fn packets_come_in_order_of_their_due_times((paces, changes, end_ns) in any_plan()) {
            let (taken, ..) = drive(WHOLE, &paces, &changes, end_ns);
            prop_assert!(taken.is_sorted_by_key(|d| d.due_ns));
            for d in &taken {
                prop_assert_eq!(d.number, d.sequence);
            }
        }

        #[test]
        fn stepping_agrees_with_computing_afresh(rate in any_rate(), first in 0u64..4) {
            let pace = Pace::from_start(Some(rate));
            let mut schedule = Schedule::new(Deal { first, stride: 4 }, [pace]);
            for _ in 0..1000 {
                let d = schedule.take(u64::MAX).unwrap();
                prop_assert_eq!(d.due_ns, pace.due(d.number).unwrap().ns);
            }
        }

        #[test]
        fn what_was_not_taken_is_owed((paces, _, end_ns) in any_plan(), taken in 0usize..100, stride in 1u64..5) {
            let mut owed = 0;
            let mut sent = 0;
            for first in 0..stride {
                let mut schedule = Schedule::new(Deal { first, stride }, paces.iter().copied());
                sent += std::iter::from_fn(|| schedule.take(end_ns)).take(taken).count() as u64;
                owed += (0..schedule.streams()).map(|s| schedule.owed(s, end_ns)).sum::<u64>();
            }
            prop_assert_eq!(sent + owed, paces.iter().map(|p| p.count_before(end_ns)).sum::<u64>());
        }
    }

    /// The odd rates that people ask for, over an hour: exact to the packet.
    #[test]
    fn odd_rates_do_not_drift() {
        const HOUR_NS: u64 = 3_600_000_000_000;
        for (numerator, denominator) in [(1, 7), (1_000_003, 1000), (999_999, 1)] {
            let rate = Rate::packets_per_second(numerator, denominator).unwrap();
            let exact = (u128::from(HOUR_NS) * u128::from(rate.packets())).div_ceil(u128::from(rate.nanoseconds()));
            assert_eq!(u128::from(Pace::from_start(Some(rate)).count_before(HOUR_NS)), exact);
        }
    }
}
