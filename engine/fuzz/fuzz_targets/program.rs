// SPDX-License-Identifier: Apache-2.0
//! Any field program, checksums and lengths over any frame: refused, or compiled; and what is compiled writes packets whose
//! checksums hold, the same whether one worker sends them or two.
#![no_main]
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use spate_net::{Trailer, checksum};
use spate_stateless::{
    Blueprint, Checksum, ChecksumKind, FieldProgram, Frames, Lanes, Length, ListOrder, Numbers, Sequence, Template,
    Variable, WorkerShare, Write,
};

/// Packets compared.
const PACKETS: usize = 32;

#[derive(Arbitrary, Debug)]
struct Input {
    frame: Vec<u8>,
    pad: u8,
    checksums: Vec<Sum>,
    lengths: Vec<(u8, u8, u8)>,
    variables: Vec<Var>,
    writes: Vec<Place>,
    size: Option<u8>,
    flow: bool,
    from: u32,
}

#[derive(Arbitrary, Debug)]
struct Sum {
    crc: bool,
    offset: u8,
    start: u8,
    end: Option<u8>,
    pseudo_header_sum: u16,
    addresses: (u8, u8),
    length_minus: Option<u8>,
    zero_means_absent: bool,
}

#[derive(Arbitrary, Debug)]
struct Var {
    kind: Values,
    after: Option<u8>,
    limit: u16,
}

#[derive(Arbitrary, Debug)]
enum Values {
    Counter { min: u64, max: u64, step: u64, first: u64, down: bool },
    Random { min: u64, max: u64, seed: u64 },
    List { values: Vec<u64>, order: u8, seed: u64 },
}

#[derive(Arbitrary, Debug)]
struct Place {
    variable: u8,
    offset: u8,
    size: u8,
    add: u64,
    shift: i8,
    mask: u64,
    little_endian: bool,
}

impl Input {
    fn blueprint(&self) -> Blueprint {
        let mut frame = self.frame.clone();
        frame.resize(frame.len().max(60) + usize::from(self.pad), 0x5a);
        let sum = |s: &Sum| Checksum {
            kind: if s.crc { ChecksumKind::Crc32c } else { ChecksumKind::Internet },
            offset: s.offset.into(),
            start: s.start.into(),
            end: s.end.map(usize::from),
            pseudo_header_sum: s.pseudo_header_sum.into(),
            addresses: s.addresses.0.into()..s.addresses.1.into(),
            length_minus: s.length_minus.map(usize::from),
            zero_means_absent: s.zero_means_absent,
        };
        let variable = |v: &Var| Variable {
            sequence: match &v.kind {
                &Values::Counter { min, max, step, first, down } => Sequence::Counter { min, max, step, first, down },
                &Values::Random { min, max, seed } => Sequence::Random { min, max, seed },
                Values::List { values, order, seed } => Sequence::List {
                    values: values.clone(),
                    order: [ListOrder::Forward, ListOrder::Backward, ListOrder::Random][usize::from(order % 3)],
                    seed: *seed,
                },
            },
            after: v.after.map(usize::from),
            limit: v.limit.into(),
            per_worker: false,
        };
        let write = |w: &Place| Write {
            variable: w.variable.into(),
            offset: w.offset.into(),
            size: w.size.into(),
            add: w.add,
            shift: w.shift.into(),
            mask: w.mask,
            little_endian: w.little_endian,
        };
        let length = |&(offset, size, minus): &(u8, u8, u8)| Length {
            offset: offset.into(),
            size: size.into(),
            minus: minus.into(),
        };
        Blueprint {
            frame,
            checksums: self.checksums.iter().map(sum).collect(),
            lengths: self.lengths.iter().map(length).collect(),
            program: FieldProgram {
                variables: self.variables.iter().map(variable).collect(),
                writes: self.writes.iter().map(write).collect(),
            },
            size: self.size.map(usize::from),
            flow: self.flow,
        }
    }
}

/// Packets as they were written.
struct Written(Vec<(Vec<u8>, usize)>);

impl Frames for Written {
    fn frames<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8]> {
        self.0[first..].iter_mut().zip(lens).map(|(written, &len)| {
            let len = usize::from(len);
            *written = (vec![0xee; len.next_multiple_of(spate_stateless::PIECE)], len);
            &mut written.0[..]
        })
    }
}

/// The packets of one of several workers, from its `from`-th on.
fn packets(template: &Template, share: WorkerShare, from: u64, count: usize) -> Vec<Vec<u8>> {
    let mut written = Written(vec![(Vec::new(), 0); count]);
    let stamp = Trailer { run_tag: 7, stream: 1, sender: 0, measured: true, sequence: 0, timestamp: 99 };
    let numbers = Numbers { number: share.first + from * share.stride, sequence: from, count };
    template.write(&mut template.writer(share), &mut Lanes::new(), numbers, stamp, &mut written, 0);
    written
        .0
        .into_iter()
        .map(|(mut bytes, len)| {
            bytes.truncate(len);
            bytes
        })
        .collect()
}

fuzz_target!(|input: Input| {
    let blueprint = input.blueprint();
    let Ok(template) = Template::new(&blueprint) else { return };
    let from = u64::from(input.from);
    let whole = packets(&template, WorkerShare { first: 0, stride: 1 }, 2 * from, PACKETS);
    for packet in &whole {
        for sum in blueprint.checksums.iter().filter(|sum| sum.kind == ChecksumKind::Internet) {
            let end = sum.end.unwrap_or(packet.len());
            let length = sum.length_minus.map_or(0, |minus| (packet.len() - minus) as u64);
            let pseudo = u64::from(sum.pseudo_header_sum) + checksum::sum(&packet[sum.addresses.clone()]);
            let all = pseudo + (length & 0xffff) + (length >> 16) + checksum::sum(&packet[sum.start..end]);
            assert_eq!(checksum::fold(all), 0xffff, "{sum:?}");
        }
    }
    if !template.flow() {
        for first in 0..2 {
            let half = packets(&template, WorkerShare { first, stride: 2 }, from, PACKETS / 2);
            assert!(half.iter().eq(whole.iter().skip(first as usize).step_by(2)));
        }
    }
});
