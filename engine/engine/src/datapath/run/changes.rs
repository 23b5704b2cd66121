// SPDX-License-Identifier: Apache-2.0
//! Rates of a run's streams and templates: what they are, and the changes that a user makes while it is under way.
use std::collections::BTreeMap;

use spate_stateless::Rate;

use super::{Control, Run, outage::Pauses};
use crate::datapath::{
    Change, FlowChange, RunError,
    command::{Command, FlowRate, RateChange, TempoChange},
};

/// What control knows of a stream.
pub(in crate::datapath) struct Stream {
    pub(in crate::datapath) tx_port: usize,
    /// Its index among the run's streams of that port that are on a schedule.
    pub(in crate::datapath) index: usize,
    /// It replays a capture: it is on none, and its rate is a speed.
    pub(in crate::datapath) replayed: bool,
    /// Other engines send it.
    pub(in crate::datapath) elsewhere: bool,
    /// The plan's.
    pub(in crate::datapath) base_rate: Rate,
    /// In force while neither paused nor disabled.
    pub(in crate::datapath) rate: Rate,
    pub(in crate::datapath) paused: bool,
    pub(in crate::datapath) enabled: bool,
    /// When it begins on the run's clock; none: when another stream has sent its packets.
    pub(in crate::datapath) begins_ns: Option<u64>,
    pub(in crate::datapath) pauses: Pauses,
}

/// What control knows of whether flows of a template begin.
#[derive(Clone, Debug, Default)]
pub(super) struct Flows {
    paused: bool,
    disabled: bool,
    /// The rate is 0.
    stand: bool,
    pub(super) pauses: Pauses,
}

impl Flows {
    /// From a run time on.
    pub(super) fn change(&mut self, change: FlowChange, at_ns: u64) {
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
    pub(in crate::datapath) fn rate(&self) -> Option<Rate> {
        (self.enabled && !self.paused).then_some(self.rate)
    }

    fn changed_rate(&self, change: Change) -> Result<Rate, RunError> {
        match change {
            Change::Rate(rate) => Ok(rate),
            Change::Factor(numerator, denominator) => Ok(self.base_rate.scaled(numerator, denominator)?),
            Change::Paused(_) | Change::Enabled(_) => Ok(self.rate),
        }
    }
}

impl Run {
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

    /// From an instant on (0: now) flows of all templates begin at a fraction of the plan's rates; returns it.
    pub fn change_flow_rate(&self, factor: (u64, u64), at_wall_ns: u64) -> Result<u64, RunError> {
        self.update_all(Some((None, FlowChange::Factor(factor))), &[], at_wall_ns)
    }

    /// From an instant on (0: now) flows of templates (indices in the scenario) begin otherwise; returns it. Those that are open
    /// go on.
    pub fn update_templates(&self, templates: &[usize], change: FlowChange, at_wall_ns: u64) -> Result<u64, RunError> {
        self.update_all(Some((Some(templates), change)), &[], at_wall_ns)
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
}
