// SPDX-License-Identifier: Apache-2.0
//! A run that the engine holds: what its plan says of it, and what is known of it now.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use contract::{Plan, RunInfo};
use prost::bytes::Bytes;
use spate_stateless::StreamTiming;

use super::instant_of;
use crate::control::groups::Group;
use crate::control::lease::Lease;
use crate::control::stages::Stages;
use crate::control::status::Refusal;
use crate::control::trials::Trials;
use crate::datapath::{RateError, ReferenceClock, Run, RunState, StreamRate};
use crate::index::{PortIndex, StreamIndex, TemplateIndex};
use crate::plan::load;
use crate::plan::validate::{Checked, CheckedStream};

/// A run the engine holds.
pub struct Held {
    pub(super) run: Arc<Run>,
    /// Its name for people and metrics: the plan's `run`, or its id.
    pub name: String,
    /// When it was prepared.
    pub prepared: Instant,
    pub(super) plan_digest: [u8; 32],
    /// Of a run of trials: what the next are made of.
    pub(super) trials: Option<Trials>,
    pub(super) stages: Option<Stages>,
    /// From the plan, for the metrics' labels.
    pub profile: String,
    /// From the plan, for the metrics' labels.
    pub namespace: String,
    pub(super) run_tag: u16,
    /// The lease of the plan, which calls that name the run renew.
    pub lease: Lease,
    pub(super) streams: Vec<StreamFacts>,
    pub(super) templates: Vec<TemplateFacts>,
    pub(super) groups: Vec<Group>,
    /// The plan's receivers.
    pub receivers: Vec<contract::Receiver>,
    /// How many engines run the plan together (`Plan.share`).
    pub engines: u32,
    /// The plan's bound of clocks, where other engines take part.
    pub(super) clock_bound_ns: Option<u64>,
    /// The instant that the run was asked to start at.
    pub(super) started_at_asked: Mutex<Option<u64>>,
    pub(super) scraped: AtomicBool,
}

/// What stays true of a template, in the plan's order.
pub(super) struct TemplateFacts {
    pub(super) name: String,
    pub(super) group: String,
    /// Where its clients are; empty if they are elsewhere.
    pub(super) client_port: String,
    /// By port, in bits a second on the medium at that rate: fractions.
    pub(super) asks: Vec<(PortIndex, (u128, u128))>,
}

/// Facts about a stream that no change of rates affects.
pub struct StreamFacts {
    /// Its name, unique in the run.
    pub name: String,
    /// The name under which the stream is counted.
    pub group: String,
    /// Name of the port that sends it.
    pub tx_port: String,
    /// Name of the port that is to receive it; empty if none is.
    pub rx_port: String,
    /// Whether its packets are measured.
    pub measured: bool,
    /// Whether it replays a capture, which sets the rate.
    pub(super) replayed: bool,
    /// What it asks of its port at the plan's rate.
    pub(super) ask: load::Ask,
}

impl StreamFacts {
    /// What it asks of its port at a rate, unless it is disabled. A replay asks for as much more as its speed is greater than the plan's.
    pub(super) fn ask_at(&self, rate: StreamRate) -> Result<Option<load::Ask>, RateError> {
        let Some((mut rate, planned)) = rate.when_resumed() else { return Ok(None) };
        if self.replayed {
            let (numerator, denominator) = rate.divided_by(planned)?;
            rate = self.ask.rate.scaled(numerator, denominator)?;
        }
        Ok(Some(load::Ask { rate, ..self.ask }))
    }
}

impl Held {
    /// The datapath's run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// What stays true of its streams, in the plan's order.
    pub fn streams(&self) -> &[StreamFacts] {
        &self.streams
    }

    pub(super) fn has_no_trials(&self) -> Result<(), Refusal> {
        match self.trials {
            Some(_) => {
                Err(Refusal::State(format!("the plan of run {:?} has trials; StartTrial starts each", self.run.id())))
            }
            None => Ok(()),
        }
    }

    /// Whether its packets may have this tag.
    pub(super) fn has_tag(&self, tag: u32) -> bool {
        match &self.trials {
            Some(trials) => trials.tags().contains(&tag),
            None => u32::from(self.run_tag) == tag,
        }
    }

    /// Its stages, if its plan has some.
    pub fn stages(&self) -> Option<&Stages> {
        self.stages.as_ref()
    }

    /// Whether answers have the distributions of delays: where those of several engines, or at several times, are put together.
    pub fn has_distributions(&self) -> bool {
        self.engines > 1 || self.stages.is_some()
    }

    /// Sets what its time stamps are by.
    pub fn set_reference(&self, reference: &contract::ReferenceClock) -> Result<(), Refusal> {
        let to = ReferenceClock {
            offset_ns: reference.offset_ns,
            bound_ns: reference.bound_ns,
            measured_at_ns: instant_of("reference.measured_at_ns", reference.measured_at_ns)?,
            drift_ppb: reference.drift_ppb,
        };
        self.run.set_reference(to).map_err(|error| Refusal::State(error.to_string()))
    }

    /// To what bound time stamps of the engines agree; none if that is not known, or no other engine takes part.
    pub fn clock_bound_ns(&self) -> Option<u64> {
        self.clock_bound_ns.or_else(|| self.run.reference_bound_ns())
    }

    /// What its streams are counted under, in the order of their first streams.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Whether it is over: nothing of it changes any more.
    pub fn has_ended(&self) -> bool {
        matches!(self.run.state(), RunState::Complete | RunState::Stopped)
    }

    /// Notes that a scrape which began after the end has been answered.
    pub fn note_scraped(&self) {
        self.scraped.store(true, Ordering::Relaxed);
    }

    /// The run as a message of the contract.
    pub fn info(&self, now_ns: u64) -> RunInfo {
        let state = contract_state(self.run.state());
        RunInfo {
            run_id: self.run.id().to_owned(),
            state: state.into(),
            plan_digest: Bytes::copy_from_slice(&self.plan_digest),
            started_at_ns: self.run.started_at().unwrap_or(0) as i64,
            started_at_monotonic_ns: self.run.started_at_mono_ns().unwrap_or(0) as i64,
            reference_bound_ns: self.run.reference_bound_ns().unwrap_or(0),
            end_reason: self.run.end_reason().unwrap_or_default(),
            rate_factor: Some(self.factor(now_ns)),
            contradictions: self.run.contradictions(),
            drain_timed_out: self.run.drain_timed_out().unwrap_or_default(),
            run: self.name.clone(),
            trial: self.trials.as_ref().map_or(0, Trials::number),
        }
    }
}

pub(super) fn stream_facts(plan: &Plan, checked: &Checked) -> Vec<StreamFacts> {
    let chains = load::chains(&checked.timings);
    let streams = plan.streams.iter().zip(&checked.streams).zip(&checked.timings).zip(chains);
    let fact =
        |(((stream, found), timing), chain): (((&contract::Stream, &CheckedStream), &StreamTiming), StreamIndex)| {
            // A rate that is not known is refused before the run is made.
            let rate = found.rate?;
            Some(StreamFacts {
                name: stream.name.clone(),
                group: if stream.group.is_empty() { stream.name.clone() } else { stream.group.clone() },
                tx_port: stream.tx_port.clone(),
                rx_port: stream.rx_port.clone(),
                measured: found.template.flow(),
                ask: load::Ask {
                    port: found.tx_port,
                    chain,
                    starts: !timing.waits,
                    frame_bytes: found.frame_bytes(),
                    rate,
                    part: found.part(stream, timing, checked.share),
                },
                replayed: found.replay.is_some(),
            })
        };
    streams.filter_map(fact).collect()
}

pub(super) fn template_facts(plan: &Plan, checked: &Checked) -> Vec<TemplateFacts> {
    let fact = |(index, template): (usize, &contract::Template)| {
        let asks = checked.flow_asks.iter().filter(|ask| ask.template == TemplateIndex(index));
        TemplateFacts {
            name: template.name.clone(),
            group: if template.group.is_empty() { template.name.clone() } else { template.group.clone() },
            client_port: template.client_port.clone(),
            asks: asks.map(|ask| (ask.port, ask.bits)).collect(),
        }
    };
    plan.stateful.iter().flat_map(|stateful| &stateful.templates).enumerate().map(fact).collect()
}

/// The contract's word for a state.
pub fn contract_state(state: RunState) -> contract::RunState {
    match state {
        RunState::Prepared => contract::RunState::Prepared,
        RunState::Armed => contract::RunState::Armed,
        RunState::WarmingUp => contract::RunState::WarmingUp,
        RunState::Running => contract::RunState::Running,
        RunState::Paused => contract::RunState::Paused,
        RunState::Draining => contract::RunState::Draining,
        RunState::Complete => contract::RunState::Complete,
        RunState::Stopped => contract::RunState::Stopped,
    }
}
