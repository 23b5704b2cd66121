// SPDX-License-Identifier: Apache-2.0
//! A pattern as a sink: the end is behind its first occurrence.
use super::{Fed, Sink};

/// Bytes that are looked for.
#[derive(Clone, Debug)]
pub struct Pattern {
    bytes: Box<[u8]>,
    /// How many of the first bytes are still matched if the byte behind this many does not match (Knuth, Morris, Pratt 1977).
    back: Box<[u8]>,
}

impl Pattern {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        assert!(!bytes.is_empty() && u8::try_from(bytes.len()).is_ok(), "a pattern of {} bytes", bytes.len());
        let mut back = vec![0u8; bytes.len()];
        let mut matched = 0usize;
        for at in 1..bytes.len() {
            back[at] = matched as u8;
            while matched > 0 && bytes[at] != bytes[matched] {
                matched = usize::from(back[matched]);
            }
            matched += usize::from(bytes[at] == bytes[matched]);
        }
        Self { bytes: bytes.into(), back: back.into() }
    }
}

impl Sink for Pattern {
    /// Number of bytes of the pattern that are matched.
    type Progress = u8;

    fn begin(&self) -> u8 {
        0
    }

    fn feed(&self, progress: &mut u8, bytes: &[u8]) -> Fed {
        let mut matched = usize::from(*progress);
        for (at, byte) in bytes.iter().enumerate() {
            while matched > 0 && *byte != self.bytes[matched] {
                matched = usize::from(self.back[matched]);
            }
            matched += usize::from(*byte == self.bytes[matched]);
            if matched == self.bytes.len() {
                return Fed::Ends(at + 1);
            }
        }
        *progress = matched as u8;
        Fed::More
    }
}
