// SPDX-License-Identifier: Apache-2.0
//! GTP-U (3GPP TS 29.281): messages, read behind UDP.
use crate::field::{be16, be32};

/// UDP port of GTP-U (TS 29.281 section 4.4.2).
pub const PORT: u16 = 2152;
/// Bytes of the header that every message has (TS 29.281 section 5.1).
pub const HEADER: usize = 8;
/// Bytes of the fields behind it, there if any of its last three flags is set: sequence number, N-PDU number, type of the next
/// extension header.
pub const OPTIONAL: usize = 4;
/// Type of messages that carry a packet (TS 29.281 section 6.1).
pub const G_PDU: u8 = 255;
/// Version 1, GTP and not GTP'.
pub const VERSION_1: u8 = 0x30;
const VERSION_BITS: u8 = 0xf0;
/// Flag: an extension header follows.
pub const EXTENDED: u8 = 4;
/// Flag: there is a sequence number.
pub const NUMBERED: u8 = 2;
const ANY_OPTIONAL: u8 = 7;
/// Type of an extension header that is understood (TS 29.281 section 5.2.1).
pub const SESSION_CONTAINER: u8 = 0x85;
/// Bit of the types of those that a receiver must understand.
const MUST_BE_UNDERSTOOD: u8 = 0x80;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Type (TS 29.281 section 6.1).
    pub kind: u8,
    /// Tunnel endpoint identifier.
    pub teid: u32,
    /// Sequence number, if it has one.
    pub sequence: Option<u16>,
    /// The payload, behind all headers.
    pub payload: &'a [u8],
}

/// The header is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl<'a> Message<'a> {
    /// Reads a datagram's payload.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header = bytes.first_chunk::<HEADER>().ok_or(Malformed)?;
        let end = HEADER + usize::from(be16(header, 2));
        let bytes = bytes.get(..end).ok_or(Malformed)?;
        let flags = header[0];
        if flags & VERSION_BITS != VERSION_1 {
            return Err(Malformed);
        }
        let mut at = HEADER;
        let mut sequence = None;
        if flags & ANY_OPTIONAL != 0 {
            at += OPTIONAL;
            let fields = bytes.get(HEADER..at).ok_or(Malformed)?;
            sequence = (flags & NUMBERED != 0).then(|| be16(fields, 0));
            let mut next = if flags & EXTENDED != 0 { fields[3] } else { 0 };
            while next != 0 {
                if next & MUST_BE_UNDERSTOOD != 0 && next != SESSION_CONTAINER {
                    return Err(Malformed);
                }
                let words = usize::from(*bytes.get(at).ok_or(Malformed)?);
                at += 4 * words;
                next = match bytes.get(at - 1) {
                    Some(next) if words > 0 => *next,
                    _ => return Err(Malformed),
                };
            }
        }
        Ok(Self { kind: header[1], teid: be32(header, 4), sequence, payload: &bytes[at..] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_way_to_a_message_is_read_as_the_standard_has_it() {
        let all = [0x37, 255, 0, 16, 1, 2, 3, 4, 0xaa, 0xbb, 7, 0x20, 1, 5, 6, 0x85, 1, 0x10, 9, 0, 0x45, 0, 0, 9];
        let read = Message::read(&all).unwrap();
        assert_eq!((read.kind, read.teid, read.sequence), (255, 0x0102_0304, Some(0xaabb)));
        assert_eq!(read.payload, [0x45, 0, 0, 9]);
        // The fields are there if any of the three flags is set, and only count with their own.
        let fields = Message::read(&[0x31, 254, 0, 4, 0, 0, 0, 1, 0xaa, 0xbb, 7, 0x85]).unwrap();
        assert_eq!((fields.sequence, fields.payload), (None, &[][..]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), whole: bool) {
            if let (true, Some(header)) = (whole, bytes.first_chunk_mut::<8>()) {
                header[0] = 0x30 | header[0] & 7;
                header[2..4].fill(0);
                header[3] = 30;
            }
            if let Ok(read) = Message::read(&bytes) {
                prop_assert!(read.payload.len() + 8 <= bytes.len());
            }
        }
    }
}
