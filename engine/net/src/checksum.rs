// SPDX-License-Identifier: Apache-2.0
//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).
//!
//! A *sum* here is the one's complement sum of 16-bit big-endian words, not yet folded; the checksum is the complement
//! of the folded sum. Sums of parts add up as long as each part starts at an even distance from the first byte
//! covered; `swapped` is the sum of a part that starts at an odd one.

/// Sum of `bytes` as if they started at an even offset. An odd last byte counts as the high byte of a word.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    let mut total = 0;
    // Two words at a time are added up in either half of 64 bits: up to this many bytes no half overflows.
    for part in bytes.chunks(1 << 16) {
        let mut eights = part.chunks_exact(8);
        let mut halves = 0;
        for eight in eights.by_ref() {
            let words =
                u64::from_be_bytes([eight[0], eight[1], eight[2], eight[3], eight[4], eight[5], eight[6], eight[7]]);
            halves += pairs(words);
        }
        total += (halves & 0xffff_ffff) + (halves >> 32);
        let mut words = eights.remainder().chunks_exact(2);
        total += words.by_ref().map(|w| u64::from(u16::from_be_bytes([w[0], w[1]]))).sum::<u64>();
        if let [last] = words.remainder() {
            total += u64::from(*last) << 8;
        }
    }
    total
}

/// The sums of the first two of four words, and of the others, in the halves of 64 bits.
#[inline]
pub const fn pairs(words: u64) -> u64 {
    const EVEN: u64 = 0x0000_ffff_0000_ffff;
    (words & EVEN) + (words >> 16 & EVEN)
}

/// The sum of all words in little-endian order, up to a multiple of 0xffff, 0 only if all are 0, and below 2^33; the last
/// word is filled up with zeros. Folded and swapped it is that of `sum` (RFC 1071 §2.B). It is the faster one: a number of
/// 64 bits is congruent to the sum of its words.
#[inline]
pub fn sum_le(bytes: &[u8]) -> u64 {
    let total = total_le(0, bytes);
    (total & 0xffff_ffff) + (total >> 32)
}

/// The same, but of up to 64 bits, and with another such sum.
#[inline(always)]
pub(crate) fn total_le(sum: u64, bytes: &[u8]) -> u64 {
    /// Bytes from which on vectors are faster.
    const MANY: usize = 256;
    let (mut total, mut rest) = (sum, bytes);
    if bytes.len() >= MANY {
        let (vectors, tail) = bytes.split_at(bytes.len() / 64 * 64);
        (total, rest) = (with_carry(sum, halves_sum(vectors.as_chunks().0)), tail);
    }
    // Four at a time: a loop costs as much as what is in it.
    let (fours, rest) = rest.as_chunks::<32>();
    for four in fours {
        total = with_four(total, four);
    }
    let (eights, tail) = rest.as_chunks::<8>();
    total = eights.iter().fold(total, with_eight);
    if !tail.is_empty() {
        let left = match bytes.last_chunk::<8>() {
            // Without those that are in already.
            Some(eight) => u64::from_le_bytes(*eight) >> (64 - 8 * tail.len()),
            None => tail.iter().rev().fold(0, |left, byte| left << 8 | u64::from(*byte)),
        };
        total = with_carry(total, left);
    }
    total
}

/// A total with four numbers more.
#[inline(always)]
pub(crate) fn with_four(total: u64, four: &[u8; 32]) -> u64 {
    let add = |(sum, carry), eight: &[u8; 8]| carrying(sum, u64::from_le_bytes(*eight), carry);
    let (sum, carry) = four.as_chunks::<8>().0.iter().fold((total, false), add);
    sum + u64::from(carry)
}

/// A total with one number and another.
#[inline(always)]
pub(crate) fn with_two(total: u64, one: u64, other: u64) -> u64 {
    let (sum, carry) = total.overflowing_add(one);
    let (sum, carry) = carrying(sum, other, carry);
    sum + u64::from(carry)
}

/// A sum of two numbers and the carry of the sum before, which such sums begin without; and its carry. A sum of all ones has none, so that its
/// carry can be added to the last. (Compilers make an instruction of it, where adding up each carry takes one more.)
#[inline(always)]
const fn carrying(total: u64, more: u64, carry: bool) -> (u64, bool) {
    let (sum, one) = total.overflowing_add(more);
    let (sum, other) = sum.overflowing_add(carry as u64);
    (sum, one | other)
}

#[inline]
fn with_eight(total: u64, eight: &[u8; 8]) -> u64 {
    with_carry(total, u64::from_le_bytes(*eight))
}

/// A carry out of 64 bits is congruent to one.
#[inline(always)]
pub(crate) const fn with_carry(total: u64, more: u64) -> u64 {
    let (sum, carry) = total.overflowing_add(more);
    sum + carry as u64
}

/// The sum of halves of 64 bits, of fewer than 2^32 of them. Whole ones are added up as they run over, and their upper halves
/// beside: that gives the lower ones' sum too, and is an instruction less for each vector than adding up both halves.
/// (Instructions that multiply would do with even fewer, but make processors lower their clock.)
#[inline]
fn halves_sum(eights: &[[u8; 8]]) -> u64 {
    let (mut all, mut upper) = (0u64, 0u64);
    for eight in eights {
        let bits = u64::from_le_bytes(*eight);
        all = all.wrapping_add(bits);
        upper += bits >> 32;
    }
    all.wrapping_sub(upper << 32) + upper
}

/// The sum of 16 bytes, up to a multiple of 0xffff: a 64-bit number is congruent to the sum of its 16-bit digits.
#[inline]
pub fn sum_16(bytes: &[u8; 16]) -> u64 {
    let bits = u128::from_be_bytes(*bytes);
    u64::from(fold((bits >> 64) as u64)) + u64::from(fold(bits as u64))
}

/// The sum of the same bytes at an offset one further (RFC 1071 §2.B: byte order independence).
#[inline]
pub fn swapped(sum: u64) -> u64 {
    u64::from(fold(sum).swap_bytes())
}

/// Folds the carries in: a value congruent to `sum` modulo 0xffff, and 0 only if `sum` is 0.
#[inline]
pub fn fold(mut sum: u64) -> u16 {
    // Three folds bring any u64 below 2^17, the fourth takes in the last carry.
    sum = (sum & 0xffff_ffff) + (sum >> 32);
    sum = (sum & 0xffff_ffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

/// `fold` of a sum of few 32-bit words.
#[inline(always)]
pub fn fold_words(sum: u64) -> u16 {
    let (sum, carry) = (sum as u32).overflowing_add((sum >> 32) as u32);
    let sum = sum + u32::from(carry);
    // The upper half gets both halves' sum, and its carry from the lower one, which gets the same.
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

/// The folded sum of two adjacent pieces: of the first, which has `len` bytes, and of the second.
#[inline]
pub fn joined(first: u16, len: usize, second: u16) -> u16 {
    let second = if len.is_multiple_of(2) { u64::from(second) } else { swapped(u64::from(second)) };
    fold(u64::from(first) + second)
}

/// The checksum of what adds up to `sum`.
#[inline]
pub fn checksum(sum: u64) -> u16 {
    !fold(sum)
}

/// The checksum after a covered 16-bit word changed from `old` to `new` (RFC 1624, equation 3).
pub fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 §3's worked example.
    #[test]
    fn matches_the_rfc() {
        assert_eq!(fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
    }

    proptest! {
        #[test]
        fn both_orders_give_the_same_sum(bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..700)) {
            prop_assert_eq!(fold(sum_le(&bytes)).swap_bytes(), fold(sum(&bytes)));
        }
    }

    #[test]
    fn a_sum_is_that_of_all_words_however_many() {
        for len in [0, 1, 7, 8, 9, 65_535, 65_536, 65_537, 1_200_001] {
            let bytes: Vec<u8> = (0..len).map(|n| if n % 5 == 0 { 0xfe } else { 0xff }).collect();
            let byte = |n: usize| u64::from(*bytes.get(n).unwrap_or(&0));
            assert_eq!(sum(&bytes), (0..len).step_by(2).map(|n| byte(n) << 8 | byte(n + 1)).sum::<u64>(), "{len}");
            assert_eq!(fold(sum_le(&bytes)).swap_bytes(), fold(sum(&bytes)), "{len}");
        }
    }

    proptest! {
        #[test]
        fn data_with_its_checksum_sums_to_all_ones(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert_eq!(fold(sum(&bytes) + u64::from(checksum(sum(&bytes)))), 0xffff);
        }

        #[test]
        fn an_update_equals_a_fresh_checksum(
            mut bytes in prop::collection::vec(any::<u8>(), 2..600), at: prop::sample::Index, new: u16,
        ) {
            // A word that is all there is may go from 0 to 0xffff unseen: keep one that never changes.
            bytes.splice(0..0, [0x12, 0x34]);
            let at = 2 + at.index((bytes.len() - 2) / 2) * 2;
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            let before = checksum(sum(&bytes));
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(updated(before, old, new), checksum(sum(&bytes)));
        }

        #[test]
        fn parts_add_up_at_even_and_odd_offsets(
            a in prop::collection::vec(any::<u8>(), 0..300), b in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let whole: Vec<u8> = a.iter().chain(&b).copied().collect();
            let part = if a.len() % 2 == 0 { sum(&b) } else { swapped(sum(&b)) };
            prop_assert_eq!(fold(sum(&a) + part), fold(sum(&whole)));
        }

        #[test]
        fn sixteen_bytes_have_one_sum(bytes: [u8; 16]) {
            prop_assert_eq!(fold(sum_16(&bytes)), fold(sum(&bytes)));
        }

        #[test]
        fn folding_never_loses_a_carry(value: u64) {
            let expected = if value == 0 { 0 } else { match value % 0xffff { 0 => 0xffff, r => r } };
            prop_assert_eq!(u64::from(fold(value)), expected);
        }
    }
}
