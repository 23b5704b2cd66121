// SPDX-License-Identifier: Apache-2.0
//! A capture held in memory, played without reading anything more.
use std::{io::Cursor, sync::Arc};

use crate::{
    Gap, Half, ReadError, Reader, Rewrite,
    checksum_fixup::ChecksumFixup,
    player::{Gaps, after_the_first},
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
    fixup: ChecksumFixup,
}

/// A held capture being played.
#[derive(Debug)]
pub struct HeldTape {
    held: Arc<Held>,
    /// What is written again in every pass; none if all was written when the capture was read.
    rewrite: Option<Rewrite>,
    /// Number of passes; none: without end.
    loops: Option<u64>,
    /// Passes left after this one; none: without an end.
    left: Option<u64>,
    /// The next packet's index in its pass; that of none if all is played.
    at: usize,
    /// Its number over all passes.
    number: u64,
}

impl Held {
    /// Reads a whole capture; `check` says why a packet will not do, as far as `rewrite` does not. Of a half, distances are those of
    /// the whole capture.
    pub fn read(
        bytes: &[u8],
        gap: Gap,
        half: Option<Half>,
        rewrite: &Rewrite,
        check: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(Self, Survey), ReadError> {
        let mut reader = Reader::new(Cursor::new(bytes))?;
        let mut rewrite = rewrite.clone();
        let mut surveyor = Surveyor::new(half, check);
        let (mut all, mut packets, mut frame) = (Vec::new(), Vec::new(), Vec::new());
        let mut gaps = Gaps::new(gap);
        // From the last packet that is sent to the last one read.
        let mut distance = 0u64;
        while let Some(captured_ns) = reader.next(&mut frame)? {
            distance = distance.saturating_add(gaps.next(captured_ns));
            if !surveyor.add(captured_ns, reader.interface(), &frame, &rewrite)? {
                continue;
            }
            let constant = rewrite.is_constant();
            let fixup = if constant { rewrite.write(0, &mut frame) } else { ChecksumFixup::NOTHING };
            packets.push(Packet { start: all.len(), len: frame.len(), gap: std::mem::take(&mut distance), fixup });
            all.extend_from_slice(&frame);
        }
        let survey = surveyor.end()?;
        let between = distance.saturating_add(gaps.between()).saturating_add(survey.lead(gap));
        Ok((Self { bytes: all.into(), packets: packets.into(), between }, survey))
    }
}

impl HeldTape {
    /// Plays it so often; none: without an end. `rewrite` is what it was read with.
    pub fn new(held: Arc<Held>, rewrite: &Rewrite, loops: Option<u64>) -> Self {
        Self {
            held,
            rewrite: (!rewrite.is_constant()).then(|| rewrite.clone()),
            loops,
            left: after_the_first(loops),
            at: 0,
            number: 0,
        }
    }

    /// Rewinds the capture, to be played as often as at first from its first packet on. Packets are numbered on.
    pub fn again(&mut self) {
        self.left = after_the_first(self.loops);
        self.at = 0;
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
    pub fn take(&mut self, frame: &mut [u8]) -> ChecksumFixup {
        let packet = self.held.packets[self.at];
        frame.copy_from_slice(&self.held.bytes[packet.start..packet.start + packet.len]);
        let fixup = match &mut self.rewrite {
            Some(rewrite) => rewrite.write(self.number, frame),
            None => packet.fixup,
        };
        self.skip();
        fixup
    }

    /// Skips the packet that `peek` returned.
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
    use crate::{Changes, SplitBy, reader::tests::pcap};

    #[test]
    fn a_held_capture_plays_as_one_that_is_read() {
        let packets: Vec<(u64, Vec<u8>)> =
            [5, 9, 7, 30].iter().enumerate().map(|(n, at)| (*at, vec![n as u8; 60 + n])).collect();
        let file = pcap(&packets);
        for gap in [Gap::Captured, Gap::Even] {
            let rewrite = Rewrite::new(&Changes::default()).unwrap();
            let (held, survey) = Held::read(&file, gap, None, &rewrite, |_| Ok(())).unwrap();
            assert_eq!((survey.packets, survey.bytes, survey.span_ns, survey.backwards), (4, 246, 27, 1));
            let mut tape = HeldTape::new(Arc::new(held), &rewrite, Some(3));
            let mut player = crate::Player::new(Cursor::new(&file), gap, None, Some(3)).unwrap();
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

    /// The instants of a capture's packets in some passes, with the byte that tells them apart, and what was found in it.
    fn instants(file: &[u8], gap: Gap, half: Option<Half>, passes: u64) -> (Vec<(u64, u8)>, Survey) {
        let rewrite = Rewrite::new(&Changes::default()).unwrap();
        let (held, survey) = Held::read(file, gap, half, &rewrite, |_| Ok(())).unwrap();
        let mut tape = HeldTape::new(Arc::new(held), &rewrite, Some(passes));
        let mut player = crate::Player::new(Cursor::new(file), gap, half, Some(passes)).unwrap();
        let (mut at, mut all, mut read) = (0, Vec::new(), Vec::new());
        while let Some((distance, len)) = tape.peek() {
            // The survey has the gap before the very first packet.
            at += if all.is_empty() { survey.lead(gap) } else { distance };
            let mut frame = vec![0; len];
            tape.take(&mut frame);
            assert_eq!((player.next(&mut read).unwrap(), &read), (Some(distance), &frame));
            all.push((at, frame[20]));
        }
        assert_eq!(player.next(&mut read).unwrap(), None);
        (all, survey)
    }

    #[test]
    fn halves_play_at_the_times_of_the_whole_capture_in_every_pass() {
        // Distances of the initiator, 1, of the responder, which is earlier than the packet before it, and of the capture's end.
        let sources = [1, 0, 0, 1, 1, 0, 1, 0, 0];
        let times = [7, 9, 12, 12, 20, 19, 40, 47, 60];
        let packet = |n: usize| {
            let mut frame = vec![0; 60 + n];
            (frame[11], frame[20]) = (sources[n], n as u8);
            (times[n], frame)
        };
        let file = pcap(&(0..sources.len()).map(packet).collect::<Vec<_>>());
        for gap in [Gap::Captured, Gap::Even] {
            let (whole, all) = instants(&file, gap, None, 3);
            for responder in [false, true] {
                let half = Half { by: SplitBy::Mac, responder };
                let (sent, survey) = instants(&file, gap, Some(half), 3);
                let of_half = |(_, n): &&(u64, u8)| (sources[usize::from(*n)] == 0) == responder;
                assert_eq!(sent, whole.iter().filter(of_half).copied().collect::<Vec<_>>(), "{gap:?} {half:?}");
                assert_eq!((survey.captured, survey.span_ns), (9, all.span_ns));
                assert_eq!((survey.packets, survey.backwards), if responder { (5, 1) } else { (4, 0) });
                let (shortest, longest) = if responder { (61, 68) } else { (60, 66) };
                assert_eq!((survey.first.len(), survey.shortest, survey.longest), (shortest, shortest, longest));
            }
        }
    }

    #[test]
    fn a_capture_with_one_side_has_no_responder() {
        let file = pcap(&[(0, vec![0; 60]), (1, vec![0; 60])]);
        let rewrite = Rewrite::new(&Changes::default()).unwrap();
        let read = |by, responder| {
            Held::read(&file, Gap::Even, Some(Half { by, responder }), &rewrite, |_| Ok(()))
                .map(|(_, survey)| survey.packets)
        };
        for (by, why) in [
            (SplitBy::Mac, "all 2 packets have the same source MAC, so that there is no other side"),
            (SplitBy::Ip, "all 2 packets have the same source IP address, or none, so that"),
            (SplitBy::Interface, "all 2 packets are of one interface (pcap has no more; pcapng has), so that"),
        ] {
            assert_eq!(read(by, false), Ok(2));
            let refused = read(by, true).unwrap_err().to_string();
            assert!(refused.starts_with(why), "{refused}");
        }
    }

    #[test]
    fn packets_of_the_other_half_are_not_checked() {
        let mut other = vec![0; 1600];
        other[11] = 1;
        let file = pcap(&[(0, vec![0; 60]), (1, other)]);
        let rewrite = Rewrite::new(&Changes::default()).unwrap();
        let read = |responder| {
            let half = Half { by: SplitBy::Mac, responder };
            let check = |frame: &[u8]| if frame.len() > 1514 { Err("it is too long".to_owned()) } else { Ok(()) };
            Held::read(&file, Gap::Even, Some(half), &rewrite, check).map(|(_, survey)| survey.lead_packets)
        };
        assert_eq!(read(false), Ok(0));
        assert_eq!(read(true).unwrap_err().to_string(), "packet 2: it is too long");
    }

    #[test]
    fn a_packet_that_will_not_do_is_reported_by_its_number() {
        let file = pcap(&[(0, vec![0; 60]), (1, vec![0; 1600])]);
        let rewrite = Rewrite::new(&Changes::default()).unwrap();
        let check = |frame: &[u8]| if frame.len() > 1514 { Err("it is too long".to_owned()) } else { Ok(()) };
        let error = Held::read(&file, Gap::Even, None, &rewrite, check).unwrap_err();
        assert_eq!(error.to_string(), "packet 2: it is too long");
        let empty = Held::read(&pcap(&[]), Gap::Even, None, &rewrite, |_| Ok(())).unwrap_err();
        assert_eq!(empty.to_string(), "it has no packets");
    }
}
