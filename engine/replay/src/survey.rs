// SPDX-License-Identifier: Apache-2.0
//! What there is in a capture, found by reading it once from end to end.
use std::io::Read;

use crate::{Gap, Half, Problem, ReadError, Reader, Rewrite, half::Divider, player::Gaps};

/// What is sent of a capture: all its packets, or those of one half.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Number of packets.
    pub packets: u64,
    /// Their bytes without FCS.
    pub bytes: u64,
    /// Packets of the whole capture.
    pub captured: u64,
    /// All gaps of the whole capture together, in nanoseconds.
    pub span_ns: u64,
    /// From the capture's first packet to the first that is sent, in nanoseconds.
    pub lead_ns: u64,
    /// Packets before the first that is sent.
    pub lead_packets: u64,
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
    half: Option<Half>,
    divider: Divider,
    gaps: Gaps,
    last_ns: u64,
    check: C,
}

impl<C: FnMut(&[u8]) -> Result<(), String>> Surveyor<C> {
    pub(crate) fn new(half: Option<Half>, check: C) -> Self {
        let (survey, gaps) = (Survey::default(), Gaps::new(Gap::Captured));
        Self { survey, half, divider: Divider::new(half), gaps, last_ns: 0, check }
    }

    /// Counts the packet that was read last, or says why it cannot be sent. False if it is of the other half.
    pub(crate) fn add(
        &mut self,
        captured_ns: u64,
        interface: u32,
        frame: &[u8],
        rewrite: &Rewrite,
    ) -> Result<bool, ReadError> {
        let survey = &mut self.survey;
        survey.captured += 1;
        let backwards = captured_ns < self.last_ns;
        self.last_ns = captured_ns;
        self.gaps.next(captured_ns);
        if !self.divider.keeps(frame, interface) {
            return Ok(false);
        }
        let packet = survey.captured;
        rewrite
            .check(frame)
            .and_then(|()| (self.check)(frame))
            .map_err(|why| ReadError { packet, problem: Problem::Refused(why) })?;
        if survey.packets == 0 {
            survey.first = frame.to_vec();
            survey.shortest = frame.len();
            (survey.lead_ns, survey.lead_packets) = (self.gaps.span(), packet - 1);
        }
        survey.packets += 1;
        survey.bytes += frame.len() as u64;
        survey.longest = survey.longest.max(frame.len());
        survey.shortest = survey.shortest.min(frame.len());
        survey.backwards += u64::from(backwards);
        Ok(true)
    }

    /// All packets were added.
    pub(crate) fn end(self) -> Result<Survey, ReadError> {
        let problem = match (self.survey.packets, self.survey.captured, self.half) {
            (1.., _, _) => return Ok(Survey { span_ns: self.gaps.span(), ..self.survey }),
            (0, packets @ 1.., Some(half)) => Problem::OneSided { packets, in_common: half.by.in_common() },
            _ => Problem::Empty,
        };
        Err(ReadError { packet: 0, problem })
    }
}

impl Survey {
    /// Reads a whole file; `check` says why a packet will not do, as far as `rewrite` does not.
    pub fn of(
        file: impl Read,
        half: Option<Half>,
        rewrite: &Rewrite,
        check: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<Self, ReadError> {
        let mut reader = Reader::new(file)?;
        let mut surveyor = Surveyor::new(half, check);
        let mut frame = Vec::new();
        while let Some(captured_ns) = reader.next(&mut frame)? {
            surveyor.add(captured_ns, reader.interface(), &frame, rewrite)?;
        }
        surveyor.end()
    }

    /// The distance from the capture's first packet to the first that is sent.
    pub fn lead(&self, gap: Gap) -> u64 {
        match gap {
            Gap::Captured => self.lead_ns,
            Gap::Even => self.lead_packets,
        }
    }
}
