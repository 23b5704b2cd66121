// SPDX-License-Identifier: Apache-2.0
//! As many streams as a plan can have: an engine counts each by itself, in bounded memory, and refuses one more.
mod serving;

use contract::engine_client::EngineClient;
use contract::stream::Transmit;
use contract::{
    Bursts, GetInfoRequest, Measure, Packet, Plan, Rate, Ratio, RunState, StartRequest, Stream, Timing,
    WatchStatsRequest, WatchStatsResponse, rate,
};
use prost::Message;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tonic::Code;
use tonic::transport::Channel;

use serving::{ENGINE, Engine, prepare};

const STREAMS: usize = 65_536;
/// An engine takes at most this beside the memory that it has without a run.
const MAX_MEMORY_KIB: u64 = 512 << 10;

/// The packets that a stream sends, from 1 to 3, and their bytes without FCS, from 60 to 252.
fn packets(stream: usize) -> (u64, usize) {
    (1 + stream as u64 % 3, 60 + stream % 193)
}

/// A plan of this many streams of a loopback. They start one after another within a second.
fn plan(streams: usize) -> Plan {
    let stream = |i: usize| {
        let (packets, len) = packets(i);
        let mut frame = vec![0; len];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        // A local experimental Ethertype (IEEE 802), and the stream's number.
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        frame[14..18].copy_from_slice(&(i as u32).to_be_bytes());
        let rate = Ratio { numerator: 10, denominator: 1 };
        Stream {
            name: format!("a-stream-of-many-{i:05}"),
            id: i as u32,
            tx_port: "l".into(),
            rx_port: "l".into(),
            packet: Some(Packet { frame: frame.into(), ..Packet::default() }),
            transmit: Some(Transmit::Bursts(Bursts {
                rate: Some(Rate { kind: Some(rate::Kind::PacketsPerSecond(rate)) }),
                packets,
                count: 1,
                gap_ns: 0,
            })),
            measure: Some(Measure { flow: true, ..Measure::default() }),
            start_delay_ns: 15_000 * i as u64,
            ..Stream::default()
        }
    };
    Plan {
        run_id: "many".into(),
        run_tag: 1,
        timing: Some(Timing { duration_ns: 4_000_000_000, drain_ns: 500_000_000, ..Timing::default() }),
        // What else runs on the machine makes none late.
        late_after_ns: 10_000_000_000,
        streams: (0..streams).map(stream).collect(),
        ..Plan::default()
    }
}

async fn counters(client: &mut EngineClient<Channel>) -> WatchStatsResponse {
    let once = WatchStatsRequest { run_id: "many".into(), ..WatchStatsRequest::default() };
    client.watch_stats(once).await.unwrap().into_inner().message().await.unwrap().unwrap()
}

/// The greatest resident memory that a process has had, in KiB (proc_pid_status(5)).
fn peak_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn each_of_65536_streams_is_sent_received_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, client) = Engine::serve(&folder.path().join("spate.sock"), "l").await;
    let mut client = client.max_decoding_message_size(64 << 20); // as the operator's
    let (before, start) = (peak_kib(engine.id()), Instant::now());
    let plan = plan(STREAMS);
    prepare(&mut client, &plan).await.unwrap();
    let prepared = (peak_kib(engine.id()), start.elapsed());

    let at_ns = client.get_info(GetInfoRequest {}).await.unwrap().into_inner().now_ns + 1_000_000_000;
    client.start(StartRequest { run_id: "many".into(), at_ns, ..StartRequest::default() }).await.unwrap();
    let last = loop {
        let now = counters(&mut client).await;
        match now.run.as_ref().unwrap().state() {
            RunState::Complete => break now,
            RunState::Armed | RunState::Running | RunState::Draining => {}
            other => panic!("the run is {other:?}"),
        }
        assert!(start.elapsed() < Duration::from_secs(60), "the run has not ended");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let peak = peak_kib(engine.id());
    println!(
        "plan of {} KiB; prepared in {:?} with {} KiB more memory; {} KiB more until the end; counters of {} KiB",
        plan.encoded_len() >> 10,
        prepared.1,
        prepared.0 - before,
        peak - before,
        last.encoded_len() >> 10,
    );
    assert!(peak - before <= MAX_MEMORY_KIB, "the run took {} KiB more than the {before} KiB before", peak - before);

    assert_eq!(last.streams.len(), STREAMS);
    for (i, (stream, asked)) in last.streams.iter().zip(&plan.streams).enumerate() {
        let (c, (packets, len)) = (stream.measured.as_ref().unwrap(), packets(i));
        let bytes = packets * (len as u64 + 4);
        assert_eq!(stream.name, asked.name);
        assert_eq!(
            (c.tx_packets, c.tx_bytes, c.rx_packets, c.rx_bytes, c.tx_dropped, c.missing, c.duplicates, c.out_of_order),
            (packets, bytes, packets, bytes, 0, 0, 0, 0),
            "{}",
            stream.name
        );
    }
    assert_eq!(last.ports[0].foreign_packets, 0);
}

#[tokio::test]
async fn one_stream_more_than_65536_is_refused_with_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (_engine, mut client) = Engine::serve(&folder.path().join("spate.sock"), "l").await;
    let refused = prepare(&mut client, &plan(STREAMS + 1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let message = refused.message();
    assert!(
        message.contains("streams: 65537 of them; must be at most 65536: divide them over several plans"),
        "{message}"
    );
}

/// The packets of a pcap file by the stream's number in them, and their bytes.
fn simulated(file: &[u8]) -> Vec<(u64, u64)> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut all) = (24, vec![(0, 0); STREAMS]);
    while at < file.len() {
        let (frame, len) = (at + 16, word(at + 8) as usize);
        let stream = u32::from_be_bytes(file[frame + 14..frame + 18].try_into().unwrap()) as usize;
        all[stream].0 += 1;
        all[stream].1 += len as u64;
        at = frame + len;
    }
    all
}

fn simulate(folder: &Path, workers: &str) -> Vec<(u64, u64)> {
    let (input, output) = (folder.join("plan"), folder.join("out.pcap"));
    std::fs::write(&input, plan(STREAMS).encode_to_vec()).unwrap();
    let done = Command::new(ENGINE)
        .args(["simulate", "--workers", workers, "--plan"])
        .arg(&input)
        .arg("--pcap")
        .arg(&output)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    simulated(&std::fs::read(output).unwrap())
}

#[test]
fn a_simulation_has_the_packets_of_each_of_65536_streams() {
    let folder = tempfile::tempdir().unwrap();
    for workers in ["1", "3"] {
        for (i, sent) in simulate(folder.path(), workers).into_iter().enumerate() {
            let (packets, len) = packets(i);
            assert_eq!(sent, (packets, packets * len as u64), "stream {i} by {workers} workers");
        }
    }
}
