// SPDX-License-Identifier: Apache-2.0
//! The parts of a received Ethernet frame that a station on a link looks at.
use spate_net::{ethernet::Link, vlan::Tags};

use crate::Mac;

/// A received frame's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) destination: Mac,
    pub(crate) source: Mac,
    pub(crate) tags: Tags,
    pub(crate) ethertype: u16,
    pub(crate) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The parts of a frame with at most [`Tags::MOST`] tags; none for others, and if it is cut short.
    #[inline]
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let link = Link::find(bytes)?;
        Some(Self {
            destination: *bytes.first_chunk()?,
            source: *bytes.get(6..)?.first_chunk()?,
            tags: if link.tag.is_none() { Tags::NONE } else { Tags::of(bytes)? },
            ethertype: link.ethertype,
            payload: bytes.get(link.end..)?,
        })
    }
}
