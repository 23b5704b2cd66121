// SPDX-License-Identifier: Apache-2.0
//! Ports as routers: what BIRD shall do for them, and what it does.
//!
//! BIRD is a program of its own, which speaks the protocols by the interfaces that the slow path makes (`--router`). This owns its
//! configuration and its control socket, both in one folder: `bird` reads and writes them, `follow` keeps BIRD doing what it shall and asks
//! it for the state of sessions, `read` takes configurations of the contract, with `passwords` from files.
mod bird;
mod follow;
mod passwords;
mod read;

use super::status::Refusal;
use crate::plan::Violations;
use contract::RoutingProtocol;
use spate_neighbour::Prefix;
use spate_routing::{History, Router, Session, SessionKind, Totals};
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

pub use follow::follow;
pub use passwords::Passwords;

/// The time that a caller waits for BIRD's answer to a configuration.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Where BIRD is.
#[derive(Clone, Debug)]
pub struct Place {
    /// The folder of its configuration (`bird.conf`) and of its control socket (`bird.ctl`).
    pub folder: PathBuf,
    /// Its program, if this process is to run it; none if it runs beside this process.
    pub program: Option<PathBuf>,
}

/// A port that can be a router.
#[derive(Clone, Debug)]
pub struct RouterPort {
    /// Its name.
    pub name: String,
    /// Its interface in the kernel.
    pub interface: String,
    /// Its addresses.
    pub addresses: Vec<Prefix>,
    /// Its gateways.
    pub gateways: Vec<IpAddr>,
}

/// The routers of an engine.
#[derive(Debug)]
pub struct Routing {
    place: Place,
    passwords: Passwords,
    ports: Vec<RouterPort>,
    state: Mutex<State>,
    /// There is something to be done.
    changed: Notify,
    /// Whether BIRD took the latest configuration that it was given.
    outcome: watch::Sender<Outcome>,
}

/// Number of a configuration: each has another.
type Number = u64;

#[derive(Debug, Default)]
struct State {
    /// What BIRD shall do; none: nothing was configured yet.
    wanted: Option<Wanted>,
    /// What it was last seen to do.
    sessions: Vec<Session>,
    history: History,
    /// Since when sessions are in their state, by port and name.
    since: HashMap<(String, String), (String, Instant)>,
    /// Why BIRD cannot be reached.
    unreachable: Option<String>,
}

#[derive(Clone, Debug)]
struct Wanted {
    number: Number,
    routers: Vec<Router>,
}

/// What BIRD made of a configuration.
#[derive(Clone, Debug, Default)]
struct Outcome {
    /// Which it was; none: it has had none since it is reached.
    number: Option<Number>,
    /// Why it was refused, and the router with the refused text, if it is such a text.
    refused: Option<(Option<usize>, String)>,
}

/// A session and what is added up of it.
#[derive(Clone, Debug)]
pub struct Known {
    /// As it was last seen.
    pub session: Session,
    /// Over all its starts.
    pub totals: Totals,
    /// How long it has been in its state.
    pub lasting: Duration,
}

impl Routing {
    /// Of these ports; BIRD has nothing to do yet.
    pub fn new(place: Place, passwords: Passwords, ports: Vec<RouterPort>) -> Self {
        let state = State { unreachable: Some("BIRD was not reached yet".into()), ..State::default() };
        let outcome = watch::channel(Outcome::default()).0;
        Self { place, passwords, ports, state: Mutex::new(state), changed: Notify::new(), outcome }
    }

    /// Sets the sessions of all ports. The same again changes nothing.
    ///
    /// # Errors
    /// If something is wrong with them, or BIRD refuses them. While BIRD cannot be reached, what it would refuse is not known yet.
    pub async fn configure(&self, routing: &contract::Routing) -> Result<(), Refusal> {
        let number = self.want(read::routers(routing, &self.ports, &self.passwords)?);
        match self.outcome_of(number).await.and_then(|outcome| outcome.refused) {
            None => Ok(()),
            Some((Some(router), why)) => {
                let field = read::field(&format!("routers[{router}].extra_config"));
                Err(Violations::one(field, format!("BIRD refuses it: {why}")).into())
            }
            Some((None, why)) => Err(Refusal::State(format!("BIRD refuses its configuration: {why}"))),
        }
    }

    /// Notes what BIRD shall do; the number of that configuration.
    fn want(&self, routers: Vec<Router>) -> Number {
        let mut state = lock(&self.state);
        let number = match &state.wanted {
            Some(wanted) if wanted.routers == routers => return wanted.number,
            Some(wanted) => wanted.number + 1,
            None => 0,
        };
        state.wanted = Some(Wanted { number, routers });
        self.changed.notify_one();
        number
    }

    /// What BIRD makes of a configuration; none while it cannot be reached.
    async fn outcome_of(&self, number: Number) -> Option<Outcome> {
        if lock(&self.state).unreachable.is_some() {
            return None;
        }
        let mut outcomes = self.outcome.subscribe();
        let outcome = async {
            let outcome = outcomes.wait_for(|outcome| outcome.number == Some(number)).await;
            outcome.ok().map(|outcome| outcome.clone())
        };
        tokio::time::timeout(ANSWER_LIMIT, outcome).await.ok().flatten()
    }

    /// All sessions in the order of their configuration.
    pub fn sessions(&self) -> Vec<Known> {
        let state = lock(&self.state);
        let known = |session: &Session| Known {
            session: session.clone(),
            totals: state.history.totals(session),
            lasting: state.since.get(&key(session)).map_or(Duration::ZERO, |(_, since)| since.elapsed()),
        };
        state.sessions.iter().map(known).collect()
    }

    /// Whether BIRD has what was configured.
    pub fn info(&self) -> contract::RoutingInfo {
        let outcome = self.outcome.borrow().clone();
        let state = lock(&self.state);
        let refused = outcome.refused.as_ref().map(|(_, why)| format!("BIRD refuses its configuration: {why}"));
        contract::RoutingInfo { problem: state.unreachable.clone().or(refused).unwrap_or_default() }
    }

    /// Sessions as they are now.
    fn note(&self, sessions: Vec<Session>) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        let mut before = std::mem::take(&mut state.since);
        for session in &sessions {
            let lasting = before.remove(&key(session)).filter(|(was, _)| *was == session.state);
            if lasting.is_none() {
                let Session { port, name, state, last_error, .. } = session;
                tracing::info!(port, session = name, kind = session.kind.name(), state, last_error, "session");
            }
            let since = lasting.unwrap_or_else(|| (session.state.clone(), now));
            state.since.insert(key(session), since);
        }
        state.history.note(&sessions);
        state.sessions = sessions;
    }
}

fn key(session: &Session) -> (String, String) {
    (session.port.clone(), session.name.clone())
}

/// A session as it is reported.
pub fn reported(known: &Known) -> contract::RoutingSession {
    let Known { session, totals, lasting } = known;
    contract::RoutingSession {
        name: session.name.clone(),
        protocol: match session.kind {
            SessionKind::Bgp => RoutingProtocol::Bgp,
            SessionKind::Ospf => RoutingProtocol::Ospf,
            SessionKind::Rip => RoutingProtocol::Rip,
            SessionKind::Bfd => RoutingProtocol::Bfd,
        }
        .into(),
        up: session.up,
        state: session.state.clone(),
        for_s: u32::try_from(lasting.as_secs()).unwrap_or(u32::MAX),
        last_error: session.last_error.clone().unwrap_or_default(),
        flaps: totals.flaps,
        routes_received: session.received,
        routes_sent: session.sent,
        updates_received: totals.updates_received,
        updates_sent: totals.updates_sent,
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
