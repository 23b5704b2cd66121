// SPDX-License-Identifier: Apache-2.0
//! Runs made of plans: validated, admitted, allocated, armed.
use super::{Engine, Held, MAX_RUNS, chosen, facts, lock, refused_change, refused_start};
use crate::control::clients::{self, EmulatedClients};
use crate::control::instant::instant_of;
use crate::control::lease::Lease;
use crate::control::routing::Routes;
use crate::control::stages::Stages;
use crate::control::status::Refusal;
use crate::control::trials::Trials;
use crate::control::{groups, next_hop};
use crate::datapath::{FlowChange, OnLink, PortInfo};
use crate::index::{PortIndex, TemplateIndex};
use crate::plan::{Site, Violations, decode, fit, stages, validate};
use contract::{Plan, Ratio, Selector, StartTrialRequest, update_request};
use prost::bytes::Bytes;
use spate_neighbour::MAX_GROUPS;
use spate_stateful::{FieldPath, PortLink, Scenario};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

const NO_FACTOR: Ratio = Ratio { numerator: 1, denominator: 1 };

impl Engine {
    /// Reads, validates, allocates and arms a plan. The same plan again under its id changes nothing.
    pub fn prepare(
        &self,
        run_id: &str,
        bytes: Bytes,
        format: decode::Format,
    ) -> Result<(Arc<Held>, Vec<String>), Refusal> {
        let _one_at_a_time = lock(&self.preparing);
        let digest = decode::digest(&bytes);
        if let Some(held) = lock(&self.runs).get(run_id) {
            return match held.plan_digest == digest {
                true => Ok((held.clone(), Vec::new())),
                false => Err(Refusal::OtherPlan(run_id.to_owned())),
            };
        }
        if self.shutting_down.load(Ordering::Relaxed) {
            return Err(Refusal::ShuttingDown);
        }
        let mut plan = decode::plan(bytes, format)?;
        if plan.run_id != run_id {
            let wrong = format!("{:?}; must be {run_id:?}, as the header says", plan.run_id);
            return Err(Refusal::field("run_id", wrong));
        }
        self.admit(&plan)?;
        let routes = self.routes(&plan)?;
        // They are kept once.
        plan.routes = Vec::new();
        let trials = plan.trials.is_some().then(|| Trials::new(plan.clone()));
        let (held, warnings) = self.make(plan, digest, trials, Vec::new())?;
        self.add(&held)?;
        if let Some(stages) = held.stages() {
            self.update(&held, &Selector::default(), &stages.first(), 0)?;
        }
        if let (Some(routing), Some(routes)) = (&self.routing, routes) {
            routing.advertise(run_id, routes);
        }
        Ok((held, warnings))
    }

    /// The routes of a plan, if it has some.
    fn routes(&self, plan: &Plan) -> Result<Option<Routes>, Refusal> {
        let Some(first) = plan.routes.first() else { return Ok(None) };
        let Some(routing) = &self.routing else {
            let problem =
                format!("{:?} is no router of this engine; start `spate-engine serve` with --router", first.port);
            return Err(Refusal::field(FieldPath::from("routes").index(0).field("port"), problem));
        };
        // Another run may have had the same.
        self.withdraw_ended_routes();
        routing.routes(plan).map(Some)
    }

    /// Validates, allocates and arms a plan. Clients of the trial before go on.
    pub(super) fn make(
        &self,
        mut plan: Plan,
        digest: [u8; 32],
        trials: Option<Trials>,
        mut clients: Vec<Arc<EmulatedClients>>,
    ) -> Result<(Arc<Held>, Vec<String>), Refusal> {
        let next_hops = next_hop::fill_in(&mut plan, &self.datapath)?;
        let mut checked = validate::validate(&plan, &self.site(Some(&plan.run_id)))?;
        let (mut warnings, share_count) = (checked.warnings.clone(), checked.share.1);
        let streams = facts::stream_facts(&plan, &checked);
        let templates = facts::template_facts(&plan, &checked);
        let mut fine = Violations::default();
        stages::validate_rates(&plan, streams.iter().map(|stream| stream.demand.rate), &mut fine);
        fine.or(())?;
        let groups = groups::by_group(&streams, &checked.measured.streams);
        let stateful = match &checked.stateful {
            Some(scenario) => Some(self.join_links(scenario, &mut warnings)?),
            None => None,
        };
        let client_groups = std::mem::take(&mut checked.clients);
        let mut spec = fit::run_spec(&plan, checked, stateful)?;
        spec.streams.iter_mut().zip(next_hops).for_each(|(stream, next_hop)| stream.next_hop = next_hop);
        let run = self.datapath.prepare(spec).map_err(|error| match error.exhausted {
            true => Refusal::Exhausted(error.to_string()),
            false => Refusal::Invalid(Violations::one(error.field, error.problem)),
        })?;
        warnings.extend(validate::histograms(run.histogram_bytes()));
        let paused = paused_templates(&plan);
        if !paused.is_empty() {
            run.update_templates(&paused, FlowChange::Paused(true), 0).map_err(|e| refused_change(&e, "paused"))?;
        }
        if clients.is_empty() {
            clients = clients::start(&self.datapath, &plan, client_groups).inspect_err(|_| run.remove())?;
        }
        run.set_leased(clients::pools(&plan, &clients));
        let held = Arc::new(Held {
            run,
            name: fit::run_name(&plan).to_owned(),
            prepared: Instant::now(),
            plan_digest: digest,
            trials,
            stages: stages::Schedule::of(&plan).map(Stages::new),
            run_tag: plan.run_tag as u16,
            lease: Lease::new(plan.lease_ns),
            started_at_asked: Mutex::default(),
            streams,
            templates,
            groups,
            clients: Mutex::new(clients),
            receivers: plan.receivers,
            engines: share_count,
            clock_bound_ns: (share_count > 1 && plan.clock_bound_ns > 0).then_some(plan.clock_bound_ns),
            scraped: AtomicBool::new(false),
            profile: plan.profile,
            namespace: plan.namespace,
        });
        Ok((held, warnings))
    }

    /// Adds a run that was made. Its plan was validated with the rates of other runs at that time: those may have been raised while it was
    /// allocated, so that a port would be asked for more than its line rate.
    pub(super) fn add(&self, held: &Arc<Held>) -> Result<(), Refusal> {
        let _no_change_in_between = lock(&self.changing);
        let field = if held.streams.is_empty() { "stateful" } else { "streams" };
        if let Err(refusal) = self.check_capacity(held, &held.run.rates(), field) {
            held.run.remove();
            return Err(refusal);
        }
        lock(&self.runs).insert(held.run.id().to_owned(), held.clone());
        Ok(())
    }

    /// Starts a trial of a run in place of the one before, which has ended. The same request again changes nothing.
    ///
    /// # Errors
    /// If the plan has no trials, another trial is under way, its number is not greater than that of the last, its times or rates are
    /// wrong, or its instant has passed: then the run is ready for another trial.
    pub fn start_trial(&self, request: &StartTrialRequest) -> Result<Arc<Held>, Refusal> {
        let _one_at_a_time = lock(&self.preparing);
        let held = self.find(&request.run_id)?;
        let Some(trials) = &held.trials else {
            return Err(Refusal::State(format!("the plan of run {:?} has no trials; Start it", request.run_id)));
        };
        if trials.is_started(request, &held.run)? {
            return Ok(held);
        }
        let plan = trials.plan_of(request)?;
        let next = trials.after(request.clone());
        let clients = held.clients();
        // Its memory is the next one's.
        held.run.remove();
        let before = held;
        let (held, _) = self.make(plan, before.plan_digest, Some(next), clients)?;
        lock(&before.clients).clear();
        self.add(&held)?;
        let factor = update_request::Change::RateFactor(request.rate_factor.unwrap_or(NO_FACTOR));
        let factor = held.stages().map_or(factor, Stages::first);
        self.update(&held, &Selector::default(), &factor, 0)?;
        if let Some(reference) = &request.reference {
            held.set_reference(reference)?;
        }
        let at_mono_ns = instant_of("at_monotonic_ns", request.at_monotonic_ns)?;
        held.run.start_at_mono(at_mono_ns).map_err(|error| refused_start(&error))?;
        Ok(held)
    }

    /// Where a scenario's packets go. Its addresses are answered for from here on: servers of one port may be asked for from
    /// another.
    fn join_links(&self, scenario: &Scenario, warnings: &mut Vec<String>) -> Result<(Vec<PortLink>, OnLink), Refusal> {
        let address_guard = self.datapath.hold(scenario).map_err(|e| Refusal::Exhausted(e.to_string()))?;
        let next_hop::Links { links, neighbours, hops, gateways, resolution_guard, warnings: of_links } =
            next_hop::links(scenario, &self.datapath)?;
        warnings.extend(of_links);
        if address_guard.unreported() > 0 {
            warnings.push(format!(
                "{} multicast groups of its servers are not reported (IGMP, MLD): a port is a member of {MAX_GROUPS} groups at most",
                address_guard.unreported()
            ));
        }
        let (address_guard, resolution_guard) = (Some(Arc::new(address_guard)), resolution_guard.map(Arc::new));
        Ok((links, OnLink { neighbours, hops, gateways, address_guard, resolution_guard }))
    }

    /// Whether there is room for another run and its tags are free.
    fn admit(&self, plan: &Plan) -> Result<(), Refusal> {
        let runs = lock(&self.runs);
        if runs.len() >= MAX_RUNS {
            return Err(Refusal::Exhausted(format!("the engine holds {MAX_RUNS} runs; Remove ended ones first")));
        }
        let second = plan.trials.as_ref().map(|trials| ("trials.second_run_tag", trials.second_run_tag));
        for (field, tag) in [("run_tag", plan.run_tag)].into_iter().chain(second) {
            if let Some((id, _)) = runs.iter().find(|(_, held)| held.has_tag(tag)) {
                let wrong = format!("{tag} marks the packets of run {id:?}; use another, or Remove that run");
                return Err(Refusal::field(field, wrong));
            }
        }
        Ok(())
    }

    /// The ports and what live runs other than `except` claim of them.
    pub(super) fn site(&self, except: Option<&str>) -> Site {
        let claimed = self.claimed_bits(except);
        let fact = |(i, port): (usize, &PortInfo)| {
            fit::port_facts(port, claimed.get(&PortIndex(i)).copied().unwrap_or_default())
        };
        Site { ports: self.ports.iter().enumerate().map(fact).collect(), workers: self.workers }
    }

    /// Bits a second on the medium by port, of live runs other than `except`.
    fn claimed_bits(&self, except: Option<&str>) -> BTreeMap<PortIndex, u128> {
        let mut all = BTreeMap::new();
        for held in self.all() {
            if Some(held.run.id()) != except && !held.has_ended() {
                let added = held.add_bits(&held.run.rates(), &mut all);
                debug_assert!(added.is_ok(), "each change was checked by this");
            }
        }
        all
    }
}

/// Templates that are paused from the start.
fn paused_templates(plan: &Plan) -> Vec<TemplateIndex> {
    let templates = plan.stateful.iter().flat_map(|stateful| &stateful.templates);
    chosen(TemplateIndex, templates.map(|template| template.paused))
}
