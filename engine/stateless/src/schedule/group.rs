// SPDX-License-Identifier: Apache-2.0
//! Continuous streams whose packets follow each other in a fixed round: equal rates, phases less than a step apart.
use super::{Batch, Cursor, Deal, Step};
use crate::{Rate, pace::Due};

/// When a stream's next packet is due.
pub(super) struct Aim {
    pub(super) stream: usize,
    pub(super) deal: Deal,
    pub(super) rate: Rate,
    pub(super) due: Due,
}

/// A round of streams.
#[derive(Clone, Debug)]
pub(super) struct Group {
    deal: Deal,
    step: Step,
    /// In order of their phases: a stream, and when it is due after the round's base.
    members: Box<[(u32, u64)]>,
    /// The member whose turn it is.
    turn: usize,
    /// The round's base; none if the round is never.
    base_ns: Option<u64>,
    remainder: u64,
}

impl Group {
    /// Puts streams together that can be.
    pub(super) fn gather(mut aims: Vec<Aim>) -> Vec<Self> {
        let key =
            |a: &Aim| (a.rate.packets(), a.rate.nanoseconds(), a.deal.stride, a.due.remainder, a.due.ns, a.stream);
        aims.sort_unstable_by_key(key);
        let mut groups = Vec::new();
        let mut rest = &aims[..];
        while let Some(first) = rest.first() {
            let step = Step::new(first.rate, first.deal.stride);
            let end_ns = first.due.ns.saturating_add(step.ns);
            let belongs = |a: &Aim| {
                a.rate == first.rate
                    && a.deal == first.deal
                    && a.due.remainder == first.due.remainder
                    && (a.due.ns < end_ns || a.due.ns == first.due.ns)
            };
            let count = rest.iter().take_while(|a| belongs(a)).count();
            let members = rest[..count].iter().map(|a| (a.stream as u32, a.due.ns - first.due.ns)).collect();
            groups.push(Self {
                deal: first.deal,
                step,
                members,
                turn: 0,
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
        self.base_ns?.checked_add(self.members[self.turn].1)
    }

    /// Takes what is due before `before_ns`, at most `most` packets, at least one.
    #[inline]
    pub(super) fn take(
        &mut self,
        streams: &mut [Cursor],
        before_ns: u64,
        most: usize,
        take: &mut impl FnMut(Batch),
    ) -> usize {
        let Some(base_ns) = self.base_ns else { return 0 };
        if let [(stream, _)] = *self.members {
            let stream = stream as usize;
            let (count, last_due_ns, next) = self.step.run(most, base_ns, self.remainder, before_ns);
            let sequence = streams[stream].sequence;
            streams[stream].sequence += count as u64;
            let number = self.deal.first + sequence * self.deal.stride;
            take(Batch { stream, count, number, sequence, due_ns: base_ns, last_due_ns });
            self.go_to(next);
            return count;
        }
        let mut taken = 0;
        while taken < most {
            let Some(due_ns) = self.due_ns() else { break };
            if due_ns >= before_ns {
                break;
            }
            let stream = self.members[self.turn].0 as usize;
            let cursor = &mut streams[stream];
            let sequence = cursor.sequence;
            cursor.sequence += 1;
            let number = self.deal.first + sequence * self.deal.stride;
            take(Batch { stream, count: 1, number, sequence, due_ns, last_due_ns: due_ns });
            taken += 1;
            self.turn += 1;
            if self.turn == self.members.len() {
                self.turn = 0;
                let next = self.base_ns.and_then(|base| self.step.after(base, self.remainder));
                self.go_to(next);
            }
        }
        taken
    }

    fn go_to(&mut self, next: Option<(u64, u64)>) {
        self.base_ns = next.map(|(ns, _)| ns);
        self.remainder = next.map_or(0, |(_, remainder)| remainder);
    }
}
