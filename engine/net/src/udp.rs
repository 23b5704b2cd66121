// SPDX-License-Identifier: Apache-2.0
//! UDP (RFC 768): datagrams read without copying, and headers written.
use crate::{
    checksum::{checksum, fold, sum},
    field::{be16, put_be16},
    reject::Reject,
};

/// Bytes of a header.
pub const HEADER: usize = 8;
/// Offset of the checksum.
pub const CHECKSUM: usize = 6;

/// A UDP datagram.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names of the header's fields")]
pub struct Datagram<'a> {
    pub source_port: u16,
    pub destination_port: u16,
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// The datagram at the beginning of an IP packet's payload, if its checksum is right. Over IPv4 it may have none; over IPv6 it must
    /// not be without, but in a tunnel that allows it (RFC 6935).
    pub fn read(body: &'a [u8], pseudo: u64, checksum_required: bool) -> Result<Self, Reject> {
        if body.len() < HEADER {
            return Err(Reject::Truncated);
        }
        let len = usize::from(be16(body, 4));
        if len < HEADER || body.len() < len {
            return Err(Reject::Truncated);
        }
        // Over IPv6, a datagram without a checksum is discarded (RFC 8200 section 8.1).
        let none = be16(body, CHECKSUM) == 0;
        if none && checksum_required {
            return Err(Reject::Checksum);
        }
        // The pseudo header holds UDP's own length.
        if !none && fold(sum(&body[..len]) + pseudo - body.len() as u64 + len as u64) != 0xffff {
            return Err(Reject::Checksum);
        }
        Ok(Self { source_port: be16(body, 0), destination_port: be16(body, 2), payload: &body[HEADER..len] })
    }
}

/// Writes a header without a checksum before a payload of this many bytes.
#[inline]
pub fn write_unsummed(header: &mut [u8; HEADER], (source, destination): (u16, u16), data: usize) {
    put_be16(header, 0, source);
    put_be16(header, 2, destination);
    put_be16(header, 4, (HEADER + data) as u16);
    put_be16(header, CHECKSUM, 0);
}

/// Completes the checksum of a header that has none; `rest` is the sum of all else that it covers.
#[inline]
pub fn complete(header: &mut [u8; HEADER], rest: u64) {
    // 0 would mean that there is none.
    let check = match checksum(sum(header) + rest) {
        0 => 0xffff,
        check => check,
    };
    put_be16(header, CHECKSUM, check);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_without_a_checksum_is_taken_over_ipv4_only() {
        // All else sums up to 0xffff, so that a checksum of 0 would be right.
        let (body, pseudo) = ([0xff, 0xe7, 0, 0, 0, 8, 0, 0], 0x10);
        assert_eq!(fold(sum(&body) + pseudo), 0xffff);
        assert!(Datagram::read(&body, pseudo, false).is_ok());
        assert_eq!(Datagram::read(&body, pseudo, true).err(), Some(Reject::Checksum));
    }
}
