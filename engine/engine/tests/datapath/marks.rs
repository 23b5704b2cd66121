// SPDX-License-Identifier: Apache-2.0
//! Streams without a trailer are recognized by their marks.
use spate_engine::datapath::{Blueprint, Mark, PollMode, PortDevice, RunState, StreamReceive, StreamSpec, Template};

use crate::setup::{MS, open, pps, spec, start, stream, turn, wait_for};

/// IPv4 or IPv6 behind a VLAN tag, with a mark.
fn marked(id: u16, rx_port: usize, mark: Mark) -> StreamSpec {
    let mut frame = vec![0; 80];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0]);
    match mark {
        Mark::Ipv4Identification(_) => {
            frame[16..28].copy_from_slice(&[8, 0, 0x45, 0, 0, 62, 0, 0, 0, 0, 64, 17]);
            frame[30..38].copy_from_slice(&[198, 18, 0, 1, 198, 19, 0, id as u8]);
        }
        Mark::Ipv6FlowLabel(_) => {
            frame[16..26].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 22, 17, 64]);
            frame[57] = id as u8;
        }
    }
    mark.write(&mut frame).unwrap();
    StreamSpec {
        template: Template::new(&Blueprint { frame, ..Blueprint::default() }).unwrap(),
        receive: StreamReceive { mark: Some(mark), ..StreamReceive::default() },
        ..stream(id, 0, Some(rx_port), 80, pps(20_000))
    }
}

#[test]
fn marked_streams_are_counted_by_packets_and_bytes() {
    let _turn = turn();
    for workers in [1, 2] {
        let datapath = open(&[("a", PortDevice::Loopback), ("b", PortDevice::Loopback)], workers, PollMode::Busy);
        let streams = vec![
            marked(1, 0, Mark::Ipv4Identification(1)),
            marked(2, 0, Mark::Ipv6FlowLabel(0xf_ffff)),
            // The same mark: counted with the first.
            marked(3, 0, Mark::Ipv4Identification(1)),
            marked(4, 1, Mark::Ipv4Identification(65_535)),
            // No mark and no trailer: foreign.
            StreamSpec { receive: StreamReceive::default(), ..marked(5, 0, Mark::Ipv4Identification(9)) },
        ];
        let run = start(&datapath, spec(3, 100 * MS, Some(500 * MS), streams));
        wait_for(&run, RunState::Complete, 5);
        let counters = run.counters();
        let read: Vec<_> = counters
            .iter()
            .map(|c| (c.warmup.rx_packets + c.measured.rx_packets, c.measured.misdirected > 0))
            .collect();
        assert_eq!(read, [(24_000, false), (12_000, false), (0, false), (12_000, true), (0, false)]);
        // By arrival, a mark does not contain the phase: those under way when the warm-up ends count for what comes after.
        assert!(counters[1].measured.rx_packets.abs_diff(10_000) < 200, "{:?}", counters[1]);
        assert_eq!(counters[1].measured.rx_bytes, counters[1].measured.rx_packets * 84);
        assert_eq!(datapath.port_counters()[0].foreign_packets, 12_000);
        run.remove();
    }
}

#[test]
fn a_mark_of_another_run_is_refused() {
    let _turn = turn();
    let datapath = open(&[("a", PortDevice::Loopback)], 1, PollMode::Busy);
    let one = datapath.prepare(spec(1, 0, None, vec![marked(1, 0, Mark::Ipv4Identification(7))])).unwrap();
    let again = || datapath.prepare(spec(2, 0, None, vec![marked(1, 0, Mark::Ipv4Identification(7))])).map(|_| ());
    let error = again().unwrap_err();
    assert_eq!(error.field.to_string(), "streams[0].measure.mark");
    assert!(error.problem.contains("run \"run-1\" too"), "{error}");
    one.remove();
    again().unwrap();
}
