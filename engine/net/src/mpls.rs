// SPDX-License-Identifier: Apache-2.0
//! MPLS label stacks (RFC 3032): entries of four bytes, the last of which has the bottom-of-stack bit.
use crate::ip::Version;

/// EtherTypes of unicast packets and, as RFC 5332 has them, of those with an upstream-assigned label.
pub const ETHERTYPES: [u16; 2] = [0x8847, 0x8848];
/// Bytes of an entry.
pub const LEN: usize = 4;

/// The IP packet behind the label stack that begins at an offset. Nothing names its protocol: its version does.
pub fn find_ip(frame: &[u8], mut at: usize) -> Option<(Version, usize)> {
    loop {
        let bottom = *frame.get(at + 2)? & 1 == 1;
        at += LEN;
        if bottom {
            return Some((Version::of_packet(frame.get(at..)?)?, at));
        }
    }
}
