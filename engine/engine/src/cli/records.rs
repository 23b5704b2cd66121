// SPDX-License-Identifier: Apache-2.0
//! `spate-engine records`: records of a running engine's connections, live, or those in a file, a line each.
use super::connect::{MAX_MESSAGE_BYTES, connect, refused};
use super::serve::end_signal;
use crate::control::listen::Address;
use anyhow::{Context, bail};
use contract::observer_client::ObserverClient;
use contract::{ConnectionRecord, Side, WatchRecordsRequest, WatchRecordsResponse};
use serde::Serialize;
use spate_records::{ParquetError, Reading, Value};
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Records are printed from now until the run has ended, as JSON Lines: an object for each, with the columns of \
    docs/reference/records.md. Times are in nanoseconds since the epoch; what is not known is null. What the reader is too slow for is \
    omitted, counted and reported on standard error.\n\nWith --file the records in a file are printed, finished or not (*.partial, as an engine leaves it \
    that was killed or whose disk was full): up to its last whole row group, and standard error says what is missing.\n\nExamples:\n  \
    spate-engine records --connect unix:/run/spate.sock --run web\n  \
    kubectl exec POD -- spate-engine records | jq 'select(.end_reason != \"closed\")'\n  \
    spate-engine records --file results/web-1-0.parquet.partial"
)]
pub struct Records {
    /// The engine's socket (`serve --records-socket`, or `--listen`): unix:PATH.
    #[arg(long, value_name = "ADDRESS", env = super::RECORDS_SOCKET, required_unless_present = "file")]
    connect: Option<Address>,
    /// A file of records instead, finished or not.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "until_eof"])]
    file: Option<PathBuf>,
    /// The run's id; may be omitted while only one run is under way.
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Ends with standard input, too: for callers elsewhere that may vanish.
    #[arg(long)]
    until_eof: bool,
}

impl Records {
    /// Prints until the run, or the file, has ended, or the reader of the output is gone.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        let connect = match (&self.file, &self.connect) {
            (Some(file), _) => return print_file(file).map(|()| ExitCode::SUCCESS),
            (None, Some(connect)) => connect,
            (None, None) => bail!("give --connect or --file"),
        };
        let event_loop = super::event_loop()?;
        let printed = event_loop.block_on(self.print(connect));
        // A task that waits for standard input may do so for ever.
        event_loop.shutdown_background();
        printed.map(|()| ExitCode::SUCCESS)
    }

    async fn print(&self, address: &Address) -> anyhow::Result<()> {
        let mut client = ObserverClient::new(connect(address).await?).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let request = WatchRecordsRequest { run_id: self.run.clone().unwrap_or_default() };
        let mut answers = client.watch_records(request).await.map_err(refused)?.into_inner();
        eprintln!("records from now on");
        let mut output = BufWriter::new(io::stdout().lock());
        let (mut printed, mut missed) = (0, 0);
        let mut ended = std::pin::pin!(self.ended());
        loop {
            let answer = tokio::select! {
                answer = answers.message() => answer.map_err(refused)?,
                ended = &mut ended => { ended?; None }
            };
            let Some(answer) = answer else { break };
            if missed == 0 && answer.missed > 0 {
                eprintln!("records come faster than they are read: some are missed");
            }
            missed = answer.missed;
            match write(&mut output, &answer) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                written => written.context("standard output")?,
            }
            printed += answer.records.len();
        }
        eprintln!("{printed} records, {missed} missed");
        Ok(())
    }

    /// Waits until the caller has enough.
    async fn ended(&self) -> io::Result<()> {
        let closed = async {
            match self.until_eof {
                true => tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await.map(drop),
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            end = end_signal() => end.map(drop),
            closed = closed => closed,
        }
    }
}

/// Prints what can be read of a file, and what cannot.
fn print_file(path: &Path) -> anyhow::Result<()> {
    let reading = Reading::open(path)?;
    let mut output = BufWriter::new(io::stdout().lock());
    let printed = reading.each(|columns| {
        let columns = columns.iter().map(|(name, value)| ((*name).to_owned(), json(*value))).collect();
        serde_json::to_writer(&mut output, &Columns(columns)).map_err(io::Error::from)?;
        output.write_all(b"\n").map_err(Stop::Output)
    });
    match printed.and_then(|()| output.flush().map_err(Stop::Output)) {
        Err(Stop::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        Err(Stop::Output(error)) => return Err(error).context("standard output"),
        Err(Stop::File(error)) => bail!("{}: {error}", path.display()),
        Ok(()) => {}
    }
    match reading.unfinished() {
        None => eprintln!("{} records", reading.records()),
        Some(behind) => eprintln!(
            "{} is unfinished: {} records, and {behind} bytes behind them that are of no whole row group",
            path.display(),
            reading.records()
        ),
    }
    Ok(())
}

/// Why no more is printed.
enum Stop {
    Output(io::Error),
    File(ParquetError),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<ParquetError> for Stop {
    fn from(error: ParquetError) -> Self {
        Self::File(error)
    }
}

/// A record of a file, its columns in their order.
struct Columns(Vec<(String, serde_json::Value)>);

impl Serialize for Columns {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

fn json(value: Value<'_>) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Text(text) => text.into(),
        Value::Count(count) => count.into(),
        Value::Time(ns) => ns.into(),
    }
}

/// Writes records so that a reader of the output sees them at once.
fn write(output: &mut impl Write, answer: &WatchRecordsResponse) -> io::Result<()> {
    for record in &answer.records {
        serde_json::to_writer(&mut *output, &Line::of(&answer.run, record)?)?;
        output.write_all(b"\n")?;
    }
    output.flush()
}

/// A record as it is printed: the columns of files, by their names and in their order.
#[derive(Serialize)]
struct Line<'a> {
    run: &'a str,
    template: &'a str,
    side: &'a str,
    protocol: &'a str,
    end_reason: &'a str,
    flow: u64,
    local_address: IpAddr,
    local_port: u32,
    remote_address: IpAddr,
    remote_port: u32,
    start: i64,
    established: Option<i64>,
    first_byte: Option<i64>,
    end: i64,
    sent_bytes: u64,
    received_bytes: u64,
    sent_packets: u64,
    received_packets: u64,
    retransmitted_packets: u64,
    round_trip_ns: Option<u64>,
}

impl<'a> Line<'a> {
    fn of(run: &'a str, record: &'a ConnectionRecord) -> io::Result<Self> {
        let time = |ns: i64| (ns != 0).then_some(ns);
        Ok(Self {
            run,
            template: &record.template,
            side: if record.side() == Side::Client { "client" } else { "server" },
            protocol: if record.udp { "udp" } else { "tcp" },
            end_reason: &record.end_reason,
            flow: record.flow,
            local_address: address(&record.local_address)?,
            local_port: record.local_port,
            remote_address: address(&record.remote_address)?,
            remote_port: record.remote_port,
            start: record.start_ns,
            established: time(record.established_ns),
            first_byte: time(record.first_byte_ns),
            end: record.end_ns,
            sent_bytes: record.sent_bytes,
            received_bytes: record.received_bytes,
            sent_packets: record.sent_packets,
            received_packets: record.received_packets,
            retransmitted_packets: record.retransmitted_packets,
            round_trip_ns: (record.round_trip_ns != 0).then_some(record.round_trip_ns),
        })
    }
}

fn address(bytes: &[u8]) -> io::Result<IpAddr> {
    let wrong = |_| io::Error::new(io::ErrorKind::InvalidData, "the engine sent an address of neither 4 nor 16 bytes");
    match <[u8; 4]>::try_from(bytes) {
        Ok(v4) => Ok(v4.into()),
        Err(_) => <[u8; 16]>::try_from(bytes).map(IpAddr::from).map_err(wrong),
    }
}
