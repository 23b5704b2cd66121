// SPDX-License-Identifier: Apache-2.0
//! Writing a burst of packets, field by field: one loop over all packets for each thing that varies, so that what a field
//! needs is known before the loop.
use arrayvec::ArrayVec;
use spate_net::{Trailer, checksum, trailer};

use super::{
    Checksum, ChecksumKind, Fix, Frames, Length, Numbers, PIECE, Store, SumFix, Template, TrailerPart, Writer,
};
use crate::program::{Columns, LANES, Lanes, Sums};

/// A packet's bytes. Of one that is a piece the length is known, and offsets are checked once for all.
trait Bytes {
    /// The bytes from `at` on.
    fn field<const N: usize>(&mut self, at: usize) -> &mut [u8; N];
    /// All, and those behind them up to a whole piece.
    fn all(&mut self) -> &mut [u8];
}

impl Bytes for &mut [u8] {
    #[inline(always)]
    fn field<const N: usize>(&mut self, at: usize) -> &mut [u8; N] {
        self[at..].first_chunk_mut().expect("fields lie inside of the frame")
    }

    #[inline(always)]
    fn all(&mut self) -> &mut [u8] {
        self
    }
}

impl Bytes for &mut [u8; PIECE] {
    #[inline(always)]
    fn field<const N: usize>(&mut self, at: usize) -> &mut [u8; N] {
        self[at..].first_chunk_mut().expect("fields lie inside of the frame")
    }

    #[inline(always)]
    fn all(&mut self) -> &mut [u8] {
        &mut self[..]
    }
}

impl Template {
    /// Writes packets into the buffers from `first` on; the trailer is `stamp` with each packet's own sequence number.
    /// `lanes.lens()` has their lengths then.
    #[inline]
    pub fn write(
        &self,
        writer: &mut Writer,
        lanes: &mut Lanes,
        numbers: Numbers,
        stamp: Trailer,
        frames: &mut impl Frames,
        first: usize,
    ) {
        let count = numbers.count;
        lanes.lens[..count].fill(self.len as u16);
        let piece = self.frame.first_chunk().filter(|_| self.len <= PIECE);
        if self.fixed {
            let lens = &lanes.lens[..count];
            match piece {
                Some(piece) => frames.pieces(first, lens).for_each(|out| *out = *piece),
                None => self.copy_to(frames, first, lens, |_| ()),
            }
            return;
        }
        writer.0.fill(&self.variables, numbers.number, numbers.sequence, count, &mut lanes.columns.values);
        if let Some(variable) = self.size {
            for (len, value) in lanes.lens[..count].iter_mut().zip(&lanes.columns.values[variable]) {
                *len = (*value).clamp(self.shortest as u64, self.len as u64) as u16;
            }
        }
        let (columns, lens) = (&mut lanes.columns, &lanes.lens[..count]);
        if let Some(piece) = piece {
            let mut outs = ArrayVec::<_, LANES>::new();
            for out in frames.pieces(first, lens) {
                *out = *piece;
                outs.push(out);
            }
            self.complete(columns, numbers.sequence, stamp, lens, &mut outs);
        } else if self.in_first_piece {
            let mut outs = ArrayVec::<&mut [u8; PIECE], LANES>::new();
            self.copy_to(frames, first, lens, |out| outs.push(out.first_chunk_mut().expect("a whole piece")));
            self.complete(columns, numbers.sequence, stamp, lens, &mut outs);
        } else {
            let mut outs = ArrayVec::<_, LANES>::new();
            self.copy_to(frames, first, lens, |out| outs.push(out));
            self.complete(columns, numbers.sequence, stamp, lens, &mut outs);
        }
    }

    /// Makes buffers copies of the frame, and gives each.
    #[inline(always)]
    fn copy_to<'a>(
        &self,
        frames: &'a mut impl Frames,
        first: usize,
        lens: &'a [u16],
        mut each: impl FnMut(&'a mut [u8]),
    ) {
        frames.noted(first, lens).zip(lens).for_each(|((out, note), &len)| {
            self.kept.copy(out, &self.frame, usize::from(len), note);
            each(out);
        });
    }

    /// Writes into copies of the frame what varies.
    // Once for each burst, and a function of its own for its registers' sake.
    #[inline(never)]
    fn complete(&self, columns: &mut Columns, sequence: u64, stamp: Trailer, lens: &[u16], outs: &mut [impl Bytes]) {
        let Columns { values, sums, parts } = &mut *columns;
        let parts = &mut parts[..lens.len()];
        for fix in self.sums() {
            fix.start(&mut sums[fix.row], lens, self.shortest);
        }
        for (store, adds) in self.stores.iter().zip(&self.adds) {
            store.write_all(&values[store.variable], outs, parts);
            add(sums, parts, adds);
        }
        if self.size.is_some() {
            for (length, adds) in self.lengths.iter().zip(&self.adds[self.stores.len()..]) {
                length.write_all(lens, outs, parts);
                add(sums, parts, adds);
            }
        }
        if self.flow {
            self.stamp(stamp, sequence, outs, lens, columns);
        }
        for fix in &self.fixes {
            match fix {
                Fix::Sum(fix) => fix.complete(&columns.sums[fix.row], outs),
                Fix::Again(checksum) => {
                    for (out, &len) in outs.iter_mut().zip(lens) {
                        compute(checksum, out.all(), usize::from(len));
                    }
                }
            }
        }
    }

    fn sums(&self) -> impl Iterator<Item = &SumFix> {
        self.fixes.iter().filter_map(|fix| match fix {
            Fix::Sum(fix) => Some(fix),
            Fix::Again(_) => None,
        })
    }

    /// Writes the trailers, and adds them to checksums.
    #[inline]
    fn stamp(&self, stamp: Trailer, sequence: u64, outs: &mut [impl Bytes], lens: &[u16], columns: &mut Columns) {
        let stamp = stamp.stamper();
        let Columns { sums, parts, .. } = columns;
        let mut sequence = sequence as u32;
        for ((out, part), &len) in outs.iter_mut().zip(parts.iter_mut()).zip(lens) {
            let (bytes, sum) = stamp.encode(sequence);
            *out.field(usize::from(len) - trailer::LEN) = bytes;
            *part = sum;
            sequence = sequence.wrapping_add(1);
        }
        for fix in self.sums() {
            match &fix.trailer {
                None => {}
                Some(part) if part.whole() && self.size.is_none() => {
                    add(sums, &parts[..lens.len()], &[(fix.row as u8, part.odd(self.len - trailer::LEN))]);
                }
                Some(part) => {
                    for ((sum, out), &len) in sums[fix.row].iter_mut().zip(outs.iter_mut()).zip(lens) {
                        let at = usize::from(len) - trailer::LEN;
                        *sum += part.sum(out.field(at), at);
                    }
                }
            }
        }
    }
}

/// Adds the sums of a field's words to those of the checksums that cover it.
#[inline]
fn add(sums: &mut Sums, parts: &[u32], adds: &[(u8, bool)]) {
    for &(row, odd) in adds {
        let row = &mut sums[usize::from(row)];
        if odd {
            for (sum, &part) in row.iter_mut().zip(parts) {
                *sum += u32::from(checksum::fold(u64::from(part)).swap_bytes());
            }
        } else {
            for (sum, &part) in row.iter_mut().zip(parts) {
                *sum += part;
            }
        }
    }
}

impl Store {
    /// Big endian, in the low bytes.
    #[inline]
    pub(super) fn placed(&self, value: u64) -> u64 {
        if self.little_endian { value.swap_bytes() >> (64 - 8 * self.size as u32) } else { value }
    }

    /// Writes a burst's values; `parts` are what `write` gives for each.
    #[inline]
    fn write_all(&self, values: &[u64; LANES], outs: &mut [impl Bytes], parts: &mut [u32]) {
        let (at, add) = (self.offset, self.add);
        let lanes = values.iter().zip(parts).zip(outs.iter_mut());
        match (self.plain, self.size) {
            (true, 2) => lanes.for_each(|((value, part), out)| {
                let value = value.wrapping_add(add) as u16;
                *out.field(at) = value.to_be_bytes();
                *part = u32::from(value);
            }),
            (true, 4) => lanes.for_each(|((value, part), out)| {
                let value = value.wrapping_add(add) as u32;
                *out.field(at) = value.to_be_bytes();
                *part = (value & 0xffff) + (value >> 16);
            }),
            _ => lanes.for_each(|((value, part), out)| *part = self.write(*value, out.all())),
        }
    }

    /// Writes a value; gives the sum of its 16-bit words, the first of which starts at its offset.
    #[inline]
    fn write(&self, value: u64, out: &mut [u8]) -> u32 {
        let value = ((value.wrapping_add(self.add) << self.left) >> self.right) & self.mask;
        let value = self.placed(value);
        let at = &mut out[self.offset..];
        if self.partial {
            // Around the mask lies what the frame, or an earlier write, has there.
            let keep = !self.placed(self.mask);
            let mut old = [0; 8];
            old[8 - self.size..].copy_from_slice(&at[..self.size]);
            let new = (u64::from_be_bytes(old) & keep) | value;
            at[..self.size].copy_from_slice(&new.to_be_bytes()[8 - self.size..]);
        } else {
            match self.size {
                2 => at[..2].copy_from_slice(&(value as u16).to_be_bytes()),
                4 => at[..4].copy_from_slice(&(value as u32).to_be_bytes()),
                8 => at[..8].copy_from_slice(&value.to_be_bytes()),
                size => at[..size].copy_from_slice(&value.to_be_bytes()[8 - size..]),
            }
        }
        words(value, self.size)
    }
}

/// Sum of the 16-bit words of a big-endian number of `size` bytes; an odd last byte is the high one of a word.
#[inline]
fn words(value: u64, size: usize) -> u32 {
    let value = if size.is_multiple_of(2) { value } else { value << 8 };
    ((value & 0xffff) + (value >> 16 & 0xffff) + (value >> 32 & 0xffff) + (value >> 48)) as u32
}

impl Length {
    /// Writes it for packets of these lengths; `parts` are the sums of what is written.
    #[inline]
    fn write_all(&self, lens: &[u16], outs: &mut [impl Bytes], parts: &mut [u32]) {
        // Compiling has seen that it is no greater than the shortest packet, and that the difference fits in.
        let (at, minus) = (self.offset, self.minus as u16);
        let lanes = lens.iter().zip(parts).zip(outs.iter_mut());
        if self.size == 2 {
            lanes.for_each(|((&len, part), out)| {
                let value = len.wrapping_sub(minus);
                *out.field(at) = value.to_be_bytes();
                *part = u32::from(value);
            });
        } else {
            lanes.for_each(|((&len, part), out)| {
                let value = len.wrapping_sub(minus) as u8;
                *out.field(at) = [value];
                *part = words(value.into(), 1);
            });
        }
    }
}

impl SumFix {
    /// Sets the constant part of a burst's sums.
    #[inline]
    fn start(&self, sums: &mut [u32; LANES], lens: &[u16], shortest: usize) {
        if let [base] = *self.bases {
            sums[..lens.len()].fill(u32::from(base));
        } else {
            for (sum, &len) in sums.iter_mut().zip(lens) {
                *sum = u32::from(self.bases[usize::from(len) - shortest]);
            }
        }
    }

    /// Writes the checksums of finished sums.
    #[inline]
    fn complete(&self, sums: &[u32; LANES], outs: &mut [impl Bytes]) {
        let at = self.offset;
        for (&sum, out) in sums.iter().zip(outs) {
            *out.field(at) = finish(sum, self.zero_means_absent);
        }
    }
}

impl TrailerPart {
    fn whole(&self) -> bool {
        self.covered.len() == trailer::LEN
    }

    /// Whether what is covered of a trailer at `at` begins at an odd distance from where the checksum does.
    fn odd(&self, at: usize) -> bool {
        !(at + self.covered.start - self.start).is_multiple_of(2)
    }

    /// What a trailer at `at` adds.
    fn sum(&self, stamp: &[u8; trailer::LEN], at: usize) -> u32 {
        let sum = checksum::fold(checksum::sum(&stamp[self.covered.clone()]));
        u32::from(if self.odd(at) { sum.swap_bytes() } else { sum })
    }
}

/// Computes a checksum over finished bytes.
pub(super) fn compute(c: &Checksum, out: &mut [u8], len: usize) {
    let end = c.end.unwrap_or(len);
    match c.kind {
        ChecksumKind::Internet => {
            out[c.offset..c.offset + 2].fill(0);
            let length = c.length_minus.map_or(0, |minus| (len - minus) as u64);
            let addresses = checksum::sum(&out[c.addresses.clone()]);
            let sum = u64::from(c.pseudo_header_sum)
                + words(length, 8) as u64
                + addresses
                + checksum::sum(&out[c.start..end]);
            let sum = u32::from(checksum::fold(sum));
            out[c.offset..c.offset + 2].copy_from_slice(&finish(sum, c.zero_means_absent));
        }
        ChecksumKind::Crc32c => {
            out[c.offset..c.offset + 4].fill(0);
            let crc = crc32c::crc32c(&out[c.start..end]);
            out[c.offset..c.offset + 4].copy_from_slice(&crc.to_le_bytes());
        }
    }
}

/// The checksum of a sum of 16-bit words, as it is written.
#[inline]
fn finish(sum: u32, zero_means_absent: bool) -> [u8; 2] {
    // Two steps fold any 32 bits.
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !(sum as u16);
    (if checksum == 0 && zero_means_absent { 0xffff } else { checksum }).to_be_bytes()
}
