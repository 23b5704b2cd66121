// SPDX-License-Identifier: Apache-2.0
//! A run as control sees it: its clock, the commands to its streams, its state, its counters.
mod changes;
pub(in crate::datapath) mod clock;
pub(in crate::datapath) mod device_bounds;
mod drain;
pub(in crate::datapath) mod leased;
pub(in crate::datapath) mod next_hops;
pub(in crate::datapath) mod outage;
pub(in crate::datapath) mod rates;
pub(in crate::datapath) mod readings;
mod received;
pub(in crate::datapath) mod records;
pub(in crate::datapath) mod reference;
pub(in crate::datapath) mod templates;

use std::sync::{Arc, Mutex, MutexGuard};

use spate_net::{Mark, TagList};
use spate_stats::{Collected, StreamCounters};

pub(in crate::datapath) use changes::Stream;
use clock::{ClockChange, RunClock};
use device_bounds::DeviceBounds;
use leased::Followed;
use next_hops::NextHops;
use outage::{Pauses, Timeline};
use rates::{Factors, Rates};
pub(in crate::datapath) use received::Received;
use records::{Records, Watch};
use reference::Stamps;
use templates::Templates;

use super::{
    Clock, RecordsState, ReferenceClock, RunError, RunState, Steering, TemplateCounters, TemplateTimes, Timing,
    clock::Wall,
    shared::{Flag, RunShare},
    slow::{AddressGuard, ResolutionGuard},
    worker::Command,
    workers::Workers,
};
use crate::index::{PortIndex, ReceiverIndex, RunSlot, StreamIndex, WorkerIndex};
use crate::lock::lock;

/// Commands reach every worker within this time, so that they take effect at one instant on all.
const LEAD_NS: u64 = 1_000_000;

/// A prepared run. It forgets nothing until `remove`.
pub struct Run {
    id: String,
    pub(in crate::datapath) tag: u16,
    pub(in crate::datapath) slot: RunSlot,
    timing: Timing,
    /// Whether no other engine executes the plan.
    alone: bool,
    clock: Clock,
    workers: Arc<Workers>,
    /// Counters, by worker.
    pub(in crate::datapath) shares: Vec<Arc<RunShare>>,
    /// By stream: its index in the shares' delays.
    pub(in crate::datapath) delays: Vec<Option<u32>>,
    /// By stream: its packets are counted where they arrive.
    measured: Vec<bool>,
    /// By stream: the port that should receive it, if any.
    rx_ports: Vec<Option<PortIndex>>,
    reflecting: Vec<PortIndex>,
    marks: Vec<(StreamIndex, Mark)>,
    by_tag: Vec<Arc<TagList>>,
    templates: Templates,
    records: Option<Records>,
    /// Workers that do not answer are not waited for any more.
    given_up: Flag,
    /// Pools whose clients have leased addresses.
    leased: Mutex<Vec<Followed>>,
    control: Mutex<Control>,
}

/// A receiver as control sees it.
#[derive(Clone, Debug)]
pub(in crate::datapath) struct Receiver {
    /// Workers that receive from its port.
    pub(in crate::datapath) workers: Vec<WorkerIndex>,
    /// When its statistics were last reset; 0 for the run's start.
    pub(in crate::datapath) since_wall_ns: u64,
}

/// The state of a run that changes, behind one lock.
pub(in crate::datapath) struct Control {
    clock: RunClock,
    /// The wall clock when the run's start was set.
    wall: Option<Wall>,
    pub(in crate::datapath) started_at_wall_ns: Option<u64>,
    started_at_mono_ns: Option<u64>,
    /// When the run's clock went and when it was stopped.
    timeline: Timeline,
    /// The time scale of the run's time stamps at the start, minus the monotonic clock, if other engines keep that scale.
    common_offset_ns: Option<i64>,
    /// The clock of the run's time stamps.
    stamps: Stamps,
    device_bounds: DeviceBounds,
    /// End of transmission on the run's clock.
    end_ns: u64,
    stop_reason: Option<String>,
    /// When transmission was found to have come to its end.
    ended_at_mono_ns: Option<u64>,
    /// When every worker was found to have sent its last packet.
    sent_at_mono_ns: Option<u64>,
    /// When every worker was found to have closed it, or was given up.
    closed_at_mono_ns: Option<u64>,
    /// Since when no flow of a template is open.
    quiet_since_mono_ns: Option<u64>,
    /// Workers were commanded to read all that has arrived...
    emptying: bool,
    /// ...and then to count nothing more.
    closing: bool,
    /// Why it was closed before every worker had read all that had arrived.
    drain_timed_out: Option<String>,
    /// Contradictions of its counters were reported.
    reported: bool,
    /// Ports answer for addresses of its templates.
    address_guard: Option<Arc<AddressGuard>>,
    /// Ports look for gateways of its pools.
    resolution_guard: Option<Arc<ResolutionGuard>>,
    removed: bool,
    next_hops: NextHops,
    streams: Vec<Stream>,
    rates: Rates,
    factors: Factors,
    /// By template: when no flows of it began.
    flow_pauses: Vec<Pauses>,
    /// By side of a template, and when to collect again.
    collected: Vec<Collected>,
    collect_at_ns: Option<u64>,
    pub(in crate::datapath) receivers: Vec<Receiver>,
    /// Changes come in order of time.
    last_change_ns: u64,
}

/// Parts of a run that is to be made.
pub(in crate::datapath) struct Parts {
    pub(in crate::datapath) id: String,
    pub(in crate::datapath) tag: u16,
    pub(in crate::datapath) slot: RunSlot,
    pub(in crate::datapath) timing: Timing,
    pub(in crate::datapath) alone: bool,
    pub(in crate::datapath) end_ns: u64,
    pub(in crate::datapath) clock: Clock,
    pub(in crate::datapath) stamps: Stamps,
    pub(in crate::datapath) device_bounds: DeviceBounds,
    pub(in crate::datapath) workers: Arc<Workers>,
    pub(in crate::datapath) shares: Vec<Arc<RunShare>>,
    pub(in crate::datapath) streams: Vec<Stream>,
    pub(in crate::datapath) rates: Rates,
    pub(in crate::datapath) receive: Received,
    pub(in crate::datapath) templates: Templates,
    pub(in crate::datapath) next_hops: NextHops,
    pub(in crate::datapath) address_guard: Option<Arc<AddressGuard>>,
    pub(in crate::datapath) resolution_guard: Option<Arc<ResolutionGuard>>,
    pub(in crate::datapath) records: Option<Records>,
}

impl Run {
    pub(in crate::datapath) fn new(mut parts: Parts) -> Self {
        for (stream, rate) in parts.streams.iter_mut().zip(parts.rates.streams()) {
            stream.pauses.note(0, rate.in_force().is_some());
        }
        let control = Control {
            clock: RunClock::new(),
            wall: None,
            started_at_wall_ns: None,
            started_at_mono_ns: None,
            timeline: Timeline::default(),
            common_offset_ns: None,
            stamps: parts.stamps,
            device_bounds: parts.device_bounds,
            end_ns: parts.end_ns,
            stop_reason: None,
            ended_at_mono_ns: None,
            sent_at_mono_ns: None,
            closed_at_mono_ns: None,
            quiet_since_mono_ns: None,
            emptying: false,
            closing: false,
            drain_timed_out: None,
            reported: false,
            address_guard: parts.address_guard,
            resolution_guard: parts.resolution_guard,
            removed: false,
            next_hops: parts.next_hops,
            streams: parts.streams,
            flow_pauses: vec![Pauses::default(); parts.templates.count()],
            rates: parts.rates,
            factors: Factors::default(),
            receivers: parts.receive.receivers,
            collected: Vec::new(),
            collect_at_ns: None,
            last_change_ns: 0,
        };
        Self {
            id: parts.id,
            tag: parts.tag,
            slot: parts.slot,
            timing: parts.timing,
            alone: parts.alone,
            clock: parts.clock,
            workers: parts.workers,
            shares: parts.shares,
            delays: parts.receive.delays,
            measured: parts.receive.measured,
            rx_ports: parts.receive.rx_ports,
            reflecting: parts.receive.reflecting,
            marks: parts.receive.marks,
            by_tag: parts.receive.by_tag,
            templates: parts.templates,
            records: parts.records,
            given_up: Flag::default(),
            leased: Mutex::default(),
            control: Mutex::new(control),
        }
    }

    /// The id it was prepared under.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Starts transmission at a wall-clock instant (nanoseconds since the epoch) that has not passed.
    pub fn start(&self, at_wall_ns: u64) -> Result<(), RunError> {
        let wall = self.clock.wall();
        self.start_by(wall, wall.mono_of(at_wall_ns), at_wall_ns)
    }

    /// Starts transmission at an instant of the monotonic clock that has not passed.
    pub fn start_at_mono(&self, at_mono_ns: u64) -> Result<(), RunError> {
        let wall = self.clock.wall();
        self.start_by(wall, at_mono_ns, wall.of(at_mono_ns))
    }

    fn start_by(&self, wall: Wall, at: u64, at_wall_ns: u64) -> Result<(), RunError> {
        self.follow_all_leased();
        let mut control = self.control();
        let state = self.state_of(&control);
        if state != RunState::Prepared {
            return Err(RunError::State { state, problem: "only a prepared run can be started" });
        }
        let now = self.clock.mono_ns();
        if at < now {
            return Err(RunError::Passed { at_wall_ns, late_ns: now - at });
        }
        control.clock.start(at);
        control.wall = Some(wall);
        control.started_at_wall_ns = Some(at_wall_ns);
        control.started_at_mono_ns = Some(at);
        control.timeline.start_ns = at;
        control.common_offset_ns = control.stamps.common_offset_ns(at);
        self.workers.send_all(|| Command::Start(self.slot, at));
        Ok(())
    }

    /// The monotonic instant at which the measured phase begins, if the run does not stand before; 0 before a start is set.
    pub fn measured_from_mono_ns(&self) -> u64 {
        self.control().started_at_mono_ns.map_or(0, |at| at + self.timing.warmup_ns)
    }

    /// Time of the run's clock: from its start on, and negative before; none before an instant is set.
    pub fn run_time_ns(&self) -> Option<i64> {
        self.control().clock.ahead(self.clock.mono_ns())
    }

    /// The wall-clock instant of a time of the run's clock; none while that stands.
    pub fn wall_of(&self, run_ns: u64) -> Option<u64> {
        let control = self.control();
        Some(self.wall(&control).of(control.clock.mono_of(run_ns)?))
    }

    /// Stops transmission and the run's clock at an instant (0: now); returns it.
    pub fn pause(&self, at_wall_ns: u64) -> Result<u64, RunError> {
        self.change_clock(at_wall_ns, ClockChange::Stop, "it is paused already, or will be")
    }

    /// Resumes the run at an instant (0: now), which it returns.
    pub fn resume(&self, at_wall_ns: u64) -> Result<u64, RunError> {
        self.change_clock(at_wall_ns, ClockChange::Resume, "it is not paused")
    }

    /// Ends transmission now. A run without a duration that was stopped is `Complete`, else it is `Stopped`.
    /// Stopping an ended run changes nothing.
    pub fn stop(&self, reason: &str) {
        self.stop_locked(&mut self.control(), reason);
    }

    /// Stops it if need be, without a drain, and makes the workers forget it; its counters stay readable here.
    pub fn remove(&self) {
        let mut control = self.control();
        if control.removed {
            return;
        }
        self.stop_locked(&mut control, "removed");
        control.removed = true;
        (control.address_guard, control.resolution_guard) = (None, None);
        self.workers.send_all(|| Command::Remove(self.slot));
    }

    /// The run's state now.
    pub fn state(&self) -> RunState {
        let mut control = self.control();
        control.clock.advance(self.clock.mono_ns());
        self.state_of(&control)
    }

    /// Wall-clock instant of the start; none before `start`.
    pub fn started_at(&self) -> Option<u64> {
        self.control().started_at_wall_ns
    }

    /// Monotonic instant of the start; none before `start`.
    pub fn started_at_mono_ns(&self) -> Option<u64> {
        self.control().started_at_mono_ns
    }

    /// Sets the clock that all engines of the run have in common: what its time stamps are by from now on.
    pub fn set_reference(&self, to: ReferenceClock) -> Result<(), RunError> {
        let mut control = self.control();
        let now = self.clock.mono_ns();
        if control.closed_at_mono_ns.is_some() {
            return Ok(()); // nothing is measured any more
        }
        match &mut control.stamps {
            Stamps::Reference(reference) => reference.set(to, now),
            Stamps::Wall => return Err(RunError::NoReference),
        }
        Ok(())
    }

    /// Greatest error that this clock may have had here so far; none if it was not set.
    pub fn reference_bound_ns(&self) -> Option<u64> {
        let control = self.control();
        control.stamps.bound_ns(control.closed_at_mono_ns.unwrap_or_else(|| self.clock.mono_ns()))
    }

    /// Greatest error so far of the time stamps that devices give packets of some streams on arrival; 0 where the CPU stamps them.
    pub fn stamp_bound_ns(&self, streams: &[StreamIndex]) -> u64 {
        let control = self.control();
        let now = control.closed_at_mono_ns.is_none().then(|| self.clock.mono_ns());
        streams.iter().map(|stream| control.device_bounds.bound_ns(self.rx_ports[stream.0], now)).max().unwrap_or(0)
    }

    /// Time stamps of a port's device were off by at most this for a while, until now.
    pub(in crate::datapath) fn note_stamp_bound(&self, port: PortIndex, bound_ns: u64) {
        let mut control = self.control();
        let started = control.started_at_mono_ns.is_some_and(|at| at <= self.clock.mono_ns());
        if started && control.closed_at_mono_ns.is_none() {
            control.device_bounds.note(port, bound_ns);
        }
    }

    /// The reason of an early end, if there was one.
    pub fn end_reason(&self) -> Option<String> {
        self.control().stop_reason.clone()
    }

    /// Why it was closed before its workers had read all that had arrived; none if they had.
    pub fn drain_timed_out(&self) -> Option<String> {
        self.control().drain_timed_out.clone()
    }

    /// Nanoseconds on the run's own clock: 0 before the start, standing while paused and after the end of transmission.
    pub fn elapsed_ns(&self) -> u64 {
        let mut control = self.control();
        let now = self.clock.mono_ns();
        control.clock.advance(now);
        control.clock.at(now).map_or(0, |at| at.max(0).cast_unsigned()).min(control.end_ns)
    }

    /// Counters of all streams, in the order of `RunSpec::streams`.
    pub fn counters(&self) -> Vec<StreamCounters> {
        let control = self.control();
        let merge = |index: usize| {
            let tx = self.shares.iter().map(move |share| &share.tx[index]);
            let rx = self.shares.iter().map(move |share| &share.rx[index]);
            StreamCounters::merge(tx, rx)
        };
        (0..control.streams.len()).map(merge).collect()
    }

    /// Counters of its templates, each side that is emulated here for itself.
    pub fn template_counters(&self) -> Vec<TemplateCounters> {
        self.templates.read()
    }

    /// How packets of its flows came to each worker that has some.
    pub fn steering(&self) -> Vec<Steering> {
        self.templates.steering()
    }

    /// What has become of its records; none if connections are not recorded.
    pub fn records(&self) -> Option<RecordsState> {
        self.records.as_ref().map(Records::state)
    }

    /// The run's records from now on; none if connections are not recorded.
    pub fn watch_records(&self) -> Option<Watch> {
        self.records.as_ref().map(Records::watch)
    }

    /// How long things took on each side of its templates, in the same order.
    pub fn template_times(&self) -> Vec<TemplateTimes> {
        self.templates.times()
    }

    /// Contradictions of its templates' counters, once it is over: nothing, if the engine is right.
    pub fn contradictions(&self) -> Vec<String> {
        if self.closed() { self.templates.contradictions() } else { Vec::new() }
    }

    /// Makes its counters wrong: a flow that never was has closed, on each side of its templates.
    #[cfg(test)]
    pub(crate) fn falsify_counters(&self) {
        self.templates.falsify_counters();
    }

    /// Whether it has templates.
    pub fn has_templates(&self) -> bool {
        !self.templates.is_empty()
    }

    /// The run's templates, unless it is over.
    pub(in crate::datapath) fn templates(&self) -> Option<&Templates> {
        (!self.closed() && !self.templates.is_empty()).then_some(&self.templates)
    }

    /// Whether the run reflects what arrives on a port.
    pub(in crate::datapath) fn reflects(&self, port: PortIndex) -> bool {
        self.reflecting.contains(&port) && !self.closed()
    }

    /// Whether a mark is of one of its streams.
    pub(in crate::datapath) fn marks(&self, mark: Mark) -> bool {
        self.marks.iter().any(|(_, other)| *other == mark) && !self.closed()
    }

    /// Resets the statistics of a receiver.
    ///
    /// # Panics
    /// If there is no such receiver.
    pub fn reset_receiver(&self, receiver: ReceiverIndex) {
        self.control().receivers[receiver.0].since_wall_ns = self.clock.now_wall_ns();
        self.workers.send_all(|| Command::ResetReceiver(self.slot, receiver));
    }

    /// Whether the run was removed.
    pub(in crate::datapath) fn is_removed(&self) -> bool {
        self.control().removed
    }

    pub(in crate::datapath) fn control(&self) -> MutexGuard<'_, Control> {
        lock(&self.control)
    }

    /// The monotonic instant of a wall-clock one that a request has, as late as it takes to reach all workers.
    fn instant(&self, at_wall_ns: u64, wall: Wall) -> u64 {
        wall.mono_of(at_wall_ns).max(self.clock.mono_ns() + LEAD_NS)
    }

    /// How the wall clock stands to the run's. As at its start for as long as it was not adjusted: what is asked for at a
    /// distance from the start is at that distance, to the nanosecond.
    fn wall(&self, control: &Control) -> Wall {
        let now = self.clock.wall();
        control.wall.map_or(now, |start| now.unless_adjusted_since(start))
    }

    fn change_clock(&self, at_wall_ns: u64, change: ClockChange, problem: &'static str) -> Result<u64, RunError> {
        let mut control = self.control();
        control.clock.advance(self.clock.mono_ns());
        self.refuse_ended(&control)?;
        let state = self.state_of(&control);
        if !control.clock.started() {
            return Err(RunError::State { state, problem: "it is not started" });
        }
        if control.clock.last_change() == change {
            return Err(RunError::State { state, problem });
        }
        let wall = self.wall(&control);
        let at = self.instant(at_wall_ns, wall).max(control.clock.next_change().unwrap_or(0));
        let at_ns = control.clock.ahead(at).map_or(0, |ns| ns.max(0).cast_unsigned());
        if change == ClockChange::Stop && at_ns >= control.end_ns {
            let problem = "its transmission will have ended by then; pause it at an earlier instant";
            return Err(RunError::State { state, problem });
        }
        control.clock.change(at, change);
        control.timeline.stands.note(at, change == ClockChange::Resume);
        self.workers.send_all(|| Command::Clock(self.slot, at, change));
        Ok(wall.of(at))
    }

    fn stop_locked(&self, control: &mut Control, reason: &str) {
        let now = self.clock.mono_ns();
        control.clock.advance(now);
        if control.stop_reason.is_some() || control.reached_end(now) {
            return;
        }
        let at_ns = control.clock.at(now).map_or(0, |at| at.max(0).cast_unsigned());
        control.stop_reason = Some(reason.to_owned());
        control.end_ns = control.end_ns.min(at_ns);
        self.workers.send_all(|| Command::Stop(self.slot, at_ns));
    }

    fn refuse_ended(&self, control: &Control) -> Result<(), RunError> {
        match self.state_of(control) {
            state @ (RunState::Draining | RunState::Complete | RunState::Stopped) => {
                Err(RunError::State { state, problem: "its transmission has ended" })
            }
            _ => Ok(()),
        }
    }

    fn closed(&self) -> bool {
        self.given_up.is_up() || self.shares.iter().all(|share| share.closed.is_up())
    }

    fn state_of(&self, control: &Control) -> RunState {
        let now = self.clock.mono_ns();
        let cut_short = control.stop_reason.is_some() && self.timing.duration_ns.is_some();
        let never_started = control.started_at_wall_ns.is_none();
        let written = self.records.as_ref().is_none_or(Records::done);
        if control.removed || (self.closed() && written) {
            return if cut_short || never_started { RunState::Stopped } else { RunState::Complete };
        }
        if control.stop_reason.is_some() || control.reached_end(now) {
            return RunState::Draining;
        }
        match control.clock.at(now) {
            None => RunState::Prepared,
            Some(_) if control.clock.is_stopped() => RunState::Paused,
            Some(at) if at < 0 => RunState::Armed,
            Some(at) if at.cast_unsigned() < self.timing.warmup_ns => RunState::WarmingUp,
            Some(_) => RunState::Running,
        }
    }
}

impl Control {
    fn reached_end(&self, now: u64) -> bool {
        self.clock.at(now).is_some_and(|at| at >= 0 && at.cast_unsigned() >= self.end_ns)
    }
}
