// SPDX-License-Identifier: Apache-2.0
//! GRE (RFC 2784; keys and sequence numbers: RFC 2890): headers read behind IP, and written.
use crate::{
    field::{be16, be32},
    ip::is_right,
};

/// Protocol number of GRE.
pub const PROTOCOL: u8 = 47;
/// Bytes of a header without optional fields.
pub const HEADER: usize = 4;
/// Offset of the protocol type, which is the EtherType of what is carried.
pub const PROTOCOL_TYPE: usize = 2;
/// Offset of the key in a header that has one, and no checksum.
pub const KEY: usize = 4;
/// Bytes of each optional field; with the checksum go two that are reserved.
const FIELD: usize = 4;
/// Flags: what follows the fixed part, in this order.
const CHECKSUM_PRESENT: u16 = 0x8000;
const KEY_PRESENT: u16 = 0x2000;
const SEQUENCE_PRESENT: u16 = 0x1000;
/// Bits of RFC 1701, in which receivers drop packets (RFC 2784 section 2.3), and those of the version, which is 0.
const MUST_BE_ZERO: u16 = 0x4c07;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// EtherType of what it carries.
    pub protocol_type: u16,
    /// Key, if it has one.
    pub key: Option<u32>,
    /// Bytes of the header, behind which the payload begins.
    pub len: usize,
}

/// The header is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Header {
    /// Reads the header that the payload of an IP packet begins with. A checksum must be right; sequence numbers are not looked at.
    ///
    /// # Errors
    /// If it is cut short, or no header that a receiver has to take.
    pub fn read(packet: &[u8]) -> Result<Self, Malformed> {
        let fixed = packet.first_chunk::<HEADER>().ok_or(Malformed)?;
        let flags = be16(fixed, 0);
        let mut len = HEADER;
        let mut field = |flag: u16| {
            let at = (flags & flag != 0).then_some(len);
            len += at.map_or(0, |_| FIELD);
            at
        };
        let (checksum, key, _) = (field(CHECKSUM_PRESENT), field(KEY_PRESENT), field(SEQUENCE_PRESENT));
        // The checksum is that of the header and the payload.
        if flags & MUST_BE_ZERO != 0 || packet.len() < len || checksum.is_some() && !is_right(packet, 0) {
            return Err(Malformed);
        }
        Ok(Self { protocol_type: be16(fixed, PROTOCOL_TYPE), key: key.map(|at| be32(packet, at)), len })
    }
}

/// A header without checksum and sequence number, of which the protocol type, and the key if there is one, are 0.
pub fn header(keyed: bool) -> &'static [u8] {
    static WITH_KEY: [u8; HEADER + FIELD] = [(KEY_PRESENT >> 8) as u8, 0, 0, 0, 0, 0, 0, 0];
    if keyed { &WITH_KEY } else { &WITH_KEY[FIELD..] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{checksum, sum};
    use proptest::prelude::*;

    fn read(protocol_type: u16, key: Option<u32>, len: usize) -> Result<Header, Malformed> {
        Ok(Header { protocol_type, key, len })
    }

    #[test]
    fn optional_fields_are_looked_through() {
        assert_eq!(Header::read(&[0, 0, 8, 0, 0x45]), read(0x800, None, 4));
        assert_eq!(Header::read(&[0x20, 0, 0x86, 0xdd, 1, 2, 3, 4]), read(0x86dd, Some(0x0102_0304), 8));
        assert_eq!(Header::read(&[0x30, 0, 8, 0, 0, 0, 0, 5, 0, 0, 0, 9]), read(0x800, Some(5), 12));
        // Bits 6 to 12 are ignored.
        assert_eq!(Header::read(&[0x03, 0xf8, 8, 0]), read(0x800, None, 4));
        assert_eq!(Header::read(header(false)), read(0, None, 4));
        assert_eq!(Header::read(header(true)), read(0, Some(0), 8));
    }

    #[test]
    fn a_checksum_must_be_right() {
        let mut packet = [0xa0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0x45, 1, 2];
        let check = checksum(sum(&packet));
        packet[4..6].copy_from_slice(&check.to_be_bytes());
        assert_eq!(Header::read(&packet), read(0x800, Some(7), 12));
        packet[14] ^= 1;
        assert_eq!(Header::read(&packet), Err(Malformed));
    }

    #[test]
    fn what_is_cut_short_or_of_another_version_or_has_a_route_is_malformed() {
        let cut: [&[u8]; 4] = [&[], &[0, 0, 8], &[0x20, 0, 8, 0, 0, 0, 0], &[0x10, 0, 8, 0]];
        let flags = [1u16, 2, 4, 0x400, 0x800, 0x4000].map(|bit| [&bit.to_be_bytes()[..], &[8, 0]].concat());
        for bytes in cut.into_iter().chain(flags.iter().map(Vec::as_slice)) {
            assert_eq!(Header::read(bytes), Err(Malformed), "{bytes:x?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic_and_a_header_lies_in_them(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(header) = Header::read(&bytes) {
                prop_assert!(header.len <= bytes.len());
            }
        }
    }
}
