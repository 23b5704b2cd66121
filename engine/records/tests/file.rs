// SPDX-License-Identifier: Apache-2.0
//! A file is read back as it was written, is bounded, and has its name only when it is whole.
use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    path::{Path, PathBuf},
    process::Command,
};

use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::Field,
};
use spate_records::{Error, FileInfo, PARTIAL, ROW_GROUP, Reading, RecordFile, Value};
use spate_stateful::{Address, End, Record, Tuple};

/// Some time in 2023.
const START: u64 = 1_700_000_000_000_000_000;

fn about() -> FileInfo {
    FileInfo { run: "r1".into(), templates: vec!["web".into(), "dns".into()], one_in: 3 }
}

fn record(number: u64) -> Record {
    let v6 = number % 2 == 1;
    let address = |n: u128| if v6 { Address(0x2001_0db8 << 96 | n) } else { Address::v4(0x1000_0000 + n as u32) };
    Record {
        tuple: Tuple { local: address(1), remote: address(2), local_port: 65_535, remote_port: 443 },
        number,
        template: (number % 2) as u16,
        client: number.is_multiple_of(3),
        udp: v6,
        end: End::ALL[number as usize % End::ALL.len()],
        start_ns: START + 10 * number,
        established_ns: number.is_multiple_of(2).then_some(START + 10 * number + 1),
        first_byte_ns: number.is_multiple_of(5).then_some(START + 10 * number + 2),
        end_ns: START + 10 * number + 3,
        sent_bytes: 1 << 40 | number,
        received_bytes: number,
        sent_packets: 7 * number,
        received_packets: u64::from(u32::MAX) + number,
        retransmitted: number % 4,
        round_trip_ns: number.is_multiple_of(7).then_some(number),
    }
}

fn write(path: &Path, records: u64, most: u64) -> u64 {
    let mut file = RecordFile::create(path, about(), most).unwrap();
    for number in 0..records {
        file.add(&record(number)).unwrap();
    }
    assert!(!path.exists(), "it is not whole yet");
    let omitted = file.omitted();
    file.finish(|| true).unwrap();
    omitted
}

fn rows(path: &Path) -> Vec<BTreeMap<String, Field>> {
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let row = |row: Result<parquet::record::Row, _>| row.unwrap().into_columns().into_iter().collect();
    file.get_row_iter(None).unwrap().map(row).collect()
}

fn text(value: &str) -> Field {
    Field::Str(value.into())
}

/// An optional count, as it is read.
fn maybe(value: Option<u64>) -> Field {
    value.map_or(Field::Null, Field::ULong)
}

#[test]
fn what_was_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.parquet");
    let count = ROW_GROUP as u64 + 10;
    assert_eq!(write(&path, count, u64::MAX), 0);
    let rows = rows(&path);
    assert_eq!(rows.len() as u64, count);
    for (row, number) in rows.iter().zip(0..) {
        let record = record(number);
        let (local, remote) = if record.udp { ("2001:db8::1", "2001:db8::2") } else { ("16.0.0.1", "16.0.0.2") };
        let time = |ns: Option<u64>| ns.map_or(Field::Null, |ns| Field::Long(ns as i64));
        let expected = [
            ("run", text("r1")),
            ("template", text(if number % 2 == 0 { "web" } else { "dns" })),
            ("side", text(if record.client { "client" } else { "server" })),
            ("protocol", text(if record.udp { "udp" } else { "tcp" })),
            ("end_reason", text(record.end.name())),
            ("flow", Field::ULong(number)),
            ("local_address", text(local)),
            ("local_port", Field::UShort(65_535)),
            ("remote_address", text(remote)),
            ("remote_port", Field::UShort(443)),
            ("start", time(Some(record.start_ns))),
            ("established", time(record.established_ns)),
            ("first_byte", time(record.first_byte_ns)),
            ("end", time(Some(record.end_ns))),
            ("sent_bytes", Field::ULong(record.sent_bytes)),
            ("received_bytes", Field::ULong(record.received_bytes)),
            ("sent_packets", Field::ULong(record.sent_packets)),
            ("received_packets", Field::ULong(record.received_packets)),
            ("retransmitted_packets", Field::ULong(record.retransmitted)),
            ("round_trip_ns", maybe(record.round_trip_ns)),
        ];
        assert_eq!(row.len(), expected.len());
        for (column, value) in expected {
            assert_eq!(row[column], value, "{column} of flow {number}");
        }
    }
}

#[test]
fn a_file_has_no_more_than_it_may_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.parquet");
    assert_eq!(write(&path, 100, 60), 40);
    assert_eq!(rows(&path).len(), 60);
    let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let pairs = file.metadata().file_metadata().key_value_metadata().unwrap();
    let pairs: BTreeMap<_, _> = pairs.iter().map(|pair| (pair.key.as_str(), pair.value.as_deref().unwrap())).collect();
    let expected = [("spate.omitted", "40"), ("spate.one_in", "3"), ("spate.records", "1"), ("spate.run", "r1")];
    assert_eq!(pairs, BTreeMap::from(expected));
}

#[test]
fn a_file_without_records_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.parquet");
    write(&path, 0, 10);
    assert!(rows(&path).is_empty());
}

#[test]
fn nothing_is_overwritten_and_nothing_that_cannot_be_read_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.parquet");
    write(&path, 5, 10);
    assert!(matches!(RecordFile::create(&path, about(), 10), Err(Error::Exists(found)) if found == path));
    assert_eq!(rows(&path).len(), 5);

    let other = folder.path().join("other.parquet");
    let first = RecordFile::create(&other, about(), 10).unwrap();
    assert!(matches!(RecordFile::create(&other, about(), 10), Err(Error::Exists(_))), "it is being written");
    drop(first);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    let nowhere = folder.path().join("no/folder.parquet");
    let error = RecordFile::create(&nowhere, about(), 10).err().unwrap().to_string();
    assert!(error.contains("no/folder.parquet.partial: No such file"), "{error}");
}

/// The file that is written until the one of a name is finished.
fn partial(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}{PARTIAL}", path.display()))
}

/// Numbers of the flows that can be read, and the bytes behind them if the file is unfinished.
fn read(path: &Path) -> (Vec<u64>, Option<u64>) {
    let reading = Reading::open(path).unwrap();
    let mut flows = Vec::new();
    let each = reading.each(|columns| {
        let flow = columns.iter().find(|(name, _)| *name == "flow").unwrap().1;
        let Value::Count(flow) = flow else { panic!("{flow:?}") };
        flows.push(flow);
        Ok::<_, parquet::errors::ParquetError>(())
    });
    each.unwrap();
    assert_eq!(reading.records(), flows.len() as u64);
    (flows, reading.unfinished())
}

#[test]
fn a_finished_file_is_read_with_all_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.parquet");
    write(&path, 100, u64::MAX);
    assert_eq!(read(&path), ((0..100).collect(), None));
    let mut first = Vec::new();
    let each = Reading::open(&path).unwrap().each(|columns| {
        if first.is_empty() {
            first = columns.iter().map(|(name, value)| format!("{name} {value:?}")).collect();
        }
        Ok::<_, parquet::errors::ParquetError>(())
    });
    each.unwrap();
    assert_eq!(first.len(), 20);
    for (at, is) in [
        (0, "run Text(\"r1\")"),
        (5, "flow Count(0)"),
        (7, "local_port Count(65535)"),
        (10, "start Time(1700000000000000000)"),
        (19, "round_trip_ns Count(0)"),
    ] {
        assert_eq!(first[at], is);
    }
}

#[test]
fn a_file_that_was_cut_anywhere_is_read_up_to_its_last_whole_group() {
    const GROUPS: u64 = 3;
    const ROWS: u64 = 40;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.parquet");
    let mut file = RecordFile::create(&path, about(), u64::MAX).unwrap();
    // Where each group can be read from.
    let mut ends = Vec::new();
    for number in 0..GROUPS * ROWS {
        file.add(&record(number)).unwrap();
        if (number + 1) % ROWS == 0 {
            file.flush().unwrap();
            ends.push(std::fs::metadata(partial(&path)).unwrap().len());
        }
    }
    assert_eq!(read(&partial(&path)), ((0..GROUPS * ROWS).collect(), Some(0)), "while it is written");
    file.finish(|| true).unwrap();
    drop(file);
    let whole = std::fs::metadata(&path).unwrap().len();
    assert_eq!(read(&path), ((0..GROUPS * ROWS).collect(), None));
    let cut = OpenOptions::new().write(true).open(&path).unwrap();
    for len in (0..whole).rev() {
        cut.set_len(len).unwrap();
        let groups = ends.iter().filter(|end| **end <= len).count() as u64;
        let reading = Reading::open(&path).unwrap_or_else(|error| panic!("cut to {len}: {error}"));
        assert_eq!(reading.records(), groups * ROWS, "cut to {len}");
        let behind = len - ends.iter().filter(|end| **end <= len).max().copied().unwrap_or(len.min(4));
        assert_eq!(reading.unfinished(), Some(behind), "cut to {len}");
        if ends.contains(&len) || ends.contains(&(len + 1)) {
            assert_eq!(read(&path).0, (0..groups * ROWS).collect::<Vec<_>>(), "cut to {len}");
        }
    }
    std::fs::write(&path, "column,column").unwrap();
    let error = Reading::open(&path).err().unwrap().to_string();
    assert!(error.ends_with("is no file of records"), "{error}");
}

/// Unmounted at the end.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_file_on_a_disk_that_is_full_is_read_up_to_its_last_whole_group() {
    const ROWS: u64 = 2000;
    let folder = tempfile::tempdir().unwrap();
    let mounted = Mounted(folder.path().join("full"));
    std::fs::create_dir(&mounted.0).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&mounted.0).status();
    assert!(mount.unwrap().success(), "mounting a tmpfs takes root");
    let path = mounted.0.join("records.parquet");
    let mut file = RecordFile::create(&path, about(), u64::MAX).unwrap();
    let mut number = 0;
    let error = loop {
        file.add(&record(number)).unwrap();
        number += 1;
        if number % ROWS == 0
            && let Err(error) = file.flush()
        {
            break error.to_string();
        }
    };
    assert!(error.contains("records.parquet.partial: ") && error.contains("No space left on device"), "{error}");
    let (readable, records) = (file.readable().0.to_owned(), file.readable().1);
    assert_eq!((&readable, records), (&partial(&path), number - ROWS));
    assert!(file.finish(|| true).is_err(), "there is no room for its end");
    drop(file);
    assert_eq!(read(&readable), ((0..number - ROWS).collect(), Some(0)), "what is of no whole group was given back");
    assert!(records >= ROWS && !path.exists());
}
