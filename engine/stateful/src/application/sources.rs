// SPDX-License-Identifier: Apache-2.0
//! Sources: where the bytes that programs send come from, one file each, and their registration.
use spate_net::checksum::swapped;

pub(crate) mod literal;
pub(crate) mod pattern;

#[cfg(test)]
pub(crate) mod records;

/// Bytes to send. No flow has a copy of them: a packet is filled with a piece of them when it is built, and the same piece again if it is
/// lost. So a byte depends on nothing but the source, the flow's number and the offset.
pub(crate) trait Source {
    /// Its length in bytes.
    fn len(&self) -> u64;

    /// Writes the bytes from `offset` on, of flow number `flow` of its template. Gives the sum of their 16-bit words in network order,
    /// the first byte being the upper half of a word; 0 only if all are 0.
    ///
    /// # Panics
    /// If they reach beyond the end.
    fn fill(&self, flow: u64, offset: u64, out: &mut [u8]) -> u64;

    /// All of its bytes, of which there are `len`, if they are in memory and the same for all flows; else none.
    #[inline]
    fn kept(&self, _len: usize) -> &[u8] {
        &[]
    }
}

/// The sum of a part as it counts from an offset on.
#[inline]
pub(crate) fn placed(sum: u64, offset: usize) -> u64 {
    if offset.is_multiple_of(2) { sum } else { swapped(sum) }
}

/// Makes the registry of sources: a variant each, dispatched statically.
macro_rules! register {
    ($($(#[$attribute:meta])* $name:ident: $source:ty,)+) => {
        /// What a payload consists of: a source.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum Content {
            $($(#[$attribute])* $name($source),)+
        }

        impl Source for Content {
            #[inline(always)]
            fn len(&self) -> u64 {
                match self {
                    $($(#[$attribute])* Self::$name(source) => source.len(),)+
                }
            }

            #[inline(always)]
            fn fill(&self, flow: u64, offset: u64, out: &mut [u8]) -> u64 {
                match self {
                    $($(#[$attribute])* Self::$name(source) => source.fill(flow, offset, out),)+
                }
            }

            #[inline(always)]
            fn kept(&self, len: usize) -> &[u8] {
                match self {
                    $($(#[$attribute])* Self::$name(source) => source.kept(len),)+
                }
            }
        }

        $(
            $(#[$attribute])*
            impl From<$source> for Content {
                fn from(source: $source) -> Self {
                    Self::$name(source)
                }
            }
        )+
    };
}

register! {
    Literal: literal::Literal,
    Pattern: pattern::Pattern,
    #[cfg(test)]
    Records: records::Records<pattern::Pattern>,
}
