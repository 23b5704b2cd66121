// SPDX-License-Identifier: Apache-2.0
//! What the simulator writes of clients in GRE, MPLS and GTP-U, read by the standards' text alone: every packet has the key, the labels or
//! the TEID of its client.
use std::{collections::BTreeMap, fs, process::Command};

use serde_json::{Value, json};

/// The frames that are written of clients 16.0.0.1 to 16.0.0.4 in such tunnels, and of a server, 48.0.0.1.
fn simulated(kind: &str, tunnels: Value) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("plan.json"), folder.path().join("out.pcap"));
    let mut clients = json!({"first": "EAAAAQ==", "last": "EAAABA=="});
    clients[kind] = tunnels;
    let plan = json!({
        "runId": "t", "profile": "p", "namespace": "n", "runTag": 9, "timing": {"durationNs": "1000000000"},
        "stateful": {
            "payloads": [{"bytes": "aGVsbG8="}, {"size": "3000"}],
            "pools": [clients, {"first": "MAAAAQ==", "last": "MAAAAQ=="}],
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
    let (mut at, mut frames) = (24, Vec::new());
    while at < pcap.len() {
        let len = u32::from_le_bytes(pcap[at + 8..at + 12].try_into().unwrap()) as usize;
        frames.push(pcap[at + 16..at + 16 + len].to_vec());
        at += 16 + len;
    }
    frames
}

/// The last byte of the client's address in an IPv4 packet, and whether it is from there.
fn client(packet: &[u8]) -> (u8, bool) {
    let up = packet[12..15] == [16, 0, 0];
    let client = if up { &packet[12..16] } else { &packet[16..20] };
    assert_eq!((packet[0], &client[..3]), (0x45, &[16, 0, 0][..]));
    (client[3], up)
}

/// Of each kind there are ten connections, of at least SYN, data and FIN.
fn assert_seen<K: Ord + Clone + std::fmt::Debug>(seen: &BTreeMap<K, u32>, expected: &[K]) {
    assert_eq!(seen.keys().cloned().collect::<Vec<_>>(), expected);
    assert!(seen.values().all(|packets| *packets >= 30), "{seen:?}");
}

#[test]
fn every_packet_in_gre_has_the_key_of_its_client() {
    // 172.16.0.10, 172.16.0.1.
    let ends = json!({"local": "rBAACg==", "localCount": 2, "remote": "rBAAAQ==", "key": 4096, "keyStep": 16});
    let mut seen = BTreeMap::new();
    for frame in simulated("gre", ends) {
        // IPv4 of GRE, with a key and nothing else, and IPv4.
        assert_eq!((&frame[12..15], frame[23], &frame[34..38]), (&[8, 0, 0x45][..], 47, &[0x20, 0, 8, 0][..]));
        let (client, up) = client(&frame[42..]);
        let key = u32::from_be_bytes(frame[38..42].try_into().unwrap());
        *seen.entry((client, up, key, frame[26..30].to_vec(), frame[30..34].to_vec())).or_default() += 1;
    }
    let remote = vec![172, 16, 0, 1];
    let of_client = |client: u8| {
        let (key, local) = (4096 + 16 * u32::from(client - 1), vec![172, 16, 0, 10 + (client - 1) % 2]);
        [(client, false, key, remote.clone(), local.clone()), (client, true, key, local, remote.clone())]
    };
    assert_seen(&seen, &(1..=4).flat_map(of_client).collect::<Vec<_>>());
}

#[test]
fn every_packet_in_labels_has_those_of_its_client() {
    let labels = json!({
        "local": "rBAACg==", "remote": "rBAAAQ==", "labels": [{"label": 100, "trafficClass": 5, "ttl": 9}, {"label": 1000}],
        "labelStep": 2, "downlinkLabel": 2000,
    });
    let mut seen = BTreeMap::new();
    for frame in simulated("mpls", labels) {
        let [outer, inner] = [14usize, 18].map(|at| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap()));
        // Label, traffic class, bottom of stack, TTL.
        assert_eq!((&frame[12..14], outer), (&[0x88, 0x47][..], 100 << 12 | 5 << 9 | 9));
        assert_eq!(inner & 0xfff, 0x100 | 64);
        let (client, up) = client(&frame[22..]);
        *seen.entry((client, up, inner >> 12)).or_default() += 1;
    }
    let of_client = |client: u8| {
        let n = 2 * u32::from(client - 1);
        [(client, false, 2000 + n), (client, true, 1000 + n)]
    };
    assert_seen(&seen, &(1..=4).flat_map(of_client).collect::<Vec<_>>());
}

/// Every packet is a G-PDU between the client's gNB and the UPF.
#[test]
fn every_packet_in_gtpu_has_the_teid_of_its_client() {
    // 172.16.0.10, 172.16.0.1.
    let ends = json!({
        "local": "rBAACg==", "localCount": 2, "remote": "rBAAAQ==", "teid": 4096, "teidStep": 16, "downlinkTeid": 1048576, "qfi": 9,
    });
    let mut seen = BTreeMap::new();
    for frame in simulated("gtpu", ends) {
        let word = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
        // IPv4 and UDP to GTP-U's port; a G-PDU with a container, followed by its type and QFI.
        assert_eq!((word(12) >> 16, frame[14], frame[23]), (0x0800, 0x45, 17));
        assert_eq!((word(36) >> 16, word(42) >> 16), (2152, 0x34ff));
        assert_eq!(word(42) & 0xffff, frame.len() as u32 - 50);
        assert_eq!((word(50), frame[54], word(54) & 0xffff), (0x85, 1, 0x0900));
        // An uplink or a downlink PDU session information.
        let (client, up) = client(&frame[58..]);
        assert_eq!(frame[55], if up { 0x10 } else { 0 });
        *seen.entry((client, up, word(46), frame[26..30].to_vec(), frame[30..34].to_vec())).or_default() += 1;
    }
    let upf = vec![172, 16, 0, 1];
    let of_client = |client: u8| {
        let (gnb, teid) = (vec![172, 16, 0, 10 + (client - 1) % 2], 16 * u32::from(client - 1));
        [(client, false, 1_048_576 + teid, upf.clone(), gnb.clone()), (client, true, 4096 + teid, gnb, upf.clone())]
    };
    assert_seen(&seen, &(1..=4).flat_map(of_client).collect::<Vec<_>>());
}
