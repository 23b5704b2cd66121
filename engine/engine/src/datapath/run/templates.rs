// SPDX-License-Identifier: Apache-2.0
//! The templates of a run as control reads them: counters, times, gaps, and whether the counters contradict each other.
use std::sync::Arc;

use spate_stateful::{
    Count, Counters, Emulation, Pool, Ratio, Scenario,
    arrivals::{FlowSchedule, TimingError},
    tuples::Share,
};
use spate_stats::{Silence, Timed, Times};

use crate::datapath::{ProgramCounter, Steering, TemplateCounters, TemplateTimes, worker::HandoffShare};
use crate::index::{PortIndex, TemplateIndex, WorkerIndex};

/// What control has to know of a run's templates.
#[derive(Debug, Default)]
pub(in crate::datapath) struct Templates {
    pub(in crate::datapath) sides: Vec<Side>,
    /// Workers that emulate flows, and their counters of frames handed to each other, if they hand off any.
    pub(in crate::datapath) workers: Vec<(WorkerIndex, Option<Arc<HandoffShare>>)>,
    /// Whether the run's clients and servers send to each other alone, over TCP: both sides of all templates are on this engine.
    pub(in crate::datapath) among_themselves: bool,
    /// Addresses that they answer for, by port.
    pub(in crate::datapath) claims: Vec<(PortIndex, Pool)>,
    /// By worker: its part of the scenario and its share of the flows.
    pub(in crate::datapath) parts: Vec<Option<(Arc<Scenario>, Share)>>,
    /// How long after the last open flow ended nothing more can come, if that is known.
    pub(in crate::datapath) linger_ns: Option<u64>,
}

/// One side of a template.
#[derive(Debug)]
pub(in crate::datapath) struct Side {
    pub(in crate::datapath) name: String,
    pub(in crate::datapath) group: String,
    pub(in crate::datapath) client: bool,
    pub(in crate::datapath) template: TemplateIndex,
    /// Whether the template has a maximum of flows in all.
    pub(in crate::datapath) limited: bool,
    /// Names of its program's counters.
    pub(in crate::datapath) programs: Box<[String]>,
    /// Counters, one for each of those workers.
    pub(in crate::datapath) counters: Vec<Arc<Counters>>,
}

impl Templates {
    /// What each side counted, clients of a template before its servers.
    pub(in crate::datapath) fn read(&self) -> Vec<TemplateCounters> {
        let read = |side: &Side| {
            let mut counts = vec![0; spate_stateful::COUNTERS.len()];
            let mut warmup = counts.clone();
            let named = |name: &String| ProgramCounter { name: name.clone(), count: 0, warmup: 0 };
            let mut programs: Vec<_> = side.programs.iter().map(named).collect();
            for counters in &side.counters {
                for (sum, (count, before)) in programs.iter_mut().zip(counters.programs()) {
                    sum.count += count;
                    sum.warmup += before;
                }
                let (all, before) = counters.phases();
                counts.iter_mut().zip(all).for_each(|(sum, count)| *sum += count);
                warmup.iter_mut().zip(before).for_each(|(sum, count)| *sum += count);
            }
            TemplateCounters {
                name: side.name.clone(),
                group: side.group.clone(),
                client: side.client,
                open: side.counters.iter().map(|counters| counters.open()).sum(),
                counts,
                warmup,
                programs,
            }
        };
        self.sides.iter().map(read).collect()
    }

    /// Steering of packets, by worker.
    pub(in crate::datapath) fn steering(&self) -> Vec<Steering> {
        let of = |(rank, (worker, handoff)): (usize, &(WorkerIndex, Option<Arc<HandoffShare>>))| {
            let received = |client: bool| -> u64 {
                let sides = self.sides.iter().filter(|side| side.client == client);
                sides.map(|side| side.counters[rank].get(Count::ReceivedPackets)).sum()
            };
            let handed = |count: fn(&HandoffShare) -> u64| handoff.as_deref().map_or(0, count);
            Steering {
                worker: *worker,
                rss: received(true).saturating_sub(handed(|share| share.met.get())),
                placed: received(false),
                handed_off: handed(|share| share.sent.get()),
                handoff_lost: handed(|share| share.lost.get()),
            }
        };
        self.workers.iter().enumerate().map(of).collect()
    }

    /// How long things took on each side, in the order of `read`.
    pub(in crate::datapath) fn times(&self) -> Vec<TemplateTimes> {
        let of = |side: &Side, times: fn(&Counters) -> Option<&Times>| {
            let all = side.counters.iter().filter_map(|counters| times(counters));
            all.clone().next().is_some().then(|| Timed::read(all))
        };
        let read = |side| TemplateTimes {
            connect: of(side, Counters::connect_times),
            round_trip: of(side, Counters::round_trips),
        };
        self.sides.iter().map(read).collect()
    }

    /// Number of templates.
    pub(in crate::datapath) fn count(&self) -> usize {
        self.sides.iter().map(|side| side.template.0 + 1).max().unwrap_or(0)
    }

    /// When no packet of its flows arrived on each side, in the order of `read`: the template, whether it has a maximum of
    /// flows, and what all workers together know.
    pub(in crate::datapath) fn silences(&self) -> impl Iterator<Item = (TemplateIndex, bool, Silence)> + '_ {
        self.sides.iter().map(|side| {
            let received = side.counters.iter().filter_map(|counters| counters.silence());
            (side.template, side.limited, received.fold(Silence::whole(), |whole, one| whole.and(&one)))
        })
    }

    /// Number of sides.
    pub(in crate::datapath) fn sides(&self) -> usize {
        self.sides.len()
    }

    /// Number of sides of which several workers receive packets.
    pub(in crate::datapath) fn shared_sides(&self) -> usize {
        self.shared().count()
    }

    fn shared(&self) -> impl Iterator<Item = &Side> {
        self.sides.iter().filter(|side| side.counters.len() > 1)
    }

    /// What was received on each side until an instant is collected: workers need not keep gaps that ended until then. A worker that alone
    /// receives a side keeps its longest gaps, which is enough.
    pub(in crate::datapath) fn gaps_collected(&self, until_ns: u64) {
        self.shared().flat_map(|side| &side.counters).for_each(|counters| counters.gaps_collected(until_ns));
    }

    /// Contradictions once nothing changes any more: each flow that began must have ended or be open, and nothing is received that
    /// was not sent. Servers count together: the first bytes of a flow may assign it to another template.
    pub(in crate::datapath) fn contradictions(&self) -> Vec<String> {
        let all = self.read();
        let mut found = Vec::new();
        let mut started = |name: &str, what: &str, started: u64, closed: u64, open: u64| {
            if started != closed + open {
                found.push(format!("{name}: {started} {what}, but {closed} flows_closed and {open} open"));
            }
        };
        for side in all.iter().filter(|side| side.client) {
            let came = side.get(Count::FlowsAttempted) + side.get(Count::SwitchedIn);
            let gone = side.get(Count::FlowsClosed) + side.get(Count::SwitchedOut);
            started(&side.name, "flows_attempted", came, gone, side.open);
        }
        let sum = |client: bool, count: Count| -> u64 {
            all.iter().filter(|side| side.client == client).map(|side| side.get(count)).sum()
        };
        let open = all.iter().filter(|side| !side.client).map(|side| side.open).sum();
        started("servers", "flows_accepted", sum(false, Count::FlowsAccepted), sum(false, Count::FlowsClosed), open);
        for (client, receivers) in [(true, "clients"), (false, "servers")].into_iter().filter(|_| self.among_themselves)
        {
            let (received, queued) = (sum(client, Count::ReceivedDataBytes), sum(!client, Count::QueuedBytes));
            if received > queued {
                found.push(format!("{receivers}: {received} bytes received, but the others queued {queued}"));
            }
        }
        found
    }

    #[cfg(test)]
    pub(in crate::datapath) fn falsify_counters(&self) {
        self.sides.iter().for_each(|side| side.counters[0].one(Count::FlowsClosed));
    }

    /// By worker: the schedule by which flows start at other rates, in the scenario's order; none where the rates are the same.
    pub(super) fn rows(
        &self,
        before: &[Ratio],
        after: &[Ratio],
    ) -> Result<Vec<Option<Box<FlowSchedule>>>, TimingError> {
        let flow_schedule = |part: &Option<(Arc<Scenario>, Share)>| match part {
            Some((scenario, share)) if before != after => Emulation::flow_schedule(scenario, after, *share).map(Some),
            _ => Ok(None),
        };
        self.parts.iter().map(flow_schedule).collect()
    }

    /// Workers that emulate flows.
    pub(in crate::datapath) fn emulating(&self) -> impl Iterator<Item = WorkerIndex> {
        self.workers.iter().map(|(worker, _)| *worker)
    }

    pub(in crate::datapath) fn is_empty(&self) -> bool {
        self.sides.is_empty()
    }

    /// Whether a flow is open, those in TIME-WAIT not among them.
    pub(in crate::datapath) fn any_open(&self) -> bool {
        self.sides.iter().flat_map(|side| &side.counters).any(|counters| counters.open() > 0)
    }

    /// How long after the last open flow ended nothing more can come for one; none: that is not known.
    pub(in crate::datapath) fn linger_ns(&self) -> Option<u64> {
        self.linger_ns
    }

    /// Whether they use a port.
    pub(in crate::datapath) fn use_port(&self, port: PortIndex) -> bool {
        self.claims.iter().any(|(claimed, _)| *claimed == port)
    }

    /// Whether they answer for an address of a pool on a port.
    pub(in crate::datapath) fn claim(&self, port: PortIndex, pool: &Pool) -> bool {
        self.claims.iter().any(|(claimed, other)| *claimed == port && other.overlaps(pool))
    }
}
