// SPDX-License-Identifier: Apache-2.0
//! A source of tests alone, which shows that one is a file and a line of the registration, and that one may wrap another: the bytes of any
//! source in records with a header (as of TLS, RFC 8446 section 5.1), masked with the flow's number.
use spate_net::checksum::sum;

use super::Source;

/// Type, version and length.
pub(crate) const HEADER: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Records<S> {
    /// What the records hold.
    pub(crate) inner: S,
    /// Bytes of it in each but the last.
    pub(crate) most: u16,
}

impl<S: Source> Source for Records<S> {
    fn len(&self) -> u64 {
        self.inner.len() + self.inner.len().div_ceil(self.most.into()) * HEADER as u64
    }

    fn fill(&self, flow: u64, offset: u64, out: &mut [u8]) -> u64 {
        assert!(offset + out.len() as u64 <= self.len(), "beyond the payload's end");
        let mut at = 0;
        while at < out.len() {
            let (position, whole) = (offset + at as u64, HEADER as u64 + u64::from(self.most));
            let (start, within) = (position / whole * u64::from(self.most), (position % whole) as usize);
            let len = (self.inner.len() - start).min(self.most.into()) as usize;
            let left = &mut out[at..];
            at += if within < HEADER {
                let header = [23, 3, 3, (len >> 8) as u8, len as u8];
                let piece = left.len().min(HEADER - within);
                left[..piece].copy_from_slice(&header[within..within + piece]);
                piece
            } else {
                let piece = left.len().min(HEADER + len - within);
                self.inner.fill(flow, start + (within - HEADER) as u64, &mut left[..piece]);
                left[..piece].iter_mut().for_each(|byte| *byte ^= flow as u8);
                piece
            };
        }
        sum(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        application::{
            Machine,
            sinks::{Fed, Matcher, pattern, records},
            sources::pattern::Pattern,
        },
        counters::Counters,
        flow::{Flow, State, flags},
        payload::{PATTERN, Payload},
        program::{Instruction, Program},
        scenario::Tunables,
        sending::Backlog,
        slab::Slab,
        tcp::{Challenges, Context, Instant, Recovery},
    };
    use proptest::prelude::*;
    use spate_net::checksum::fold;

    /// A period of the pattern: its last bytes come once.
    const DATA: usize = PATTERN as usize;
    const MAX_FRAGMENT: u16 = 100;

    fn payload() -> Payload {
        Payload::of(Records { inner: Pattern { len: DATA as u64 }, most: MAX_FRAGMENT })
    }

    /// All of it, written record by record.
    fn whole(flow: u64) -> Vec<u8> {
        let data: Vec<u8> = (0..DATA).map(|n| n as u8 ^ flow as u8).collect();
        let record = |data: &[u8]| [&[23, 3, 3, (data.len() >> 8) as u8, data.len() as u8][..], data].concat();
        data.chunks(MAX_FRAGMENT.into()).flat_map(record).collect()
    }

    proptest! {
        #[test]
        fn a_registered_source_gives_any_piece_of_any_flow_and_its_sum(
            flow: u64, a: prop::sample::Index, b: prop::sample::Index,
        ) {
            let (payload, whole) = (payload(), whole(flow));
            prop_assert_eq!(payload.len(), whole.len() as u64);
            let (a, b) = (a.index(whole.len() + 1), b.index(whole.len() + 1));
            let expected = &whole[a.min(b)..a.max(b)];
            let mut piece = vec![0; expected.len()];
            let total = payload.fill(flow, a.min(b) as u64, &mut piece);
            prop_assert_eq!(&piece, expected);
            prop_assert_eq!(total, fold(sum(expected)));
        }
    }

    #[test]
    fn a_program_sends_a_registered_source_of_which_any_part_can_be_sent_again_and_a_registered_sink_finds_its_end() {
        let payloads = [payload()];
        let program =
            Program { instructions: [Instruction::Send { payload: 0, wait: true }].into(), counters: Box::default() };
        let (mut backlogs, mut recoveries) = (Slab::new(1, Backlog::NOTHING), Slab::new(1, Recovery::NOTHING));
        let (mut challenges, counters, tunables) = (Challenges::new(1), Counters::default(), Tunables::default());
        let mut cx = Context {
            now: Instant { ns: 0 },
            recoveries: &mut recoveries,
            challenges: &mut challenges,
            counters: &counters,
            tunables: &tunables,
        };
        let mut machine = Machine {
            program: &program,
            payloads: &payloads,
            backlogs: &mut backlogs,
            variables: &mut [],
            seed: 1,
            reader: None,
        };
        let mut flow = Flow { state: State::Established, number: 7, ..Flow::NOTHING };
        assert_eq!(flow.go_on(&mut machine, &mut cx), None);
        assert!(!flow.has(flags::PROGRAM_ENDED), "it waits until all is acknowledged");
        let expected = whole(7);
        assert_eq!(flow.queued() as usize, expected.len());
        let (mut sent, first) = (vec![0; expected.len()], flow.snd_una);
        for (n, segment) in sent.chunks_mut(90).enumerate() {
            flow.fill(&payloads, &backlogs, first.wrapping_add(90 * n as u32), segment);
        }
        assert_eq!(sent, expected);
        let mut again = [0; 100];
        flow.fill(&payloads, &backlogs, first.wrapping_add(99), &mut again);
        assert_eq!(again, expected[99..][..100]);

        // In segments of any length the end is that of the record with the last byte of the pattern.
        let last: Vec<u8> = (DATA - 9..DATA).map(|n| n as u8).collect();
        let sink = Matcher::from(records::Records { inner: pattern::Pattern::new(&last), mask: 7 });
        for mss in [1, 4, 90, 1460] {
            let (mut progress, mut ends) = (sink.begin(), Vec::new());
            for (n, segment) in sent.chunks(mss).enumerate() {
                match sink.feed(&mut progress, segment) {
                    Fed::More => {}
                    Fed::Ends(len) => ends.push(n * mss + len),
                    Fed::Broken(fault) => panic!("{fault:?}"),
                }
            }
            assert_eq!(ends, [expected.len()], "{mss}");
        }
    }
}
