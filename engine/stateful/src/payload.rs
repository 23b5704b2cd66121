// SPDX-License-Identifier: Apache-2.0
//! What programs send: payloads, which any number of flows send at once and none has a copy of. Each is a source, with fields in it that
//! differ from flow to flow.
use crate::{
    application::{
        fields::Fields,
        sources::{Content, Source, literal::Literal, pattern::Pattern},
    },
    flow::{PART, PARTS},
};
use spate_net::checksum::fold;

pub use crate::application::{
    fields::{Field, FieldError, FieldProblem, Values},
    sources::pattern::PATTERN,
};

/// Bytes of the longest payload that may have fields: parts of longer ones have the same numbers again (see `PARTS`).
pub const MAX_BYTES_WITH_FIELDS: u64 = PARTS * PART;

/// The sum of so short a payload is kept.
const WHOLE: usize = 1460;

/// Bytes to send, as a source of pieces: no flow has a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    content: Content,
    fields: Fields,
    /// If it is short and the same for all flows: its length, and the sum of all of it.
    whole: Option<(usize, u16)>,
}

impl Payload {
    /// A payload of these bytes.
    pub fn bytes(bytes: impl Into<Box<[u8]>>) -> Self {
        Self::of(Literal::new(bytes.into()))
    }

    /// This many bytes of the pattern.
    pub fn pattern(len: u64) -> Self {
        Self::of(Pattern { len })
    }

    /// The bytes of a source.
    pub(crate) fn of(source: impl Into<Content>) -> Self {
        let mut payload = Self { content: source.into(), fields: Fields::default(), whole: None };
        let short = usize::try_from(payload.len()).ok().filter(|len| *len <= WHOLE);
        if let Some(len) = short.filter(|len| payload.content.kept(*len).len() == *len) {
            payload.whole = Some((len, payload.fill(0, 0, &mut vec![0; len])));
        }
        payload
    }

    /// The payload with fields instead of its former ones; later ones overwrite earlier ones.
    ///
    /// # Errors
    /// If a field has no width or does not lie within.
    pub fn with_fields(self, fields: impl Into<Box<[Field]>>) -> Result<Self, FieldError> {
        let fields = Fields::new(fields.into(), self.len())?;
        let whole = self.whole.filter(|_| fields.is_empty());
        Ok(Self { content: self.content, fields, whole })
    }

    /// Its length.
    #[inline]
    pub fn len(&self) -> u64 {
        self.content.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the bytes from `offset` on, of flow number `flow` of its template, and adds nothing to them. Gives the sum of
    /// their 16-bit words in network order, folded to 16 bits (RFC 1071), the first byte being the upper half of a word.
    ///
    /// # Panics
    /// If they reach beyond the end.
    #[inline]
    pub fn fill(&self, flow: u64, offset: u64, out: &mut [u8]) -> u16 {
        if let Some((len, sum)) = self.whole
            && out.len() == len
        {
            assert!(offset == 0, "beyond the payload's end");
            out.copy_from_slice(self.content.kept(len));
            return sum;
        }
        self.fill_part(flow, offset, out)
    }

    /// Fills a part of a piece, or a piece with fields.
    fn fill_part(&self, flow: u64, offset: u64, out: &mut [u8]) -> u16 {
        let total = self.content.fill(flow, offset, out);
        if self.fields.is_empty() { fold(total) } else { self.fields.fill(flow, offset, out, total) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::sources::literal::MAX_SUMMED;
    use proptest::prelude::*;
    use spate_net::checksum::sum;

    /// The whole payload of a flow, byte by byte.
    fn whole(content: &[u8], fields: &[Field], flow: u64) -> Vec<u8> {
        let mut all = content.to_vec();
        for field in fields {
            let value = match &field.values {
                Values::List(values) => values[(flow % values.len() as u64) as usize].to_vec(),
                Values::Counter { first, step, width } => {
                    let digits = format!("{:040}", u128::from(*first) + u128::from(flow) * u128::from(*step));
                    digits.as_bytes()[40 - usize::from(*width)..].to_vec()
                }
            };
            all[field.offset as usize..][..value.len()].copy_from_slice(&value);
        }
        all
    }

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|n| (n as u64 % PATTERN) as u8).collect()
    }

    /// Compares a piece and its sum with those of a pass over the bytes.
    fn compare(payload: &Payload, flow: u64, all: &[u8], a: usize, b: usize) -> Result<(), TestCaseError> {
        let (from, to) = (a.min(b), a.max(b));
        let mut out = vec![0xa5; to - from];
        let total = payload.fill(flow, from as u64, &mut out);
        prop_assert_eq!(&out, &all[from..to]);
        prop_assert_eq!(total, fold(sum(&all[from..to])), "{}..{}", from, to);
        Ok(())
    }

    /// A field that fits into `len` bytes, at least 20.
    fn field(len: u64) -> impl Strategy<Value = Field> {
        let list = (1usize..20, prop::collection::vec(prop::collection::vec(any::<u8>(), 20), 1..4))
            .prop_map(|(n, all)| Values::List(all.into_iter().map(|value| value[..n].into()).collect()));
        let counter = (any::<u64>(), any::<u64>(), 1u8..=20).prop_map(|(first, step, width)| Values::Counter {
            first,
            step,
            width,
        });
        (prop_oneof![list, counter], any::<prop::sample::Index>()).prop_map(move |(values, at)| {
            let room = len as usize - values.width();
            Field { offset: at.index(room + 1) as u64, values }
        })
    }

    proptest! {
        #[test]
        fn pieces_of_given_bytes_and_their_sums(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(0xff)], 0..700),
            a: prop::sample::Index, b: prop::sample::Index,
        ) {
            let (a, b) = (a.index(bytes.len() + 1), b.index(bytes.len() + 1));
            compare(&Payload::bytes(bytes.clone()), 0, &bytes, a, b)?;
            let zeros = vec![0; bytes.len()];
            compare(&Payload::bytes(zeros.clone()), 0, &zeros, a, b)?;
        }

        #[test]
        fn pieces_of_the_pattern_and_their_sums(start in 0u64..1 << 60, a in 0usize..25_000, len in 0usize..2_000, long: bool) {
            let len = if long { len * 12 } else { len };
            let payload = Payload::pattern(u64::MAX);
            compare(&payload, 0, &pattern(a + len), a, a + len)?;
            let mut out = vec![0; len];
            let total = payload.fill(0, start, &mut out);
            prop_assert!(out.iter().zip(start..).all(|(byte, n)| u64::from(*byte) == n % PATTERN));
            prop_assert_eq!(total, fold(sum(&out)));
        }

        #[test]
        fn pieces_across_fields_that_overlap_and_their_sums(
            len in 20usize..300, zeros: bool, fields in prop::collection::vec(field(20), 0..12), spread in 0usize..20,
            flow: u64, a: prop::sample::Index, b: prop::sample::Index,
        ) {
            let moved = |(n, field): (usize, Field)| Field {
                offset: field.offset + ((n * spread) as u64).min(len as u64 - 20), ..field
            };
            let fields: Vec<_> = fields.into_iter().enumerate().map(moved).collect();
            let content = if zeros { vec![0; len] } else { pattern(len) };
            let all = whole(&content, &fields, flow);
            let (a, b) = (a.index(len + 1), b.index(len + 1));
            compare(&Payload::bytes(content).with_fields(fields.clone()).unwrap(), flow, &all, a, b)?;
            if !zeros {
                compare(&Payload::pattern(len as u64).with_fields(fields).unwrap(), flow, &all, a, b)?;
            }
        }
    }

    #[test]
    fn pieces_longer_than_sums_of_32_bits() {
        let bytes = vec![0xff; 5 * MAX_SUMMED + 7];
        let payload = Payload::bytes(bytes.clone());
        for (a, b) in [(0, bytes.len()), (1, bytes.len()), (63, 2 * MAX_SUMMED + 64), (3, 3 + MAX_SUMMED)] {
            compare(&payload, 0, &bytes, a, b).unwrap();
        }
    }

    #[test]
    fn zeros_written_over_other_bytes_have_the_sum_zero() {
        let zeros = Values::List([vec![0; 2].into()].into());
        let payload = Payload::bytes([0, 9, 7, 0]).with_fields([Field { offset: 1, values: zeros }]).unwrap();
        assert_eq!(payload.fill(0, 0, &mut [1; 4]), 0);
    }

    #[test]
    fn counters_have_leading_zeros_and_wrap() {
        let counter = Field { offset: 1, values: Values::Counter { first: 98, step: 1, width: 2 } };
        let payload = Payload::bytes(*b"<..>").with_fields([counter]).unwrap();
        let of = |flow| {
            let mut out = [0; 4];
            payload.fill(flow, 0, &mut out);
            out
        };
        assert_eq!([of(0), of(1), of(2), of(12)], [*b"<98>", *b"<99>", *b"<00>", *b"<10>"]);
    }

    #[test]
    fn fields_without_values_or_out_of_place_are_refused() {
        let list = |values: &[&[u8]]| Values::List(values.iter().map(|&value| value.into()).collect());
        let counter = |width| Values::Counter { first: 0, step: 1, width };
        for (offset, values, problem) in [
            (0, list(&[]), FieldProblem::NoValues),
            (0, list(&[b""]), FieldProblem::EmptyValue),
            (0, list(&[b"a", b"bc"]), FieldProblem::Lengths(1)),
            (0, counter(0), FieldProblem::Width),
            (0, counter(21), FieldProblem::Width),
            (9, counter(2), FieldProblem::BeyondEnd(10)),
            (u64::MAX, counter(2), FieldProblem::BeyondEnd(10)),
        ] {
            let fine = Field { offset: 8, values: counter(2) };
            let error = Payload::pattern(10).with_fields([fine, Field { offset, values }]).unwrap_err();
            assert_eq!(error, FieldError { index: 1, problem });
        }
    }

    #[test]
    #[should_panic(expected = "beyond the payload's end")]
    fn the_pattern_ends_where_it_is_said_to() {
        Payload::pattern(5).fill(0, 3, &mut [0; 3]);
    }
}
