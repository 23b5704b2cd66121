// SPDX-License-Identifier: Apache-2.0
//! A port as a router on its link: sessions of BGP, OSPF, RIP and BFD, and the routes that it advertises.
//!
//! The protocols themselves are spoken by BIRD 2, a program of its own. This crate says what BIRD shall do and reads what it did:
//! - [`Router`] has the sessions of one port and [`RouteSet`] what is advertised by them; [`check()`] and [`check_routes`] find what is
//!   wrong with them, each with its field.
//! - [`Configuration`] writes both as the text that BIRD reads (bird.conf).
//! - [`Command`] is a line for BIRD's control socket, [`Decoder`] reads the replies, [`Protocol`], [`BfdSession`], [`OspfNeighbor`] and
//!   [`RipNeighbor`] are what is in them.
//! - [`sessions`] brings together what was configured and what was read, and [`History`] adds it up over restarts; [`Sending`] knows whether
//!   all routes are sent. [`LearnedRoutes`] are those of neighbors, [`mrt_prefixes()`] those of a routing table in a file.
//!
//! Nothing here does I/O but read what it is given, and no text that this crate makes contains a password, but for BIRD's configuration itself.
//!
//! ```
//! use spate_routing::{Attributes, Bgp, Configuration, Family, Prefixes, Range, RouteSet, Router, Share, check, check_routes};
//!
//! let dut = Bgp::new("dut", 65001, "10.99.0.2".parse().unwrap(), 65002, [Family::V4]);
//! let east = Router::new("east", "rt-east", ["10.99.0.1/24".parse().unwrap()]).with_bgp([dut]);
//! let customers = RouteSet {
//!     name: "customers".into(),
//!     run: 1,
//!     port: "east".into(),
//!     sessions: vec!["dut".into()],
//!     prefixes: Prefixes::Range(Range { first: "20.0.0.0/24".parse().unwrap(), count: 3, step: 1 }),
//!     share: Share::ALL,
//!     attributes: Attributes { as_path: vec![64512], ..Attributes::default() },
//!     advertised: true,
//! };
//! let (routers, routes) = ([east], [customers]);
//! assert!(check(&routers).is_empty() && check_routes(&routes, &[], &routers, &[]).is_empty());
//!
//! let configuration = Configuration { routers: &routers, routes: &routes };
//! let text = configuration.to_string();
//! assert!(text.contains("neighbor 10.99.0.2 as 65002;"));
//! assert!(text.contains("route 20.0.2.0/24 blackhole;"));
//! ```
#![forbid(unsafe_code)]

mod check;
mod command;
mod configuration;
mod extra;
mod history;
mod learned;
mod mrt;
mod net;
mod prefixes;
mod protocols;
mod reply;
mod route_set;
mod router;
mod sending;
mod sessions;
mod tables;

pub use check::{MAX_NAME_CHARS, Violation, check, check_routes};
pub use command::Command;
pub use configuration::Configuration;
pub use history::{History, Totals};
pub use learned::{Learned, LearnedRoutes};
pub use mrt::{MrtError, mrt_prefixes};
pub use net::{Family, Net, NetError};
pub use prefixes::{MAX_PREFIXES, Nets, Prefixes, PrefixesError, Range, Share};
pub use protocols::{Changes, Channel, Protocol, Routes, State, protocols};
pub use reply::{Decoder, Entry, Line, Refusal, Reply, ReplyError};
pub use route_set::{Attributes, Community, LargeCommunity, NextHop, Origin, RouteSet, TextError};
pub use router::{
    Bfd, BfdTimers, Bgp, Learn, LinkType, Ospf, OspfVersion, Rip, RipVersion, Router, Secret, SecretError,
};
pub use sending::{Connection, Outgoing, Sending, configured};
pub use sessions::{Observation, Session, SessionKind, sessions};
pub use tables::{BfdSession, OspfNeighbor, RipNeighbor, bfd_sessions, ospf_neighbors, rip_neighbors};
