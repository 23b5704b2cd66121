// SPDX-License-Identifier: Apache-2.0
//! The engine and the runs it holds: prepare, find, change, forget.
use super::groups::{self, Group};
use super::lease::Lease;
use super::next_hop;
use super::stages::Stages;
use super::status::Refusal;
use super::trials::Trials;
use super::watchdog::Watchdog;
use crate::datapath::{
    Change, Clock, Datapath, FlowChange, OnLink, PortInfo, Rate, ReferenceClock, Run, RunError, RunState,
};
use crate::plan::rate::{self, LineRate};
use crate::plan::validate::{self, Checked, CheckedStream, Site};
use crate::plan::{Violations, decode, fit, load, stages};
use contract::{Plan, Ratio, RunInfo, Selector, StartTrialRequest, update_request};
use prost::bytes::Bytes;
use spate_neighbour::MOST_GROUPS;
use spate_stateful::{PortLink, Scenario};
use spate_stateless::StreamTiming;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Runs held at a time, ended ones included: their metrics and trailers must stay bounded.
pub const MOST_RUNS: usize = 64;
/// How far ahead a change of several streams "now" is set, so that one instant is right for all of them.
const CHANGE_LEAD_NS: u64 = 10_000_000;
const NO_FACTOR: Ratio = Ratio { numerator: 1, denominator: 1 };

/// An open datapath and the runs on it.
pub struct Engine {
    datapath: Datapath,
    clock: Clock,
    ports: Vec<PortInfo>,
    workers: u32,
    runs: Mutex<BTreeMap<String, Arc<Held>>>,
    /// Held while a run is prepared, so that what one run claims is seen by the next.
    preparing: Mutex<()>,
    shutting_down: AtomicBool,
    watchdog: Watchdog,
}

/// A run the engine holds.
pub struct Held {
    run: Arc<Run>,
    /// Its name for people and metrics: the plan's `run`, or its id.
    pub name: String,
    /// When it was prepared.
    pub prepared: Instant,
    plan_digest: [u8; 32],
    /// Of a run of trials: what the next are made of.
    trials: Option<Trials>,
    stages: Option<Stages>,
    /// From the plan, for the metrics' labels.
    pub profile: String,
    /// From the plan, for the metrics' labels.
    pub namespace: String,
    run_tag: u16,
    /// From the plan; renewed by calls that name the run.
    pub lease: Lease,
    streams: Vec<StreamFacts>,
    templates: Vec<TemplateFacts>,
    groups: Vec<Group>,
    /// From the plan.
    pub receivers: Vec<contract::Receiver>,
    /// How many run the plan together (`Plan.share`).
    pub engines: u32,
    /// The plan's, where other engines take part.
    clock_bound_ns: Option<u64>,
    now: Mutex<Now>,
    scraped: AtomicBool,
}

/// What stays true of a template, in the plan's order.
struct TemplateFacts {
    name: String,
    group: String,
    /// Where its clients are; empty if they are elsewhere.
    client_port: String,
    /// Flows a second in the plan.
    rate: (u64, u64),
    /// By port, in bits a second on the medium at that rate: fractions.
    asks: Vec<(usize, (u128, u128))>,
}

/// What updates change of a template.
#[derive(Clone, Copy)]
struct FlowsNow {
    /// Of the plan's rate: a fraction.
    factor: (u128, u128),
    enabled: bool,
}

impl FlowsNow {
    fn change(&mut self, change: FlowChange, plan_rate: (u64, u64)) {
        match change {
            FlowChange::Factor((numerator, denominator)) => self.factor = (numerator.into(), denominator.into()),
            FlowChange::Rate((flows, seconds)) => {
                self.factor = (
                    u128::from(flows) * u128::from(plan_rate.1.max(1)),
                    u128::from(seconds) * u128::from(plan_rate.0.max(1)),
                );
            }
            FlowChange::Enabled(enabled) => self.enabled = enabled,
            // It may go on at any time.
            FlowChange::Paused(_) => {}
        }
    }
}

/// What stays true of a stream.
pub struct StreamFacts {
    /// Unique in the run.
    pub name: String,
    /// What it is counted under.
    pub group: String,
    /// Name of the port that sends it.
    pub tx_port: String,
    /// Name of the port that is to receive it; empty if none is.
    pub rx_port: String,
    /// Whether its packets are measured.
    pub measured: bool,
    /// Whether it replays a capture, whose own rate it has.
    replayed: bool,
    /// What it asks of its port at the plan's rate.
    ask: load::Ask,
}

/// What updates change.
#[derive(Clone)]
struct Now {
    rates: Vec<Rate>,
    enabled: Vec<bool>,
    /// By template.
    flows: Vec<FlowsNow>,
    /// Factors of the whole run by the instant they take effect, in order of the calls.
    factors: Vec<(u64, Ratio)>,
    started_at_asked: Option<u64>,
}

impl Engine {
    /// The engine over an open datapath.
    pub fn new(datapath: Datapath) -> Self {
        let ports = datapath.ports();
        let workers = datapath.worker_counters().len() as u32;
        let clock = datapath.clock();
        Self {
            datapath,
            clock,
            ports,
            workers,
            runs: Mutex::default(),
            preparing: Mutex::default(),
            shutting_down: AtomicBool::new(false),
            watchdog: Watchdog::default(),
        }
    }

    /// The ports, workers and counters.
    pub fn datapath(&self) -> &Datapath {
        &self.datapath
    }

    /// What is known of workers that hang.
    pub fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    /// By worker, a number that grows with each pass of its loop: the time it has spent, of which each pass adds its own.
    pub fn heartbeats(&self) -> impl Iterator<Item = u64> {
        self.datapath.worker_counters().into_iter().map(|worker| worker.busy_ns + worker.idle_ns)
    }

    /// Ports as they were opened: names, devices and limits, but not the link state of now.
    pub fn ports(&self) -> &[PortInfo] {
        &self.ports
    }

    /// Wall-clock nanoseconds since the epoch, as workers keep them.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_wall_ns()
    }

    /// The clock that workers keep.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// How time is kept.
    pub fn time_source(&self) -> String {
        self.clock.time_source().to_string()
    }

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
        let plan = decode::plan(bytes, format)?;
        if plan.run_id != run_id {
            let wrong = format!("{:?}; must be {run_id:?}, as the header says", plan.run_id);
            return Err(Refusal::field("run_id", wrong));
        }
        self.admit(&plan)?;
        let trials = plan.trials.is_some().then(|| Trials::new(plan.clone()));
        let (held, warnings) = self.make(plan, digest, trials)?;
        lock(&self.runs).insert(run_id.to_owned(), held.clone());
        if let Some(stages) = held.stages() {
            self.update(&held, &Selector::default(), &stages.first(), 0)?;
        }
        Ok((held, warnings))
    }

    /// Validates, allocates and arms a plan.
    fn make(
        &self,
        mut plan: Plan,
        digest: [u8; 32],
        trials: Option<Trials>,
    ) -> Result<(Arc<Held>, Vec<String>), Refusal> {
        next_hop::fill_in(&mut plan, &self.datapath)?;
        let checked = validate::validate(&plan, &self.site(Some(&plan.run_id)))?;
        let (mut warnings, share_count) = (checked.warnings.clone(), checked.share.1);
        let facts = stream_facts(&plan, &checked);
        let templates = template_facts(&plan, &checked);
        let mut fine = Violations::default();
        stages::validate_rates(&plan, facts.iter().map(|stream| stream.ask.rate), &mut fine);
        fine.or(())?;
        let groups = groups::by_group(&facts, &checked.measured.streams);
        let stateful = match &checked.stateful {
            Some(scenario) => Some(self.join_links(scenario, &mut warnings)?),
            None => None,
        };
        let spec = fit::run_spec(&plan, checked, stateful)?;
        let enabled = spec.streams.iter().map(|s| s.enabled).collect();
        let run = self.datapath.prepare(spec).map_err(|error| match error.exhausted {
            true => Refusal::Exhausted(error.to_string()),
            false => Refusal::Invalid(Violations(vec![fit::refused(&error)])),
        })?;
        warnings.extend(validate::histograms(run.histogram_bytes()));
        let paused = paused_templates(&plan);
        if !paused.is_empty() {
            run.update_templates(&paused, FlowChange::Paused(true), 0).map_err(|e| refused_change(&e))?;
        }
        let held = Arc::new(Held {
            run,
            name: fit::run_name(&plan).to_owned(),
            prepared: Instant::now(),
            plan_digest: digest,
            trials,
            stages: stages::Schedule::of(&plan).map(Stages::new),
            run_tag: plan.run_tag as u16,
            lease: Lease::new(plan.lease_ns),
            now: Mutex::new(Now {
                rates: facts.iter().map(|s| s.ask.rate).collect(),
                enabled,
                flows: vec![FlowsNow { factor: (1, 1), enabled: true }; templates.len()],
                factors: Vec::new(),
                started_at_asked: None,
            }),
            streams: facts,
            templates,
            groups,
            receivers: plan.receivers,
            engines: share_count,
            clock_bound_ns: (share_count > 1 && plan.clock_bound_ns > 0).then_some(plan.clock_bound_ns),
            scraped: AtomicBool::new(false),
            profile: plan.profile,
            namespace: plan.namespace,
        });
        Ok((held, warnings))
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
        if trials.is_started(request, &held)? {
            return Ok(held);
        }
        let plan = trials.plan_of(request)?;
        let next = trials.after(request.clone());
        // Its memory is the next one's.
        held.run.remove();
        let (held, _) = self.make(plan, held.plan_digest, Some(next))?;
        lock(&self.runs).insert(request.run_id.clone(), held.clone());
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
        let holding = self.datapath.hold(scenario).map_err(|e| Refusal::Exhausted(e.to_string()))?;
        let next_hop::Links { links, neighbours, gateways, warnings: of_links } =
            next_hop::links(scenario, &self.datapath)?;
        warnings.extend(of_links);
        if holding.unreported() > 0 {
            warnings.push(format!(
                "{} multicast groups of its servers are not reported (IGMP, MLD): a port is a member of {MOST_GROUPS} groups at most",
                holding.unreported()
            ));
        }
        Ok((links, OnLink { neighbours, gateways, holding: Some(Arc::new(holding)) }))
    }

    /// Whether there is room for another run and its tags are free.
    fn admit(&self, plan: &Plan) -> Result<(), Refusal> {
        let runs = lock(&self.runs);
        if runs.len() >= MOST_RUNS {
            return Err(Refusal::Exhausted(format!("the engine holds {MOST_RUNS} runs; Remove ended ones first")));
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
    fn site(&self, except: Option<&str>) -> Site {
        let claimed = self.claimed_bits(except);
        let fact = |(i, port): (usize, &PortInfo)| fit::port_facts(port, claimed.get(&i).copied().unwrap_or_default());
        Site { ports: self.ports.iter().enumerate().map(fact).collect(), workers: self.workers }
    }

    /// Bits a second on the medium by port, of live runs other than `except`.
    fn claimed_bits(&self, except: Option<&str>) -> BTreeMap<usize, u128> {
        let mut all = BTreeMap::new();
        // The list is not locked any more when a run is: an update locks its run first.
        for held in self.all() {
            if Some(held.run.id()) != except && !held.has_ended() {
                held.add_bits(&lock(&held.now), &mut all);
            }
        }
        all
    }

    /// Every run held, by id.
    pub fn all(&self) -> Vec<Arc<Held>> {
        lock(&self.runs).values().cloned().collect()
    }

    /// The run of this id.
    pub fn find(&self, run_id: &str) -> Result<Arc<Held>, Refusal> {
        let mut wrong = Violations::default();
        validate::run_id(run_id, &mut wrong);
        wrong.or(())?;
        lock(&self.runs).get(run_id).cloned().ok_or_else(|| Refusal::UnknownRun(run_id.to_owned()))
    }

    /// Starts a run at an instant to come. The same instant again changes nothing.
    pub fn start(&self, held: &Held, at_ns: u64) -> Result<(), Refusal> {
        held.has_no_trials()?;
        let mut now = lock(&held.now);
        if now.started_at_asked == Some(at_ns) {
            return Ok(());
        }
        held.run.start(at_ns).map_err(|e| refused_start(&e))?;
        now.started_at_asked = Some(at_ns);
        Ok(())
    }

    /// Starts a run at an instant of the engine's monotonic clock. The same instant again changes nothing.
    pub fn start_at_mono(&self, held: &Held, at_mono_ns: u64) -> Result<(), Refusal> {
        held.has_no_trials()?;
        if held.run.started_at_mono_ns() == Some(at_mono_ns) {
            return Ok(());
        }
        held.run.start_at_mono(at_mono_ns).map_err(|e| refused_start(&e))
    }

    /// Changes streams of a run at an instant (0: now); returns the instant it takes effect.
    pub fn update(
        &self,
        held: &Held,
        selector: &Selector,
        change: &update_request::Change,
        at_ns: u64,
    ) -> Result<u64, Refusal> {
        let (chosen, templates) = self.choose(held, selector)?;
        if let update_request::Change::FlowsPerSecond(_) = change
            && let Some(servers) = templates.iter().map(|&i| &held.templates[i]).find(|t| t.client_port.is_empty())
        {
            let wrong =
                format!("template {:?} has no clients here, which alone have a rate; choose others", servers.name);
            return Err(Refusal::field("selector", wrong));
        }
        let flow_change = flow_change(change, &templates)?;
        let mut now = lock(&held.now);
        let mut next = now.clone();
        let changes = self.changes(held, &chosen, change, &mut next)?;
        if let Some(change) = flow_change {
            for &index in &templates {
                next.flows[index].change(change, held.templates[index].rate);
            }
        }
        self.check_capacity(held, &next, change)?;
        let at = match (at_ns, changes.len() + usize::from(flow_change.is_some())) {
            (0, 0 | 1) => 0,
            (0, _) => self.now_ns() + CHANGE_LEAD_NS,
            (at, _) => at,
        };
        let flows = flow_change.map(|change| match change {
            FlowChange::Factor(_) if templates.len() == held.templates.len() => (None, change),
            change => (Some(&templates[..]), change),
        });
        let effective = held.run.update_all(flows, &changes, at).map_err(|e| refused_change(&e))?.max(at);
        let all = chosen.len() == held.streams.len() && templates.len() == held.templates.len();
        if let (update_request::Change::RateFactor(factor), true) = (change, all) {
            remember(&mut next.factors, (effective, *factor), self.now_ns());
        }
        *now = next;
        Ok(effective)
    }

    /// Indices of the chosen streams, and of the chosen templates.
    fn choose(&self, held: &Held, selector: &Selector) -> Result<(Vec<usize>, Vec<usize>), Refusal> {
        let mut wrong = Violations::default();
        // An entry of a profile may select as many streams as there are.
        let known: HashSet<&str> = if selector.streams.is_empty() {
            HashSet::new()
        } else {
            held.streams.iter().flat_map(|s| [s.name.as_str(), s.group.as_str()]).collect()
        };
        for (i, name) in selector.streams.iter().enumerate() {
            if !known.contains(name.as_str()) {
                wrong.add(format!("selector.streams[{i}]"), format!("{name:?} is no stream or group of the run"));
            }
        }
        for (i, name) in selector.templates.iter().enumerate() {
            if !held.templates.iter().any(|t| t.name == *name || t.group == *name) {
                wrong.add(format!("selector.templates[{i}]"), format!("{name:?} is no template or group of the run"));
            }
        }
        for (i, name) in selector.ports.iter().enumerate() {
            if !self.ports.iter().any(|p| p.name == *name) {
                let known: Vec<&str> = self.ports.iter().map(|p| p.name.as_str()).collect();
                let known = known.join(", ");
                wrong.add(
                    format!("selector.ports[{i}]"),
                    format!("{name:?} is no port of this engine; known are {known}"),
                );
            }
        }
        let all = selector.streams.is_empty() && selector.templates.is_empty();
        let chosen = |names: &HashSet<&str>, name: &str, group: &str, port: &String| {
            (all || names.contains(name) || names.contains(group))
                && (selector.ports.is_empty() || selector.ports.contains(port))
        };
        let names: HashSet<&str> = selector.streams.iter().map(String::as_str).collect();
        let streams = held.streams.iter().map(|s| chosen(&names, &s.name, &s.group, &s.tx_port));
        let names: HashSet<&str> = selector.templates.iter().map(String::as_str).collect();
        let templates = held.templates.iter().map(|t| chosen(&names, &t.name, &t.group, &t.client_port));
        let found = (places(streams), places(templates));
        if wrong.is_empty() && found.0.is_empty() && found.1.is_empty() {
            wrong.add("selector", "chooses no stream; name streams that are sent from the named ports, or templates whose clients are there");
        }
        Ok(wrong.or(found)?)
    }

    /// The changes to make, each with the streams it is for; `next` becomes what will be true after them.
    fn changes(
        &self,
        held: &Held,
        chosen: &[usize],
        change: &update_request::Change,
        next: &mut Now,
    ) -> Result<Vec<(Vec<usize>, Change)>, Refusal> {
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
            Asked::Enabled(enabled) => {
                chosen.iter().for_each(|&i| next.enabled[i] = *enabled);
                Ok(vec![(chosen.to_vec(), Change::Enabled(*enabled))])
            }
            Asked::RateFactor(factor) => {
                rate::positive(factor).map_err(|e| Refusal::field("rate_factor", e.to_string()))?;
                for &i in chosen {
                    next.rates[i] = held.streams[i]
                        .ask
                        .rate
                        .scaled(factor.numerator, factor.denominator)
                        .map_err(|e| Refusal::field("rate_factor", e.to_string()))?;
                }
                Ok(vec![(chosen.to_vec(), Change::Factor(factor.numerator, factor.denominator))])
            }
            Asked::Rate(asked) => {
                // The same bits a second are different packets a second for different frames.
                let mut by_rate: Vec<(Vec<usize>, Rate)> = Vec::new();
                for &i in chosen {
                    let stream = &held.streams[i];
                    if stream.replayed {
                        let wrong = format!("stream {:?} has the rate of its capture; set a rate_factor", stream.name);
                        return Err(Refusal::field("rate", wrong));
                    }
                    let line = self.ports[stream.ask.port].line_rate_bps.map_or(LineRate::Unknown, LineRate::Known);
                    let rate = rate::packet_rate(Some(asked), stream.ask.frame_bytes, &stream.tx_port, line)
                        .map_err(|e| Refusal::field("rate", e.to_string()))?
                        .ok_or_else(|| Refusal::field("rate", "waits for a line rate"))?;
                    next.rates[i] = rate;
                    match by_rate.iter_mut().find(|(_, known)| *known == rate) {
                        Some((streams, _)) => streams.push(i),
                        None => by_rate.push((vec![i], rate)),
                    }
                }
                Ok(by_rate.into_iter().map(|(streams, rate)| (streams, Change::Rate(rate))).collect())
            }
        }
    }

    /// Refuses a change after which a port would be asked for more than its line rate.
    fn check_capacity(&self, held: &Held, next: &Now, change: &update_request::Change) -> Result<(), Refusal> {
        use update_request::Change as Asked;
        let field = match change {
            Asked::Rate(_) => "rate",
            Asked::RateFactor(_) => "rate_factor",
            Asked::Enabled(true) => "enabled",
            Asked::FlowsPerSecond(_) => "flows_per_second",
            Asked::Enabled(false) | Asked::Paused(_) => return Ok(()),
        };
        let site = self.site(Some(held.run.id()));
        let mut asked = BTreeMap::new();
        held.add_bits(next, &mut asked);
        let mut wrong = Violations::default();
        validate::capacity(&asked, field, &site, &mut wrong);
        Ok(wrong.or(())?)
    }

    /// Pauses a run at an instant (0: now).
    pub fn pause(&self, held: &Held, at_ns: u64) -> Result<(), Refusal> {
        held.run.pause(at_ns).map(drop).map_err(|e| refused_change(&e))
    }

    /// Goes on with a run at an instant (0: now).
    pub fn resume(&self, held: &Held, at_ns: u64) -> Result<(), Refusal> {
        held.run.resume(at_ns).map(drop).map_err(|e| refused_change(&e))
    }

    /// Forgets a run, stopping it first; forgetting an unknown one changes nothing.
    pub fn remove(&self, run_id: &str) {
        let held = lock(&self.runs).remove(run_id);
        if let Some(held) = held {
            held.run.remove();
        }
    }

    /// Whether every ended run's final counters have been scraped.
    pub fn final_counters_scraped(&self) -> bool {
        self.all().iter().all(|held| !held.has_ended() || held.scraped.load(Ordering::Relaxed))
    }

    /// Stops every run, takes no more, and waits until all have ended, at most `limit`.
    pub async fn shut_down(&self, reason: &str, limit: Duration) {
        self.shutting_down.store(true, Ordering::Relaxed);
        let live: Vec<_> = self.all().into_iter().filter(|held| !held.has_ended()).collect();
        live.iter().for_each(|held| held.run.stop(reason));
        let deadline = tokio::time::Instant::now() + limit;
        while live.iter().any(|held| !held.has_ended()) && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Closes the ports.
    pub fn close(self) {
        self.datapath.close();
    }
}

/// Adds a factor to those of a run, and forgets those that another has replaced by now.
fn remember(factors: &mut Vec<(u64, Ratio)>, next: (u64, Ratio), now_ns: u64) {
    factors.push(next);
    let replaced = factors.iter().rposition(|(at, _)| *at <= now_ns).unwrap_or(0);
    factors.drain(..replaced);
}

fn stream_facts(plan: &Plan, checked: &Checked) -> Vec<StreamFacts> {
    let chains = load::chains(&checked.timings);
    let streams = plan.streams.iter().zip(&checked.streams).zip(&checked.timings).zip(chains);
    let fact = |(((stream, found), timing), chain): (((&contract::Stream, &CheckedStream), &StreamTiming), usize)| {
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
                part: found.part(stream, checked.share),
            },
            replayed: found.replay.is_some(),
        })
    };
    streams.filter_map(fact).collect()
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

    fn has_no_trials(&self) -> Result<(), Refusal> {
        match self.trials {
            Some(_) => {
                Err(Refusal::State(format!("the plan of run {:?} has trials; StartTrial starts each", self.run.id())))
            }
            None => Ok(()),
        }
    }

    /// Whether its packets may have this tag.
    fn has_tag(&self, tag: u32) -> bool {
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

    /// The factor in force at an instant.
    fn factor(&self, now_ns: u64) -> Ratio {
        let now = lock(&self.now);
        now.factors.iter().rfind(|(at, _)| *at <= now_ns).map_or(NO_FACTOR, |&(_, factor)| factor)
    }

    /// Adds what its enabled streams and its templates ask of each port, in bits a second on the medium.
    fn add_bits(&self, now: &Now, all: &mut BTreeMap<usize, u128>) {
        let enabled = self.streams.iter().enumerate().filter(|(i, _)| now.enabled[*i]);
        let asks = enabled.map(|(i, stream)| load::Ask { rate: now.rates[i], ..stream.ask });
        for (port, bits) in load::by_port(asks) {
            *all.entry(port).or_default() += bits;
        }
        for (template, now) in self.templates.iter().zip(&now.flows).filter(|(_, now)| now.enabled) {
            for (port, bits) in &template.asks {
                *all.entry(*port).or_default() += product(*bits, now.factor);
            }
        }
    }
}

/// Of two fractions, rounded down; of such large ones that 128 bits are not enough, the first is rounded down before.
fn product(a: (u128, u128), b: (u128, u128)) -> u128 {
    match (a.0.checked_mul(b.0), a.1.checked_mul(b.1)) {
        (Some(numerator), Some(denominator)) => numerator / denominator.max(1),
        _ => (a.0 / a.1.max(1)).saturating_mul(b.0) / b.1.max(1),
    }
}

/// The change of the chosen templates, if any are.
fn flow_change(change: &update_request::Change, templates: &[usize]) -> Result<Option<FlowChange>, Refusal> {
    use update_request::Change as Asked;
    if templates.is_empty() {
        return Ok(None);
    }
    let ratio = |field: &str, ratio: &Ratio| {
        rate::positive(ratio).map_err(|e| Refusal::field(field, e.to_string()))?;
        Ok::<_, Refusal>((ratio.numerator, ratio.denominator))
    };
    Ok(Some(match change {
        Asked::RateFactor(factor) => FlowChange::Factor(ratio("rate_factor", factor)?),
        Asked::FlowsPerSecond(rate) => FlowChange::Rate(ratio("flows_per_second", rate)?),
        Asked::Paused(paused) => FlowChange::Paused(*paused),
        Asked::Enabled(enabled) => FlowChange::Enabled(*enabled),
        Asked::Rate(_) => {
            let wrong =
                "is of streams, and templates are chosen too; choose streams (selector), or set flows_per_second";
            return Err(Refusal::field("rate", wrong));
        }
    }))
}

/// Where it is so.
fn places(so: impl Iterator<Item = bool>) -> Vec<usize> {
    so.enumerate().filter(|(_, so)| *so).map(|(place, _)| place).collect()
}

/// Templates that are held back from the start.
fn paused_templates(plan: &Plan) -> Vec<usize> {
    places(plan.stateful.iter().flat_map(|stateful| &stateful.templates).map(|template| template.paused))
}

fn template_facts(plan: &Plan, checked: &Checked) -> Vec<TemplateFacts> {
    let fact = |(index, template): (usize, &contract::Template)| {
        let asks = checked.flow_asks.iter().filter(|ask| ask.template == index);
        TemplateFacts {
            name: template.name.clone(),
            group: if template.group.is_empty() { template.name.clone() } else { template.group.clone() },
            client_port: template.client_port.clone(),
            rate: template.flows_per_second.as_ref().map_or((0, 1), |rate| (rate.numerator, rate.denominator)),
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

/// An instant of the monotonic clock.
pub(super) fn instant_of(field: &str, at_ns: i64) -> Result<u64, Refusal> {
    u64::try_from(at_ns).map_err(|_| {
        Refusal::field(field, format!("{at_ns}; must be nanoseconds by the engine's monotonic clock (ExchangeTimes)"))
    })
}

fn refused_start(error: &RunError) -> Refusal {
    let remedy = match error {
        RunError::Passed { .. } => "; choose an instant further ahead and compare the clocks (ExchangeTimes)",
        _ => "",
    };
    Refusal::State(format!("{error}{remedy}"))
}

fn refused_change(error: &RunError) -> Refusal {
    match error {
        RunError::Rate(rate) => Refusal::field("rate", rate.to_string()),
        RunError::Flows(error) => Refusal::field("flows_per_second", error.to_string()),
        error => Refusal::State(error.to_string()),
    }
}

/// A poisoned lock guards plain data that no panic leaves half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::datapath::{ClockError, Config, Memory, PollMode, PortConfig, PortDevice, UseOffloads};
    use std::thread;

    pub(crate) const ONE_TEMPLATE: &str = r#"{"runId": "r", "runTag": 1, "timing": {"durationNs": 1000000000}, "stateful": {
        "payloads": [{"size": 100}],
        "pools": [
            {"name": "c", "first": "EAAAAQ==", "last": "EAAACQ=="},
            {"name": "s", "first": "MAAAAQ==", "last": "MAAACQ=="}
        ],
        "templates": [{
            "name": "web", "protocol": "TRANSPORT_PROTOCOL_TCP", "clientPort": "l", "serverPort": "l", "destinationPort": 80,
            "client": {"instructions": [{"send": {"payload": 0}}]},
            "server": {"instructions": [{"receive": {"bytes": 100}}]},
            "flowsPerSecond": {"numerator": 1, "denominator": 1},
            "clients": [{"pool": 0, "weight": 1}], "servers": [{"pool": 1, "weight": 1}]
        }]
    }}"#;

    /// One with a loopback port, "l", and one worker.
    pub(crate) fn engine() -> Engine {
        let loopback = PortConfig {
            name: "l".into(),
            device: PortDevice::Loopback,
            line_rate_bps: None,
            offloads: UseOffloads::Auto,
            mac: None,
            any_mac: false,
        };
        let datapath = Datapath::open(Config {
            ports: vec![loopback],
            worker_cpus: vec![0],
            worker_groups: Vec::new(),
            control_cpus: vec![0],
            memory: Memory::Normal { bytes: 192 << 20 },
            poll: PollMode::Adaptive,
            clock_error: ClockError::default(),
        });
        Engine::new(datapath.unwrap())
    }

    #[test]
    fn contradictions_of_counters_are_reported_when_the_run_has_ended() {
        let engine = engine();
        let (held, _) = engine.prepare("r", ONE_TEMPLATE.into(), decode::Format::Auto).unwrap();
        held.run().miscount();
        assert_eq!(held.info(0).contradictions, Vec::<String>::new());
        held.run().stop("the test says so");
        let asked = Instant::now();
        while !held.has_ended() {
            assert!(asked.elapsed() < Duration::from_secs(10), "the run is {:?}", held.run().state());
            thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(
            held.info(0).contradictions,
            [
                "web: 0 flows_attempted, but 1 flows_closed and 0 open",
                "servers: 0 flows_accepted, but 1 flows_closed and 0 open"
            ]
        );
        engine.remove("r");
        drop(held);
        engine.close();
    }

    #[test]
    fn factors_are_those_in_force_and_to_come_however_many_there_were() {
        let factor = |numerator| Ratio { numerator, denominator: 1 };
        let mut factors = Vec::new();
        for second in 0..1000 {
            remember(&mut factors, (second + 2, factor(second)), second);
            assert!(factors.len() <= 3, "{factors:?}");
        }
        // At 999 s the one of that second is in force.
        assert_eq!(factors, [(999, factor(997)), (1000, factor(998)), (1001, factor(999))]);
    }

    #[test]
    fn a_factor_meets_the_exact_rate() {
        // A flow of 1,000 bits each 10^9 s, ten times as often, and 10^9 times as often.
        assert_eq!(product((1000, 1_000_000_000), (10, 1)), 0);
        assert_eq!(product((1000, 1_000_000_000), (1_000_000_000, 1)), 1000);
        assert_eq!(product((1000, 3), (3, 2)), 500);
        assert_eq!(product((u128::MAX, 1 << 64), (4, 2)), 2 * (u128::MAX >> 64));
    }
}
