// SPDX-License-Identifier: Apache-2.0
//! Rates at which flows of templates begin, as they are now.
use std::sync::{Arc, Mutex, PoisonError};

use num_integer::gcd;
use spate_stateful::{
    Emulation, Scenario, Template,
    arrivals::{Arrivals, TimingError},
    tuples::Share,
};

use crate::datapath::FlowChange;

/// Rates of templates as they are now.
#[derive(Debug)]
pub(in crate::datapath) struct FlowRates {
    /// By worker: its part of the scenario and its share of the flows.
    parts: Vec<Option<(Arc<Scenario>, Share)>>,
    now: Mutex<Rates>,
}

impl FlowRates {
    /// The plan's rates; `parts` are by worker.
    pub(in crate::datapath) fn new(scenario: &Scenario, parts: Vec<Option<(Arc<Scenario>, Share)>>) -> Self {
        Self { parts, now: Mutex::new(Rates::of(scenario)) }
    }

    /// Sends to each worker how flows of templates (none given: of all) start from now on. If that is impossible, nothing changes.
    pub(super) fn change(
        &self,
        templates: Option<&[usize]>,
        change: FlowChange,
        assign: impl Fn(usize, (u64, u64), Option<Box<Arrivals>>),
    ) -> Result<(), TimingError> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = now.clone();
        match (templates, change) {
            (None, FlowChange::Factor(factor)) => {
                next.factor = factor;
                next.templates.iter_mut().for_each(|template| template.own = None);
            }
            (None, change) => next.templates.iter_mut().try_for_each(|template| template.change(change))?,
            (Some(some), change) => some.iter().try_for_each(|&index| next.templates[index].change(change))?,
        }
        let (before, after) = (now.row_rates()?, next.row_rates()?);
        let row = |part: &Option<(Arc<Scenario>, Share)>| match part {
            Some((scenario, share)) if before != after => Emulation::row(scenario, &after, *share).map(Some),
            _ => Ok(None),
        };
        let rows = self.parts.iter().map(row).collect::<Result<Vec<_>, _>>()?;
        rows.into_iter().enumerate().for_each(|(worker, row)| assign(worker, next.factor, row));
        *now = next;
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct Rates {
    /// The fraction of all rates at which time passes.
    factor: (u64, u64),
    /// In the scenario's order.
    templates: Vec<FlowRateNow>,
}

/// The rate of one template.
#[derive(Clone, Copy, Debug)]
struct FlowRateNow {
    /// The plan's.
    base: (u64, u64),
    /// Set since; none: the fraction of the plan's.
    own: Option<(u64, u64)>,
    paused: bool,
    enabled: bool,
}

impl FlowRateNow {
    /// As it is when time passes at a fraction.
    fn row_rate(&self, factor: (u64, u64)) -> Result<(u64, u64), TimingError> {
        match self.own {
            _ if self.paused || !self.enabled => Ok((0, 1)),
            None => Ok(self.base),
            Some(own) => product(own, (factor.1, factor.0)),
        }
    }

    fn change(&mut self, change: FlowChange) -> Result<(), TimingError> {
        match change {
            FlowChange::Rate(rate) => self.own = Some(rate),
            FlowChange::Factor(factor) => self.own = Some(product(self.base, factor)?),
            FlowChange::Paused(paused) => self.paused = paused,
            FlowChange::Enabled(enabled) => self.enabled = enabled,
        }
        Ok(())
    }
}

impl Rates {
    /// The plan's.
    fn of(scenario: &Scenario) -> Self {
        let base = |template: &Template| template.client.as_ref().map_or((0, 1), |client| client.rate);
        let template = |t: &Template| FlowRateNow { base: base(t), own: None, paused: false, enabled: true };
        Self { factor: (1, 1), templates: scenario.templates.iter().map(template).collect() }
    }

    fn row_rates(&self) -> Result<Vec<(u64, u64)>, TimingError> {
        self.templates.iter().map(|template| template.row_rate(self.factor)).collect()
    }
}

/// The product of two fractions in lowest terms.
fn product(a: (u64, u64), b: (u64, u64)) -> Result<(u64, u64), TimingError> {
    let (numerator, denominator) = (u128::from(a.0) * u128::from(b.0), u128::from(a.1) * u128::from(b.1));
    let divisor = gcd(numerator, denominator).max(1);
    let part = |n: u128| u64::try_from(n / divisor).map_err(|_| TimingError::TooFine(0));
    Ok((part(numerator)?, part(denominator)?))
}
