// SPDX-License-Identifier: Apache-2.0
//! Fields of payloads: bytes of fixed width, another value for each flow, in place of what a source has there.
use spate_net::checksum::{fold, sum};
use std::collections::BTreeMap;

use super::sources::placed;
use crate::FieldPath;

/// A field of fixed width in a payload, another value for each flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset of its first byte in the payload.
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
        /// Value of flow 0.
        first: u64,
        /// Difference from one flow to the next.
        step: u64,
        /// Digits; 1..=20.
        width: u8,
    },
}

/// Why a payload cannot have a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct FieldError {
    /// Index of the field.
    pub index: usize,
    /// The problem.
    pub problem: FieldProblem,
}

/// What is wrong with a field; its text starts with the part of the field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldProblem {
    /// The field has no values.
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
    fn path(&self) -> FieldPath {
        let values = FieldPath::from("list.values");
        match self {
            Self::NoValues => values,
            Self::EmptyValue => values.index(0),
            Self::Lengths(value) => values.index(*value),
            Self::Width => "counter.width".into(),
            Self::BeyondEnd(_) => "offset".into(),
        }
    }
}

impl FieldError {
    /// Path of the field in the payload.
    pub fn field(&self) -> FieldPath {
        FieldPath::from("fields").index(self.index).join(&self.problem.path())
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
    pub(crate) fn width(&self) -> usize {
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

/// The fields of a payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    fields: Box<[Field]>,
    /// What is seen of the fields: by offset, none over another.
    windows: Box<[Window]>,
}

impl Fields {
    /// For a payload of this many bytes; later ones overwrite earlier ones.
    pub(crate) fn new(fields: Box<[Field]>, len: u64) -> Result<Self, FieldError> {
        for (index, field) in fields.iter().enumerate() {
            let within = |end: u64| end <= len;
            let checked = field.values.check().and_then(|()| {
                let end = field.offset.checked_add(field.values.width() as u64);
                if end.is_some_and(within) { Ok(()) } else { Err(FieldProblem::BeyondEnd(len)) }
            });
            checked.map_err(|problem| FieldError { index, problem })?;
        }
        let windows = windows(&fields);
        Ok(Self { fields, windows })
    }

    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// Overwrites what fields have of a piece from `offset` on that is filled and has this sum; gives its new one.
    pub(crate) fn fill(&self, flow: u64, offset: u64, out: &mut [u8], mut total: u64) -> u16 {
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
