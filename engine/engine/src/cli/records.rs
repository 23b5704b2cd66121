// SPDX-License-Identifier: Apache-2.0
//! `spate-engine records`: records of a running engine's connections, live, a line each.
use super::connect::{MOST_MESSAGE_BYTES, connect, refused};
use super::serve::told_to_end;
use crate::control::listen::Address;
use anyhow::Context;
use contract::observer_client::ObserverClient;
use contract::{ConnectionRecord, Side, WatchRecordsRequest, WatchRecordsResponse};
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Records are told from now until the run has ended, as JSON Lines: an object for each, with the columns of \
    docs/reference/records.md. Times are in nanoseconds since the epoch; what is not known is null. What the reader is too slow for is \
    left out, counted and told on standard error.\n\nExamples:\n  \
    spate-engine records --connect unix:/run/spate.sock --run web\n  \
    kubectl exec POD -- spate-engine records | jq 'select(.end_reason != \"closed\")'"
)]
pub struct Records {
    /// The engine's socket (`serve --records-socket`, or `--listen`): unix:PATH.
    #[arg(long, value_name = "ADDRESS", env = super::RECORDS_SOCKET)]
    connect: Address,
    /// The run's id; may be left out while only one run is under way.
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Ends with standard input, too: for callers elsewhere that may vanish.
    #[arg(long)]
    until_eof: bool,
}

impl Records {
    /// Prints until the run has ended, or nobody reads on.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        let event_loop = super::event_loop()?;
        let printed = event_loop.block_on(self.print());
        // Whoever waits for standard input may do so for ever.
        event_loop.shutdown_background();
        printed.map(|()| ExitCode::SUCCESS)
    }

    async fn print(&self) -> anyhow::Result<()> {
        let mut client =
            ObserverClient::new(connect(&self.connect).await?).max_decoding_message_size(MOST_MESSAGE_BYTES);
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
            told = told_to_end() => told.map(drop),
            closed = closed => closed,
        }
    }
}

/// Writes records so that whoever reads along sees them.
fn write(output: &mut impl Write, answer: &WatchRecordsResponse) -> io::Result<()> {
    for record in &answer.records {
        serde_json::to_writer(&mut *output, &Line::of(&answer.run_id, record)?)?;
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
    let wrong = |_| io::Error::new(io::ErrorKind::InvalidData, "the engine tells an address of neither 4 nor 16 bytes");
    match <[u8; 4]>::try_from(bytes) {
        Ok(v4) => Ok(v4.into()),
        Err(_) => <[u8; 16]>::try_from(bytes).map(IpAddr::from).map_err(wrong),
    }
}
