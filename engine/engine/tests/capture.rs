// SPDX-License-Identifier: Apache-2.0
//! Live capture of a running engine, through its Unix socket and the command that people use.
mod serving;

use contract::engine_client::EngineClient;
use contract::{GetInfoRequest, RemoveRequest, StartRequest, StopRequest};
use pcap_file::pcap::PcapReader;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;
use tonic::transport::Channel;

use serving::{ENGINE, Engine, prepare};

fn capture(socket: &Path, arguments: &[&str]) -> Output {
    let connect = format!("unix:{}", socket.display());
    Command::new(ENGINE).args(["capture", "--connect", &connect]).args(arguments).output().unwrap()
}

/// UDP to port 53 and to port 80, 2000 packets a second each.
async fn start(client: &mut EngineClient<Channel>) {
    let frame = |port: u8| {
        let mut frame = vec![0u8; 96];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        frame[17] = 82;
        frame[22..24].copy_from_slice(&[64, 17]);
        frame[37] = port;
        frame
    };
    let stream = |id: u32, port: u8| contract::Stream {
        name: format!("to-{port}"),
        id,
        tx_port: "east".into(),
        rx_port: "east".into(),
        packet: Some(contract::Packet { frame: frame(port).into(), ..Default::default() }),
        measure: Some(contract::Measure { flow: true, ..Default::default() }),
        transmit: Some(contract::stream::Transmit::Continuous(contract::Continuous {
            rate: Some(contract::Rate {
                kind: Some(contract::rate::Kind::PacketsPerSecond(contract::Ratio { numerator: 2000, denominator: 1 })),
            }),
        })),
        ..Default::default()
    };
    let plan = contract::Plan {
        run_id: "r".into(),
        run_tag: 1,
        timing: Some(contract::Timing::default()),
        streams: vec![stream(1, 53), stream(2, 80)],
        ..Default::default()
    };
    prepare(client, &plan).await.unwrap();
    let now = client.get_info(GetInfoRequest {}).await.unwrap().into_inner().now_ns;
    client
        .start(StartRequest { run_id: "r".into(), at_ns: now + 50_000_000, ..StartRequest::default() })
        .await
        .unwrap();
}

#[tokio::test]
async fn packets_that_a_filter_takes_are_copied_whole_or_cut_and_wrong_requests_are_reported_why() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("spate.sock");
    let file = folder.path().join("out.pcap");
    let path = file.to_str().unwrap();
    let (_engine, mut client) = Engine::serve(&socket, "east").await;

    for (arguments, message) in [
        (&["--port", "west"][..], "port: \"west\" is no port of this engine; known are east"),
        (&["--port", "east", "--filter", "udp prot 53"], "filter: from character 5 on (\"prot 53\"): syntax error"),
    ] {
        let output = capture(&socket, &[arguments, &["--pcap", path]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(message), "{said}");
        assert!(!file.exists());
    }

    start(&mut client).await;
    for (direction, snap) in [("rx", 0), ("tx", 0), ("both", 42)] {
        let snap_length = snap.to_string();
        let arguments = ["--port", "east", "--filter", "udp port 53", "--direction", direction, "--max-packets", "500"];
        let output = capture(&socket, &[&arguments[..], &["--snap-length", &snap_length, "--pcap", path]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.contains("500 packets written") && said.contains(" 0 missed"),
            "{said}"
        );
        let mut reader = PcapReader::new(std::fs::File::open(&file).unwrap()).unwrap();
        let (mut count, mut first, mut last) = (0u32, None, Duration::ZERO);
        while let Some(packet) = reader.next_packet() {
            let packet = packet.unwrap();
            assert_eq!((packet.orig_len, packet.data.len()), (96, if snap == 0 { 96 } else { snap }));
            assert_eq!((packet.data[23], packet.data[37]), (17, 53));
            first.get_or_insert(packet.timestamp);
            last = last.max(packet.timestamp);
            count += 1;
        }
        // At 2000 a second each way, give or take a busy machine.
        let per_second = if direction == "both" { 4000.0 } else { 2000.0 };
        let seconds = (last - first.unwrap()).as_secs_f64();
        assert_eq!(count, 500);
        assert!((0.1..10.0).contains(&(seconds * per_second / 500.0)), "{seconds}");
    }

    client.stop(StopRequest { run_id: "r".into(), reason: "enough".into() }).await.unwrap();
    client.remove(RemoveRequest { run_id: "r".into() }).await.unwrap();
}
