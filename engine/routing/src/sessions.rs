// SPDX-License-Identifier: Apache-2.0
//! The sessions that are configured, with what BIRD says of each.
use crate::{
    BfdSession, OspfNeighbor, Protocol, RipNeighbor, Router, State,
    configuration::{BFD, bgp_name, ospf_name, rip_name},
};

/// The protocol of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionKind {
    /// BGP.
    Bgp,
    /// OSPF.
    Ospf,
    /// RIP.
    Rip,
    /// BFD alone.
    Bfd,
}

/// What was read of BIRD at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Its protocols.
    pub protocols: Vec<Protocol>,
    /// Its sessions of BFD.
    pub bfd: Vec<BfdSession>,
    /// Its neighbors in OSPF.
    pub ospf: Vec<OspfNeighbor>,
    /// Its neighbors in RIP.
    pub rip: Vec<RipNeighbor>,
}

/// A session and how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The port's name.
    pub port: String,
    /// The session's name.
    pub name: String,
    /// The protocol.
    pub kind: SessionKind,
    /// A neighbor is there and routes are exchanged: BGP is established, OSPF has a full adjacency, RIP has heard a neighbor, BFD is up.
    pub up: bool,
    /// The protocol's own word for its state.
    pub state: String,
    /// When that changed, as BIRD writes it; of OSPF and RIP it is not known.
    pub since: Option<String>,
    /// Why BGP's last session ended or could not begin.
    pub last_error: Option<String>,
    /// Routes that neighbors have sent and not withdrawn; of sessions that do not learn, 0.
    pub received: u64,
    /// Routes that neighbors were sent and that were not withdrawn.
    pub sent: u64,
    /// Announcements and withdrawals of routes by neighbors, since BIRD began the session.
    pub updates_received: u64,
    /// Announcements and withdrawals of routes to neighbors, since BIRD began the session.
    pub updates_sent: u64,
}

impl SessionKind {
    /// As metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bgp => "bgp",
            Self::Ospf => "ospf",
            Self::Rip => "rip",
            Self::Bfd => "bfd",
        }
    }
}

/// All sessions of routers, in the order of their configuration, with what was read of them. One that BIRD does not know is down.
pub fn sessions(routers: &[Router], seen: &Observation) -> Vec<Session> {
    routers.iter().flat_map(|router| of_router(router, seen)).collect()
}

fn of_router(router: &Router, seen: &Observation) -> Vec<Session> {
    let session = |kind, name: &str| {
        let in_bird = name_of(kind, &router.port, name);
        let protocol = seen.protocols.iter().find(|protocol| protocol.name == in_bird);
        (protocol, in_bird, Session::new(&router.port, name, kind, protocol))
    };
    let bgp = router.bgp.iter().map(|bgp| {
        let (protocol, _, mut session) = session(SessionKind::Bgp, &bgp.name);
        if let Some(protocol) = protocol {
            session.state = protocol.bgp_state.clone().unwrap_or(session.state);
            session.up = protocol.state == State::Up;
            session.last_error.clone_from(&protocol.last_error);
            session.since = Some(protocol.since.clone());
        }
        session
    });
    let ospf = router.ospf.iter().map(|ospf| {
        let (protocol, in_bird, mut session) = session(SessionKind::Ospf, &ospf.name);
        if protocol.is_some_and(|protocol| protocol.state == State::Up) {
            let of_session = seen.ospf.iter().filter(|neighbor| neighbor.protocol == in_bird);
            let best = of_session.max_by_key(|neighbor| ospf_rank(&neighbor.state));
            session.state = best.map_or("no neighbor", |neighbor| neighbor.state.as_str()).to_owned();
            session.up = session.state == "Full";
        }
        session
    });
    let rip = router.rip.iter().map(|rip| {
        let (protocol, in_bird, mut session) = session(SessionKind::Rip, &rip.name);
        if protocol.is_some_and(|protocol| protocol.state == State::Up) {
            session.up = seen.rip.iter().any(|neighbor| neighbor.protocol == in_bird);
            session.state = if session.up { "up" } else { "no neighbor" }.to_owned();
        }
        session
    });
    let bfd = router.bfd.iter().map(|bfd| {
        let mut session = Session::new(&router.port, &bfd.name, SessionKind::Bfd, None);
        let on_link = |seen: &&BfdSession| {
            seen.neighbor == bfd.neighbor && seen.interface.as_ref().is_none_or(|name| *name == router.interface)
        };
        if let Some(found) = seen.bfd.iter().find(on_link) {
            session.state.clone_from(&found.state);
            session.up = found.state == "Up";
            session.since = Some(found.since.clone());
        }
        session
    });
    bgp.chain(ospf).chain(rip).chain(bfd).collect()
}

/// The name of a session in BIRD.
fn name_of(kind: SessionKind, port: &str, session: &str) -> String {
    match kind {
        SessionKind::Bgp => bgp_name(port, session),
        SessionKind::Ospf => ospf_name(port, session),
        SessionKind::Rip => rip_name(port, session),
        SessionKind::Bfd => BFD.to_owned(),
    }
}

/// The order of states in which adjacencies are formed.
fn ospf_rank(state: &str) -> usize {
    ["Down", "Attempt", "Init", "2-Way", "ExStart", "Exchange", "Loading", "Full"]
        .iter()
        .position(|known| *known == state)
        .unwrap_or(0)
}

impl Session {
    /// What all kinds have in common.
    fn new(port: &str, name: &str, kind: SessionKind, protocol: Option<&Protocol>) -> Self {
        let state = protocol.map_or("not started", |protocol| match protocol.state {
            State::Down => "down",
            State::Start => "start",
            State::Up => "up",
            State::Stop => "stop",
            State::Flush => "flush",
        });
        let channels = || protocol.into_iter().flat_map(|protocol| &protocol.channels);
        let routes = || channels().filter_map(|channel| channel.routes);
        Self {
            port: port.to_owned(),
            name: name.to_owned(),
            kind,
            up: false,
            state: state.to_owned(),
            since: None,
            last_error: None,
            received: routes().map(|routes| routes.imported + routes.filtered).sum(),
            sent: routes().map(|routes| routes.exported).sum(),
            updates_received: channels().map(|c| c.import_updates.received + c.import_withdraws.received).sum(),
            updates_sent: channels().map(|c| c.export_updates.accepted + c.export_withdraws.accepted).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Bfd, BfdTimers, Bgp, Family, Learn, LinkType, Ospf, OspfVersion, Rip, RipVersion, bfd_sessions, ospf_neighbors,
        protocols,
        protocols::tests::{PROTOCOLS, reply},
        rip_neighbors,
        tables::tests::{BFD_SESSIONS, OSPF_NEIGHBORS, RIP_NEIGHBORS},
    };

    pub(crate) fn routers() -> [Router; 2] {
        let bgp = |name: &str, neighbor: &str| Bgp::new(name, 65001, neighbor.parse().unwrap(), 65002, [Family::V4]);
        let ospf = |name: &str, version| Ospf {
            name: name.into(),
            version,
            area: [0; 4].into(),
            link: LinkType::PointToPoint,
            hello_s: 1,
            dead_s: 4,
            password: None,
            learn: Learn::Count,
        };
        let rip = Rip {
            name: "old".into(),
            version: RipVersion::V2,
            update_s: 5,
            timeout_s: 30,
            password: None,
            learn: Learn::Count,
        };
        let bfd = |name: &str, neighbor: &str| Bfd {
            name: name.into(),
            neighbor: neighbor.parse().unwrap(),
            timers: BfdTimers { interval_us: 50_000, multiplier: 3 },
        };
        let east = Router {
            ospf: vec![ospf("core", OspfVersion::V2), ospf("v6", OspfVersion::V3)],
            rip: vec![rip],
            bfd: vec![bfd("alive", "10.99.0.2"), bfd("gone", "10.99.0.9")],
            ..Router::new("east", "rt-east", ["10.99.0.1/24".parse().unwrap()]).with_bgp([bgp("dut", "10.99.0.2")])
        };
        let west = Router::new("west", "rt-west", ["10.98.0.1/24".parse().unwrap()]);
        [east, west.with_bgp([bgp("other", "10.98.0.2"), bgp("new", "10.98.0.3")])]
    }

    #[test]
    fn each_configured_session_has_what_bird_says_of_it() {
        let seen = Observation {
            protocols: protocols(&reply(PROTOCOLS)),
            bfd: bfd_sessions(&reply(BFD_SESSIONS)),
            ospf: ospf_neighbors(&reply(OSPF_NEIGHBORS)),
            rip: rip_neighbors(&reply(RIP_NEIGHBORS)),
        };
        let all = sessions(&routers(), &seen);
        let read: Vec<_> = all.iter().map(|s| (s.kind, s.name.as_str(), s.up, s.state.as_str())).collect();
        assert_eq!(
            read,
            [
                (SessionKind::Bgp, "dut", true, "Established"),
                (SessionKind::Ospf, "core", true, "Full"),
                (SessionKind::Ospf, "v6", false, "not started"),
                (SessionKind::Rip, "old", false, "not started"),
                (SessionKind::Bfd, "alive", true, "Up"),
                (SessionKind::Bfd, "gone", false, "not started"),
                (SessionKind::Bgp, "other", false, "Connect"),
                (SessionKind::Bgp, "new", false, "not started"),
            ]
        );
        let dut = &all[0];
        assert_eq!((dut.received, dut.sent, dut.updates_received, dut.updates_sent), (3, 1_000_000, 7, 1_000_004));
        assert_eq!(all[6].last_error.as_deref(), Some("Socket: Connection refused"));
        assert_eq!(sessions(&routers(), &Observation::default()).iter().filter(|session| session.up).count(), 0);
    }
}
