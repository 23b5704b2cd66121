// SPDX-License-Identifier: Apache-2.0
//! The pcapng format (draft-ietf-opsawg-pcapng): sections of blocks. Packets are in enhanced packet blocks, or in simple
//! ones, which have no time; all blocks besides are passed over.
use std::io::Read;

use crate::{
    bytes::{Order, Source},
    captured::{Found, LINK_ETHERNET, MAX_CAPTURED_BYTES},
    problem::Problem,
};

/// The type of a section's first block, the same in both byte orders.
pub(crate) const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Options of an interface.
const TIME_RESOLUTION: u16 = 9;
const TIME_OFFSET: u16 = 14;
const FCS_LENGTH: u16 = 13;
/// Longest block that is read: a packet with its options.
const MAX_BLOCK_BYTES: u32 = MAX_CAPTURED_BYTES + (1 << 20);
/// Interfaces of a section.
const MAX_INTERFACES: usize = 1024;

/// State of reading a pcapng file.
pub(crate) struct Pcapng {
    order: Order,
    interfaces: Vec<Interface>,
    block: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u32,
    has_fcs: bool,
    resolution: Resolution,
    /// Added to all times.
    offset_s: i64,
}

/// Fractions of a second that times count.
#[derive(Clone, Copy, Debug)]
enum Resolution {
    /// 10 to the minus this.
    Decimal(u8),
    /// 2 to the minus this.
    Binary(u8),
}

impl Pcapng {
    pub(crate) fn new() -> Self {
        Self { order: Order::Little, interfaces: Vec::new(), block: Vec::new() }
    }

    /// Reads a section's header behind its type.
    pub(crate) fn section<R: Read>(&mut self, source: &mut Source<R>) -> Result<(), Problem> {
        let bytes: [u8; 8] = source.take()?;
        let (length, magic) = ([bytes[0], bytes[1], bytes[2], bytes[3]], [bytes[4], bytes[5], bytes[6], bytes[7]]);
        let order = [Order::Little, Order::Big].into_iter().find(|order| order.u32(magic) == BYTE_ORDER);
        self.order = order.ok_or(Problem::Block)?;
        let length = self.order.u32(length);
        if length < 28 || !length.is_multiple_of(4) || length > MAX_BLOCK_BYTES {
            return Err(Problem::Block);
        }
        let version: [u8; 2] = source.take()?;
        let major = self.order.u16(version);
        if major != 1 {
            return Err(Problem::Version(major));
        }
        source.skip(u64::from(length) - 14)?;
        self.interfaces.clear();
        Ok(())
    }

    /// Reads the next packet into `frame`.
    pub(crate) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
        frame: &mut Vec<u8>,
    ) -> Result<Option<Found>, Problem> {
        loop {
            let mut kind = [0; 4];
            if !source.fill_or_end(&mut kind)? {
                return Ok(None);
            }
            if kind == SECTION {
                self.section(source)?;
                continue;
            }
            let kind = self.order.u32(kind);
            let length = self.order.u32(source.take()?);
            if length < 12 || !length.is_multiple_of(4) {
                return Err(Problem::Block);
            }
            let body = length - 12;
            if !matches!(kind, INTERFACE | OBSOLETE_PACKET | SIMPLE_PACKET | ENHANCED_PACKET) {
                source.skip(u64::from(body) + 4)?;
                continue;
            }
            if length > MAX_BLOCK_BYTES {
                return Err(Problem::Length(length));
            }
            let mut block = std::mem::take(&mut self.block);
            block.resize(body as usize, 0);
            let found = source.fill(&mut block).and_then(|()| {
                // The length again, for reading backwards.
                let again = self.order.u32(source.take()?);
                if again == length { self.block(kind, &block, frame) } else { Err(Problem::Block) }
            });
            self.block = block;
            if let Some(found) = found? {
                return Ok(Some(found));
            }
        }
    }

    fn block(&mut self, kind: u32, block: &[u8], frame: &mut Vec<u8>) -> Result<Option<Found>, Problem> {
        match kind {
            INTERFACE => self.interface(block).map(|()| None),
            ENHANCED_PACKET => self.enhanced(block, frame).map(Some),
            SIMPLE_PACKET => Err(Problem::NoTime),
            _ => Err(Problem::ObsoletePacket),
        }
    }

    fn interface(&mut self, block: &[u8]) -> Result<(), Problem> {
        if block.len() < 8 || self.interfaces.len() == MAX_INTERFACES {
            return Err(Problem::Block);
        }
        let mut interface = Interface {
            link: u32::from(self.order.u16([block[0], block[1]])),
            has_fcs: false,
            resolution: Resolution::Decimal(6),
            offset_s: 0,
        };
        let mut options = &block[8..];
        while options.len() >= 4 {
            let code = self.order.u16([options[0], options[1]]);
            let len = usize::from(self.order.u16([options[2], options[3]]));
            let value = options.get(4..4 + len).ok_or(Problem::Block)?;
            match (code, value) {
                (0, _) => break,
                (TIME_RESOLUTION, &[resolution]) => {
                    let exponent = resolution & 0x7f;
                    interface.resolution = match resolution & 0x80 {
                        0 if exponent <= 19 => Resolution::Decimal(exponent),
                        0x80 if exponent <= 63 => Resolution::Binary(exponent),
                        _ => return Err(Problem::Resolution(resolution)),
                    };
                }
                (TIME_OFFSET, &[a, b, c, d, e, f, g, h]) => {
                    let bytes = [a, b, c, d, e, f, g, h];
                    interface.offset_s = match self.order {
                        Order::Little => i64::from_le_bytes(bytes),
                        Order::Big => i64::from_be_bytes(bytes),
                    };
                }
                (FCS_LENGTH, &[len]) => interface.has_fcs = len > 0,
                _ => {}
            }
            options = options.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        }
        self.interfaces.push(interface);
        Ok(())
    }

    fn enhanced(&self, block: &[u8], frame: &mut Vec<u8>) -> Result<Found, Problem> {
        if block.len() < 20 {
            return Err(Problem::Block);
        }
        let word = |at| self.order.u32_at(block, at);
        let interface = self.interfaces.get(word(0) as usize).ok_or(Problem::Interface(word(0)))?;
        if interface.link != LINK_ETHERNET {
            return Err(Problem::LinkType(interface.link));
        }
        if interface.has_fcs {
            return Err(Problem::HasFcs);
        }
        let ticks = u64::from(word(4)) << 32 | u64::from(word(8));
        let bytes = block.get(20..20 + word(12) as usize).ok_or(Problem::Length(word(12)))?;
        if bytes.len() > MAX_CAPTURED_BYTES as usize {
            return Err(Problem::Length(word(12)));
        }
        frame.clear();
        frame.extend_from_slice(bytes);
        Ok(Found { at_ns: interface.nanoseconds(ticks)?, original_len: word(16), interface: word(0) })
    }
}

impl Interface {
    /// Nanoseconds since the epoch.
    fn nanoseconds(&self, ticks: u64) -> Result<u64, Problem> {
        let ticks = u128::from(ticks) * 1_000_000_000;
        let ns = match self.resolution {
            Resolution::Decimal(exponent) => ticks / 10u128.pow(exponent.into()),
            Resolution::Binary(exponent) => ticks >> exponent,
        };
        let ns = ns.cast_signed() + i128::from(self.offset_s) * 1_000_000_000;
        u64::try_from(ns).map_err(|_| Problem::Time)
    }
}
