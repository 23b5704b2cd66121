// SPDX-License-Identifier: Apache-2.0
//! A port as a station on its link: its addresses, the stations it sends to, the multicast groups it receives.
//!
//! [`Interface`] answers ARP (RFC 826), IPv6 neighbour discovery (RFC 4861) and echo requests (RFC 792, RFC 4443) for the
//! port's addresses and those of stations that are emulated behind it ([`Range`]), announces the former (RFC 5227 §2.3,
//! RFC 4861 §7.2.6), finds the MAC addresses of next hops, reports membership of groups (IGMP, MLD), and sends echo requests ([`Ping`]). It takes frames and a
//! clock and gives frames: nothing here does I/O. [`Interest`] is the cheap part for a receiver: which frames an
//! `Interface` wants to see at all.
//!
//! ```
//! use spate_neighbour::{Config, Interface, Output};
//!
//! let addresses = vec!["198.18.0.1/24".parse().unwrap()];
//! let mut port = Interface::new([2, 0, 0, 0, 0, 1], Config { addresses, ..Config::default() }, 0)?;
//! let mut output = Output::default();
//! port.poll(0, &mut output);
//! // It announces its address: an ARP request of the owner to all (RFC 5227).
//! assert_eq!(output.frames[0][..6], [0xff; 6]);
//! assert_eq!(output.frames[0][12..14], [0x08, 0x06]);
//! # Ok::<(), spate_neighbour::ConfigError>(())
//! ```
#![forbid(unsafe_code)]

mod address;
mod frame;
mod igmp;
mod interest;
mod interface;
mod membership;
mod message;
mod mld;
mod ping;
mod range;
mod table;

pub use address::{AddressError, Prefix};
pub use interest::Interest;
pub use interface::{
    Config, ConfigError, Event, Interface, MOST_ADDRESSES, NextHop, NoRoute, Output, PingError, Sought,
};
pub use membership::{Group, MOST_GROUPS, MOST_SOURCES};
pub use ping::{LEAST_INTERVAL_NS, LONGEST_TIMEOUT_NS, MOST_PINGS, Ping, PingEvent, SIZES, STAMP};
pub use range::Range;
pub use table::{MOST_NEIGHBOURS, Neighbour, TableFull};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// As people write it: "02:00:00:00:00:01".
pub fn mac_text(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
