// SPDX-License-Identifier: Apache-2.0
//! When the flows of templates start, for one worker.
//!
//! The templates of a set have one schedule of *slots*, at the sum of their rates: slot s, s = 0, 1, 2, ..., is due s / sum
//! seconds after the start. An order assigns each slot to a template ([`Order`]); a template's k-th slot is its flow k. So 6
//! templates of one flow a second each begin one every sixth of a second, and 10 and 2 flows a second make one every
//! twelfth, two of twelve the second's. A template that has come to its limit leaves its slots empty; the others' rates stay.
//! (TRex spaces and draws them in the same way.)
//!
//! Of every W slots each of W workers takes one: the w-th, and if there are several templates one that changes from W to W,
//! so that no worker has one template's flows alone where they take turns.
//! While rates ramp up over a time T, the sum at t < T is t / T of the full one: slot s is due at sqrt(2 s T / sum), and
//! from T on half of T later than without. They can also rise by steps. All is integer arithmetic on exact fractions, rounded
//! down to nanoseconds; all workers of all engines find the same.
//!
//! Rates of templates can change: from then on there is another schedule. Its slot 0 is due at the change, as far along the ramp as
//! time is then, and the numbers of flows go on.
//!
//! If there are several templates, a worker looks at all slots, also those of others, to count flows: O(log templates) each.
mod overdue;
mod steps;
mod turns;

use std::collections::VecDeque;

use crate::{FieldPath, Ratio, random::mix, tuples::Share};
use steps::Steps;
pub use turns::Order;
use turns::Turns;

/// Rate and limit of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Flows a second over all workers; 0: none begin.
    pub rate: Ratio,
    /// No more flows than this over all workers; 0: no limit.
    pub limit: u64,
}

/// A flow that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueFlow {
    /// When the flow is due, on the clock of the start.
    pub due_ns: u64,
    /// Index in the set.
    pub template: usize,
    /// Which of the template's flows it is, over all workers.
    pub number: u64,
}

/// Why there is no such set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// Rate of this template, or the sum of rates up to it.
    #[error("needs more than 64 bits together with those before; use rounder rates")]
    TooFine(usize),
    /// Times on the way up cannot be computed.
    #[error("is too long for rates with this many digits; shorten it, or use rounder rates")]
    RampUp,
}

impl TimingError {
    /// Path of the field in the scenario.
    pub fn field(&self) -> FieldPath {
        match self {
            Self::TooFine(template) => FieldPath::from("templates").index(*template).field("flows_per_second"),
            Self::RampUp => "ramp_up_ns".into(),
        }
    }
}

/// How rates rise from 0 at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RampUp {
    /// Over this time; 0: they are full from the start on.
    pub ns: u64,
    /// Time of a step; 0: rates rise linearly.
    pub step_ns: u64,
}

impl From<u64> for RampUp {
    fn from(ns: u64) -> Self {
        Self { ns, step_ns: 0 }
    }
}

/// A worker's flows of a set of templates.
#[derive(Clone, Debug)]
pub struct FlowSchedule {
    share: Share,
    /// How many times W slots are behind.
    block: u64,
    /// This worker's next.
    slot: u64,
    /// Slots before this one are counted.
    passed: u64,
    turns: Turns,
    /// Flows started of each template, in slots before `passed`.
    started: Box<[u64]>,
    limits: Box<[u64]>,
    weights: Box<[u64]>,
    /// Templates that are not at their limit.
    open: usize,
    line: Line,
    /// Where the block before begins.
    line_before: (u128, u128),
    ramp: Option<Ramp>,
    clock: Clock,
    /// The clock's ticks at which the schedule begins.
    from: u128,
    /// Rows to come, and when they begin.
    later: VecDeque<(u128, Box<Self>)>,
    /// Rows that are over: a thread that may free memory takes them.
    over: VecDeque<Box<Self>>,
}

/// Rows to come, or over, for which there is room without more memory.
const MAX_SCHEDULES: usize = 64;

/// Bits of a nanosecond's fractions.
const FRACTION: u32 = 16;
const SECOND: u128 = 1_000_000_000;

/// When slots are due at full rates from the start on: `ticks + rest / sum`, in ticks of 2^-16 ns.
#[derive(Clone, Debug)]
struct Line {
    /// The block's first.
    ticks: u128,
    rest: u128,
    /// How much later those of 0, 1, ..., W slots on are.
    later: Box<[(u128, u128)]>,
    sum: u128,
}

/// The way up.
#[derive(Clone, Copy, Debug)]
enum Ramp {
    Even(Slope),
    Stepped(Steps),
}

/// The time of a ramp on which rates rise linearly.
#[derive(Clone, Copy, Debug)]
struct Slope {
    ns: u128,
    /// `2 * ns / rate` in ns squared: slot s is due at the root of s times this fraction and the square of the schedule's begin.
    square: Ratio<u128>,
    /// No more slots begin on it.
    slots: u64,
}

/// The clock by which slots are due, and which can be made faster and slower.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// Since then...
    since_ns: u64,
    /// ...when it was so late...
    ticks: u128,
    /// ...it has gone by this fraction of the given rates.
    factor: Ratio,
}

impl FlowSchedule {
    /// Of templates, by a clock that starts at `start_ns`; rates rise from 0 over the ramp-up.
    ///
    /// # Errors
    /// If the arithmetic would not be exact.
    pub fn new(
        timings: &[Timing],
        order: Order,
        share: Share,
        start_ns: u64,
        ramp_up: impl Into<RampUp>,
    ) -> Result<Self, TimingError> {
        let (weights, seconds) = weights(timings)?;
        let sum = weights.iter().sum::<u64>();
        let rate = Ratio::new(sum, seconds);
        let line = Line::new(rate, share).ok_or(TimingError::TooFine(timings.len().saturating_sub(1)))?;
        let ramp_up = ramp_up.into();
        let ramp = (sum > 0 && ramp_up.ns > 0).then(|| Ramp::new(rate, ramp_up));
        let mut this = Self {
            share,
            block: 0,
            slot: 0,
            passed: 0,
            turns: Turns::new(order, &weights),
            started: vec![0; timings.len()].into(),
            limits: timings.iter().map(|timing| timing.limit).collect(),
            open: weights.iter().filter(|weight| **weight > 0).count(),
            weights: weights.into(),
            line_before: (line.ticks, line.rest),
            line,
            ramp: ramp.transpose()?,
            clock: Clock { since_ns: start_ns, ticks: 0, factor: Ratio::ONE },
            from: 0,
            later: VecDeque::with_capacity(MAX_SCHEDULES),
            over: VecDeque::with_capacity(MAX_SCHEDULES),
        };
        this.aim();
        Ok(this)
    }

    /// The clock starts at another instant. Nothing is taken yet.
    pub fn start(&mut self, start_ns: u64) {
        self.clock.since_ns = start_ns;
    }

    /// When this worker's next slot is due, even if nothing begins in it. None: nothing will begin as things are.
    #[inline]
    pub fn next_due_ns(&self) -> Option<u64> {
        let own = if self.open == 0 { None } else { Some(self.due_ticks(self.slot)) };
        // The next schedule's first slot, be it another worker's.
        let next = match self.later.front() {
            Some((from, _)) => Some(own.map_or(*from, |own| own.min(*from))),
            None => own,
        };
        self.clock.due_ns(next?)
    }

    /// Takes the next flow that is due before an instant. A late caller gets all that is due, one by one.
    #[inline]
    pub fn take(&mut self, before_ns: u64) -> Option<DueFlow> {
        loop {
            let due_ns = self.next_due_ns().filter(|due| *due < before_ns)?;
            if !self.later.is_empty() && self.go_on() {
                continue;
            }
            // A worker that has all slots passes none.
            if self.slot > self.passed {
                self.walk(self.slot - self.passed);
            }
            if self.open == 0 {
                continue;
            }
            let (template, number) = self.turn();
            self.passed = self.slot + 1;
            self.block += 1;
            if let Some(Ramp::Stepped(steps)) = &mut self.ramp {
                steps.pass((self.block - 1) * self.share.workers);
            }
            self.line_before = (self.line.ticks, self.line.rest);
            self.line.advance();
            self.aim();
            let limit = self.limits[template];
            if limit == 0 || number < limit {
                return Some(DueFlow { due_ns, template, number });
            }
        }
    }

    /// From an instant on rates are this fraction of the given ones (0: a pause). Between slots the part that has
    /// passed is kept. What was due before and is not taken stays due, at the change at the latest. A ramp goes on at that
    /// fraction of its speed.
    pub fn change(&mut self, at_ns: u64, factor: Ratio) {
        self.clock = Clock { since_ns: at_ns.max(self.clock.since_ns), ticks: self.clock.ticks_at(at_ns), factor };
    }

    /// From an instant on the schedule is another, made for the same templates, limits, order, share and ramp with other rates.
    pub fn change_rates(&mut self, at_ns: u64, flow_schedule: Box<Self>) {
        self.later.push_back((self.clock.ticks_at(at_ns), flow_schedule));
    }

    /// Whether no flow of a template becomes due as things are, because its rate is 0.
    pub fn stands(&self, template: usize) -> bool {
        self.clock.factor.is_zero() || self.weights[template] == 0
    }

    /// A schedule that is over, to be freed.
    pub fn over(&mut self) -> Option<Box<Self>> {
        self.over.pop_front()
    }

    /// Goes on with the next schedule if all slots of this one that are due before it are taken. Returns whether it did.
    fn go_on(&mut self) -> bool {
        let Some((from, _)) = self.later.front() else { return false };
        let from = *from;
        if self.open > 0 && self.due_ticks(self.slot) < from {
            return false;
        }
        while self.open > 0 && self.passed < self.slot && self.due_ticks(self.passed) < from {
            self.walk(1);
        }
        let Some((_, mut next)) = self.later.pop_front() else { return false };
        next.started.copy_from_slice(&self.started);
        let rated = next.weights.iter().zip(&next.started).zip(&next.limits);
        next.open =
            rated.filter(|((weight, started), limit)| **weight > 0 && (**limit == 0 || started < limit)).count();
        (next.clock, next.from) = (self.clock, from);
        if let Some(Ramp::Stepped(steps)) = &mut next.ramp {
            steps.begin(from);
        }
        core::mem::swap(&mut next.later, &mut self.later);
        core::mem::swap(&mut next.over, &mut self.over);
        core::mem::swap(self, &mut next);
        self.over.push_back(next);
        true
    }

    /// The template of the next slot, and which of its flows starts in it.
    #[inline]
    fn turn(&mut self) -> (usize, u64) {
        let template = self.turns.next();
        let number = self.started[template];
        self.started[template] += 1;
        self.open -= usize::from(number + 1 == self.limits[template]);
        (template, number)
    }

    /// Finds this worker's slot of the block.
    #[inline]
    fn aim(&mut self) {
        let Share { worker, workers } = self.share;
        let turned = match self.turns {
            Turns::One(_) => worker,
            _ => (worker + mix(self.block) % workers) % workers,
        };
        self.slot = self.block * workers + turned;
    }

    /// Passes other workers' slots.
    #[inline]
    fn walk(&mut self, slots: u64) {
        self.passed += slots;
        if self.open == 0 {
            // Nothing is counted any more.
        } else if let Turns::One(template) = self.turns {
            let (started, limit) = (&mut self.started[template], self.limits[template]);
            self.open -= usize::from(*started < limit && limit <= *started + slots);
            *started += slots;
        } else {
            for _ in 0..slots {
                self.turn();
            }
        }
    }

    /// When a slot is due that is of this block, or of the one before.
    #[inline]
    fn due_ticks(&self, slot: u64) -> u128 {
        let first = self.block * self.share.workers;
        let full = match slot.checked_sub(first) {
            Some(0) => self.line.ticks,
            Some(ahead) => self.line.ticks_at((self.line.ticks, self.line.rest), ahead as usize),
            None => self.line.ticks_at(self.line_before, (slot + self.share.workers - first) as usize),
        };
        self.due_ticks_after(slot, full)
    }

    /// When a slot is due that is this many ticks after the first at full rates.
    #[inline]
    fn due_ticks_after(&self, slot: u64, full: u128) -> u128 {
        let ramp = match &self.ramp {
            None => return self.from + full,
            Some(Ramp::Stepped(steps)) => return steps.due_ticks(slot),
            Some(Ramp::Even(slope)) => slope,
        };
        let from_ns = self.from >> FRACTION;
        if from_ns >= ramp.ns {
            return self.from + full;
        }
        match ramp.due_ns(slot, from_ns) {
            Some(ns) => ns << FRACTION,
            None => full + (ramp.ns << FRACTION >> 1) + ((from_ns * from_ns / (2 * ramp.ns)) << FRACTION),
        }
    }
}

/// Rates as whole numbers of flows in a number of seconds.
fn weights(timings: &[Timing]) -> Result<(Vec<u64>, u64), TimingError> {
    let (mut weights, mut seconds, mut sum) = (Vec::<u64>::new(), 1u64, 0u64);
    for (index, Timing { rate, .. }) in timings.iter().enumerate() {
        let more = Ratio::new(rate.denominator(), seconds).numerator();
        let added = (|| {
            seconds = seconds.checked_mul(more)?;
            weights.iter_mut().for_each(|weight| *weight = weight.saturating_mul(more));
            let weight = rate.numerator().checked_mul(seconds / rate.denominator())?;
            weights.push(weight);
            sum = sum.checked_mul(more)?.checked_add(weight)?;
            Some(())
        })();
        added.ok_or(TimingError::TooFine(index))?;
    }
    Ok((weights, seconds))
}

impl Line {
    /// The line of slots at a rate; none if that exceeds 128 bits.
    fn new(rate: Ratio, share: Share) -> Option<Self> {
        if rate.is_zero() {
            return Some(Self { ticks: 0, rest: 0, later: [(0, 0)].into(), sum: 1 });
        }
        let rate = rate.wide();
        let (sum, each) = (rate.numerator(), (rate.denominator() * SECOND) << FRACTION);
        let after = |slots: u64| each.checked_mul(slots.into()).map(|all| (all / sum, all % sum));
        let later = (0..=share.workers).map(after).collect::<Option<_>>()?;
        Some(Self { ticks: 0, rest: 0, later, sum })
    }

    /// Advances to the next block.
    #[inline]
    fn advance(&mut self) {
        let block = self.later.len() - 1;
        self.ticks = self.ticks_at((self.ticks, self.rest), block);
        self.rest += self.later[block].1;
        if self.rest >= self.sum {
            self.rest -= self.sum;
        }
    }

    /// When this many slots from a block's first on are due, rounded down.
    #[inline]
    fn ticks_at(&self, (first, first_rest): (u128, u128), slots: usize) -> u128 {
        let (ticks, rest) = self.later[slots];
        first + ticks + u128::from(first_rest + rest >= self.sum)
    }
}

impl Ramp {
    fn new(rate: Ratio, up: RampUp) -> Result<Self, TimingError> {
        if up.step_ns == 0 {
            return Slope::new(rate, up.ns).map(Self::Even).ok_or(TimingError::RampUp);
        }
        Steps::new(rate, up.ns, up.step_ns).map(Self::Stepped).ok_or(TimingError::RampUp)
    }
}

impl Slope {
    fn new(rate: Ratio, ramp_up_ns: u64) -> Option<Self> {
        let (rate, ns) = (rate.wide(), u128::from(ramp_up_ns));
        let (sum, each) = (rate.numerator(), rate.denominator() * SECOND);
        // Slot s is before the end if s < sum * ns / (2 * each).
        let slots = u64::try_from(sum.checked_mul(ns)?.div_ceil(each.checked_mul(2)?)).ok()?;
        let square = Ratio::new(each.checked_mul(2)?.checked_mul(ns)?, sum);
        square.numerator().checked_mul(slots.into())?;
        Some(Self { ns, square, slots })
    }

    /// When a slot is due; none: the step is over before.
    fn due_ns(&self, slot: u64, from_ns: u128) -> Option<u128> {
        if slot >= self.slots {
            return None;
        }
        let square = self.square.numerator() * u128::from(slot) / self.square.denominator() + from_ns * from_ns;
        (square < self.ns * self.ns).then(|| square.isqrt())
    }
}

impl Clock {
    /// When it shows this many ticks; none if it is paused before, or that is beyond all time.
    #[inline]
    fn due_ns(&self, ticks: u128) -> Option<u64> {
        let ahead = ticks.saturating_sub(self.ticks);
        let ns = match self.factor {
            Ratio::ONE => ahead >> FRACTION,
            _ if ahead == 0 => 0,
            Ratio::ZERO => return None,
            factor => {
                let factor = factor.wide();
                ahead.checked_mul(factor.denominator())? / (factor.numerator() << FRACTION)
            }
        };
        self.since_ns.checked_add(u64::try_from(ns).ok()?)
    }

    fn ticks_at(&self, at_ns: u64) -> u128 {
        let passed = u128::from(at_ns.saturating_sub(self.since_ns)) << FRACTION;
        let factor = self.factor.wide();
        let (num, den) = (factor.numerator(), factor.denominator());
        // By parts, as the product may exceed 128 bits.
        self.ticks.saturating_add((passed / den).saturating_mul(num)).saturating_add(passed % den * num / den)
    }
}

#[cfg(test)]
mod tests;
