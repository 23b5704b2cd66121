// SPDX-License-Identifier: Apache-2.0
//! A capture, a packet at a time: which format it has, and whether its packets can be sent.
use std::io::Read;

use crate::{
    bytes::Source,
    captured::{MAX_FRAME_LEN, MIN_FRAME_LEN},
    pcap::Pcap,
    pcapng::{Pcapng, SECTION},
    problem::{Problem, ReadError},
};

/// A capture being read.
pub struct Reader<R> {
    source: Source<R>,
    format: Format,
    /// Packets read.
    packets: u64,
    /// Interface of the last one.
    interface: u32,
}

enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    pub fn new(file: R) -> Result<Self, ReadError> {
        let mut source = Source::new(file);
        let format = Format::read(&mut source).map_err(|problem| ReadError { packet: 0, problem })?;
        Ok(Self { source, format, packets: 0, interface: 0 })
    }

    /// Reads the next packet into `frame`, ready to be sent; returns when it was captured, in nanoseconds since the
    /// epoch, or none at the end.
    pub fn next(&mut self, frame: &mut Vec<u8>) -> Result<Option<u64>, ReadError> {
        let captured = self.next_captured(frame)?;
        if captured.is_some() {
            complete(frame).map_err(|problem| ReadError { packet: self.packets, problem })?;
        }
        Ok(captured)
    }

    /// Reads the next packet as it was captured, of any length.
    pub fn next_captured(&mut self, frame: &mut Vec<u8>) -> Result<Option<u64>, ReadError> {
        let found = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.source, frame),
            Format::Pcapng(pcapng) => pcapng.next(&mut self.source, frame),
        };
        self.packets += 1;
        let packet = self.packets;
        let found = found.and_then(|found| match found {
            None => Ok(None),
            Some(found) if frame.len() < found.original_len as usize => {
                Err(Problem::Cut { captured: frame.len(), original: found.original_len })
            }
            Some(found) => {
                self.interface = found.interface;
                Ok(Some(found.at_ns))
            }
        });
        found.map_err(|problem| ReadError { packet, problem })
    }

    /// Number of the interface that captured the packet that was read last, in its section; 0 in pcap.
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// The reader that the capture is read from.
    pub fn into_inner(self) -> R {
        self.source.into_inner()
    }
}

impl Format {
    fn read<R: Read>(source: &mut Source<R>) -> Result<Self, Problem> {
        let magic = source.take().map_err(|problem| match problem {
            Problem::EndsWithin => Problem::Format,
            other => other,
        })?;
        if magic == SECTION {
            let mut pcapng = Pcapng::new();
            pcapng.section(source)?;
            return Ok(Self::Pcapng(pcapng));
        }
        let pcap = Pcap::recognise(magic).ok_or(Problem::Format)?;
        pcap.header(source)?;
        Ok(Self::Pcap(pcap))
    }
}

/// Makes a captured packet one that can be sent.
fn complete(frame: &mut Vec<u8>) -> Result<(), Problem> {
    let captured = frame.len();
    if captured > MAX_FRAME_LEN {
        return Err(Problem::TooLong(captured));
    }
    if captured < 14 {
        return Err(Problem::TooShort(captured));
    }
    if captured < MIN_FRAME_LEN {
        frame.resize(MIN_FRAME_LEN, 0);
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
