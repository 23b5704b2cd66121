// SPDX-License-Identifier: Apache-2.0
//! Packet buffers go from stream to stream: whatever one held before, a packet has the bytes of its own stream.
use std::time::{Duration, Instant};

use spate_dpdk::Burst;
use spate_engine::datapath::{Blueprint, PollMode, PortDevice, RunState, Sequence, Template, Variable, Write};
use spate_engine::index::PortIndex;
use spate_net::Trailer;

use crate::setup::{MS, open, pps, spec, start, stream, turn};

/// Where a frame has the number of its stream, and what is behind it the stream's filling.
const NUMBER: usize = 14;
/// Where one stream has a random field.
const FIELD: usize = 500;

fn filled(id: usize, len: usize) -> Vec<u8> {
    let mut frame = vec![0x11 * id as u8; len];
    frame[..12].fill(2);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[NUMBER] = id as u8;
    frame
}

fn random(min: u64, max: u64) -> Vec<Variable> {
    vec![Variable { sequence: Sequence::Random { min, max, seed: 3 }, after: None, limit: 0, per_worker: false }]
}

#[test]
fn packets_have_their_own_payload_whatever_their_buffers_held() {
    let _turn = turn();
    let datapath = open(&[("out", PortDevice::Outlet)], 1, PollMode::Busy);
    let (mut queues, _registered) = datapath.outlet(PortIndex(0)).unwrap();
    let blueprint = |id, len| Blueprint { frame: filled(id, len), ..Blueprint::default() };
    let mut with_field = blueprint(3, 594);
    with_field.program.variables = random(0, u64::MAX);
    with_field.program.writes =
        vec![Write { variable: 0, offset: FIELD, size: 8, add: 0, shift: 0, mask: 0, little_endian: false }];
    let mut with_sizes = Blueprint { size: Some(0), flow: true, ..blueprint(2, 1514) };
    with_sizes.program.variables = random(60, 1514);
    let blueprints =
        [blueprint(1, 1514), with_sizes, with_field, Blueprint { flow: true, ..blueprint(4, 1514) }, blueprint(5, 60)];
    let streams = blueprints.iter().enumerate().map(|(index, blueprint)| {
        let mut stream = stream(index as u16, 0, None, 60, pps(20_000));
        stream.template = Template::new(blueprint).unwrap();
        stream
    });
    let run = start(&datapath, spec(9, 0, Some(500 * MS), streams.collect()));
    let (mut burst, since) = (Burst::new(), Instant::now());
    let mut seen = [0; 5];
    while run.state() != RunState::Complete || !burst.is_empty() {
        assert!(since.elapsed() < Duration::from_secs(20), "the run does not end");
        for index in 0..burst.receive(&mut queues[0]) {
            let packet = burst.head(index).to_vec();
            let id = usize::from(packet[NUMBER]);
            let blueprint = &blueprints[id - 1];
            let mut expected = blueprint.frame[..packet.len()].to_vec();
            assert!(blueprint.size.is_some() || packet.len() == blueprint.frame.len());
            if id == 3 {
                expected[FIELD..FIELD + 8].copy_from_slice(&packet[FIELD..FIELD + 8]);
            }
            if blueprint.flow {
                let trailer = Trailer::decode(&packet).expect("it has a trailer");
                assert_eq!((trailer.run_tag, trailer.stream, trailer.sequence), (9, id as u16 - 1, seen[id - 1]));
                let at = packet.len() - 16;
                expected[at..].copy_from_slice(&packet[at..]);
            }
            assert_eq!(packet, expected, "stream {id}");
            seen[id - 1] += 1;
        }
    }
    assert_eq!(seen, [10_000; 5]);
}
