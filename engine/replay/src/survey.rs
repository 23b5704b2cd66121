// SPDX-License-Identifier: Apache-2.0
//! What there is in a capture, found by reading it once from end to end.
use std::io::Read;

use crate::{Gap, Problem, ReadError, Reader, Rewrite, player::Gaps};

/// What a capture holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// How many.
    pub packets: u64,
    /// Their bytes without FCS.
    pub bytes: u64,
    /// All gaps together, in nanoseconds as captured.
    pub span_ns: u64,
    /// Packets that were captured before the one in front of them.
    pub backwards: u64,
    /// Bytes of the longest and the shortest without FCS.
    pub longest: usize,
    /// See above.
    pub shortest: usize,
    /// The first packet.
    pub first: Vec<u8>,
}

/// Sums packets up.
pub(crate) struct Surveyor<C> {
    survey: Survey,
    gaps: Gaps,
    last_ns: u64,
    check: C,
}

impl<C: FnMut(&[u8]) -> Result<(), String>> Surveyor<C> {
    pub(crate) fn new(check: C) -> Self {
        Self { survey: Survey::default(), gaps: Gaps::new(Gap::Captured), last_ns: 0, check }
    }

    /// Counts a packet as captured, or says why it cannot be sent.
    pub(crate) fn add(&mut self, captured_ns: u64, frame: &[u8], rewrite: &Rewrite) -> Result<(), ReadError> {
        let survey = &mut self.survey;
        survey.packets += 1;
        let packet = survey.packets;
        rewrite
            .check(frame)
            .and_then(|()| (self.check)(frame))
            .map_err(|why| ReadError { packet, problem: Problem::Refused(why) })?;
        if packet == 1 {
            survey.first = frame.to_vec();
            survey.shortest = frame.len();
        }
        survey.bytes += frame.len() as u64;
        survey.longest = survey.longest.max(frame.len());
        survey.shortest = survey.shortest.min(frame.len());
        survey.backwards += u64::from(captured_ns < self.last_ns);
        self.last_ns = captured_ns;
        self.gaps.next(captured_ns);
        Ok(())
    }

    pub(crate) fn end(self) -> Survey {
        Survey { span_ns: self.gaps.span(), ..self.survey }
    }
}

impl Survey {
    /// Reads a whole file; `check` says why a packet will not do, as far as `rewrite` does not.
    pub fn of(
        file: impl Read,
        rewrite: &Rewrite,
        check: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<Self, ReadError> {
        let mut reader = Reader::new(file)?;
        let mut surveyor = Surveyor::new(check);
        let mut frame = Vec::new();
        while let Some(captured_ns) = reader.next(&mut frame)? {
            surveyor.add(captured_ns, &frame, rewrite)?;
        }
        match surveyor.survey.packets {
            0 => Err(ReadError { packet: 0, problem: Problem::Empty }),
            _ => Ok(surveyor.end()),
        }
    }
}
