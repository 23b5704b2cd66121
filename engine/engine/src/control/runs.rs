// SPDX-License-Identifier: Apache-2.0
//! The engine and the runs it holds: find, start, pause, forget.
mod facts;
mod held;
mod prepare;
mod updates;

use super::routing::Routing;
use super::status::Refusal;
use super::watchdog::Watchdog;
use crate::datapath::{Clock, Datapath, MAX_RUNS, PortInfo, RunError};
use crate::index::PortIndex;
use crate::lock::lock;
use crate::plan::{Violations, validate};
use contract::RunInfo;
pub use facts::StreamFacts;
pub use held::{Held, contract_state};
use spate_stateful::FieldPath;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time that emulated clients have to leave when the engine ends.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// An open datapath and the runs on it.
pub struct Engine {
    datapath: Datapath,
    clock: Clock,
    ports: Vec<PortInfo>,
    workers: u32,
    runs: Mutex<BTreeMap<String, Arc<Held>>>,
    /// Held while a run is prepared, so that what one run claims is seen by the next.
    preparing: Mutex<()>,
    /// Held while rates change and while a run is added, so that each sees what the ones before ask of a port.
    changing: Mutex<()>,
    shutting_down: AtomicBool,
    watchdog: Watchdog,
    /// None if no port is a router.
    routing: Option<Routing>,
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
            changing: Mutex::default(),
            shutting_down: AtomicBool::new(false),
            watchdog: Watchdog::default(),
            routing: None,
        }
    }

    /// The same with ports that are routers.
    #[must_use]
    pub fn with_routing(self, routing: Routing) -> Self {
        Self { routing: Some(routing), ..self }
    }

    /// Its ports as routers; none if none is.
    pub fn routing(&self) -> Option<&Routing> {
        self.routing.as_ref()
    }

    /// A run as a message of the contract.
    pub fn info(&self, held: &Held) -> RunInfo {
        let routes = self.routing.as_ref().and_then(|routing| routing.run_routes(held.run.id()));
        RunInfo { routes, ..held.info(self.now_ns()) }
    }

    /// Withdraws the routes of runs that have ended. A run of trials goes on between them, unless no call names it any more.
    pub fn withdraw_ended_routes(&self) {
        let Some(routing) = &self.routing else { return };
        for held in self.all() {
            let is_over = held.has_ended() && (held.trials.is_none() || held.lease.has_expired());
            if is_over && routing.has_routes(held.run.id()) {
                routing.withdraw(held.run.id());
            }
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

    /// The index of the port that a field names; none, which is noted, if there is no such port.
    pub fn port_named(&self, field: impl Into<FieldPath>, name: &str, wrong: &mut Violations) -> Option<PortIndex> {
        let found = self.ports.iter().position(|port| port.name == name).map(PortIndex);
        if found.is_none() {
            let known = self.ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
            wrong.add(field, format!("{name:?} is no port of this engine; known are {known}"));
        }
        found
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
        let mut asked = lock(&held.started_at_asked);
        if *asked == Some(at_ns) {
            return Ok(());
        }
        held.run.start(at_ns).map_err(|e| refused_start(&e))?;
        *asked = Some(at_ns);
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

    /// Pauses a run at an instant (0: now).
    pub fn pause(&self, held: &Held, at_ns: u64) -> Result<(), Refusal> {
        held.run.pause(at_ns).map(drop).map_err(|e| refused_change(&e, "at_ns"))
    }

    /// Resumes a run at an instant (0: now).
    pub fn resume(&self, held: &Held, at_ns: u64) -> Result<(), Refusal> {
        held.run.resume(at_ns).map(drop).map_err(|e| refused_change(&e, "at_ns"))
    }

    /// Forgets a run, stopping it first; forgetting an unknown one changes nothing.
    pub fn remove(&self, run_id: &str) {
        let held = lock(&self.runs).remove(run_id);
        if let Some(routing) = &self.routing {
            routing.withdraw(run_id);
        }
        if let Some(held) = held {
            held.run.remove();
            lock(&held.clients).clear();
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

    /// Closes the ports, when emulated clients have left.
    pub fn close(self) {
        self.all().iter().for_each(|held| lock(&held.clients).clear());
        self.datapath.await_left(LEAVE_TIMEOUT);
        self.datapath.close();
    }
}

/// The indices of those that are chosen.
fn chosen<I>(index: fn(usize) -> I, all: impl Iterator<Item = bool>) -> Vec<I> {
    all.enumerate().filter(|(_, is_chosen)| *is_chosen).map(|(at, _)| index(at)).collect()
}

fn refused_start(error: &RunError) -> Refusal {
    let remedy = match error {
        RunError::Passed { .. } => "; choose an instant further ahead and compare the clocks (ExchangeTimes)",
        _ => "",
    };
    Refusal::State(format!("{error}{remedy}"))
}

/// Why a change of a field of the request was refused.
fn refused_change(error: &RunError, field: &'static str) -> Refusal {
    match error {
        RunError::Rate(_) | RunError::Flows(_) => Refusal::field(field, error.to_string()),
        error => Refusal::State(error.to_string()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::datapath::{ClockError, Config, Memory, PollMode, PortConfig, PortDevice, StampedBy, UseOffloads};
    use crate::plan::decode;
    use contract::{Ratio, Selector, update_request};
    use prost::bytes::Bytes;
    use std::thread;
    use std::time::Instant;

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

    /// An engine with a loopback port, "l", and one worker.
    pub(crate) fn engine() -> Engine {
        engine_at(None)
    }

    /// An engine with a port of this line rate in bits per second.
    fn engine_at(line_rate_bps: Option<u64>) -> Engine {
        let loopback = PortConfig {
            name: "l".into(),
            device: PortDevice::Loopback,
            line_rate_bps,
            offloads: UseOffloads::Auto,
            mac: None,
            any_mac: false,
            stamped_by: StampedBy::Cpu,
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

    /// A stream of frames of 74 bytes with FCS, of which each takes 752 bits on the medium.
    fn one_stream(run: &str, tag: u16, pps: u64) -> Bytes {
        let plan = format!(
            r#"{{"runId": "{run}", "runTag": {tag}, "timing": {{"durationNs": 1000000000}}, "streams": [{{
                "name": "s", "id": 0, "txPort": "l", "rxPort": "l", "packet": {{"frame": "AgAAAAABAgAAAAAACABFAAAyAAAAAEARAAAKAAABCgAAAgABAAIAHgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="}},
                "continuous": {{"rate": {{"packetsPerSecond": {{"numerator": {pps}, "denominator": 1}}}}}}, "measure": {{"flow": true}}
            }}]}}"#
        );
        plan.into()
    }

    #[test]
    fn a_run_is_refused_if_another_ones_rates_were_raised_while_it_was_allocated() {
        let engine = engine_at(Some(1_000_000));
        let (first, _) = engine.prepare("first", one_stream("first", 1, 500), decode::Format::Auto).unwrap();
        let plan = decode::plan(one_stream("second", 2, 800), decode::Format::Auto).unwrap();
        let (allocated, _) = engine.make(plan, [0; 32], None, Vec::new()).unwrap();
        let set = |factor| {
            let factor = Ratio { numerator: factor, denominator: 1 };
            engine.update(&first, &Selector::default(), &update_request::Change::RateFactor(factor), 0)
        };
        set(2).unwrap();
        assert_eq!(
            engine.add(&allocated).unwrap_err().to_string(),
            "streams: ask port l for 601600 bit/s on the medium; available are 248000 of its line rate 1000000 bit/s (other runs have \
             the rest); lower the rates or use another port"
        );
        assert!(engine.find("second").is_err());
        set(1).unwrap();
        engine.prepare("second", one_stream("second", 2, 800), decode::Format::Auto).unwrap();
        assert!(set(2).unwrap_err().to_string().starts_with("rate_factor: ask port l for 752000 bit/s on the medium"));
        ["first", "second"].iter().for_each(|run| engine.remove(run));
        drop((first, allocated));
        engine.close();
    }

    #[test]
    fn contradictions_of_counters_are_reported_when_the_run_has_ended() {
        let engine = engine();
        let (held, _) = engine.prepare("r", ONE_TEMPLATE.into(), decode::Format::Auto).unwrap();
        held.run().falsify_counters();
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
}
