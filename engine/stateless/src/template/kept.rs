// SPDX-License-Identifier: Apache-2.0
//! What buffers hold of a template's frame from one packet to the next, so that a payload that does not change is not copied again.
//!
//! A buffer's note names a template and says up to which byte the buffer holds its frame from the second piece on, but for what the
//! template's packets have of their own: those bytes lie at the same offsets in all of them, so that each packet overwrites
//! what the one before left there. Only the trailer moves where sizes vary. The first piece is written for every packet.
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use spate_net::trailer;

use super::{MAX_FRAME_LEN, PIECE};

/// Bits of a note that are a number of bytes; those above are the template's.
const LEN_BITS: u32 = 16;
/// Bytes that a buffer holds at most.
const MAX_BYTES: u64 = MAX_FRAME_LEN.next_multiple_of(PIECE) as u64;
// So that the notes of two templates are further apart than any lengths.
const _: () = assert!(2 * MAX_BYTES < 1 << LEN_BITS);

/// A template's part in notes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// The note of a buffer that holds nothing of it: a number in this process, above `LEN_BITS`. Templates with the same frame have the same,
    /// clones among them, and those of which one has the beginning of the other's (`Template::share_payloads`).
    base: u64,
    /// The trailer is at another offset in each packet.
    trailer_moves: bool,
}

impl Kept {
    pub(super) fn new(trailer_moves: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { base: NEXT.fetch_add(1, Relaxed) << LEN_BITS, trailer_moves }
    }

    /// A buffer that holds the other's frame holds this one's.
    pub(super) fn share(&mut self, other: &Self) {
        self.base = other.base;
    }

    /// Makes a buffer's bytes those of the frame; whatever the template's packets have of their own is to be written then. Both are whole pieces,
    /// and the frame is as long at least; `len` is the packet's length.
    #[inline(always)]
    pub(super) fn copy(&self, out: &mut [u8], frame: &[u8], len: usize, note: Option<&mut u64>) {
        let Some(note) = note else { return copy(out, frame) };
        // Bytes that it holds; beyond all lengths if the note is another template's.
        let held = note.wrapping_sub(self.base);
        if held.wrapping_sub(len as u64) <= MAX_BYTES {
            copy(&mut out[..PIECE], frame);
        } else {
            self.fill(out, frame, len, held, note);
        }
        if self.trailer_moves && len > PIECE {
            // What is behind it is the frame's still, but that is not noted.
            *note = (*note).min(self.base + (len - trailer::LEN).max(PIECE) as u64);
        }
    }

    /// Copies what the buffer does not hold, and notes that.
    fn fill(&self, out: &mut [u8], frame: &[u8], len: usize, held: u64, note: &mut u64) {
        let from = if held <= MAX_BYTES { held as usize / PIECE * PIECE } else { 0 };
        copy(&mut out[..PIECE], frame);
        copy(&mut out[from..], &frame[from..]);
        // Behind the packet lies what fills the last piece up, which is not in a longer frame.
        *note = self.base + len.max(PIECE) as u64;
    }
}

/// Copies whole pieces: a call of memcpy costs more than most frames are long.
#[inline(always)]
fn copy(out: &mut [u8], frame: &[u8]) {
    let (out, _) = out.as_chunks_mut::<PIECE>();
    let (frame, _) = frame.as_chunks::<PIECE>();
    for (to, from) in out.iter_mut().zip(frame) {
        *to = *from;
    }
}
