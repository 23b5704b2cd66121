// SPDX-License-Identifier: Apache-2.0
//! Changes of a run's rates by its users: what is chosen, what it would ask of the ports, and what is in force since.
use std::collections::{BTreeMap, HashSet};

use contract::{Selector, update_request};
use spate_stateful::{FieldPath, Ratio};

use super::{Engine, Held, chosen, lock, refused_change};
use crate::control::status::Refusal;
use crate::datapath::{Change, FlowChange, Rate, RateError, Rates, RunError};
use crate::index::{PortIndex, StreamIndex, TemplateIndex};
use crate::plan::rate::{self, LineRate};
use crate::plan::{Violations, load, validate};

/// How far ahead a change of several streams "now" is set, so that one instant is right for all of them.
const CHANGE_LEAD_NS: u64 = 10_000_000;

impl Engine {
    /// Changes streams of a run at an instant (0: now); returns the instant it takes effect.
    pub fn update(
        &self,
        held: &Held,
        selector: &Selector,
        change: &update_request::Change,
        at_ns: u64,
    ) -> Result<u64, Refusal> {
        let (streams, templates) = self.choose(held, selector)?;
        if let update_request::Change::FlowsPerSecond(_) = change
            && let Some(servers) = templates.iter().map(|&i| &held.templates[i.0]).find(|t| t.client_port.is_empty())
        {
            let wrong =
                format!("template {:?} has no clients here, which alone have a rate; choose others", servers.name);
            return Err(Refusal::field("selector", wrong));
        }
        let flow_change = flow_change(change, &templates)?;
        // No other update comes in between.
        let _one_at_a_time = lock(&self.changing);
        let changes = self.changes(held, &streams, change)?;
        let flows = flow_change.map(|change| match change {
            FlowChange::Factor(_) if templates.len() == held.templates.len() => (None, change),
            change => (Some(&templates[..]), change),
        });
        let refused = |error: RunError| refused_change(&error, field_of(change));
        let next = held.run.rates_after(flows, &changes).map_err(refused)?;
        if may_ask_for_more(change) {
            self.check_capacity(held, &next, field_of(change))?;
        }
        let at = match (at_ns, changes.len() + usize::from(flow_change.is_some())) {
            (0, 0 | 1) => 0,
            (0, _) => self.now_ns() + CHANGE_LEAD_NS,
            (at, _) => at,
        };
        held.run.update_all(flows, &changes, at).map_err(refused)
    }

    /// The chosen streams, and the chosen templates.
    fn choose(&self, held: &Held, selector: &Selector) -> Result<(Vec<StreamIndex>, Vec<TemplateIndex>), Refusal> {
        let mut wrong = Violations::default();
        // An entry of a profile may select as many streams as there are.
        let known: HashSet<&str> = if selector.streams.is_empty() {
            HashSet::new()
        } else {
            held.streams.iter().flat_map(|s| [s.name.as_str(), s.group.as_str()]).collect()
        };
        for (i, name) in selector.streams.iter().enumerate() {
            if !known.contains(name.as_str()) {
                wrong.add(
                    FieldPath::from("selector.streams").index(i),
                    format!("{name:?} is no stream or group of the run"),
                );
            }
        }
        for (i, name) in selector.templates.iter().enumerate() {
            if !held.templates.iter().any(|t| t.name == *name || t.group == *name) {
                wrong.add(
                    FieldPath::from("selector.templates").index(i),
                    format!("{name:?} is no template or group of the run"),
                );
            }
        }
        for (i, name) in selector.ports.iter().enumerate() {
            self.port_named(FieldPath::from("selector.ports").index(i), name, &mut wrong);
        }
        let all = selector.streams.is_empty() && selector.templates.is_empty();
        let is_chosen = |names: &HashSet<&str>, name: &str, group: &str, port: &String| {
            (all || names.contains(name) || names.contains(group))
                && (selector.ports.is_empty() || selector.ports.contains(port))
        };
        let names: HashSet<&str> = selector.streams.iter().map(String::as_str).collect();
        let streams = held.streams.iter().map(|s| is_chosen(&names, &s.name, &s.group, &s.tx_port));
        let names: HashSet<&str> = selector.templates.iter().map(String::as_str).collect();
        let templates = held.templates.iter().map(|t| is_chosen(&names, &t.name, &t.group, &t.client_port));
        let found = (chosen(StreamIndex, streams), chosen(TemplateIndex, templates));
        if wrong.is_empty() && found.0.is_empty() && found.1.is_empty() {
            wrong.add("selector", "chooses no stream; name streams that are sent from the named ports, or templates whose clients are there");
        }
        Ok(wrong.or(found)?)
    }

    /// The changes to make, each with the streams it is for.
    fn changes(
        &self,
        held: &Held,
        chosen: &[StreamIndex],
        change: &update_request::Change,
    ) -> Result<Vec<(Vec<StreamIndex>, Change)>, Refusal> {
        use update_request::Change as Asked;
        if chosen.is_empty() {
            return Ok(Vec::new());
        }
        match change {
            Asked::FlowsPerSecond(_) => Err(Refusal::field(
                "flows_per_second",
                "is of templates, and streams are chosen too; choose templates (selector)",
            )),
            Asked::Paused(paused) => Ok(vec![(chosen.to_vec(), Change::Paused(*paused))]),
            Asked::Enabled(enabled) => Ok(vec![(chosen.to_vec(), Change::Enabled(*enabled))]),
            Asked::RateFactor(factor) => Ok(vec![(chosen.to_vec(), Change::Factor(positive("rate_factor", factor)?))]),
            Asked::Rate(asked) => {
                // The same bits a second are different packets a second for different frames.
                let mut by_rate: Vec<(Vec<StreamIndex>, Rate)> = Vec::new();
                for &i in chosen {
                    let stream = &held.streams[i.0];
                    if stream.replayed {
                        let wrong = format!("stream {:?} has the rate of its capture; set a rate_factor", stream.name);
                        return Err(Refusal::field("rate", wrong));
                    }
                    let line =
                        self.ports[stream.demand.port.0].line_rate_bps.map_or(LineRate::Unknown, LineRate::Known);
                    let rate = rate::packet_rate(Some(asked), stream.demand.frame_bytes, &stream.tx_port, line)
                        .map_err(|e| Refusal::field("rate", e.to_string()))?
                        .ok_or_else(|| Refusal::field("rate", "waits for a line rate"))?;
                    match by_rate.iter_mut().find(|(_, known)| *known == rate) {
                        Some((streams, _)) => streams.push(i),
                        None => by_rate.push((vec![i], rate)),
                    }
                }
                Ok(by_rate.into_iter().map(|(streams, rate)| (streams, Change::Rate(rate))).collect())
            }
        }
    }

    /// Refuses rates of a run at which a port would be asked for more than its line rate. `field` has the rates.
    pub(super) fn check_capacity(&self, held: &Held, rates: &Rates, field: &'static str) -> Result<(), Refusal> {
        let site = self.site(Some(held.run.id()));
        let mut asked = BTreeMap::new();
        held.add_bits(rates, &mut asked).map_err(|error| Refusal::field(field, error.to_string()))?;
        let mut wrong = Violations::default();
        validate::capacity(&asked, field, &site, &mut wrong);
        Ok(wrong.or(())?)
    }
}

impl Held {
    /// The factor in force at an instant.
    pub(super) fn factor(&self, now_ns: u64) -> contract::Ratio {
        let factor = self.run.factor_at(now_ns);
        contract::Ratio { numerator: factor.numerator(), denominator: factor.denominator() }
    }

    /// Adds what its enabled streams and its templates ask of each port at these rates, in bits a second on the medium.
    pub(super) fn add_bits(&self, rates: &Rates, all: &mut BTreeMap<PortIndex, u128>) -> Result<(), RateError> {
        let demands = self.streams.iter().zip(rates.streams()).map(|(stream, rate)| stream.demand_at(*rate));
        for (port, bits) in load::by_port(demands.collect::<Result<Vec<_>, _>>()?.into_iter().flatten()) {
            *all.entry(port).or_default() += bits;
        }
        for (template, factor) in self.templates.iter().zip(rates.template_factors()) {
            let Some(factor) = factor else { continue };
            for (port, bits) in &template.demands {
                *all.entry(*port).or_default() += bits.floor_of_product(factor);
            }
        }
        Ok(())
    }
}

/// The field of a request that has a change.
fn field_of(change: &update_request::Change) -> &'static str {
    use update_request::Change as Asked;
    match change {
        Asked::Rate(_) => "rate",
        Asked::RateFactor(_) => "rate_factor",
        Asked::Enabled(_) => "enabled",
        Asked::FlowsPerSecond(_) => "flows_per_second",
        Asked::Paused(_) => "paused",
    }
}

/// Whether ports may be asked for more after a change. Paused entries count as if they were sent.
fn may_ask_for_more(change: &update_request::Change) -> bool {
    use update_request::Change as Asked;
    !matches!(change, Asked::Enabled(false) | Asked::Paused(_))
}

/// The ratio in a field of a request, which must be greater than 0.
fn positive(field: &'static str, asked: &contract::Ratio) -> Result<Ratio, Refusal> {
    rate::positive(asked).map_err(|e| Refusal::field(field, e.to_string()))
}

/// The change of the chosen templates, if any are.
fn flow_change(change: &update_request::Change, templates: &[TemplateIndex]) -> Result<Option<FlowChange>, Refusal> {
    use update_request::Change as Asked;
    if templates.is_empty() {
        return Ok(None);
    }
    Ok(Some(match change {
        Asked::RateFactor(factor) => FlowChange::Factor(positive("rate_factor", factor)?),
        Asked::FlowsPerSecond(rate) => FlowChange::Rate(positive("flows_per_second", rate)?),
        Asked::Paused(paused) => FlowChange::Paused(*paused),
        Asked::Enabled(enabled) => FlowChange::Enabled(*enabled),
        Asked::Rate(_) => {
            let wrong =
                "is of streams, and templates are chosen too; choose streams (selector), or set flows_per_second";
            return Err(Refusal::field("rate", wrong));
        }
    }))
}
