// SPDX-License-Identifier: Apache-2.0
//! Given bytes as a source: they are held once for all flows.
//!
//! Sums of 16-bit words up to every 8th byte are kept, so that the Internet checksum of any piece takes two of them and
//! the bytes at its edges instead of a pass over it.
use spate_net::checksum::{fold, pairs, sum, sum_le};

use super::{Source, placed};

/// Bytes between two sums that are kept. Even, so that words start at even offsets.
pub(super) const BLOCK: usize = 8;

/// Longest piece of given bytes whose sum is taken at once: below 2^32.
pub(crate) const MAX_SUMMED: usize = 1 << 16;

/// Pieces of at most this many bytes are added up as they are.
const SHORT: usize = 128;

/// Bytes, and the sums of all before every `BLOCK`th of them, modulo 2^32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    bytes: Box<[u8]>,
    sums: Box<[u32]>,
}

impl Literal {
    pub(crate) fn new(bytes: Box<[u8]>) -> Self {
        let mut total = 0u32;
        let sums = bytes
            .chunks(BLOCK)
            .map(|block| {
                let before = total;
                total = total.wrapping_add(sum(block) as u32);
                before
            })
            .collect();
        Self { bytes, sums }
    }
}

impl Source for Literal {
    #[inline]
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    #[inline]
    fn kept(&self, _: usize) -> &[u8] {
        &self.bytes
    }

    #[inline]
    fn fill(&self, _: u64, offset: u64, out: &mut [u8]) -> u64 {
        fill_bytes(&self.bytes, &self.sums, offset as usize, out)
    }
}

/// Copies `bytes` from an offset on; gives their sum. `sums` are those of all before every `BLOCK`th byte, modulo 2^32.
#[inline]
pub(super) fn fill_bytes(bytes: &[u8], sums: &[u32], offset: usize, out: &mut [u8]) -> u64 {
    out.copy_from_slice(&bytes[offset..][..out.len()]);
    if out.len() <= SHORT {
        return u64::from(fold(sum_le(out)).swap_bytes());
    }
    // The longest piece and the edges of its last block do not exceed 32 bits together.
    let between = |from: usize, to: usize| {
        let words = sum_before(bytes, sums, offset + to).wrapping_sub(sum_before(bytes, sums, offset + from));
        u64::from(words)
    };
    if out.len() <= MAX_SUMMED {
        return placed(between(0, out.len()), offset);
    }
    let starts = (0..out.len()).step_by(MAX_SUMMED);
    placed(starts.map(|from| between(from, out.len().min(from + MAX_SUMMED))).sum(), offset)
}

/// The sum of all bytes before an offset, modulo 2^32.
#[inline]
fn sum_before(bytes: &[u8], sums: &[u32], offset: usize) -> u32 {
    let (block, left) = (offset / BLOCK, offset % BLOCK);
    match bytes[block * BLOCK..].first_chunk() {
        Some(whole) => {
            // Without what is behind the offset.
            let words = u64::from_be_bytes(*whole) & !(u64::MAX >> (8 * left));
            let pairs = pairs(words);
            sums[block].wrapping_add((pairs + (pairs >> 32)) as u32)
        }
        None => {
            // The end of a last block that is full has no sum of its own.
            let block = block.min(sums.len().saturating_sub(1));
            sums.get(block).map_or(0, |before| before.wrapping_add(sum(&bytes[block * BLOCK..offset]) as u32))
        }
    }
}
