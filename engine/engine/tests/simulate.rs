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

/// The file that `simulate` writes, and the messages it prints.
fn messages(folder: &Path, plan: &Value, workers: u32) -> (Vec<u8>, String) {
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
    let messages = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{messages}");
    (fs::read(output).unwrap(), messages)
}

fn simulate(folder: &Path, plan: &Value, workers: u32) -> Vec<u8> {
    messages(folder, plan, workers).0
}

/// A plan of one template: for a second, ten clients a second ask each with a payload for one of 65,507 bytes, and each side tries
/// for a second more.
fn of_template(sides: &[&str], protocol: &str) -> Value {
    let (sends, receives) = match protocol {
        "TCP" => (json!({"send": {"payload": 0}}), json!({"receive": {"bytes": "65507"}})),
        _ => (json!({"sendMessage": {"payload": 0}}), json!({"receiveMessages": {"messages": "1"}})),
    };
    let mut template = json!({
        "name": "web", "protocol": format!("TRANSPORT_PROTOCOL_{protocol}"), "destinationPort": 80,
        "servers": [{"pool": 1, "weight": 1}],
    });
    for side in sides {
        let instructions = if *side == "client" { [&sends, &receives] } else { [&receives, &sends] };
        template[*side] = json!({"instructions": instructions});
        template[format!("{side}Port")] = json!(side);
    }
    if sides.contains(&"client") {
        template["clients"] = json!([{"pool": 0, "weight": 1}]);
        template["flowsPerSecond"] = json!({"numerator": "10", "denominator": "1"});
    }
    json!({
        "runId": "t", "profile": "p", "namespace": "n", "runTag": 9,
        "timing": {"durationNs": "1000000000", "drainNs": "1000000000"},
        "stateful": {
            "payloads": [{"size": "65507"}],
            "pools": [{"first": "EAAAAQ==", "last": "EAAABA=="}, {"first": "MAAAAQ==", "last": "MAAAAQ=="}],
            "templates": [template],
        },
    })
}

/// The packets of a file: when, in nanoseconds, and their bytes.
fn packets(file: &[u8]) -> Vec<(u64, &[u8])> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut all) = (24, Vec::new());
    while at < file.len() {
        let end = at + 16 + word(at + 8) as usize;
        all.push((u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4)), &file[at + 16..end]));
        at = end;
    }
    all
}

#[test]
fn clients_of_real_servers_send_syns_and_send_them_again_until_the_drain_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = messages(folder.path(), &of_template(&["client"], "TCP"), 1);
    let all = packets(&file);
    // Ten SYNs of ports of their own, each again a second later.
    assert!(all.iter().all(|(_, frame)| frame[47] & 0x3f == 2));
    let mut ports: Vec<_> = all.iter().map(|(_, frame)| &frame[26..38]).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!((all.len(), ports.len()), (20, 10));
    assert!(all.is_sorted_by_key(|(at, _)| *at) && all[19].0 < 2_000_000_000, "{}", all[19].0);
}

#[test]
fn the_longest_datagrams_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = messages(folder.path(), &of_template(&["client", "server"], "UDP"), 1);
    assert_eq!(packets(&file).iter().map(|(_, frame)| frame.len()).collect::<Vec<_>>(), [65_549; 20]);
}

#[test]
fn where_nothing_is_written_it_is_said_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut paused = of_template(&["client"], "TCP");
    paused["stateful"]["templates"][0]["paused"] = json!(true);
    let mut disabled = plan(7, false);
    disabled["streams"][0]["disabled"] = json!(true);
    let cases = [
        (of_template(&["server"], "TCP"), "have servers only"),
        (paused, "is paused or disabled"),
        (disabled, "is paused or disabled"),
    ];
    for (plan, why) in cases {
        let (file, messages) = messages(folder.path(), &plan, 1);
        assert_eq!(file.len(), 24);
        assert!(messages.starts_with("0 packets written to ") && messages.contains(why), "{messages}");
    }
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

/// A plan with a warm-up of 100 ms and three stages, of 500, 600 and 400 ms: at half of its rates, at all of them after a ramp of 200 ms, and
/// at a quarter.
fn staged(mut plan: Value) -> Value {
    let stage = |ms: u64, ramp_ms: u64, denominator: u64| {
        let factor = json!({"numerator": "1", "denominator": denominator.to_string()});
        json!({"durationNs": (ms * 1_000_000).to_string(), "rampNs": (ramp_ms * 1_000_000).to_string(), "rateFactor": factor})
    };
    plan["timing"]["warmupNs"] = json!("100000000");
    plan["timing"]["durationNs"] = json!("1500000000");
    plan["timing"]["stages"] = json!([stage(500, 0, 2), stage(600, 200, 1), stage(400, 0, 4)]);
    plan
}

/// Runs a plan whole, and returns its packets and what it prints of each stage: name, packets of streams, flows.
fn stages(folder: &Path, plan: &Value, workers: u32) -> (Vec<u8>, Vec<[String; 3]>) {
    let (input, output) = (folder.join("plan.json"), folder.join("out.pcap"));
    fs::write(&input, plan.to_string()).unwrap();
    let mut simulate = Command::new(env!("CARGO_BIN_EXE_spate-engine"));
    simulate.arg("simulate").arg("--plan").arg(&input).arg("--pcap").arg(&output);
    let done = simulate.args(["--stage-name", "half", "--workers", &workers.to_string()]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let printed = String::from_utf8(done.stdout).unwrap();
    let row = |line: &str| {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        [0, 2, 3].map(|at| words[at].clone())
    };
    (fs::read(output).unwrap(), printed.lines().skip(1).map(row).collect())
}

#[test]
fn rates_of_stages_change_at_their_instants() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = staged(plan(7, false));
    plan["streams"][0]["continuous"]["rate"]["packetsPerSecond"]["numerator"] = json!("20000");
    let (one, printed) = stages(folder.path(), &plan, 1);
    // The ramp sends 3,000: two steps of 100 ms at 12,500 and 17,500.
    let expected = [["half", "5000", "0"], ["2", "11000", "0"], ["3", "2000", "0"]].map(|row| row.map(str::to_owned));
    assert_eq!(printed, expected);
    let gap = |at_us: u64| {
        let all = packets(&one);
        let after = all.partition_point(|(at, _)| *at < at_us * 1000);
        all[after + 1].0 - all[after].0
    };
    // The warm-up is at the rate of the first stage.
    let gaps = [0, 599_000, 600_000, 700_000, 800_000, 1_199_000, 1_200_000, 1_599_000].map(gap);
    assert_eq!(gaps, [100_000, 100_000, 80_000, 57_142, 50_000, 50_000, 200_000, 200_000]);
    for workers in [2, 5] {
        assert_eq!(stages(folder.path(), &plan, workers), (one.clone(), printed.clone()), "{workers} workers");
    }
}

#[test]
fn flows_of_stages_begin_at_their_rates() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = staged(of_template(&["client", "server"], "TCP"));
    plan["stateful"]["templates"][0]["flowsPerSecond"]["numerator"] = json!("200");
    plan["stateful"]["payloads"][0]["size"] = json!("100");
    plan["stateful"]["templates"][0]["server"]["instructions"][1] = json!({"send": {"payload": 0}});
    plan["stateful"]["templates"][0]["client"]["instructions"][1] = json!({"receive": {"bytes": "100"}});
    plan["stateful"]["templates"][0]["server"]["instructions"][0] = json!({"receive": {"bytes": "100"}});
    for workers in [1, 3] {
        let (file, printed) = stages(folder.path(), &plan, workers);
        let expected = [["half", "0", "50"], ["2", "0", "110"], ["3", "0", "20"]].map(|row| row.map(str::to_owned));
        assert_eq!(printed, expected, "{workers} workers");
        // SYNs of clients, by stage; before them those of the warm-up.
        let all = packets(&file);
        let syns: Vec<_> =
            all.iter().filter(|(_, frame)| frame[47] & 0x3f == 2).map(|(at, _)| at / 1_000_000).collect();
        let of_stage = |from: u64, to: u64| syns.iter().filter(|at| (from..to).contains(at)).count();
        assert_eq!([(0, 100), (100, 600), (600, 1200), (1200, 1600)].map(|(a, b)| of_stage(a, b)), [10, 50, 110, 20]);
    }
}
