// SPDX-License-Identifier: Apache-2.0
//! Round trips of UDP messages: the n-th message that comes to a client's flow is the reply to the n-th that it sent.
//!
//! A flow that loses a message is measured too long from there on: its replies answer earlier messages.
use super::Stack;
use crate::{
    Scenario,
    flow::{FlowIndex, flags},
};

/// Messages without a reply whose times are held; those sent while this many are, are not measured.
const HELD: usize = 8;

/// Messages of a flow that have no reply yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unanswered {
    /// When they left, by number modulo `HELD`.
    times: [u64; HELD],
    numbers: [u32; HELD],
    sent: u32,
    answered: u32,
}

impl Unanswered {
    /// No message was sent.
    pub(super) const NONE: Self = Self { times: [0; HELD], numbers: [u32::MAX; HELD], sent: 0, answered: 0 };

    /// This many messages were sent.
    pub(super) fn sent(&mut self, messages: u64, now_ns: u64) {
        for _ in 0..messages {
            let slot = self.sent as usize % HELD;
            if self.sent.wrapping_sub(self.answered) < HELD as u32 {
                (self.times[slot], self.numbers[slot]) = (now_ns, self.sent);
            }
            self.sent = self.sent.wrapping_add(1);
        }
    }

    /// A message came; how long the one that it answers was under way with it.
    fn answered(&mut self, now_ns: u64) -> Option<u64> {
        if self.answered == self.sent {
            return None;
        }
        let (number, slot) = (self.answered, self.answered as usize % HELD);
        self.answered = self.answered.wrapping_add(1);
        (self.numbers[slot] == number).then(|| now_ns.saturating_sub(self.times[slot]))
    }
}

fn measures(scenario: &Scenario) -> bool {
    scenario.templates.iter().any(|template| template.latency && template.client.is_some())
}

/// For this many flows; none if no template measures.
pub(super) fn slots(scenario: &Scenario, flows: usize) -> Option<Box<[Unanswered]>> {
    measures(scenario).then(|| vec![Unanswered::NONE; flows].into())
}

/// Bytes that they take.
pub(super) fn bytes(scenario: &Scenario, flows: usize) -> usize {
    if measures(scenario) { flows * size_of::<Unanswered>() } else { 0 }
}

impl Stack {
    /// A message came to a flow.
    #[inline]
    pub(super) fn answered(&mut self, index: FlowIndex) {
        let Some(replies) = &mut self.replies else { return };
        if self.flows[index].has(flags::CLIENT)
            && let Some(ns) = replies[index.position()].answered(self.now.ns)
        {
            self.side(index).counters.round_trip(ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_answer_in_turn_and_those_beyond_what_is_held_are_not_measured() {
        let mut flow = Unanswered::NONE;
        assert_eq!(flow.answered(5), None, "nothing was asked");
        flow.sent(1, 10);
        flow.sent(9, 20);
        let times: Vec<_> = (0..12).map(|n| flow.answered(100 + n)).collect();
        let expected = [90, 81, 82, 83, 84, 85, 86, 87].map(Some).into_iter().chain([None; 4]);
        assert_eq!(times, expected.collect::<Vec<_>>());
        flow.sent(1, 200);
        assert_eq!(flow.answered(230), Some(30));
    }
}
