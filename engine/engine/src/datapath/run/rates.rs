// SPDX-License-Identifier: Apache-2.0
//! Rates of a run's streams and templates: the plan's, and what users have changed since. This is the only place that knows.
use spate_stateful::{Ratio, Scenario, Template, arrivals::TimingError};
use spate_stateless::Rate;

use crate::datapath::{Change, FlowChange, RunError};
use crate::index::{StreamIndex, TemplateIndex};

/// Rates of a run's streams and templates, as they are or would be after a change.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    streams: Vec<StreamRate>,
    /// Rates of templates, in the scenario's order.
    templates: Vec<TemplateRate>,
    /// The factor of all templates' rates at which time passes.
    factor: Option<Ratio>,
}

/// Factors of all rates of a run by the wall-clock instants at which they take effect, in order of the changes.
#[derive(Debug, Default)]
pub(super) struct Factors(Vec<(u64, Ratio)>);

/// The rate of one stream; of a replay, its speed.
#[derive(Clone, Copy, Debug)]
pub struct StreamRate {
    /// The plan's.
    base: Rate,
    /// The rate in force while the stream is neither paused nor disabled.
    rate: Rate,
    paused: bool,
    enabled: bool,
}

/// The rate at which flows of one template start.
#[derive(Clone, Copy, Debug)]
struct TemplateRate {
    /// The plan's.
    base: Ratio,
    /// Set since; none: the common factor of the plan's.
    own: Option<Ratio>,
    /// Whether the rate was set to 0.
    zero: bool,
    paused: bool,
    enabled: bool,
}

impl StreamRate {
    /// The plan's.
    pub(in crate::datapath) fn new(rate: Rate, enabled: bool, paused: bool) -> Self {
        Self { base: rate, rate, paused, enabled }
    }

    /// Packets, or the speed of a replay, if anything is sent.
    pub(in crate::datapath) fn in_force(&self) -> Option<Rate> {
        (self.enabled && !self.paused).then_some(self.rate)
    }

    /// The rate unless it is disabled, and the plan's. A paused stream may be resumed at any time.
    pub fn when_resumed(&self) -> Option<(Rate, Rate)> {
        self.enabled.then_some((self.rate, self.base))
    }

    fn change(&mut self, change: Change) -> Result<(), RunError> {
        match change {
            Change::Rate(rate) => self.rate = rate,
            Change::Factor(factor) => self.rate = self.base.scaled(factor.numerator(), factor.denominator())?,
            Change::Paused(paused) => self.paused = paused,
            Change::Enabled(enabled) => self.enabled = enabled,
        }
        Ok(())
    }
}

impl TemplateRate {
    /// The plan's.
    fn of(template: &Template) -> Self {
        let base = template.client.as_ref().map_or(Ratio::ZERO, |client| client.rate);
        Self { base, own: None, zero: false, paused: false, enabled: true }
    }

    fn change(&mut self, change: FlowChange) -> Result<(), TimingError> {
        match change {
            FlowChange::Rate(rate) => self.own = Some(rate),
            FlowChange::Factor(factor) => {
                self.own = Some(self.base.checked_mul(factor).ok_or(TimingError::TooFine(0))?)
            }
            FlowChange::Paused(paused) => self.paused = paused,
            FlowChange::Enabled(enabled) => self.enabled = enabled,
        }
        self.note_zero(change);
        Ok(())
    }

    fn note_zero(&mut self, change: FlowChange) {
        if let FlowChange::Rate(of) | FlowChange::Factor(of) = change {
            self.zero = of.is_zero();
        }
    }

    /// The rate as it is where time passes at a factor.
    fn where_time_passes_at(&self, factor: Ratio) -> Result<Ratio, TimingError> {
        match self.own {
            _ if self.paused || !self.enabled => Ok(Ratio::ZERO),
            None => Ok(self.base),
            Some(own) => own.checked_div(factor).ok_or(TimingError::TooFine(0)),
        }
    }
}

impl Factors {
    /// Adds one, and forgets those that another has replaced by now.
    pub(super) fn note(&mut self, at_wall_ns: u64, factor: Ratio, now_wall_ns: u64) {
        self.0.push((at_wall_ns, factor));
        let replaced = self.0.iter().rposition(|(at, _)| *at <= now_wall_ns).unwrap_or(0);
        self.0.drain(..replaced);
    }

    /// The one in force at an instant.
    pub(super) fn at(&self, wall_ns: u64) -> Ratio {
        self.0.iter().rfind(|(at, _)| *at <= wall_ns).map_or(Ratio::ONE, |(_, factor)| *factor)
    }
}

impl Rates {
    /// The plan's.
    pub(in crate::datapath) fn new(streams: Vec<StreamRate>, scenario: Option<&Scenario>) -> Self {
        let templates = scenario.iter().flat_map(|scenario| &scenario.templates);
        Self { streams, templates: templates.map(TemplateRate::of).collect(), factor: None }
    }

    /// Rates of streams, in the order of `RunSpec::streams`.
    pub fn streams(&self) -> &[StreamRate] {
        &self.streams
    }

    /// By template, unless it is disabled: the fraction of the plan's rate. A paused template may be resumed at any time.
    pub fn template_factors(&self) -> impl Iterator<Item = Option<Ratio<u128>>> + '_ {
        let common = self.factor().wide();
        self.templates.iter().map(move |template| {
            let factor = match template.own {
                None => common,
                Some(own) => {
                    let (own, base) = (own.wide(), template.base.wide());
                    Ratio::new(own.numerator() * base.denominator(), own.denominator() * base.numerator().max(1))
                }
            };
            template.enabled.then_some(factor)
        })
    }

    /// By template: whether flows of it start.
    pub(super) fn begin(&self) -> impl Iterator<Item = bool> + '_ {
        self.templates.iter().map(|template| template.enabled && !template.paused && !template.zero)
    }

    /// The factor of all templates' rates at which time passes.
    pub(super) fn factor(&self) -> Ratio {
        self.factor.unwrap_or(Ratio::ONE)
    }

    /// By template: its rate where time passes at the common factor.
    pub(super) fn of_templates(&self) -> Result<Vec<Ratio>, TimingError> {
        self.templates.iter().map(|template| template.where_time_passes_at(self.factor())).collect()
    }

    /// The factor that changes set all of the plan's rates to, if they do.
    pub(super) fn factor_of_all(
        &self,
        flows: Option<(Option<&[TemplateIndex]>, FlowChange)>,
        streams: &[(Vec<StreamIndex>, Change)],
    ) -> Option<Ratio> {
        let of_streams = match streams {
            [] if self.streams.is_empty() => None,
            [(all, Change::Factor(factor))] if all.len() == self.streams.len() => Some(*factor),
            _ => return None,
        };
        match flows {
            None if self.templates.is_empty() => of_streams,
            Some((None, FlowChange::Factor(factor))) if of_streams.is_none_or(|other| other == factor) => Some(factor),
            _ => None,
        }
    }

    /// What they are after a change of templates (none given: of all) and of streams.
    ///
    /// # Errors
    /// If there is no such stream, or a rate is no fraction of 64-bit numbers.
    pub(super) fn after(
        &self,
        flows: Option<(Option<&[TemplateIndex]>, FlowChange)>,
        streams: &[(Vec<StreamIndex>, Change)],
    ) -> Result<Self, RunError> {
        let mut next = self.clone();
        match flows {
            Some((None, change @ FlowChange::Factor(factor))) => {
                next.factor = Some(factor);
                for template in &mut next.templates {
                    template.own = None;
                    template.note_zero(change);
                }
            }
            Some((None, change)) => next.templates.iter_mut().try_for_each(|template| template.change(change))?,
            Some((Some(some), change)) => some.iter().try_for_each(|index| next.templates[index.0].change(change))?,
            None => {}
        }
        for (some, change) in streams {
            for &index in some {
                next.streams.get_mut(index.0).ok_or(RunError::UnknownStream(index))?.change(*change)?;
            }
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_those_in_force_and_to_come_however_many_there_were() {
        let mut factors = Factors::default();
        assert_eq!(factors.at(0), Ratio::ONE);
        for second in 0..1000 {
            factors.note(second + 2, Ratio::new(second, 1), second);
            assert!(factors.0.len() <= 3, "{factors:?}");
        }
        // At 999 s the one of that second is in force.
        assert_eq!(factors.0, [(999, Ratio::new(997, 1)), (1000, Ratio::new(998, 1)), (1001, Ratio::new(999, 1))]);
        assert_eq!(
            (factors.at(999), factors.at(1000), factors.at(5000)),
            (Ratio::new(997, 1), Ratio::new(998, 1), Ratio::new(999, 1))
        );
    }

    #[test]
    fn a_factor_is_of_all_if_every_stream_and_template_has_it() {
        let stream = StreamRate::new(Rate::new(1, 1).unwrap(), true, false);
        let rates = Rates { streams: vec![stream; 2], ..Rates::default() };
        let both = vec![StreamIndex(0), StreamIndex(1)];
        let half = Change::Factor(Ratio::new(1, 2));
        assert_eq!(rates.factor_of_all(None, &[(both.clone(), half)]), Some(Ratio::new(1, 2)));
        assert_eq!(rates.factor_of_all(None, &[(vec![StreamIndex(1)], half)]), None);
        assert_eq!(rates.factor_of_all(None, &[(both.clone(), Change::Paused(true))]), None);

        let template = TemplateRate { base: Ratio::ONE, own: None, zero: false, paused: false, enabled: true };
        let flows = Some((None, FlowChange::Factor(Ratio::new(1, 2))));
        let with_templates = Rates { templates: vec![template], ..rates };
        assert_eq!(with_templates.factor_of_all(flows, &[(both.clone(), half)]), Some(Ratio::new(1, 2)));
        assert_eq!(with_templates.factor_of_all(None, &[(both, half)]), None);
        assert_eq!(with_templates.factor_of_all(flows, &[]), None);
        let alone = Rates { streams: Vec::new(), ..with_templates };
        assert_eq!(alone.factor_of_all(flows, &[]), Some(Ratio::new(1, 2)));
    }
}
