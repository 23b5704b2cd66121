// SPDX-License-Identifier: Apache-2.0
//! How many flows are overdue: after long overload these are billions, which cannot begin any more, only be counted.
//!
//! Templates in even turns repeat: in a round of as many blocks as there are slots until each template has had its weight (in
//! least whole numbers) of them, this worker has as many slots as that. Rounds of which all is due are counted at once, and
//! to each template go as many of the worker's slots as is its weight: that is what they are in all workers together, while which
//! of them are one worker's is drawn. Turns that are drawn themselves do not repeat; they are counted one by one.
use num_integer::gcd;

use super::{FlowSchedule, Line, turns::Turns};

/// Rounds of more slots than this are counted one by one.
const MAX_ROUND: u64 = 1 << 20;

impl FlowSchedule {
    /// Passes all that is due before an instant, as if it had been taken, and reports how many of which template that is; a template
    /// may be reported several times.
    pub fn count(&mut self, before_ns: u64, mut overdue: impl FnMut(usize, u64)) {
        loop {
            self.pass_rounds(before_ns, &mut overdue);
            let Some(arrival) = self.take(before_ns) else { return };
            overdue(arrival.template, 1);
        }
    }

    /// Passes whole rounds that are due, if a round begins here.
    fn pass_rounds(&mut self, before_ns: u64, overdue: &mut impl FnMut(usize, u64)) {
        let Some((round, divisor)) = self.round().filter(|(round, _)| self.block.is_multiple_of(*round)) else {
            return;
        };
        let slots = round.saturating_mul(self.share.workers);
        let first = self.block * self.share.workers;
        let most = self.rounds_within_limits(divisor);
        let due = |rounds: u64| {
            let behind = rounds.checked_mul(slots).and_then(|slots| slots.checked_add(first));
            behind.is_some_and(|behind| self.is_due(behind, before_ns))
        };
        let rounds = largest(most, due);
        if rounds == 0 {
            return;
        }
        for template in 0..self.weights.len() {
            let weight = self.weight(template) / divisor;
            let (started, limit) = (self.started[template], self.limits[template]);
            if weight > 0 && (limit == 0 || started < limit) {
                overdue(template, rounds * weight);
            }
            self.started[template] += rounds * self.share.workers * weight;
        }
        self.turns.pass(rounds * self.share.workers, divisor);
        self.passed += rounds * slots;
        self.block += rounds * round;
        self.line_before = self.line.at((self.block - 1) * self.share.workers);
        (self.line.ticks, self.line.rest) = self.line.at(self.block * self.share.workers);
        self.aim();
    }

    /// Blocks of a round, and by what weights are divided to be the slots of each template in as many slots; none if turns do not
    /// repeat, or too late.
    fn round(&self) -> Option<(u64, u64)> {
        if self.open == 0 {
            return None;
        }
        match self.turns {
            Turns::One(template) => Some((1, self.weights[template])),
            Turns::Even(_) => {
                let divisor = self.weights.iter().fold(0, |divisor, weight| gcd(divisor, *weight));
                let round = self.weights.iter().sum::<u64>() / divisor;
                (round <= MAX_ROUND).then_some((round, divisor))
            }
            Turns::Drawn(_) => None,
        }
    }

    /// Weight of a template that has turns.
    fn weight(&self, template: usize) -> u64 {
        match self.turns {
            Turns::One(only) if only != template => 0,
            _ => self.weights[template],
        }
    }

    /// Number of rounds that bring no template to its limit.
    fn rounds_within_limits(&self, divisor: u64) -> u64 {
        let within = |template: usize| {
            let (started, limit) = (self.started[template], self.limits[template]);
            let weight = self.weight(template) / divisor;
            let left = limit.checked_sub(started + 1).filter(|_| limit > 0 && weight > 0)?;
            Some(left / (weight * self.share.workers))
        };
        (0..self.weights.len()).filter_map(within).min().unwrap_or(u64::MAX)
    }

    /// Whether a slot of this schedule, of any worker, is due before an instant.
    fn is_due(&self, slot: u64, before_ns: u64) -> bool {
        let ticks = self.due_ticks_after(slot, self.line.at(slot).0);
        let in_row = self.later.front().is_none_or(|(from, _)| ticks < *from);
        in_row && self.clock.due_ns(ticks).is_some_and(|due| due < before_ns)
    }
}

/// The largest number up to `most` for which something holds that holds for all smaller ones; 0 if it does not for 1.
fn largest(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut yes, mut no) = (0u64, 1u64);
    while no <= most && holds(no) {
        yes = no;
        let Some(double) = no.checked_mul(2) else { break };
        no = double;
    }
    no = no.min(most.saturating_add(1));
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if holds(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}

impl Line {
    /// When a slot is due at full rates: ticks, and what rounding left, of `sum`.
    fn at(&self, slot: u64) -> (u128, u128) {
        let Some((ticks, rest)) = self.later.get(1) else { return (0, 0) };
        let rests = u128::from(slot) * rest;
        (ticks.saturating_mul(slot.into()).saturating_add(rests / self.sum), rests % self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Ratio,
        arrivals::{Order, Timing},
        tuples::Share,
    };
    use proptest::prelude::*;

    /// Overdue flows of each worker, of each template, as `count` returns it until an instant.
    fn overdue_by(
        count: impl Fn(&mut FlowSchedule, u64, &mut [u64]),
        timings: &[Timing],
        order: Order,
        workers: u64,
        ramp_ns: u64,
        taken: usize,
        end_ns: u64,
    ) -> Vec<Vec<u64>> {
        let one = |worker| {
            let mut arrivals = FlowSchedule::new(timings, order, Share { worker, workers }, 5, ramp_ns).expect("rates");
            // Workers are behind by different numbers.
            for _ in 0..taken * worker as usize {
                arrivals.take(end_ns);
            }
            let mut overdue = vec![0; timings.len()];
            count(&mut arrivals, end_ns, &mut overdue);
            assert_eq!(arrivals.take(end_ns), None);
            overdue
        };
        (0..workers).map(one).collect()
    }

    fn in_rounds(arrivals: &mut FlowSchedule, end_ns: u64, overdue: &mut [u64]) {
        arrivals.count(end_ns, |template, more| overdue[template] += more);
    }

    fn one_by_one(arrivals: &mut FlowSchedule, end_ns: u64, overdue: &mut [u64]) {
        while let Some(arrival) = arrivals.take(end_ns) {
            overdue[arrival.template] += 1;
        }
    }

    fn sums(overdue: &[Vec<u64>]) -> Vec<u64> {
        (0..overdue[0].len()).map(|template| overdue.iter().map(|of| of[template]).sum()).collect()
    }

    #[test]
    fn billions_are_counted_at_once() {
        let start = std::time::Instant::now();
        for (rates, workers) in [(&[50_000_000][..], 3), (&[30_000_000, 5_000_000, 15_000_000][..], 4)] {
            let timings: Vec<_> = rates.iter().map(|rate| Timing { rate: Ratio::new(*rate, 1), limit: 0 }).collect();
            // 200 s and a little more, from 5 ns on.
            let overdue = overdue_by(in_rounds, &timings, Order::Even, workers, 0, 0, 200_000_000_006);
            let all = sums(&overdue);
            assert_eq!(all.iter().sum::<u64>(), 10_000_000_001, "{overdue:?}");
            for (overdue, rate) in all.iter().zip(rates) {
                assert!(overdue.abs_diff(200 * rate) <= 1, "{overdue} of {rate}");
            }
        }
        let limited = [Timing { rate: Ratio::new(50_000_000, 1), limit: 7_000_000_003 }];
        assert_eq!(sums(&overdue_by(in_rounds, &limited, Order::Even, 5, 0, 0, 200_000_000_006)), [7_000_000_003]);
        assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    }

    proptest! {
        #[test]
        fn it_is_what_would_be_taken(
            rates in prop::collection::vec((1u64..200, 1u64..4, prop_oneof![Just(0u64), 1u64..3000]), 1..5),
            drawn in any::<bool>(),
            workers in 1u64..5,
            taken in 0usize..40,
            ramp_ns in prop_oneof![Just(0u64), 1u64..3_000_000_000],
            end_ns in 0u64..8_000_000_000,
        ) {
            let timings: Vec<_> =
                rates.iter().map(|&(flows, seconds, limit)| Timing { rate: Ratio::new(flows, seconds), limit }).collect();
            let order = if drawn { Order::Drawn { seed: 9 } } else { Order::Even };
            let counted = overdue_by(in_rounds, &timings, order, workers, ramp_ns, taken, end_ns);
            let expected = overdue_by(one_by_one, &timings, order, workers, ramp_ns, taken, end_ns);
            let unlimited = timings.iter().all(|timing| timing.limit == 0);
            if workers == 1 || timings.len() == 1 || drawn {
                prop_assert_eq!(&counted, &expected);
            } else if unlimited {
                // Of each worker the right number, over all templates.
                let all = |overdue: &[Vec<u64>]| overdue.iter().map(|of| of.iter().sum::<u64>()).collect::<Vec<_>>();
                prop_assert_eq!(all(&counted), all(&expected));
            }
            if taken == 0 {
                prop_assert_eq!(sums(&counted), sums(&expected));
            }
        }
    }
}
