// SPDX-License-Identifier: Apache-2.0
//! ARP (RFC 826) between Ethernet and IPv4.
use core::net::Ipv4Addr;

use crate::{ethernet::Mac, field::be16};

/// Bytes of a packet.
pub const LEN: usize = 28;
/// Operation of requests.
pub const REQUEST: u16 = 1;
/// Operation of replies.
pub const REPLY: u16 = 2;

/// Hardware type Ethernet, protocol type IPv4, and the lengths of their addresses.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the packet's fields")]
pub struct Arp {
    pub operation: u16,
    pub sender_mac: Mac,
    pub sender: Ipv4Addr,
    pub target_mac: Mac,
    pub target: Ipv4Addr,
}

impl Arp {
    /// Reads a packet; none if it is cut short or of other kinds of addresses.
    pub fn read(packet: &[u8]) -> Option<Self> {
        let packet = packet.first_chunk::<LEN>()?;
        let mac = |at: usize| packet[at..].first_chunk::<6>().copied();
        let address = |at: usize| packet[at..].first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets));
        (packet[..6] == KIND).then_some(Self {
            operation: be16(packet, 6),
            sender_mac: mac(8)?,
            sender: address(14)?,
            target_mac: mac(18)?,
            target: address(24)?,
        })
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; LEN] {
        let mut packet = [0; LEN];
        packet[..6].copy_from_slice(&KIND);
        packet[6..8].copy_from_slice(&self.operation.to_be_bytes());
        packet[8..14].copy_from_slice(&self.sender_mac);
        packet[14..18].copy_from_slice(&self.sender.octets());
        packet[18..24].copy_from_slice(&self.target_mac);
        packet[24..28].copy_from_slice(&self.target.octets());
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_other_kinds_are_not() {
        let arp = Arp {
            operation: REPLY,
            sender_mac: [2, 0, 0, 0, 0, 1],
            sender: [10, 0, 0, 1].into(),
            target_mac: [2, 0, 0, 0, 0, 2],
            target: [10, 0, 0, 2].into(),
        };
        let mut bytes = arp.bytes();
        assert_eq!(Arp::read(&bytes), Some(arp));
        assert_eq!(Arp::read(&bytes[..LEN - 1]), None);
        bytes[1] = 6;
        assert_eq!(Arp::read(&bytes), None);
    }
}
