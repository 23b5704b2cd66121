// SPDX-License-Identifier: Apache-2.0
//! What is written into replayed packets: fields that vary, a mark, room for the trailer, and the checksums after that.
//!
//! A packet at a time and plainly: millions of varied packets a second are for a stream.
use spate_net::{
    Headers, Mark, Trailer, arp,
    ethernet::{self, Link},
    ip::{ICMP, ICMPV6, SCTP, TCP, UDP},
    tcp, trailer, udp,
};
use spate_stateless::{
    Blueprint, FieldProgram, Frames, Lanes, MIN_FRAME_LEN, Numbers, PIECE, Template, TemplateError, Variable,
    WorkerShare, Write, Writer,
};

use crate::checksum_fixup::{self, ChecksumFixup};

const VALUE: usize = 8;

/// What is written into each packet of a capture.
#[derive(Clone, Debug)]
pub struct Rewrite {
    values: Option<Values>,
    writes: Box<[Write]>,
    mark: Option<Mark>,
    flow: bool,
    fix_checksums: bool,
}

/// What to write; by default nothing.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Fields; packet n of all passes gets the n-th values.
    pub program: FieldProgram,
    /// Mark in the first IP header.
    pub mark: Option<Mark>,
    /// The last 16 bytes hold the measurement trailer.
    pub flow: bool,
    /// The checksums of the first IPv4 header and of TCP, UDP and ICMP behind the first IP header are recomputed where
    /// something is written.
    pub fix_checksums: bool,
}

impl Rewrite {
    /// Compiles what to write. Faults of the program are reported like those of any template.
    pub fn new(changes: &Changes) -> Result<Self, TemplateError> {
        // The longest frame has room for every write that any has room for; `check` looks at each packet's own.
        let longest = vec![0; crate::MAX_FRAME_LEN];
        Template::new(&Blueprint { frame: longest, program: changes.program.clone(), ..Blueprint::default() })?;
        let values = match changes.program.writes.is_empty() {
            true => None,
            false => Some(Values::new(&changes.program.variables)?),
        };
        Ok(Self {
            values,
            writes: changes.program.writes.clone().into(),
            mark: changes.mark,
            flow: changes.flow,
            fix_checksums: changes.fix_checksums,
        })
    }

    /// Whether a packet gets the same bytes in every pass, but for the trailer.
    pub fn is_constant(&self) -> bool {
        self.values.is_none()
    }

    /// Why a packet cannot be written into.
    pub fn check(&self, frame: &[u8]) -> Result<(), String> {
        let room = frame.len() - if self.flow { trailer::LEN } else { 0 };
        for (index, write) in self.writes.iter().enumerate() {
            let end = write.offset + write.size;
            if end > room {
                let beside = if self.flow { " beside the trailer of measure.flow" } else { "" };
                return Err(format!(
                    "it has {} bytes, and program.writes[{index}] needs {end}{beside}: write elsewhere, or leave the packet out \
                     of the capture",
                    frame.len()
                ));
            }
        }
        if let Some(mark) = self.mark {
            let held = mark.bytes(frame).map_err(|e| format!("{e}, which would hold the mark: mark another way"))?;
            let touched = |w: &Write| w.offset < held.end && held.start < w.offset + w.size;
            if let Some(index) = self.writes.iter().position(touched) {
                return Err(format!(
                    "program.writes[{index}] changes its mark, bytes {}..{}: write elsewhere, or mark another way",
                    held.start, held.end
                ));
            }
        }
        // Not of every packet: what is read from a file is checked while it plays.
        if self.flow {
            let headers = headers_len(frame);
            if headers > room {
                return Err(format!(
                    "its headers take {headers} of its {} bytes, which leaves no room for the 16 bytes of measure.flow: use \
                     measure.mark, or leave the packet out of the capture",
                    frame.len()
                ));
            }
        }
        Ok(())
    }

    /// Writes into packet `number`, which passed `check`. Its trailer is left to be written ([`Rewrite::write_trailer`]), if it has one.
    pub fn write(&mut self, number: u64, frame: &mut [u8]) -> ChecksumFixup {
        if let Some(values) = &mut self.values {
            let values = values.of(number);
            for write in &self.writes {
                store(write, values[write.variable], frame);
            }
        }
        if let Some(mark) = self.mark {
            // `check` found the header; a field may have written another kind there.
            let _ = mark.write(frame);
        }
        let trailer = if self.flow { trailer::LEN } else { 0 };
        let end = frame.len();
        frame[end - trailer..].fill(0);
        let written = self.flow || self.mark.is_some() || self.values.is_some();
        if self.fix_checksums && written { checksum_fixup::fix(frame, trailer) } else { ChecksumFixup::NOTHING }
    }

    /// Writes the trailer of a packet that `write` made ready, if packets have one, and updates the checksum that covers it.
    #[inline]
    pub fn write_trailer(flow: bool, fixup: ChecksumFixup, trailer: Trailer, frame: &mut [u8]) {
        if flow {
            let bytes = trailer.encode();
            let at = frame.len() - trailer::LEN;
            frame[at..].copy_from_slice(&bytes);
            fixup.close(frame, &bytes);
        }
    }
}

/// Bytes that headers take, as far as they are known.
fn headers_len(frame: &[u8]) -> usize {
    let Some(headers) = Headers::find(frame) else {
        let arp = |link: &Link| if link.ethertype == ethernet::ARP { arp::LEN } else { 0 };
        return Link::find(frame).map_or(ethernet::HEADER, |link| link.end + arp(&link));
    };
    match headers.transport {
        Some((TCP, at)) => at + tcp::header_len(&frame[at..]).unwrap_or(0).max(tcp::HEADER),
        Some((SCTP, at)) => at + 12,
        Some((UDP | ICMP | ICMPV6, at)) => at + udp::HEADER,
        _ => headers.end,
    }
}

/// The values of variables, a packet at a time: those that a template would write.
#[derive(Clone, Debug)]
struct Values {
    template: Template,
    writer: Writer,
    lanes: Lanes,
    frame: Frame,
    values: Box<[u64]>,
}

#[derive(Clone, Debug, Default)]
struct Frame(Vec<u8>);

impl Frames for Frame {
    fn frames<'a>(&'a mut self, _: usize, _: &'a [u16]) -> impl Iterator<Item = &'a mut [u8]> {
        std::iter::once(&mut self.0[..])
    }
}

impl Values {
    fn new(variables: &[Variable]) -> Result<Self, TemplateError> {
        let whole = |variable: usize| Write {
            variable,
            offset: variable * VALUE,
            size: VALUE,
            add: 0,
            shift: 0,
            mask: 0,
            little_endian: false,
        };
        let program = FieldProgram { variables: variables.to_vec(), writes: (0..variables.len()).map(whole).collect() };
        let frame = vec![0; (variables.len() * VALUE).max(MIN_FRAME_LEN)];
        let room = frame.len().next_multiple_of(PIECE);
        let template = Template::new(&Blueprint { frame, program, ..Blueprint::default() })?;
        let writer = template.writer(WorkerShare { first: 0, stride: 1 });
        Ok(Self {
            template,
            writer,
            lanes: Lanes::new(),
            frame: Frame(vec![0; room]),
            values: vec![0; variables.len()].into(),
        })
    }

    fn of(&mut self, number: u64) -> &[u64] {
        let numbers = Numbers { number, sequence: number, count: 1 };
        let none = Trailer { run_tag: 0, stream: 0, sender: 0, measured: false, sequence: 0, timestamp: 0 };
        self.template.write(&mut self.writer, &mut self.lanes, numbers, none, &mut self.frame, 0);
        let (written, _) = self.frame.0.as_chunks::<VALUE>();
        for (value, bytes) in self.values.iter_mut().zip(written) {
            *value = u64::from_be_bytes(*bytes);
        }
        &self.values
    }
}

/// Writes ((value + add) << shift) & mask.
fn store(write: &Write, value: u64, frame: &mut [u8]) {
    let value = value.wrapping_add(write.add);
    let distance = write.shift.unsigned_abs();
    let value = match write.shift {
        0.. => value.checked_shl(distance),
        _ => value.checked_shr(distance),
    };
    let value = value.unwrap_or(0);
    let mask = if write.mask == 0 { u64::MAX } else { write.mask };
    let place = &mut frame[write.offset..write.offset + write.size];
    for i in 0..write.size {
        let at = if write.little_endian { i } else { write.size - 1 - i };
        let (bits, mask) = ((value >> (8 * i)) as u8, (mask >> (8 * i)) as u8);
        place[at] = place[at] & !mask | bits & mask;
    }
}

#[cfg(test)]
mod tests;
