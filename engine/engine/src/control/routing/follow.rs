// SPDX-License-Identifier: Apache-2.0
//! Keeps BIRD doing what it shall, and asks it for the state of sessions.
use super::bird::{Connection, Failed, Files, Process};
use super::{Number, Outcome, Routing, Wanted, lock};
use spate_routing::{
    Command, Configuration, Observation, Router, Share, bfd_sessions, ospf_neighbors, protocols, rip_neighbors,
    sessions,
};
use std::time::{Duration, Instant};

/// The interval at which BIRD is queried for sessions,
const QUIET: Duration = Duration::from_secs(1);
/// and while some may come up at any time, since they are new or were down lately.
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
    let routers = {
        let mut state = lock(&routing.state);
        state.unreachable = Some(problem.to_owned());
        state.wanted.as_ref().map(|wanted| wanted.routers.clone()).unwrap_or_default()
    };
    routing.note(sessions(&routers, &Observation::default()));
}

/// BIRD while it is reached.
struct Follower<'a> {
    routing: &'a Routing,
    files: &'a Files,
    bird: &'a mut Connection,
    /// The configuration that it was given, which it may have refused.
    has: Option<Number>,
    /// When it was given another one, or a session was seen down.
    changed: Instant,
}

impl<'a> Follower<'a> {
    fn new(routing: &'a Routing, files: &'a Files, bird: &'a mut Connection) -> Self {
        Self { routing, files, bird, has: None, changed: Instant::now() }
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
        let routers = wanted.map(|wanted| wanted.routers).unwrap_or_default();
        let seen = self.observe(&routers).await?;
        let sessions = sessions(&routers, &seen);
        let now = Instant::now();
        let all_up = sessions.iter().all(|session| session.up);
        let was_up = self.routing.sessions().iter().all(|known| known.session.up);
        if was_up && !all_up {
            self.changed = now;
        }
        self.routing.note(sessions);
        lock(&self.routing.state).unreachable = None;
        let busy = !all_up && now.duration_since(self.changed) < LATELY;
        let pause = tokio::time::sleep(if busy { BUSY } else { QUIET });
        tokio::select! {
            () = pause => {}
            () = self.routing.changed.notified() => {}
        }
        Ok(())
    }

    /// Gives BIRD a configuration. Its answer is the outcome; that it is not reached is an error.
    async fn give(&mut self, wanted: &Wanted) -> Result<(), Failed> {
        let configuration = Configuration { routers: &wanted.routers, routes: &[], share: Share::ALL };
        let file = self.files.write_next(&configuration).map_err(Failed::Files)?;
        let refused = match self.bird.command(&Command::ConfigureSoft { file }).await {
            Ok(_) => None,
            Err(Failed::Refused(refusal)) => Some(place(&configuration, &refusal.text)),
            Err(other) => return Err(other),
        };
        if refused.is_none() {
            self.files.accept().map_err(Failed::Files)?;
        }
        match &refused {
            None => tracing::info!(routers = wanted.routers.len(), "BIRD has another configuration"),
            Some((_, why)) => tracing::error!("BIRD refuses its configuration: {why}"),
        }
        self.has = Some(wanted.number);
        self.changed = Instant::now();
        self.routing.outcome.send_replace(Outcome { number: Some(wanted.number), refused });
        Ok(())
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
        let configuration = Configuration { routers: &routers, routes: &[], share: Share::ALL };
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
