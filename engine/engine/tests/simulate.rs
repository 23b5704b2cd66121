// SPDX-License-Identifier: Apache-2.0
//! The simulator writes what a plan says, and the same again: equal seeds give equal files, however many workers share it.
use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

/// A plan of one stream with a random source address and port.
fn plan(seed: u64, flow: bool) -> Value {
    let mut frame = vec![0u8; 60];
    frame[12] = 8;
    frame[14] = 0x45;
    frame[17] = 46;
    frame[23] = 17;
    frame[39] = 26;
    json!({
        "runId": "same", "profile": "p", "namespace": "n", "runTag": 9, "timing": {},
        "streams": [{
            "name": "s", "id": 1, "txPort": "p",
            "packet": {
                "frame": base64(&frame),
                "checksums": [{"offset": 24, "start": 14, "end": 34}],
            },
            "continuous": {"rate": {"packetsPerSecond": {"numerator": "1000000", "denominator": "1"}}},
            "measure": {"flow": flow},
            "program": {
                "variables": [
                    {"name": "a", "random": {"min": "268435456", "max": "301990142", "seed": seed.to_string()}},
                    {"name": "b", "random": {"min": "1025", "max": "65000", "seed": seed.to_string()}},
                ],
                "writes": [
                    {"variable": "a", "offset": 26, "size": 4},
                    {"variable": "b", "offset": 34, "size": 2},
                ],
            },
        }],
    })
}

/// Base64 of a multiple of 3 bytes.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (threes, rest) = bytes.as_chunks::<3>();
    assert!(rest.is_empty());
    let digits = |three: &[u8; 3]| {
        let word = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[(word >> shift & 63) as usize]))
    };
    threes.iter().flat_map(digits).collect()
}

/// The file that `simulate` writes.
fn simulate(folder: &Path, plan: &Value, workers: u32) -> Vec<u8> {
    let (input, output) = (folder.join("plan.json"), folder.join("out.pcap"));
    fs::write(&input, plan.to_string()).unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_spate-engine"))
        .arg("simulate")
        .arg("--plan")
        .arg(&input)
        .arg("--pcap")
        .arg(&output)
        .args(["--limit", "5000", "--workers", &workers.to_string()])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    fs::read(output).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_file_and_another_seed_another() {
    let folder = tempfile::tempdir().unwrap();
    for flow in [false, true] {
        let once = simulate(folder.path(), &plan(7, flow), 1);
        assert!(once.len() > 5000 * 60);
        assert_eq!(once, simulate(folder.path(), &plan(7, flow), 1));
        assert_ne!(once, simulate(folder.path(), &plan(8, flow), 1));
    }
}

#[test]
fn several_workers_send_the_packets_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let one = simulate(folder.path(), &plan(7, false), 1);
    for workers in [2, 3, 8] {
        assert_eq!(one, simulate(folder.path(), &plan(7, false), workers), "{workers} workers");
    }
}
