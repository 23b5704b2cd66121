// SPDX-License-Identifier: Apache-2.0
//! `spate-engine simulate`: the packets of a plan on a virtual clock, into a pcap file.
use super::emulating::Emulating;
use super::replaying::Replaying;
use super::staging::{Change, Counted, Turns};
use crate::datapath::ReplaySpec;
use crate::plan::validate::{self, Checked, CheckedStream, Site};
use crate::plan::{Violations, decode, fit, rate::LineRate, stages, stateful};
use anyhow::{Context, bail};
use contract::{Plan, Stream, stream::Transmit};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use prost::bytes::Bytes;
use spate_net::Trailer;
use spate_stateful::tuples::Share;
use spate_stateless::{Batch, Deal, Frames, Lanes, Numbers, PIECE, Schedule, StreamTiming, Writer};
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

/// What a simulated worker has to send.
struct Worker<'a> {
    sender: u8,
    deal: Deal,
    schedule: Schedule,
    writers: Vec<Writer>,
    replays: Vec<Replaying>,
    /// Rates to come.
    changes: &'a [Change],
    next: Option<Next>,
    /// Packets it may still send.
    left: u64,
}

/// A worker's next packet.
#[derive(Clone, Copy)]
enum Next {
    Scheduled(Batch),
    /// Of `Worker::replays`.
    Replayed(usize),
}

impl Worker<'_> {
    /// Takes its next packet, if it may send one more.
    fn advance(&mut self, end_ns: u64) {
        self.next = None;
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        self.take(end_ns);
        while self.next.is_none()
            && let Some((change, later)) = self.changes.split_first().filter(|(change, _)| change.at_ns < end_ns)
        {
            self.changes = later;
            self.schedule.change(change.at_ns, change.rates.iter().copied());
            for replay in &mut self.replays {
                if let Some((_, speed)) = change.speeds.iter().find(|(stream, _)| *stream == replay.stream) {
                    replay.change(change.at_ns, *speed);
                }
            }
            self.take(end_ns);
        }
    }

    /// Takes its next packet, if that is due before the end and before its rates change.
    fn take(&mut self, end_ns: u64) {
        let end_ns = self.changes.first().map_or(end_ns, |change| end_ns.min(change.at_ns));
        let replay = self.replays.iter().enumerate().filter_map(|(i, r)| Some((r.due_ns()?, i))).min();
        let before_ns = replay.map_or(end_ns, |(due, _)| end_ns.min(due));
        while self.next.is_none() && self.schedule.next_due_ns().is_some_and(|due| due < before_ns) {
            self.schedule.take(before_ns, 1, |batch| self.next = Some(Next::Scheduled(batch)));
        }
        if let (None, Some((due, index))) = (self.next, replay)
            && due < end_ns
        {
            self.next = Some(Next::Replayed(index));
        }
    }

    /// When its next packet is due, and what decides between those of one instant.
    fn order(&self) -> Option<(u64, usize, u64)> {
        Some(match self.next? {
            Next::Scheduled(batch) => (batch.due_ns, batch.stream, batch.number),
            Next::Replayed(index) => {
                let replay = &self.replays[index];
                (replay.due_ns()?, replay.stream, replay.number)
            }
        })
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
                wrong.add(
                    format!("streams[{i}].{}.rate", fit::mode(stream)),
                    "is in percent: give the port's --line-rate",
                );
            }
        }
        let timing = plan.timing.clone().unwrap_or_default();
        let rates = checked.timings.iter().filter_map(|timing| timing.rate);
        let speeds = checked.streams.iter().filter_map(|found| Some(found.replay.as_ref()?.speed));
        stages::validate_rates(&plan, rates.chain(speeds), &mut wrong);
        wrong.or(())?;
        let end_ns = match (timing.duration_ns, self.limit.or(self.worker_limit)) {
            (0, None) => {
                bail!("--limit or --worker-limit is needed, since timing.duration_ns is 0 (until stopped)")
            }
            (0, Some(_)) => u64::MAX,
            (duration, _) => timing.warmup_ns.saturating_add(duration),
        };
        let timings = || {
            plan.streams.iter().zip(&checked.timings).map(|(stream, timing)| StreamTiming {
                rate: timing.rate.filter(|_| {
                    let here = validate::sending_part(stream, checked.share).is_some();
                    here && sends(stream) && !matches!(stream.transmit, Some(Transmit::Replay(_)))
                }),
                ..*timing
            })
        };
        let staged = stages::Schedule::of(&plan);
        let mut counted = staged.as_ref().map(|staged| Counted::new(staged, &self.stage_names));
        let changes = match &staged {
            Some(staged) => {
                let rates: Vec<_> = timings().map(|timing| timing.rate).enumerate().collect();
                let speed = |(index, found): (usize, &CheckedStream)| Some((index, found.replay.as_ref()?.speed));
                let speeds: Vec<_> = checked.streams.iter().enumerate().filter_map(speed).collect();
                Change::all(staged, &rates, &speeds).context("timing.stages")?
            }
            None => Vec::new(),
        };
        // Of all streams that this engine sends the same.
        let part = plan.streams.iter().find_map(|stream| validate::sending_part(stream, checked.share));
        let (index, count) = part.map_or((0, 1), |(index, count)| (u64::from(index), u64::from(count)));
        let first = u64::from(checked.share.0) * u64::from(self.workers);
        let workers = u64::from(self.workers);
        let mut all: Vec<Worker> = (0..workers)
            .map(|worker| {
                let deal = Deal { first: index * workers + worker, stride: count * workers };
                let schedule = Schedule::new(deal, timings());
                let writer = |(stream, found): (usize, &CheckedStream)| {
                    found.template.writer(Deal { stride: schedule.stride(stream), ..deal })
                };
                let writers = checked.streams.iter().enumerate().map(writer).collect();
                let left = self.worker_limit.unwrap_or(u64::MAX);
                let mut worker = Worker {
                    sender: (first + worker) as u8,
                    deal,
                    schedule,
                    writers,
                    replays: self.replays(&plan, &checked, worker)?,
                    changes: &changes,
                    next: None,
                    left,
                };
                worker.advance(end_ns);
                Ok(worker)
            })
            .collect::<anyhow::Result<_>>()?;

        if plan.stateful.as_ref().is_some_and(|stateful| stateful.records.is_some()) {
            tracing::warn!("stateful.records: nothing is recorded: the packets are what a simulation writes");
        }
        let turns = staged.as_ref().map(Turns::of).unwrap_or_default();
        let mut emulating = self.emulating(&plan, &checked, site.ports.len(), [end_ns, timing.drain_ns], &turns)?;
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
        let mut frame = Frame::default();
        let (mut lanes, mut replayed) = (Lanes::new(), Vec::new());
        while written < self.limit.unwrap_or(u64::MAX) {
            let earliest = all.iter_mut().filter(|w| w.next.is_some()).min_by_key(|w| w.order());
            let emulated = emulating.iter_mut().filter_map(|e| Some((e.due_ns()?, e))).min_by_key(|(due, _)| *due);
            if let Some((due_ns, emulating)) = emulated
                && earliest.as_ref().and_then(|worker| worker.order()).is_none_or(|(due, ..)| due_ns < due)
            {
                let bytes = emulating.take().unwrap_or_default();
                let packet = PcapPacket::new(Duration::from_nanos(due_ns), bytes.len() as u32, &bytes);
                pcap.write_packet(&packet).with_context(|| format!("--pcap {path}"))?;
                written += 1;
                continue;
            }
            let Some(worker) = earliest else { break };
            let (Some(next), Some((due_ns, index, _))) = (worker.next, worker.order()) else { break };
            let stream = &plan.streams[index];
            let stamp = Trailer {
                run_tag: plan.run_tag as u16,
                stream: stream.id as u16,
                sender: worker.sender,
                measured: due_ns >= timing.warmup_ns,
                sequence: 0,
                timestamp: due_ns & ((1 << 48) - 1),
            };
            let bytes = match next {
                Next::Scheduled(batch) => {
                    let mut numbers = Numbers { number: batch.number, sequence: batch.sequence, count: 1 };
                    if stream.cache > 0 {
                        // The packets that were built beforehand, around.
                        numbers.sequence %= u64::from(stream.cache);
                        numbers.number = worker.deal.first + numbers.sequence * worker.schedule.stride(index);
                    }
                    let template = &checked.streams[index].template;
                    template.write(&mut worker.writers[index], &mut lanes, numbers, stamp, &mut frame, 0);
                    &frame.bytes[..frame.len]
                }
                Next::Replayed(replay) => {
                    worker.replays[replay].take(stamp, &mut replayed).with_context(|| stream.name.clone())?;
                    &replayed
                }
            };
            worker.advance(end_ns);
            if let Some(counted) = &mut counted {
                counted.sent(due_ns);
            }
            let packet = PcapPacket::new(Duration::from_nanos(due_ns), bytes.len() as u32, bytes);
            pcap.write_packet(&packet).with_context(|| format!("--pcap {path}"))?;
            written += 1;
        }
        pcap.into_writer().flush().with_context(|| format!("--pcap {path}"))?;
        eprintln!("{written} packets written to {path}{}", if written == 0 { nothing(&plan) } else { "" });
        if let Some(mut counted) = counted {
            emulating.iter().for_each(|emulating| counted.established(&emulating.established()));
            // Packets may go to the standard output.
            if self.pcap == Path::new("/dev/stdout") { eprint!("{counted}") } else { print!("{counted}") }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The templates of the plan, by worker.
    fn emulating(
        &self,
        plan: &Plan,
        checked: &Checked,
        ports: usize,
        [end_ns, drain_ns]: [u64; 2],
        turns: &Turns,
    ) -> anyhow::Result<Vec<Emulating>> {
        let Some(scenario) = &checked.stateful else { return Ok(Vec::new()) };
        let mut scenario = scenario.clone();
        stateful::alone(&mut scenario);
        let asked = plan.stateful.iter().flat_map(|stateful| &stateful.templates);
        for (template, _) in scenario.templates.iter_mut().zip(asked).filter(|(_, asked)| asked.paused) {
            if let Some(client) = &mut template.client {
                client.rate = (0, 1);
            }
        }
        let scenario = Arc::new(scenario);
        let engine = scenario.client_part();
        let workers = u64::from(self.workers);
        let worker = |worker| {
            let share = Share::of_engine(worker, workers, engine);
            let until_ns = end_ns.saturating_add(drain_ns);
            Ok(Emulating::new(scenario.clone(), share, ports, end_ns, until_ns, turns.clone())?)
        };
        (0..workers).map(worker).collect()
    }

    /// The replays that one worker of this engine sends.
    fn replays(&self, plan: &Plan, checked: &Checked, worker: u64) -> anyhow::Result<Vec<Replaying>> {
        let mut all = Vec::new();
        let streams = plan.streams.iter().zip(&checked.streams).zip(&checked.timings).enumerate();
        for (index, ((stream, found), timing)) in streams.filter(|(_, ((stream, _), _))| sends(stream)) {
            let (id, part) = (stream.id as u16, validate::sending_part(stream, checked.share));
            let Some((replay, (engine, engines))) = found.replay.as_ref().zip(part) else { continue };
            let sender = (ReplaySpec::engine(id, engines), ReplaySpec::worker(id, engines, self.workers as usize));
            if sender == (engine, worker as usize) {
                let replaying = Replaying::new(index, found.template.flow(), timing, replay.speed, &replay.spec);
                all.push(replaying.with_context(|| stream.name.clone())?);
            }
        }
        Ok(all)
    }
}

/// Why a plan's packets are none.
fn nothing(plan: &Plan) -> &'static str {
    let templates = || plan.stateful.iter().flat_map(|stateful| &stateful.templates);
    let clients = || templates().filter(|template| !template.client_port.is_empty());
    match (plan.streams.is_empty() && clients().next().is_none(), plan.streams.iter().any(sends)) {
        (true, _) if templates().next().is_some() => {
            ": its templates have servers only, which nobody asks in a simulation; give one clients as well (client_port)"
        }
        (true, _) => ": it has no streams and no templates, which are what sends",
        (false, false) if clients().all(|template| template.paused) => ": all that it would send is paused or disabled",
        _ => ": nothing is due in its duration, or within --limit and --worker-limit",
    }
}

/// Whether a stream sends before an Update tells it to.
fn sends(stream: &Stream) -> bool {
    !stream.disabled && !stream.paused
}
