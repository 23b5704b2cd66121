// SPDX-License-Identifier: Apache-2.0
//! Fields of headers: numbers in network byte order at an offset.

/// The 16-bit field at an offset.
///
/// # Panics
/// If not all of it is there.
#[inline(always)]
pub fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The 32-bit field at an offset.
///
/// # Panics
/// If not all of it is there.
#[inline(always)]
pub fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The 16-bit field at an offset, if all of it is there.
#[inline(always)]
pub fn get_be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Writes a 16-bit field.
///
/// # Panics
/// If not all of it is there.
#[inline(always)]
pub fn put_be16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
