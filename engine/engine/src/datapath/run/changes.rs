// SPDX-License-Identifier: Apache-2.0
//! Changes of a run's rates while it is under way: from which instant on, and which workers receive what.
use std::collections::BTreeMap;

use spate_stateful::Ratio;
use spate_stateless::Rate;

use super::{Control, Run, outage::Pauses, rates::Rates};
use crate::datapath::{
    Change, FlowChange, RunError,
    worker::{Command, FlowRate, RateChange, SpeedChange},
};
use crate::index::{PortIndex, PortStreamIndex, StreamIndex, TemplateIndex, WorkerIndex};

/// What control knows of a stream beside its rate.
pub(in crate::datapath) struct Stream {
    pub(in crate::datapath) tx_port: PortIndex,
    /// Its position among the run's streams of that port that are on a schedule.
    pub(in crate::datapath) on_port: PortStreamIndex,
    /// Whether the stream replays a capture: it is on no schedule, and its rate is a speed.
    pub(in crate::datapath) replayed: bool,
    /// Whether other engines send the stream.
    pub(in crate::datapath) elsewhere: bool,
    /// When it begins on the run's clock; none: when another stream has sent its packets.
    pub(in crate::datapath) begins_ns: Option<u64>,
    pub(in crate::datapath) pauses: Pauses,
}

impl Run {
    /// Changes streams at an instant, or as soon as possible if it has passed (0: now).
    /// Returns the instant it takes effect; changes take effect in the order in which they are asked for.
    pub fn update(&self, streams: &[StreamIndex], change: Change, at_wall_ns: u64) -> Result<u64, RunError> {
        self.update_all(None, &[(streams.to_vec(), change)], at_wall_ns)
    }

    /// From an instant on (0: now) flows of all templates begin at a fraction of the plan's rates; returns it.
    pub fn change_flow_rate(&self, factor: Ratio, at_wall_ns: u64) -> Result<u64, RunError> {
        self.update_all(Some((None, FlowChange::Factor(factor))), &[], at_wall_ns)
    }

    /// From an instant on (0: now) flows of templates start otherwise; returns it. Those that are open go on.
    pub fn update_templates(
        &self,
        templates: &[TemplateIndex],
        change: FlowChange,
        at_wall_ns: u64,
    ) -> Result<u64, RunError> {
        self.update_all(Some((Some(templates), change)), &[], at_wall_ns)
    }

    /// The rates that the run would have after what `update_all` changes.
    ///
    /// # Errors
    /// As `update_all`'s, but for those of a run that has ended.
    pub fn rates_after(
        &self,
        flows: Option<(Option<&[TemplateIndex]>, FlowChange)>,
        streams: &[(Vec<StreamIndex>, Change)],
    ) -> Result<Rates, RunError> {
        self.control().rates.after(flows, streams)
    }

    /// The factor of all of the plan's rates that is in force at a wall-clock instant, as changes of all of them have set it.
    pub fn factor_at(&self, wall_ns: u64) -> Ratio {
        self.control().factors.at(wall_ns)
    }

    /// The rates of the run.
    pub fn rates(&self) -> Rates {
        self.control().rates.clone()
    }

    /// Changes how flows of templates start (none given: of all), and streams, at an instant as `update`
    /// does. If any of it is refused, nothing changes.
    pub fn update_all(
        &self,
        flows: Option<(Option<&[TemplateIndex]>, FlowChange)>,
        streams: &[(Vec<StreamIndex>, Change)],
        at_wall_ns: u64,
    ) -> Result<u64, RunError> {
        let mut control = self.control();
        let next = control.rates.after(flows, streams)?;
        self.refuse_ended(&control)?;
        let rows = match flows {
            Some(_) => Some(self.templates.rows(&control.rates.of_templates()?, &next.of_templates()?)?),
            None => None,
        };
        let factor_of_all = control.rates.factor_of_all(flows, streams);
        control.rates = next;
        // Nothing refuses what is left.
        let wall = self.wall(&control);
        let at = self.instant(at_wall_ns, wall);
        let mut effective = 0;
        let mut note = |control: &mut Control| {
            let at_ns = control.clock.ahead(at).map_or(0, |ns| ns.max(0).cast_unsigned()).max(control.last_change_ns);
            control.last_change_ns = at_ns;
            effective = wall.of(control.clock.mono_of(at_ns).unwrap_or(at).max(at)).max(effective);
            at_ns
        };
        if let Some(rows) = rows {
            let at_ns = note(&mut control);
            let factor = control.rates.factor();
            for (worker, flow_schedule) in rows.into_iter().enumerate() {
                self.workers
                    .send(WorkerIndex(worker), Command::FlowRate(self.slot, FlowRate { at_ns, factor, flow_schedule }));
            }
            let Control { rates, flow_pauses, .. } = &mut *control;
            flow_pauses.iter_mut().zip(rates.begin()).for_each(|(pauses, begin)| pauses.note(at_ns, begin));
        }
        for (streams, _) in streams {
            let at_ns = note(&mut control);
            self.change_streams(&mut control, streams, at_ns);
        }
        effective = effective.max(at_wall_ns);
        if let Some(factor) = factor_of_all {
            control.factors.note(effective, factor, self.clock.now_wall_ns());
        }
        Ok(effective)
    }

    /// Sends workers the rates of streams from a time of the run's clock on.
    fn change_streams(&self, control: &mut Control, streams: &[StreamIndex], at_ns: u64) {
        let mut by_port: BTreeMap<PortIndex, Vec<(PortStreamIndex, Option<Rate>)>> = BTreeMap::new();
        for &index in streams {
            let stream = &mut control.streams[index.0];
            let rate = control.rates.streams()[index.0].in_force();
            stream.pauses.note(at_ns, rate.is_some());
            if stream.elsewhere {
                continue;
            }
            if stream.replayed {
                let change = SpeedChange { at_ns, stream: index, speed: rate };
                self.workers.send_all(|| Command::Speed(self.slot, change));
                continue;
            }
            by_port.entry(stream.tx_port).or_default().push((stream.on_port, rate));
        }
        for (port, rates) in by_port {
            let change = RateChange { at_ns, port, rates: rates.into() };
            self.workers.send_all(|| Command::Change(self.slot, change.clone()));
        }
    }
}
