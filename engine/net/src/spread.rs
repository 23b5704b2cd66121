// SPDX-License-Identifier: Apache-2.0
//! Which receive queue a packet goes to: the Toeplitz hash of receive-side scaling, over addresses and ports.
//!
//! As Microsoft's "RSS Hashing Functions" has it, so that a software port spreads as a NIC does.
use core::net::IpAddr;

use crate::headers::{Headers, SCTP, TCP, UDP, Version};

/// The key of Microsoft's verification suite, which drivers know.
pub const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b,
    0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac,
    0x01, 0xfa,
];
/// What the hash is divided by: the entries of a NIC's table, which are assigned to the queues round-robin. Larger tables repeat that.
pub const TABLE: u32 = 128;

/// Half bytes of the longest input: two IPv6 addresses and two ports.
const NIBBLES: usize = 72;

/// What each value of each half byte of the input adds.
static ADDS: [[u32; 16]; NIBBLES] = adds();

const fn adds() -> [[u32; 16]; NIBBLES] {
    let mut table = [[0; 16]; NIBBLES];
    let mut nibble = 0;
    while nibble < NIBBLES {
        let mut value = 0;
        while value < 16 {
            let mut bit = 0;
            while bit < 4 {
                if value & (8 >> bit) != 0 {
                    table[nibble][value] ^= key_bits(nibble * 4 + bit);
                }
                bit += 1;
            }
            value += 1;
        }
        nibble += 1;
    }
    table
}

/// The 32 bits of the key from a bit on.
const fn key_bits(from: usize) -> u32 {
    let mut bits = 0;
    let mut i = 0;
    while i < 32 {
        let at = from + i;
        bits = bits << 1 | (KEY[at / 8] >> (7 - at % 8) & 1) as u32;
        i += 1;
    }
    bits
}

/// The hash of a frame; none if it carries no IP. Fragments are hashed by addresses alone, so that all of a packet's go
/// one way.
#[inline]
pub fn hash(frame: &[u8]) -> Option<u32> {
    let headers = Headers::find(frame)?;
    let (addresses, ports) = match headers.version {
        Version::V4 => (headers.at + 12, 8),
        Version::V6 => (headers.at + 8, 32),
    };
    let mut sum = toeplitz(0, &frame[addresses..addresses + ports]);
    if let Some((TCP | UDP | SCTP, at)) = headers.transport
        && !headers.fragment
        && let Some(bytes) = frame.get(at..at + 4)
    {
        sum ^= toeplitz(ports, bytes);
    }
    Some(sum)
}

/// The queue of `queues` that a frame goes to; what carries no IP goes to the first.
#[inline]
pub fn queue(frame: &[u8], queues: usize) -> usize {
    hash(frame).map_or(0, |hash| queue_of(hash, queues))
}

/// The queue of `queues` that TCP and UDP from one (address, port) to another of the same family go to.
#[inline]
pub fn queue_between(source: (IpAddr, u16), destination: (IpAddr, u16), queues: usize) -> usize {
    let (addresses, sum) = match (source.0, destination.0) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (8, toeplitz(0, &from.octets()) ^ toeplitz(4, &to.octets())),
        (IpAddr::V6(from), IpAddr::V6(to)) => (32, toeplitz(0, &from.octets()) ^ toeplitz(16, &to.octets())),
        // No packet has this input.
        _ => return 0,
    };
    let [a, b] = source.1.to_be_bytes();
    let [c, d] = destination.1.to_be_bytes();
    queue_of(sum ^ toeplitz(addresses, &[a, b, c, d]), queues)
}

/// The queue of `queues` of packets with a hash.
#[inline]
pub fn queue_of(hash: u32, queues: usize) -> usize {
    (hash % TABLE) as usize % queues
}

/// The part of the hash that some bytes of the input, from an offset on, make.
fn toeplitz(offset: usize, bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .zip(ADDS[offset * 2..].chunks_exact(2))
        .fold(0, |sum, (byte, adds)| sum ^ adds[0][usize::from(byte >> 4)] ^ adds[1][usize::from(byte & 15)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::samples;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut frame = samples::v4(1, 0, protocol, &ports.map(u16::to_be_bytes).concat());
        frame[30..34].copy_from_slice(&source.octets());
        frame[34..38].copy_from_slice(&destination.octets());
        frame
    }

    /// Microsoft's verification suite.
    #[test]
    fn agrees_with_the_published_vectors() {
        let one = |protocol| v4([66, 9, 149, 187].into(), [161, 142, 100, 80].into(), protocol, [2794, 1766]);
        let two = |protocol| v4([199, 92, 111, 2].into(), [65, 69, 140, 83].into(), protocol, [14230, 4739]);
        assert_eq!((hash(&one(TCP)), hash(&one(1))), (Some(0x51cc_c178), Some(0x323e_8fc2)));
        assert_eq!((hash(&two(UDP)), hash(&two(1))), (Some(0xc626_b0ea), Some(0xd718_262a)));
        let (source, destination): (Ipv6Addr, Ipv6Addr) =
            ("3ffe:2501:200:1fff::7".parse().unwrap(), "3ffe:2501:200:3::1".parse().unwrap());
        let mut frame = samples::v6(TCP, &[2794u16, 1766].map(u16::to_be_bytes).concat());
        frame[22..38].copy_from_slice(&source.octets());
        frame[38..54].copy_from_slice(&destination.octets());
        assert_eq!(hash(&frame), Some(0x4020_7d3d));
        frame[20] = 58;
        assert_eq!(hash(&frame), Some(0x2cc1_8cd5));
    }

    #[test]
    fn queues_share_varied_packets_evenly_and_others_stay_on_the_first() {
        let mut counts = [0; 3];
        for port in 0..30_000 {
            counts[queue(&v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), UDP, [port, 9]), 3)] += 1;
        }
        assert!(counts.iter().all(|count| (9_000..11_000).contains(count)), "{counts:?}");
        assert_eq!(queue(&samples::ethernet(0, 0x88b5), 3), 0);
    }

    #[test]
    fn addresses_and_ports_say_the_same_as_their_packet() {
        for n in 0..1000u16 {
            let (from, to) = (Ipv4Addr::from_bits(0x0a00_0000 + u32::from(n) * 77), Ipv4Addr::new(48, 0, 3, n as u8));
            let ports = [1024 + n * 13, 80 + n];
            let expected = queue(&v4(from, to, TCP, ports), 7);
            assert_eq!(queue_between((from.into(), ports[0]), (to.into(), ports[1]), 7), expected);
            let (from, to) = (Ipv6Addr::from_bits(u128::from(n) << 64 | 5), Ipv6Addr::from_bits(u128::from(n) << 3));
            let mut frame = samples::v6(UDP, &ports.map(u16::to_be_bytes).concat());
            frame[22..38].copy_from_slice(&from.octets());
            frame[38..54].copy_from_slice(&to.octets());
            assert_eq!(queue_between((from.into(), ports[0]), (to.into(), ports[1]), 7), queue(&frame, 7));
        }
    }

    #[test]
    fn fragments_of_a_packet_go_one_way() {
        let mut first = v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), UDP, [1, 2]);
        first[24] = 0x20;
        let mut later = v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), UDP, [500, 600]);
        later[25] = 9;
        assert_eq!(hash(&first), hash(&later));
    }
}
