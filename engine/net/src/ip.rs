// SPDX-License-Identifier: Apache-2.0
//! What IPv4 and IPv6 have in common: addresses, protocol numbers, the pseudo header, and the fixed part of either's header.
use core::net::IpAddr;

use crate::checksum::{fold, sum, with_carry};

mod fixed;

pub use fixed::Fixed;

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;
/// Protocol number of SCTP.
pub const SCTP: u8 = 132;

/// Version of an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

impl Version {
    /// Version of a packet, by its first four bits.
    #[inline]
    pub fn of_packet(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Some(Self::V4),
            6 => Some(Self::V6),
            _ => None,
        }
    }
}

/// An IP address; IPv4 as `::ffff:a.b.c.d` (RFC 4291 section 2.5.5.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub u128);

const MAPPED_V4: u128 = 0xffff << 32;

impl Address {
    /// An IPv4 address.
    #[inline]
    pub const fn v4(address: u32) -> Self {
        Self(MAPPED_V4 | address as u128)
    }

    /// The 32 bits of IPv4, if it is such.
    #[inline]
    pub const fn as_v4(self) -> Option<u32> {
        if self.0 >> 32 == MAPPED_V4 >> 32 { Some(self.0 as u32) } else { None }
    }

    /// Whether it is of IPv6.
    #[inline]
    pub const fn is_v6(self) -> bool {
        self.0 >> 32 != MAPPED_V4 >> 32
    }

    /// Whether a host can have it: it is neither that of none, nor of itself, nor of a group or of all.
    pub fn is_hosts(self) -> bool {
        match IpAddr::from(self) {
            IpAddr::V4(v4) => !(v4.is_unspecified() || v4.is_loopback() || v4.is_multicast() || v4.is_broadcast()),
            IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_loopback() || v6.is_multicast()),
        }
    }

    /// The MAC address that frames to a multicast group have as their destination (RFC 1112 section 6.4, RFC 2464 section 7). None
    /// for an address that is not multicast.
    #[inline]
    pub const fn group_mac(self) -> Option<[u8; 6]> {
        let [.., a, b, c, d] = self.0.to_be_bytes();
        match self.as_v4() {
            Some(v4) if v4 >> 28 == 0xe => Some([0x01, 0x00, 0x5e, b & 0x7f, c, d]),
            None if self.0 >> 120 == 0xff => Some([0x33, 0x33, a, b, c, d]),
            _ => None,
        }
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::v4(v4.to_bits()),
            IpAddr::V6(v6) => Self(v6.to_bits()),
        }
    }
}

impl From<Address> for IpAddr {
    #[inline]
    fn from(address: Address) -> Self {
        match address.as_v4() {
            Some(v4) => Self::V4(v4.into()),
            None => Self::V6(address.0.into()),
        }
    }
}

impl core::fmt::Debug for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.as_v4() {
            Some(v4) => core::net::Ipv4Addr::from_bits(v4).fmt(f),
            None => core::net::Ipv6Addr::from_bits(self.0).fmt(f),
        }
    }
}

/// Sum of the pseudo header's 16-bit words (RFC 9293 section 3.1, RFC 8200 section 8.1), for the checksum of this many bytes.
#[inline]
pub fn pseudo_header(source: Address, destination: Address, protocol: u8, len: usize) -> u64 {
    let addresses = match (source.as_v4(), destination.as_v4()) {
        (Some(source), Some(destination)) => halves(source) + halves(destination),
        _ => return pseudo_header_v6(source, destination, protocol, len),
    };
    addresses + u64::from(protocol) + len as u64
}

/// The sum of a pseudo header with IPv6 addresses.
#[inline(always)]
pub fn pseudo_header_v6(source: Address, destination: Address, protocol: u8, len: usize) -> u64 {
    // A number is congruent to the sum of its 16-bit digits.
    let eights = [source.0 >> 64, source.0, destination.0 >> 64, destination.0].map(|bits| bits as u64);
    let sum = eights.into_iter().fold(0, with_carry);
    (sum >> 32) + (sum & 0xffff_ffff) + u64::from(protocol) + len as u64
}

#[inline]
fn halves(v: u32) -> u64 {
    u64::from(v >> 16) + u64::from(v & 0xffff)
}

/// Whether what a checksum covers, with the sum of the pseudo header if it has one, adds up.
#[inline]
pub fn is_right(covered: &[u8], pseudo: u64) -> bool {
    fold(sum(covered) + pseudo) == 0xffff
}
