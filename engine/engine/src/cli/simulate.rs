// SPDX-License-Identifier: Apache-2.0
//! `spate-engine simulate`: the packets of a plan on a virtual clock, into a pcap file.
use super::staging::{self, Counted};
use crate::datapath::{RateError, RateStep, SimulatedPacket, Simulation, SimulationSpec, StreamTiming};
use crate::index::StreamIndex;
use crate::plan::{Checked, CheckedStream, Site, sending_part, validate};
use crate::plan::{Violations, decode, fit, rate::LineRate, stages, stateful};
use anyhow::{Context, bail};
use contract::{Plan, Stream, stream::Transmit};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use prost::bytes::Bytes;
use spate_stateful::{Ratio, Scenario};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Time in the file begins at 0, the start of the run. Packets of all ports are in one file, in order of time. Of templates \
    both ends are simulated, 10 us apart; flows that are open at the end of the run go on for the plan's drain. Clients of real servers \
    are not answered. Of a plan with stages the streams' packets and the flows established in each are printed.\n\n\
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
    /// Name of the plan's first, second, ... stage in the table of what is sent in each. May be repeated.
    #[arg(long = "stage-name", value_name = "NAME")]
    stage_names: Vec<String>,
}

/// More than the longest frame, which is an IP packet of 65,535 bytes with its headers of Ethernet and VLANs.
const SNAPLEN: u32 = 1 << 18;

impl Simulate {
    /// Writes the file.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        let plan = decode::plan(Bytes::from(super::read_plan(&self.plan)?), decode::Format::Auto)?;
        let mut site = Site::of_plan(&plan).with_workers(self.workers);
        for rate in &self.line_rates {
            if let Some(port) = site.ports.iter_mut().find(|port| port.name == rate.port) {
                port.line_rate = LineRate::Known(rate.bps);
            }
        }
        let checked = validate::validate(&plan, &site)?;
        let mut wrong = Violations::default();
        for (i, (stream, found)) in plan.streams.iter().zip(&checked.streams).enumerate() {
            if found.rate.is_none() {
                let mode = fit::mode(stream);
                wrong
                    .add(StreamIndex(i).path().field(mode).field("rate"), "is in percent: give the port's --line-rate");
            }
        }
        let timing = plan.timing.clone().unwrap_or_default();
        let rates = checked.timings.iter().filter_map(|timing| timing.rate);
        let speeds = checked.streams.iter().filter_map(|found| Some(found.replay.as_ref()?.speed));
        stages::validate_rates(&plan, rates.chain(speeds), &mut wrong);
        wrong.or(())?;
        if timing.duration_ns == 0 && self.limit.or(self.worker_limit).is_none() {
            bail!("--limit or --worker-limit is needed, since timing.duration_ns is 0 (until stopped)");
        }
        let staged = stages::Schedule::of(&plan);
        let mut counted = staged.as_ref().map(|staged| Counted::new(staged, &self.stage_names));
        let steps = match &staged {
            Some(staged) => steps(staged, &plan, &checked).context("timing.stages")?,
            None => Vec::new(),
        };
        if plan.stateful.as_ref().is_some_and(|stateful| stateful.records.is_some()) {
            tracing::warn!("stateful.records: nothing is recorded: the packets are what a simulation writes");
        }
        let scenario = checked.stateful.clone().map(|scenario| alone(&plan, scenario));
        let mut simulation = Simulation::new(SimulationSpec {
            spec: &fit::run_spec(&plan, checked, None)?,
            scenario,
            workers: self.workers as usize,
            ports: site.ports.len(),
            steps,
            marks: staged.as_ref().map(stages::Schedule::marks).unwrap_or_default(),
            worker_limit: self.worker_limit.unwrap_or(u64::MAX),
        })?;
        let path = self.pcap.display();
        let file = File::create(&self.pcap).with_context(|| format!("--pcap {path}"))?;
        let header = PcapHeader {
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            endianness: Endianness::native(),
            snaplen: SNAPLEN,
            ..PcapHeader::default()
        };
        let mut pcap =
            PcapWriter::with_header(BufWriter::new(file), header).with_context(|| format!("--pcap {path}"))?;
        let mut written = 0;
        while written < self.limit.unwrap_or(u64::MAX)
            && let Some(SimulatedPacket { at_ns, stream, bytes }) = simulation.take()?
        {
            if let Some(counted) = counted.as_mut().filter(|_| stream.is_some()) {
                counted.sent(at_ns);
            }
            let packet = PcapPacket::new(Duration::from_nanos(at_ns), bytes.len() as u32, &bytes);
            pcap.write_packet(&packet).with_context(|| format!("--pcap {path}"))?;
            written += 1;
        }
        pcap.into_writer().flush().with_context(|| format!("--pcap {path}"))?;
        eprintln!("{written} packets written to {path}{}", if written == 0 { nothing(&plan) } else { "" });
        if let Some(mut counted) = counted {
            simulation.established().iter().for_each(|flows| counted.established(flows));
            // Packets may go to the standard output.
            if self.pcap == Path::new("/dev/stdout") { eprint!("{counted}") } else { print!("{counted}") }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The templates of a plan where an engine is alone: it has all servers, and nobody lets those go on that are paused.
fn alone(plan: &Plan, mut scenario: Scenario) -> Arc<Scenario> {
    stateful::alone(&mut scenario);
    let asked = plan.stateful.iter().flat_map(|stateful| &stateful.templates);
    for (template, _) in scenario.templates.iter_mut().zip(asked).filter(|(_, asked)| asked.paused) {
        if let Some(client) = &mut template.client {
            client.rate = Ratio::ZERO;
        }
    }
    Arc::new(scenario)
}

/// The rates of a plan's stages. Those of streams that send are fractions of the plan's.
fn steps(staged: &stages::Schedule, plan: &Plan, checked: &Checked) -> Result<Vec<RateStep>, RateError> {
    let rate = |(index, (stream, timing)): (usize, (&Stream, &StreamTiming))| {
        let here = sending_part(stream, checked.share).is_some();
        let scheduled = !matches!(stream.transmit, Some(Transmit::Replay(_)));
        (StreamIndex(index), timing.rate.filter(|_| here && sends(stream) && scheduled))
    };
    let rates: Vec<_> = plan.streams.iter().zip(&checked.timings).enumerate().map(rate).collect();
    let speed = |(index, found): (usize, &CheckedStream)| Some((StreamIndex(index), found.replay.as_ref()?.speed));
    let speeds: Vec<_> = checked.streams.iter().enumerate().filter_map(speed).collect();
    staging::steps(staged, &rates, &speeds)
}

/// Why a plan's packets are none.
fn nothing(plan: &Plan) -> &'static str {
    let templates = || plan.stateful.iter().flat_map(|stateful| &stateful.templates);
    let clients = || templates().filter(|template| !template.client_port.is_empty());
    match (plan.streams.is_empty() && clients().next().is_none(), plan.streams.iter().any(sends)) {
        (true, _) if templates().next().is_some() => {
            ": its templates have servers only, which no client requests in a simulation; give one clients as well (client_port)"
        }
        (true, _) => ": it has no streams and no templates, which are what sends",
        (false, false) if clients().all(|template| template.paused) => ": all that it would send is paused or disabled",
        _ => ": nothing is due in its duration, or within --limit and --worker-limit",
    }
}

/// Whether a stream sends before an Update starts it.
fn sends(stream: &Stream) -> bool {
    !stream.disabled && !stream.paused
}
