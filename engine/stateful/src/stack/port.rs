// SPDX-License-Identifier: Apache-2.0
//! A port as flows see it: its MAC, its next hops, and what waits to be sent on it.
use std::{collections::VecDeque, sync::Arc};

use crate::{
    Address,
    packet::{Below, Head, Packet},
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

/// Flows of a port that have something to send, in the order in which they send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) head: u32,
    pub(super) tail: u32,
}

#[derive(Debug)]
pub(super) struct Port {
    pub(super) link: PortLink,
    /// Which frames are for its station, and need no closer look.
    pub(super) station: Station,
    /// Stations that clients reach without the next hop.
    pub(super) neighbours: Neighbours,
    /// A pool of its templates may have multicast addresses.
    pub(super) groups: bool,
    pub(super) ready: Queue,
    /// In the order in which they leave.
    pub(super) answers: VecDeque<Answer>,
}

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
        if let Some(group) = self.group_mac(remote) {
            return group;
        }
        if self.neighbours.is_empty() {
            return self.link.next_hop;
        }
        let found = self.neighbours.binary_search_by_key(&remote, |(address, _)| *address);
        found.map_or(self.link.next_hop, |at| self.neighbours[at].1)
    }

    /// The MAC of a multicast group, if its templates may talk to groups.
    #[inline]
    pub(super) fn group_mac(&self, address: Address) -> Option<[u8; 6]> {
        if self.groups { address.group_mac() } else { None }
    }

    /// The MAC of the next hop of frames that answer a packet.
    #[inline]
    pub(super) fn back_to(&self, packet: &Packet<'_>) -> [u8; 6] {
        self.group_mac(packet.source).unwrap_or(packet.source_mac)
    }

    /// Whether a packet can come from an address (RFC 1122 section 4.2.3.10): a host's, or a multicast one if that is allowed.
    pub(super) fn may_be_source(&self, source: Address) -> bool {
        source.is_hosts() || self.group_mac(source).is_some()
    }
}

/// A segment that belongs to no flow, to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) below: Below,
    pub(super) head: Head,
    /// Its template's side, for the counters.
    pub(super) side: usize,
}
