// SPDX-License-Identifier: Apache-2.0
//! `spate-engine simulate`: the packets of a plan on a virtual clock, into a pcap file.
use crate::plan::validate::{self, Site};
use crate::plan::{Violations, decode, fit, rate::LineRate};
use anyhow::{Context, bail};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use prost::bytes::Bytes;
use spate_stateless::{Batch, Deal, Frames, Lanes, Numbers, PIECE, Schedule, StreamTiming, Writer};
use spate_wire::Trailer;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Time in the file begins at 0, the start of the run. Packets of all ports are in one file, in order of time.\n\n\
    Example: spate-engine simulate --plan plan.json --pcap out.pcap --limit 1000 --workers 2"
)]
pub struct Simulate {
    /// The plan: a file, or - for standard input.
    #[arg(long, value_name = "FILE")]
    plan: String,
    /// The file to write, with times in nanoseconds.
    #[arg(long, value_name = "FILE")]
    pcap: PathBuf,
    /// Packets to write at most; this or --worker-limit is needed where the plan has no duration.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Packets of each worker to write at most.
    #[arg(long, value_name = "N")]
    worker_limit: Option<u64>,
    /// Workers that share the streams.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    workers: u32,
    /// Line rate of a port, such as east=10G, for rates in percent. May be repeated.
    #[arg(long = "line-rate", value_name = "NAME=RATE")]
    line_rates: Vec<super::ports::LineRate>,
}

/// What a simulated worker has to send.
struct Worker {
    sender: u8,
    deal: Deal,
    schedule: Schedule,
    writers: Vec<Writer>,
    next: Option<Batch>,
    /// Packets it may still send.
    left: u64,
}

impl Worker {
    /// Takes its next packet, if it may send one more.
    fn advance(&mut self, end_ns: u64) {
        self.next = None;
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        while self.next.is_none() && self.schedule.next_due_ns().is_some_and(|due| due < end_ns) {
            self.schedule.take(end_ns, 1, |batch| self.next = Some(batch));
        }
    }
}

/// One packet at a time.
#[derive(Default)]
struct Frame {
    bytes: Vec<u8>,
    len: usize,
}

impl Frames for Frame {
    fn frames<'a>(&'a mut self, _: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8]> {
        self.len = lens.first().map_or(0, |&len| usize::from(len));
        self.bytes.resize(self.len.next_multiple_of(PIECE), 0);
        std::iter::once(&mut self.bytes[..])
    }
}

impl Simulate {
    /// Writes the file.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        let plan = decode::plan(Bytes::from(super::read_plan(&self.plan)?), decode::Format::Auto)?;
        let mut site = Site::of_plan(&plan);
        site.workers = self.workers;
        for rate in &self.line_rates {
            if let Some(port) = site.ports.iter_mut().find(|port| port.name == rate.port) {
                port.line_rate = LineRate::Known(rate.bps);
            }
        }
        let checked = validate::validate(&plan, &site)?;
        let mut wrong = Violations::default();
        for (i, (stream, found)) in plan.streams.iter().zip(&checked.streams).enumerate() {
            if found.rate.is_none() {
                wrong.add(
                    format!("streams[{i}].{}.rate", fit::mode(stream)),
                    "is in percent: give the port's --line-rate",
                );
            }
        }
        wrong.or(())?;
        let timing = plan.timing.unwrap_or_default();
        let end_ns = match (timing.duration_ns, self.limit.or(self.worker_limit)) {
            (0, None) => {
                bail!("--limit or --worker-limit is needed, since timing.duration_ns is 0 (until stopped)")
            }
            (0, Some(_)) => u64::MAX,
            (duration, _) => timing.warmup_ns.saturating_add(duration),
        };
        let timings = || {
            plan.streams.iter().zip(&checked.timings).map(|(stream, timing)| StreamTiming {
                rate: timing.rate.filter(|_| !stream.disabled && !stream.paused),
                ..*timing
            })
        };
        let (index, count) = (u64::from(checked.share.0), u64::from(checked.share.1));
        let workers = u64::from(self.workers);
        let mut all: Vec<Worker> = (0..workers)
            .map(|worker| {
                let deal = Deal { first: index * workers + worker, stride: count * workers };
                let schedule = Schedule::new(deal, timings());
                let writer = |(stream, found): (usize, &validate::CheckedStream)| {
                    found.template.writer(Deal { stride: schedule.stride(stream), ..deal })
                };
                let writers = checked.streams.iter().enumerate().map(writer).collect();
                let left = self.worker_limit.unwrap_or(u64::MAX);
                let mut worker = Worker { sender: deal.first as u8, deal, schedule, writers, next: None, left };
                worker.advance(end_ns);
                worker
            })
            .collect();

        let path = self.pcap.display();
        let file = File::create(&self.pcap).with_context(|| format!("--pcap {path}"))?;
        let header = PcapHeader {
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            endianness: Endianness::native(),
            snaplen: 65_535,
            ..PcapHeader::default()
        };
        let mut pcap =
            PcapWriter::with_header(BufWriter::new(file), header).with_context(|| format!("--pcap {path}"))?;
        let mut written = 0;
        let mut frame = Frame::default();
        let mut lanes = Lanes::new();
        while written < self.limit.unwrap_or(u64::MAX) {
            let earliest = all
                .iter_mut()
                .filter(|w| w.next.is_some())
                .min_by_key(|w| w.next.as_ref().map(|b| (b.due_ns, b.stream, b.number)));
            let Some(worker) = earliest else { break };
            let Some(batch) = worker.next else { break };
            worker.advance(end_ns);
            let stream = &plan.streams[batch.stream];
            let stamp = Trailer {
                run_tag: plan.run_tag as u16,
                stream: stream.id as u16,
                sender: worker.sender,
                measured: batch.due_ns >= timing.warmup_ns,
                sequence: 0,
                timestamp: batch.due_ns & ((1 << 48) - 1),
            };
            let mut numbers = Numbers { number: batch.number, sequence: batch.sequence, count: 1 };
            if stream.cache > 0 {
                // The packets that were built beforehand, around.
                numbers.sequence %= u64::from(stream.cache);
                numbers.number = worker.deal.first + numbers.sequence * worker.schedule.stride(batch.stream);
            }
            let template = &checked.streams[batch.stream].template;
            template.write(&mut worker.writers[batch.stream], &mut lanes, numbers, stamp, &mut frame, 0);
            let bytes = &frame.bytes[..frame.len];
            let packet = PcapPacket::new(Duration::from_nanos(batch.due_ns), bytes.len() as u32, bytes);
            pcap.write_packet(&packet).with_context(|| format!("--pcap {path}"))?;
            written += 1;
        }
        pcap.into_writer().flush().with_context(|| format!("--pcap {path}"))?;
        eprintln!("{written} packets written to {path}");
        Ok(ExitCode::SUCCESS)
    }
}
