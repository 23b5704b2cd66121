// SPDX-License-Identifier: Apache-2.0
//! A capture packet by packet, and from the start again for each requested pass: what lies between a packet and the one
//! before it.
use std::io::{Read, Seek};

use crate::{Half, Problem, ReadError, Reader, half::Divider};

/// What counts as the distance between two packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The nanoseconds between them as captured. A packet that was captured before the one in front of it follows it at
    /// once.
    Captured,
    /// The same distance between any two packets.
    Even,
}

/// The distances of one pass through a capture, and of the first packet of the next.
#[derive(Clone, Debug)]
pub(crate) struct Gaps {
    kind: Gap,
    /// Packets of this pass so far.
    packets: u64,
    /// Sum of the distances of this pass.
    span: u64,
    /// Capture time of the last packet.
    captured_ns: u64,
    /// From the last packet of a pass to the first of the next.
    between: u64,
}

/// A capture being played. Between two passes lies the mean gap of the capture, so that its rate is kept.
pub struct Player<R> {
    reader: Option<Reader<R>>,
    divider: Divider,
    gaps: Gaps,
    /// Packets of this pass that were played.
    played: u64,
    /// Number of passes; none: without end.
    loops: Option<u64>,
    /// Passes left after this one; none: without an end.
    left: Option<u64>,
    /// Whether all passes are over.
    over: bool,
}

/// Passes after the first, of this many in all; none: without end.
pub(crate) fn after_the_first(loops: Option<u64>) -> Option<u64> {
    loops.map(|loops| loops.saturating_sub(1))
}

impl Gaps {
    pub(crate) fn new(kind: Gap) -> Self {
        Self { kind, packets: 0, span: 0, captured_ns: 0, between: 0 }
    }

    /// The distance of a packet, captured at an instant, from the one before; 0 for the very first.
    pub(crate) fn next(&mut self, captured_ns: u64) -> u64 {
        let gap = match (self.packets, self.kind) {
            (0, _) => self.between,
            (_, Gap::Even) => 1,
            (_, Gap::Captured) => captured_ns.saturating_sub(self.captured_ns),
        };
        if self.packets > 0 {
            self.span = self.span.saturating_add(gap);
        }
        self.packets += 1;
        self.captured_ns = captured_ns;
        gap
    }

    /// The pass is over.
    pub(crate) fn again(&mut self) {
        self.between = self.between();
        (self.packets, self.span) = (0, 0);
    }

    /// From the last packet of this pass to the first of the next.
    pub(crate) fn between(&self) -> u64 {
        match (self.kind, self.packets) {
            (Gap::Even, _) => 1,
            (Gap::Captured, 0 | 1) => 0,
            (Gap::Captured, packets) => self.span / (packets - 1),
        }
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    pub(crate) fn span(&self) -> u64 {
        self.span
    }
}

impl<R: Read + Seek> Player<R> {
    /// Reads the header; `loops` is how often the capture is played, none for without an end.
    pub fn new(mut file: R, gap: Gap, half: Option<Half>, loops: Option<u64>) -> Result<Self, ReadError> {
        rewind(&mut file)?;
        Ok(Self {
            reader: Some(Reader::new(file)?),
            divider: Divider::new(half),
            gaps: Gaps::new(gap),
            played: 0,
            loops,
            left: after_the_first(loops),
            over: false,
        })
    }

    /// Reads the next packet into `frame`; returns how far it is from the one before, or none when all is played. That of the very
    /// first is its distance from the first of the whole capture.
    pub fn next(&mut self, frame: &mut Vec<u8>) -> Result<Option<u64>, ReadError> {
        let mut distance = 0u64;
        while !self.over {
            let Some(reader) = &mut self.reader else { break };
            if let Some(captured_ns) = reader.next(frame)? {
                distance = distance.saturating_add(self.gaps.next(captured_ns));
                if self.divider.keeps(frame, reader.interface()) {
                    self.played += 1;
                    return Ok(Some(distance));
                }
                continue;
            }
            // A half of a file that was changed may have none, too.
            if self.played == 0 {
                return Err(ReadError { packet: 0, problem: Problem::Empty });
            }
            match &mut self.left {
                Some(0) => self.over = true,
                Some(left) => {
                    *left -= 1;
                    self.rewind()?;
                }
                None => self.rewind()?,
            }
        }
        Ok(None)
    }

    /// Rewinds the capture, to be played as often as at first from its first packet on.
    pub fn again(&mut self) -> Result<(), ReadError> {
        self.left = after_the_first(self.loops);
        self.over = false;
        self.rewind()
    }

    /// Packets of this pass that were played.
    pub fn position(&self) -> u64 {
        self.played
    }

    /// Packets of this pass that were read, those of another half included.
    pub fn packets_read(&self) -> u64 {
        self.gaps.packets()
    }

    fn rewind(&mut self) -> Result<(), ReadError> {
        let Some(reader) = self.reader.take() else { return Ok(()) };
        let mut file = reader.into_inner();
        rewind(&mut file)?;
        self.reader = Some(Reader::new(file)?);
        self.gaps.again();
        self.played = 0;
        Ok(())
    }
}

pub(crate) fn rewind(file: &mut impl Seek) -> Result<(), ReadError> {
    file.rewind().map_err(|e| ReadError { packet: 0, problem: Problem::Io(e.to_string()) })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::reader::tests::pcap;

    fn play(times: &[u64], gap: Gap, loops: u64) -> Vec<u64> {
        let packets: Vec<_> = times.iter().enumerate().map(|(n, at)| (*at, vec![n as u8; 60])).collect();
        let mut player = Player::new(Cursor::new(pcap(&packets)), gap, None, Some(loops)).unwrap();
        let (mut gaps, mut frame) = (Vec::new(), Vec::new());
        while let Some(gap) = player.next(&mut frame).unwrap() {
            assert_eq!(frame[0] as usize, gaps.len() % times.len());
            gaps.push(gap);
        }
        assert_eq!(player.next(&mut frame).unwrap(), None);
        gaps
    }

    #[test]
    fn gaps_are_the_captures_own_or_even() {
        assert_eq!(play(&[7_000, 8_000, 8_001, 11_000], Gap::Captured, 1), [0, 1000, 1, 2999]);
        assert_eq!(play(&[7_000, 8_000, 8_001, 11_000], Gap::Even, 1), [0, 1, 1, 1]);
        // Out of order in the capture: at once.
        assert_eq!(play(&[5, 9, 7, 10], Gap::Captured, 1), [0, 4, 0, 3]);
    }

    #[test]
    fn passes_follow_each_other_at_the_mean_gap() {
        assert_eq!(play(&[0, 10, 40], Gap::Captured, 3), [0, 10, 30, 20, 10, 30, 20, 10, 30]);
        assert_eq!(play(&[0, 10], Gap::Even, 2), [0, 1, 1, 1]);
        assert_eq!(play(&[3], Gap::Captured, 3), [0, 0, 0]);
        let mut player = Player::new(Cursor::new(pcap(&[(0, vec![0; 60])])), Gap::Even, None, None).unwrap();
        assert_eq!((0..1000).map(|_| player.next(&mut Vec::new()).unwrap().unwrap()).sum::<u64>(), 999);
    }

    #[test]
    fn an_empty_capture_is_refused() {
        let mut player = Player::new(Cursor::new(pcap(&[])), Gap::Even, None, None).unwrap();
        assert_eq!(player.next(&mut Vec::new()).unwrap_err().problem, Problem::Empty);
    }
}
