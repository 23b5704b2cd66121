// SPDX-License-Identifier: Apache-2.0
//! Emulated clients of a run: they start when it is prepared, and leave when it is removed.
use crate::datapath::{Clients, ClientsError, Datapath};
use crate::plan::Violations;
use crate::plan::clients::CheckedClients;
use spate_clients::{Cause, State};
use spate_stateful::FieldPath;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A group of emulated clients of a run.
#[derive(Debug)]
pub struct EmulatedClients {
    clients: Clients,
    /// Clients that must be bound before it is ready.
    least: u32,
    /// The time until it must be ready.
    pub timeout: Duration,
}

/// Starts the clients of a plan without fault.
///
/// # Errors
/// If a port has other clients with these MACs.
pub fn start(datapath: &Datapath, groups: Vec<CheckedClients>) -> Result<Vec<Arc<EmulatedClients>>, Violations> {
    let mut started = Vec::new();
    for (i, CheckedClients { spec, least, timeout }) in groups.into_iter().enumerate() {
        let clients = datapath.emulate(spec).map_err(|error| refused(i, error))?;
        started.push(Arc::new(EmulatedClients { clients, least, timeout }));
    }
    Ok(started)
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
        self.usable() >= u64::from(self.least)
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
        Ok(())
    }
}
