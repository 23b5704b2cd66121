// SPDX-License-Identifier: Apache-2.0
//! A sink of tests alone, which shows that one is a file and a line of the registration, and that one may wrap another: any sink of what
//! the records of `sources/records.rs` hold. The end is that of the record which has the inner end.
use super::{Fed, Sink};
use crate::application::sources::records::HEADER;

/// Bytes that are unmasked at a time.
const PIECE: usize = 64;

#[derive(Clone, Debug)]
pub struct Records<S> {
    /// Looks for the end in what records hold.
    pub(crate) inner: S,
    pub(crate) mask: u8,
}

#[derive(Clone, Copy, Debug)]
pub struct Record<P> {
    /// Bytes of the header that have come.
    header: u8,
    /// Bytes of data that are still to come.
    left: u16,
    /// The end is in this record.
    ends: bool,
    inner: P,
}

impl<S: Sink> Sink for Records<S> {
    type Progress = Record<S::Progress>;

    fn begin(&self) -> Self::Progress {
        Record { header: 0, left: 0, ends: false, inner: self.inner.begin() }
    }

    fn feed(&self, progress: &mut Self::Progress, bytes: &[u8]) -> Fed {
        let mut at = 0;
        while at < bytes.len() {
            if usize::from(progress.header) < HEADER {
                // The last two bytes are the length.
                progress.left = progress.left << 8 | u16::from(bytes[at]);
                progress.header += 1;
                at += 1;
                continue;
            }
            let len = (bytes.len() - at).min(progress.left.into()).min(PIECE);
            let mut data = [0; PIECE];
            data.iter_mut().zip(&bytes[at..at + len]).for_each(|(data, byte)| *data = byte ^ self.mask);
            at += len;
            progress.left -= len as u16;
            if !progress.ends {
                match self.inner.feed(&mut progress.inner, &data[..len]) {
                    Fed::More => {}
                    Fed::Ends(_) => progress.ends = true,
                    broken @ Fed::Broken(_) => return broken,
                }
            }
            if progress.left == 0 {
                progress.header = 0;
                if progress.ends {
                    return Fed::Ends(at);
                }
            }
        }
        Fed::More
    }
}
