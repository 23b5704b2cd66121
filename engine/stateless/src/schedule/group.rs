// SPDX-License-Identifier: Apache-2.0
//! Continuous streams whose packets follow each other in a fixed round: equal rates, phases less than a step apart.
use super::{Batch, Cursor, Step, WorkerShare};
use crate::{Rate, pace::Due};

/// When a stream's next packet is due.
pub(super) struct Aim {
    pub(super) stream: usize,
    pub(super) share: WorkerShare,
    pub(super) rate: Rate,
    pub(super) due: Due,
    /// Number of that packet among this worker's.
    pub(super) sequence: u64,
}

/// A round of streams.
#[derive(Clone, Debug)]
pub(super) struct Group {
    share: WorkerShare,
    step: Step,
    /// In order of their phases.
    members: Box<[Member]>,
    /// The member that sends next.
    turn: usize,
    /// How many of its streams had theirs.
    passed: usize,
    /// The round's base; none if the round is never.
    base_ns: Option<u64>,
    remainder: u64,
}

/// Streams that follow each other by index, with packets of the same number due at the same time.
#[derive(Clone, Debug)]
struct Member {
    stream: usize,
    count: usize,
    /// When they are due after the round's base.
    offset_ns: u64,
    /// Number of the next packet among this worker's.
    sequence: u64,
}

impl Group {
    /// Puts streams together that can be.
    pub(super) fn gather(mut aims: Vec<Aim>) -> Vec<Self> {
        let key =
            |a: &Aim| (a.rate.packets(), a.rate.nanoseconds(), a.share.stride, a.due.remainder, a.due.ns, a.stream);
        aims.sort_unstable_by_key(key);
        let mut groups = Vec::new();
        let mut rest = &aims[..];
        while let Some(first) = rest.first() {
            let step = Step::new(first.rate, first.share.stride);
            let end_ns = first.due.ns.saturating_add(step.ns);
            let belongs = |a: &Aim| {
                a.rate == first.rate
                    && a.share == first.share
                    && a.due.remainder == first.due.remainder
                    && (a.due.ns < end_ns || a.due.ns == first.due.ns)
            };
            let count = rest.iter().take_while(|a| belongs(a)).count();
            groups.push(Self {
                share: first.share,
                step,
                members: members(&rest[..count]),
                turn: 0,
                passed: 0,
                base_ns: Some(first.due.ns),
                remainder: first.due.remainder,
            });
            rest = &rest[count..];
        }
        groups
    }

    /// When its next packet is due; none if never.
    #[inline]
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.base_ns?.checked_add(self.members[self.turn].offset_ns)
    }

    /// Takes what is due before `before_ns`, at most `most` packets, at least one.
    #[inline]
    pub(super) fn take(&mut self, before_ns: u64, most: usize, take: &mut impl FnMut(Batch)) -> usize {
        let Some(base_ns) = self.base_ns else { return 0 };
        if let [Member { stream, count: 1, ref mut sequence, .. }] = *self.members {
            let (count, last_due_ns, next) = self.step.run(most, base_ns, self.remainder, before_ns);
            let number = self.share.first + *sequence * self.share.stride;
            take(Batch { stream, each: false, count, number, sequence: *sequence, due_ns: base_ns, last_due_ns });
            *sequence += count as u64;
            self.go_to(next);
            return count;
        }
        let mut taken = 0;
        while taken < most
            && let Some(due_ns) = self.due_ns()
            && due_ns < before_ns
        {
            let member = &mut self.members[self.turn];
            let count = (member.count - self.passed).min(most - taken);
            let (stream, sequence) = (member.stream + self.passed, member.sequence);
            let number = self.share.first + sequence * self.share.stride;
            take(Batch { stream, each: true, count, number, sequence, due_ns, last_due_ns: due_ns });
            taken += count;
            self.passed += count;
            if self.passed == member.count {
                member.sequence += 1;
                self.passed = 0;
                self.turn += 1;
            }
            if self.turn == self.members.len() {
                self.turn = 0;
                let next = self.base_ns.and_then(|base| self.step.after(base, self.remainder));
                self.go_to(next);
            }
        }
        taken
    }

    /// Reports to its streams how many packets were taken.
    pub(super) fn report(&self, streams: &mut [Cursor]) {
        for (index, member) in self.members.iter().enumerate() {
            let passed = if index == self.turn { self.passed } else { 0 };
            for (position, cursor) in streams[member.stream..][..member.count].iter_mut().enumerate() {
                cursor.sequence = member.sequence + u64::from(position < passed);
            }
        }
    }

    fn go_to(&mut self, next: Option<(u64, u64)>) {
        self.base_ns = next.map(|(ns, _)| ns);
        self.remainder = next.map_or(0, |(_, remainder)| remainder);
    }
}

fn members(aims: &[Aim]) -> Box<[Member]> {
    let follows = |a: &Aim, b: &Aim| b.stream == a.stream + 1 && b.due.ns == a.due.ns && b.sequence == a.sequence;
    let member = |together: &[Aim]| Member {
        stream: together[0].stream,
        count: together.len(),
        offset_ns: together[0].due.ns - aims[0].due.ns,
        sequence: together[0].sequence,
    };
    aims.chunk_by(follows).map(member).collect()
}
