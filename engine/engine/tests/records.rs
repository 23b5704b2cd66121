// SPDX-License-Identifier: Apache-2.0
//! Connection records as people get them: from `run --records`, and live from a running engine by WatchRecords and `records`.
mod serving;

use contract::engine_client::EngineClient;
use contract::instruction::Kind;
use contract::observer_client::ObserverClient;
use contract::{
    CaptureRequest, ConnectionRecord, GetInfoRequest, Instruction, PauseRequest, Payload, Plan, Pool, Program, Ratio,
    Receive, Records, RemoveRequest, ResetReceiversRequest, ResumeRequest, RunState, Send, Side, StartRequest,
    Stateful, StopRequest, Template, Timing, TransportProtocol, UpdateRequest, WatchRecordsRequest, WatchStatsRequest,
    WatchStatsResponse, WeightedPool, payload,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use prost::Message;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Status};

use serving::{ENGINE, Engine, channel, prepare, records_beside, unix};

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
        // What else runs on the machine makes none late.
        late_after_ns: 1_000_000_000,
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
fn a_run_writes_what_its_plan_asks_for_and_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.parquet");
    let file = path.to_str().unwrap();
    let output = run(folder.path(), &["--records", file]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let result: WatchStatsResponse = serde_json::from_slice(&output.stdout).unwrap();
    let records = result.records.unwrap();
    assert_eq!(
        (records.path.as_str(), records.written, records.omitted, records.problem.as_str()),
        (file, 2 * FLOWS, 0, "")
    );
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

/// Every connection is recorded, in no file unless one is given.
fn every(path: &str) -> Option<Records> {
    Some(Records { one_in: 1, path: path.into(), ..Records::default() })
}

/// The same plan for another run at other addresses, so that both can be there at once.
fn beside(mut plan: Plan, run_id: &str) -> Plan {
    (plan.run_id, plan.run_tag) = (run_id.into(), 2);
    plan.stateful.as_mut().unwrap().pools.iter_mut().for_each(|pool| {
        pool.first = [&[10][..], &pool.first[1..]].concat().into();
        pool.last = [&[10][..], &pool.last[1..]].concat().into();
    });
    plan
}

/// Starts run `r` and waits until it runs; since when, in ns since the epoch.
async fn start(client: &mut EngineClient<Channel>) -> i64 {
    let at_ns = client.get_info(GetInfoRequest {}).await.unwrap().into_inner().now_ns + 50_000_000;
    client.start(StartRequest { run_id: "r".into(), at_ns, ..StartRequest::default() }).await.unwrap();
    while counted(client).await.run.unwrap().state() == RunState::Armed {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    at_ns
}

/// Counters of run `r`.
async fn counted(client: &mut EngineClient<Channel>) -> WatchStatsResponse {
    let once = WatchStatsRequest { run_id: "r".into(), ..WatchStatsRequest::default() };
    client.watch_stats(once).await.unwrap().into_inner().message().await.unwrap().unwrap()
}

#[tokio::test]
async fn records_are_delivered_until_the_run_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("spate.sock");
    let (_engine, mut client) = Engine::serve(&socket, "l").await;
    let mut observer = ObserverClient::new(channel(&socket).await);
    let request = |run_id: &str| WatchRecordsRequest { run_id: run_id.into() };
    prepare(&mut client, &beside(plan(None), "none")).await.unwrap();
    let refused = observer.watch_records(request("none")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("spec.records"), "{refused}");

    prepare(&mut client, &plan(every(""))).await.unwrap();
    let refused = observer.watch_records(request("")).await.unwrap_err();
    assert!(refused.message().contains("must be one of none, r"), "{refused}");
    let mut answers = observer.watch_records(request("r")).await.unwrap().into_inner();
    let at_ns = start(&mut client).await;
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
    let last = counted(&mut client).await;
    assert_eq!(last.run.unwrap().state(), RunState::Complete);
    assert_eq!(last.records.unwrap(), contract::RecordStats { delivered: 2 * FLOWS, ..Default::default() });
    let refused = observer.watch_records(request("r")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("run \"r\" has ended"), "{refused}");
    assert!(refused.message().contains("in no file"), "{refused}");
}

#[tokio::test]
async fn records_that_nobody_reads_and_no_file_keeps_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("spate.sock");
    let (_engine, mut client) = Engine::serve(&socket, "l").await;
    prepare(&mut client, &plan(every(""))).await.unwrap();
    start(&mut client).await;
    let last = loop {
        let now = counted(&mut client).await;
        if now.run.as_ref().unwrap().state() == RunState::Complete {
            break now.records.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(last, contract::RecordStats { undelivered: 2 * FLOWS, ..Default::default() });
}

#[tokio::test]
async fn the_socket_of_records_is_its_owners_and_controls_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("spate.sock");
    let (_engine, mut client) = Engine::serve(&socket, "l").await;
    let records = records_beside(&socket);
    assert_eq!(std::fs::metadata(&records).unwrap().permissions().mode() & 0o777, 0o600);

    // It would go on for ever if watching renewed the lease.
    let mut endless = plan(every(""));
    (endless.timing.as_mut().unwrap().duration_ns, endless.lease_ns) = (0, 1_500_000_000);
    prepare(&mut client, &endless).await.unwrap();
    start(&mut client).await;
    let only = channel(&records).await;
    let mut not_here = EngineClient::new(only.clone());
    let run_id = || String::from("r");
    let refused: [(&str, Status); 11] = [
        ("GetInfo", not_here.get_info(GetInfoRequest {}).await.unwrap_err()),
        ("Prepare", not_here.prepare(tokio_stream::empty()).await.unwrap_err()),
        ("Start", not_here.start(StartRequest { run_id: run_id(), ..StartRequest::default() }).await.unwrap_err()),
        ("Update", not_here.update(UpdateRequest { run_id: run_id(), ..Default::default() }).await.unwrap_err()),
        ("Pause", not_here.pause(PauseRequest { run_id: run_id(), at_ns: 0 }).await.unwrap_err()),
        ("Resume", not_here.resume(ResumeRequest { run_id: run_id(), at_ns: 0 }).await.unwrap_err()),
        ("Stop", not_here.stop(StopRequest { run_id: run_id(), ..Default::default() }).await.unwrap_err()),
        ("Remove", not_here.remove(RemoveRequest { run_id: run_id() }).await.unwrap_err()),
        (
            "WatchStats",
            not_here.watch_stats(WatchStatsRequest { run_id: run_id(), ..Default::default() }).await.unwrap_err(),
        ),
        ("Capture", not_here.capture(CaptureRequest { port: "l".into(), ..Default::default() }).await.unwrap_err()),
        (
            "ResetReceivers",
            not_here
                .reset_receivers(ResetReceiversRequest { run_id: run_id(), ..Default::default() })
                .await
                .unwrap_err(),
        ),
    ];
    for (call, status) in refused {
        let named = format!("spate.engine.v1.Engine/{call} is not answered");
        assert!(status.code() == Code::PermissionDenied && status.message().starts_with(&named), "{status}");
    }
    assert_eq!(counted(&mut client).await.run.unwrap().state(), RunState::Running);

    let mut observer = ObserverClient::new(only);
    let mut first = observer.watch_records(WatchRecordsRequest { run_id: run_id() }).await.unwrap().into_inner();
    let mut ended = false;
    for _ in 0..100 {
        ended = observer.watch_records(WatchRecordsRequest::default()).await.is_err();
        if ended {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(ended, "the lease did not run out");
    while first.message().await.unwrap().is_some() {}
    let run = counted(&mut client).await.run.unwrap();
    assert!(run.end_reason.contains("lease"), "{run:?}");
}

#[tokio::test]
async fn a_lease_is_renewed_by_calls_that_name_its_run_only() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("spate.sock");
    let (_engine, mut client) = Engine::serve(&socket, "l").await;
    let mut endless = plan(None);
    (endless.timing.as_mut().unwrap().duration_ns, endless.lease_ns) = (0, 1_500_000_000);
    prepare(&mut client, &endless).await.unwrap();
    let state = |info: contract::GetInfoResponse| info.runs[0].state();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(
        state(client.get_info(GetInfoRequest {}).await.unwrap().into_inner()),
        RunState::Prepared,
        "it sends nothing"
    );
    start(&mut client).await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(counted(&mut client).await.run.unwrap().state(), RunState::Running, "its counters are asked for");
    }
    let mut info = client.get_info(GetInfoRequest {}).await.unwrap().into_inner();
    for _ in 0..100 {
        if state(info.clone()) == RunState::Complete {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let _ = client.capture(CaptureRequest { port: "none".into(), ..Default::default() }).await;
        let _ = client.stop(StopRequest { run_id: "another".into(), ..Default::default() }).await;
        info = client.get_info(GetInfoRequest {}).await.unwrap().into_inner();
    }
    assert_eq!(state(info.clone()), RunState::Complete, "GetInfo renews no lease");
    assert!(info.runs[0].end_reason.contains("lease"), "{info:?}");
}

#[tokio::test]
async fn callers_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("spate.sock");
    let (_engine, mut client) = Engine::serve(&socket, "l").await;
    prepare(&mut client, &plan(every(""))).await.unwrap();
    let mut observer = ObserverClient::new(channel(&records_beside(&socket)).await);
    let mut there = Vec::new();
    for _ in 0..4 {
        there.push(observer.watch_records(WatchRecordsRequest::default()).await.unwrap());
    }
    let refused = observer.watch_records(WatchRecordsRequest::default()).await.unwrap_err();
    assert!(refused.code() == Code::ResourceExhausted && refused.message().contains("4 callers"), "{refused}");
    there.pop();
    for _ in 0..100 {
        if observer.watch_records(WatchRecordsRequest::default()).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the place of a caller that went is not free");
}

/// The command, beside an engine.
fn records(socket: &Path, arguments: &[&str]) -> Child {
    Command::new(ENGINE)
        .args(["records", "--connect", &unix(&records_beside(socket))])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until it reports that it watches.
fn watches(child: &mut Child) {
    let said = child.stderr.as_mut().unwrap();
    // No further than the line: the rest is read later.
    let (mut line, mut byte) = (Vec::new(), [0]);
    while said.read(&mut byte).unwrap() > 0 && byte != *b"\n" {
        line.extend(byte);
    }
    assert_eq!(String::from_utf8(line).unwrap(), "records from now on");
}

#[tokio::test]
async fn the_command_prints_the_columns_of_files_and_ends_with_the_run_or_its_caller() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("spate.sock");
    let (_engine, mut client) = Engine::serve(&socket, "l").await;
    let path = folder.path().join("out.parquet");
    let named = Plan { run: "web-1".into(), ..plan(every(path.to_str().unwrap())) };
    prepare(&mut client, &named).await.unwrap();
    let unknown = records(&socket, &["--run", "x"]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(!unknown.status.success() && said.contains("run \"x\" is not known"), "{said}");

    let mut whole = [records(&socket, &[]), records(&socket, &["--run", "r", "--until-eof"])];
    let mut leaves = vec![records(&socket, &["--until-eof"]), records(&socket, &[])];
    whole.iter_mut().chain(&mut leaves).for_each(watches);
    drop(leaves[0].stdin.take());
    drop(leaves[1].stdout.take());
    assert!(leaves[0].wait().unwrap().success());
    start(&mut client).await;
    let reader_went = leaves.pop().unwrap().wait_with_output().unwrap();
    assert!(reader_went.status.success(), "{}", String::from_utf8_lossy(&reader_went.stderr));
    assert_eq!(counted(&mut client).await.run.unwrap().state(), RunState::Running);

    let mut seen = Vec::new();
    for mut child in whole {
        // Waiting closes it, which is no end for a reader without `until_eof`.
        let _open = child.stdin.take();
        let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && said.ends_with(&format!("{} records, 0 missed\n", 2 * FLOWS)), "{said}");
        seen.push(String::from_utf8(output.stdout).unwrap());
    }
    assert_eq!(seen[0], seen[1]);
    let file = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let facts = file.metadata().file_metadata().key_value_metadata().unwrap();
    let run = facts.iter().find(|fact| fact.key == "spate.run").unwrap();
    assert_eq!(run.value.as_deref(), Some("web-1"));
    let columns = file.metadata().file_metadata().schema_descr().columns().iter();
    let columns: BTreeSet<String> = columns.map(|column| column.name().to_owned()).collect();
    let mut ends = BTreeSet::new();
    for line in seen[0].lines() {
        let record: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        assert_eq!(record.keys().cloned().collect::<BTreeSet<_>>(), columns);
        assert_eq!(
            (&record["run"], &record["protocol"], &record["end_reason"]),
            (&"web-1".into(), &"tcp".into(), &"closed".into())
        );
        let (sent, net) = if record["side"] == "client" { (100, "16.0.0.") } else { (2000, "48.0.0.") };
        assert!(record["sent_bytes"] == sent && record["local_address"].as_str().unwrap().starts_with(net), "{line}");
        assert!(record["start"].as_i64() <= record["end"].as_i64() && record["established"].is_i64(), "{line}");
        ends.insert([&record["side"], &record["flow"]].map(ToString::to_string));
    }
    assert_eq!(ends.len() as u64, 2 * FLOWS);

    let ended = records(&socket, &["--run", "r"]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("has ended") && said.contains(path.to_str().unwrap()), "{said}");
}

/// The CPUs that this process may use.
fn own_cpus() -> BTreeSet<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// The CPUs that a process' threads may use: those of its workers, and those of all others.
fn cpus(process: u32) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let (mut workers, mut others) = (BTreeSet::new(), BTreeSet::new());
    for task in std::fs::read_dir(format!("/proc/{process}/task")).unwrap() {
        let task = task.unwrap();
        let thread = Pid::from_raw(task.file_name().to_str().unwrap().parse().unwrap());
        // Threads come and go.
        let (Ok(name), Ok(set)) = (std::fs::read_to_string(task.path().join("comm")), sched_getaffinity(thread)) else {
            continue;
        };
        let of = if name.starts_with("worker-") { &mut workers } else { &mut others };
        of.extend((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)));
    }
    (workers, others)
}

#[tokio::test]
async fn control_and_readers_keep_off_the_cpus_of_workers_if_there_are_others() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("spate.sock");
    let (engine, mut client) = Engine::serve(&socket, "l").await;
    prepare(&mut client, &plan(every(""))).await.unwrap();
    let mut reader = records(&socket, &["--until-eof"]);
    watches(&mut reader);
    let (workers, control) = cpus(engine.id());
    let left: BTreeSet<usize> = own_cpus().difference(&workers).copied().collect();
    let left = if left.is_empty() { workers.clone() } else { left };
    assert_eq!(workers.len(), 1);
    assert!(control.is_subset(&left), "{control:?} of {left:?}");
    assert_eq!(cpus(reader.id()).1, left);
    drop(reader.stdin.take());
    assert!(reader.wait().unwrap().success());
}

#[tokio::test]
async fn what_a_reader_is_too_slow_for_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("spate.sock");
    let (_engine, mut client) = Engine::serve(&socket, "l").await;
    let mut many = plan(every(""));
    many.timing.as_mut().unwrap().duration_ns = 2_000_000_000;
    many.stateful.as_mut().unwrap().templates[0].flows_per_second = Some(Ratio { numerator: 25_000, denominator: 1 });
    prepare(&mut client, &many).await.unwrap();
    let mut reads_late: Vec<Child> = (0..4).map(|_| records(&socket, &[])).collect();
    reads_late.iter_mut().for_each(watches);
    start(&mut client).await;
    while counted(&mut client).await.run.unwrap().state() != RunState::Complete {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let records = counted(&mut client).await.records.unwrap();
    let all = records.delivered + records.undelivered;
    assert!(records.undelivered > 0, "{records:?}");
    for child in reads_late {
        let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let lines = output.stdout.iter().filter(|&&byte| byte == b'\n').count() as u64;
        assert!(lines <= records.delivered && output.status.success(), "{lines} of {records:?}: {said}");
        let expected = format!("some are missed\n{lines} records, {} missed\n", all - lines);
        assert!(said.ends_with(&expected), "{lines} of {records:?}: {said}");
    }
}
