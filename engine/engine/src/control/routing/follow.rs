// SPDX-License-Identifier: Apache-2.0
//! Keeps BIRD doing what it shall, and asks it for the state of sessions.
use super::bird::{Connection, Failed, Files, Process};
use super::connections::Reader;
use super::learned::learning;
use super::{Key, Number, Outcome, Routing, Seen, Wanted, lock};
use spate_routing::{
    Command, Configuration, Observation, Router, bfd_sessions, ospf_neighbors, protocols, rip_neighbors, sessions,
};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The interval at which BIRD is queried for sessions,
const QUIET: Duration = Duration::from_secs(1);
/// and while some may come up at any time, since they are new or were down lately, or a run waits until they have sent its routes.
const BUSY: Duration = Duration::from_millis(100);
/// The time after a change for which that is so.
const LATELY: Duration = Duration::from_secs(60);
/// The interval of attempts to reach BIRD.
const RETRY: Duration = Duration::from_millis(200);
/// The time that BIRD may take to start before it is reported that it is not reached.
const PATIENCE: Duration = Duration::from_secs(5);

/// Follows BIRD, for ever.
pub async fn follow(routing: &Routing) {
    let files = Files::of(&routing.place);
    while let Err(error) = files.begin() {
        lose(routing, &format!("--routing-dir {}: {error}", routing.place.folder.display()));
        tracing::error!(folder = %routing.place.folder.display(), %error, "BIRD's files cannot be made");
        tokio::time::sleep(PATIENCE).await;
    }
    let mut process = None;
    let (mut since, mut reported) = (Instant::now(), false);
    loop {
        match reach(routing, &files, &mut process).await {
            Ok(mut bird) => {
                tracing::info!(socket = %files.socket().display(), "BIRD is reached");
                let error = Follower::new(routing, &files, &mut bird).follow().await;
                let problem = problem(&error, &process);
                tracing::error!("BIRD is lost: {problem}");
                lose(routing, &problem);
                if let Err(error) = files.remove_next() {
                    tracing::warn!(%error, "BIRD's configuration is not removed");
                }
                end_silent(&error, &mut process).await;
                (since, reported) = (Instant::now(), false);
            }
            Err(problem) => {
                lose(routing, &problem);
                if !reported && since.elapsed() > PATIENCE {
                    tracing::error!("{problem}");
                    reported = true;
                }
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Starts BIRD, if this process is to run it and it does not run, and connects to it.
async fn reach(routing: &Routing, files: &Files, process: &mut Option<Process>) -> Result<Connection, String> {
    if let Some(running) = process
        && let Some(status) = running.ended().map_err(|e| format!("BIRD: {e}"))?
    {
        *process = None;
        tracing::error!(status, "BIRD has ended");
    }
    if let (None, Some(program)) = (&process, &routing.place.program) {
        let started = Process::start(program, files).map_err(|e| format!("--bird {}: {e}", program.display()))?;
        *process = Some(started);
    }
    match Connection::open(&files.socket()).await {
        Ok(bird) => Ok(bird),
        Err(error) => {
            let problem = problem(&error, process);
            end_silent(&error, process).await;
            Err(format!("BIRD is not reached: {problem}"))
        }
    }
}

/// Why BIRD is not reached, and what is done about it.
fn problem(error: &Failed, process: &Option<Process>) -> String {
    match (error, process) {
        (Failed::Silent(_), Some(_)) => format!("{error}; it is started again"),
        _ => error.to_string(),
    }
}

/// Ends the BIRD that this process runs if it does not reply, so that it is started again.
async fn end_silent(error: &Failed, process: &mut Option<Process>) {
    if matches!(error, Failed::Silent(_))
        && let Some(silent) = process.take()
    {
        // It may take its time to end.
        let _ = tokio::task::spawn_blocking(move || drop(silent)).await;
    }
}

/// BIRD is not reached: its sessions are gone, as far as is known.
fn lose(routing: &Routing, problem: &str) {
    routing.outcome.send_replace(Outcome::default());
    let wanted = {
        let mut state = lock(&routing.state);
        state.unreachable = Some(problem.to_owned());
        state.wanted.clone()
    };
    let sessions = sessions(routers(wanted.as_deref()), &Observation::default());
    routing.note(None, Seen { sessions, connections: Ok(HashMap::new()) });
}

fn of_port<'a>(routers: &'a [Router], port: &str) -> Option<&'a Router> {
    routers.iter().find(|router| router.port == port)
}

fn routers(wanted: Option<&Wanted>) -> &[Router] {
    wanted.map_or(&[], |wanted| &wanted.routers)
}

/// BIRD while it is reached.
struct Follower<'a> {
    routing: &'a Routing,
    files: &'a Files,
    bird: &'a mut Connection,
    /// The configuration that it was given, which it may have refused.
    has: Option<Number>,
    /// Those of the last one that it took.
    routers: Vec<Router>,
    /// When it was given another one, a session was seen down, or routes were sent.
    changed: Instant,
    /// None: not open.
    connections: Option<Reader>,
}

impl<'a> Follower<'a> {
    fn new(routing: &'a Routing, files: &'a Files, bird: &'a mut Connection) -> Self {
        Self { routing, files, bird, has: None, routers: Vec::new(), changed: Instant::now(), connections: None }
    }

    /// Until BIRD is not reached any more.
    async fn follow(mut self) -> Failed {
        loop {
            if let Err(error) = self.turn().await {
                return error;
            }
        }
    }

    /// Gives BIRD what it shall do if that has changed, and asks what it does; returns when there is something to be done again.
    async fn turn(&mut self) -> Result<(), Failed> {
        let wanted = lock(&self.routing.state).wanted.clone();
        if let Some(wanted) = wanted.as_ref().filter(|wanted| self.has != Some(wanted.number)) {
            self.give(wanted).await?;
        }
        let routers = routers(wanted.as_deref());
        let seen = self.observe(routers).await?;
        let sessions = sessions(routers, &seen);
        // After BIRD's counts: what it has counted as sent since is not waited for.
        let connections = match wanted.as_deref() {
            Some(wanted) if !wanted.routes.is_empty() => self.connections(&wanted.routers),
            _ => Ok(HashMap::new()),
        };
        let now = Instant::now();
        let all_up = sessions.iter().all(|session| session.up);
        let was_up = self.routing.sessions().iter().all(|known| known.session.up);
        if was_up && !all_up {
            self.changed = now;
        }
        if self.routing.note(wanted.as_deref(), Seen { sessions, connections }) {
            self.changed = now;
        }
        lock(&self.routing.state).unreachable = None;
        let busy = (!all_up || self.routing.is_sending()) && now.duration_since(self.changed) < LATELY;
        let pause = tokio::time::sleep(if busy { BUSY } else { QUIET });
        tokio::select! {
            () = pause => {}
            () = self.routing.changed.notified() => {}
        }
        Ok(())
    }

    /// Gives BIRD a configuration. Its answer is the outcome, or that the file cannot be written; that it is not reached is an error.
    async fn give(&mut self, wanted: &Arc<Wanted>) -> Result<(), Failed> {
        let (files, configured) = (self.files.clone(), wanted.clone());
        let given = match blocking(move || files.write_next(&configured.configuration())).await {
            Ok(file) => self.bird.command(&Command::ConfigureSoft { file }).await,
            Err(failed) => Err(failed),
        };
        let refused = match given {
            Ok(_) => {
                self.learn_again(&wanted.routers).await?;
                None
            }
            Err(Failed::Refused(refusal)) => {
                let configured = wanted.clone();
                Some(blocking(move || Ok(place(&configured.configuration(), &refusal.text))).await?)
            }
            // Such as a volume that is too small: BIRD goes on with what it has.
            Err(Failed::Files(error)) => Some((None, format!("its file cannot be written: {error}"))),
            Err(other) => return Err(other),
        };
        self.files.remove_next().map_err(Failed::Files)?;
        let (routers, sets) = (wanted.routers.len(), wanted.routes.len());
        match &refused {
            None => tracing::info!(routers, sets, "BIRD has another configuration"),
            Some((_, why)) => tracing::error!("BIRD refuses its configuration: {why}"),
        }
        self.has = Some(wanted.number);
        self.changed = Instant::now();
        self.routing.outcome.send_replace(Outcome { number: Some(wanted.number), refused });
        Ok(())
    }

    /// Has routes sent again that are now to be learned in another way: BIRD does with those that it has what it did before.
    async fn learn_again(&mut self, routers: &[Router]) -> Result<(), Failed> {
        let before = std::mem::replace(&mut self.routers, routers.to_vec());
        for (router, other) in routers.iter().filter_map(|router| Some((router, of_port(&before, &router.port)?))) {
            for session @ (kind, name, _) in learning(router) {
                let had = learning(other).into_iter().find(|(was, named, _)| (*was, *named) == (kind, name));
                if had.is_none_or(|had| had == session) {
                    continue;
                }
                let (port, session) = (router.port.clone(), name.to_owned());
                let again = Command::ReceiveAgain { port: port.clone(), kind, session: session.clone() };
                if self.ask(&again).await?.done().is_err() {
                    tracing::info!(
                        port,
                        session,
                        "the neighbor cannot send its routes again: the session is restarted"
                    );
                    self.ask(&Command::Restart { port, kind, session }).await?;
                }
            }
        }
        Ok(())
    }

    /// BIRD's connections of BGP, or why they are not known.
    fn connections(&mut self, routers: &[Router]) -> Result<HashMap<Key, spate_routing::Connection>, String> {
        let reader = self.connections.take();
        let read = || {
            let reader = reader.map_or_else(Reader::new, Ok)?;
            let found = reader.of(routers)?;
            Ok((reader, found))
        };
        let (reader, found) =
            read().map_err(|e: io::Error| format!("what neighbors have acknowledged is not known: sock_diag: {e}"))?;
        self.connections = Some(reader);
        Ok(found)
    }

    async fn observe(&mut self, routers: &[Router]) -> Result<Observation, Failed> {
        let mut seen =
            Observation { protocols: protocols(&self.ask(&Command::ShowProtocols).await?), ..Observation::default() };
        // What BIRD has none of, it refuses to list.
        if routers.iter().any(|router| !router.bfd.is_empty()) {
            seen.bfd = bfd_sessions(&self.ask(&Command::ShowBfd).await?);
        }
        if routers.iter().any(|router| !router.ospf.is_empty()) {
            seen.ospf = ospf_neighbors(&self.ask(&Command::ShowOspf).await?);
        }
        if routers.iter().any(|router| !router.rip.is_empty()) {
            seen.rip = rip_neighbors(&self.ask(&Command::ShowRip).await?);
        }
        Ok(seen)
    }

    /// What BIRD lists. If it has refused its configuration, there may be nothing.
    async fn ask(&mut self, command: &Command) -> Result<spate_routing::Reply, Failed> {
        match self.bird.command(command).await {
            Err(Failed::Refused(refusal)) => {
                let last = spate_routing::Line { code: refusal.code, text: refusal.text };
                Ok(spate_routing::Reply { lines: Vec::new(), last })
            }
            other => other,
        }
    }
}

/// Does what takes long with many routes, while others are served.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, Failed> {
    let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|failed| Err(io::Error::other(failed)));
    done.map_err(Failed::Files)
}

impl Wanted {
    fn configuration(&self) -> Configuration<'_> {
        Configuration { routers: &self.routers, routes: &self.routes }
    }
}

/// What is wrong with a configuration by BIRD's message: in which router's own text, if it is there, and what.
fn place(configuration: &Configuration<'_>, said: &str) -> (Option<usize>, String) {
    // "/routing/bird.next.conf:7:3 syntax error, unexpected ..."
    let parsed = || {
        let (position, problem) = said.split_once(' ')?;
        let mut parts = position.rsplit(':');
        let _column = parts.next()?;
        let line: usize = parts.next()?.parse().ok()?;
        let (router, line) = configuration.line_of_extra(line)?;
        Some((Some(router), format!("line {line}: {problem}")))
    };
    parsed().unwrap_or_else(|| (None, said.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bird_says_of_a_routers_own_text_has_its_line_there() {
        let router = |port: &str, text: &str| Router {
            extra_config: text.into(),
            ..Router::new(port, format!("rt-{port}"), ["10.99.0.1/24".parse().unwrap()])
        };
        let routers = [router("east", "a\nb"), router("north", ""), router("west", "c")];
        let configuration = Configuration { routers: &routers, routes: &[] };
        let text = configuration.to_string();
        let line = |of: &str| 1 + text.lines().position(|line| line == of).unwrap();
        for (at, expected) in [(line("b"), (Some(0), "line 2: no")), (line("c"), (Some(2), "line 1: no"))] {
            let said = format!("/r/bird.next.conf:{at}:3 no");
            assert_eq!(place(&configuration, &said), (expected.0, expected.1.to_owned()));
        }
        for said in ["/r/bird.next.conf:1:3 no", "/r/bird.next.conf: No such file", ""] {
            assert_eq!(place(&configuration, said), (None, said.to_owned()));
        }
    }
}
