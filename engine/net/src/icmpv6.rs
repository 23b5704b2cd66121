// SPDX-License-Identifier: Apache-2.0
//! ICMPv6 (RFC 4443): errors about packets, echo, and neighbor discovery (RFC 4861).
use crate::{
    checksum::{fold, sum},
    field::be32,
    icmp::{Error, ErrorKind, HEADER},
    ipv6,
    reject::Reject,
};

/// Type of echo requests.
pub const ECHO_REQUEST: u8 = 128;
/// Type of echo replies.
pub const ECHO_REPLY: u8 = 129;

impl Error {
    /// Reads one that is all of an IPv6 packet's payload.
    pub(crate) fn read_v6(body: &[u8], pseudo: u64) -> Result<Self, Reject> {
        if body.len() < HEADER + ipv6::HEADER + 8 {
            return Err(Reject::Other);
        }
        let kind = match (body[0], body[1]) {
            (2, _) => ErrorKind::TooBig(be32(body, 4).min(0xffff) as u16),
            (1, 1 | 4 | 5 | 6) | (4, _) => ErrorKind::Refused,
            (1 | 3, _) => ErrorKind::Transient,
            _ => return Err(Reject::Other),
        };
        if fold(sum(body) + pseudo) != 0xffff {
            return Err(Reject::Checksum);
        }
        let about = &body[HEADER..];
        let Some(header) = about.first_chunk() else { return Err(Reject::Truncated) };
        Error::about(kind, about[6], ipv6::addresses(header), &about[ipv6::HEADER..])
    }
}
