// SPDX-License-Identifier: Apache-2.0
//! The fixed part of an IP header, of either version.
use super::{Address, Version};
use crate::{
    field::{be16, be32},
    ipv4, ipv6,
};

/// The fixed part of a packet's IP header, unverified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// IPv4 type of service, IPv6 traffic class.
    pub traffic_class: u8,
    /// Bytes of the header: of IPv4 with its options, of IPv6 without extension headers.
    pub header: usize,
    /// Bytes of the packet, as the header says.
    pub len: usize,
}

impl Fixed {
    /// Reads the header that a packet begins with. None if not all of it is there, or if it is IPv6 between IPv4-mapped addresses:
    /// these are on no link (RFC 4942 section 2.2), and would be taken for IPv4.
    #[inline]
    pub fn read(packet: &[u8]) -> Option<Self> {
        match Version::of_packet(packet)? {
            Version::V4 => {
                let fixed = packet.first_chunk::<{ ipv4::HEADER }>()?;
                Some(Self {
                    source: Address::v4(be32(fixed, 12)),
                    destination: Address::v4(be32(fixed, 16)),
                    traffic_class: fixed[1],
                    header: ipv4::header_len(fixed),
                    len: usize::from(be16(fixed, 2)),
                })
            }
            Version::V6 => {
                let fixed = packet.first_chunk::<{ ipv6::HEADER }>()?;
                let (source, destination) = ipv6::addresses(fixed);
                (source.is_v6() && destination.is_v6()).then_some(Self {
                    source,
                    destination,
                    traffic_class: fixed[0] << 4 | fixed[1] >> 4,
                    header: ipv6::HEADER,
                    len: ipv6::HEADER + usize::from(be16(fixed, 4)),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_addresses_that_stand_for_ipv4_are_not_taken_for_it() {
        let mut packet = [0; 40];
        packet[0] = 0x60;
        (packet[8], packet[24]) = (0x20, 0x20);
        assert!(Fixed::read(&packet).is_some());
        packet[24..].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 16, 0, 0, 0]);
        assert!(Fixed::read(&packet).is_none());
    }
}
