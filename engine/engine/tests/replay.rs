// SPDX-License-Identifier: Apache-2.0
//! A replay simulated: the bytes and times of its capture, as the plan wants them, and what is wrong reported by name.
use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::{Value, json};

type Packets = Vec<(u64, Vec<u8>)>;

/// Packets of different lengths at uneven times: UDP, so that checksums can be fixed.
fn packets() -> Packets {
    let second = 1_700_000_000_000_000_000u64;
    (0..20u64)
        .map(|n| {
            let payload = 20 + n as usize * 7;
            let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
            frame.extend((28 + payload as u16).to_be_bytes());
            frame.extend([0, n as u8, 0, 0, 64, 17, 0x11, 0x22, 10, 0, 0, 1, 10, 0, 0, 2, 4, 0, 0, 9]);
            frame.extend((8 + payload as u16).to_be_bytes());
            frame.extend([0x33, 0x44]);
            frame.extend((0..payload).map(|i| (i * 3) as u8));
            (second + n * n * 1001, frame)
        })
        .collect()
}

/// A pcap file with times in nanoseconds.
fn pcap(packets: &Packets) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d, 2 | 4 << 16, 0, 0, 65_535, 1u32] {
        file.extend(word.to_le_bytes());
    }
    for (at_ns, bytes) in packets {
        let len = bytes.len() as u32;
        for word in [(at_ns / 1_000_000_000) as u32, (at_ns % 1_000_000_000) as u32, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(bytes);
    }
    file
}

fn read(file: &[u8]) -> Packets {
    let word = |at: usize| u64::from(u32::from_ne_bytes(file[at..at + 4].try_into().unwrap()));
    let (mut at, mut all) = (24, Vec::new());
    while at < file.len() {
        let len = word(at + 8) as usize;
        all.push((word(at) * 1_000_000_000 + word(at + 4), file[at + 16..at + 16 + len].to_vec()));
        at += 16 + len;
    }
    all
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }

    fn run(&self, replay: Value, more: Value, workers: u32) -> Output {
        let mut stream = json!({"name": "r", "id": 5, "txPort": "east", "replay": replay});
        stream.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.run_streams(json!([stream]), workers, 100)
    }

    fn run_streams(&self, streams: Value, workers: u32, limit: u32) -> Output {
        let plan = json!({
            "runId": "r", "profile": "p", "namespace": "n", "runTag": 9, "timing": {}, "streams": streams,
        });
        let plan = self.write("plan.json", plan.to_string().as_bytes());
        Command::new(env!("CARGO_BIN_EXE_spate-engine"))
            .args(["simulate", "--limit", &limit.to_string(), "--plan", &plan, "--pcap"])
            .arg(self.path("out.pcap"))
            .args(["--workers", &workers.to_string()])
            .output()
            .unwrap()
    }

    fn simulate(&self, replay: Value, more: Value, workers: u32) -> Packets {
        let done = self.run(replay, more, workers);
        self.written(&done)
    }

    fn written(&self, done: &Output) -> Packets {
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        read(&fs::read(self.path("out.pcap")).unwrap())
    }

    fn refused(&self, replay: Value, more: Value) -> String {
        let done = self.run(replay, more, 1);
        assert!(!done.status.success());
        String::from_utf8_lossy(&done.stderr).into_owned()
    }
}

fn as_captured(path: &str) -> Value {
    json!({"path": path, "scale": {"numerator": "1", "denominator": "1"}, "loops": "1"})
}

fn with(mut replay: Value, field: &str, value: Value) -> Value {
    let fields = replay.as_object_mut().unwrap();
    match field {
        "fixedNs" => fields.remove("scale"),
        "pcap" => fields.remove("path"),
        _ => None,
    };
    fields.insert(field.into(), value);
    replay
}

/// Times from the first packet's on.
fn offsets(packets: &Packets) -> Vec<u64> {
    packets.iter().map(|(at, _)| at - packets[0].0).collect()
}

#[test]
fn a_replay_has_the_bytes_and_times_of_its_capture_whoever_sends_it() {
    let folder = Folder::new();
    let packets = packets();
    let path = folder.write("a.pcap", &pcap(&packets));
    for workers in [1, 2, 7] {
        let sent = folder.simulate(as_captured(&path), json!({"startDelayNs": "500"}), workers);
        let wanted: Packets = offsets(&packets).iter().zip(&packets).map(|(at, p)| (500 + at, p.1.clone())).collect();
        assert_eq!(sent, wanted, "{workers} workers");
    }
}

#[test]
fn times_are_scaled_fixed_kept_apart_and_gone_through_again() {
    let folder = Folder::new();
    let packets = packets();
    let (path, captured) = (folder.write("a.pcap", &pcap(&packets)), offsets(&packets));
    let times = |replay| offsets(&folder.simulate(replay, json!({}), 2));

    let slow = with(as_captured(&path), "scale", json!({"numerator": "5", "denominator": "2"}));
    assert_eq!(times(slow), captured.iter().map(|at| at * 5 / 2).collect::<Vec<_>>());
    let fixed = with(as_captured(&path), "fixedNs", json!("777"));
    assert_eq!(times(fixed.clone()), (0..20).map(|n| n * 777).collect::<Vec<u64>>());

    let gaps = captured.windows(2).map(|w| (w[1] - w[0]).max(9009));
    let apart: Vec<u64> = std::iter::once(0)
        .chain(gaps.scan(0, |at, gap| {
            *at += gap;
            Some(*at)
        }))
        .collect();
    assert_eq!(times(with(as_captured(&path), "minGapNs", json!("9009"))), apart);

    let twice = times(with(as_captured(&path), "loops", json!("2")));
    let pass = captured[19] + captured[19] / 19;
    assert_eq!(twice, captured.iter().copied().chain(captured.iter().map(|at| at + pass)).collect::<Vec<_>>());
    let endless = folder.simulate(with(fixed, "loops", json!("0")), json!({}), 1);
    assert_eq!(endless.len(), 100);
    assert!(endless.iter().zip(packets.iter().cycle()).all(|(sent, packet)| sent.1 == packet.1));
}

/// Two packets, then a capture twice, then the two again; once more from the start on. A file that is too long to be held is read again.
#[test]
fn a_chain_goes_through_a_replay_and_back_whoever_sends_it() {
    let folder = Folder::new();
    let short: Packets = packets().into_iter().take(5).collect();
    let long: Packets = (0..9000u64).map(|n| (n * 100, vec![n as u8; 1000])).collect();
    for (captured, limit) in [(short, 30), (long, 40_000)] {
        let path = folder.write("a.pcap", &pcap(&captured));
        let frame = vec![7; 60];
        let burst = json!({
            "name": "b", "id": 1, "txPort": "east", "packet": {"frame": base64(&frame)}, "startDelayNs": "100",
            "bursts": {"rate": {"packetsPerSecond": {"numerator": "1000000", "denominator": "1"}}, "packets": "2", "count": "1"},
            "next": {"stream": "r"},
        });
        let replay = json!({
            "name": "r", "id": 5, "txPort": "east", "replay": with(as_captured(&path), "loops", json!("2")), "waits": true,
            "startDelayNs": "7", "next": {"stream": "b", "times": "1"},
        });
        let (offsets, mut at, mut wanted) = (offsets(&captured), 0, Vec::new());
        let last = *offsets.last().unwrap();
        let pass = last + last / (offsets.len() as u64 - 1);
        for _ in 0..2 {
            wanted.extend([(at + 100, frame.clone()), (at + 1100, frame.clone())]);
            at += 1107;
            for start in [at, at + pass] {
                wanted.extend(offsets.iter().zip(&captured).map(|(offset, packet)| (start + offset, packet.1.clone())));
            }
            at += pass + last;
        }
        for workers in [1, 3] {
            let done = folder.run_streams(json!([replay.clone(), burst.clone()]), workers, limit);
            let sent = folder.written(&done);
            assert_eq!(sent.len(), wanted.len(), "{workers} workers");
            assert!(sent == wanted, "{workers} workers");
        }
    }
}

#[test]
fn halves_of_a_capture_are_together_the_whole() {
    let folder = Folder::new();
    let mut packets = packets();
    for (_, frame) in packets.iter_mut().step_by(3) {
        frame[11] = 7;
        frame[29] = 9;
    }
    let path = folder.write("a.pcap", &pcap(&packets));
    let whole = folder.simulate(with(as_captured(&path), "loops", json!("3")), json!({"startDelayNs": "500"}), 2);
    assert_eq!(whole.len(), 60);
    for by in ["SPLIT_BY_MAC", "SPLIT_BY_IP"] {
        let sent = [false, true].map(|responder| {
            let half = with(as_captured(&path), "half", json!({"by": by, "responder": responder, "other": 5}));
            folder.simulate(with(half, "loops", json!("3")), json!({"startDelayNs": "500"}), 2)
        });
        assert_eq!(sent.each_ref().map(Vec::len), [21, 39]);
        let (mut together, mut wanted) = (sent.concat(), whole.clone());
        together.sort();
        wanted.sort();
        assert_eq!(together, wanted, "{by}");
    }
    let half = with(as_captured(&path), "half", json!({"by": "SPLIT_BY_INTERFACE", "responder": true}));
    let refused = folder.refused(half, json!({}));
    assert!(refused.contains("all 20 packets are of one interface (pcap has no more; pcapng has)"), "{refused}");
}

#[test]
fn a_capture_in_the_plan_is_as_one_in_a_file_and_beside_other_streams() {
    let folder = Folder::new();
    let file = pcap(&packets());
    let path = folder.write("a.pcap", &file);
    let bytes = with(as_captured(&path), "pcap", json!(base64(&file)));
    assert_eq!(folder.simulate(bytes, json!({}), 1), folder.simulate(as_captured(&path), json!({}), 1));
    // One that is too long to be held is read while it is sent.
    let long: Packets = (0..10_000u64).map(|n| (n * 100, vec![n as u8; 1000 + n as usize % 200])).collect();
    let path = folder.write("long.pcap", &pcap(&long));
    assert_eq!(folder.simulate(as_captured(&path), json!({}), 1), long[..100]);
}

#[test]
fn fields_and_trailers_are_written_into_packets_and_checksums_fixed() {
    let folder = Folder::new();
    let packets = packets();
    let path = folder.write("a.pcap", &pcap(&packets));
    let program = json!({
        "variables": [{"name": "a", "counter": {"min": "1", "max": "25", "step": "1", "first": "1"}}],
        "writes": [{"variable": "a", "offset": 30, "size": 4, "add": "0", "mask": "255"}],
    });
    let replay = with(with(as_captured(&path), "loops", json!("2")), "fixChecksums", json!(true));
    let more = json!({"program": program, "measure": {"flow": true}, "rxPort": "east"});
    let sent = folder.simulate(replay, more, 2);
    assert_eq!(sent.len(), 40);
    let mut sequences = Vec::new();
    for (n, (_, frame)) in sent.iter().enumerate() {
        let before = &packets[n % 20].1;
        let len = before.len();
        assert_eq!((frame.len(), frame[33]), (len, (n % 25) as u8 + 1));
        assert_eq!((&frame[..24], &frame[26..33], &frame[34..40]), (&before[..24], &before[26..33], &before[34..40]));
        assert_eq!(frame[42..len - 16], before[42..len - 16]);
        assert_eq!(sum(&frame[14..34], 0), 0xffff, "packet {n}");
        let pseudo = 17 + (len - 34) as u64;
        assert_eq!(sum(&frame[26..], pseudo), 0xffff, "packet {n}");
        let trailer = spate_net::Trailer::decode(frame).unwrap();
        assert_eq!((trailer.run_tag, trailer.stream), (9, 5));
        sequences.push(trailer.sequence);
    }
    assert_eq!(sequences, (0..40).collect::<Vec<_>>());
}

fn sum(bytes: &[u8], first: u64) -> u16 {
    spate_net::checksum::fold(spate_net::checksum::sum(bytes) + first)
}

#[test]
fn what_cannot_be_replayed_is_refused_by_its_field_and_packet() {
    let folder = Folder::new();
    let file = pcap(&packets());
    let path = folder.write("a.pcap", &file);
    let good = || as_captured(&path);
    let at = |name: &str, bytes: &[u8]| as_captured(&folder.write(name, bytes));
    let once = folder.write("once.pcap", &pcap(&vec![(7, vec![0; 60]); 3]));
    let nowhere = folder.path("nowhere.pcap");
    let next = json!({"next": {"stream": "r"}});
    let endless = with(good(), "loops", json!("0"));
    for (replay, more, message) in [
        (as_captured(nowhere.to_str().unwrap()), json!({}), ".replay.path: \"/"),
        (as_captured(nowhere.to_str().unwrap()), json!({}), "there is no such file on the engine"),
        (as_captured("/dev/zero"), json!({}), "it is no regular file"),
        (at("b", b"hello"), json!({}), "it is neither pcap nor pcapng"),
        (at("c", &file[..file.len() - 1]), json!({}), "packet 20: the file ends within it"),
        (at("d", &pcap(&vec![])), json!({}), "it has no packets"),
        (with(good(), "pcap", json!(base64(&file[..99]))), json!({}), "streams[0].replay.pcap: packet 1: the file"),
        (json!({"path": path, "loops": "1"}), json!({}), "streams[0].replay.gap: missing; set scale"),
        (json!({"fixedNs": "1"}), json!({}), "streams[0].replay.source: missing; set pcap or path"),
        (with(good(), "scale", json!({"numerator": "1"})), json!({}), "streams[0].replay.scale: must be greater"),
        (with(good(), "fixedNs", json!("0")), json!({}), "streams[0].replay.fixed_ns: 0; must be 1.."),
        (with(as_captured(&once), "loops", json!("9")), json!({}), "streams[0].replay.min_gap_ns: 0; must be greater"),
        (good(), json!({"packet": {"frame": ""}}), "streams[0].packet: cannot be combined with replay"),
        (good(), json!({"cache": 5}), "streams[0].cache: cannot be combined with replay"),
        (good(), json!({"waits": true}), "streams[0].waits: no stream's next starts \"r\""),
        (endless, next, "streams[0].next: nothing comes after a replay that has no end: set replay.loops"),
        (
            good(),
            json!({"program": {
                "variables": [{"name": "a", "random": {"min": "0", "max": "1"}}],
                "writes": [{"variable": "a", "offset": 61, "size": 2}],
            }}),
            "packet 1: it has 62 bytes, and program.writes[0] needs 63",
        ),
        (
            good(),
            json!({"measure": {"mark": {"ipv6FlowLabel": 5}}, "rxPort": "east"}),
            "packet 1: the packet's first IP header is not IPv6",
        ),
    ] {
        let error = folder.refused(replay, more);
        assert!(error.contains(message), "{message:?} is not in {error}");
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |part: &[u8]| {
        let byte = |i: usize| part.get(i).copied().unwrap_or(0);
        let word = u32::from_be_bytes([0, byte(0), byte(1), byte(2)]);
        let digit =
            |i: usize| if i > part.len() { '=' } else { char::from(DIGITS[(word >> (18 - 6 * i) & 63) as usize]) };
        (0..4).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(digits).collect()
}
