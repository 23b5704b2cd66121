// SPDX-License-Identifier: Apache-2.0
//! A capture played: when each packet is due, and from the start again as often as is asked.
use std::io::{Read, Seek};

use crate::{Problem, ReadError, Reader};

/// How times between packets come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Those of the capture times a ratio: 2/1 takes twice as long. A packet that was captured before the one in front of
    /// it follows it at once.
    Scaled(u64, u64),
    /// One every so many nanoseconds.
    Fixed(u64),
}

/// When packets are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between packets.
    pub gap: Gap,
    /// No gap is shorter, in nanoseconds.
    pub min_gap_ns: u64,
    /// How often; none: without an end.
    pub loops: Option<u64>,
}

/// A capture being played. Between two passes lies the mean gap of the capture, so that its rate is kept.
pub struct Player<R> {
    reader: Option<Reader<R>>,
    timing: Timing,
    /// Passes begun.
    passes: u64,
    /// Packets of this pass so far.
    packets: u64,
    /// Due time of the last packet, and what is left of dividing by the ratio.
    due_ns: u64,
    rest: u128,
    /// When the pass's first packet was due.
    pass_due_ns: u64,
    /// Capture time of the last packet.
    captured_ns: u64,
    /// From the last packet of a pass to the first of the next.
    between_ns: u64,
}

impl<R: Read + Seek> Player<R> {
    /// Reads the header. The ratio of a scaled gap has no 0.
    pub fn new(mut file: R, timing: Timing) -> Result<Self, ReadError> {
        rewind(&mut file)?;
        let reader = Reader::new(file)?;
        Ok(Self {
            reader: Some(reader),
            timing,
            passes: 1,
            packets: 0,
            due_ns: 0,
            rest: 0,
            pass_due_ns: 0,
            captured_ns: 0,
            between_ns: 0,
        })
    }

    /// Reads the next packet into `frame`; returns when it is due, in nanoseconds from the first packet, or none when all
    /// is played.
    pub fn next(&mut self, frame: &mut Vec<u8>) -> Result<Option<u64>, ReadError> {
        loop {
            let Some(reader) = &mut self.reader else { return Ok(None) };
            if let Some(captured_ns) = reader.next(frame)? {
                return Ok(Some(self.due(captured_ns)));
            }
            if self.packets == 0 {
                return Err(ReadError { packet: 0, problem: Problem::Empty });
            }
            if self.timing.loops.is_some_and(|loops| self.passes >= loops) {
                self.reader = None;
                return Ok(None);
            }
            self.again()?;
        }
    }

    /// Bytes of memory or of the file are at its start again.
    fn again(&mut self) -> Result<(), ReadError> {
        let Some(reader) = self.reader.take() else { return Ok(()) };
        let mut file = reader.into_inner();
        rewind(&mut file)?;
        self.reader = Some(Reader::new(file)?);
        let gaps = self.packets - 1;
        self.between_ns = match self.timing.gap {
            Gap::Fixed(ns) => ns,
            Gap::Scaled(..) if gaps > 0 => (self.due_ns - self.pass_due_ns) / gaps,
            Gap::Scaled(..) => 0,
        };
        self.passes += 1;
        self.packets = 0;
        Ok(())
    }

    fn due(&mut self, captured_ns: u64) -> u64 {
        let gap = match (self.packets, self.passes, self.timing.gap) {
            (0, 1, _) => None,
            (0, _, _) => Some(self.between_ns),
            (_, _, Gap::Fixed(ns)) => Some(ns),
            (_, _, Gap::Scaled(numerator, denominator)) => {
                let captured = u128::from(captured_ns.saturating_sub(self.captured_ns));
                let scaled = captured * u128::from(numerator) + self.rest;
                self.rest = scaled % u128::from(denominator);
                Some(u64::try_from(scaled / u128::from(denominator)).unwrap_or(u64::MAX))
            }
        };
        if let Some(gap) = gap {
            self.due_ns = self.due_ns.saturating_add(gap.max(self.timing.min_gap_ns));
        }
        if self.packets == 0 {
            self.pass_due_ns = self.due_ns;
        }
        self.packets += 1;
        self.captured_ns = captured_ns;
        self.due_ns
    }
}

fn rewind(file: &mut impl Seek) -> Result<(), ReadError> {
    file.rewind().map_err(|e| ReadError { packet: 0, problem: Problem::Io(e.to_string()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::tests::pcap;
    use std::io::Cursor;

    fn play(times: &[u64], gap: Gap, min_gap_ns: u64, loops: u64) -> Vec<u64> {
        let file = pcap(&times.iter().map(|at| (*at, vec![0; 60])).collect::<Vec<_>>());
        let mut player = Player::new(Cursor::new(file), Timing { gap, min_gap_ns, loops: Some(loops) }).unwrap();
        let mut frame = Vec::new();
        std::iter::from_fn(|| player.next(&mut frame).unwrap()).collect()
    }

    #[test]
    fn gaps_are_kept_scaled_fixed_and_bounded() {
        let times = [5_000, 6_000, 6_001, 9_000];
        assert_eq!(play(&times, Gap::Scaled(1, 1), 0, 1), [0, 1000, 1001, 4000]);
        assert_eq!(play(&times, Gap::Scaled(2, 1), 0, 1), [0, 2000, 2002, 8000]);
        assert_eq!(play(&times, Gap::Scaled(1, 1), 10, 1), [0, 1000, 1010, 4009]);
        assert_eq!(play(&times, Gap::Fixed(7), 0, 1), [0, 7, 14, 21]);
        assert_eq!(play(&times, Gap::Fixed(7), 8, 1), [0, 8, 16, 24]);
        // Thirds do not drift.
        assert_eq!(play(&[0, 1, 2, 3, 4, 5, 6], Gap::Scaled(1, 3), 0, 1), [0, 0, 0, 1, 1, 1, 2]);
        // Out of order in the capture: at once.
        assert_eq!(play(&[5, 9, 7, 10], Gap::Scaled(1, 1), 0, 1), [0, 4, 4, 7]);
    }

    #[test]
    fn passes_follow_each_other_at_the_mean_gap() {
        assert_eq!(play(&[0, 10, 40], Gap::Scaled(1, 1), 0, 3), [0, 10, 40, 60, 70, 100, 120, 130, 160]);
        assert_eq!(play(&[0, 10], Gap::Fixed(5), 0, 2), [0, 5, 10, 15]);
        assert_eq!(play(&[3], Gap::Scaled(1, 1), 9, 3), [0, 9, 18]);
        let file = pcap(&[(0, vec![0; 60])]);
        let timing = Timing { gap: Gap::Fixed(1), min_gap_ns: 0, loops: None };
        let mut player = Player::new(Cursor::new(file), timing).unwrap();
        assert_eq!((0..1000).map(|_| player.next(&mut Vec::new()).unwrap().unwrap()).last(), Some(999));
    }

    #[test]
    fn an_empty_capture_is_refused() {
        let timing = Timing { gap: Gap::Fixed(1), min_gap_ns: 0, loops: None };
        let mut player = Player::new(Cursor::new(pcap(&[])), timing).unwrap();
        assert_eq!(player.next(&mut Vec::new()).unwrap_err().problem, Problem::Empty);
    }
}
