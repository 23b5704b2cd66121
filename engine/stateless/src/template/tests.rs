// SPDX-License-Identifier: Apache-2.0
//! What a template writes is what a plain reading of its blueprint says, byte for byte.
use super::*;
use crate::{Lanes, ListOrder, Sequence, Variable, Write};
use proptest::prelude::*;
use spate_net::{Trailer, checksum};

const TRAILER: Trailer =
    Trailer { run_tag: 7, stream: 3, sender: 1, measured: true, sequence: 0, timestamp: 0x1234_5678_9abc };

/// Packets as plain bytes.
#[derive(Default)]
struct Plain(Vec<(usize, Vec<u8>)>);

impl Frames for Plain {
    fn frames<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8]> {
        assert_eq!(first, self.0.len());
        let packet = |&len: &u16| (usize::from(len), vec![0xee; usize::from(len).next_multiple_of(PIECE)]);
        self.0.extend(lens.iter().map(packet));
        self.0[first..].iter_mut().map(|(_, bytes)| &mut bytes[..])
    }
}

/// Buffers that are used again and again, with their notes.
struct Reused(Vec<([u8; 256], u64)>);

impl Frames for Reused {
    fn frames<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8]> {
        self.noted(first, lens).map(|(frame, note)| {
            *note.expect("each has one") = 0;
            frame
        })
    }

    fn noted<'a>(
        &'a mut self,
        first: usize,
        lens: &'a [u16],
    ) -> impl Iterator<Item = (&'a mut [u8], Option<&'a mut u64>)> {
        self.0[first..]
            .iter_mut()
            .zip(lens)
            .map(|((bytes, note), &len)| (&mut bytes[..usize::from(len).next_multiple_of(PIECE)], Some(note)))
    }
}

fn packets(template: &Template, share: WorkerShare, count: usize) -> Vec<Vec<u8>> {
    let mut writer = template.writer(share);
    let mut plain = Plain::default();
    while plain.0.len() < count {
        let done = plain.0.len();
        let numbers = Numbers {
            number: share.first + done as u64 * share.stride,
            sequence: done as u64,
            count: (count - done).min(5),
        };
        let mut lanes = Lanes::new();
        template.write(&mut writer, &mut lanes, numbers, TRAILER, &mut plain, done);
        assert!(plain.0[done..].iter().map(|p| p.0).eq(lanes.lens()[..numbers.count].iter().map(|&len| len.into())));
    }
    plain.0.into_iter().map(|(len, bytes)| bytes[..len].to_vec()).collect()
}

fn whole() -> WorkerShare {
    WorkerShare { first: 0, stride: 1 }
}

fn internet(offset: usize, start: usize, end: Option<usize>) -> Checksum {
    Checksum {
        kind: ChecksumKind::Internet,
        offset,
        start,
        end,
        pseudo_header_sum: 0,
        addresses: 0..0,
        length_minus: None,
        zero_means_absent: false,
    }
}

fn ipv4() -> Checksum {
    internet(24, 14, Some(34))
}

fn udp() -> Checksum {
    Checksum {
        pseudo_header_sum: 17,
        addresses: 26..34,
        length_minus: Some(34),
        zero_means_absent: true,
        ..internet(40, 34, None)
    }
}

/// By the letter: values, writes bit by bit, lengths, trailer, checksums over all there is.
fn reference(b: &Blueprint, n: u64) -> Vec<u8> {
    let variables = Variables::new(&b.program.variables).unwrap();
    let mut cursor = Cursor::new(&variables, whole());
    let mut lanes = Lanes::new();
    cursor.fill(&variables, n, n, 1, &mut lanes.columns.values);
    let value = |v: usize| lanes.columns.values[v][0];
    let shortest = b.size.map_or(b.frame.len(), |v| (variables.bounds(v).0 as usize).clamp(60, b.frame.len()));
    let len = b.size.map_or(b.frame.len(), |v| (value(v).min(b.frame.len() as u64) as usize).max(shortest));
    let mut out = b.frame[..len].to_vec();
    for w in &b.program.writes {
        let shifted = value(w.variable).wrapping_add(w.add);
        let shifted = if w.shift >= 0 { shifted << w.shift } else { shifted >> -w.shift };
        for byte in 0..w.size {
            let place = if w.little_endian { byte } else { w.size - 1 - byte };
            let mask = (if w.mask == 0 { u64::MAX } else { w.mask } >> (8 * place)) as u8;
            let at = &mut out[w.offset + byte];
            *at = (*at & !mask) | ((shifted >> (8 * place)) as u8 & mask);
        }
    }
    if b.size.is_some() {
        for l in &b.lengths {
            let bytes = ((len - l.minus) as u16).to_be_bytes();
            out[l.offset..l.offset + l.size].copy_from_slice(&bytes[2 - l.size..]);
        }
    }
    if b.flow {
        out[len - 16..].copy_from_slice(&Trailer { sequence: n as u32, ..TRAILER }.encode());
    }
    for c in &b.checksums {
        let end = c.end.unwrap_or(len);
        if c.kind == ChecksumKind::Crc32c {
            out[c.offset..c.offset + 4].fill(0);
            let crc = crc32c::crc32c(&out[c.start..end]).to_le_bytes();
            out[c.offset..c.offset + 4].copy_from_slice(&crc);
            continue;
        }
        out[c.offset..c.offset + 2].fill(0);
        let mut all = out[c.addresses.clone()].to_vec();
        all.extend(&out[c.start..end]);
        let length = c.length_minus.map_or(0, |m| (len - m) as u64);
        let sum = !checksum::fold(u64::from(c.pseudo_header_sum) + length + checksum::sum(&all));
        let sum = if sum == 0 && c.zero_means_absent { 0xffff } else { sum };
        out[c.offset..c.offset + 2].copy_from_slice(&sum.to_be_bytes());
    }
    out
}

prop_compose! {
    fn any_variable()(kind in 0..3, a: u64, b: u64, small in 0u64..300, step in 1u64..1000, down: bool, seed: u64) -> Variable {
        let (min, max) = (a.min(b), a.max(b));
        let sequence = match kind {
            0 => Sequence::Counter { min, max, step, first: min, down },
            1 => Sequence::Random { min, max, seed },
            _ => Sequence::List { values: vec![a, b, small], order: ListOrder::Forward, seed },
        };
        Variable { sequence, after: None, limit: 0, per_worker: false }
    }
}

prop_compose! {
    fn any_write(reach: usize)(variable in 0usize..3, at in 0usize..reach, size in prop::sample::select(vec![1usize, 2, 3, 4, 6, 8]),
        add in prop::sample::select(vec![0u64, 1, u64::MAX]), shift in -20i32..20, mask in prop::option::of(any::<u64>()),
        little_endian: bool) -> Write {
        Write { variable, offset: at.min(reach - size), size, add, shift, mask: mask.unwrap_or(0), little_endian }
    }
}

prop_compose! {
    fn any_blueprint()(extra in 0usize..80)
        (frame in prop::collection::vec(any::<u8>(), 76 + extra), mut variables in prop::collection::vec(any_variable(), 3),
         writes in prop::collection::vec(any_write(60), 0..5), shortest in 76u64..90, seed in any::<u64>(),
         crc in any::<bool>(), fixed_end in any::<bool>(), flow in any::<bool>(), sized in any::<bool>()) -> Blueprint {
        let size = sized.then(|| {
            let sequence = Sequence::Random { min: shortest, max: 170, seed };
            variables.push(Variable { sequence, after: None, limit: 0, per_worker: false });
            3
        });
        let mut udp = udp();
        if fixed_end && !sized {
            udp.end = Some(frame.len() - 3);
        }
        let mut checksums = vec![ipv4(), udp];
        if crc {
            checksums.insert(0, Checksum { kind: ChecksumKind::Crc32c, ..internet(44, 42, None) });
        }
        let lengths = vec![Length { offset: 16, size: 2, minus: 14 }, Length { offset: 38, size: 2, minus: 34 }];
        // What would be written over a field that is kept true is refused: not here.
        let writes = writes
            .into_iter()
            .filter(|w: &Write| [16..18, 24..26, 38..42, 44..48].iter().all(|f| w.offset >= f.end || w.offset + w.size <= f.start))
            .collect();
        Blueprint { frame, checksums, lengths, program: FieldProgram { variables, writes }, size, flow }
    }
}

proptest! {
    #[test]
    fn packets_are_what_the_blueprint_says(b in any_blueprint()) {
        let template = Template::new(&b).unwrap();
        for (n, packet) in packets(&template, whole(), 12).into_iter().enumerate() {
            prop_assert_eq!(packet, reference(&b, n as u64), "packet {}", n);
        }
    }

    #[test]
    fn packets_to_another_destination_are_those_of_a_blueprint_with_it_or_there_are_none(b in any_blueprint(), covered in 0usize..40) {
        const MAC: [u8; 6] = [2, 4, 6, 8, 10, 12];
        let mut b = b;
        if covered.is_multiple_of(4) {
            b.checksums.push(internet(50, covered, None));
        }
        let Ok(template) = Template::new(&b) else { return Ok(()) };
        let depends = b.program.writes.iter().any(|write| write.offset < 6 && write.size > 0)
            || b.checksums.iter().any(|checksum| checksum.start < 6);
        match template.with_destination(MAC) {
            Some(other) => {
                b.frame[..6].copy_from_slice(&MAC);
                prop_assert!(!depends || b.program.writes.iter().any(|write| write.mask != 0));
                for (n, packet) in packets(&other, whole(), 5).into_iter().enumerate() {
                    prop_assert_eq!(packet, reference(&b, n as u64), "packet {}", n);
                }
            }
            None => prop_assert!(depends),
        }
    }

    #[test]
    fn anything_is_refused_or_holds(mut b in any_blueprint(), offset in 0usize..300, start in 0usize..300, end in prop::option::of(0usize..300),
        a in 0usize..100, z in 0usize..100, minus in prop::option::of(0usize..200), write in any_write(200), at in 0usize..200) {
        b.checksums.push(Checksum { addresses: a..z, length_minus: minus, ..internet(offset, start, end) });
        b.program.writes.push(Write { offset: at, ..write });
        if let Ok(template) = Template::new(&b) {
            prop_assert_eq!(&packets(&template, whole(), 3)[2], &reference(&b, 2));
        }
    }
}

/// What a step of the test below does to buffers.
#[derive(Clone, Debug)]
enum Step {
    /// A burst of a stream.
    Write { stream: usize, count: usize },
    /// Another writer writes a whole packet, as flows and replays do.
    Overwrite,
    /// Another writer writes a packet of one piece.
    OverwritePiece,
}

proptest! {
    #[test]
    fn what_a_buffer_held_before_does_not_matter(
        streams in prop::collection::vec((any_blueprint(), any_write(150), 0usize..150), 1..4),
        steps in prop::collection::vec((prop_oneof![
            6 => (0usize..3, 1usize..4).prop_map(|(stream, count)| Step::Write { stream, count }),
            1 => Just(Step::Overwrite),
            1 => Just(Step::OverwritePiece),
        ], 0usize..4), 1..60),
        alike in prop::option::of(prop::collection::vec(any::<u8>(), 160)),
    ) {
        let mut streams: Vec<_> = streams.into_iter().map(|(mut b, write, at)| {
            if let Some(bytes) = &alike {
                let len = b.frame.len();
                b.frame.copy_from_slice(&bytes[..len]);
                b.flow &= at > 75;
            }
            // Behind the first piece, too, where it may be.
            let offset = at.min(b.frame.len() - write.size);
            b.program.writes.push(Write { offset, ..write });
            Template::new(&b).map(|template| (b.clone(), template)).unwrap_or_else(|_| {
                b.program.writes.pop();
                let template = Template::new(&b).unwrap();
                (b, template)
            })
        }).collect();
        Template::share_payloads(streams.iter_mut().map(|(_, template)| template));
        let mut writers: Vec<_> = streams.iter().map(|(_, template)| template.writer(whole())).collect();
        let mut sent = vec![0; streams.len()];
        let mut buffers = Reused(vec![([0; 256], 0); 5]);
        for (step, rotate) in steps {
            buffers.0.rotate_left(rotate);
            match step {
                Step::Write { stream, count } => {
                    let stream = stream % streams.len();
                    let (b, template) = &streams[stream];
                    let numbers = Numbers { number: sent[stream], sequence: sent[stream], count };
                    let mut lanes = Lanes::new();
                    template.write(&mut writers[stream], &mut lanes, numbers, TRAILER, &mut buffers, 0);
                    for (index, &len) in lanes.lens()[..count].iter().enumerate() {
                        let expected = reference(b, sent[stream] + index as u64);
                        prop_assert_eq!(&buffers.0[index].0[..usize::from(len)], &expected[..]);
                    }
                    sent[stream] += count as u64;
                }
                Step::Overwrite => buffers.0[0] = ([0xdd; 256], 0),
                Step::OverwritePiece => buffers.0[0].0[..PIECE].fill(0xdd),
            }
        }
    }
}

#[test]
fn a_payload_is_copied_once() {
    let template = Template::new(&Blueprint { frame: vec![1; 200], ..Blueprint::default() }).unwrap();
    let mut buffers = Reused(vec![([0; 256], 0)]);
    let write = |buffers: &mut Reused| {
        let numbers = Numbers { number: 0, sequence: 0, count: 1 };
        template.write(&mut template.writer(whole()), &mut Lanes::new(), numbers, TRAILER, buffers, 0);
    };
    write(&mut buffers);
    assert_eq!(buffers.0[0].0[..200], [1; 200]);
    // A writer may not do this without setting the note to 0: it shows what is written again.
    buffers.0[0].0.fill(2);
    write(&mut buffers);
    assert_eq!((&buffers.0[0].0[..PIECE], &buffers.0[0].0[PIECE..200]), (&[1; PIECE][..], &[2; 200 - PIECE][..]));
}

#[test]
fn templates_share_a_payload_that_one_has_the_beginning_of() {
    let frame = |len: usize, fill: fn(usize) -> u8| (0..len).map(|at| if at < PIECE { 9 } else { fill(at) }).collect();
    let new = |frame, flow| Template::new(&Blueprint { frame, flow, ..Blueprint::default() }).unwrap();
    let rising = |at: usize| at as u8;
    let mut all = [
        new(frame(100, rising), false),
        new(frame(150, rising), false),
        new(frame(150, |_| 7), false),
        new(frame(200, rising), false),
        new(frame(120, rising), true),
    ];
    Template::share_payloads(all.iter_mut());
    let mut buffers = Reused(vec![([0; 256], 0)]);
    let mut write = |index: usize| {
        let template: &Template = &all[index];
        let numbers = Numbers { number: 0, sequence: 0, count: 1 };
        template.write(&mut template.writer(whole()), &mut Lanes::new(), numbers, TRAILER, &mut buffers, 0);
        let copied = buffers.0[0].0[PIECE] != 0xff;
        // Shows what is written again.
        buffers.0[0].0[PIECE] = 0xff;
        copied
    };
    assert_eq!([3, 0, 1, 3, 2, 1, 0, 4].map(&mut write), [true, false, false, false, true, true, false, true]);
}

#[test]
fn a_checksum_among_the_addresses_of_another_is_summed_as_it_is_sent() {
    let b = Blueprint {
        frame: (0..100).collect(),
        // The second covers nothing of the first but by its addresses; both change with the trailer.
        checksums: vec![internet(60, 58, Some(100)), Checksum { addresses: 58..64, ..internet(16, 14, Some(40)) }],
        flow: true,
        ..Blueprint::default()
    };
    assert_eq!(packets(&Template::new(&b).unwrap(), whole(), 3)[2], reference(&b, 2));
}

#[test]
fn bits_written_twice_belong_to_the_last() {
    let variable = |value| Variable {
        sequence: Sequence::Counter { min: value, max: value, step: 1, first: value, down: false },
        after: None,
        limit: 0,
        per_worker: false,
    };
    let write =
        |variable, offset, size, mask| Write { variable, offset, size, add: 0, shift: 0, mask, little_endian: false };
    let b = Blueprint {
        frame: vec![0; 60],
        checksums: vec![ipv4()],
        program: FieldProgram {
            variables: vec![variable(0xaabb), variable(0xff)],
            writes: vec![write(0, 26, 2, 0), write(1, 27, 1, 0x0f)],
        },
        ..Blueprint::default()
    };
    let packet = packets(&Template::new(&b).unwrap(), whole(), 1).remove(0);
    assert_eq!(packet[26..28], [0xaa, 0xbf]);
    assert_eq!(checksum::fold(checksum::sum(&packet[14..34])), 0xffff);
}

#[test]
fn what_cannot_be_kept_true_is_refused() {
    let with = |b: Blueprint| Template::new(&b).unwrap_err().to_string();
    let plain = |len: usize, checksums: Vec<Checksum>| Blueprint {
        frame: vec![0; len],
        checksums,
        flow: true,
        ..Blueprint::default()
    };
    assert_eq!(with(plain(59, vec![])), "the frame has 59 bytes without FCS; it must have 60 to 9230");
    assert_eq!(
        with(plain(60, vec![internet(46, 34, Some(60))])),
        "checksums[0]: the field lies in the last 16 bytes, where the trailer goes: make the packet longer"
    );
    assert_eq!(
        with(plain(60, vec![internet(40, 34, Some(61))])),
        "checksums[0]: start..end must be a range of bytes inside of the (shortest) frame"
    );
    assert_eq!(
        with(plain(60, vec![internet(40, 34, None), internet(36, 34, None)])),
        "checksums[1]: an earlier checksum covers its field: put the innermost first"
    );
    assert_eq!(
        with(plain(60, vec![Checksum { addresses: 38..42, ..internet(40, 34, None) }])),
        "checksums[0]: the addresses must not reach into the checksum's own field"
    );
    let write = Write { variable: 0, offset: 43, size: 2, add: 0, shift: 0, mask: 0, little_endian: false };
    let mut b = plain(60, vec![]);
    b.program.writes.push(write);
    assert_eq!(with(b.clone()), "program.writes[0]: it names no variable of the program");
    b.program.variables.push(Variable {
        sequence: Sequence::Random { min: 0, max: 1, seed: 0 },
        after: None,
        limit: 0,
        per_worker: false,
    });
    assert_eq!(
        with(b),
        "program.writes[0]: bytes 43..45 reach behind byte 44 of the shortest packet, where the measurement trailer begins"
    );
}
