// SPDX-License-Identifier: Apache-2.0
//! What a flow has queued to send: payloads by reference, two in the flow itself, more in a slot of a slab.
use crate::{
    flow::{BacklogIndex, Flow, PART, PARTS, Piece, seq_before, seq_max, seq_min},
    packet::joined,
    payload::Payload,
    slab::{Slab, Slotted},
};

/// Pieces beside a flow.
const MORE: usize = 14;
/// A run of the same payload is not longer than this.
const MAX_RUN: u32 = 1 << 30;

/// Pieces that follow those in the flow.
#[derive(Clone, Debug)]
pub struct Backlog([Piece; MORE]);

impl Slotted for Backlog {
    type Index = BacklogIndex;
}

impl Backlog {
    /// An empty queue.
    pub const NOTHING: Self = Self([Piece { seq: 0, payload: 0, part: 0 }; MORE]);
}

/// Why a payload was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The peer must acknowledge something first.
    Full,
    /// The slab has no free slot.
    Exhausted,
}

/// How many bytes a part of a payload has; of one with more than `PARTS` parts, at least as many as the parts of its number.
#[inline]
fn part_len(payload: &Payload, part: u64) -> u32 {
    payload.len().saturating_sub(part * PART).min(PART) as u32
}

/// Parts of a payload.
#[inline]
pub fn parts(payload: &Payload) -> u64 {
    payload.len().div_ceil(PART)
}

impl Flow {
    fn piece(&self, index: usize, backlogs: &Slab<Backlog>) -> Piece {
        if index < self.pieces.len() { self.pieces[index] } else { backlogs[self.backlog].0[index - self.pieces.len()] }
    }

    /// Bytes queued and not acknowledged.
    #[inline]
    pub fn queued(&self) -> u32 {
        // Below by SYN before the handshake's end, above by FIN after it.
        let from = self.snd_una;
        if seq_before(from, self.snd_end) { self.snd_end.wrapping_sub(from) } else { 0 }
    }

    /// Whether all that is queued and not acknowledged is of one payload, sent once.
    pub fn is_one_payload(&self, payloads: &[Payload]) -> bool {
        let piece = self.pieces[0];
        if self.piece_count != 1 || seq_before(self.snd_una, piece.seq) {
            return false;
        }
        let unit = part_len(&payloads[usize::from(piece.payload)], piece.part.into()).max(1);
        let nth = |seq: u32| seq.wrapping_sub(piece.seq) / unit;
        nth(self.snd_una) == nth(self.snd_end.wrapping_sub(1))
    }

    /// Queues a part of a payload. Returns how many bytes that is.
    pub fn queue(
        &mut self,
        payloads: &[Payload],
        payload: u16,
        part: u64,
        backlogs: &mut Slab<Backlog>,
    ) -> Result<u32, NoRoom> {
        let len = part_len(&payloads[usize::from(payload)], part);
        if self.queued() > MAX_RUN {
            return Err(NoRoom::Full);
        }
        let count = usize::from(self.piece_count);
        if count > 0 {
            let last = self.piece(count - 1, backlogs);
            let whole = part == 0 && parts(&payloads[usize::from(payload)]) == 1;
            let again = last.payload == payload && last.part == 0 && whole;
            if again && self.snd_end.wrapping_sub(last.seq) < MAX_RUN {
                self.snd_end = self.snd_end.wrapping_add(len);
                return Ok(len);
            }
        }
        let part = if part < PARTS { part } else { part % PARTS }; // a division costs more than all else here
        let piece = Piece { seq: self.snd_end, payload, part: part as u16 };
        if count < self.pieces.len() {
            self.pieces[count] = piece;
        } else {
            if count == self.pieces.len() + MORE {
                return Err(NoRoom::Full);
            }
            if self.backlog == BacklogIndex::NONE {
                self.backlog = backlogs.take().ok_or(NoRoom::Exhausted)?;
            }
            backlogs[self.backlog].0[count - self.pieces.len()] = piece;
        }
        self.piece_count += 1;
        self.snd_end = self.snd_end.wrapping_add(len);
        Ok(len)
    }

    /// Queues a payload of one part if nothing is queued. Returns how many bytes that is; none: nothing was done.
    #[inline]
    pub fn queue_first(&mut self, payload: u16, payloads: &[Payload]) -> Option<u32> {
        let len = payloads[usize::from(payload)].len();
        if self.piece_count > 0 || len == 0 || len > PART {
            return None;
        }
        self.pieces[0] = Piece { seq: self.snd_end, payload, part: 0 };
        self.piece_count = 1;
        self.snd_end = self.snd_end.wrapping_add(len as u32);
        Some(len as u32)
    }

    /// Forgets pieces that are acknowledged.
    #[inline]
    pub fn dequeue(&mut self, backlogs: &mut Slab<Backlog>) {
        if self.piece_count > 1 {
            self.dequeue_all(backlogs);
        } else if !seq_before(self.snd_una, self.snd_end) {
            self.piece_count = 0;
        }
    }

    fn dequeue_all(&mut self, backlogs: &mut Slab<Backlog>) {
        while self.piece_count > 0 {
            let end = if self.piece_count > 1 { self.piece(1, backlogs).seq } else { self.snd_end };
            if seq_before(self.snd_una, end) {
                break;
            }
            let more = usize::from(self.piece_count).saturating_sub(self.pieces.len());
            self.pieces[0] = self.pieces[1];
            if more > 0 {
                let backlog = &mut backlogs[self.backlog].0;
                self.pieces[1] = backlog[0];
                backlog.copy_within(1..more, 0);
            }
            self.piece_count -= 1;
            if more == 1 {
                self.drop_backlog(backlogs);
            }
        }
    }

    /// Frees the flow's slot of the slab.
    pub fn drop_backlog(&mut self, backlogs: &mut Slab<Backlog>) {
        let backlog = core::mem::replace(&mut self.backlog, BacklogIndex::NONE);
        if backlog != BacklogIndex::NONE {
            backlogs.give(backlog);
        }
    }

    /// Writes queued bytes from a sequence number on. Gives their sum (see `Payload::fill`).
    ///
    /// # Panics
    /// If they are not queued.
    #[inline]
    pub fn fill(&self, payloads: &[Payload], backlogs: &Slab<Backlog>, seq: u32, out: &mut [u8]) -> u16 {
        let end = seq.wrapping_add(out.len() as u32);
        let count = usize::from(self.piece_count);
        let first = self.pieces[0];
        let payload = &payloads[usize::from(first.payload)];
        let offset = seq.wrapping_sub(first.seq);
        if count == 1 && u64::from(offset) + out.len() as u64 <= u64::from(part_len(payload, first.part.into())) {
            return payload.fill(self.number, u64::from(first.part) * PART + u64::from(offset), out);
        }
        let (mut at, mut sum) = (0, 0);
        for index in 0..count {
            let piece = self.piece(index, backlogs);
            let piece_end = if index + 1 < count { self.piece(index + 1, backlogs).seq } else { self.snd_end };
            let mut from = seq_max(piece.seq, seq);
            let to = seq_min(piece_end, end);
            if !seq_before(from, to) {
                continue;
            }
            let payload = &payloads[usize::from(piece.payload)];
            let unit = part_len(payload, piece.part.into());
            while seq_before(from, to) {
                let mut offset = from.wrapping_sub(piece.seq);
                if offset >= unit {
                    offset %= unit;
                }
                let len = to.wrapping_sub(from).min(unit - offset) as usize;
                let start = u64::from(piece.part) * PART + u64::from(offset);
                let part = payload.fill(self.number, start, &mut out[at..at + len]);
                sum = joined(sum, at, part);
                at += len;
                from = from.wrapping_add(len as u32);
            }
        }
        assert_eq!(at, out.len(), "more than is queued");
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        application::Machine,
        payload::PATTERN,
        program::{Instruction, Program},
    };
    use crate::{
        counters::Counters,
        flow::{State, flags},
        scenario::Tunables,
        slab::Slab,
        tcp::{Challenges, Context, Instant, Recovery},
    };

    #[test]
    fn a_send_of_more_than_2_to_the_16_parts_is_as_long_as_it_is_to_and_of_the_right_bytes() {
        // 26 TB, and some bytes.
        let size = 100_000 * PART + 12_345;
        let payloads = [Payload::pattern(size)];
        let program = Program {
            instructions: [Instruction::Connect, Instruction::Send { payload: 0, wait: true }].into(),
            counters: Box::default(),
        };
        let (mut backlogs, mut recoveries) = (Slab::new(4, Backlog::NOTHING), Slab::new(1, Recovery::NOTHING));
        let (mut challenges, counters, tunables) = (Challenges::new(1), Counters::default(), Tunables::default());
        let mut cx = Context {
            now: Instant { ns: 0 },
            recoveries: &mut recoveries,
            challenges: &mut challenges,
            counters: &counters,
            tunables: &tunables,
        };
        let mut flow = Flow { state: State::Established, ..Flow::NOTHING };
        let (mut queued, mut piece) = (0, [0; 100]);
        loop {
            let before = flow.snd_end;
            let mut machine = Machine {
                program: &program,
                payloads: &payloads,
                backlogs: &mut backlogs,
                variables: &mut [],
                seed: 1,
                reader: None,
            };
            assert_eq!(flow.go_on(&mut machine, &mut cx), None);
            assert!(!flow.has(flags::PROGRAM_WAITS), "for no time");
            let len = flow.snd_end.wrapping_sub(before);
            if len == 0 {
                break;
            }
            // The first bytes of what was queued, and the last.
            for seq in [before, flow.snd_end.wrapping_sub(100)] {
                let at = queued + u64::from(seq.wrapping_sub(before));
                flow.fill(&payloads, &backlogs, seq, &mut piece);
                assert!(piece.iter().zip(at..).all(|(byte, at)| u64::from(*byte) == at % PATTERN), "at {at}");
            }
            queued += u64::from(len);
            flow.snd_una = flow.snd_end;
            flow.dequeue(&mut backlogs);
        }
        assert_eq!((queued, counters.get(crate::Count::QueuedBytes)), (size, size));
        assert!(flow.has(flags::PROGRAM_ENDED | flags::FIN_QUEUED));
    }
}
