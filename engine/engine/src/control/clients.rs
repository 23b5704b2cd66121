// SPDX-License-Identifier: Apache-2.0
//! Emulated clients of a run: they start when it is prepared, and leave when it is removed.
use crate::datapath::{Clients, ClientsError, Datapath, LeasedPool};
use crate::plan::Violations;
use crate::plan::clients::CheckedClients;
use crate::plan::stateful::leased;
use contract::Plan;
use spate_clients::{Cause, State};
use spate_stateful::FieldPath;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A group of emulated clients of a run.
#[derive(Debug)]
pub struct EmulatedClients {
    clients: Clients,
    /// Clients that must be bound before it is ready.
    least: u32,
    /// Which of their addresses are those of pools: those of IPv6, or of IPv4. As many clients must know their gateways for these.
    families: Vec<bool>,
    /// As many have known them.
    found: AtomicBool,
    /// The time until it must be ready.
    pub timeout: Duration,
}

/// Starts the clients of a plan without fault.
///
/// # Errors
/// If a port has other clients with these MACs.
pub fn start(
    datapath: &Datapath,
    plan: &Plan,
    groups: Vec<CheckedClients>,
) -> Result<Vec<Arc<EmulatedClients>>, Violations> {
    let mut started = Vec::new();
    for (i, CheckedClients { spec, least, timeout }) in groups.into_iter().enumerate() {
        let clients = datapath.emulate(spec).map_err(|error| refused(i, error))?;
        let of_group = |(_, name, v6)| (name == clients.name()).then_some(v6);
        let families = plan.stateful.iter().flat_map(leased::groups).filter_map(of_group).collect();
        let found = AtomicBool::new(false);
        started.push(Arc::new(EmulatedClients { clients, least, families, found, timeout }));
    }
    Ok(started)
}

/// Pools of a plan without fault that are of its emulated clients.
pub fn pools(plan: &Plan, clients: &[Arc<EmulatedClients>]) -> Vec<LeasedPool> {
    let of = |(pool, name, v6)| {
        let group = clients.iter().find(|group| group.clients.name() == name)?;
        Some(LeasedPool { pool, v6, group: group.clients.group() })
    };
    plan.stateful.iter().flat_map(leased::groups).filter_map(of).collect()
}

fn refused(group: usize, error: ClientsError) -> Violations {
    let at = FieldPath::from("clients").index(group);
    match error {
        ClientsError::Config(error) => Violations::one(at.join(&error.field), error.problem),
        ClientsError::PortMac { .. } | ClientsError::Overlap { .. } => {
            Violations::one(at.field("mac.first"), error.to_string())
        }
        ClientsError::System(problem) => Violations::one(at, problem),
    }
}

impl EmulatedClients {
    /// The clients.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Whether as many clients are bound as the plan wants before the start.
    pub fn is_ready(&self) -> bool {
        self.usable() >= u64::from(self.least) && self.know_gateways()
    }

    /// Whether as many know where their gateways are, or have known it, if flows come from them.
    fn know_gateways(&self) -> bool {
        let group = self.clients.group();
        let known = |v6: &bool| {
            let sources = if *v6 { group.sources6() } else { group.sources4() };
            sources.iter().filter(|source| source.next_hop.is_some()).count() >= self.least as usize
        };
        if !self.found.load(Ordering::Relaxed) && !self.families.iter().all(known) {
            return false;
        }
        self.found.store(true, Ordering::Relaxed);
        true
    }

    /// Clients that have their addresses.
    fn usable(&self) -> u64 {
        let counters = self.clients.counters();
        State::ALL.iter().filter(|state| state.is_usable()).map(|state| counters.clients(*state)).sum()
    }
}

/// How far it is, with the states and causes of the clients that are not bound.
impl fmt::Display for EmulatedClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (counters, count) = (self.clients.counters(), self.clients.count());
        write!(
            f,
            "clients {:?}: {} of {count} are bound, at least {}",
            self.clients.name(),
            self.usable(),
            self.least
        )?;
        write!(f, " must be")?;
        for state in State::ALL.iter().filter(|state| !state.is_usable() && counters.clients(**state) > 0) {
            write!(f, "; {state} {}", counters.clients(*state))?;
        }
        for cause in Cause::ALL.iter().filter(|cause| counters.failed(**cause) > 0) {
            write!(f, "; {cause} {}", counters.failed(*cause))?;
        }
        if self.usable() >= u64::from(self.least) && !self.know_gateways() {
            write!(f, "; as many must know where their gateways are")?;
        }
        Ok(())
    }
}
