// SPDX-License-Identifier: Apache-2.0
//! The contract's packet, with what varies in it, as a blueprint for templates; faults by their path in the plan.
use super::limits::FRAME_BYTES;
use super::{Macs, Violation, Violations};
use crate::index::StreamIndex;
use contract::{ListOrder, sizes, variable};
use num_integer::gcd;
use spate_stateful::FieldPath;
use spate_stateless::{
    Blueprint, Checksum, ChecksumKind, FieldProgram, Length, ProgramError, Sequence, Template, TemplateError, Variable,
    Write,
};
use std::collections::HashMap;

/// Values of a list, and packets of a pattern of sizes, at most.
const MAX_VALUES: usize = 65_535;
/// Where a port's own address and its next hop's are written.
const SOURCE_MAC: std::ops::Range<usize> = 6..12;
const DESTINATION_MAC: std::ops::Range<usize> = 0..6;

/// Compiles the packets of `streams[index]`; what is wrong is noted.
pub fn template(index: usize, stream: &contract::Stream, macs: Macs, wrong: &mut Violations) -> Option<Template> {
    let at = StreamIndex(index).path();
    let before = wrong.0.len();
    let blueprint = blueprint(&at, stream, macs, wrong);
    if wrong.0.len() > before {
        return None;
    }
    let declared = stream.program.as_ref().map_or(0, |p| p.variables.len());
    match Template::new(&blueprint) {
        Ok(template) => Some(template),
        Err(error) => {
            wrong.0.push(violation(&at, declared, &error));
            None
        }
    }
}

fn blueprint(at: &FieldPath, stream: &contract::Stream, macs: Macs, wrong: &mut Violations) -> Blueprint {
    let packet = stream.packet.clone().unwrap_or_default();
    let mut frame = packet.frame.to_vec();
    if let Some(field) = frame.get_mut(SOURCE_MAC).filter(|_| packet.source_mac_from_port) {
        field.copy_from_slice(&macs.own);
    }
    if packet.destination_mac_from_port {
        match (frame.get_mut(DESTINATION_MAC), macs.next_hop) {
            (Some(field), Some(mac)) => field.copy_from_slice(&mac),
            (Some(_), None) => wrong.add(
                at.field("packet.destination_mac_from_port"),
                format!(
                    "port {} has no next hop: give it an address and a gateway, or write the destination MAC into the frame",
                    stream.tx_port
                ),
            ),
            (None, _) => {}
        }
    }
    super::measure::write_mark(at, stream, &mut frame, wrong);
    let mut program = program(at, stream.program.as_ref(), wrong);
    let size = size(at, stream, packet.sizes.as_ref(), &mut program, wrong);
    Blueprint {
        frame,
        checksums: packet.checksums.iter().map(checksum).collect(),
        lengths: packet.lengths.iter().map(length).collect(),
        program,
        size,
        flow: stream.measure.as_ref().is_some_and(|m| m.flow),
    }
}

fn checksum(c: &contract::Checksum) -> Checksum {
    Checksum {
        kind: match c.kind() {
            contract::ChecksumKind::Crc32c => ChecksumKind::Crc32c,
            contract::ChecksumKind::Unspecified | contract::ChecksumKind::Internet => ChecksumKind::Internet,
        },
        offset: c.offset as usize,
        start: c.start as usize,
        end: (c.end > 0).then_some(c.end as usize),
        pseudo_header_sum: c.pseudo_header_sum,
        addresses: c.addresses_start as usize..c.addresses_end as usize,
        length_minus: (c.length_minus > 0).then_some(c.length_minus as usize),
        zero_means_absent: c.zero_means_absent,
    }
}

fn length(l: &contract::Length) -> Length {
    Length { offset: l.offset as usize, size: l.size as usize, minus: l.minus as usize }
}

/// What varies from packet to packet.
pub(super) fn program(
    at: &FieldPath,
    program: Option<&contract::FieldProgram>,
    wrong: &mut Violations,
) -> FieldProgram {
    let Some(program) = program else { return FieldProgram::default() };
    let mut by_name = HashMap::new();
    let mut variables = Vec::new();
    for (i, v) in program.variables.iter().enumerate() {
        let at = at.field("program.variables").index(i);
        if v.name.is_empty() {
            wrong.add(at.field("name"), "missing; writes name it");
        }
        let after = match by_name.get(v.after.as_str()) {
            _ if v.after.is_empty() => None,
            Some(&before) => Some(before),
            None => {
                wrong.add(at.field("after"), format!("{:?} names no variable that stands before it", v.after));
                None
            }
        };
        if by_name.insert(v.name.as_str(), i).is_some() {
            wrong.add(at.field("name"), format!("{:?} is another's already; must be unique", v.name));
        }
        let sequence = sequence(&at, v, wrong);
        variables.push(Variable { sequence, after, limit: v.limit, per_worker: v.per_worker });
    }
    let mut writes = Vec::new();
    for (i, w) in program.writes.iter().enumerate() {
        let Some(&variable) = by_name.get(w.variable.as_str()) else {
            wrong.add(
                at.field("program.writes").index(i).field("variable"),
                format!("{:?} is no variable of it", w.variable),
            );
            continue;
        };
        writes.push(Write {
            variable,
            offset: w.offset as usize,
            size: w.size as usize,
            add: w.add,
            shift: w.shift,
            mask: w.mask,
            little_endian: w.little_endian,
        });
    }
    FieldProgram { variables, writes }
}

fn sequence(at: &FieldPath, v: &contract::Variable, wrong: &mut Violations) -> Sequence {
    match &v.kind {
        Some(variable::Kind::Counter(c)) => {
            Sequence::Counter { min: c.min, max: c.max, step: c.step, first: c.first, down: c.down }
        }
        Some(variable::Kind::Random(r)) => Sequence::Random { min: r.min, max: r.max, seed: r.seed },
        Some(variable::Kind::List(l)) => {
            if l.values.len() > MAX_VALUES {
                wrong.add(at.field("list.values"), format!("{} of them; must be at most {MAX_VALUES}", l.values.len()));
            }
            let order = match l.order() {
                ListOrder::Unspecified | ListOrder::Forward => spate_stateless::ListOrder::Forward,
                ListOrder::Backward => spate_stateless::ListOrder::Backward,
                ListOrder::Random => spate_stateless::ListOrder::Random,
            };
            Sequence::List { values: l.values.clone(), order, seed: l.seed }
        }
        None => {
            wrong.add(at, "has no values; set counter, random or list");
            Sequence::List { values: vec![0], order: spate_stateless::ListOrder::Forward, seed: 0 }
        }
    }
}

/// The variable that is the frame's length; a list of sizes becomes one more.
fn size(
    at: &FieldPath,
    stream: &contract::Stream,
    sizes: Option<&contract::Sizes>,
    program: &mut FieldProgram,
    wrong: &mut Violations,
) -> Option<usize> {
    let sizes = sizes?;
    let at = at.field("packet.sizes");
    match &sizes.kind {
        Some(sizes::Kind::Variable(name)) => {
            let declared = stream.program.as_ref().map_or(&[][..], |p| &p.variables);
            let found = declared.iter().position(|v| v.name == *name);
            if found.is_none() {
                wrong.add(at.field("variable"), format!("{name:?} is no variable of the program"));
            }
            found
        }
        Some(sizes::Kind::List(list)) => {
            let longest = stream.packet.as_ref().map_or(0, |p| p.frame.len());
            for (i, size) in list.sizes.iter().enumerate() {
                let at = at.field("list.sizes").index(i);
                if !(FRAME_BYTES.start()..=&longest).contains(&&(size.bytes as usize)) {
                    let wanted = format!("must be 60..{longest}, as long as the frame (without FCS)");
                    wrong.add(at.field("bytes"), format!("{}; {wanted}", size.bytes));
                }
                if size.weight == 0 {
                    wrong.add(at.field("weight"), "0; must be at least 1");
                }
            }
            let weights: Vec<u64> = list.sizes.iter().map(|s| u64::from(s.weight)).collect();
            let divisor = weights.iter().fold(0, |a, &b| gcd(a, b)).max(1);
            let weights: Vec<u64> = weights.iter().map(|w| w / divisor).collect();
            if weights.is_empty() {
                wrong.add(at.field("list.sizes"), "none; must be at least one");
                return None;
            }
            if weights.iter().sum::<u64>() > MAX_VALUES as u64 {
                wrong
                    .add(at.field("list.sizes"), format!("weights sum up to more than {MAX_VALUES}; use rounder ones"));
                return None;
            }
            let bytes: Vec<u64> = list.sizes.iter().map(|s| u64::from(s.bytes)).collect();
            let order =
                if list.random { spate_stateless::ListOrder::Random } else { spate_stateless::ListOrder::Forward };
            let sequence = Sequence::List { values: spread(&bytes, &weights), order, seed: list.seed };
            program.variables.push(Variable { sequence, after: None, limit: 0, per_worker: false });
            Some(program.variables.len() - 1)
        }
        None => {
            wrong.add(at, "empty; set list or variable");
            None
        }
    }
}

/// Each value as often as its weight says, as far apart as can be (smooth weighted round-robin).
fn spread(values: &[u64], weights: &[u64]) -> Vec<u64> {
    let total: u64 = weights.iter().sum();
    let mut credit: Vec<i64> = vec![0; values.len()];
    let turn = |_| {
        credit.iter_mut().zip(weights).for_each(|(credit, &weight)| *credit += weight.cast_signed());
        // The first of those with most.
        let most = (0..values.len()).rev().max_by_key(|&i| credit[i]).unwrap_or(0);
        credit[most] -= total.cast_signed();
        values[most]
    };
    (0..total).map(turn).collect()
}

/// What keeps packets from being made, as of the plan.
pub(super) fn violation(at: &FieldPath, declared: usize, error: &TemplateError) -> Violation {
    let (field, description) = match error {
        TemplateError::FrameLength(_) => (at.field("packet.frame"), error.to_string()),
        TemplateError::Checksum { index, problem } => {
            (at.field("packet.checksums").index(*index), (*problem).to_owned())
        }
        TemplateError::Length { index, problem } => (at.field("packet.lengths").index(*index), (*problem).to_owned()),
        TemplateError::Size(problem) => (at.field("packet.sizes"), (*problem).to_owned()),
        // The one that was added for a list of sizes.
        TemplateError::Program(ProgramError::Variable { index, problem }) if *index >= declared => {
            (at.field("packet.sizes"), problem.clone())
        }
        TemplateError::Program(ProgramError::Variable { index, problem }) => {
            (at.field("program.variables").index(*index), problem.clone())
        }
        TemplateError::Program(ProgramError::Write { index, problem }) => {
            (at.field("program.writes").index(*index), problem.clone())
        }
        TemplateError::Program(error @ ProgramError::TooMany { what, .. }) => {
            (at.field("program").field(what), error.to_string())
        }
    };
    Violation { field, description }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_imix_is_spread_evenly() {
        let pattern = spread(&[64, 594, 1518], &[7, 4, 1]);
        assert_eq!(pattern.iter().filter(|&&s| s == 64).count(), 7);
        assert_eq!(pattern.iter().filter(|&&s| s == 1518).count(), 1);
        assert!(pattern.windows(3).all(|w| w.contains(&64)), "{pattern:?}");
    }
}
