// SPDX-License-Identifier: Apache-2.0
//! Bytes from a source, and numbers in the byte order of the machine that wrote the file.
use std::io::{BufReader, ErrorKind, Read};

use crate::problem::Problem;

/// Bytes that are read ahead of the file.
const READ_AHEAD: usize = 1 << 20;

/// A file being read.
pub(crate) struct Source<R> {
    file: BufReader<R>,
}

/// Byte order of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

impl<R: Read> Source<R> {
    pub(crate) fn new(file: R) -> Self {
        Self { file: BufReader::with_capacity(READ_AHEAD, file) }
    }

    pub(crate) fn into_inner(self) -> R {
        self.file.into_inner()
    }

    /// Fills `bytes`; false if the file ended before the first of them.
    pub(crate) fn fill_or_end(&mut self, bytes: &mut [u8]) -> Result<bool, Problem> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read(&mut bytes[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(Problem::EndsWithin),
                Ok(more) => filled += more,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Problem::Io(e.to_string())),
            }
        }
        Ok(true)
    }

    /// Fills `bytes`.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Problem> {
        match self.fill_or_end(bytes)? {
            true => Ok(()),
            false if bytes.is_empty() => Ok(()),
            false => Err(Problem::EndsWithin),
        }
    }

    /// `N` bytes.
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Passes over bytes.
    pub(crate) fn skip(&mut self, mut count: u64) -> Result<(), Problem> {
        let mut scrap = [0; 4096];
        while count > 0 {
            let part = count.min(scrap.len() as u64) as usize;
            self.fill(&mut scrap[..part])?;
            count -= part as u64;
        }
        Ok(())
    }
}

impl Order {
    pub(crate) fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    pub(crate) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    /// The number at an offset of bytes that contain it.
    pub(crate) fn u32_at(self, bytes: &[u8], at: usize) -> u32 {
        self.u32([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }
}
