// SPDX-License-Identifier: Apache-2.0
//! Sessions of PPP over Ethernet (RFC 2516).
use crate::{field::get_be16, ip::Version};

/// EtherType of a session's frames.
pub const ETHERTYPE: u16 = 0x8864;
/// Bytes of its header and of PPP's protocol field.
pub const LEN: usize = 8;

/// The IP packet behind the session header that begins at an offset, by PPP's protocol field.
pub fn find_ip(frame: &[u8], at: usize) -> Option<(Version, usize)> {
    let version = match get_be16(frame, at + 6)? {
        0x0021 => Version::V4,
        0x0057 => Version::V6,
        _ => return None,
    };
    Some((version, at + LEN))
}
