// SPDX-License-Identifier: Apache-2.0
//! A port as flows see it: its MAC, its next hops, and what waits to be sent on it.
use std::{collections::VecDeque, sync::Arc};

use super::side_index::SideIndex;
use crate::{
    Address,
    flow::FlowIndex,
    packet::{LowerHeaders, Packet, SegmentHeader},
};

/// A port of the engine as flows need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortLink {
    /// Its own.
    pub mac: [u8; 6],
    /// MACs of the next hops of clients' frames.
    pub next_hop: [u8; 6],
}

/// Peers on a link and their MACs, in ascending order.
pub type Neighbours = Arc<[(Address, [u8; 6])]>;

/// Where the frames of a port's flows go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NextHops {
    /// Peers that clients send to at a MAC of their own.
    pub neighbours: Neighbours,
    /// Where clients send to all others, over IPv4 and IPv6.
    pub others: [[u8; 6]; 2],
    /// Routers that have another MAC than before. Servers send to where the first packet of a flow came from; if that was from such a router, to
    /// where it is now.
    pub moved: Box<[MovedRouter]>,
    /// Addresses that are on the link, from first to last: no router is between.
    pub on_link: Box<[(Address, Address)]>,
}

/// A router that has another MAC than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedRouter {
    /// Packets of IPv6 go through it, not of IPv4.
    pub v6: bool,
    /// Its MAC.
    pub mac: [u8; 6],
    /// MACs that the router had before.
    pub former: Box<[[u8; 6]]>,
}

impl NextHops {
    /// The MAC that clients send to for an address.
    #[inline]
    pub(crate) fn towards(&self, remote: Address) -> [u8; 6] {
        let other = self.others[usize::from(remote.is_v6())];
        if self.neighbours.is_empty() {
            return other;
        }
        let found = self.neighbours.binary_search_by_key(&remote, |(address, _)| *address);
        found.map_or(other, |at| self.neighbours[at].1)
    }

    /// The MAC that servers send to for an address that they have sent to at `mac` so far.
    fn back_to(&self, remote: Address, mac: [u8; 6]) -> [u8; 6] {
        let v6 = remote.is_v6();
        let router = self.moved.iter().find(|router| router.v6 == v6 && router.former.contains(&mac));
        let is_on_link = || self.on_link.iter().any(|(first, last)| (first..=last).contains(&&remote));
        router.filter(|_| !is_on_link()).map_or(mac, |router| router.mac)
    }
}

/// Flows of a port that have something to send, in the order in which they send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) head: FlowIndex,
    pub(super) tail: FlowIndex,
}

/// A port as a stack has it. Its size is a power of two, so that one is found by a shift.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Port {
    pub(super) link: PortLink,
    /// Which frames are for its station, and need no closer look.
    pub(super) station: Station,
    /// Where its frames go.
    pub(super) hops: NextHops,
    /// A pool of its templates may have multicast addresses.
    pub(super) groups: bool,
    pub(super) ready: Queue,
    /// In the order in which they leave.
    pub(super) answers: VecDeque<Answer>,
}

const _: () = assert!(size_of::<Port>().is_power_of_two());

/// The MAC that frames for a station have as their destination, as the first 8 bytes of a frame are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Station {
    mask: u64,
    mac: u64,
}

impl Station {
    /// All frames are for it.
    pub(super) const ANY: Self = Self { mask: 0, mac: 0 };
    /// No frame is: each has to be looked at closer.
    pub(super) const NONE: Self = Self { mask: 0, mac: 1 };

    pub(super) fn of([a, b, c, d, e, f]: [u8; 6]) -> Self {
        Self { mask: u64::MAX >> 16, mac: u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) }
    }

    #[inline]
    pub(super) fn is_for(self, frame: &[u8]) -> bool {
        frame.first_chunk().is_some_and(|head| u64::from_le_bytes(*head) & self.mask == self.mac)
    }
}

impl Port {
    /// The MAC of the next hop to an address.
    #[inline]
    pub(super) fn towards(&self, remote: Address) -> [u8; 6] {
        match self.group_mac(remote) {
            Some(group) => group,
            None => self.hops.towards(remote),
        }
    }

    /// The MAC of the next hop of an open flow to an address, at `mac` so far.
    pub(super) fn again_towards(&self, remote: Address, mac: [u8; 6], of_client: bool) -> [u8; 6] {
        if of_client { self.towards(remote) } else { self.hops.back_to(remote, mac) }
    }

    /// The MAC of a multicast group, if its templates may talk to groups.
    #[inline]
    pub(super) fn group_mac(&self, address: Address) -> Option<[u8; 6]> {
        if self.groups { address.group_mac() } else { None }
    }

    /// The MAC of a multicast group, or another if an address is none of a group.
    // Not inlined: the compiler would take MACs apart, byte by byte.
    #[inline(never)]
    fn group_or(&self, address: Address, mac: [u8; 6]) -> [u8; 6] {
        self.group_mac(address).unwrap_or(mac)
    }

    /// The MAC of the next hop of frames that answer a packet.
    #[inline]
    pub(super) fn back_to(&self, packet: &Packet<'_>) -> [u8; 6] {
        if self.groups { self.group_or(packet.source, packet.source_mac) } else { packet.source_mac }
    }

    /// Whether a packet can come from an address (RFC 1122 section 4.2.3.10): a host's, or a multicast one if that is allowed.
    pub(super) fn may_be_source(&self, source: Address) -> bool {
        source.is_hosts() || self.group_mac(source).is_some()
    }
}

/// A segment that belongs to no flow, to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) below: LowerHeaders,
    pub(super) head: SegmentHeader,
    /// Its template's side, for the counters.
    pub(super) side: SideIndex,
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const NEW: [u8; 6] = [2, 0, 0, 0, 0, 2];
    const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 3];

    fn v4(a: u8, b: u8) -> Address {
        Address::v4(u32::from_be_bytes([10, a, 0, b]))
    }

    #[test]
    fn servers_follow_their_clients_router_and_no_other_station_that_has_its_former_mac() {
        let hops = NextHops {
            moved: [MovedRouter { v6: false, mac: NEW, former: [OTHER, OLD].into() }].into(),
            on_link: [(v4(9, 0), v4(9, 255))].into(),
            ..NextHops::default()
        };
        // Behind the router.
        assert_eq!([OLD, OTHER].map(|mac| hops.back_to(v4(8, 1), mac)), [NEW, NEW]);
        // Behind another router; on the link itself; over IPv6.
        assert_eq!(hops.back_to(v4(8, 1), [2; 6]), [2; 6]);
        assert_eq!(hops.back_to(v4(9, 1), OLD), OLD);
        assert_eq!(hops.back_to(Address(0x2001_0db8 << 96 | 1), OLD), OLD);
    }

    #[test]
    fn clients_send_to_a_neighbour_or_to_the_next_hop_of_the_family() {
        let neighbours = [(v4(9, 1), OLD), (v4(9, 2), NEW)].into();
        let hops = NextHops { neighbours, others: [OTHER, [6; 6]], ..NextHops::default() };
        let far = Address(0x2001_0db8 << 96 | 1);
        assert_eq!([v4(9, 1), v4(9, 2), v4(8, 1), far].map(|to| hops.towards(to)), [OLD, NEW, OTHER, [6; 6]]);
    }
}
