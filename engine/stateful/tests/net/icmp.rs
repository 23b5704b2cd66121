// SPDX-License-Identifier: Apache-2.0
//! Errors of ICMP, as routers and hosts send them.
use spate_net::checksum::{checksum, sum};

/// An error about a frame without tags, with type and code (RFC 792, RFC 4443) and, where it is too long, the MTU.
pub fn error(about: &[u8], (kind, code): (u8, u8), mtu: u16) -> Vec<u8> {
    let v6 = about[12..14] == [0x86, 0xdd];
    let quoted = &about[14..about.len().min(14 + if v6 { 48 } else { 28 })];
    let [high, low] = mtu.to_be_bytes();
    let mut body = [&[kind, code, 0, 0, 0, 0, high, low], quoted].concat();
    let len = body.len() as u8;
    // From some router to the sender.
    let header = if v6 {
        let addresses = [&[0xfd; 16], &about[22..38]].concat();
        let pseudo = [&addresses[..], &[0, 0, 0, len, 0, 0, 0, 58]].concat();
        let check = checksum(sum(&pseudo) + sum(&body));
        body[2..4].copy_from_slice(&check.to_be_bytes());
        [&[0x60, 0, 0, 0, 0, len, 58, 64], &addresses[..]].concat()
    } else {
        let check = checksum(sum(&body));
        body[2..4].copy_from_slice(&check.to_be_bytes());
        let mut header = [&[0x45, 0, 0, 20 + len, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1], &about[26..30]].concat();
        let check = checksum(sum(&header));
        header[10..12].copy_from_slice(&check.to_be_bytes());
        header
    };
    [&about[6..12], &[2; 6], &about[12..14], &header, &body].concat()
}
