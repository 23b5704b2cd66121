// SPDX-License-Identifier: Apache-2.0
//! `spate-engine simulate`: the packets of a plan on a virtual clock, into a pcap file.
use crate::plan::validate::{self, Site};
use crate::plan::{Violations, decode, fit, rate::LineRate};
use anyhow::{Context, bail};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use prost::bytes::Bytes;
use spate_stateless::{Deal, Departure, Pace, Schedule, Template};
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
    /// Packets to write at most; needed where the plan has no duration.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
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
    schedule: Schedule,
    next: Option<Departure>,
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
        let mut templates: Vec<Template> = Vec::with_capacity(plan.streams.len());
        for (i, (stream, found)) in plan.streams.iter().zip(&checked.streams).enumerate() {
            templates.extend(fit::check_template(i, stream, &mut wrong));
            if found.rate.is_none() {
                wrong.add(format!("streams[{i}].continuous.rate"), "is in percent: give the port's --line-rate");
            }
        }
        wrong.or(())?;
        let timing = plan.timing.unwrap_or_default();
        let end_ns = match (timing.duration_ns, self.limit) {
            (0, None) => bail!("--limit: is needed, since timing.duration_ns is 0 (until stopped)"),
            (0, Some(_)) => u64::MAX,
            (duration, _) => timing.warmup_ns.saturating_add(duration),
        };
        let paces: Vec<Pace> = plan
            .streams
            .iter()
            .zip(&checked.streams)
            .map(|(stream, found)| Pace::from_start(found.rate.filter(|_| !stream.disabled)))
            .collect();
        let (index, count) = (u64::from(checked.share.0), u64::from(checked.share.1));
        let workers = u64::from(self.workers);
        let mut all: Vec<Worker> = (0..workers)
            .map(|worker| {
                let first = index * workers + worker;
                let mut schedule = Schedule::new(Deal { first, stride: count * workers }, paces.iter().copied());
                let next = schedule.take(end_ns);
                Worker { sender: first as u8, schedule, next }
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
        let mut frame = Vec::new();
        while written < self.limit.unwrap_or(u64::MAX) {
            let earliest = all
                .iter_mut()
                .filter(|w| w.next.is_some())
                .min_by_key(|w| w.next.as_ref().map(|d| (d.due_ns, d.stream, d.number)));
            let Some(worker) = earliest else { break };
            let Some(departure) = worker.next.take() else { break };
            worker.next = worker.schedule.take(end_ns);
            let template = &templates[departure.stream];
            frame.resize(template.frame_len(), 0);
            let trailer = Trailer {
                run_tag: plan.run_tag as u16,
                stream: plan.streams[departure.stream].id as u16,
                sender: worker.sender,
                measured: departure.due_ns >= timing.warmup_ns,
                sequence: departure.sequence as u32,
                timestamp: departure.due_ns & ((1 << 48) - 1),
            };
            template.write(&trailer, &mut frame);
            let packet = PcapPacket::new(Duration::from_nanos(departure.due_ns), frame.len() as u32, &frame);
            pcap.write_packet(&packet).with_context(|| format!("--pcap {path}"))?;
            written += 1;
        }
        pcap.into_writer().flush().with_context(|| format!("--pcap {path}"))?;
        eprintln!("{written} packets written to {path}");
        Ok(ExitCode::SUCCESS)
    }
}
