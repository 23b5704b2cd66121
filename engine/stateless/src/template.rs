// SPDX-License-Identifier: Apache-2.0
//! The bytes of a stream's packets, and what changes from packet to packet.
use spate_wire::{checksum, trailer};

/// Shortest frame without FCS (IEEE 802.3).
pub const MIN_FRAME_LEN: usize = 60;
/// Longest frame without FCS.
pub const MAX_FRAME_LEN: usize = 9212;

/// A checksum field and what it covers (RFC 1071). Offsets count from the start of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Offset of the 16-bit field.
    pub offset: usize,
    /// First byte covered.
    pub start: usize,
    /// One past the last byte covered.
    pub end: usize,
    /// Sum of the pseudo header in 16-bit words, not folded; 0 for none.
    pub pseudo_header_sum: u32,
    /// A result of 0 is written as 0xffff (UDP, RFC 768).
    pub zero_means_absent: bool,
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
}

/// A packet ready to be written: the frame with its checksums true, and the sums to keep them so.
#[derive(Clone, Debug)]
pub struct Template {
    frame: Box<[u8]>,
    flow: bool,
    /// The checksums that cover some of the trailer: all others are constant and in the frame already.
    fixes: Box<[Fix]>,
}

/// How to complete one checksum once the trailer is known.
#[derive(Clone, Debug)]
struct Fix {
    offset: usize,
    /// Sum of all that is covered, pseudo header included, trailer excluded.
    base: u64,
    /// The bytes of the trailer that are covered.
    covered: core::ops::Range<usize>,
    /// They start at an odd distance from the first byte covered.
    odd: bool,
    zero_means_absent: bool,
}

impl Template {
    /// Makes a template from a frame without FCS. With `flow`, the last 16 bytes of every packet hold the trailer.
    /// Later checksums may cover the fields of earlier ones, not the other way round.
    pub fn new(frame: &[u8], checksums: &[Checksum], flow: bool) -> Result<Self, TemplateError> {
        if !(MIN_FRAME_LEN..=MAX_FRAME_LEN).contains(&frame.len()) {
            return Err(TemplateError::FrameLength(frame.len()));
        }
        let trailer_at = if flow { frame.len() - trailer::LEN } else { frame.len() };
        let mut frame: Box<[u8]> = frame.into();
        frame[trailer_at..].fill(0);
        let mut fixes: Vec<Fix> = Vec::new();
        for (index, c) in checksums.iter().enumerate() {
            let field = c.offset..c.offset.saturating_add(2);
            let refuse = |problem| Err(TemplateError::Checksum { index, problem });
            if c.start >= c.end || c.end > frame.len() {
                return refuse("start..end must be a range of bytes inside of the frame");
            }
            if field.start < c.start || field.end > c.end {
                return refuse("the field must lie in the bytes covered");
            }
            if (field.start - c.start) % 2 != 0 {
                return refuse("the field must lie at an even distance from start");
            }
            if field.end > trailer_at {
                return refuse("the field lies in the last 16 bytes, where the trailer goes: make the packet longer");
            }
            if fixes.iter().any(|f| f.offset < c.end && f.offset + 2 > c.start) {
                return refuse("it covers another checksum field that changes with the trailer");
            }
            frame[field.clone()].fill(0);
            let base = u64::from(c.pseudo_header_sum) + checksum::sum(&frame[c.start..c.end]);
            let covered = c.start.max(trailer_at)..c.end;
            if covered.is_empty() {
                frame[field].copy_from_slice(&finish(base, c.zero_means_absent));
            } else {
                fixes.push(Fix {
                    offset: c.offset,
                    base: u64::from(checksum::fold(base)),
                    odd: (covered.start - c.start) % 2 != 0,
                    covered: covered.start - trailer_at..covered.end - trailer_at,
                    zero_means_absent: c.zero_means_absent,
                });
            }
        }
        Ok(Self { frame, flow, fixes: fixes.into() })
    }

    /// Bytes of the frame, without FCS.
    pub fn frame_len(&self) -> usize {
        self.frame.len()
    }

    /// Whether its packets carry the measurement trailer.
    pub fn flow(&self) -> bool {
        self.flow
    }

    /// The frame as it stands before any trailer is in.
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// Writes a packet into `out`, which has `frame_len` bytes. `trailer` is used if the template has `flow`.
    ///
    /// # Panics
    /// If `out` has another length.
    #[inline]
    pub fn write(&self, trailer: &trailer::Trailer, out: &mut [u8]) {
        out.copy_from_slice(&self.frame);
        if !self.flow {
            return;
        }
        let bytes = trailer.encode();
        let at = out.len() - trailer::LEN;
        out[at..].copy_from_slice(&bytes);
        let whole = checksum::sum_16(&bytes);
        for fix in &self.fixes {
            let sum =
                if fix.covered.len() == trailer::LEN { whole } else { checksum::sum(&bytes[fix.covered.clone()]) };
            let sum = if fix.odd { checksum::swapped(sum) } else { sum };
            out[fix.offset..fix.offset + 2].copy_from_slice(&finish(fix.base + sum, fix.zero_means_absent));
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use spate_wire::Trailer;

    const TRAILER: Trailer =
        Trailer { run_tag: 7, stream: 3, sender: 1, measured: true, sequence: 99, timestamp: 0x1234_5678_9abc };

    fn ipv4_header() -> Checksum {
        Checksum { offset: 24, start: 14, end: 34, pseudo_header_sum: 0, zero_means_absent: false }
    }

    fn udp(end: usize, pseudo_header_sum: u32) -> Checksum {
        Checksum { offset: 40, start: 34, end, pseudo_header_sum, zero_means_absent: true }
    }

    proptest! {
        #[test]
        fn checksums_hold_with_any_trailer(
            frame in prop::collection::vec(any::<u8>(), MIN_FRAME_LEN..200), sequence: u32, measured: bool,
            pseudo in 0u32..0x20_0000, cut in 0usize..20,
        ) {
            let end = frame.len() - cut;
            let template = Template::new(&frame, &[ipv4_header(), udp(end, pseudo)], true).unwrap();
            let mut out = vec![0; frame.len()];
            let trailer = Trailer { sequence, measured, ..TRAILER };
            template.write(&trailer, &mut out);
            prop_assert_eq!(Trailer::decode(&out), Some(trailer));
            prop_assert_eq!(checksum::fold(checksum::sum(&out[14..34])), 0xffff);
            prop_assert_eq!(checksum::fold(u64::from(pseudo) + checksum::sum(&out[34..end])), 0xffff);
            prop_assert!(out[40..42] != [0, 0]);
        }

        #[test]
        fn any_offsets_are_refused_or_hold(offset in 0usize..300, start in 0usize..300, end in 0usize..300, flow: bool) {
            let c = Checksum { offset, start, end, pseudo_header_sum: 0, zero_means_absent: false };
            if let Ok(template) = Template::new(&[0x5a; 200], &[c], flow) {
                let mut out = [0; 200];
                template.write(&TRAILER, &mut out);
                prop_assert_eq!(checksum::fold(checksum::sum(&out[start..end])), 0xffff);
            }
        }
    }

    #[test]
    fn without_flow_the_payload_stays() {
        let frame: Vec<u8> = (0..64).collect();
        let template = Template::new(&frame, &[], false).unwrap();
        let mut out = [0; 64];
        template.write(&TRAILER, &mut out);
        assert_eq!(out[..], frame[..]);
    }

    #[test]
    fn what_cannot_be_kept_true_is_refused() {
        let in_trailer = Checksum { offset: 46, start: 34, end: 60, pseudo_header_sum: 0, zero_means_absent: false };
        let errors = [
            Template::new(&[0; 59], &[], true).unwrap_err(),
            Template::new(&[0; 60], &[in_trailer], true).unwrap_err(),
            Template::new(&[0; 60], &[udp(61, 0)], true).unwrap_err(),
            Template::new(&[0; 60], &[udp(60, 0), udp(58, 0)], true).unwrap_err(),
        ];
        assert_eq!(
            errors.map(|e| e.to_string()),
            [
                "the frame has 59 bytes without FCS; it must have 60 to 9212",
                "checksums[0]: the field lies in the last 16 bytes, where the trailer goes: make the packet longer",
                "checksums[0]: start..end must be a range of bytes inside of the frame",
                "checksums[1]: it covers another checksum field that changes with the trailer",
            ]
        );
    }
}
