// SPDX-License-Identifier: Apache-2.0
//! A pattern as a source: bytes that are known by their offset, however many.
use super::{
    Source,
    literal::{BLOCK, fill_bytes},
    placed,
};

/// The byte at offset n of a pattern is n modulo this.
pub const PATTERN: u64 = 251;

/// This many bytes of the pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) len: u64,
}

impl Source for Pattern {
    #[inline]
    fn len(&self) -> u64 {
        self.len
    }

    #[inline]
    fn kept(&self, len: usize) -> &[u8] {
        &TABLE_BYTES[..len]
    }

    #[inline]
    fn fill(&self, _: u64, offset: u64, out: &mut [u8]) -> u64 {
        assert!(offset.checked_add(out.len() as u64).is_some_and(|end| end <= self.len), "beyond the payload's end");
        fill_pattern((offset % PATTERN) as usize, out)
    }
}

/// Bytes of the table that pieces of the pattern are copied from: a jumbo frame from any offset at once.
const TABLE: usize = PATTERN as usize * 38;
static TABLE_BYTES: [u8; TABLE] = table_bytes();
static TABLE_SUMS: [u32; TABLE.div_ceil(BLOCK)] = table_sums();

const fn table_bytes() -> [u8; TABLE] {
    let mut table = [0; TABLE];
    let mut n = 0;
    while n < TABLE {
        table[n] = (n % PATTERN as usize) as u8;
        n += 1;
    }
    table
}

const fn table_sums() -> [u32; TABLE.div_ceil(BLOCK)] {
    let bytes = table_bytes();
    let mut sums = [0; TABLE.div_ceil(BLOCK)];
    let (mut total, mut n) = (0, 0);
    while n < TABLE {
        if n % BLOCK == 0 {
            sums[n / BLOCK] = total;
        }
        total += (bytes[n] as u32) << (8 * (1 - n % 2));
        n += 1;
    }
    sums
}

/// Writes the pattern from an offset in its period on; gives its sum.
#[inline]
fn fill_pattern(mut from: usize, out: &mut [u8]) -> u64 {
    let (mut total, mut at) = (0, 0);
    while at < out.len() {
        let len = (out.len() - at).min(TABLE - from);
        total += placed(fill_bytes(&TABLE_BYTES, &TABLE_SUMS, from, &mut out[at..at + len]), at);
        at += len;
        // The table ends where a period does.
        from = 0;
    }
    total
}
