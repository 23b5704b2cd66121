// SPDX-License-Identifier: Apache-2.0
//! Sessions over time: how often each fell, and all that it sent and received, though BIRD counts from the start of each session.
use std::collections::HashMap;

use crate::{Session, SessionKind};

/// Two times that BIRD writes are one if they are at most this far apart: it writes one instant differently by some milliseconds, since it
/// reads the clocks of which it makes a time of a day one after the other. No session falls and rises as fast.
const APART_MS: u32 = 500;
const DAY_MS: u32 = 24 * 60 * 60 * 1000;

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
    since: Option<String>,
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
        let lasts = is_same(self.since.as_deref(), session.since.as_deref());
        let fell = self.up && (!session.up || !lasts);
        self.totals.flaps += u64::from(fell);
        self.totals.updates_received += since(self.received, session.updates_received);
        self.totals.updates_sent += since(self.sent, session.updates_sent);
        (self.up, self.received, self.sent) = (session.up, session.updates_received, session.updates_sent);
        if !lasts {
            self.since.clone_from(&session.since);
        }
    }
}

/// Whether two times are one.
fn is_same(one: Option<&str>, other: Option<&str>) -> bool {
    match (one.and_then(day_and_time), other.and_then(day_and_time)) {
        (Some((day, one)), Some((same, other))) if day == same => one.abs_diff(other) <= APART_MS,
        // Midnight may be between them.
        (Some((_, one)), Some((_, other))) => DAY_MS - one.abs_diff(other) <= APART_MS,
        _ => one == other,
    }
}

/// The day and the milliseconds of a time such as "2026-11-28 10:11:13.456".
fn day_and_time(text: &str) -> Option<(&str, u32)> {
    let (day, time) = text.split_once(' ')?;
    let (hours, rest) = time.split_once(':')?;
    let (minutes, rest) = rest.split_once(':')?;
    let (seconds, ms) = rest.split_once('.')?;
    let [hours, minutes, seconds, ms] = [hours, minutes, seconds, ms].map(str::parse::<u16>);
    let seconds = u32::from(hours.ok()?) * 3600 + u32::from(minutes.ok()?) * 60 + u32::from(seconds.ok()?);
    Some((day, (seconds * 1000 + u32::from(ms.ok()?)) % DAY_MS))
}

/// How far a counter came since it was read; one that is lower began again.
fn since(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(up: bool, since: &str, sent: u64) -> Session {
        Session {
            port: "east".into(),
            name: "dut".into(),
            kind: SessionKind::Bgp,
            up,
            state: String::new(),
            since: Some(since.into()),
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
        for (up, since) in
            [(false, "1"), (true, "2"), (true, "2"), (false, "3"), (false, "4"), (true, "5"), (true, "7")]
        {
            history.note(&[session(up, since, 0)]);
            flaps.push(history.totals(&session(up, since, 0)).flaps);
        }
        assert_eq!(flaps, [0, 0, 0, 1, 1, 1, 2]);
        history.note(&[]);
        assert_eq!(history.totals(&session(true, "7", 0)), Totals::default());
    }

    #[test]
    fn an_instant_that_bird_writes_differently_is_no_flap() {
        for (before, now, flaps) in [
            ("2026-11-28 10:11:13.999", "2026-11-28 10:11:14.001", 0),
            ("2026-11-28 23:59:59.999", "2026-11-29 00:00:00.000", 0),
            ("2026-11-28 10:11:13.456", "2026-11-28 10:11:14.456", 1),
            ("2026-11-28 10:11:13.456", "2026-11-29 10:11:13.456", 1),
        ] {
            let mut history = History::default();
            for since in [before, now, before] {
                history.note(&[session(true, since, 0)]);
            }
            assert_eq!(history.totals(&session(true, now, 0)).flaps, 2 * flaps, "{before}, {now}");
        }
    }

    #[test]
    fn counters_that_begin_again_are_added_up() {
        let mut history = History::default();
        let mut sent = Vec::new();
        for now in [0, 10, 15, 4, 4, 5] {
            history.note(&[session(true, "1", now)]);
            sent.push(history.totals(&session(true, "1", now)).updates_sent);
        }
        assert_eq!(sent, [0, 10, 15, 19, 19, 20]);
    }
}
