// SPDX-License-Identifier: Apache-2.0
//! MPLS (RFC 3032) as a kind of tunnel: the near ends are label edge routers, the remote end is the next label switching router, and the
//! entry at the bottom of the stack is the identifier. There is no outer IP header: routers swap the labels above, or take them off, so
//! that only the bottom one identifies the client of a received packet.
use spate_net::{
    encap::{Carries, Encap},
    mpls::{Entry, LABEL, LEN, UNICAST, split_bottom},
};

use crate::{
    counters::Count,
    tunnel::{Malformed, Message, Over, TunnelDirection, Tunnelling},
};

/// Settings of MPLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mpls {
    /// Entries above the bottom one, the outermost first: the first `above_len`.
    above: [Entry; Self::MAX_OUTER_ENTRIES],
    above_len: u8,
    /// Packets for clients arrive without labels: the last one was taken off a hop before (RFC 3032 section 2.1, implicit null).
    pub popped: bool,
}

impl Mpls {
    /// Maximum number of entries above the bottom one.
    pub const MAX_OUTER_ENTRIES: usize = 7;

    /// With these entries above the bottom one; none if there are more than [`Mpls::MAX_OUTER_ENTRIES`].
    pub fn new(above: &[Entry], popped: bool) -> Option<Self> {
        let mut this = Self { above_len: above.len() as u8, popped, ..Self::default() };
        this.above.get_mut(..above.len())?.copy_from_slice(above);
        Some(this)
    }
}

impl Tunnelling for Mpls {
    fn over(&self) -> Over {
        Over::Link(UNICAST)
    }

    fn carries(&self) -> Carries {
        Carries::Packet
    }

    /// Traffic class and time to live are not the tunnel's.
    fn id_bits(&self) -> u32 {
        LABEL
    }

    fn is_without(&self, way: TunnelDirection) -> bool {
        self.popped && way == TunnelDirection::Down
    }

    fn encap(&self, way: TunnelDirection, _: bool) -> Encap {
        if self.is_without(way) {
            return Encap::NONE;
        }
        let mut stack = [0; (Self::MAX_OUTER_ENTRIES + 1) * LEN];
        let above = &self.above[..usize::from(self.above_len)];
        for (place, entry) in stack.as_chunks_mut().0.iter_mut().zip(above) {
            *place = entry.bits(false).to_be_bytes();
        }
        // The one at the bottom is written with the packet.
        let bottom = above.len() * LEN;
        Encap::on_link(UNICAST, self.carries(), &stack[..bottom + LEN]).with_id(bottom)
    }

    fn read<'a>(&self, message: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let (bottom, data) = split_bottom(message).ok_or(Malformed)?;
        Ok(Message::Carried { id: Some(bottom), data })
    }

    fn counts(&self) -> (Count, Count) {
        (Count::MplsUnknownTunnel, Count::MplsMalformed)
    }
}
