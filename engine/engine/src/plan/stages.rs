// SPDX-License-Identifier: Apache-2.0
//! Stages: parts of a run's measured phase that differ in their rates, as changes of the rate factor at instants of the run.
use super::Violations;
use super::rate;
use contract::{Plan, Ratio, Stage};
use spate_stateful::FieldPath;
use spate_stateless::Rate;
use std::collections::VecDeque;

/// Maximum of a plan.
pub const MAX_STAGES: usize = 64;
/// Length of a ramp's steps, and maximum of their number: longer ramps have longer steps.
const STEP_NS: u64 = 100_000_000;
const MAX_STEPS: u64 = 600;
/// Factors within a ramp are whole multiples of 1 divided by this.
const RAMP_PARTS: u128 = 1_000_000;

/// The rate factor from an instant on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The instant, from the run's start, warm-up included.
    pub at_ns: u64,
    /// The factor of the plan's rates.
    pub factor: Ratio,
}

/// When rates change, and stages end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// In order of time; the first is of the start.
    pub steps: Vec<Step>,
    /// Beginning of the first stage, from the run's start.
    pub begins_ns: u64,
    /// Ends of the stages, from the run's start.
    pub ends_ns: Vec<u64>,
}

impl Schedule {
    /// The schedule of a valid plan; none if it has no stages.
    pub fn of(plan: &Plan) -> Option<Self> {
        let timing = plan.timing.as_ref().filter(|timing| !timing.stages.is_empty())?;
        let mut schedule = Self { begins_ns: timing.warmup_ns, ..Self::default() };
        let mut at_ns = timing.warmup_ns;
        let mut before = Ratio { numerator: 0, denominator: 1 };
        for stage in &timing.stages {
            let to = stage.rate_factor.unwrap_or_default();
            let steps = stage.ramp_ns.div_ceil(STEP_NS).min(MAX_STEPS);
            let begin = |step: u64| (u128::from(stage.ramp_ns) * u128::from(step) / u128::from(steps)) as u64;
            for step in 0..steps {
                let factor = midway(before, to, 2 * step + 1, 2 * steps);
                schedule.steps.push(Step { at_ns: at_ns + begin(step), factor });
            }
            if schedule.steps.last().is_none_or(|step| step.factor != to) {
                schedule.steps.push(Step { at_ns: at_ns + stage.ramp_ns, factor: to });
            }
            at_ns += stage.duration_ns;
            schedule.ends_ns.push(at_ns);
            before = to;
        }
        schedule.steps[0].at_ns = 0;
        Some(schedule)
    }

    /// The beginning of the first stage and the ends of all but the last, which ends with the run.
    pub fn marks(&self) -> VecDeque<u64> {
        let inner = self.ends_ns.len().saturating_sub(1);
        std::iter::once(&self.begins_ns).chain(&self.ends_ns[..inner]).copied().collect()
    }
}

/// The factor at `part` of `parts` on the way: that of the middle of a step, whose packets are then those of the linear ramp.
fn midway(from: Ratio, to: Ratio, part: u64, parts: u64) -> Ratio {
    let scaled = |factor: Ratio| u128::from(factor.numerator) * RAMP_PARTS / u128::from(factor.denominator.max(1));
    let (part, parts) = (u128::from(part), u128::from(parts));
    let sum = scaled(from) * (parts - part) + scaled(to) * part;
    Ratio { numerator: (sum / parts).max(1) as u64, denominator: RAMP_PARTS as u64 }
}

/// Adds what is wrong with the stages of a plan.
pub fn validate(plan: &Plan, wrong: &mut Violations) {
    let Some(timing) = plan.timing.as_ref().filter(|timing| !timing.stages.is_empty()) else { return };
    let stages = &timing.stages;
    if stages.len() > MAX_STAGES {
        wrong.add("timing.stages", format!("{} of them; must be at most {MAX_STAGES}", stages.len()));
    }
    if plan.trials.is_some() {
        wrong.add("timing.stages", "trials are whole runs of one rate each; use either");
    }
    let sum: u128 = stages.iter().map(|stage| u128::from(stage.duration_ns)).sum();
    if sum != u128::from(timing.duration_ns) {
        let problem = format!("{}; must be {sum}, the sum of the stages' durations", timing.duration_ns);
        wrong.add("timing.duration_ns", problem);
    }
    for (i, stage) in stages.iter().enumerate() {
        validate_stage(&FieldPath::from("timing.stages").index(i), stage, wrong);
    }
}

fn validate_stage(path: &FieldPath, stage: &Stage, wrong: &mut Violations) {
    if stage.duration_ns == 0 {
        wrong.add(path.field("duration_ns"), "0; must be greater");
    }
    if stage.ramp_ns > stage.duration_ns {
        let problem = format!("{}; must be at most duration_ns, {}", stage.ramp_ns, stage.duration_ns);
        wrong.add(path.field("ramp_ns"), problem);
    }
    let field = path.field("rate_factor");
    match &stage.rate_factor {
        None => wrong.add(field, "missing; set a fraction of the plan's rates"),
        Some(factor) => match rate::positive(factor) {
            Err(error) => wrong.add(field, error.to_string()),
            Ok(factor) if factor.numerator() > factor.denominator() => {
                wrong.add(field, "greater than 1; the plan's rates are the greatest of all stages");
            }
            Ok(_) => {}
        },
    }
}

/// Adds stages whose rates are no fractions of 64-bit numbers for a stream of this rate.
pub fn validate_rates(plan: &Plan, rates: impl Iterator<Item = Rate> + Clone, wrong: &mut Violations) {
    for (i, stage) in plan.timing.iter().flat_map(|timing| &timing.stages).enumerate() {
        let ramp = Ratio { numerator: RAMP_PARTS as u64 - 1, denominator: RAMP_PARTS as u64 };
        let factors = stage.rate_factor.into_iter().chain((stage.ramp_ns > 0).then_some(ramp));
        for factor in factors {
            if let Some(error) = rates.clone().find_map(|r| r.scaled(factor.numerator, factor.denominator).err()) {
                wrong.add(FieldPath::from("timing.stages").index(i).field("rate_factor"), error.to_string());
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::Timing;

    fn ratio(numerator: u64, denominator: u64) -> Ratio {
        Ratio { numerator, denominator }
    }

    fn plan(stages: &[(u64, (u64, u64), u64)]) -> Plan {
        let stage = |&(ms, factor, ramp_ms): &(u64, (u64, u64), u64)| Stage {
            duration_ns: ms * 1_000_000,
            rate_factor: Some(ratio(factor.0, factor.1)),
            ramp_ns: ramp_ms * 1_000_000,
        };
        let duration_ns = stages.iter().map(|stage| stage.0 * 1_000_000).sum();
        let timing = Timing {
            warmup_ns: 1_000_000_000,
            duration_ns,
            stages: stages.iter().map(stage).collect(),
            ..Timing::default()
        };
        Plan { timing: Some(timing), ..Plan::default() }
    }

    /// Packets of the steps up to the end of the first `ms` of the measured phase, per packet a second at a factor of 1, in millionths.
    fn area(schedule: &Schedule, ms: u64) -> u64 {
        let end = 1_000_000_000 + ms * 1_000_000;
        let ends = schedule.steps.iter().skip(1).map(|step| step.at_ns).chain([end]);
        let part = |(step, until): (&Step, u64)| {
            let ns = until.min(end).saturating_sub(step.at_ns.max(1_000_000_000));
            u128::from(ns) * u128::from(step.factor.numerator) / u128::from(step.factor.denominator)
        };
        (schedule.steps.iter().zip(ends).map(part).sum::<u128>() / 1000) as u64
    }

    #[test]
    fn a_ramp_sends_what_the_line_between_its_ends_does() {
        let schedule = Schedule::of(&plan(&[(1000, (1, 2), 0), (2000, (1, 1), 1000), (500, (1, 4), 200)])).unwrap();
        assert_eq!(schedule.ends_ns, [2_000_000_000, 4_000_000_000, 4_500_000_000]);
        assert_eq!(schedule.steps[0], Step { at_ns: 0, factor: ratio(1, 2) });
        assert_eq!(schedule.steps[1], Step { at_ns: 2_000_000_000, factor: ratio(525_000, 1_000_000) });
        assert_eq!(schedule.steps.len(), 1 + 11 + 3);
        assert_eq!(area(&schedule, 1000), 500_000);
        assert_eq!(area(&schedule, 2000), 1_250_000);
        assert_eq!(area(&schedule, 3000), 2_250_000);
        assert_eq!(area(&schedule, 3200), 2_375_000);
    }

    #[test]
    fn the_first_ramp_begins_at_nothing_and_long_ones_have_600_steps() {
        let schedule = Schedule::of(&plan(&[(3_600_000, (1, 1), 3_600_000)])).unwrap();
        assert_eq!(schedule.steps.len(), 601);
        assert_eq!(schedule.steps[0], Step { at_ns: 0, factor: ratio(833, 1_000_000) });
        assert_eq!(schedule.steps[1].at_ns, 7_000_000_000);
    }

    #[test]
    fn stages_that_cannot_be_are_refused_at_their_fields() {
        for (stages, field, problem) in [
            (&[(0, (1, 1), 0)][..], "timing.stages[0].duration_ns", "0"),
            (&[(5, (1, 1), 6)], "timing.stages[0].ramp_ns", "at most duration_ns"),
            (&[(5, (1, 1), 0), (5, (3, 2), 0)], "timing.stages[1].rate_factor", "greater than 1"),
            (&[(5, (0, 1), 0)], "timing.stages[0].rate_factor", "is 0"),
            (&[(5, (1, 0), 0)], "timing.stages[0].rate_factor", "denominator is 0"),
            (&[(5, (1, 1), 0); 65], "timing.stages", "at most 64"),
        ] {
            let mut wrong = Violations::default();
            validate(&plan(stages), &mut wrong);
            assert!(
                wrong.0.iter().any(|w| w.field.to_string() == field && w.description.contains(problem)),
                "{field}: {wrong:?}"
            );
        }
        let mut other = plan(&[(5, (1, 1), 0)]);
        other.timing.as_mut().unwrap().duration_ns = 7;
        let mut wrong = Violations::default();
        validate(&other, &mut wrong);
        assert_eq!(wrong.0[0].field, "timing.duration_ns".into());
        let mut wrong = Violations::default();
        let fine = Rate::new(u128::from(u64::MAX), u128::from(u64::MAX) - 1).unwrap();
        validate_rates(&plan(&[(5, (1, 7), 0)]), [fine].into_iter(), &mut wrong);
        assert_eq!(wrong.0[0].field, FieldPath::from("timing.stages").index(0).field("rate_factor"));
    }
}
