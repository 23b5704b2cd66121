// SPDX-License-Identifier: Apache-2.0
//! Whether sessions have sent the routes that they are to send: by counting, not by waiting.
//!
//! BIRD counts a route as exported when it has passed the filter; it may still be in BGP's queue, or in the send queue of the connection. So
//! all of a session of BGP is sent when BIRD has exported what is configured, the neighbor's TCP has acknowledged all that was written to the
//! connection, and nothing but keepalives was written since for a while. What OSPF and RIP have sent is known by BIRD's count only.
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::{RouteSet, Session, SessionKind, history::is_same_time};

/// Bytes of BGP's KEEPALIVE, which no other message has (RFC 4271 section 4). Two may be written from one observation to the next.
const KEEPALIVE_BYTES: u64 = 19;

/// A connection of TCP, as its sender knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Bytes that the neighbor has acknowledged since it was opened.
    pub acknowledged: u64,
    /// Bytes that were written to it, and not acknowledged.
    pub queued: u64,
}

/// A session at one time.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// What BIRD says of it.
    pub session: &'a Session,
    /// Routes that it is to send.
    pub configured: u64,
    /// Its connection, of BGP; none: not known.
    pub connection: Option<Connection>,
}

/// What sessions have sent, from one observation to the next.
#[derive(Clone, Debug, Default)]
pub struct Sending {
    sessions: HashMap<(String, String), Last>,
    /// The configuration that BIRD had.
    configuration: Option<u64>,
}

/// What was seen last.
#[derive(Clone, Debug)]
struct Last {
    seen: Seen,
    all_sent: bool,
    /// Since when nothing was sent.
    still_since: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    up: bool,
    since: Option<Duration>,
    configured: u64,
    sent: u64,
    updates: u64,
    written: Option<u64>,
}

/// Routes that a session is to send of these sets.
pub fn configured(routes: &[RouteSet], port: &str, session: &str) -> u64 {
    routes.iter().filter(|set| set.advertised && set.is_of(port, session)).map(RouteSet::count).sum()
}

impl Outgoing<'_> {
    /// Whether nothing is left to be sent, as far as it can be counted.
    fn all_sent(&self) -> bool {
        let Session { up, sent, kind, .. } = *self.session;
        let is_acknowledged = match kind {
            SessionKind::Bgp => {
                self.configured == 0 || self.connection.is_some_and(|connection| connection.queued == 0)
            }
            SessionKind::Ospf | SessionKind::Rip | SessionKind::Bfd => true,
        };
        up && sent == self.configured && is_acknowledged
    }

    fn seen(&self) -> Seen {
        Seen {
            up: self.session.up,
            since: self.session.since,
            configured: self.configured,
            sent: self.session.sent,
            updates: self.session.updates_sent,
            written: self.connection.map(|connection| connection.acknowledged + connection.queued),
        }
    }
}

impl Sending {
    /// Notes all sessions as they are now, by the number of the configuration that BIRD has; true if something was sent since the last time.
    pub fn note<'a>(&mut self, now: Instant, configuration: u64, all: impl IntoIterator<Item = Outgoing<'a>>) -> bool {
        let is_another = self.configuration.replace(configuration) != Some(configuration);
        let mut before = std::mem::take(&mut self.sessions);
        let mut moved = is_another;
        for outgoing in all {
            let key = (outgoing.session.port.clone(), outgoing.session.name.clone());
            let seen = outgoing.seen();
            let still_since = match before.remove(&key) {
                Some(last) if !is_another && last.seen.is_still(&seen) => last.still_since,
                _ => now,
            };
            moved |= still_since == now;
            self.sessions.insert(key, Last { seen, all_sent: outgoing.all_sent(), still_since });
        }
        moved
    }

    /// BIRD is not reached any more: nothing is known of its sessions.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether a session has sent all.
    pub fn all_sent(&self, port: &str, session: &str) -> bool {
        self.still(port, session, Instant::now()).is_some()
    }

    /// How long nothing was sent by a session that has sent all; none: it has not.
    pub fn still(&self, port: &str, session: &str, now: Instant) -> Option<Duration> {
        let last = self.sessions.get(&(port.to_owned(), session.to_owned()))?;
        last.all_sent.then(|| now.saturating_duration_since(last.still_since))
    }
}

impl Seen {
    /// Whether nothing but keepalives was sent from here to what was seen next.
    fn is_still(&self, next: &Self) -> bool {
        let written = match (self.written, next.written) {
            (Some(before), Some(now)) => now.checked_sub(before),
            (before, now) => (before == now).then_some(0),
        };
        let only_keepalives = written.is_some_and(|bytes| [0, 1, 2].map(|n| n * KEEPALIVE_BYTES).contains(&bytes));
        only_keepalives
            && is_same_time(self.since, next.since)
            && *self == Self { written: self.written, since: self.since, ..next.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, Prefixes, Range, Share};

    const CONFIGURED: u64 = 1000;

    fn session(kind: SessionKind, up: bool, sent: u64) -> Session {
        Session {
            port: "east".into(),
            name: "dut".into(),
            kind,
            up,
            state: String::new(),
            since: Some(Duration::from_secs(1)),
            last_error: None,
            received: 0,
            sent,
            updates_received: 0,
            updates_sent: sent,
        }
    }

    /// How long a session has been still, observed every 100 ms as (up, sent, acknowledged, queued).
    fn observed(kind: SessionKind, all: &[(bool, u64, u64, u64)]) -> Vec<Option<u128>> {
        let (mut sending, begin) = (Sending::default(), Instant::now());
        let at = |n: usize| begin + Duration::from_millis(100 * n as u64);
        let note = |(n, &(up, sent, acknowledged, queued)): (usize, &(bool, u64, u64, u64))| {
            let session = session(kind, up, sent);
            let connection = (kind == SessionKind::Bgp).then_some(Connection { acknowledged, queued });
            sending.note(at(n), 1, [Outgoing { session: &session, configured: CONFIGURED, connection }]);
            sending.still("east", "dut", at(n)).map(|still| still.as_millis())
        };
        all.iter().enumerate().map(note).collect()
    }

    #[test]
    fn all_is_sent_when_it_is_counted_and_acknowledged() {
        let of_bgp = observed(
            SessionKind::Bgp,
            &[
                (false, 0, 0, 0),
                (true, 0, 100, 0),
                (true, 999, 5000, 0),
                // Counted, and in the send queue.
                (true, 1000, 5000, 700),
                // Acknowledged, and BIRD had not written all.
                (true, 1000, 5700, 0),
                (true, 1000, 6000, 100),
                (true, 1000, 6100, 0),
                (true, 1000, 6100, 0),
                // A keepalive.
                (true, 1000, 6119, 0),
                (true, 1000, 6119, 0),
                // The session fell.
                (false, 0, 0, 0),
            ],
        );
        let (no, still) = (None, Some);
        assert_eq!(of_bgp, [no, no, no, no, still(100), no, still(100), still(200), still(300), still(400), no]);
        let of_ospf = [(true, 10, 0, 0), (true, 1000, 0, 0), (true, 1000, 0, 0), (true, 1001, 0, 0)];
        assert_eq!(observed(SessionKind::Ospf, &of_ospf), [no, still(0), still(100), no]);
    }

    #[test]
    fn another_configuration_with_as_many_routes_is_not_sent_yet() {
        let (mut sending, begin) = (Sending::default(), Instant::now());
        let session = session(SessionKind::Rip, true, CONFIGURED);
        let outgoing = Outgoing { session: &session, configured: CONFIGURED, connection: None };
        let mut still = |seconds, configuration| {
            let now = begin + Duration::from_secs(seconds);
            sending.note(now, configuration, [outgoing]);
            sending.still("east", "dut", now).unwrap().as_secs()
        };
        assert_eq!([still(0, 1), still(5, 1), still(6, 2), still(8, 2)], [0, 5, 0, 2]);
        sending.forget();
        assert!(!sending.all_sent("east", "dut"));
    }

    #[test]
    fn a_connection_that_is_not_known_has_acknowledged_nothing() {
        let session = session(SessionKind::Bgp, true, CONFIGURED);
        let all_sent = |configured, connection| Outgoing { session: &session, configured, connection }.all_sent();
        assert!(!all_sent(CONFIGURED, None));
        assert!(all_sent(CONFIGURED, Some(Connection::default())));
    }

    #[test]
    fn a_session_is_to_send_the_pods_share_of_what_is_advertised() {
        let set = |name: &str, sessions: &[&str], count, advertised| RouteSet {
            name: name.into(),
            run: 1,
            port: "east".into(),
            sessions: sessions.iter().map(ToString::to_string).collect(),
            prefixes: Prefixes::Range(Range { first: "20.0.0.0/24".parse().unwrap(), count, step: 1 }),
            share: Share::new(1, 2).unwrap(),
            attributes: Attributes::default(),
            advertised,
        };
        let sets = [set("a", &["dut"], 9, true), set("b", &["dut", "core"], 100, true), set("c", &["dut"], 50, false)];
        let count = |port, session| configured(&sets, port, session);
        assert_eq!([count("east", "dut"), count("east", "core"), count("west", "dut")], [54, 50, 0]);
    }
}
