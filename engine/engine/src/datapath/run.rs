// SPDX-License-Identifier: Apache-2.0
//! A run as control sees it: its clock, the commands to its streams, its state, its counters.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use spate_net::Mark;
use spate_stateless::Rate;
use spate_stats::{Collected, Silence, Span, StreamCounters};

use super::{
    Change, Clock, FlowChange, RecordsState, ReferenceClock, RunError, RunState, Steering, TemplateCounters,
    TemplateTimes, Timing,
    clock::Wall,
    command::{Command, FlowRate, RateChange, TempoChange},
    outage::{self, Outage, Part, Pauses, Scale, Timeline},
    receive_plan,
    records::{Records, Watch},
    reference::Stamps,
    run_clock::{RunClock, Turn},
    shared::{Flag, RunShare},
    slow::Holding,
    stateful::Templates,
    workers::Workers,
};

/// Commands reach every worker within this time, so that they take effect at one instant on all.
const LEAD_NS: u64 = 1_000_000;

/// A run is closed this long after its drain, even if workers have not read all that has arrived.
const EMPTY_WITHIN_NS: u64 = 5_000_000_000;
/// What is owed at the end of a run is sent or given up this long after it at the latest, beside what flows need of the drain.
const SETTLE_WITHIN_NS: u64 = 6_000_000_000;
/// Workers that have not closed a run this long after its deadline are not waited for: they hang.
const CLOSE_WITHIN_NS: u64 = 1_000_000_000;

/// How often it is looked at whether flows are still open.
const LOOK_NS: u64 = 5_000_000;

/// Period in which the workers' gaps of templates are put together, and its minimum for each side. A worker then keeps gaps afresh: about
/// 2,000 times it looks for the shortest gap that it keeps, at 1,000,000 packets a second.
const COLLECT_NS: u64 = 2_000_000_000;
const COLLECT_SIDE_NS: u64 = 250_000_000;
/// What arrived this long ago has been counted.
const COUNTED_NS: u64 = 100_000_000;

/// A prepared run. It forgets nothing until `remove`.
pub struct Run {
    id: String,
    pub(super) tag: u16,
    pub(super) slot: usize,
    timing: Timing,
    /// No other engine runs its plan.
    alone: bool,
    clock: Clock,
    workers: Arc<Workers>,
    /// By worker.
    pub(super) shares: Vec<Arc<RunShare>>,
    /// By stream: its index in the shares' delays.
    pub(super) delays: Vec<Option<u32>>,
    /// By stream: its packets are counted where they arrive.
    measured: Vec<bool>,
    reflecting: Vec<usize>,
    marks: Vec<(usize, Mark)>,
    templates: Templates,
    records: Option<Records>,
    /// Workers that do not answer are not waited for any more.
    given_up: Flag,
    control: Mutex<Control>,
}

/// What control knows of a receiver.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// Workers that receive from its port.
    pub(super) workers: Vec<usize>,
    /// When its statistics were last started anew; 0 for the run's start.
    pub(super) since_wall_ns: u64,
}

/// What changes.
pub(super) struct Control {
    clock: RunClock,
    /// How the wall clock stood when its start was set.
    wall: Option<Wall>,
    pub(super) started_at_wall_ns: Option<u64>,
    started_at_mono_ns: Option<u64>,
    /// How its clock went.
    timeline: Timeline,
    /// What its time stamps were by at the start, minus the monotonic clock, where other engines keep that.
    common_offset_ns: Option<i64>,
    /// What its time stamps are by.
    stamps: Stamps,
    /// End of transmission on the run's clock.
    end_ns: u64,
    stop_reason: Option<String>,
    /// When transmission was found to have come to its end.
    ended_at_mono_ns: Option<u64>,
    /// When every worker was found to have sent all.
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
    holding: Option<Arc<Holding>>,
    removed: bool,
    streams: Vec<Stream>,
    /// By template.
    flows: Vec<Flows>,
    /// By side of a template, and when to collect again.
    collected: Vec<Collected>,
    collect_at_ns: Option<u64>,
    pub(super) receivers: Vec<Receiver>,
    /// Changes come in order of time.
    last_change_ns: u64,
}

/// What control knows of a stream.
pub(super) struct Stream {
    pub(super) tx_port: usize,
    /// Its index among the run's streams of that port that are on a schedule.
    pub(super) index: usize,
    /// It replays a capture: it is on none, and its rate is a speed.
    pub(super) replayed: bool,
    /// Other engines send it.
    pub(super) elsewhere: bool,
    /// The plan's.
    pub(super) base_rate: Rate,
    /// In force while neither paused nor disabled.
    pub(super) rate: Rate,
    pub(super) paused: bool,
    pub(super) enabled: bool,
    /// When it begins on the run's clock; none: when another stream has sent its packets.
    pub(super) begins_ns: Option<u64>,
    pub(super) pauses: Pauses,
}

/// What control knows of whether flows of a template begin.
#[derive(Clone, Debug, Default)]
struct Flows {
    paused: bool,
    disabled: bool,
    /// The rate is 0.
    stand: bool,
    pauses: Pauses,
}

impl Flows {
    /// From a run time on.
    fn change(&mut self, change: FlowChange, at_ns: u64) {
        match change {
            FlowChange::Rate((flows, _)) | FlowChange::Factor((flows, _)) => self.stand = flows == 0,
            FlowChange::Paused(paused) => self.paused = paused,
            FlowChange::Enabled(enabled) => self.disabled = !enabled,
        }
        self.pauses.note(at_ns, !(self.paused || self.disabled || self.stand));
    }
}

impl Stream {
    /// The rate it goes at, if it goes.
    pub(super) fn rate(&self) -> Option<Rate> {
        (self.enabled && !self.paused).then_some(self.rate)
    }
}

/// What a run is made of.
pub(super) struct Parts {
    pub(super) id: String,
    pub(super) tag: u16,
    pub(super) slot: usize,
    pub(super) timing: Timing,
    pub(super) alone: bool,
    pub(super) end_ns: u64,
    pub(super) clock: Clock,
    pub(super) stamps: Stamps,
    pub(super) workers: Arc<Workers>,
    pub(super) shares: Vec<Arc<RunShare>>,
    pub(super) streams: Vec<Stream>,
    pub(super) receive: receive_plan::Control,
    pub(super) templates: Templates,
    pub(super) holding: Option<Arc<Holding>>,
    pub(super) records: Option<Records>,
}

impl Run {
    pub(super) fn new(mut parts: Parts) -> Self {
        for stream in &mut parts.streams {
            let goes = stream.rate().is_some();
            stream.pauses.note(0, goes);
        }
        let control = Control {
            clock: RunClock::new(),
            wall: None,
            started_at_wall_ns: None,
            started_at_mono_ns: None,
            timeline: Timeline::default(),
            common_offset_ns: None,
            stamps: parts.stamps,
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
            holding: parts.holding,
            removed: false,
            streams: parts.streams,
            flows: vec![Flows::default(); parts.templates.count()],
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
            reflecting: parts.receive.reflecting,
            marks: parts.receive.marks,
            templates: parts.templates,
            records: parts.records,
            given_up: Flag::default(),
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
        self.workers.tell_all(|| Command::Start(self.slot, at));
        Ok(())
    }

    /// Changes streams (indices in `RunSpec::streams`) at an instant, or as soon as possible if it has passed (0: now).
    /// Returns the instant it takes effect; changes take effect in the order in which they are asked for.
    pub fn update(&self, streams: &[usize], change: Change, at_wall_ns: u64) -> Result<u64, RunError> {
        self.update_all(None, &[(streams.to_vec(), change)], at_wall_ns)
    }

    /// Changes how flows of templates begin (indices in the scenario; none given: of all), and streams, at an instant as `update`
    /// does. If any of it is refused, nothing changes.
    pub fn update_all(
        &self,
        flows: Option<(Option<&[usize]>, FlowChange)>,
        streams: &[(Vec<usize>, Change)],
        at_wall_ns: u64,
    ) -> Result<u64, RunError> {
        let mut control = self.control();
        let unknown = streams.iter().flat_map(|(some, _)| some).find(|&&stream| stream >= control.streams.len());
        if let Some(&unknown) = unknown {
            return Err(RunError::UnknownStream(unknown));
        }
        self.refuse_ended(&control)?;
        let rate = |&stream: &usize, change: Change| control.streams[stream].changed_rate(change);
        let rates = streams.iter().map(|(some, change)| some.iter().map(|stream| rate(stream, *change)).collect());
        let rates = rates.collect::<Result<Vec<Vec<Rate>>, _>>()?;
        let mut effective = 0;
        if let Some((templates, change)) = flows {
            effective = self.change_flows(&mut control, templates, change, at_wall_ns)?;
        }
        // Nothing refuses what is left.
        for ((streams, change), rates) in streams.iter().zip(rates) {
            effective = effective.max(self.change_streams(&mut control, streams, *change, rates, at_wall_ns));
        }
        Ok(effective)
    }

    /// Sends workers the rates that streams have after a change.
    fn change_streams(
        &self,
        control: &mut Control,
        streams: &[usize],
        change: Change,
        rates: Vec<Rate>,
        at_wall_ns: u64,
    ) -> u64 {
        let wall = self.wall(control);
        let at = self.instant(at_wall_ns, wall);
        let at_ns = control.clock.ahead(at).map_or(0, |ns| ns.max(0).cast_unsigned()).max(control.last_change_ns);
        control.last_change_ns = at_ns;
        let mut by_port: BTreeMap<usize, Vec<(usize, Option<Rate>)>> = BTreeMap::new();
        for (&index, rate) in streams.iter().zip(rates) {
            let stream = &mut control.streams[index];
            stream.rate = rate;
            match change {
                Change::Paused(paused) => stream.paused = paused,
                Change::Enabled(enabled) => stream.enabled = enabled,
                Change::Rate(_) | Change::Factor(..) => {}
            }
            let goes = stream.rate().is_some();
            stream.pauses.note(at_ns, goes);
            if stream.elsewhere {
                continue;
            }
            if stream.replayed {
                let change = TempoChange { at_ns, stream: index, speed: stream.rate() };
                self.workers.tell_all(|| Command::Tempo(self.slot, change));
                continue;
            }
            by_port.entry(stream.tx_port).or_default().push((stream.index, stream.rate()));
        }
        for (port, rates) in by_port {
            let change = RateChange { at_ns, port, rates: rates.into() };
            self.workers.tell_all(|| Command::Change(self.slot, change.clone()));
        }
        wall.of(control.clock.mono_of(at_ns).unwrap_or(at).max(at))
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
        self.turn(at_wall_ns, Turn::Stand, "it is paused already, or will be")
    }

    /// Goes on at an instant (0: now); returns it.
    pub fn resume(&self, at_wall_ns: u64) -> Result<u64, RunError> {
        self.turn(at_wall_ns, Turn::Go, "it is not paused")
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
        control.holding = None;
        self.workers.tell_all(|| Command::Remove(self.slot));
    }

    /// Its state now.
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

    /// What ended it early, if something did.
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

    /// Its records from now on; none if connections are not recorded.
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
    pub(crate) fn miscount(&self) {
        self.templates.miscount();
    }

    /// Whether it has templates.
    pub fn has_templates(&self) -> bool {
        !self.templates.is_empty()
    }

    /// From an instant on (0: now) flows of all templates begin at a fraction of the plan's rates; returns it.
    pub fn change_flow_rate(&self, factor: (u64, u64), at_wall_ns: u64) -> Result<u64, RunError> {
        self.update_all(Some((None, FlowChange::Factor(factor))), &[], at_wall_ns)
    }

    /// From an instant on (0: now) flows of templates (indices in the scenario) begin otherwise; returns it. Those that are open
    /// go on.
    pub fn update_templates(&self, templates: &[usize], change: FlowChange, at_wall_ns: u64) -> Result<u64, RunError> {
        self.update_all(Some((Some(templates), change)), &[], at_wall_ns)
    }

    fn change_flows(
        &self,
        control: &mut Control,
        templates: Option<&[usize]>,
        change: FlowChange,
        at_wall_ns: u64,
    ) -> Result<u64, RunError> {
        let wall = self.wall(control);
        let at = self.instant(at_wall_ns, wall);
        let at_ns = control.clock.ahead(at).map_or(0, |ns| ns.max(0).cast_unsigned()).max(control.last_change_ns);
        self.templates.change_rates(templates, change, |worker, factor, row| {
            self.workers.tell(worker, Command::FlowRate(self.slot, FlowRate { at_ns, factor, row }));
        })?;
        control.last_change_ns = at_ns;
        for (index, flows) in control.flows.iter_mut().enumerate() {
            if templates.is_none_or(|some| some.contains(&index)) {
                flows.change(change, at_ns);
            }
        }
        Ok(wall.of(control.clock.mono_of(at_ns).unwrap_or(at).max(at)))
    }

    /// When nothing of some streams arrived in the measured phase; none if they are not counted on arrival, or before the phase.
    pub fn outage(&self, streams: &[usize]) -> Option<Outage> {
        let control = self.control();
        let now_ns = self.clock.mono_ns();
        let phase = self.measured_phase(&control, now_ns)?;
        let measured: Vec<_> = streams.iter().copied().filter(|&stream| self.measured[stream]).collect();
        let parts: Vec<_> = measured.iter().map(|&stream| self.part(&control, stream, phase)).collect();
        // Where there is no other engine, its parts have it.
        let sent = measured.iter().filter(|_| !self.alone).filter_map(|&stream| self.sent(&control, stream, phase));
        let sent = sent.reduce(|a, b| Span { from_ns: a.from_ns.min(b.from_ns), to_ns: a.to_ns.max(b.to_ns) });
        (!parts.is_empty()).then(|| self.outage_of(&control, &parts, sent, phase, now_ns))
    }

    /// When nothing arrived on each side of its templates, in the order of `template_counters`; none before the measured phase.
    pub fn template_outages(&self) -> Vec<Option<Outage>> {
        let control = self.control();
        let now_ns = self.clock.mono_ns();
        let phase = self.measured_phase(&control, now_ns);
        let outage = |(side, (template, limited, silence)): (usize, (usize, bool, Silence))| {
            let phase = phase?;
            let silence = match control.collected.get(side) {
                Some(collected) => collected.with(&silence),
                None => silence,
            };
            let mut sent = phase;
            // With as many flows as it may have, it has no more to send.
            if let Some(open) = silence.spans.last().filter(|last| limited && last.to_ns == u64::MAX) {
                sent.to_ns = sent.to_ns.min(open.from_ns).max(sent.from_ns);
            }
            let part = Part { silence, sent, pauses: &control.flows[template].pauses };
            Some(self.outage_of(&control, &[part], Some(sent), phase, now_ns))
        };
        self.templates.silences().enumerate().map(outage).collect()
    }

    /// Puts the gaps of workers together, of the sides of templates that several workers receive, if it is time. A worker keeps its longest
    /// gaps only; those of a short time are enough however long the run is. Returns when to do so again.
    fn collect_outages(&self, control: &mut Control, now: u64) -> Option<u64> {
        let sides = self.templates.shared_sides() as u64;
        if sides == 0 {
            return None;
        }
        self.measured_phase(control, now)?;
        let next = now + COLLECT_NS.max(COLLECT_SIDE_NS * sides);
        let due = *control.collect_at_ns.get_or_insert(next);
        if now < due {
            return Some(due);
        }
        control.collect_at_ns = Some(next);
        let until_ns = now - COUNTED_NS;
        control.collected.resize_with(self.templates.sides(), Collected::default);
        for (collected, (.., silence)) in control.collected.iter_mut().zip(self.templates.silences()) {
            collected.collect(&silence, until_ns);
        }
        self.templates.gaps_collected(until_ns);
        Some(next)
    }

    /// The measured phase until now, or until the end of transmission; none before it.
    fn measured_phase(&self, control: &Control, now_ns: u64) -> Option<Span> {
        control.started_at_mono_ns?;
        let from_ns = control.timeline.mono_of(self.timing.warmup_ns);
        let to_ns = control.timeline.mono_of(control.end_ns).min(now_ns);
        (from_ns <= now_ns).then_some(Span { from_ns, to_ns: to_ns.max(from_ns) })
    }

    /// A measured stream. What is sent elsewhere may have been sent in all of the phase.
    fn part<'a>(&self, control: &'a Control, index: usize, phase: Span) -> Part<'a> {
        let received = self.shares.iter().filter_map(|share| share.gaps[index].as_ref()?.read(&share.rx[index].last));
        let silence = received.fold(Silence::whole(), |whole, one| whole.and(&one));
        let stream = &control.streams[index];
        let begins_ns = match stream.begins_ns {
            Some(begins_ns) => control.timeline.mono_of(begins_ns),
            // It is not known when: with the first arrival at the latest.
            None => silence.spans.first().map_or(0, |first| if first.to_ns == u64::MAX { 0 } else { first.to_ns }),
        };
        let from_ns = phase.from_ns.max(begins_ns);
        let to_ns = match self.alone {
            true => self.sent(control, index, phase).map_or(from_ns, |sent| sent.to_ns),
            false => phase.to_ns,
        };
        Part { silence, sent: Span { from_ns, to_ns: to_ns.max(from_ns) }, pauses: &stream.pauses }
    }

    /// When this engine sent a stream in the measured phase: from its beginning until the last packet was due.
    fn sent(&self, control: &Control, index: usize, phase: Span) -> Option<Span> {
        let tx = self.shares.iter().map(move |share| &share.tx[index]);
        let counted = StreamCounters::merge(tx, std::iter::empty()).measured;
        let stream = &control.streams[index];
        let from_ns = phase.from_ns.max(control.timeline.mono_of(stream.begins_ns.unwrap_or(0)));
        let to_ns = control.timeline.mono_of(counted.last_due_ns).max(from_ns);
        (counted.tx_packets > 0).then_some(Span { from_ns, to_ns })
    }

    fn outage_of(&self, control: &Control, parts: &[Part<'_>], sent: Option<Span>, phase: Span, now_ns: u64) -> Outage {
        let started_ns = control.timeline.start_ns;
        let common_ns = control.common_offset_ns.zip(control.stamps.common_offset_ns(now_ns));
        let scale = Scale {
            begins_ns: phase.from_ns,
            gains_ns: common_ns.map_or(0, |(before, now)| now.wrapping_sub(before)),
            in_ns: now_ns.saturating_sub(started_ns),
        };
        Outage {
            phase_began_at_ns: self.wall(control).of(phase.from_ns),
            silence: scale.silence(outage::silence(parts, &control.timeline, now_ns)),
            sent: sent.filter(|_| !self.alone).map(|sent| scale.span(sent)),
        }
    }

    /// Its templates, unless it is over.
    pub(super) fn templates(&self) -> Option<&Templates> {
        (!self.closed() && !self.templates.is_empty()).then_some(&self.templates)
    }

    /// Moves the run on through its drain, and to the end of its file of records; called by the monitor. Returns the monotonic
    /// instant to call again at, none if nothing more will come by itself.
    pub(super) fn proceed(&self) -> Option<u64> {
        let mut control = self.control();
        let now = self.clock.mono_ns();
        control.clock.advance(now);
        if control.removed || self.closed() {
            self.tell_contradictions(&mut control);
            control.holding = None;
            let closed_at = *control.closed_at_mono_ns.get_or_insert(now);
            return self.records.as_ref().and_then(|records| records.await_file(closed_at, now));
        }
        let soon = Some(now + 1_000_000);
        let ended = control.stop_reason.is_some() || control.reached_end(now);
        if ended {
            control.ended_at_mono_ns.get_or_insert(now);
        }
        self.close_at_deadline(&mut control, now);
        // In the drain, too: what is rare then takes the slots of gaps before.
        let collect = self.collect_outages(&mut control, now);
        if !self.shares.iter().all(|share| share.sent.is_up()) {
            let end = if control.clock.stands() { None } else { control.clock.mono_of(control.end_ns) };
            let turn = control.clock.next_turn();
            return if ended { soon } else { end.into_iter().chain(turn).chain(collect).min().or(Some(u64::MAX)) };
        }
        let drained_at = self.drained_at(&mut control, now);
        if now < drained_at {
            return Some(drained_at.min(now + LOOK_NS));
        }
        if !control.emptying {
            control.emptying = true;
            self.workers.tell_all(|| Command::Empty(self.slot));
        } else if !control.closing && self.shares.iter().all(|share| share.emptied.is_up()) {
            // Not before: one worker may still hand packets over to another.
            control.closing = true;
            self.workers.tell_all(|| Command::Close(self.slot));
        }
        soon
    }

    /// Closes the run if its drain has been over for `EMPTY_WITHIN_NS`: workers that always have packets to read would keep it open.
    fn close_at_deadline(&self, control: &mut Control, now: u64) {
        let Some(ended_at) = control.ended_at_mono_ns else { return };
        let drain_ns = self.drain_ns(control);
        // Flows that are owed may begin in the first half of the drain; it counts from when the last packet was sent.
        let latest = ended_at.saturating_add(SETTLE_WITHIN_NS).saturating_add(drain_ns / 2).saturating_add(drain_ns);
        let drained_at = match control.sent_at_mono_ns {
            Some(_) => self.drained_at(control, now).min(latest),
            None => latest,
        };
        let deadline = drained_at.saturating_add(EMPTY_WITHIN_NS);
        if now < deadline {
            return;
        }
        if control.drain_timed_out.is_none() {
            let problem = self.unfinished(now - ended_at);
            tracing::error!(run = self.id, "the drain timed out: {problem}");
            control.drain_timed_out = Some(problem);
            if !control.closing {
                control.closing = true;
                self.workers.tell_all(|| Command::Close(self.slot));
            }
        } else if now >= deadline.saturating_add(CLOSE_WITHIN_NS) && !self.closed() {
            self.given_up.raise();
            self.records.iter().for_each(Records::give_up);
        }
    }

    /// What each worker that is not done with the run has left, this long after its end.
    fn unfinished(&self, after_ns: u64) -> String {
        let what = |(worker, share): (usize, &Arc<RunShare>)| {
            let left = match share {
                share if !share.sent.is_up() => "had not finished sending",
                share if !share.emptied.is_up() => "still had packets to read",
                share if !share.closed.is_up() => "had not closed the run",
                _ => return None,
            };
            Some(format!("worker {worker} {left}"))
        };
        let all: Vec<_> = self.shares.iter().enumerate().filter_map(what).collect();
        format!(
            "{} {} s after the end of sending: packets that had arrived may be missing in the counters",
            all.join(", "),
            after_ns / 1_000_000_000
        )
    }

    /// How long packets under way are waited for.
    fn drain_ns(&self, control: &Control) -> u64 {
        if control.started_at_wall_ns.is_some() { self.timing.drain_ns } else { 0 }
    }

    /// When nothing more is waited for, as far as is known now; every worker has sent all it had to.
    fn drained_at(&self, control: &mut Control, now: u64) -> u64 {
        let sent_at = *control.sent_at_mono_ns.get_or_insert(now);
        let drain_ns = self.drain_ns(control);
        if self.templates.is_empty() || !control.streams.is_empty() || !control.receivers.is_empty() {
            return sent_at.saturating_add(drain_ns);
        }
        // Flows that were owed began in the first half of the drain.
        let end = control.ended_at_mono_ns.unwrap_or(sent_at).saturating_add(drain_ns);
        if self.templates.any_open() {
            control.quiet_since_mono_ns = None;
            return end;
        }
        let quiet_since = *control.quiet_since_mono_ns.get_or_insert(now);
        self.templates.linger_ns().map_or(end, |linger| end.min(quiet_since.saturating_add(linger)))
    }

    /// Once.
    fn tell_contradictions(&self, control: &mut Control) {
        if !std::mem::replace(&mut control.reported, true) {
            for contradiction in self.contradictions() {
                tracing::error!(run = self.id, "counters of templates contradict each other: {contradiction}");
            }
        }
    }

    /// Whether it sends back what arrives on a port.
    pub(super) fn reflects(&self, port: usize) -> bool {
        self.reflecting.contains(&port) && !self.closed()
    }

    /// Whether a mark is of one of its streams.
    pub(super) fn marks(&self, mark: Mark) -> bool {
        self.marks.iter().any(|(_, other)| *other == mark) && !self.closed()
    }

    /// Starts the statistics of a receiver (index in `Measure::receivers`) anew.
    ///
    /// # Panics
    /// If there is no such receiver.
    pub fn reset_receiver(&self, receiver: usize) {
        self.control().receivers[receiver].since_wall_ns = self.clock.now_wall_ns();
        self.workers.tell_all(|| Command::ResetReceiver(self.slot, receiver));
    }

    /// Whether it was removed.
    pub(super) fn is_removed(&self) -> bool {
        self.control().removed
    }

    pub(super) fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn turn(&self, at_wall_ns: u64, turn: Turn, problem: &'static str) -> Result<u64, RunError> {
        let mut control = self.control();
        control.clock.advance(self.clock.mono_ns());
        self.refuse_ended(&control)?;
        let state = self.state_of(&control);
        if !control.clock.started() {
            return Err(RunError::State { state, problem: "it is not started" });
        }
        if control.clock.last_turn() == turn {
            return Err(RunError::State { state, problem });
        }
        let wall = self.wall(&control);
        let at = self.instant(at_wall_ns, wall).max(control.clock.next_turn().unwrap_or(0));
        let at_ns = control.clock.ahead(at).map_or(0, |ns| ns.max(0).cast_unsigned());
        if turn == Turn::Stand && at_ns >= control.end_ns {
            let problem = "its transmission will have ended by then; pause it at an earlier instant";
            return Err(RunError::State { state, problem });
        }
        control.clock.turn(at, turn);
        control.timeline.stands.note(at, turn == Turn::Go);
        self.workers.tell_all(|| Command::Turn(self.slot, at, turn));
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
        self.workers.tell_all(|| Command::Stop(self.slot, at_ns));
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
            Some(_) if control.clock.stands() => RunState::Paused,
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

impl Stream {
    fn changed_rate(&self, change: Change) -> Result<Rate, RunError> {
        match change {
            Change::Rate(rate) => Ok(rate),
            Change::Factor(numerator, denominator) => Ok(self.base_rate.scaled(numerator, denominator)?),
            Change::Paused(_) | Change::Enabled(_) => Ok(self.rate),
        }
    }
}
