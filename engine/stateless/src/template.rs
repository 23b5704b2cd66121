// SPDX-License-Identifier: Apache-2.0
//! The bytes of a stream's packets: a template compiled from a frame, what varies in it, and what must stay true.
//!
//! Compiled once: what is constant is in the frame already, and every checksum is a constant plus what the varying parts
//! add to it (RFC 1624's idea, without reading the packet again). A checksum that cannot be had so (CRC-32C; bits
//! written twice; another varying checksum beneath it) is computed over the finished bytes instead.
use core::ops::Range;

use spate_wire::{Trailer, checksum, trailer};

use crate::Deal;
use crate::program::{Cursor, FieldProgram, LANES, Lanes, MAX_SUMS, MAX_WRITES, ProgramError, Sums, Variables, Write};

/// Shortest frame without FCS (IEEE 802.3).
pub const MIN_FRAME_LEN: usize = 60;
/// Longest frame without FCS.
pub const MAX_FRAME_LEN: usize = 9212;
/// Frames are copied in pieces of this many bytes: buffers must have room for whole ones.
pub const PIECE: usize = 64;
/// Length fields of a template at most.
const MAX_LENGTHS: usize = 16;

/// How a checksum is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumKind {
    /// 16-bit one's complement sum (RFC 1071).
    Internet,
    /// CRC-32C as in SCTP (RFC 9260 appendix A).
    Crc32c,
}

/// A checksum field and what it covers. Offsets count from the start of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// How it is computed.
    pub kind: ChecksumKind,
    /// Offset of the field: 16 bits, CRC-32C: 32.
    pub offset: usize,
    /// First byte covered.
    pub start: usize,
    /// One past the last byte covered; none: to the end of the packet.
    pub end: Option<usize>,
    /// Sum of the constant part of the pseudo header in 16-bit words, not folded; 0 for none.
    pub pseudo_header_sum: u32,
    /// Bytes of the frame that the pseudo header repeats; may be empty.
    pub addresses: Range<usize>,
    /// The pseudo header's length is that of the frame minus this; none: it is in `pseudo_header_sum`.
    pub length_minus: Option<usize>,
    /// A result of 0 is written as 0xffff (UDP, RFC 768).
    pub zero_means_absent: bool,
}

/// A field that tells the bytes from somewhere to the end of the packet: those of the frame minus `minus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// First byte.
    pub offset: usize,
    /// 1 or 2 bytes, network byte order.
    pub size: usize,
    /// See above.
    pub minus: usize,
}

/// What a template is made from.
#[derive(Clone, Debug, Default)]
pub struct Blueprint {
    /// The frame without FCS, the longest if sizes vary.
    pub frame: Vec<u8>,
    /// Kept true. Later ones may cover the fields of earlier ones.
    pub checksums: Vec<Checksum>,
    /// Kept true where sizes vary.
    pub lengths: Vec<Length>,
    /// What varies.
    pub program: FieldProgram,
    /// The variable that is the frame's length in bytes without FCS; values outside of 60..=frame.len() are cut to that.
    pub size: Option<usize>,
    /// The last 16 bytes of every packet hold the measurement trailer.
    pub flow: bool,
}

/// Why a template cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Shorter than an Ethernet frame or longer than a jumbo frame.
    #[error("the frame has {0} bytes without FCS; it must have {MIN_FRAME_LEN} to {MAX_FRAME_LEN}")]
    FrameLength(usize),
    /// `checksums[index]` cannot be kept.
    #[error("checksums[{index}]: {problem}")]
    Checksum {
        /// Which one.
        index: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// `lengths[index]` cannot be kept.
    #[error("lengths[{index}]: {problem}")]
    Length {
        /// Which one.
        index: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The size names no variable.
    #[error("size: {0}")]
    Size(&'static str),
    /// The program cannot be run.
    #[error("program.{0}")]
    Program(#[from] ProgramError),
}

/// Buffers that packets are written into.
pub trait Frames {
    /// Makes the buffers from `first` on packets of these lengths and gives, for each, its bytes and those behind them up to
    /// a whole piece: `len.next_multiple_of(PIECE)` bytes of any content.
    fn frames<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8]>;
}

/// Packets of one stream that follow each other on one worker: number `number + i * stride` is its own `sequence + i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The first one's, over all workers.
    pub number: u64,
    /// The first one's, among this worker's.
    pub sequence: u64,
    /// How many; at most 64.
    pub count: usize,
}

/// Packets ready to be written. Shared by workers; each has a `Writer` of its own.
#[derive(Clone, Debug)]
pub struct Template {
    /// Whole pieces; zero where something that varies is written.
    frame: Box<[u8]>,
    len: usize,
    shortest: usize,
    flow: bool,
    variables: Variables,
    size: Option<usize>,
    lengths: Box<[Length]>,
    stores: Box<[Store]>,
    /// By store, then by length field: the sums its value adds to, and whether at an odd distance from where they start.
    adds: Box<[Box<[(u8, bool)]>]>,
    fixes: Box<[Fix]>,
}

/// Where one worker stands in a stream.
#[derive(Clone, Debug)]
pub struct Writer(Cursor);

/// A write, compiled: big endian, its mask cut to its size.
#[derive(Clone, Copy, Debug)]
struct Store {
    variable: usize,
    offset: usize,
    size: usize,
    add: u64,
    left: u32,
    right: u32,
    mask: u64,
    little_endian: bool,
    /// Bits around the mask stay.
    partial: bool,
    /// Two or four bytes of the value as it is: by far the most, and worth a loop of its own.
    plain: bool,
}

/// How to complete one checksum once all else is written.
#[derive(Clone, Debug)]
enum Fix {
    Sum(SumFix),
    Again(Checksum),
}

/// An Internet checksum as a sum of parts.
#[derive(Clone, Debug)]
struct SumFix {
    offset: usize,
    zero_means_absent: bool,
    /// Which of the sums of a burst is its.
    row: usize,
    /// The constant part; where sizes vary, by length from the shortest on, what its length adds included.
    bases: Box<[u16]>,
    /// The end covered, for the trailer's part: where it starts; none if it does not reach the trailer.
    trailer: Option<TrailerPart>,
}

#[derive(Clone, Debug)]
struct TrailerPart {
    /// Covered bytes of the trailer; whole if it ends with the packet.
    covered: Range<usize>,
    start: usize,
}

impl Template {
    /// Compiles a template, or tells what keeps it from being one.
    pub fn new(blueprint: &Blueprint) -> Result<Self, TemplateError> {
        Compiler::new(blueprint)?.compile()
    }

    /// Bytes of the longest frame, without FCS.
    pub fn frame_len(&self) -> usize {
        self.len
    }

    /// Bytes of the shortest frame, without FCS.
    pub fn shortest(&self) -> usize {
        self.shortest
    }

    /// The mean length of its frames without FCS, as a sum over a count.
    pub fn mean_len(&self) -> (u128, u128) {
        match self.size {
            None => (self.len as u128, 1),
            Some(variable) => {
                let (low, high) = self.variables.bounds(variable);
                if low >= self.shortest as u64 && high <= self.len as u64 {
                    self.variables.mean(variable)
                } else {
                    // Cut at an end: about the middle is near enough for a load.
                    ((self.shortest + self.len) as u128, 2)
                }
            }
        }
    }

    /// Whether its packets carry the measurement trailer.
    pub fn flow(&self) -> bool {
        self.flow
    }

    /// Whether all packets are the same bytes.
    pub fn constant(&self) -> bool {
        !self.flow && self.variables.len() == 0
    }

    /// The frame as it stands before anything that varies is in.
    pub fn frame(&self) -> &[u8] {
        &self.frame[..self.len]
    }

    /// For a worker with this part of the stream.
    pub fn writer(&self, deal: Deal) -> Writer {
        Writer(Cursor::new(&self.variables, deal))
    }

    /// Writes packets into the buffers from `first` on; the trailer is `stamp` with each packet's own sequence number.
    /// Returns their bytes together, without FCS.
    #[inline]
    pub fn write(
        &self,
        writer: &mut Writer,
        lanes: &mut Lanes,
        numbers: Numbers,
        stamp: Trailer,
        frames: &mut impl Frames,
        first: usize,
    ) -> usize {
        let count = numbers.count;
        lanes.lens[..count].fill(self.len as u16);
        if self.variables.len() == 0 && !self.flow && self.fixes.is_empty() {
            frames.frames(first, &lanes.lens[..count]).for_each(|out| copy(out, &self.frame));
            return count * self.len;
        }
        writer.0.fill(&self.variables, numbers.number, numbers.sequence, count, &mut lanes.values);
        if let Some(variable) = self.size {
            for (len, value) in lanes.lens[..count].iter_mut().zip(&lanes.values[variable]) {
                *len = (*value).clamp(self.shortest as u64, self.len as u64) as u16;
            }
        }
        let (lens, sums) = (&lanes.lens[..count], &mut lanes.sums);
        let mut outs: [&mut [u8]; LANES] = core::array::from_fn(|_| &mut [][..]);
        let outs = &mut outs[..count];
        for (out, frame) in outs.iter_mut().zip(frames.frames(first, lens)) {
            copy(frame, &self.frame);
            *out = frame;
        }
        for fix in self.sums() {
            fix.start(&mut sums[fix.row], lens, self.shortest);
        }
        let mut parts = [0; LANES];
        for (store, adds) in self.stores.iter().zip(&self.adds) {
            store.write_all(&lanes.values[store.variable], outs, &mut parts);
            add(sums, &parts[..count], adds);
        }
        if self.size.is_some() {
            for (length, adds) in self.lengths.iter().zip(&self.adds[self.stores.len()..]) {
                for ((part, out), &len) in parts.iter_mut().zip(outs.iter_mut()).zip(lens) {
                    *part = length.write(usize::from(len), out);
                }
                add(sums, &parts[..count], adds);
            }
        }
        if self.flow {
            self.stamp(stamp, numbers.sequence, outs, lens, sums);
        }
        for fix in &self.fixes {
            match fix {
                Fix::Sum(fix) => fix.complete(&sums[fix.row], outs),
                Fix::Again(checksum) => {
                    for (out, &len) in outs.iter_mut().zip(lens) {
                        compute(checksum, out, usize::from(len));
                    }
                }
            }
        }
        lens.iter().map(|&len| usize::from(len)).sum()
    }

    fn sums(&self) -> impl Iterator<Item = &SumFix> {
        self.fixes.iter().filter_map(|fix| match fix {
            Fix::Sum(fix) => Some(fix),
            Fix::Again(_) => None,
        })
    }

    /// Writes the trailers, and what they add to checksums.
    #[inline]
    fn stamp(&self, stamp: Trailer, sequence: u64, outs: &mut [&mut [u8]], lens: &[u16], sums: &mut Sums) {
        for (lane, (out, &len)) in outs.iter_mut().zip(lens).enumerate() {
            let at = usize::from(len) - trailer::LEN;
            let bytes = Trailer { sequence: (sequence + lane as u64) as u32, ..stamp }.encode();
            out[at..at + trailer::LEN].copy_from_slice(&bytes);
            for fix in self.sums() {
                if let Some(part) = &fix.trailer {
                    sums[fix.row][lane] += part.sum(&bytes, at);
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

/// Copies whole pieces: a call of memcpy costs more than most frames are long.
#[inline]
fn copy(out: &mut [u8], frame: &[u8]) {
    let (out, _) = out.as_chunks_mut::<PIECE>();
    let (frame, _) = frame.as_chunks::<PIECE>();
    for (to, from) in out.iter_mut().zip(frame) {
        *to = *from;
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

    /// Big endian, in the low bytes.
    #[inline]
    fn placed(&self, value: u64) -> u64 {
        if self.little_endian { value.swap_bytes() >> (64 - 8 * self.size as u32) } else { value }
    }

    /// Writes a burst's values; `parts` are what `write` gives for each.
    #[inline]
    fn write_all(&self, values: &[u64; LANES], outs: &mut [&mut [u8]], parts: &mut [u32; LANES]) {
        let lanes = values.iter().zip(parts).zip(outs.iter_mut());
        match (self.plain, self.size) {
            (true, 2) => lanes.for_each(|((value, part), out)| {
                let value = value.wrapping_add(self.add) as u16;
                out[self.offset..self.offset + 2].copy_from_slice(&value.to_be_bytes());
                *part = u32::from(value);
            }),
            (true, 4) => lanes.for_each(|((value, part), out)| {
                let value = value.wrapping_add(self.add) as u32;
                out[self.offset..self.offset + 4].copy_from_slice(&value.to_be_bytes());
                *part = (value & 0xffff) + (value >> 16);
            }),
            _ => lanes.for_each(|((value, part), out)| *part = self.write(*value, out)),
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
    #[inline]
    fn write(&self, len: usize, out: &mut [u8]) -> u32 {
        let value = (len - self.minus) as u64;
        if self.size == 2 {
            out[self.offset..self.offset + 2].copy_from_slice(&(value as u16).to_be_bytes());
            words(value & 0xffff, 2)
        } else {
            out[self.offset] = value as u8;
            words(value & 0xff, 1)
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
    fn complete(&self, sums: &[u32; LANES], outs: &mut [&mut [u8]]) {
        for (&sum, out) in sums.iter().zip(outs) {
            out[self.offset..self.offset + 2].copy_from_slice(&finish(u64::from(sum), self.zero_means_absent));
        }
    }
}

impl TrailerPart {
    /// What a trailer that starts at `at` adds.
    #[inline]
    fn sum(&self, stamp: &[u8; trailer::LEN], at: usize) -> u32 {
        let whole = self.covered.len() == trailer::LEN;
        let bytes = if whole { checksum::sum_16(stamp) } else { checksum::sum(&stamp[self.covered.clone()]) };
        let even = (at + self.covered.start - self.start).is_multiple_of(2);
        (if even { bytes } else { checksum::swapped(bytes) }) as u32
    }
}

/// Computes a checksum over finished bytes.
fn compute(c: &Checksum, out: &mut [u8], len: usize) {
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
            out[c.offset..c.offset + 2].copy_from_slice(&finish(sum, c.zero_means_absent));
        }
        ChecksumKind::Crc32c => {
            out[c.offset..c.offset + 4].fill(0);
            let crc = crc32c::crc32c(&out[c.start..end]);
            out[c.offset..c.offset + 4].copy_from_slice(&crc.to_le_bytes());
        }
    }
}

#[inline]
fn finish(sum: u64, zero_means_absent: bool) -> [u8; 2] {
    match checksum::checksum(sum) {
        0 if zero_means_absent => [0xff, 0xff],
        value => value.to_be_bytes(),
    }
}

/// A template being made.
struct Compiler<'a> {
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
    fn new(blueprint: &'a Blueprint) -> Result<Self, TemplateError> {
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

    fn compile(mut self) -> Result<Template, TemplateError> {
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
        let fields = self.fields().count();
        self.adds.resize(fields, Vec::new());
        Ok(Template {
            frame: self.frame.into(),
            len,
            shortest: self.shortest,
            flow: self.blueprint.flow,
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

#[cfg(test)]
mod tests;
