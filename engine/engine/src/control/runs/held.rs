// SPDX-License-Identifier: Apache-2.0
//! A run that the engine holds: what its plan says of it, and what is known of it now.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use contract::RunInfo;
use prost::bytes::Bytes;

use super::facts::{StreamFacts, TemplateFacts};
use super::lock;
use crate::control::clients::EmulatedClients;
use crate::control::groups::Group;
use crate::control::instant::instant_of;
use crate::control::lease::Lease;
use crate::control::stages::Stages;
use crate::control::status::Refusal;
use crate::control::trials::Trials;
use crate::datapath::{ReferenceClock, Run, RunState};

/// A run the engine holds.
pub struct Held {
    pub(super) run: Arc<Run>,
    /// Its name for people and metrics: the plan's `run`, or its id.
    pub name: String,
    /// When it was prepared.
    pub prepared: Instant,
    pub(super) plan_digest: [u8; 32],
    /// What the next trials of a run of trials are made of.
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
    /// Its groups of emulated clients, until it is removed.
    pub(super) clients: Mutex<Vec<Arc<EmulatedClients>>>,
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

impl Held {
    /// The datapath's run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// What stays true of its streams, in the plan's order.
    pub fn streams(&self) -> &[StreamFacts] {
        &self.streams
    }

    /// Its groups of emulated clients, in the plan's order; none once it is removed.
    pub fn clients(&self) -> Vec<Arc<EmulatedClients>> {
        lock(&self.clients).clone()
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

    /// Bound to which the time stamps of the engines agree; none if it is not known, or no other engine takes part.
    pub fn clock_bound_ns(&self) -> Option<u64> {
        self.clock_bound_ns.or_else(|| self.run.reference_bound_ns())
    }

    /// What its streams are counted under, in the order of their first streams.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Whether it is over: nothing of it changes any more.
    pub fn has_ended(&self) -> bool {
        self.run.state().has_ended()
    }

    /// Notes that a scrape which began after the end has been answered.
    pub fn note_scraped(&self) {
        self.scraped.store(true, Ordering::Relaxed);
    }

    /// The run as a message of the contract, but for its routes.
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
            routes: None,
        }
    }
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
