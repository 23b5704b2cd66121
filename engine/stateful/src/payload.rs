// SPDX-License-Identifier: Apache-2.0
//! What programs send: bytes that are held once for all flows, or made from a rule, and their checksums at little cost.
//!
//! Sums of 16-bit words up to every 8th byte are kept, so that the Internet checksum of any piece takes two of them and
//! the bytes at its edges instead of a pass over it.
use crate::flow::{PART, PARTS};
use spate_net::checksum::{fold, pairs, sum, sum_le, swapped};
use std::collections::BTreeMap;

/// The byte at offset n of a pattern is n modulo this.
pub const PATTERN: u64 = 251;

/// Bytes of the longest payload that may have fields: parts of longer ones have the same numbers again (see `PARTS`).
pub const LONGEST_WITH_FIELDS: u64 = PARTS * PART;

/// Bytes between two sums that are kept. Even, so that words start at even offsets.
const BLOCK: usize = 8;

/// Longest piece of given bytes whose sum is taken at once: below 2^32.
const LONGEST: usize = 1 << 16;

/// Bytes to send, as a source of pieces: no flow has a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    content: Content,
    fields: Box<[Field]>,
    /// What is seen of the fields: by offset, none over another.
    windows: Box<[Window]>,
    /// If it is short and the same for all flows: its length, and the sum of all of it.
    whole: Option<(usize, u16)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Bytes { bytes: Box<[u8]>, sums: Box<[u32]> },
    Pattern(u64),
}

/// A field of fixed width in a payload, another value for each flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Of its first byte in the payload.
    pub offset: u64,
    /// Flow n of the template has the n-th.
    pub values: Values,
}

/// The values of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Given ones of one length, in turn.
    List(Box<[Box<[u8]>]>),
    /// Decimal digits with leading zeros, of `first + n * step` modulo 10^`width`.
    Counter {
        /// Of flow 0.
        first: u64,
        /// From one flow to the next.
        step: u64,
        /// Digits; 1..=20.
        width: u8,
    },
}

/// Why a payload cannot have a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct FieldError {
    /// Of the field.
    pub index: usize,
    /// What is wrong with it.
    pub problem: FieldProblem,
}

/// What is wrong with a field; its text starts with the part of the field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldProblem {
    /// There is nothing to send.
    #[error("is empty; give at least one value")]
    NoValues,
    /// The field would have no bytes.
    #[error("is empty; give at least one byte")]
    EmptyValue,
    /// The width is fixed.
    #[error("differs from the first in length; pad it to the same")]
    Lengths(usize),
    /// No such number.
    #[error("must be 1..20 digits")]
    Width,
    /// The length is fixed, too.
    #[error("the field reaches beyond the payload's {0} bytes; lower it or make the payload longer")]
    BeyondEnd(u64),
}

impl FieldProblem {
    /// The path behind the field's own.
    fn path(&self) -> String {
        match self {
            Self::NoValues => "list.values".to_owned(),
            Self::EmptyValue => "list.values[0]".to_owned(),
            Self::Lengths(value) => format!("list.values[{value}]"),
            Self::Width => "counter.width".to_owned(),
            Self::BeyondEnd(_) => "offset".to_owned(),
        }
    }
}

impl FieldError {
    /// Path of the field in the payload.
    pub fn field(&self) -> String {
        format!("fields[{}].{}", self.index, self.problem.path())
    }
}

/// A part of a field that no later field overwrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    offset: u64,
    len: u64,
    field: usize,
    /// Bytes of the field before it.
    skip: usize,
}

/// Longest counter.
const DIGITS: usize = 20;

impl Values {
    /// Bytes of the field.
    fn width(&self) -> usize {
        match self {
            Self::List(values) => values.first().map_or(0, |value| value.len()),
            Self::Counter { width, .. } => usize::from(*width),
        }
    }

    fn check(&self) -> Result<(), FieldProblem> {
        match self {
            Self::List(values) => {
                let len = values.first().ok_or(FieldProblem::NoValues)?.len();
                if len == 0 {
                    return Err(FieldProblem::EmptyValue);
                }
                values.iter().position(|value| value.len() != len).map_or(Ok(()), |n| Err(FieldProblem::Lengths(n)))
            }
            Self::Counter { width, .. } if !(1..=DIGITS).contains(&usize::from(*width)) => Err(FieldProblem::Width),
            Self::Counter { .. } => Ok(()),
        }
    }

    /// Writes the value of a flow from its byte `skip` on.
    fn write(&self, flow: u64, skip: usize, out: &mut [u8]) {
        match self {
            Self::List(values) => {
                out.copy_from_slice(&values[(flow % values.len() as u64) as usize][skip..][..out.len()]);
            }
            Self::Counter { first, step, width } => {
                let mut value = u128::from(*first) + u128::from(flow) * u128::from(*step);
                if *width < DIGITS as u8 {
                    // Fits in 64 bits from here on, where division is quick.
                    value %= 10u128.pow(u32::from(*width));
                }
                let mut digits = [b'0'; DIGITS];
                let mut at = DIGITS;
                while value > u128::from(u64::MAX) && at > 0 {
                    at -= 1;
                    digits[at] += (value % 10) as u8;
                    value /= 10;
                }
                let mut rest = value as u64;
                while rest > 0 && at > 0 {
                    at -= 1;
                    digits[at] += (rest % 10) as u8;
                    rest /= 10;
                }
                out.copy_from_slice(&digits[DIGITS - usize::from(*width)..][skip..][..out.len()]);
            }
        }
    }
}

impl Payload {
    /// Those bytes.
    pub fn bytes(bytes: impl Into<Box<[u8]>>) -> Self {
        let bytes = bytes.into();
        let mut total = 0u32;
        let sums = bytes
            .chunks(BLOCK)
            .map(|block| {
                let before = total;
                total = total.wrapping_add(sum(block) as u32);
                before
            })
            .collect();
        Self::plain(Content::Bytes { bytes, sums })
    }

    /// This many bytes of the pattern.
    pub fn pattern(len: u64) -> Self {
        Self::plain(Content::Pattern(len))
    }

    fn plain(content: Content) -> Self {
        let mut payload = Self { content, fields: [].into(), windows: [].into(), whole: None };
        if payload.len() <= WHOLE as u64 {
            let mut bytes = vec![0; payload.len() as usize];
            let sum = payload.fill(0, 0, &mut bytes);
            payload.whole = Some((bytes.len(), sum));
        }
        payload
    }

    /// The same with fields instead of its former ones; later ones overwrite earlier ones.
    ///
    /// # Errors
    /// If a field has no width or does not lie within.
    pub fn with_fields(self, fields: impl Into<Box<[Field]>>) -> Result<Self, FieldError> {
        let fields = fields.into();
        for (index, field) in fields.iter().enumerate() {
            let within = |end: u64| end <= self.len();
            let checked = field.values.check().and_then(|()| {
                let end = field.offset.checked_add(field.values.width() as u64);
                if end.is_some_and(within) { Ok(()) } else { Err(FieldProblem::BeyondEnd(self.len())) }
            });
            checked.map_err(|problem| FieldError { index, problem })?;
        }
        let windows = windows(&fields);
        let whole = self.whole.filter(|_| windows.is_empty());
        Ok(Self { content: self.content, fields, windows, whole })
    }

    /// Its length.
    #[inline]
    pub fn len(&self) -> u64 {
        match &self.content {
            Content::Bytes { bytes, .. } => bytes.len() as u64,
            Content::Pattern(len) => *len,
        }
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
            let all = match &self.content {
                Content::Bytes { bytes, .. } => bytes,
                Content::Pattern(_) => &TABLE_BYTES[..len],
            };
            out.copy_from_slice(all);
            return sum;
        }
        self.fill_part(flow, offset, out)
    }

    /// The same for a part of it, or if it has fields.
    fn fill_part(&self, flow: u64, offset: u64, out: &mut [u8]) -> u16 {
        let total = match &self.content {
            Content::Bytes { bytes, sums } => fill_bytes(bytes, sums, offset as usize, out),
            Content::Pattern(len) => {
                assert!(
                    offset.checked_add(out.len() as u64).is_some_and(|end| end <= *len),
                    "beyond the payload's end"
                );
                fill_pattern((offset % PATTERN) as usize, out)
            }
        };
        if self.windows.is_empty() { fold(total) } else { self.fill_fields(flow, offset, out, total) }
    }

    /// Overwrites what fields have of a piece that is filled; gives its new sum.
    fn fill_fields(&self, flow: u64, offset: u64, out: &mut [u8], mut total: u64) -> u16 {
        /// 0 modulo 0xffff, and more than any sum that is taken off.
        const ENOUGH: u64 = 0xffff << 40;
        let end = offset + out.len() as u64;
        let from = self.windows.partition_point(|window| window.offset + window.len <= offset);
        for window in self.windows[from..].iter().take_while(|window| window.offset < end) {
            let hidden = offset.saturating_sub(window.offset);
            let at = (window.offset + hidden - offset) as usize;
            let len = (window.len - hidden).min(end - window.offset - hidden) as usize;
            let piece = &mut out[at..at + len];
            let before = placed(sum(piece), at);
            self.fields[window.field].values.write(flow, window.skip + hidden as usize, piece);
            total = u64::from(fold(total + ENOUGH - before + placed(sum(piece), at)));
        }
        // Only zeros have the sum 0; what comes to 0xffff by taking off may be both.
        if total == 0xffff && out.iter().all(|byte| *byte == 0) { 0 } else { fold(total) }
    }
}

/// The sum of a part as it counts from an offset on.
#[inline]
fn placed(sum: u64, offset: usize) -> u64 {
    if offset.is_multiple_of(2) { sum } else { swapped(sum) }
}

/// Copies `bytes` from an offset on; gives their sum. `sums` are those of all before every `BLOCK`th byte, modulo 2^32.
#[inline]
fn fill_bytes(bytes: &[u8], sums: &[u32], offset: usize, out: &mut [u8]) -> u64 {
    out.copy_from_slice(&bytes[offset..][..out.len()]);
    if out.len() <= SHORT {
        return u64::from(fold(sum_le(out)).swap_bytes());
    }
    // The longest piece and the edges of its last block do not exceed 32 bits together.
    let between = |from: usize, to: usize| {
        let words = sum_before(bytes, sums, offset + to).wrapping_sub(sum_before(bytes, sums, offset + from));
        u64::from(words)
    };
    if out.len() <= LONGEST {
        return placed(between(0, out.len()), offset);
    }
    let starts = (0..out.len()).step_by(LONGEST);
    placed(starts.map(|from| between(from, out.len().min(from + LONGEST))).sum(), offset)
}

/// The sum of so short a payload is kept.
const WHOLE: usize = 1460;

/// So few bytes are added up as they are.
const SHORT: usize = 128;

/// The sum of all bytes before an offset, modulo 2^32.
#[inline]
fn sum_before(bytes: &[u8], sums: &[u32], offset: usize) -> u32 {
    let (block, left) = (offset / BLOCK, offset % BLOCK);
    match bytes[block * BLOCK..].first_chunk() {
        Some(whole) => {
            // Without what is behind the offset.
            let words = u64::from_be_bytes(*whole) & !(u64::MAX >> (8 * left));
            let pairs = pairs(words);
            sums[block].wrapping_add((pairs + (pairs >> 32)) as u32)
        }
        None => {
            // The end of a last block that is full has no sum of its own.
            let block = block.min(sums.len().saturating_sub(1));
            sums.get(block).map_or(0, |before| before.wrapping_add(sum(&bytes[block * BLOCK..offset]) as u32))
        }
    }
}

/// Bytes of the table that pieces of the pattern are copied from: a jumbo frame from any offset at once.
const TABLE: usize = PATTERN as usize * 38;
static TABLE_BYTES: [u8; TABLE] = table_bytes();
static TABLE_SUMS: [u32; TABLE.div_ceil(BLOCK)] = table_sums();

const fn table_bytes() -> [u8; TABLE] {
    let mut table = [0; TABLE];
    let mut n = 0;
    while n < TABLE {
        table[n] = (n % PATTERN as usize) as u8;
        n += 1;
    }
    table
}

const fn table_sums() -> [u32; TABLE.div_ceil(BLOCK)] {
    let bytes = table_bytes();
    let mut sums = [0; TABLE.div_ceil(BLOCK)];
    let (mut total, mut n) = (0, 0);
    while n < TABLE {
        if n % BLOCK == 0 {
            sums[n / BLOCK] = total;
        }
        total += (bytes[n] as u32) << (8 * (1 - n % 2));
        n += 1;
    }
    sums
}

/// Writes the pattern from an offset in its period on; gives its sum.
#[inline]
fn fill_pattern(mut from: usize, out: &mut [u8]) -> u64 {
    let (mut total, mut at) = (0, 0);
    while at < out.len() {
        let len = (out.len() - at).min(TABLE - from);
        total += placed(fill_bytes(&TABLE_BYTES, &TABLE_SUMS, from, &mut out[at..at + len]), at);
        at += len;
        // The table ends where a period does.
        from = 0;
    }
    total
}

/// What is seen of fields of which later ones overwrite earlier ones.
fn windows(fields: &[Field]) -> Box<[Window]> {
    let mut seen = BTreeMap::<u64, Window>::new();
    for (index, field) in fields.iter().enumerate().rev() {
        let end = field.offset + field.values.width() as u64;
        let mut at = field.offset;
        if let Some((_, window)) = seen.range(..=at).next_back() {
            at = at.max(window.offset + window.len);
        }
        let mut gaps = Vec::new();
        for window in seen.range(at..).map(|(_, window)| *window).take_while(|window| window.offset < end) {
            gaps.push((at, window.offset));
            at = window.offset + window.len;
        }
        gaps.push((at, end));
        for (from, to) in gaps.into_iter().filter(|(from, to)| from < to) {
            let skip = (from - field.offset) as usize;
            seen.insert(from, Window { offset: from, len: to - from, field: index, skip });
        }
    }
    seen.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        let bytes = vec![0xff; 5 * LONGEST + 7];
        let payload = Payload::bytes(bytes.clone());
        for (a, b) in [(0, bytes.len()), (1, bytes.len()), (63, 2 * LONGEST + 64), (3, 3 + LONGEST)] {
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
