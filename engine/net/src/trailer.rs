// SPDX-License-Identifier: Apache-2.0
//! The measurement trailer: the sender of a packet, its number, and when it left.
//!
//! The last 16 bytes of a frame before its FCS, big endian: run tag (2), stream (2), sending worker (1), phase and
//! check (1), sequence (4), wall-clock nanoseconds modulo 2^48 (6).

/// Bytes of a trailer.
pub const LEN: usize = 16;

/// Timestamps are kept modulo this.
pub const TIMESTAMP_MODULUS: u64 = 1 << 48;

/// Where byte 5 (phase and check) lies in the first eight bytes read as one big-endian number.
const PHASE_SHIFT: u32 = 16;
const MEASURED: u64 = 0x80 << PHASE_SHIFT;
const CHECK: u64 = 0x7f << PHASE_SHIFT;

/// A packet's trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// The run, never 0.
    pub run_tag: u16,
    /// The stream's id in the run.
    pub stream: u16,
    /// The worker that sent it, numbered over all engines of the run.
    pub sender: u8,
    /// Belongs to the measured phase, not to the warm-up.
    pub measured: bool,
    /// Counts up from 0 for each stream and sending worker.
    pub sequence: u32,
    /// Wall-clock nanoseconds since the epoch when it was sent, modulo 2^48.
    pub timestamp: u64,
}

/// A trailer without its sequence number and check.
#[derive(Clone, Copy, Debug)]
pub struct Stamper {
    high: u64,
    low: u64,
    /// Both as one number, modulo 127.
    residue: u32,
    /// Sum of their 16-bit words.
    words: u32,
}

impl Stamper {
    /// The bytes on the wire of the trailer with a sequence number, and the sum of their 16-bit words.
    #[inline]
    pub fn encode(&self, sequence: u32) -> ([u8; LEN], u32) {
        // The number's halves lie at 2^64 = 2 and at 2^48 = 64 (modulo 127).
        let (upper, lower) = (sequence >> 16, sequence & 0xffff);
        let check = (self.residue + upper * 2 + lower * 64) % 127;
        let high = self.high | u64::from(check) << PHASE_SHIFT | u64::from(upper);
        let low = self.low | u64::from(lower) << 48;
        (((u128::from(high) << 64) | u128::from(low)).to_be_bytes(), self.words + check + upper + lower)
    }
}

impl Trailer {
    /// Its bytes on the wire.
    #[inline]
    pub fn encode(&self) -> [u8; LEN] {
        let sequence = u64::from(self.sequence);
        let high = (u64::from(self.run_tag) << 48)
            | (u64::from(self.stream) << 32)
            | (u64::from(self.sender) << 24)
            | if self.measured { MEASURED } else { 0 }
            | (sequence >> 16);
        let low = (sequence << 48) | (self.timestamp % TIMESTAMP_MODULUS);
        let high = high | check(high, low);
        ((u128::from(high) << 64) | u128::from(low)).to_be_bytes()
    }

    /// For many trailers that differ in their sequence number only.
    #[inline]
    pub fn stamper(&self) -> Stamper {
        let bytes = u128::from_be_bytes(Self { sequence: 0, ..*self }.encode());
        let (high, low) = ((bytes >> 64) as u64 & !CHECK, bytes as u64);
        let residue = ((high % 127 * 2 + low % 127) % 127) as u32;
        let word = |shift: u32| (high >> shift) as u32 % 0x1_0000 + (low >> shift) as u32 % 0x1_0000;
        Stamper { high, low, residue, words: word(0) + word(16) + word(32) + word(48) }
    }

    /// How many of some trailers follow each other: each is like the one before but for its sequence number, which is one higher. The
    /// first is known to be a trailer. It may find fewer where the lower half of the numbers wraps.
    #[inline]
    pub fn in_sequence(trailers: &[[u8; LEN]]) -> usize {
        let halves = |bytes: &[u8; LEN]| {
            let bits = u128::from_be_bytes(*bytes);
            ((bits >> 64) as u64, bits as u64)
        };
        let Some((first, others)) = trailers.split_first() else { return 0 };
        let (high, mut low) = halves(first);
        let (rest, mut check) = (high & !CHECK, high & CHECK);
        let mut count = 1;
        for next in others {
            let Some(following) = low.checked_add(1 << 48) else { break };
            // 2^48 = 64 (modulo 127).
            check += 64 << PHASE_SHIFT;
            if check >= 127 << PHASE_SHIFT {
                check -= 127 << PHASE_SHIFT;
            }
            if halves(next) != (rest | check, following) {
                break;
            }
            low = following;
            count += 1;
        }
        count
    }

    /// Reads the trailer at the end of a frame; none if what is there is no trailer.
    #[inline]
    pub fn decode(frame: &[u8]) -> Option<Self> {
        let bits = u128::from_be_bytes(*frame.last_chunk::<LEN>()?);
        let (high, low) = ((bits >> 64) as u64, bits as u64);
        let run_tag = (high >> 48) as u16;
        if run_tag == 0 || high & CHECK != check(high & !CHECK, low) {
            return None;
        }
        Some(Self {
            run_tag,
            stream: (high >> 32) as u16,
            sender: (high >> 24) as u8,
            measured: high & MEASURED != 0,
            sequence: (high << 16) as u32 | (low >> 48) as u32,
            timestamp: low % TIMESTAMP_MODULUS,
        })
    }
}

/// The check bits, at their position in `high`: the residue modulo 127 of all others as one number. No power of two is a
/// multiple of 127, so one wrong bit is always found.
#[inline]
fn check(high: u64, low: u64) -> u64 {
    // 2^64 = 2 and 2^32 = 16 (modulo 127), so halves can be weighed and added before the one division.
    let (upper, lower) = (|x: u64| x >> 32, |x: u64| x & 0xffff_ffff);
    let sum = upper(high) * 32 + lower(high) * 2 + upper(low) * 16 + lower(low);
    (sum % 127) << PHASE_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;
    use proptest::prelude::*;

    prop_compose! {
        fn any_trailer()(
            run_tag in 1u16.., stream: u16, sender: u8, measured: bool, sequence: u32,
            timestamp in 0..TIMESTAMP_MODULUS,
        ) -> Trailer {
            Trailer { run_tag, stream, sender, measured, sequence, timestamp }
        }
    }

    #[test]
    fn bytes_lie_where_the_format_says() {
        let trailer = Trailer {
            run_tag: 0x0102,
            stream: 0x0304,
            sender: 0x05,
            measured: true,
            sequence: 0x0708_090a,
            timestamp: 0x0b0c_0d0e_0f10,
        };
        let mut bytes = trailer.encode();
        assert_eq!(bytes[5] & 0x80, 0x80);
        bytes[5] = 6;
        assert_eq!(bytes, core::array::from_fn(|i| i as u8 + 1));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(trailer in any_trailer(), payload in prop::collection::vec(any::<u8>(), 0..100)) {
            let frame: Vec<u8> = payload.into_iter().chain(trailer.encode()).collect();
            prop_assert_eq!(Trailer::decode(&frame), Some(trailer));
        }

        #[test]
        fn many_are_encoded_as_one_is(trailer in any_trailer(), sequence: u32) {
            let (bytes, sum) = trailer.stamper().encode(sequence);
            prop_assert_eq!(bytes, Trailer { sequence, ..trailer }.encode());
            prop_assert_eq!(checksum::fold(sum.into()), checksum::fold(checksum::sum(&bytes)));
        }

        #[test]
        fn trailers_in_sequence_are_found(
            first in any_trailer(), near_wrap: bool, count in 1usize..64, odd in prop::option::of((1usize..64, 0usize..128)),
        ) {
            let from = if near_wrap { first.sequence | 0xfff0 } else { first.sequence };
            let mut all: Vec<_> = (0..count as u32)
                .map(|n| Trailer { sequence: from.wrapping_add(n), ..first }.encode())
                .collect();
            if let Some((at, bit)) = odd && let Some(bytes) = all.get_mut(at) {
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            let until_wrap = 0x1_0000 - (from as usize & 0xffff);
            let expected = odd.map_or(count, |(at, _)| at.min(count)).min(until_wrap);
            prop_assert_eq!(Trailer::in_sequence(&all), expected);
        }

        #[test]
        fn one_flipped_bit_is_no_trailer(trailer in any_trailer(), bit in 0usize..128) {
            let mut bytes = trailer.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Trailer::decode(&bytes), None);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(frame in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(trailer) = Trailer::decode(&frame) {
                prop_assert_eq!(&trailer.encode()[..], &frame[frame.len() - LEN..]);
            }
        }
    }
}
