// SPDX-License-Identifier: Apache-2.0
//! Connection records as people get them: from `run --records`, and from WatchRecords of a running engine.
mod serving;

use contract::instruction::Kind;
use contract::{
    ConnectionRecord, GetInfoRequest, Instruction, Payload, Plan, Pool, Program, Ratio, Receive, Records, RunState,
    Send, Side, StartRequest, Stateful, Template, Timing, TransportProtocol, WatchRecordsRequest, WatchStatsRequest,
    WatchStatsResponse, WeightedPool, payload,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use prost::Message;
use std::path::Path;
use std::process::{Command, Output};

use serving::{ENGINE, Engine, prepare};

const FLOWS: u64 = 200;

/// Connections on a loopback, as many in half a second, with a request of 100 bytes and a response of 2000.
fn plan(records: Option<Records>) -> Plan {
    let program = |kinds: Vec<Kind>| {
        let instructions = kinds.into_iter().map(|kind| Instruction { kind: Some(kind) }).collect();
        Some(Program { instructions, ..Program::default() })
    };
    let send = |payload| Kind::Send(Send { payload, wait: false });
    let receive = |bytes| Kind::Receive(Receive { bytes, clear: false });
    let payload = |size| Payload { content: Some(payload::Content::Size(size)), fields: vec![] };
    let pool = |name: &str, net: u8| Pool {
        name: name.into(),
        first: vec![net, 0, 0, 1].into(),
        last: vec![net, 0, 0, 99].into(),
        ..Pool::default()
    };
    Plan {
        run_id: "r".into(),
        run_tag: 1,
        timing: Some(Timing { duration_ns: 500_000_000, drain_ns: 1_000_000_000, ..Timing::default() }),
        stateful: Some(Stateful {
            payloads: vec![payload(100), payload(2000)],
            pools: vec![pool("clients", 16), pool("servers", 48)],
            templates: vec![Template {
                name: "web".into(),
                protocol: TransportProtocol::Tcp.into(),
                client_port: "l".into(),
                server_port: "l".into(),
                client: program(vec![send(0), receive(2000)]),
                server: program(vec![receive(100), send(1)]),
                destination_port: 80,
                flows_per_second: Some(Ratio { numerator: 2 * FLOWS, denominator: 1 }),
                clients: vec![WeightedPool { pool: 0, weight: 1 }],
                servers: vec![WeightedPool { pool: 1, weight: 1 }],
                ..Template::default()
            }],
            records,
            ..Stateful::default()
        }),
        ..Plan::default()
    }
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let path = folder.join("plan");
    std::fs::write(&path, plan(None).encode_to_vec()).unwrap();
    Command::new(ENGINE)
        .args(["run", "--port", "l=loopback", "--hugepages", "none", "--memory", "128M", "--output", "json", "--plan"])
        .arg(&path)
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn a_run_writes_what_it_is_told_to_and_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.parquet");
    let file = path.to_str().unwrap();
    let output = run(folder.path(), &["--records", file]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let result: WatchStatsResponse = serde_json::from_slice(&output.stdout).unwrap();
    let told = result.records.unwrap();
    assert_eq!((told.path.as_str(), told.written, told.left_out, told.problem.as_str()), (file, 2 * FLOWS, 0, ""));
    let rows =
        SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap().metadata().file_metadata().num_rows();
    assert_eq!(rows as u64, 2 * FLOWS);

    let again = run(folder.path(), &["--records", file]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(
        !again.status.success() && said.contains("stateful.records.path: ") && said.contains("exists already"),
        "{said}"
    );
    let none = run(folder.path(), &["--records", file, "--records-one-in", "0"]);
    assert_eq!(none.status.code(), Some(2));
}

#[tokio::test]
async fn records_are_told_until_the_run_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (_engine, mut client) = Engine::serve(&folder.path().join("spate.sock"), "l").await;
    let mut without = plan(None);
    (without.run_id, without.run_tag) = ("none".into(), 2);
    without.stateful.as_mut().unwrap().pools.iter_mut().for_each(|pool| {
        pool.first = [&[10][..], &pool.first[1..]].concat().into();
        pool.last = [&[10][..], &pool.last[1..]].concat().into();
    });
    prepare(&mut client, &without).await;
    let refused = client.watch_records(WatchRecordsRequest { run_id: "none".into() }).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    assert!(refused.message().contains("stateful.records"), "{refused}");

    prepare(&mut client, &plan(Some(Records { one_in: 1, ..Records::default() }))).await;
    let mut answers = client.watch_records(WatchRecordsRequest { run_id: "r".into() }).await.unwrap().into_inner();
    let at_ns = client.get_info(GetInfoRequest {}).await.unwrap().into_inner().now_ns + 50_000_000;
    client.start(StartRequest { run_id: "r".into(), at_ns }).await.unwrap();
    let (mut all, mut missed): (Vec<ConnectionRecord>, u64) = (Vec::new(), 0);
    while let Some(answer) = answers.message().await.unwrap() {
        all.extend(answer.records);
        missed = answer.missed;
    }
    assert_eq!((all.len() as u64, missed), (2 * FLOWS, 0));
    for record in &all {
        let (bytes, net) = if record.side() == Side::Client { ((100, 2000), 16) } else { ((2000, 100), 48) };
        assert_eq!((record.template.as_str(), record.end_reason.as_str(), record.udp), ("web", "closed", false));
        assert_eq!((record.sent_bytes, record.received_bytes, record.local_address[0]), (bytes.0, bytes.1, net));
        assert!(at_ns <= record.start_ns && record.start_ns <= record.established_ns, "{record:?}");
        assert!(record.established_ns <= record.first_byte_ns && record.first_byte_ns <= record.end_ns, "{record:?}");
    }
    let once = WatchStatsRequest { run_id: "r".into(), ..WatchStatsRequest::default() };
    let last = client.watch_stats(once).await.unwrap().into_inner().message().await.unwrap().unwrap();
    assert_eq!(last.run.unwrap().state(), RunState::Complete);
    assert_eq!(last.records.unwrap(), contract::RecordStats::default());
}
