// SPDX-License-Identifier: Apache-2.0
//! What programs send: bytes that are held once for all flows, or made from a rule.

/// The byte at offset n of a pattern is n modulo this.
pub const PATTERN: u64 = 251;

/// Bytes to send, as a source of pieces: no flow has a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Bytes(Box<[u8]>),
    Pattern(u64),
}

impl Payload {
    /// Those bytes.
    pub fn bytes(bytes: impl Into<Box<[u8]>>) -> Self {
        Self { content: Content::Bytes(bytes.into()) }
    }

    /// So many bytes of the pattern.
    pub fn pattern(len: u64) -> Self {
        Self { content: Content::Pattern(len) }
    }

    /// Its length.
    #[inline]
    pub fn len(&self) -> u64 {
        match &self.content {
            Content::Bytes(bytes) => bytes.len() as u64,
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
    pub fn fill(&self, flow: u64, offset: u64, out: &mut [u8]) -> u16 {
        let _ = flow;
        match &self.content {
            Content::Bytes(bytes) => out.copy_from_slice(&bytes[offset as usize..][..out.len()]),
            Content::Pattern(len) => {
                assert!(offset + out.len() as u64 <= *len, "beyond the payload's end");
                for (byte, n) in out.iter_mut().zip(offset..) {
                    *byte = (n % PATTERN) as u8;
                }
            }
        }
        spate_wire::checksum::fold(spate_wire::checksum::sum(out))
    }
}
