// SPDX-License-Identifier: Apache-2.0
//! Connection records of a run: the file has one for each end that has closed, and its sums are what the counters say.
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, PipeReader, Write},
    os::fd::AsRawFd,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::RowAccessor,
};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use spate_engine::datapath::{Datapath, PollMode, RecordsSpec, Run, RunSpec, RunState, TemplateCounters, Watch};
use spate_stateful::{Count, Protocol, Record, Scenario};

use crate::setup::{MS, start, start_soon, turn, wait_for};
use crate::stateful::{REQUEST, RESPONSE, emulated, loopback, over_v4, scenario, v6};

fn recorded(datapath: &Datapath, tag: u16, scenario: Scenario, records: RecordsSpec) -> RunSpec {
    let mut spec = emulated(datapath, tag, Some(500 * MS), scenario);
    spec.stateful.as_mut().unwrap().records = Some(records);
    spec
}

fn to(path: &Path) -> RecordsSpec {
    RecordsSpec { run: "named".into(), one_in: 1, path: Some(path.into()), most: 1_000_000, within_ns: 60_000 * MS }
}

/// One end of a connection, as it is in the file.
struct Row {
    client: bool,
    end: String,
    local: (String, u16),
    /// From the start to the end.
    times: [i64; 4],
    /// Bytes and packets, sent and received; what was sent again.
    counts: [u64; 5],
}

fn rows(path: &Path) -> Vec<Row> {
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let row = |row: parquet::record::Row| {
        assert_eq!((row.get_string(1).unwrap().as_str(), row.get_string(3).unwrap().as_str()), ("web", "tcp"));
        Row {
            client: row.get_string(2).unwrap() == "client",
            end: row.get_string(4).unwrap().clone(),
            local: (row.get_string(6).unwrap().clone(), row.get_ushort(7).unwrap()),
            times: [10, 11, 12, 13].map(|column| row.get_long(column).unwrap()),
            counts: [14, 15, 16, 17, 18].map(|column| row.get_ulong(column).unwrap()),
        }
    };
    file.get_row_iter(None).unwrap().map(|read| row(read.unwrap())).collect()
}

fn sum(rows: &[&Row], count: usize) -> u64 {
    rows.iter().map(|row| row.counts[count]).sum()
}

/// The file has all that the counters say; returns how many records it has.
fn assert_agrees(rows: &[Row], sides: &[TemplateCounters], started_at: i64) -> usize {
    for side in sides {
        let mine: Vec<_> = rows.iter().filter(|row| row.client == side.client).collect();
        assert_eq!((mine.len() as u64, side.get(Count::RecordsDropped)), (side.get(Count::FlowsClosed), 0));
        assert_eq!(sum(&mine, 0), side.get(Count::SentDataBytes));
        assert_eq!(sum(&mine, 1), side.get(Count::ReceivedDataBytes));
        assert_eq!(sum(&mine, 4), side.get(Count::RetransmittedPackets));
        for row in mine {
            let bytes = if side.client { [REQUEST, RESPONSE] } else { [RESPONSE, REQUEST] };
            assert_eq!((row.end.as_str(), &row.counts[..2]), ("closed", &bytes[..]));
            assert!(row.times.is_sorted() && row.times[0] >= started_at, "{:?} after {started_at}", row.times);
            assert!(row.times[3] < started_at + 3_000_000_000, "{:?} after {started_at}", row.times);
        }
    }
    rows.len()
}

#[test]
fn a_file_agrees_with_the_counters() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.parquet");
    let six = || scenario(Protocol::Tcp, 1000, [v6(1, 1), v6(1, 250)], [v6(2, 1), v6(2, 20)]);
    for (workers, scenario, of) in [(1, over_v4(Protocol::Tcp, 1000), "16.0.0."), (2, six(), "2001:db8")] {
        let datapath = loopback(workers, PollMode::Busy);
        let run = start(&datapath, recorded(&datapath, 7, scenario, to(&path)));
        assert!(!path.exists(), "it has its name when it is whole");
        wait_for(&run, RunState::Complete, 10);
        let rows = rows(&path);
        let started_at = run.started_at().unwrap() as i64;
        assert_eq!(assert_agrees(&rows, &run.template_counters(), started_at), 1000);
        let state = run.records().unwrap();
        assert_eq!((state.written, state.omitted, state.problem), (1000, 0, None));
        assert_eq!((state.delivered, state.undelivered), (0, 0), "the file has them");
        assert!(rows.iter().filter(|row| row.client).all(|row| row.local.0.starts_with(of) && row.local.1 >= 1024));
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_file_that_exists_is_refused_and_a_run_that_did_nothing_leaves_none() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.parquet");
    let datapath = loopback(1, PollMode::Adaptive);
    let spec = |tag| recorded(&datapath, tag, over_v4(Protocol::Tcp, 1000), to(&path));
    let run = datapath.prepare(spec(7)).unwrap();
    let refused = datapath.prepare(spec(8)).err().unwrap();
    // The addresses are the first run's too, which is reported before.
    assert_eq!(refused.field.to_string(), "stateful.templates[0].client_port");
    run.remove();
    while fs::read_dir(folder.path()).unwrap().count() > 0 {
        thread::sleep(Duration::from_millis(5));
    }
    fs::write(&path, "mine").unwrap();
    let refused = datapath.prepare(spec(9)).err().unwrap();
    assert_eq!((&*refused.field.to_string(), refused.exhausted), ("stateful.records.path", false));
    assert!(refused.problem.ends_with("exists already: give another path, or move it away"), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn a_folder_that_the_engine_may_not_write_is_reported_with_what_to_do() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.parquet");
    let datapath = loopback(1, PollMode::Adaptive);
    // Of another user, and requested without the capability that pods have not either.
    std::os::unix::fs::chown(folder.path(), Some(65_534), Some(65_534)).unwrap();
    let spec = recorded(&datapath, 7, over_v4(Protocol::Tcp, 1000), to(&path));
    let refused = thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let mut ours = capabilities(None).unwrap();
            ours.effective.remove(CapabilitySet::DAC_OVERRIDE);
            set_capabilities(None, ours).unwrap();
            datapath.prepare(spec).err().unwrap()
        });
        asked.join().unwrap()
    });
    assert_eq!((&*refused.field.to_string(), refused.exhausted), ("stateful.records.path", false));
    let problem = &refused.problem;
    for part in [path.to_str().unwrap(), "Permission denied", "owned by the engine's user", "writable by all"] {
        assert!(problem.contains(part), "{problem}");
    }
}

#[test]
fn a_file_is_bounded_and_what_is_cut_is_in_it() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.parquet");
    let datapath = loopback(1, PollMode::Busy);
    let most = RecordsSpec { most: 300, ..to(&path) };
    let mut spec = recorded(&datapath, 7, over_v4(Protocol::Tcp, 1000), most);
    // Nothing waits for what is open when the run ends.
    spec.timing.drain_ns = 0;
    let run = start(&datapath, spec);
    wait_for(&run, RunState::Complete, 10);
    let state = run.records().unwrap();
    assert_eq!((rows(&path).len(), state.written), (300, 300));
    let closed: u64 = run.template_counters().iter().map(|side| side.get(Count::FlowsClosed)).sum();
    assert_eq!(state.omitted, closed - 300);
}

/// Makes a volume hang that holds a file which is open here: what is written to it goes to a pipe that is full, until the reader
/// is dropped.
#[allow(unsafe_code, reason = "a system call that gives a number another file")]
fn hang(path: &Path) -> PipeReader {
    let (reader, mut writer) = io::pipe().unwrap();
    // So much a pipe takes (pipe(7)).
    writer.write_all(&[0; 1 << 16]).unwrap();
    let mut open = fs::read_dir("/proc/self/fd").unwrap().map(|fd| fd.unwrap().path());
    let file = open.find(|fd| fs::read_link(fd).is_ok_and(|to| to == path)).unwrap();
    let file = file.file_name().unwrap().to_str().unwrap().parse().unwrap();
    // SAFETY: it stays open, only what it writes to is another.
    assert_eq!(unsafe { libc::dup3(writer.as_raw_fd(), file, libc::O_CLOEXEC) }, file);
    reader
}

/// Threads of this process that write records.
fn writers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path().join("comm"));
    tasks.filter(|comm| fs::read_to_string(comm).is_ok_and(|name| name == "records\n")).count()
}

#[test]
fn a_volume_that_hangs_holds_no_run_open_and_what_it_does_later_is_no_harm() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let [path, partial] = ["records.parquet", "records.parquet.partial"].map(|name| folder.path().join(name));
    let datapath = loopback(1, PollMode::Busy);
    let spec = |tag| {
        let records = RecordsSpec { within_ns: 1000 * MS, ..to(&path) };
        recorded(&datapath, tag, over_v4(Protocol::Tcp, 1000), records)
    };
    let run = datapath.prepare(spec(7)).unwrap();
    let volume = hang(&partial);
    let watch = run.watch_records().unwrap();
    start_soon(&datapath, &run);
    wait_for(&run, RunState::Complete, 10);
    let (all, missed) = watched(&run, watch);
    assert_eq!((all.len(), missed), (1000, 0), "who watches needs no volume");
    let closed: u64 = run.template_counters().iter().map(|side| side.get(Count::FlowsClosed)).sum();
    assert_eq!((closed, run.drain_timed_out(), run.contradictions()), (1000, None, vec![]));
    let given_up = run.records().unwrap();
    let problem = "its volume did not take the data within 1 s after the run's end: it hangs or is too slow";
    assert_eq!(given_up.problem, Some(format!("{}: {problem}", partial.display())));
    assert_eq!((given_up.written, writers()), (0, 1));

    // The file's name may be another run's by the time at which the volume answers.
    run.remove();
    fs::remove_file(&partial).unwrap();
    let next = start(&datapath, spec(8));
    drop(volume);
    wait_for(&next, RunState::Complete, 10);
    assert_eq!((rows(&path).len(), next.records().unwrap().problem), (1000, None));
    let since = Instant::now();
    while writers() > 0 {
        assert!(since.elapsed() < Duration::from_secs(10), "a thread still writes");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(run.records().unwrap(), given_up);
}

fn watched(run: &Run, mut watch: Watch) -> (Vec<Record>, u64) {
    let mut all = Vec::new();
    while !watch.is_over() {
        match watch.take() {
            Some(batch) => all.extend(batch),
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
    assert_eq!(run.state(), RunState::Complete, "the end is reported with the run's");
    (all, watch.missed())
}

#[test]
fn records_are_delivered_as_they_come_also_without_a_file() {
    let _turn = turn();
    let datapath = loopback(1, PollMode::Busy);
    let only = RecordsSpec { run: "named".into(), one_in: 4, path: None, most: 0, within_ns: 0 };
    let run = start(&datapath, recorded(&datapath, 7, over_v4(Protocol::Tcp, 1000), only));
    let watch = run.watch_records().unwrap();
    assert_eq!(watch.templates(), ["web"]);
    let (all, missed) = watched(&run, watch);
    let state = run.records().unwrap();
    assert_eq!((missed, state.written, state.delivered, state.undelivered), (0, 0, all.len() as u64, 0));
    let mut ends: BTreeMap<_, usize> = BTreeMap::new();
    for record in &all {
        let client = if record.client { record.tuple.local } else { record.tuple.remote };
        let port = if record.client { record.tuple.local_port } else { record.tuple.remote_port };
        *ends.entry((client.0, port)).or_default() += 1;
    }
    assert!((70..=190).contains(&ends.len()), "one in four of 500: {}", ends.len());
    assert!(ends.values().all(|ends| *ends == 2), "both ends");
    assert!(watched(&run, run.watch_records().unwrap()).0.is_empty(), "after the end there are none");
}

#[test]
fn few_records_wait_for_a_watcher_however_long_they_take_to_come() {
    let _turn = turn();
    let datapath = loopback(1, PollMode::Busy);
    let every = RecordsSpec { run: "named".into(), one_in: 1, path: None, most: 0, within_ns: 0 };
    let run = start(&datapath, recorded(&datapath, 7, over_v4(Protocol::Tcp, 1000), every));
    let watch = run.watch_records().unwrap();
    wait_for(&run, RunState::Complete, 10);
    let (all, missed) = watched(&run, watch);
    assert_eq!((all.len(), missed), (1000, 0));
}
