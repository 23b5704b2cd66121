// SPDX-License-Identifier: Apache-2.0
//! The stages of a simulated plan: rates change at their instants, and packets are counted by stage.
use crate::plan::stages::{Schedule, Step};
use contract::Ratio;
use spate_stateless::{Rate, RateError};
use std::collections::VecDeque;
use std::fmt::{self, Display};
use std::time::Duration;

/// Rates of streams from an instant of the run on.
pub struct Change {
    pub at_ns: u64,
    /// Of streams that a schedule sends, by index; the others have none.
    pub rates: Vec<(usize, Option<Rate>)>,
    /// Of captures, by index of the stream.
    pub speeds: Vec<(usize, Rate)>,
}

impl Change {
    /// All changes of a plan with stages. `rates` and `speeds` are those of the plan, as in a change.
    ///
    /// # Errors
    /// If a rate is no fraction of 64-bit numbers, which `stages::validate_rates` refuses.
    pub fn all(
        schedule: &Schedule,
        rates: &[(usize, Option<Rate>)],
        speeds: &[(usize, Rate)],
    ) -> Result<Vec<Self>, RateError> {
        let change = |step: &Step| {
            let scaled = |rate: &Rate| rate.scaled(step.factor.numerator, step.factor.denominator);
            let rate = |(stream, rate): &(usize, Option<Rate>)| Ok((*stream, rate.as_ref().map(scaled).transpose()?));
            let speed = |(stream, speed): &(usize, Rate)| Ok((*stream, scaled(speed)?));
            Ok(Self {
                at_ns: step.at_ns,
                rates: rates.iter().map(rate).collect::<Result<_, _>>()?,
                speeds: speeds.iter().map(speed).collect::<Result<_, _>>()?,
            })
        };
        schedule.steps.iter().map(change).collect()
    }
}

/// Instants at which a worker's flows begin at other rates, and those at which the flows of a stage have been established.
#[derive(Clone, Default)]
pub struct Turns {
    steps: VecDeque<Step>,
    /// The beginning of the first stage and the ends of all but the last, which ends with the simulation.
    marks: VecDeque<u64>,
}

impl Turns {
    pub fn of(schedule: &Schedule) -> Self {
        let inner = schedule.ends_ns.len().saturating_sub(1);
        let marks = std::iter::once(&schedule.begins_ns).chain(&schedule.ends_ns[..inner]).copied().collect();
        Self { steps: schedule.steps.iter().copied().collect(), marks }
    }

    /// The next instant; none if there is no more.
    pub fn next_ns(&self) -> Option<u64> {
        self.steps.front().map(|step| step.at_ns).into_iter().chain(self.marks.front().copied()).min()
    }

    /// Takes a change of rates that is due.
    pub fn step(&mut self, now_ns: u64) -> Option<(u64, Ratio)> {
        let step = self.steps.front().filter(|step| step.at_ns <= now_ns)?;
        let step = (step.at_ns, step.factor);
        self.steps.pop_front();
        Some(step)
    }

    /// Takes the beginning or end of a stage that has passed.
    pub fn mark(&mut self, now_ns: u64) -> bool {
        let passed = self.marks.front().is_some_and(|at_ns| *at_ns <= now_ns);
        if passed {
            self.marks.pop_front();
        }
        passed
    }
}

/// What was sent in each stage.
pub struct Counted<'a> {
    schedule: &'a Schedule,
    names: &'a [String],
    /// Packets of streams, by stage.
    sent: Vec<u64>,
    /// Flows that were established, by stage.
    flows: Vec<u64>,
}

impl<'a> Counted<'a> {
    /// Of a plan with these names of stages, or their numbers where names are missing.
    pub fn new(schedule: &'a Schedule, names: &'a [String]) -> Self {
        let stages = schedule.ends_ns.len();
        Self { schedule, names, sent: vec![0; stages], flows: vec![0; stages] }
    }

    /// A stream's packet left at an instant; one of the warm-up is of no stage.
    pub fn sent(&mut self, at_ns: u64) {
        let stage = self.schedule.ends_ns.partition_point(|end_ns| *end_ns <= at_ns);
        if let Some(packets) = self.sent.get_mut(stage).filter(|_| at_ns >= self.schedule.begins_ns) {
            *packets += 1;
        }
    }

    /// Flows that one worker had established at the beginning of the first stage and at the end of each. Where the simulation ended earlier,
    /// there are fewer.
    pub fn established(&mut self, flows: &[u64]) {
        for (sum, pair) in self.flows.iter_mut().zip(flows.windows(2)) {
            *sum += pair[1] - pair[0];
        }
    }
}

impl Display for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names =
            (0..self.sent.len()).map(|stage| self.names.get(stage).cloned().unwrap_or(format!("{}", stage + 1)));
        let names: Vec<_> = names.collect();
        let width = names.iter().map(String::len).chain([5]).max().unwrap_or_default();
        writeln!(f, "{:width$}  {:>10}  {:>12}  {:>10}", "STAGE", "DURATION", "TX", "FLOWS")?;
        let begins = std::iter::once(&self.schedule.begins_ns).chain(&self.schedule.ends_ns);
        let lengths = self.schedule.ends_ns.iter().zip(begins).map(|(end, begin)| Duration::from_nanos(end - begin));
        for (((name, length), packets), flows) in names.iter().zip(lengths).zip(&self.sent).zip(&self.flows) {
            let length = format!("{length:?}");
            writeln!(f, "{name:width$}  {length:>10}  {packets:>12}  {flows:>10}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule() -> Schedule {
        let step = |at_ns, numerator| Step { at_ns, factor: Ratio { numerator, denominator: 4 } };
        Schedule { steps: vec![step(0, 1), step(300, 4)], begins_ns: 100, ends_ns: vec![300, 700] }
    }

    #[test]
    fn packets_and_flows_are_counted_in_the_stage_in_which_they_are_sent() {
        let (schedule, names) = (schedule(), ["soak".to_owned()]);
        let mut counted = Counted::new(&schedule, &names);
        [0, 99, 100, 299, 300, 699].iter().for_each(|at_ns| counted.sent(*at_ns));
        counted.established(&[3, 5, 9]);
        counted.established(&[1, 2]);
        assert_eq!((&counted.sent[..], &counted.flows[..]), (&[2, 2][..], &[3, 4][..]));
        let printed = counted.to_string();
        let rows: Vec<Vec<_>> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1..], [["soak", "200ns", "2", "3"], ["2", "400ns", "2", "4"]]);
    }

    #[test]
    fn rates_change_by_the_fractions_of_the_stages() {
        let rate = |packets| Rate::packets_per_second(packets, 1).unwrap();
        let all = Change::all(&schedule(), &[(0, Some(rate(8))), (1, None)], &[(2, rate(40))]).unwrap();
        let found: Vec<_> = all.iter().map(|change| (change.at_ns, &change.rates[..], &change.speeds[..])).collect();
        let expected = [
            (0, &[(0, Some(rate(2))), (1, None)][..], &[(2, rate(10))][..]),
            (300, &[(0, Some(rate(8))), (1, None)][..], &[(2, rate(40))][..]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn turns_come_in_order_of_time() {
        let mut turns = Turns::of(&schedule());
        assert_eq!((turns.next_ns(), turns.mark(0), turns.step(0).map(|step| step.0)), (Some(0), false, Some(0)));
        assert_eq!((turns.next_ns(), turns.step(299), turns.mark(299)), (Some(100), None, true));
        assert_eq!(
            (turns.next_ns(), turns.mark(300), turns.step(300).map(|step| step.0)),
            (Some(300), true, Some(300))
        );
        assert_eq!((turns.next_ns(), turns.mark(u64::MAX)), (None, false));
    }
}
