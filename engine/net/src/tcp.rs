// SPDX-License-Identifier: Apache-2.0
//! TCP (RFC 9293): segments and their options, read without copying and written.
use crate::{
    checksum::{fold, fold_words, sum, sum_le},
    field::{be16, be32},
    reject::Reject,
};

/// Bytes of a header without options.
pub const HEADER: usize = 20;
/// Offset of the checksum.
pub const CHECKSUM: usize = 16;

/// Bytes of a header with its options, as it says: at least 20 of a valid one.
#[inline(always)]
pub fn header_len(header: &[u8]) -> Option<usize> {
    Some(usize::from(header.get(12)? >> 4) * 4)
}

/// Bits of a TCP header's flags (RFC 9293 section 3.1).
#[expect(missing_docs, reason = "the names of the header's bits")]
pub mod flag {
    pub const FIN: u8 = 1;
    pub const SYN: u8 = 2;
    pub const RST: u8 = 4;
    pub const PSH: u8 = 8;
    pub const ACK: u8 = 16;
    pub const URG: u8 = 32;
    pub const ECE: u8 = 64;
    pub const CWR: u8 = 128;
}

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Ports.
    pub source_port: u16,
    /// Ports.
    pub destination_port: u16,
    /// Sequence number of the first byte, or of SYN.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// See [`flag`].
    pub flags: u8,
    /// Window field, not scaled.
    pub window: u16,
    /// Value and echo, if its options begin with them, as nearly all do.
    first_timestamps: Option<(u32, u32)>,
    /// The rest of the options.
    more_options: &'a [u8],
    /// Data.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// A segment of a TCP header, the options between it and the data, and the data.
    #[inline(always)]
    pub(crate) fn of(header: &[u8; HEADER], options: &'a [u8], payload: &'a [u8]) -> Self {
        let (first_timestamps, more_options) = match options.split_first_chunk::<12>() {
            Some((first, more)) if be32(first, 0) == TIMESTAMPS => (Some((be32(first, 4), be32(first, 8))), more),
            _ => (None, options),
        };
        Self {
            source_port: be16(header, 0),
            destination_port: be16(header, 2),
            seq: be32(header, 4),
            ack: be32(header, 8),
            flags: header[13],
            window: be16(header, 14),
            first_timestamps,
            more_options,
            payload,
        }
    }

    /// All options of the segment.
    // Inlined, so that the segment need not be in memory for it.
    #[inline(always)]
    pub fn options(&self) -> Options {
        Options::read(self.first_timestamps, self.more_options)
    }

    /// Offers of the options of a SYN.
    #[inline]
    pub fn offers(&self) -> Offers {
        if let Ok(bytes) = <&[u8; 20]>::try_from(self.more_options)
            && let Some(usual) = Offers::usual(bytes)
        {
            return usual;
        }
        let Options { mss, window_scale, sack_permitted, timestamps, .. } = self.options();
        Offers { mss, window_scale, sack_permitted, timestamps }
    }

    /// Its timestamps: value and echo.
    #[inline]
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        if self.more_options.is_empty() { self.first_timestamps } else { self.options().timestamps }
    }

    /// Whether it has other options than timestamps.
    #[inline]
    pub fn has_more_options(&self) -> bool {
        !self.more_options.is_empty()
    }

    /// Whether a flag is set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// Sequence numbers it takes: bytes of data, SYN and FIN.
    #[inline]
    pub fn len(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.has(flag::SYN)) + u32::from(self.has(flag::FIN))
    }

    /// Whether it takes none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> Segment<'a> {
    /// The segment that is all of an IP packet's payload, if its checksum is right, which a device may have verified.
    #[inline]
    pub(crate) fn read(body: &'a [u8], pseudo: u64, verified: bool) -> Result<Self, Reject> {
        if body.len() < HEADER {
            return Err(Reject::Truncated);
        }
        let header = usize::from(body[12] >> 4) * 4;
        if header < HEADER || body.len() < header {
            return Err(Reject::Truncated);
        }
        if !verified && fold(u64::from(fold(sum_le(body)).swap_bytes()) + pseudo) != 0xffff {
            return Err(Reject::Checksum);
        }
        let Some(fixed) = body.first_chunk() else { return Err(Reject::Truncated) };
        Ok(Segment::of(fixed, &body[HEADER..header], &body[header..]))
    }
}

/// Blocks of selective acknowledgement that fit into a header beside timestamps, and without.
pub const SACK_BLOCKS: usize = 4;

/// Options of a TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Shift of the window (RFC 7323).
    pub window_scale: Option<u8>,
    /// Selective acknowledgement permitted.
    pub sack_permitted: bool,
    /// Value and echo.
    pub timestamps: Option<(u32, u32)>,
    /// Blocks, from the first.
    pub sack: [(u32, u32); SACK_BLOCKS],
    /// Number of SACK blocks.
    pub sacks: usize,
}

/// What the options of a SYN offer (RFC 9293 section 3.2, RFC 7323, RFC 2018).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offers {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Shift of the window.
    pub window_scale: Option<u8>,
    /// Selective acknowledgement permitted.
    pub sack_permitted: bool,
    /// Value and echo.
    pub timestamps: Option<(u32, u32)>,
}

impl Offers {
    /// What SYNs usually have, in this order: maximum segment size, SACK permitted, timestamps, NOP, window scale. None if it is
    /// something else.
    #[inline]
    fn usual(bytes: &[u8; 20]) -> Option<Self> {
        let (mss, scale) = (be32(bytes, 0), be32(bytes, 16));
        let usual = mss >> 16 == USUAL_MSS && be32(bytes, 4) == SACK_AND_TIMESTAMPS && scale >> 8 == USUAL_SCALE;
        usual.then(|| Self {
            mss: Some(mss as u16),
            window_scale: Some((scale as u8).min(14)),
            sack_permitted: true,
            timestamps: Some((be32(bytes, 8), be32(bytes, 12))),
        })
    }
}

/// NOP, NOP, timestamps of 10 bytes: how nearly all segments begin (RFC 7323 appendix A).
pub(crate) const TIMESTAMPS: u32 = 0x0101_080a;
/// SACK permitted instead of the NOPs.
const SACK_AND_TIMESTAMPS: u32 = 0x0402_080a;
/// Kind and length of a maximum segment size, which follows.
const USUAL_MSS: u32 = 0x0204;
/// NOP, then kind and length of a window scale, which follows.
const USUAL_SCALE: u32 = 0x01_0303;

impl Options {
    /// Reads them; what is malformed or unknown is skipped (RFC 9293 section 3.1).
    fn read(timestamps: Option<(u32, u32)>, mut bytes: &[u8]) -> Self {
        let mut options = Self { timestamps, ..Self::default() };
        if let Some(usual) = bytes.first_chunk()
            && options.add_usual(usual)
        {
            bytes = &bytes[usual.len()..];
        }
        while let [kind, rest @ ..] = bytes {
            match (kind, rest) {
                (0, _) => break,
                (1, _) => bytes = rest,
                (kind, [len, ..]) if *len >= 2 && bytes.len() >= usize::from(*len) => {
                    options.add(*kind, &bytes[2..usize::from(*len)]);
                    bytes = &bytes[usize::from(*len)..];
                }
                _ => break,
            }
        }
        options
    }

    /// Adds what SYNs usually have. False if it is something else.
    #[inline]
    fn add_usual(&mut self, bytes: &[u8; 20]) -> bool {
        let Some(Offers { mss, window_scale, sack_permitted, timestamps }) = Offers::usual(bytes) else { return false };
        *self = Self { mss, window_scale, sack_permitted, timestamps, ..*self };
        true
    }

    fn add(&mut self, kind: u8, value: &[u8]) {
        match (kind, value.len()) {
            (2, 2) => self.mss = Some(be16(value, 0)),
            // A shift above 14 counts as 14 (RFC 7323 section 2.3).
            (3, 1) => self.window_scale = Some(value[0].min(14)),
            (4, 0) => self.sack_permitted = true,
            (5, _) => {
                for block in value.chunks_exact(8).take(SACK_BLOCKS - self.sacks) {
                    self.sack[self.sacks] = (be32(block, 0), be32(block, 4));
                    self.sacks += 1;
                }
            }
            (8, 8) => self.timestamps = Some((be32(value, 0), be32(value, 4))),
            _ => {}
        }
    }

    /// Bytes they take in a header: a multiple of 4.
    #[inline]
    pub fn len(&self) -> usize {
        if self.mss.is_some() {
            let scale = if self.window_scale.is_some() { 4 } else { 0 };
            // SACK permitted takes the place of the NOPs before the timestamps.
            let rest = if self.timestamps.is_some() { 12 } else { 4 * usize::from(self.sack_permitted) };
            return 4 + scale + rest;
        }
        let timestamps = if self.timestamps.is_some() { 12 } else { 0 };
        timestamps + if self.sacks > 0 { 4 + 8 * self.sacks } else { 0 }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As the words that they are written as, if they are what SYNs usually have: see [`Offers`].
    #[inline(always)]
    pub(crate) fn usual_of_syn(&self) -> Option<[u32; 5]> {
        let ((value, echo), true) = (self.timestamps?, self.sack_permitted) else { return None };
        let (mss, scale) = (u32::from(self.mss?), u32::from(self.window_scale?));
        Some([USUAL_MSS << 16 | mss, SACK_AND_TIMESTAMPS, value, echo, USUAL_SCALE << 8 | scale])
    }

    /// Writes them; `out` is as long as `len` says. Gives their sum.
    #[inline]
    pub(crate) fn write(&self, out: &mut [u8]) -> u64 {
        let Some(words) = self.usual_of_syn() else { return self.write_all(out) };
        let Some(places) = out.as_chunks_mut::<4>().0.first_chunk_mut() else { return 0 };
        *places = words.map(u32::to_be_bytes);
        words.iter().map(|word| u64::from(*word)).sum()
    }

    #[inline(never)]
    fn write_all(&self, out: &mut [u8]) -> u64 {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if let Some(mss) = self.mss {
            put(&(0x0204_0000 | u32::from(mss)).to_be_bytes());
        }
        if let Some((value, echo)) = self.timestamps {
            put(&(if self.sack_permitted { SACK_AND_TIMESTAMPS } else { TIMESTAMPS }).to_be_bytes());
            put(&value.to_be_bytes());
            put(&echo.to_be_bytes());
        } else if self.sack_permitted {
            put(&0x0101_0402u32.to_be_bytes());
        }
        if let (Some(scale), Some(_)) = (self.window_scale, self.mss) {
            put(&(0x0103_0300 | u32::from(scale)).to_be_bytes());
        }
        if self.sacks > 0 {
            put(&(0x0101_0500 | (2 + 8 * self.sacks as u32)).to_be_bytes());
            for (from, to) in &self.sack[..self.sacks] {
                put(&from.to_be_bytes());
                put(&to.to_be_bytes());
            }
        }
        sum(out)
    }
}

/// The header of a segment to send.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "as in `Segment`")]
pub struct SegmentHeader {
    pub source_port: u16,
    pub destination_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// Explicit congestion notification of the IP header.
    pub ecn: u8,
}

impl SegmentHeader {
    /// Writes everything before this many bytes of options; `sum` is of all else that the checksum covers.
    #[inline(always)]
    pub(crate) fn write(&self, fixed: &mut [u8; HEADER], options: usize, sum: u64) {
        let ports = u32::from(self.source_port) << 16 | u32::from(self.destination_port);
        let last = ((HEADER + options) as u32 / 4) << 28 | u32::from(self.flags) << 16 | u32::from(self.window);
        let words = u64::from(ports) + u64::from(self.seq) + u64::from(self.ack) + u64::from(last);
        fixed[0..4].copy_from_slice(&ports.to_be_bytes());
        fixed[4..8].copy_from_slice(&self.seq.to_be_bytes());
        fixed[8..12].copy_from_slice(&self.ack.to_be_bytes());
        fixed[12..16].copy_from_slice(&last.to_be_bytes());
        // Checksum and urgent pointer.
        fixed[16..20].copy_from_slice(&(u32::from(!fold_words(sum + words)) << 16).to_be_bytes());
    }
}

/// Bytes of the timestamps that every segment carries, if agreed on.
pub const TIMESTAMPS_LEN: usize = 12;
