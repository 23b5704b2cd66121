// SPDX-License-Identifier: Apache-2.0
//! A capture held in memory, played without reading anything more.
use std::{io::Cursor, sync::Arc};

use crate::{
    Gap, Problem, ReadError, Reader, Rewrite,
    player::Gaps,
    seal::Seal,
    survey::{Survey, Surveyor},
};

/// A capture in memory, ready to be sent.
#[derive(Debug)]
pub struct Held {
    bytes: Box<[u8]>,
    packets: Box<[Packet]>,
    /// From the last packet of a pass to the first of the next.
    between: u64,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    start: usize,
    len: usize,
    gap: u64,
    seal: Seal,
}

/// A held capture being played.
#[derive(Debug)]
pub struct HeldTape {
    held: Arc<Held>,
    /// What is written again in every pass; none if all was written beforehand.
    rewrite: Option<Rewrite>,
    /// Passes left after this one; none: without an end.
    left: Option<u64>,
    /// The next packet's index in its pass; that of none if all is played.
    at: usize,
    /// Its number over all passes.
    number: u64,
}

impl Held {
    /// Reads a whole capture; `check` says why a packet will not do, as far as `rewrite` does not.
    pub fn read(
        bytes: &[u8],
        gap: Gap,
        rewrite: &Rewrite,
        check: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(Self, Survey), ReadError> {
        let mut reader = Reader::new(Cursor::new(bytes))?;
        let mut rewrite = rewrite.clone();
        let mut surveyor = Surveyor::new(check);
        let (mut all, mut packets, mut frame) = (Vec::new(), Vec::new(), Vec::new());
        let mut gaps = Gaps::new(gap);
        while let Some(captured_ns) = reader.next(&mut frame)? {
            surveyor.add(captured_ns, &frame, &rewrite)?;
            let constant = rewrite.is_constant();
            let seal = if constant { rewrite.write(0, &mut frame) } else { Seal::NOTHING };
            packets.push(Packet { start: all.len(), len: frame.len(), gap: gaps.next(captured_ns), seal });
            all.extend_from_slice(&frame);
        }
        if packets.is_empty() {
            return Err(ReadError { packet: 0, problem: Problem::Empty });
        }
        Ok((Self { bytes: all.into(), packets: packets.into(), between: gaps.between() }, surveyor.end()))
    }
}

impl HeldTape {
    /// Plays it so often; none: without an end. `rewrite` is what it was read with.
    pub fn new(held: Arc<Held>, rewrite: &Rewrite, loops: Option<u64>) -> Self {
        Self {
            held,
            rewrite: (!rewrite.is_constant()).then(|| rewrite.clone()),
            left: loops.map(|loops| loops.saturating_sub(1)),
            at: 0,
            number: 0,
        }
    }

    /// Packets of this pass that were played.
    pub fn position(&self) -> u64 {
        self.at as u64
    }

    /// The next packet's distance from the one before and its length; none when all is played.
    #[inline]
    pub fn peek(&self) -> Option<(u64, usize)> {
        let packet = self.held.packets.get(self.at)?;
        let gap = if self.at == 0 && self.number > 0 { self.held.between } else { packet.gap };
        Some((gap, packet.len))
    }

    /// Writes the packet that `peek` returned into `frame`, which is as long, and goes on.
    ///
    /// # Panics
    /// If it is not as long, or all is played.
    #[inline]
    pub fn take(&mut self, frame: &mut [u8]) -> Seal {
        let packet = self.held.packets[self.at];
        frame.copy_from_slice(&self.held.bytes[packet.start..packet.start + packet.len]);
        let seal = match &mut self.rewrite {
            Some(rewrite) => rewrite.write(self.number, frame),
            None => packet.seal,
        };
        self.skip();
        seal
    }

    /// Goes on without the packet that `peek` returned.
    #[inline]
    pub fn skip(&mut self) {
        self.number += 1;
        self.at += 1;
        if self.at == self.held.packets.len() {
            match &mut self.left {
                Some(0) => {}
                Some(left) => {
                    *left -= 1;
                    self.at = 0;
                }
                None => self.at = 0,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Changes, reader::tests::pcap};

    #[test]
    fn a_held_capture_plays_as_one_that_is_read() {
        let packets: Vec<(u64, Vec<u8>)> =
            [5, 9, 7, 30].iter().enumerate().map(|(n, at)| (*at, vec![n as u8; 60 + n])).collect();
        let file = pcap(&packets);
        for gap in [Gap::Captured, Gap::Even] {
            let rewrite = Rewrite::new(&Changes::default()).unwrap();
            let (held, survey) = Held::read(&file, gap, &rewrite, |_| Ok(())).unwrap();
            assert_eq!((survey.packets, survey.bytes, survey.span_ns, survey.backwards), (4, 246, 27, 1));
            let mut tape = HeldTape::new(Arc::new(held), &rewrite, Some(3));
            let mut player = crate::Player::new(Cursor::new(&file), gap, Some(3)).unwrap();
            let (mut read, mut taken) = (Vec::new(), Vec::new());
            while let Some(gap) = player.next(&mut read).unwrap() {
                assert_eq!(tape.peek(), Some((gap, read.len())));
                taken.resize(read.len(), 0);
                tape.take(&mut taken);
                assert_eq!(taken, read);
            }
            assert_eq!(tape.peek(), None);
        }
    }

    #[test]
    fn a_packet_that_will_not_do_is_reported_by_its_number() {
        let file = pcap(&[(0, vec![0; 60]), (1, vec![0; 1600])]);
        let rewrite = Rewrite::new(&Changes::default()).unwrap();
        let check = |frame: &[u8]| if frame.len() > 1514 { Err("it is too long".to_owned()) } else { Ok(()) };
        let error = Held::read(&file, Gap::Even, &rewrite, check).unwrap_err();
        assert_eq!(error.to_string(), "packet 2: it is too long");
        let empty = Held::read(&pcap(&[]), Gap::Even, &rewrite, |_| Ok(())).unwrap_err();
        assert_eq!(empty.to_string(), "it has no packets");
    }
}
