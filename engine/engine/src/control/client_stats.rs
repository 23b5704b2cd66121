// SPDX-License-Identifier: Apache-2.0
//! Emulated clients as the contract says them.
use super::clients::EmulatedClients;
use super::latency;
use super::runs::Held;
use contract::{ClientGroupStats, LatencyStats, NamedCounter, SetupRate};
use spate_clients::{COUNTERS, Cause, Counters, State};
use spate_stats::{Timed, Times};

/// The groups of clients of a run, in the plan's order; none once it is removed.
pub fn stats(held: &Held) -> Vec<ClientGroupStats> {
    held.clients().iter().map(|group| of(held, group)).collect()
}

fn of(held: &Held, group: &EmulatedClients) -> ClientGroupStats {
    let (clients, counters) = (group.clients(), group.clients().counters());
    let timed = |times: &Times| {
        let timed = Timed::read([times].into_iter());
        let distribution = held.has_distributions().then(|| latency::distribution(&timed.distribution));
        LatencyStats { distribution, ..latency::timed(&timed) }
    };
    ClientGroupStats {
        name: clients.name().to_owned(),
        wanted: clients.count(),
        ready: group.is_ready(),
        states: states(counters),
        causes: causes(counters),
        counters: counts(counters),
        setup_time: Some(timed(counters.setup())),
        offer_time: Some(timed(counters.offer())),
        ack_time: Some(timed(counters.ack())),
        setup_rate: counters.rate().get().map(|(min, mean, max)| SetupRate { min, mean, max }),
        frames_lost: clients.frames_lost(),
    }
}

/// Clients by state: all states.
pub fn states(counters: &Counters) -> Vec<NamedCounter> {
    State::ALL.iter().map(|state| named(state, counters.clients(*state))).collect()
}

/// Clients that have failed, by cause: those that there are.
pub fn causes(counters: &Counters) -> Vec<NamedCounter> {
    let all = Cause::ALL.iter().map(|cause| named(cause, counters.failed(*cause)));
    all.filter(|counter| counter.value > 0).collect()
}

/// Counts that are not 0.
pub fn counts(counters: &Counters) -> Vec<NamedCounter> {
    let all = COUNTERS.iter().zip(counters.all()).map(|((name, _), value)| named(name, value));
    all.filter(|counter| counter.value > 0).collect()
}

fn named(name: &impl ToString, value: u64) -> NamedCounter {
    NamedCounter { name: name.to_string(), value }
}
