// SPDX-License-Identifier: Apache-2.0
//! The stages of a simulated plan: the rates of each, and packets counted by stage.
use crate::datapath::{Rate, RateError, RateStep};
use crate::index::StreamIndex;
use crate::plan::stages::{Schedule, Step};
use spate_stateful::Ratio;
use std::fmt::{self, Display};
use std::time::Duration;

/// All changes of rates of a plan with stages. `rates` (of streams that a schedule sends) and `speeds` (of captures) are those of the
/// plan.
///
/// # Errors
/// If a rate is no fraction of 64-bit numbers, which `stages::validate_rates` refuses.
pub fn steps(
    schedule: &Schedule,
    rates: &[(StreamIndex, Option<Rate>)],
    speeds: &[(StreamIndex, Rate)],
) -> Result<Vec<RateStep>, RateError> {
    let change = |step: &Step| {
        let scaled = |rate: &Rate| rate.scaled(step.factor.numerator, step.factor.denominator);
        let rate = |(stream, rate): &(StreamIndex, Option<Rate>)| Ok((*stream, rate.as_ref().map(scaled).transpose()?));
        let speed = |(stream, speed): &(StreamIndex, Rate)| Ok((*stream, scaled(speed)?));
        Ok(RateStep {
            at_ns: step.at_ns,
            rates: rates.iter().map(rate).collect::<Result<_, _>>()?,
            speeds: speeds.iter().map(speed).collect::<Result<_, _>>()?,
            factor: Ratio::new(step.factor.numerator, step.factor.denominator),
        })
    };
    schedule.steps.iter().map(change).collect()
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
    /// Counts the stages of a plan by these names, or by number where a name is missing.
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
    use contract::Ratio;

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
        let [first, second, third] = [0, 1, 2].map(StreamIndex);
        let all = steps(&schedule(), &[(first, Some(rate(8))), (second, None)], &[(third, rate(40))]).unwrap();
        let found: Vec<_> = all.iter().map(|change| (change.at_ns, &change.rates[..], &change.speeds[..])).collect();
        let expected = [
            (0, &[(first, Some(rate(2))), (second, None)][..], &[(third, rate(10))][..]),
            (300, &[(first, Some(rate(8))), (second, None)][..], &[(third, rate(40))][..]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn flows_are_noted_at_the_beginning_of_the_first_stage_and_at_the_ends_of_all_but_the_last() {
        assert_eq!(schedule().marks(), [100, 300]);
    }
}
