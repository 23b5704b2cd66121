// SPDX-License-Identifier: Apache-2.0
//! What packets look like: a file for each protocol with what is read and written of it, one pass that finds the layers of a frame
//! ([`headers`]), the Internet checksum, marks and the measurement trailer.
//!
//! ```
//! use spate_net::{Headers, ip::TCP};
//!
//! let mut frame = vec![0; 64];
//! frame[12..22].copy_from_slice(&[0x81, 0, 0, 7, 0x08, 0, 0x45, 0, 0, 46]); // VLAN 7, then IPv4
//! frame[27] = TCP;
//! let found = Headers::find(&frame).unwrap();
//! assert_eq!((found.link.station_vlan(), found.at, found.transport), (Some(7), 18, Some((TCP, 38))));
//! ```
pub mod address_ranges;
pub mod arp;
pub mod checksum;
pub mod dhcp4;
pub mod dhcp6;
pub mod encap;
pub mod ethernet;
pub mod fast;
pub mod field;
pub mod gre;
pub mod gtpu;
pub mod headers;
pub mod icmp;
pub mod icmpv6;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod mac;
pub mod mark;
pub mod mpls;
pub mod ndp;
pub mod offload;
pub mod oracle;
pub mod packet;
pub mod pktgen;
pub mod pppoe;
pub mod reflect;
pub mod reject;
pub mod spread;
pub mod tag_list;
pub mod tcp;
pub mod trailer;
pub mod udp;
pub mod vlan;
pub mod vxlan;

pub use address_ranges::AddressRanges;
pub use encap::Encap;
pub use headers::Headers;
pub use ip::Address;
pub use mark::Mark;
pub use tag_list::TagList;
pub use trailer::Trailer;

/// Bytes of a frame that `frame_len` omits: the frame check sequence.
pub const FCS_LEN: u64 = 4;
