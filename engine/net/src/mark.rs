// SPDX-License-Identifier: Apache-2.0
//! Marks: fields of the first IP header that identify the stream of a packet where there is no room for a trailer.
use crate::{
    checksum,
    headers::{Headers, Version},
};

/// A mark, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mark {
    /// Identification of IPv4 (RFC 791).
    Ipv4Identification(u16),
    /// Flow label of IPv6 (RFC 6437), 20 bits.
    Ipv6FlowLabel(u32),
}

/// The first IP header is not of the version that has the field, or there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the packet's first IP header is not {0}")]
pub struct NoHeader(&'static str);

impl Mark {
    /// What the headers of a frame say: of every IP packet that is not 0 there.
    #[inline]
    pub fn read(frame: &[u8], headers: &Headers) -> Option<Self> {
        let field = *frame.get(headers.at..)?.first_chunk::<8>()?;
        match headers.version {
            Version::V4 => {
                Some(u16::from_be_bytes([field[4], field[5]])).filter(|&id| id != 0).map(Self::Ipv4Identification)
            }
            Version::V6 => Some(u32::from_be_bytes([0, field[1] & 0xf, field[2], field[3]]))
                .filter(|&label| label != 0)
                .map(Self::Ipv6FlowLabel),
        }
    }

    /// Writes it into a frame, and keeps the header checksum as right as it was.
    pub fn write(self, frame: &mut [u8]) -> Result<(), NoHeader> {
        let headers = Headers::find(frame);
        let at = |version| headers.filter(|h| h.version == version).map(|h| h.at);
        match self {
            Self::Ipv4Identification(id) => {
                let at = at(Version::V4).ok_or(NoHeader("IPv4"))?;
                let word =
                    |frame: &[u8], offset: usize| u16::from_be_bytes([frame[at + offset], frame[at + offset + 1]]);
                let sum = checksum::updated(word(frame, 10), word(frame, 4), id);
                frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
                frame[at + 4..at + 6].copy_from_slice(&id.to_be_bytes());
            }
            Self::Ipv6FlowLabel(label) => {
                let at = at(Version::V6).ok_or(NoHeader("IPv6"))?;
                let [_, high, middle, low] = label.to_be_bytes();
                frame[at + 1] = frame[at + 1] & 0xf0 | high & 0xf;
                frame[at + 2] = middle;
                frame[at + 3] = low;
            }
        }
        Ok(())
    }

    /// The bytes of a frame that hold it: [start, end).
    pub fn bytes(self, frame: &[u8]) -> Result<core::ops::Range<usize>, NoHeader> {
        let headers = Headers::find(frame);
        let at = |version| headers.filter(|h| h.version == version).map(|h| h.at);
        match self {
            Self::Ipv4Identification(_) => at(Version::V4).ok_or(NoHeader("IPv4")).map(|at| at + 4..at + 6),
            Self::Ipv6FlowLabel(_) => at(Version::V6).ok_or(NoHeader("IPv6")).map(|at| at + 1..at + 4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::samples;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_and_the_checksum_holds(tags in 0usize..3, options in 0u8..10, id in 1u16.., label in 1u32..1 << 20) {
            let mut frame = samples::v4(tags, options, 17, &[7; 30]);
            let before = frame.clone();
            Mark::Ipv4Identification(id).write(&mut frame).unwrap();
            let headers = Headers::find(&frame).unwrap();
            prop_assert_eq!(Mark::read(&frame, &headers), Some(Mark::Ipv4Identification(id)));
            let end = headers.transport.unwrap().1;
            prop_assert_eq!(checksum::fold(checksum::sum(&frame[headers.at..end])), 0xffff);
            prop_assert_eq!(&frame[end..], &before[end..]);

            let mut frame = samples::v6(17, &[7; 30]);
            let class = (frame[14], frame[15] & 0xf0);
            Mark::Ipv6FlowLabel(label).write(&mut frame).unwrap();
            prop_assert_eq!(Mark::read(&frame, &Headers::find(&frame).unwrap()), Some(Mark::Ipv6FlowLabel(label)));
            prop_assert_eq!((frame[14], frame[15] & 0xf0), class);
        }
    }

    #[test]
    fn a_mark_needs_its_header() {
        let mut v6 = samples::v6(17, &[]);
        let refused = Mark::Ipv4Identification(1).write(&mut v6).unwrap_err();
        assert_eq!(refused.to_string(), "the packet's first IP header is not IPv4");
        assert!(Mark::Ipv6FlowLabel(1).bytes(&samples::ethernet(0, 0x0806)).is_err());
        assert_eq!(Mark::Ipv6FlowLabel(1).bytes(&v6), Ok(15..18));
    }
}
