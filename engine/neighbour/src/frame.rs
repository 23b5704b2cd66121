// SPDX-License-Identifier: Apache-2.0
//! The parts of a received Ethernet frame that a station on a link looks at.
use spate_net::ethernet::Link;

use crate::Mac;

/// A received frame's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) destination: Mac,
    pub(crate) source: Mac,
    /// VLAN identifier, 0 where there is no tag or one that carries only a priority.
    pub(crate) vlan: u16,
    pub(crate) ethertype: u16,
    pub(crate) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The parts of a frame with at most one tag, a customer's; none for others, and if it is cut short.
    #[inline]
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let link = Link::find(bytes)?;
        Some(Self {
            destination: *bytes.first_chunk()?,
            source: *bytes.get(6..)?.first_chunk()?,
            vlan: link.station_vlan()?,
            ethertype: link.ethertype,
            payload: bytes.get(link.end..)?,
        })
    }
}
