// SPDX-License-Identifier: Apache-2.0
//! A port as a station on its link: its addresses, the stations it sends to, the multicast groups it receives.
//!
//! [`Interface`] answers ARP (RFC 826), IPv6 neighbor discovery (RFC 4861) and echo requests (RFC 792, RFC 4443) for the
//! port's addresses and those of stations that are emulated behind it ([`Range`]), announces the former (RFC 5227 §2.3,
//! RFC 4861 §7.2.6), finds the MAC addresses of next hops, reports membership of groups (IGMP, MLD), and sends echo requests ([`Ping`]). It takes frames and a
//! clock and gives frames: nothing here does I/O. [`Interest`] is the cheap part for a receiver: which frames an
//! `Interface` wants to see at all.
//!
//! # Adding a protocol
//!
//! A protocol that answers and asks on a link is a file of `stations` and a line of its registration (`register!` in `stations.rs`):
//! 1. `stations/NAME.rs` has its state and reads and writes its messages. It implements `Protocol`.
//! 2. `new` reads what it needs of the port's [`Config`]; a new setting is a field of that, checked in [`Config::check`].
//! 3. `interest` adds EtherTypes and groups' MACs that receivers pass on. ARP, ICMP and ICMPv6 for the port's addresses come anyway.
//!    What else it wants of IP is a field of `Wanted` and its check in [`Interest::concerns`], which runs for each foreign packet.
//! 4. `receive` sees all frames; `poll` is called at the latest when `next_due_ns` is over. Both write frames and [`Event`]s to an [`Output`].
//! 5. All protocols share the `Link`: addresses, next hops, and the table of neighbors, of which any of them may want some.
//!
//! `stations/beacon.rs` is an example, registered in tests only.
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

mod address;
mod config;
mod frame;
mod interest;
mod interface;
mod link;
mod message;
mod next_hop;
mod output;
mod range;
mod stations;
mod table;

pub use address::{AddressError, Prefix, link_local};
pub use config::{Config, ConfigError, MAX_ADDRESSES};
pub use interest::Interest;
pub use interface::Interface;
pub use next_hop::{NextHop, NoRoute};
pub use output::{Event, Output};
pub use range::Range;
pub use stations::{
    membership::{Group, MAX_GROUPS, MAX_SOURCES},
    ping::{MAX_PINGS, MAX_TIMEOUT_NS, MIN_INTERVAL_NS, Ping, PingError, PingEvent, SIZES, STAMP},
    resolution::NeighborQuery,
};
pub use table::{MAX_NEIGHBOURS, Neighbour, TableFull, Target};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// A MAC as text: "02:00:00:00:00:01".
pub fn mac_text(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
