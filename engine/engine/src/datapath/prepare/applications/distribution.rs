// SPDX-License-Identifier: Apache-2.0
//! Which worker begins which flows of the clients, and serves which of the servers'.
use std::{collections::BTreeMap, sync::Arc};

use spate_net::spread;
use spate_stateful::{
    Emulation, FieldPath, Scenario, Template, WeightedPool,
    emulation::OwnsReplies,
    tuples::{Sharding, Share},
};

use super::{name, refused, sorted};
use crate::datapath::{
    PrepareError, RunSpec, StatefulSpec,
    open::OpenPort,
    prepare::{Context, late_after_ns},
};
use crate::index::{TemplateIndex, WorkerIndex, WorkerRange};

/// The workers that start flows: those to which replies can come. Those of a group share out the flows of its ports' clients evenly.
pub(super) struct ClientWorkers {
    /// Workers by port, in ascending order.
    pub(super) by_port: Vec<Vec<WorkerIndex>>,
    /// By port: the workers of its group.
    groups: Vec<WorkerRange>,
    /// The first port with clients.
    first: Option<usize>,
}

impl ClientWorkers {
    pub(super) fn of(context: &Context<'_>, scenario: &Scenario) -> Result<Self, PrepareError> {
        let by_port: Vec<_> = context.ports.iter().map(|port| sorted(port.rx_workers.clone())).collect();
        let groups: Vec<_> = context.ports.iter().map(|port| port.group.clone()).collect();
        let mut first = BTreeMap::new();
        for (index, template) in scenario.templates.iter().enumerate() {
            let Some(port) = template.client.as_ref().map(|client| client.port) else { continue };
            let field = TemplateIndex(index).path().field("client_port");
            let other = *first.entry(groups[port].first()).or_insert(port);
            let (these, those) = (&by_port[port], &by_port[other]);
            if these.is_empty() {
                let problem = format!("{} receives nothing, so that no reply comes", name(context, port));
                return Err(refused(field, problem));
            }
            // Each flow's worker is found without asking others only if all clients are shared out in one way.
            if these != those && (these.len() > 1 || those.len() > 1) {
                let [these, those] = [these, those].map(|all| all.iter().map(|worker| worker.0).collect::<Vec<_>>());
                let problem = format!(
                    "workers {these:?} receive from {}, and {those:?} from {}, where other clients are: put both on ports whose \
                     devices share packets out to as many workers, or run one worker",
                    name(context, port),
                    name(context, other)
                );
                return Err(refused(field, problem));
            }
        }
        refuse_twins(context, scenario, &groups)?;
        let first = scenario.templates.iter().find_map(|template| Some(template.client.as_ref()?.port));
        Ok(Self { by_port, groups, first })
    }

    /// What a worker emulates; none if it has nothing to do with it.
    pub(super) fn scenario(
        &self,
        worker: WorkerIndex,
        context: &Context<'_>,
        all: &Arc<Scenario>,
    ) -> Option<Arc<Scenario>> {
        let begins =
            |template: &Template| template.client.as_ref().is_some_and(|c| self.by_port[c.port].contains(&worker));
        let serves = |template: &Template| {
            template.server.as_ref().is_some_and(|server| context.ports[server.port].rx_workers.contains(&worker))
        };
        if all.templates.iter().all(|template| template.client.is_none() || begins(template)) {
            return Some(Arc::clone(all)).filter(|all| all.templates.iter().any(|t| begins(t) || serves(t)));
        }
        if !all.templates.iter().any(|template| begins(template) || serves(template)) {
            return None;
        }
        let mut part = Scenario::clone(all);
        for template in part.templates.iter_mut().filter(|template| !begins(template)) {
            template.client = None;
        }
        Some(Arc::new(part))
    }

    /// Which of all flows a worker begins; or where there are servers only, serves.
    pub(super) fn share(&self, worker: WorkerIndex, scenario: &Scenario) -> Share {
        let (rank, clients) = self.place(worker, scenario);
        Share::of_engine(rank as u64, clients as u64, scenario.client_part())
    }

    /// A worker's index among those that share its clients' flows, and how many these are.
    fn place(&self, worker: WorkerIndex, scenario: &Scenario) -> (usize, usize) {
        let client = scenario.templates.iter().find_map(|template| Some(template.client.as_ref()?.port));
        let server = || {
            let served = scenario.templates.iter().filter_map(|template| Some(template.server.as_ref()?.port));
            served.into_iter().find(|port| self.groups[*port].contains(worker))
        };
        // Where it has servers only, and all clients are of other groups, it numbers these servers' flows.
        let port = match (client, self.first) {
            (Some(port), _) => Some(port),
            (None, Some(first)) if !self.groups[first].contains(worker) => server(),
            (None, first) => first.or_else(server),
        };
        let Some(clients) = port.map(|port| &self.by_port[port]) else { return (0, 1) };
        (clients.iter().position(|client| *client == worker).unwrap_or(0), clients.len())
    }

    pub(super) fn emulation(
        &self,
        worker: WorkerIndex,
        context: &Context<'_>,
        spec: &RunSpec,
        asked: &StatefulSpec,
        scenario: &Arc<Scenario>,
    ) -> Result<Emulation, PrepareError> {
        let share = self.share(worker, scenario);
        // Servers alone have no tuples to distribute.
        let shared_out = self.first.is_some() && self.place(worker, scenario).1 > 1;
        let sharding = if shared_out { Sharding::ByHash } else { Sharding::ByNumber };
        let now_ns = context.clock.mono_ns();
        let seed = secret_seed()?;
        let owned = owns_replies(worker, context.ports);
        let clients = scenario.templates.iter().filter_map(|template| template.client.as_ref());
        let late_after_ns = clients.map(|client| late_after_ns(spec, &context.ports[client.port])).max();
        let made = Emulation::new(Arc::clone(scenario), share, sharding, owned, &asked.links, seed, now_ns);
        let mut emulation =
            made.map_err(|error| refused(FieldPath::from("stateful").join(&error.field()), error.to_string()))?;
        for (port, _) in context.ports.iter().enumerate().filter(|(_, port)| port.config.any_mac) {
            emulation.accept_any_mac(port);
        }
        for (port, neighbours) in asked.on_link.neighbours.iter().enumerate() {
            emulation.set_neighbours(port, Arc::clone(neighbours));
        }
        Ok(match late_after_ns {
            Some(late_after_ns) => emulation.late_after(late_after_ns),
            None => emulation,
        })
    }
}

/// Refuses clients in several groups that could open the same connection twice: workers of one group do not know which of their
/// ports those of another take.
fn refuse_twins(context: &Context<'_>, scenario: &Scenario, groups: &[WorkerRange]) -> Result<(), PrepareError> {
    let overlap = |these: &[WeightedPool], those: &[WeightedPool]| {
        let pools =
            |all: &[WeightedPool]| all.iter().map(|weighted| &scenario.pools[weighted.pool]).collect::<Vec<_>>();
        let those = pools(those);
        pools(these).into_iter().any(|pool| those.iter().any(|other| pool.overlaps(other)))
    };
    let started = scenario.templates.iter().enumerate().filter_map(|(i, t)| Some((i, t, t.client.as_ref()?.port)));
    for (index, template, port) in started.clone() {
        let twin = started.clone().take_while(|(other, ..)| *other < index).find(|(_, other, other_port)| {
            groups[*other_port] != groups[port]
                && (other.protocol, other.destination_port) == (template.protocol, template.destination_port)
                && overlap(&other.clients, &template.clients)
                && overlap(&other.servers, &template.servers)
        });
        if let Some((other, _, other_port)) = twin {
            let problem = format!(
                "clients of templates[{other}] have the same addresses on port {}, which other workers serve than port {}, and could open \
                 the same connections: give the clients of each worker group addresses of their own",
                name(context, other_port),
                name(context, port)
            );
            return Err(refused(TemplateIndex(index).path().field("clients"), problem));
        }
    }
    Ok(())
}

/// The secret from which initial sequence numbers and the positions of flows in the table are computed (RFC 6528).
fn secret_seed() -> Result<u128, PrepareError> {
    let mut seed = [0; 16];
    getrandom::fill(&mut seed).map_err(|error| PrepareError {
        field: "stateful".into(),
        problem: format!("no random numbers for initial sequence numbers: {error}"),
        exhausted: true,
    })?;
    Ok(u128::from_le_bytes(seed))
}

/// Decides whether replies come to a worker: ports spread by addresses and ports.
fn owns_replies(worker: WorkerIndex, ports: &[OpenPort]) -> Box<OwnsReplies> {
    let queues: Vec<Vec<WorkerIndex>> = ports.iter().map(|port| port.rx_workers.clone()).collect();
    Box::new(move |port, destination_port, tuple| {
        let workers = &queues[port];
        let (client, server) = ((tuple.client.into(), tuple.source_port), (tuple.server.into(), destination_port));
        workers[spread::queue_between(server, client, workers.len())] == worker
    })
}
