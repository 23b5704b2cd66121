// SPDX-License-Identifier: Apache-2.0
//! Leased addresses of a run's clients: workers get those of a pool when they have changed.
use std::sync::Arc;

use spate_clients::Source;
use spate_dpdk::on_own_lines;
use spate_stateful::{LeasedAddress, LeasedAddresses};

use super::Run;
use crate::datapath::{
    clients::GroupView,
    worker::{Command, NewLeasedAddresses},
};
use crate::{index::PoolIndex, lock::lock};

/// Least time from when workers get a pool's leased addresses to when they get them again.
const INTERVAL_NS: u64 = 1_000_000_000;

/// A pool whose clients have the addresses of emulated clients.
#[derive(Clone, Debug)]
pub struct LeasedPool {
    /// The pool.
    pub pool: PoolIndex,
    /// Whether the addresses are of IPv6.
    pub v6: bool,
    /// The clients.
    pub group: GroupView,
}

/// A leased pool of a run.
#[derive(Debug)]
pub(super) struct Followed {
    of: LeasedPool,
    /// Generation of the clients' addresses that workers have; none: they have none yet.
    generation: Option<u64>,
    /// When they get them again, if they change.
    next_ns: u64,
}

impl Run {
    /// The clients of these pools have the addresses of emulated clients from now on.
    pub fn set_leased(&self, pools: Vec<LeasedPool>) {
        let followed = |of| Followed { of, generation: None, next_ns: 0 };
        *lock(&self.leased) = pools.into_iter().map(followed).collect();
        self.follow_all_leased();
    }

    /// Passes leased addresses that have changed to the workers, but those that were passed just before.
    pub(in crate::datapath) fn follow_leased(&self, now_ns: u64) {
        self.pass_leased(now_ns, |pool| now_ns >= pool.next_ns);
    }

    /// Passes leased addresses that have changed to the workers, also those that were passed just before.
    pub(super) fn follow_all_leased(&self) {
        self.pass_leased(self.clock.mono_ns(), |_| true);
    }

    fn pass_leased(&self, now_ns: u64, is_due: impl Fn(&Followed) -> bool) {
        let mut leased = lock(&self.leased);
        if leased.is_empty() {
            return;
        }
        if self.is_removed() {
            leased.clear();
            return;
        }
        for pool in leased.iter_mut().filter(|pool| is_due(pool)) {
            // What changes while they are read has another generation, and is passed the next time.
            let generation = pool.of.group.generation();
            if pool.generation == Some(generation) {
                continue;
            }
            (pool.generation, pool.next_ns) = (Some(generation), now_ns + INTERVAL_NS);
            let leased = on_own_lines(|| Arc::new(pool.of.read()));
            tracing::debug!(
                run = self.id,
                pool = pool.of.pool.0,
                clients = leased.count(),
                "leased addresses have changed"
            );
            for worker in self.templates.emulating() {
                let leased = [Arc::clone(&leased), Arc::clone(&leased)];
                let new = NewLeasedAddresses { pool: pool.of.pool.0, leased };
                self.workers.send(worker, Command::LeasedAddresses(self.slot, Box::new(new)));
            }
        }
    }
}

impl LeasedPool {
    /// Clients that know where their gateway is: others cannot send.
    fn read(&self) -> LeasedAddresses {
        let sources = if self.v6 { self.group.sources6() } else { self.group.sources4() };
        let lease = |source: &Source| {
            let lease = LeasedAddress { address: source.address, gateway: source.next_hop? };
            Some((source.index, lease))
        };
        LeasedAddresses::new(self.group.count() as usize, sources.iter().filter_map(lease))
    }
}
