// SPDX-License-Identifier: Apache-2.0
//! What the simulator writes of clients in tunnels, read by the standard's text alone: every packet is a G-PDU between the
//! client's gNB and the UPF, with its client's TEID of either way.
use std::{collections::BTreeMap, fs, process::Command};

use serde_json::json;

#[test]
fn every_packet_has_the_teid_of_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("plan.json"), folder.path().join("out.pcap"));
    // 16.0.0.1 to 16.0.0.4, 48.0.0.1, 172.16.0.10, 172.16.0.1; "hello".
    let plan = json!({
        "runId": "g", "profile": "p", "namespace": "n", "runTag": 9, "timing": {"durationNs": "1000000000"},
        "stateful": {
            "payloads": [{"bytes": "aGVsbG8="}, {"size": "3000"}],
            "pools": [
                {"first": "EAAAAQ==", "last": "EAAABA==", "gtpu": {
                    "local": "rBAACg==", "localCount": 2, "remote": "rBAAAQ==", "teid": 4096, "teidStep": 16,
                    "downlinkTeid": 1048576, "qfi": 9,
                }},
                {"first": "MAAAAQ==", "last": "MAAAAQ=="},
            ],
            "templates": [{
                "name": "web", "protocol": "TRANSPORT_PROTOCOL_TCP", "clientPort": "east", "serverPort": "west",
                "destinationPort": 80, "flowsPerSecond": {"numerator": "40", "denominator": "1"},
                "clients": [{"pool": 0, "weight": 1}], "servers": [{"pool": 1, "weight": 1}],
                "client": {"instructions": [{"send": {"payload": 0}}, {"receive": {"bytes": "3000"}}]},
                "server": {"instructions": [{"receive": {"bytes": "5"}}, {"send": {"payload": 1}}, {"waitForPeerClose": {}}]},
            }],
        },
    });
    fs::write(&input, plan.to_string()).unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_spate-engine"))
        .args(["simulate", "--plan", input.to_str().unwrap(), "--pcap", output.to_str().unwrap(), "--limit", "100000"])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let pcap = fs::read(output).unwrap();
    let (mut at, mut seen) = (24, BTreeMap::<(u8, u32, [u8; 4], [u8; 4], u8), u32>::new());
    let word = |at: usize| u32::from_be_bytes(pcap[at..at + 4].try_into().unwrap());
    let address = |at: usize| -> [u8; 4] { pcap[at..at + 4].try_into().unwrap() };
    while at < pcap.len() {
        let len = u32::from_le_bytes(pcap[at + 8..at + 12].try_into().unwrap()) as usize;
        let frame = at + 16;
        at = frame + len;
        // IPv4 and UDP between ports of which the second is GTP-U's; a G-PDU with a container, whose type and QFI follow.
        assert_eq!((word(frame + 12) >> 16, pcap[frame + 14], pcap[frame + 23]), (0x0800, 0x45, 17));
        assert_eq!((word(frame + 36) >> 16, word(frame + 42) >> 16), (2152, 0x34ff));
        assert_eq!(word(frame + 42) & 0xffff, len as u32 - 50);
        assert_eq!((word(frame + 50), pcap[frame + 54], word(frame + 54) & 0xffff), (0x85, 1, 0x0900));
        let client = if pcap[frame + 55] == 0x10 { frame + 58 + 12 } else { frame + 58 + 16 };
        assert_eq!(address(client)[..3], [16, 0, 0]);
        let key = (pcap[frame + 55], word(frame + 46), address(frame + 26), address(frame + 30), pcap[client + 3]);
        *seen.entry(key).or_default() += 1;
    }
    let upf = [172, 16, 0, 1];
    let of_client = |n: u8| {
        let (gnb, teid) = ([172, 16, 0, 10 + n % 2], 16 * u32::from(n));
        [(0x10, 4096 + teid, gnb, upf, 1 + n), (0, 1_048_576 + teid, upf, gnb, 1 + n)]
    };
    let mut expected: Vec<_> = (0..4).flat_map(of_client).collect();
    expected.sort_unstable();
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), expected);
    // Ten connections each, of at least SYN, data and FIN both ways.
    assert!(seen.values().all(|packets| *packets >= 30), "{seen:?}");
}
