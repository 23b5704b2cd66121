// SPDX-License-Identifier: Apache-2.0
//! A capture to replay, wherever it is: short ones are held in memory, long ones read while they are sent.
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Gap, Half, Held, HeldTape, Player, Problem, ReadError, Rewrite, Survey, checksum_fixup::ChecksumFixup};

/// Files up to this length are held in memory.
pub const MAX_PRELOADED_BYTES: u64 = 8 << 20;

/// A capture that was read once and can be sent.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Contents of the capture.
    pub survey: Survey,
    /// Where the packets come from.
    pub source: Source,
}

/// Where the packets of a capture come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Memory.
    Held(Arc<Held>),
    /// A file, read while it is sent.
    File {
        /// Its path.
        path: PathBuf,
        /// The half that is sent; none: all packets.
        half: Option<Half>,
    },
}

impl Capture {
    /// A capture given as bytes; `check` says why a packet will not do, as far as `rewrite` does not.
    pub fn of_bytes(
        bytes: &[u8],
        gap: Gap,
        half: Option<Half>,
        rewrite: &Rewrite,
        check: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<Self, ReadError> {
        let (held, survey) = Held::read(bytes, gap, half, rewrite, check)?;
        Ok(Self { survey, source: Source::Held(Arc::new(held)) })
    }

    /// A capture in a file, which is read once.
    pub fn of_file(
        path: &Path,
        gap: Gap,
        half: Option<Half>,
        rewrite: &Rewrite,
        check: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<Self, ReadError> {
        let (mut file, len) = open(path)?;
        if len > MAX_PRELOADED_BYTES {
            let survey = Survey::of(file, half, rewrite, check)?;
            return Ok(Self { survey, source: Source::File { path: path.to_owned(), half } });
        }
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(MAX_PRELOADED_BYTES).read_to_end(&mut bytes).map_err(|e| unreadable(&e))?;
        Self::of_bytes(&bytes, gap, half, rewrite, check)
    }
}

/// Opens a regular file; and its length.
pub(crate) fn open(path: &Path) -> Result<(File, u64), ReadError> {
    // Before it is opened: a pipe would wait for a writer.
    let about = std::fs::metadata(path).map_err(|e| unreadable(&e))?;
    if !about.is_file() {
        let why = "it is no regular file: name a file on a volume of the engine".to_owned();
        return Err(ReadError { packet: 0, problem: Problem::Refused(why) });
    }
    let file = File::open(path).map_err(|e| unreadable(&e))?;
    Ok((file, about.len()))
}

fn unreadable(error: &std::io::Error) -> ReadError {
    let why = match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file on the engine: is the volume mounted?".to_owned(),
        _ => format!("it cannot be read: {error}"),
    };
    ReadError { packet: 0, problem: Problem::Refused(why) }
}

/// A capture being played by a thread that may wait for a file.
pub struct Tape(Kind);

enum Kind {
    Held(Box<HeldTape>),
    File { player: Box<Player<File>>, rewrite: Box<Rewrite>, number: u64, bytes: Vec<u8> },
}

impl Tape {
    /// Plays it so often; none: without an end. `gap` and `rewrite` are what it was read with.
    pub fn new(source: &Source, gap: Gap, rewrite: &Rewrite, loops: Option<u64>) -> Result<Self, ReadError> {
        Ok(Self(match source {
            Source::Held(held) => Kind::Held(Box::new(HeldTape::new(Arc::clone(held), rewrite, loops))),
            Source::File { path, half } => Kind::File {
                player: Box::new(Player::new(open(path)?.0, gap, *half, loops)?),
                rewrite: Box::new(rewrite.clone()),
                number: 0,
                bytes: Vec::new(),
            },
        }))
    }

    /// Writes the next packet into `frame`; returns its distance from the one before, and what is left to seal; none when
    /// all is played.
    pub fn next(&mut self, frame: &mut Vec<u8>) -> Result<Option<(u64, ChecksumFixup)>, ReadError> {
        match &mut self.0 {
            Kind::Held(tape) => {
                let Some((gap, len)) = tape.peek() else { return Ok(None) };
                frame.resize(len, 0);
                Ok(Some((gap, tape.take(frame))))
            }
            Kind::File { player, rewrite, number, bytes } => {
                let Some(gap) = player.next(bytes)? else { return Ok(None) };
                // The file may be another than the one that was read when it was looked through.
                rewrite
                    .check(bytes)
                    .map_err(|why| ReadError { packet: player.packets_read(), problem: Problem::Refused(why) })?;
                std::mem::swap(frame, bytes);
                let fixup = rewrite.write(*number, frame);
                *number += 1;
                Ok(Some((gap, fixup)))
            }
        }
    }

    /// Rewinds the capture, to be played as often as at first from its first packet on. Packets are numbered on.
    pub fn again(&mut self) -> Result<(), ReadError> {
        match &mut self.0 {
            Kind::Held(tape) => {
                tape.again();
                Ok(())
            }
            Kind::File { player, .. } => player.again(),
        }
    }

    /// Packets of this pass that were played.
    pub fn position(&self) -> u64 {
        match &self.0 {
            Kind::Held(tape) => tape.position(),
            Kind::File { player, .. } => player.position(),
        }
    }
}

#[cfg(test)]
mod tests {
    use spate_stateless::{FieldProgram, Sequence, Variable, Write};

    use super::*;
    use crate::{Changes, SplitBy, reader::tests::pcap};

    fn play(source: &Source, rewrite: &Rewrite) -> Vec<(u64, Vec<u8>)> {
        play_all(&mut Tape::new(source, Gap::Captured, rewrite, Some(2)).unwrap())
    }

    fn play_all(tape: &mut Tape) -> Vec<(u64, Vec<u8>)> {
        let (mut all, mut frame) = (Vec::new(), Vec::new());
        while let Some((gap, _)) = tape.next(&mut frame).unwrap() {
            all.push((gap, frame.clone()));
        }
        assert!(tape.next(&mut frame).unwrap().is_none());
        all
    }

    /// Numbers of packets are written into their first four bytes.
    #[test]
    fn what_is_played_once_more_is_numbered_on() {
        let packets: Vec<_> = (0..3u64).map(|n| (n * n, vec![0; 60])).collect();
        let path = std::env::temp_dir().join(format!("spate-replay-again-{}.pcap", std::process::id()));
        std::fs::write(&path, pcap(&packets)).unwrap();
        let variable = Variable {
            sequence: Sequence::Counter { min: 0, max: 99, step: 1, first: 0, down: false },
            after: None,
            limit: 0,
            per_worker: false,
        };
        let write = Write { variable: 0, offset: 0, size: 4, add: 0, shift: 0, mask: 0, little_endian: false };
        let program = FieldProgram { variables: vec![variable], writes: vec![write] };
        let rewrite = Rewrite::new(&Changes { program, ..Changes::default() }).unwrap();
        let held = Capture::of_file(&path, Gap::Captured, None, &rewrite, |_| Ok(())).unwrap();
        for source in [held.source, Source::File { path: path.clone(), half: None }] {
            let mut tape = Tape::new(&source, Gap::Captured, &rewrite, Some(2)).unwrap();
            let mut numbers = Vec::new();
            for start in 0..3 {
                if start > 0 {
                    tape.again().unwrap();
                }
                let played = play_all(&mut tape);
                // The gap before the first packet of a start is the start's to say.
                assert_eq!(played[1..].iter().map(|(gap, _)| *gap).collect::<Vec<_>>(), [1, 3, 2, 1, 3]);
                numbers.extend(played.iter().map(|(_, frame)| frame[3]));
            }
            assert_eq!(numbers, (0..18).collect::<Vec<_>>());
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_plays_alike_whether_it_is_held_or_read() {
        let packets: Vec<_> = (0..100u64).map(|n| (n * n, vec![n as u8; 60 + n as usize])).collect();
        let path = std::env::temp_dir().join(format!("spate-replay-{}.pcap", std::process::id()));
        std::fs::write(&path, pcap(&packets)).unwrap();
        let rewrite = Rewrite::new(&Changes::default()).unwrap();
        // By MAC the first packet is the initiator's, and all others, which have other sources, the responder's.
        let half = |responder| Some(Half { by: SplitBy::Mac, responder });
        for (half, packets) in [(None, 100), (half(false), 1), (half(true), 99)] {
            let held = Capture::of_file(&path, Gap::Captured, half, &rewrite, |_| Ok(())).unwrap();
            let read = play(&Source::File { path: path.clone(), half }, &rewrite);
            assert_eq!(held.survey, Survey::of(File::open(&path).unwrap(), half, &rewrite, |_| Ok(())).unwrap());
            assert_eq!((read.len(), &play(&held.source, &rewrite)), (2 * packets, &read));
        }
        std::fs::remove_file(&path).unwrap();
        let gone = Capture::of_file(&path, Gap::Captured, None, &rewrite, |_| Ok(())).unwrap_err();
        assert_eq!(gone.to_string(), "there is no such file on the engine: is the volume mounted?");
        let folder = Capture::of_file(&std::env::temp_dir(), Gap::Captured, None, &rewrite, |_| Ok(())).unwrap_err();
        assert!(folder.to_string().starts_with("it is no regular file"));
    }
}
