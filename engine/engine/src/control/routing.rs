// SPDX-License-Identifier: Apache-2.0
//! Ports as routers: what BIRD shall do for them, and what it does.
//!
//! BIRD is a program of its own, which speaks the protocols by the interfaces that the slow path makes (`--router`). This owns its
//! configuration and its control socket, both in one folder: `bird` reads and writes them, `follow` keeps BIRD doing what it shall and asks
//! it for the state of sessions, `read` takes configurations of the contract, with `passwords` from files. `advertised` has the routes of
//! runs, which `routes` reads from plans, and when they are sent, for which `connections` asks the kernel; `ended` withdraws them. `learned`
//! lists the routes of neighbors.
mod advertised;
mod bird;
mod connections;
mod ended;
mod follow;
mod learned;
mod passwords;
mod read;
mod routes;

use super::status::Refusal;
use crate::lock::lock;
use crate::plan::Violations;
use advertised::Advertised;
use contract::RoutingProtocol;
use spate_neighbour::Prefix;
use spate_routing::{
    Connection, History, Outgoing, RouteSet, Router, Sending, Session, SessionKind, Totals, configured,
};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

pub use advertised::Routes;
pub use ended::withdraw_ended;
pub use follow::follow;
pub use learned::LearnedLists;
pub use passwords::Passwords;

/// The time that a caller waits for BIRD's answer to a configuration.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// The longest time in which sessions end when the engine does.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);

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

/// Port and name of a session.
type Key = (String, String);

#[derive(Debug, Default)]
struct State {
    /// What BIRD shall do; none: nothing was configured yet.
    wanted: Option<Arc<Wanted>>,
    /// Routes of runs, by the run's id.
    runs: BTreeMap<String, Advertised>,
    /// Number of the last run that had routes.
    last_run: Option<u32>,
    /// What BIRD was last seen to do,
    sessions: Vec<Session>,
    /// and with which configuration; none: it is not reached.
    seen: Option<Number>,
    sending: Sending,
    connections: HashMap<Key, Connection>,
    /// Why connections are not known.
    connections_problem: Option<String>,
    history: History,
    /// Since when sessions are in their state.
    since: HashMap<Key, (String, Instant)>,
    /// Why BIRD cannot be reached.
    unreachable: Option<String>,
}

#[derive(Debug)]
struct Wanted {
    number: Number,
    routers: Vec<Router>,
    /// Of all runs.
    routes: Vec<RouteSet>,
}

/// What BIRD was seen to do.
struct Seen {
    sessions: Vec<Session>,
    /// Connections of BGP, or why they are not known.
    connections: Result<HashMap<Key, Connection>, String>,
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
    /// Routes that it is to send.
    pub configured: u64,
    /// Bytes that were written to its connection, and not acknowledged.
    pub unacknowledged: u64,
    /// Whether it has sent all that it is to send.
    pub all_sent: bool,
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

    /// Ends all sessions when the engine ends, within two seconds. Neighbors are notified (of BGP by CEASE, RFC 4486) while the ports are
    /// open; BIRD goes on.
    pub async fn leave(&self) {
        let files = bird::Files::of(&self.place);
        match tokio::time::timeout(LEAVE_LIMIT, bird::end_sessions(&files)).await {
            Ok(Ok(())) => tracing::info!("sessions have ended"),
            Ok(Err(error)) => tracing::warn!(%error, "neighbors are not notified of the end"),
            Err(_) => tracing::warn!("not all sessions have ended within {LEAVE_LIMIT:?}"),
        }
    }

    /// Notes what BIRD shall do; the number of that configuration.
    fn want(&self, routers: Vec<Router>) -> Number {
        let mut state = lock(&self.state);
        match &state.wanted {
            Some(wanted) if wanted.routers == routers => wanted.number,
            _ => {
                let number = state.want(routers);
                self.changed.notify_one();
                number
            }
        }
    }

    /// What BIRD makes of a configuration, or of one after it; none while it cannot be reached.
    async fn outcome_of(&self, number: Number) -> Option<Outcome> {
        if lock(&self.state).unreachable.is_some() {
            return None;
        }
        let mut outcomes = self.outcome.subscribe();
        let outcome = async {
            let outcome = outcomes.wait_for(|outcome| outcome.number >= Some(number)).await;
            outcome.ok().map(|outcome| outcome.clone())
        };
        tokio::time::timeout(ANSWER_LIMIT, outcome).await.ok().flatten()
    }

    /// All sessions in the order of their configuration.
    pub fn sessions(&self) -> Vec<Known> {
        let state = lock(&self.state);
        state.sessions.iter().map(|session| state.known(session)).collect()
    }

    /// Whether BIRD has what was configured.
    pub fn info(&self) -> contract::RoutingInfo {
        let outcome = self.outcome.borrow().clone();
        let state = lock(&self.state);
        let refused = outcome.refused.as_ref().map(|(_, why)| format!("BIRD refuses its configuration: {why}"));
        contract::RoutingInfo { problem: state.unreachable.clone().or(refused).unwrap_or_default() }
    }

    /// Sessions as they are now, of a configuration that BIRD has; none: it is not reached. True if a session has sent something.
    fn note(&self, with: Option<&Wanted>, seen: Seen) -> bool {
        let now = Instant::now();
        let Seen { sessions, connections } = seen;
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
        (state.connections, state.connections_problem) = match connections {
            Ok(connections) => (connections, None),
            Err(problem) => (HashMap::new(), Some(problem)),
        };
        let moved = state.note_sending(now, with, &sessions);
        state.seen = with.map(|wanted| wanted.number);
        state.sessions = sessions;
        moved
    }
}

impl State {
    /// BIRD shall have these routers, and the routes of all runs.
    fn want(&mut self, routers: Vec<Router>) -> Number {
        let number = self.wanted.as_ref().map_or(0, |wanted| wanted.number + 1);
        let routes = self.runs.values().flat_map(|run| run.sets.iter().cloned()).collect();
        self.wanted = Some(Arc::new(Wanted { number, routers, routes }));
        number
    }

    fn known(&self, session: &Session) -> Known {
        let routes = self.wanted.as_ref().map_or(&[][..], |wanted| &wanted.routes);
        let configured = configured(routes, &session.port, &session.name);
        let connection = self.connections.get(&key(session)).filter(|_| configured > 0);
        Known {
            session: session.clone(),
            totals: self.history.totals(session),
            lasting: self.since.get(&key(session)).map_or(Duration::ZERO, |(_, since)| since.elapsed()),
            configured,
            unacknowledged: connection.map_or(0, |connection| connection.queued),
            all_sent: self.has_wanted() && self.sending.all_sent(&session.port, &session.name),
        }
    }

    /// Whether BIRD was seen with what it shall do.
    fn has_wanted(&self) -> bool {
        self.wanted.as_ref().map(|wanted| wanted.number) == self.seen
    }

    fn note_sending(&mut self, now: Instant, with: Option<&Wanted>, sessions: &[Session]) -> bool {
        let Some(wanted) = with else {
            self.sending.forget();
            return false;
        };
        let outgoing = sessions.iter().map(|session| Outgoing {
            session,
            configured: configured(&wanted.routes, &session.port, &session.name),
            connection: self.connections.get(&key(session)).copied(),
        });
        self.sending.note(now, wanted.number, outgoing)
    }
}

fn key(session: &Session) -> Key {
    (session.port.clone(), session.name.clone())
}

/// A session as it is reported.
pub fn reported(known: &Known) -> contract::RoutingSession {
    let Known { session, totals, lasting, configured, unacknowledged, all_sent } = known;
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
        routes_configured: *configured,
        unacknowledged_bytes: *unacknowledged,
        all_sent: *all_sent,
    }
}
