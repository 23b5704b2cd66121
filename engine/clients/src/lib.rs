// SPDX-License-Identifier: Apache-2.0
//! Emulated clients of an access network, by the hundred thousand: hosts that come to their addresses by DHCP, DHCPv6 and router
//! advertisements, keep their leases, and answer for their addresses.
//!
//! A [`Group`] is given frames as they arrive and the time, and gives frames to an [`Output`]: it does no I/O, has no clock, takes no lock
//! and, once made, allocates nothing. With equal seeds and equal input it does the same. Clients start at exact distances
//! ([`Config::rate`]), and their [`State`]s, [`Cause`]s of failure and [`Counters`] say what became of them.
//!
//! | file | what it speaks |
//! |---|---|
//! | `arp.rs` | ARP (RFC 826), probes and conflicts (RFC 5227), the gateway's MAC |
//! | `dhcp4.rs` | DHCP (RFC 2131, RFC 2132, RFC 3046) |
//! | `nd.rs` | neighbor discovery (RFC 4861), link-local and advertised addresses (RFC 4862) |
//! | `dhcp6.rs` | DHCPv6 (RFC 8415): addresses and prefixes |
//! | `echo.rs` | ping (RFC 792, RFC 4443) |
//!
//! `interest.rs` says which frames of a port concern clients at all. `group.rs` gives them their frames and wakes them up; `client.rs` has what is kept of a client, 128 bytes, and 64 more with IPv6.
//! Messages are read and written by `spate-net`.
//!
//! A client has at most one IPv4 address, one of an advertised prefix (the first, of 64 bits), one leased IPv6 address and one delegated
//! prefix (at most 64 bits), and one router, the first that it hears of. Clients with more tags than VLANs share these in turn.
//!
//! ```
//! use spate_clients::{Config, Count, Group, Rate, State};
//! use spate_net::{dhcp4, vlan::Tags};
//!
//! let mut clients = Group::new(Config::dhcp([2, 0x10, 0, 0, 0, 0], 1000, Rate::per_second(5000)), 0)?;
//! clients.start_all(0);
//! let mut frames: Vec<Vec<u8>> = Vec::new();
//! for ms in 0..2 {
//!     clients.poll(ms * 1_000_000, &mut frames);
//! }
//! // One each 200 us: DHCPDISCOVER, broadcast from the client's MAC.
//! assert_eq!((frames.len(), clients.counters().get(Count::Dhcp4Discover)), (6, 6));
//! assert_eq!(frames[5][..12], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0x10, 0, 0, 0, 5]);
//! assert_eq!(dhcp4::Message::read(&frames[5][42..]).unwrap().kind(), Some(dhcp4::DISCOVER));
//! assert_eq!(clients.counters().clients(State::Discovering), 6);
//! // What arrives is given to `receive`, with its tags; what is due next says `next_due_ns`.
//! clients.receive(&frames[5], Tags::NONE, 1_000_000, &mut Vec::new());
//! assert_eq!(clients.next_due_ns(), Some(1_200_000));
//! # Ok::<(), spate_clients::ConfigError>(())
//! ```
#![forbid(unsafe_code)]

mod arp;
mod client;
mod config;
mod counters;
mod details;
mod dhcp4;
mod dhcp6;
mod duid;
mod echo;
mod frame;
mod group;
mod holders;
mod interest;
mod interned;
mod layout;
mod nd;
mod news;
mod pacing;
mod pattern;

pub use client::{Cause, State};
pub use config::{Config, ConfigError, Dhcp4, Dhcp6, Dhcp6When, Ipv4, Ipv6, Probe, Retry, Static4, VlanRange};
pub use counters::{COUNTERS, Count, Counters, SetupRate};
pub use details::{Details, Details4, Details6, Source};
pub use frame::{MAX_FRAME, Output};
pub use group::{Group, Leave};
pub use interest::{For, Interest};
pub use pacing::Rate;
pub use pattern::{MAX_TEXT, Pattern, PatternError};
