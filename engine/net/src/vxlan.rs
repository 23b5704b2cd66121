// SPDX-License-Identifier: Apache-2.0
//! VXLAN (RFC 7348): headers, read behind UDP.
use crate::field::be32;

/// UDP port of VXLAN (RFC 7348 section 5).
pub const PORT: u16 = 4789;
/// Bytes of the header, of which the first has the flags.
pub const HEADER: usize = 8;
/// Flag: the VNI is valid.
pub const VALID: u8 = 8;
/// Bits below the VNI in its field, which are reserved.
pub const VNI_SHIFT: u32 = 8;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// VXLAN network identifier, 24 bits.
    pub vni: u32,
    /// The frame that it carries.
    pub frame: &'a [u8],
}

/// The header is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl<'a> Message<'a> {
    /// Reads a datagram's payload.
    ///
    /// # Errors
    /// If the header is cut short, or its VNI is not valid.
    pub fn read(datagram: &'a [u8]) -> Result<Self, Malformed> {
        let (header, frame) = datagram.split_first_chunk::<HEADER>().ok_or(Malformed)?;
        if header[0] & VALID == 0 {
            return Err(Malformed);
        }
        Ok(Self { vni: be32(header, 4) >> VNI_SHIFT, frame })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_must_be_whole_and_its_vni_valid() {
        let mut bytes = [8, 0, 0, 0, 0x12, 0x34, 0x56, 0xff, 1, 2];
        assert_eq!(Message::read(&bytes), Ok(Message { vni: 0x12_3456, frame: &[1, 2] }));
        assert_eq!(Message::read(&bytes[..7]), Err(Malformed));
        bytes[0] = 0xf7;
        assert_eq!(Message::read(&bytes), Err(Malformed));
    }
}
