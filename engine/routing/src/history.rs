// SPDX-License-Identifier: Apache-2.0
//! Sessions over time: how often each fell, and all that it sent and received, though BIRD counts from the start of each session.
use std::{collections::HashMap, time::Duration};

use crate::{Session, SessionKind};

/// How far two reports of one time may be apart: BIRD measures by a clock from which it computes the time of day, and reads the two one after
/// the other, with what it does in between.
const CLOCK_ERROR: Duration = Duration::from_millis(500);

/// What became of sessions from one observation to the next.
#[derive(Clone, Debug, Default)]
pub struct History {
    sessions: HashMap<(String, SessionKind, String), Past>,
}

/// What is added up of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How often it was up and then down.
    pub flaps: u64,
    /// Announcements and withdrawals of routes by neighbors.
    pub updates_received: u64,
    /// Announcements and withdrawals of routes to neighbors.
    pub updates_sent: u64,
}

#[derive(Clone, Debug, Default)]
struct Past {
    up: bool,
    since: Option<Duration>,
    /// As BIRD counted last.
    received: u64,
    sent: u64,
    totals: Totals,
}

impl History {
    /// Notes all sessions as they are now. Those that are not among them are forgotten.
    pub fn note(&mut self, sessions: &[Session]) {
        let mut noted = HashMap::with_capacity(sessions.len());
        for session in sessions {
            let key = (session.port.clone(), session.kind, session.name.clone());
            let mut past = self.sessions.remove(&key).unwrap_or_default();
            past.note(session);
            noted.insert(key, past);
        }
        self.sessions = noted;
    }

    /// What is added up of a session; zeros if it was never noted.
    pub fn totals(&self, session: &Session) -> Totals {
        let key = (session.port.clone(), session.kind, session.name.clone());
        self.sessions.get(&key).map_or_else(Totals::default, |past| past.totals)
    }
}

impl Past {
    fn note(&mut self, session: &Session) {
        // Between two observations it may have fallen and risen again: BIRD has another time then.
        let fell = self.up && (!session.up || !is_same_time(session.since, self.since));
        self.totals.flaps += u64::from(fell);
        self.totals.updates_received += since(self.received, session.updates_received);
        self.totals.updates_sent += since(self.sent, session.updates_sent);
        (self.up, self.received, self.sent) = (session.up, session.updates_received, session.updates_sent);
        self.since = session.since;
    }
}

/// Whether BIRD reported one time twice.
pub(crate) fn is_same_time(one: Option<Duration>, other: Option<Duration>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.abs_diff(other) < CLOCK_ERROR,
        (one, other) => one == other,
    }
}

/// How far a counter came since it was read; one that is lower began again.
fn since(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(up: bool, since_ms: u64, sent: u64) -> Session {
        Session {
            port: "east".into(),
            name: "dut".into(),
            kind: SessionKind::Bgp,
            up,
            state: String::new(),
            since: Some(Duration::from_millis(since_ms)),
            last_error: None,
            received: 0,
            sent: 0,
            updates_received: 0,
            updates_sent: sent,
        }
    }

    #[test]
    fn a_session_that_fell_between_two_observations_flapped() {
        let mut history = History::default();
        let mut flaps = Vec::new();
        for (up, since_ms) in [
            (false, 1000),
            (true, 2000),
            // The same time, by a BIRD that is busy.
            (true, 2003),
            (true, 2001),
            (false, 3000),
            (false, 4000),
            (true, 5000),
            (true, 7000),
        ] {
            history.note(&[session(up, since_ms, 0)]);
            flaps.push(history.totals(&session(up, since_ms, 0)).flaps);
        }
        assert_eq!(flaps, [0, 0, 0, 0, 1, 1, 1, 2]);
        history.note(&[]);
        assert_eq!(history.totals(&session(true, 7000, 0)), Totals::default());
    }

    #[test]
    fn counters_that_begin_again_are_added_up() {
        let mut history = History::default();
        let mut sent = Vec::new();
        for now in [0, 10, 15, 4, 4, 5] {
            history.note(&[session(true, 1000, now)]);
            sent.push(history.totals(&session(true, 1000, now)).updates_sent);
        }
        assert_eq!(sent, [0, 10, 15, 19, 19, 20]);
    }
}
