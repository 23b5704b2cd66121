// SPDX-License-Identifier: Apache-2.0
//! The pcap format (draft-ietf-opsawg-pcap): one header, then packets.
use std::io::Read;

use crate::{
    bytes::{Order, Source},
    captured::{Found, LINK_ETHERNET, MAX_CAPTURED_BYTES},
    problem::Problem,
};

/// Header of a pcap file.
pub(crate) struct Pcap {
    order: Order,
    /// Nanoseconds in the unit of the times' second half.
    unit_ns: u64,
}

impl Pcap {
    /// The byte order and unit of the first four bytes, if they are pcap's.
    pub(crate) fn recognise(magic: [u8; 4]) -> Option<Self> {
        [Order::Little, Order::Big].into_iter().find_map(|order| match order.u32(magic) {
            0xa1b2_c3d4 => Some(Self { order, unit_ns: 1000 }),
            0xa1b2_3c4d => Some(Self { order, unit_ns: 1 }),
            _ => None,
        })
    }

    /// Reads the header behind its first four bytes.
    pub(crate) fn header<R: Read>(&self, source: &mut Source<R>) -> Result<(), Problem> {
        let header: [u8; 20] = source.take()?;
        let major = self.order.u16([header[0], header[1]]);
        if major != 2 {
            return Err(Problem::Version(major));
        }
        // The upper bits say whether frames end with their FCS.
        let link = self.order.u32_at(&header, 16);
        if link & 0x0400_0000 != 0 {
            return Err(Problem::HasFcs);
        }
        match link & 0xffff {
            LINK_ETHERNET => Ok(()),
            other => Err(Problem::LinkType(other)),
        }
    }

    /// Reads the next packet into `frame`.
    pub(crate) fn next<R: Read>(&self, source: &mut Source<R>, frame: &mut Vec<u8>) -> Result<Option<Found>, Problem> {
        let mut header = [0; 16];
        if !source.fill_or_end(&mut header)? {
            return Ok(None);
        }
        let word = |at| self.order.u32_at(&header, at);
        let (len, original_len) = (word(8), word(12));
        if len > MAX_CAPTURED_BYTES {
            return Err(Problem::Length(len));
        }
        frame.resize(len as usize, 0);
        source.fill(frame)?;
        let at_ns = u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)) * self.unit_ns;
        Ok(Some(Found { at_ns, original_len, interface: 0 }))
    }
}
