// SPDX-License-Identifier: Apache-2.0
//! Frames on their way from one thread to another: a ring of bytes, so that short ones take little room. It never
//! grows; what does not fit is counted.
use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};
use spate_stats::Counter;

/// Bytes before each frame in the ring.
const HEADER: usize = 16;

/// Metadata of a frame in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// An instant; the two sides agree on which.
    pub(super) at_ns: u64,
    /// Bytes the frame has; those in the ring may be fewer.
    pub(super) original_len: u32,
    /// Bytes in the ring.
    pub(super) len: u32,
}

/// The end that frames go in.
pub(super) struct FrameWriter {
    ring: Producer<u8>,
    lost: Arc<Counter>,
}

/// The end that frames come out.
pub(super) struct FrameReader {
    ring: Consumer<u8>,
    lost: Arc<Counter>,
    /// Read already, of the frame that comes next.
    head: Option<FrameHeader>,
}

/// A ring of this many bytes.
pub(super) fn ring(bytes: usize) -> (FrameWriter, FrameReader) {
    let (producer, consumer) = RingBuffer::new(bytes);
    let lost = Arc::new(Counter::default());
    (FrameWriter { ring: producer, lost: Arc::clone(&lost) }, FrameReader { ring: consumer, lost, head: None })
}

impl FrameWriter {
    /// Whether a frame of this many bytes fits now.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.ring.slots() >= HEADER + len
    }

    /// How many frames of this many bytes fit now.
    pub(super) fn room(&self, len: usize) -> usize {
        self.ring.slots() / (HEADER + len)
    }

    /// Whether the reader is gone.
    pub(super) fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Puts a frame in whole; false, and counted, if it does not fit.
    #[inline]
    pub(super) fn push(&mut self, at_ns: u64, original_len: usize, frame: &[u8]) -> bool {
        if self.ring.slots() < HEADER + frame.len() {
            self.lost.add(1);
            return false;
        }
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&at_ns.to_ne_bytes());
        header[8..12].copy_from_slice(&(original_len as u32).to_ne_bytes());
        header[12..].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        // The ring has room: neither write can fail. The reader waits for all of the frame.
        let _ = self.ring.push_entire_slice(&header);
        let _ = self.ring.push_entire_slice(frame);
        true
    }

    /// Frames that did not fit so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost.get()
    }

    /// Counts a frame that is not put in.
    pub(super) fn refuse(&self) {
        self.lost.add(1);
    }
}

impl FrameReader {
    /// The next frame's header, once all of the frame is there.
    #[inline]
    pub(super) fn next(&mut self) -> Option<FrameHeader> {
        if self.head.is_none() {
            let mut bytes = [0; HEADER];
            self.ring.pop_entire_slice(&mut bytes).ok()?;
            let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
            self.head = Some(FrameHeader {
                at_ns: u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
                original_len: u32::from_ne_bytes([i, j, k, l]),
                len: u32::from_ne_bytes([m, n, o, p]),
            });
        }
        self.head.filter(|head| self.ring.slots() >= head.len as usize)
    }

    /// Takes the frame whose header `next` gave.
    ///
    /// # Panics
    /// If `frame` is not as long as the header says.
    #[inline]
    pub(super) fn take(&mut self, frame: &mut [u8]) {
        let head = self.head.take().expect("a header was read");
        assert_eq!(frame.len(), head.len as usize);
        let _ = self.ring.pop_entire_slice(frame);
    }

    /// Passes over the frame whose header `next` gave.
    pub(super) fn skip(&mut self) {
        if let Some(head) = self.head.take()
            && let Ok(chunk) = self.ring.read_chunk(head.len as usize)
        {
            chunk.commit_all();
        }
    }

    /// The next frame whole, in place of what `frame` held.
    pub(super) fn pop(&mut self, frame: &mut Vec<u8>) -> Option<FrameHeader> {
        let head = self.next()?;
        frame.resize(head.len as usize, 0);
        self.take(frame);
        Some(head)
    }

    /// Frames that did not fit so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost.get()
    }

    /// Whether the writer is gone.
    pub(super) fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_and_what_does_not_fit_is_counted() {
        let (mut writer, mut reader) = ring(100);
        let mut frame = Vec::new();
        for round in 0..1000u64 {
            let len = (round % 61) as usize;
            assert!(writer.push(round, 9000, &vec![round as u8; len]));
            // The second finds room only beside short ones.
            let second = writer.push(round, 1, &[7; 20]);
            assert_eq!(second, 16 + len + 36 <= 100);
            let header = FrameHeader { at_ns: round, original_len: 9000, len: len as u32 };
            assert_eq!((reader.next(), reader.pop(&mut frame)), (Some(header), Some(header)));
            assert_eq!(frame, vec![round as u8; len]);
            assert_eq!(reader.pop(&mut frame).is_some(), second);
            assert_eq!(reader.pop(&mut frame), None);
        }
        assert_eq!(reader.lost(), (0..1000u64).filter(|round| 52 + round % 61 > 100).count() as u64);
        drop(writer);
        assert!(reader.is_abandoned());
    }

    #[test]
    fn two_threads_agree() {
        let (mut writer, mut reader) = ring(1 << 12);
        let sender = std::thread::spawn(move || {
            for n in 0..50_000u64 {
                let frame = vec![n as u8; (n % 200) as usize];
                while !writer.push(n, 0, &frame) {
                    std::thread::yield_now();
                }
            }
        });
        let mut frame = Vec::new();
        for n in 0..50_000u64 {
            let header = loop {
                if let Some(header) = reader.pop(&mut frame) {
                    break header;
                }
                std::thread::yield_now();
            };
            assert_eq!((header.at_ns, header.len as u64), (n, n % 200));
            assert!(frame.iter().all(|byte| *byte == n as u8));
        }
        sender.join().unwrap();
    }
}
