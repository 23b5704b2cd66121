// SPDX-License-Identifier: Apache-2.0
//! The routes of runs: BIRD has them beside the sessions of ports, from the preparation of a run until it has ended.
use super::{Routing, State, lock, reported, routes};
use crate::control::status::Refusal;
use crate::plan::Violations;
use contract::Plan;
use spate_routing::{RouteSet, check_routes};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Routes of a plan, in which nothing is wrong.
#[derive(Debug)]
pub struct Routes(Advertised);

/// Routes of a run.
#[derive(Debug)]
pub(super) struct Advertised {
    pub(super) sets: Vec<RouteSet>,
    /// How long nothing must be sent until they count as sent.
    quiet: Duration,
}

impl Routing {
    /// The routes of a plan.
    ///
    /// # Errors
    /// All that is wrong with them, beside those of other runs; or that no sessions are configured, by which they could be advertised.
    pub fn routes(&self, plan: &Plan) -> Result<Routes, Refusal> {
        let (wanted, run) = {
            let mut state = lock(&self.state);
            (state.wanted.clone(), state.next_run())
        };
        let (sets, quiet) = routes::routes(plan, run)?;
        let Some(wanted) = wanted else {
            let problem = "the plan has routes, and no session of a port is configured yet; Configure them first";
            return Err(Refusal::State(problem.into()));
        };
        let mut wrong = Violations::default();
        for violation in check_routes(&sets, &wanted.routes, &wanted.routers, &[]) {
            wrong.add(routes::field(&violation.field), violation.description);
        }
        Ok(Routes(wrong.or(Advertised { sets, quiet })?))
    }

    /// Has BIRD advertise the routes of a run.
    pub fn advertise(&self, run: &str, Routes(routes): Routes) {
        let prefixes: u64 = routes.sets.iter().map(RouteSet::count).sum();
        tracing::info!(run, sets = routes.sets.len(), prefixes, "routes are advertised");
        self.change(|state| drop(state.runs.insert(run.to_owned(), routes)));
    }

    /// Has BIRD withdraw the routes of a run, if it has some.
    pub fn withdraw(&self, run: &str) {
        if lock(&self.state).runs.contains_key(run) {
            tracing::info!(run, "routes are withdrawn");
            self.change(|state| drop(state.runs.remove(run)));
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        if let Some(wanted) = state.wanted.clone() {
            state.want(wanted.routers.clone());
        }
        self.changed.notify_one();
    }

    /// Whether a run has routes.
    pub fn has_routes(&self, run: &str) -> bool {
        lock(&self.state).runs.contains_key(run)
    }

    /// How far the routes of a run are; none if it has none, or has none any more.
    pub fn run_routes(&self, run: &str) -> Option<contract::RunRoutes> {
        let of_bird = self.info().problem;
        let state = lock(&self.state);
        let routes = state.runs.get(run)?;
        let problem = if of_bird.is_empty() { state.problem(routes).unwrap_or_default() } else { of_bird };
        let sessions = state.sessions.iter().filter(|session| {
            let is_of = |(port, name): (&str, &str)| session.port == port && session.name == name;
            routes.sessions().any(is_of)
        });
        let sessions = sessions.map(|session| contract::RoutesSession {
            port: session.port.clone(),
            session: Some(reported(&state.known(session))),
        });
        Some(contract::RunRoutes {
            ready: problem.is_empty() && state.is_ready(routes),
            problem,
            sessions: sessions.collect(),
        })
    }

    /// Whether a run waits for its routes to be sent.
    pub(super) fn is_sending(&self) -> bool {
        let state = lock(&self.state);
        state.runs.values().any(|run| !state.is_ready(run))
    }
}

impl Advertised {
    /// Ports and names of the sessions of its sets.
    fn sessions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sets.iter().flat_map(|set| set.sessions.iter().map(move |name| (set.port.as_str(), name.as_str())))
    }
}

impl State {
    /// A number that no run had before, of this process or of one before: BIRD may have its routes still.
    fn next_run(&mut self) -> u32 {
        let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32);
        let number = self.last_run.map_or_else(seconds, |last| last.wrapping_add(1));
        self.last_run = Some(number);
        number
    }

    /// Whether all routes of a run are sent, and nothing else was for long enough.
    fn is_ready(&self, run: &Advertised) -> bool {
        let now = Instant::now();
        let is_sent = |(port, name)| self.sending.still(port, name, now).is_some_and(|still| still >= run.quiet);
        self.has_wanted() && run.sessions().all(is_sent)
    }

    /// Why the routes of a run are not advertised, although BIRD has its configuration.
    fn problem(&self, run: &Advertised) -> Option<String> {
        let wanted = self.wanted.as_ref()?;
        let has = |(port, name): (&str, &str)| {
            let router = wanted.routers.iter().find(|router| router.port == port);
            router.is_some_and(|router| router.has_advertiser(name))
        };
        match run.sessions().find(|session| !has(*session)) {
            Some((port, name)) => Some(format!("port {port} has no session {name} any more; configure it again")),
            None => self.connections_problem.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::routing::{Passwords, Place, RouterPort};

    const PLAN: &str = r#"{"routes": [{
        "name": "customers", "port": "east", "sessions": ["dut"], "advertised": true,
        "prefixes": {"range": {"first": "20.0.0.0/24", "count": 1000}}
    }]}"#;
    const SESSIONS: &str = r#"{"routers": [{"port": "east", "bgp": [{
        "name": "dut", "localAs": 65001, "neighbor": "10.99.0.2", "neighborAs": 65002,
        "families": ["ADDRESS_FAMILY_IPV4"], "holdTimeS": 90, "learn": "LEARN_COUNT"
    }]}]}"#;

    #[tokio::test]
    async fn a_run_has_its_routes_until_they_are_withdrawn_and_reports_why_they_are_not_sent() {
        let port = RouterPort {
            name: "east".into(),
            interface: "rt-east".into(),
            addresses: vec!["10.99.0.1/24".parse().unwrap()],
            gateways: Vec::new(),
        };
        let place = Place { folder: "/nowhere".into(), program: None };
        let routing = Routing::new(place, Passwords(None), vec![port]);
        let plan: Plan = serde_json::from_str(PLAN).unwrap();
        let refused = |routing: &Routing| routing.routes(&plan).unwrap_err().to_string();
        assert!(refused(&routing).contains("no session of a port is configured yet"));

        routing.configure(&serde_json::from_str(SESSIONS).unwrap()).await.unwrap();
        routing.advertise("r", routing.routes(&plan).unwrap());
        let wanted = || lock(&routing.state).wanted.clone().unwrap();
        assert_eq!((wanted().number, wanted().routes.len()), (1, 1));
        let reported = routing.run_routes("r").unwrap();
        assert_eq!((reported.ready, reported.problem.as_str()), (false, "BIRD was not reached yet"));
        assert!(routing.is_sending() && routing.has_routes("r"));
        assert!(refused(&routing).contains("20.0.0.0/24 is in set \"customers\" of the port of another run"));

        routing.withdraw("another");
        assert_eq!(wanted().number, 1);
        routing.withdraw("r");
        assert_eq!((wanted().number, wanted().routes.len()), (2, 0));
        assert!(routing.run_routes("r").is_none() && !routing.is_sending());
        let number = || routing.routes(&plan).unwrap().0.sets[0].run;
        assert_ne!(number(), number(), "BIRD would take them for those before");
    }
}
