// SPDX-License-Identifier: Apache-2.0
//! Making a template: what varies where, and which checksums can be had as sums of parts.
use core::ops::Range;

use spate_net::{checksum, trailer};

use super::{
    Blueprint, Checksum, ChecksumKind, Fix, Kept, MAX_FRAME_LEN, MIN_FRAME_LEN, PIECE, Store, SumFix, Template,
    TemplateError, TrailerPart, write::compute,
};
use crate::program::{MAX_SUMS, MAX_WRITES, ProgramError, Variables, Write};

/// Length fields of a template at most.
const MAX_LENGTHS: usize = 16;
/// Bytes of the destination MAC.
const DESTINATION_MAC: Range<usize> = 0..6;

/// A template being made.
pub(super) struct Compiler<'a> {
    blueprint: &'a Blueprint,
    frame: Vec<u8>,
    shortest: usize,
    variables: Variables,
    stores: Vec<Store>,
    /// Bits of each byte that vary, by stores and length fields, and that are written more than once.
    varying: Vec<u8>,
    twice: Vec<bool>,
    fixes: Vec<Fix>,
    /// See `Template::adds`.
    adds: Vec<Vec<(u8, bool)>>,
    /// What the checksums so far cover.
    covered: Vec<Range<usize>>,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(blueprint: &'a Blueprint) -> Result<Self, TemplateError> {
        let len = blueprint.frame.len();
        if !(MIN_FRAME_LEN..=MAX_FRAME_LEN).contains(&len) {
            return Err(TemplateError::FrameLength(len));
        }
        let variables = Variables::new(&blueprint.program.variables)?;
        let shortest = match blueprint.size {
            None => len,
            Some(v) if v >= variables.len() => return Err(TemplateError::Size("it names no variable of the program")),
            Some(v) => variables.bounds(v).0.clamp(MIN_FRAME_LEN as u64, len as u64) as usize,
        };
        Ok(Self {
            frame: blueprint.frame.clone(),
            shortest,
            variables,
            stores: Vec::new(),
            varying: vec![0; len],
            twice: vec![false; len],
            fixes: Vec::new(),
            adds: Vec::new(),
            covered: Vec::new(),
            blueprint,
        })
    }

    pub(super) fn compile(mut self) -> Result<Template, TemplateError> {
        let len = self.frame.len();
        if self.blueprint.flow && self.blueprint.size.is_none() {
            self.frame[len - trailer::LEN..].fill(0);
        }
        self.add_stores()?;
        self.add_lengths()?;
        for index in 0..self.blueprint.checksums.len() {
            self.add_checksum(index)?;
        }
        self.frame.resize(len.next_multiple_of(PIECE), 0);
        let (flow, sized) = (self.blueprint.flow, self.blueprint.size.is_some());
        let in_first_piece = !flow
            && self.fields().all(|field| field.end <= PIECE)
            && self.fixes.iter().all(|fix| matches!(fix, Fix::Sum(_)) && fix.field().end <= PIECE);
        let fields = self.fields().count();
        self.adds.resize(fields, Vec::new());
        Ok(Template {
            frame: self.frame.into(),
            kept: Kept::new(flow && sized),
            len,
            fixed: self.variables.len() == 0 && !self.blueprint.flow && self.fixes.is_empty(),
            in_first_piece,
            flow,
            destination_alone: self.varying[DESTINATION_MAC].iter().all(|mask| *mask == 0)
                && !self.covered.iter().any(|range| overlap(range, &DESTINATION_MAC)),
            shortest: self.shortest,
            variables: self.variables,
            size: self.blueprint.size,
            lengths: self.blueprint.lengths.as_slice().into(),
            stores: self.stores.into(),
            adds: self.adds.into_iter().map(Into::into).collect(),
            fixes: self.fixes.into(),
        })
    }

    /// Where bytes end that every packet has, trailer apart.
    fn certain(&self) -> usize {
        self.shortest - if self.blueprint.flow { trailer::LEN } else { 0 }
    }

    fn add_stores(&mut self) -> Result<(), TemplateError> {
        let writes = &self.blueprint.program.writes;
        if writes.len() > MAX_WRITES {
            return Err(ProgramError::TooMany { what: "writes", count: writes.len(), most: MAX_WRITES }.into());
        }
        for (index, write) in writes.iter().enumerate() {
            let wrong = |problem: String| Err(ProgramError::Write { index, problem }.into());
            if write.variable >= self.variables.len() {
                return wrong("it names no variable of the program".into());
            }
            if !matches!(write.size, 1 | 2 | 3 | 4 | 6 | 8) {
                return wrong(format!("a size of {} bytes; it must be 1, 2, 3, 4, 6 or 8", write.size));
            }
            if !(-63..=63).contains(&write.shift) {
                return wrong(format!("a shift of {} bits; it must be -63 to 63", write.shift));
            }
            let certain = self.certain();
            if write.offset.checked_add(write.size).is_none_or(|end| end > certain) {
                let trailer = if self.blueprint.flow { ", where the measurement trailer begins" } else { "" };
                return wrong(format!(
                    "bytes {}..{} reach behind byte {certain} of the shortest packet{trailer}",
                    write.offset,
                    write.offset.saturating_add(write.size),
                ));
            }
            let store = Store::new(write);
            let bytes: Vec<_> = store.mask_bytes().collect();
            for (at, mask) in bytes {
                self.vary(at, mask);
            }
            self.stores.push(store);
        }
        Ok(())
    }

    fn vary(&mut self, at: usize, mask: u8) {
        self.twice[at] |= self.varying[at] & mask != 0;
        self.varying[at] |= mask;
        self.frame[at] &= !mask;
    }

    fn add_lengths(&mut self) -> Result<(), TemplateError> {
        if self.blueprint.size.is_none() {
            return Ok(());
        }
        if self.blueprint.lengths.len() > MAX_LENGTHS {
            return Err(TemplateError::Length { index: MAX_LENGTHS, problem: "more than 16 of them" });
        }
        for (index, length) in self.blueprint.lengths.iter().enumerate() {
            let refuse = |problem| Err(TemplateError::Length { index, problem });
            if !matches!(length.size, 1 | 2) {
                return refuse("its size must be 1 or 2 bytes");
            }
            if length.offset.checked_add(length.size).is_none_or(|end| end > self.certain()) {
                return refuse("it must lie inside of the shortest packet, before the trailer");
            }
            if length.minus > self.shortest {
                return refuse("minus is greater than the shortest packet");
            }
            if (self.frame.len() - length.minus) >> (8 * length.size) != 0 {
                return refuse("the longest packet's length does not fit in");
            }
            for at in length.offset..length.offset + length.size {
                self.vary(at, 0xff);
            }
        }
        Ok(())
    }

    fn add_checksum(&mut self, index: usize) -> Result<(), TemplateError> {
        let c = &self.blueprint.checksums[index];
        let refuse = |problem| Err(TemplateError::Checksum { index, problem });
        let width = if c.kind == ChecksumKind::Crc32c { 4 } else { 2 };
        let Some(field) = c.offset.checked_add(width).map(|end| c.offset..end) else {
            return refuse("the field must lie in the bytes covered");
        };
        let shortest_end = c.end.unwrap_or(self.shortest);
        if c.start >= shortest_end || shortest_end > self.shortest {
            return refuse("start..end must be a range of bytes inside of the (shortest) frame");
        }
        if field.start < c.start || field.end > shortest_end {
            return refuse("the field must lie in the bytes covered");
        }
        if width == 2 && !(field.start - c.start).is_multiple_of(2) {
            return refuse("the field must lie at an even distance from start");
        }
        if field.end > self.certain() {
            return refuse("the field lies in the last 16 bytes, where the trailer goes: make the packet longer");
        }
        if c.addresses.start > c.addresses.end
            || c.addresses.end > self.certain()
            || !c.addresses.len().is_multiple_of(2)
        {
            return refuse("the addresses must be an even number of bytes inside of the frame, before the trailer");
        }
        if overlap(&c.addresses, &field) {
            return refuse("the addresses must not reach into the checksum's own field");
        }
        if c.length_minus.is_some_and(|minus| minus > self.shortest) {
            return refuse("length_minus is greater than the shortest packet");
        }
        if field.clone().any(|at| self.varying[at] != 0) {
            return refuse("a field of the program, a length or another checksum is written over it");
        }
        if self.covered.iter().any(|range| range.start < field.end && field.start < range.end) {
            return refuse("an earlier checksum covers its field: put the innermost first");
        }
        self.frame[field.clone()].fill(0);
        let covered = c.start..c.end.unwrap_or(self.frame.len());
        self.covered.extend([covered.clone(), c.addresses.clone()]);
        let dynamic = |range: Range<usize>| range.into_iter().any(|at| self.varying[at] != 0);
        let sizes = self.blueprint.size.is_some() && (c.end.is_none() || c.length_minus.is_some());
        let trailer_at = self.frame.len() - trailer::LEN;
        let stamped = self.blueprint.flow
            && (if self.blueprint.size.is_some() {
                c.end.is_none() || shortest_end > self.certain()
            } else {
                covered.end > trailer_at
            });
        if !dynamic(covered.clone()) && !dynamic(c.addresses.clone()) && !sizes && !stamped {
            let len = self.frame.len();
            compute(c, &mut self.frame, len);
            return Ok(());
        }
        let again = c.kind == ChecksumKind::Crc32c
            || covered.clone().chain(c.addresses.clone()).any(|at| self.twice[at])
            || self.fixes.iter().any(|f| overlap(&f.field(), &covered) || overlap(&f.field(), &c.addresses))
            || self.fields().any(|f| cut(&f, &covered) || cut(&f, &c.addresses))
            || (self.blueprint.size.is_some() && c.end.is_some() && stamped);
        if !again && self.fixes.len() >= MAX_SUMS {
            return refuse("more than 16 checksums vary");
        }
        let fix = if again { Fix::Again(c.clone()) } else { Fix::Sum(self.sum_fix(c, &covered, sizes, stamped)) };
        // What covers this field later must see that it varies; nothing else may write it.
        self.fixes.push(fix);
        for at in field {
            self.varying[at] = 0xff;
        }
        Ok(())
    }

    /// Bytes of stores and of length fields that vary, in the order of their sums.
    fn fields(&self) -> impl Iterator<Item = Range<usize>> {
        let lengths = self.blueprint.size.map_or(&[][..], |_| &self.blueprint.lengths);
        let stores = self.stores.iter().map(|s| s.offset..s.offset + s.size);
        stores.chain(lengths.iter().map(|l| l.offset..l.offset + l.size))
    }

    fn sum_fix(&mut self, c: &Checksum, covered: &Range<usize>, sizes: bool, stamped: bool) -> SumFix {
        let lens = if sizes { self.shortest..=self.frame.len() } else { self.frame.len()..=self.frame.len() };
        let constant = u64::from(c.pseudo_header_sum) + checksum::sum(&self.frame[c.addresses.clone()]);
        // The sum up to `at` grows with the length.
        let (mut at, mut up_to) = (c.start, 0);
        let mut bases = Vec::with_capacity(lens.clone().count());
        for len in lens {
            let end = c.end.unwrap_or(len);
            let end = if stamped { end.min(len - trailer::LEN) } else { end };
            while at + 2 <= end {
                up_to += u64::from(u16::from_be_bytes([self.frame[at], self.frame[at + 1]]));
                at += 2;
            }
            let odd = if at < end { u64::from(self.frame[at]) << 8 } else { 0 };
            let length = c.length_minus.map_or(0, |minus| (len - minus) as u64);
            bases.push(checksum::fold(constant + length + up_to + odd));
        }
        let row = self.fixes.iter().filter(|fix| matches!(fix, Fix::Sum(_))).count();
        let fields: Vec<_> = self.fields().collect();
        self.adds.resize(fields.len(), Vec::new());
        for (adds, field) in self.adds.iter_mut().zip(&fields) {
            for range in [covered, &c.addresses] {
                if range.contains(&field.start) {
                    adds.push((row as u8, (field.start - range.start) % 2 != 0));
                }
            }
        }
        let trailer = stamped.then(|| {
            let trailer_at = self.frame.len() - trailer::LEN;
            let end = c.end.map_or(trailer::LEN, |end| end - trailer_at);
            TrailerPart { covered: c.start.saturating_sub(trailer_at)..end, start: c.start }
        });
        SumFix { offset: c.offset, zero_means_absent: c.zero_means_absent, row, bases: bases.into(), trailer }
    }
}

impl Store {
    fn new(write: &Write) -> Self {
        let whole = if write.size == 8 { u64::MAX } else { (1 << (write.size * 8)) - 1 };
        let mask = if write.mask == 0 { whole } else { write.mask & whole };
        Self {
            variable: write.variable,
            offset: write.offset,
            size: write.size,
            add: write.add,
            left: write.shift.max(0).unsigned_abs(),
            right: write.shift.min(0).unsigned_abs(),
            mask,
            little_endian: write.little_endian,
            partial: mask != whole,
            plain: mask == whole && write.shift == 0 && !write.little_endian && matches!(write.size, 2 | 4),
        }
    }

    /// Its mask as bytes of the frame.
    fn mask_bytes(&self) -> impl Iterator<Item = (usize, u8)> + '_ {
        let bytes = self.placed(self.mask).to_be_bytes();
        (0..self.size).map(move |i| (self.offset + i, bytes[8 - self.size + i]))
    }
}

/// Whether two ranges have bytes in common.
fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}

/// Whether a field lies in a range, but not all of it.
fn cut(field: &Range<usize>, range: &Range<usize>) -> bool {
    let inside = field.start.max(range.start)..field.end.min(range.end);
    !inside.is_empty() && inside != *field
}

impl Fix {
    fn field(&self) -> Range<usize> {
        match self {
            Self::Sum(fix) => fix.offset..fix.offset + 2,
            Self::Again(c) => c.offset..c.offset + if c.kind == ChecksumKind::Crc32c { 4 } else { 2 },
        }
    }
}
