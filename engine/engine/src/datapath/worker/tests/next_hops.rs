// SPDX-License-Identifier: Apache-2.0
//! A next hop that has another MAC in the middle of a run: which packets go there.
use spate_stateless::{Sequence, Variable, Write};

use super::*;
use crate::datapath::{
    cache::Cache,
    worker::{NewStreams, simulated::prebuilt},
};

const OLD: [u8; 6] = [2, 0, 0, 0, 0, 1];
const NEW: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Packets of the cache, if there is one.
const CACHED: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Stream {
    len: usize,
    /// Each packet has its number in byte 20.
    numbered: bool,
    cached: bool,
}

/// Packets that are all the same and short; that are the same and long; that differ; that are built before.
const STREAMS: [Stream; 4] = [
    Stream { len: 60, numbered: false, cached: false },
    Stream { len: 300, numbered: false, cached: false },
    Stream { len: 300, numbered: true, cached: false },
    Stream { len: 60, numbered: true, cached: true },
];

impl Stream {
    fn sent(self, mac: [u8; 6]) -> Arc<[SendStream]> {
        let mut frame = vec![7; self.len];
        frame[..6].copy_from_slice(&mac);
        let mut program = FieldProgram::default();
        if self.numbered {
            program.variables.push(Variable {
                sequence: Sequence::Counter { min: 0, max: 255, step: 1, first: 0, down: false },
                after: None,
                limit: 0,
                per_worker: false,
            });
            program.writes.push(Write {
                variable: 0,
                offset: 20,
                size: 1,
                add: 0,
                shift: 0,
                mask: 0,
                little_endian: false,
            });
        }
        let template = Template::new(&Blueprint { frame, program, ..Blueprint::default() }).unwrap();
        [SendStream { template, id: 7, index: StreamIndex(0) }].into()
    }

    fn prebuilt(self, streams: &[SendStream], share: WorkerShare) -> Option<Box<[Packet]>> {
        let cache = Cache { stream: "cached".into(), packets: CACHED, share };
        self.cached.then(|| prebuilt(&cache, &streams[0].template))
    }

    /// What a worker gets when the next hop has another MAC.
    fn moved(self, share: WorkerShare) -> Command<Simulated> {
        let known = self.sent(OLD);
        let streams: Arc<[SendStream]> = known
            .iter()
            .map(|known| SendStream { template: known.template.with_destination(NEW).unwrap(), ..known.clone() })
            .collect();
        let prebuilt = self.prebuilt(&streams, share);
        let prebuilt = prebuilt.map(|packets| (PortStreamIndex(0), Some(packets))).into_iter().collect();
        Command::Streams(SLOT, Box::new(NewStreams::new(PORT, &streams, self.cached, prebuilt)))
    }
}

fn share(worker: usize, workers: usize) -> WorkerShare {
    WorkerShare { first: worker as u64, stride: workers as u64 }
}

/// The stream's packets leave on port 0, 1000 a second.
fn run(of: Stream, workers: usize) -> Run {
    let world = World::new(workers, 1, 64, POLL_NS);
    let mut this = Run { world, workers, shares: Vec::new(), left: Vec::new() };
    let (send, timescale) = (of.sent(OLD), Arc::new(Timescale::new(0)));
    for worker in 0..workers {
        let timing = [StreamTiming::continuous(Some(rate((1000, SECOND))))].into_iter();
        let share = share(worker, workers);
        let built = |_: &_| {
            let packets = of.prebuilt(&send, share);
            Ok::<_, ()>(packets.map(Some).into_iter().collect())
        };
        let port = PortRun::new(PORT, &send, share, timing, 0, None, built).unwrap();
        let receive = receive(&RunOptions { workers, ..USUAL }, worker, &timescale, foreign());
        let share = RunShare::new(1, 0, 0, 0);
        let part = Part { port, share, replays: Vec::new(), receive, warmup_ns: 0, end_ns: 20 * MS };
        this.start(worker, &timescale, part);
    }
    this
}

/// The instant, the destination and the numbered byte of each packet that left.
fn left(run: &Run) -> Vec<(u64, [u8; 6], u8)> {
    run.left.iter().map(|(at, _, packet)| (*at, *packet.bytes().first_chunk().unwrap(), packet.bytes()[20])).collect()
}

/// The numbered byte of a worker's packet in its stream.
fn number(of: Stream, packet: u64, workers: u64) -> u8 {
    let repeats = CACHED as u64 * workers;
    match (of.numbered, of.cached) {
        (false, _) => 7,
        (true, false) => packet as u8,
        (true, true) => (packet % repeats) as u8,
    }
}

#[test]
fn packets_go_to_the_next_hops_other_mac_from_the_command_on_at_the_same_instants_and_with_the_same_bytes() {
    for of in STREAMS {
        for workers in [1, 2] {
            let mut run = run(of, workers);
            run.to(7 * MS + MS / 2);
            (0..workers).for_each(|worker| run.world.send(worker, of.moved(share(worker, workers))));
            run.until(SECOND);
            let expected: Vec<_> = (0..20)
                .map(|packet| (packet * MS, if packet < 8 { OLD } else { NEW }, number(of, packet, workers as u64)))
                .collect();
            assert_eq!(left(&run), expected, "{of:?}, {workers} workers");
            assert!(run.left.iter().all(|(.., packet)| packet.bytes().len() == of.len));
            let PhaseCounters { tx_packets, tx_dropped, late, .. } = run.counters().measured;
            assert_eq!((tx_packets, tx_dropped, late), (20, 0, 0));
        }
    }
}

#[test]
fn packets_that_wait_for_the_device_leave_as_they_were_built_and_those_after_them_for_the_other_mac() {
    for of in STREAMS {
        let mut run = run(of, 1);
        run.to(3 * MS);
        run.world.set_speed(0, PORT, Some(Speed { packet_ns: 1, ring: 0 }));
        run.to(5 * MS);
        run.world.send(0, of.moved(share(0, 1)));
        run.to(6 * MS);
        run.world.set_speed(0, PORT, None);
        run.until(SECOND);
        let left = left(&run);
        // The packet of 4 ms is in the burst already.
        let macs: Vec<_> = left.iter().map(|(_, mac, _)| *mac).collect();
        assert_eq!(macs, [vec![OLD; 5], vec![NEW; 15]].concat(), "{of:?}");
        let numbers: Vec<_> = left.iter().map(|(.., number)| *number).collect();
        assert_eq!(numbers, (0..20).map(|packet| number(of, packet, 1)).collect::<Vec<_>>());
    }
}
