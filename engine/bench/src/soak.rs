// SPDX-License-Identifier: Apache-2.0
//! Does the engine stay true for long? Runs of random streams are prepared, started, changed, stopped and removed at
//! random, on two loopbacks, one of which loses packets in a known way: what was sent is received or lost, stream by
//! stream, and memory does not grow.
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use contract::{
    Bursts, Continuous, Counter, FieldProgram, Measure, Plan, Random, Rate, Ratio, Selector, SizeList, Sizes, Stream,
    Timing, Variable, WeightedSize, Write, rate, sizes, stream::Transmit, update_request::Change, variable,
};
use prost::Message;
use spate_engine::control::runs::{Engine, Held};
use spate_engine::datapath::{
    ClockError, Config, Datapath, Memory, PollMode, PortConfig, PortDevice, StampedBy, UseOffloads,
};
use spate_engine::index::PortIndex;
use spate_engine::plan::decode::Format;
use spate_net::Trailer;
use spate_stateful::random::Numbers;

use crate::cases;
use crate::flows::resident;
use crate::pages::Reserved;
use crate::rig::{MEMORY, Pages, start_soon};

const PORTS: [&str; 2] = ["whole", "lossy"];
/// The lossy port loses one packet of this many.
const LOSES: u64 = 97;
/// Workers, at most.
const MAX_WORKERS: usize = 2;
/// Runs held at a time, at most.
const RUNS: usize = 12;
/// What resident memory may grow by after the warm-up.
const GROWTH: u64 = 8 << 20;
/// After its start, or an end, of the whole.
const SECOND: Duration = Duration::from_secs(1);

/// Starts, changes and ends runs at random; fails if counters do not balance or memory grows.
#[derive(Debug, clap::Args)]
pub struct Soak {
    /// Length of the test, such as 30s or 10m.
    #[arg(long, value_parser = duration)]
    length: Duration,
    /// Seed of random decisions; printed, so that they can be repeated.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "must be such as 30s or 10m, at least 10s".to_owned();
    let (number, seconds) = match (text.strip_suffix('s'), text.strip_suffix('m')) {
        (Some(number), _) => (number, 1),
        (_, Some(number)) => (number, 60),
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    Some(number.saturating_mul(seconds))
        .filter(|s| (10..=86_400).contains(s))
        .map(Duration::from_secs)
        .ok_or_else(wrong)
}

/// Packets that workers may have sent and not yet counted: a burst each.
const UNDER_WORK: u64 = (MAX_WORKERS * spate_dpdk::BURST) as u64;
/// What the lossy port lost, by (run tag, stream id).
type Losses = Arc<Mutex<HashMap<(u16, u16), u64>>>;

/// A run under way.
struct Live {
    id: String,
    tag: u16,
    held: Arc<Held>,
    streams: Vec<Stream>,
}

struct Soaking {
    engine: Engine,
    losses: Losses,
    chance: Chance,
    live: Vec<Live>,
    serial: u64,
    ended: u64,
    cut: u64,
    refused: u64,
    sent: u64,
    received: u64,
    lost: u64,
}

impl Soak {
    pub fn execute(self) -> anyhow::Result<()> {
        let reserved = Reserved::new();
        let losses = Losses::default();
        let engine = open(reserved.pages(), Arc::clone(&losses))?;
        println!(
            "soak: {} s, seed {}, packet memory in {:?} pages",
            self.length.as_secs(),
            self.seed,
            reserved.pages()
        );
        let mut soaking = Soaking {
            engine,
            losses,
            chance: Chance(Numbers::new(self.seed)),
            live: Vec::new(),
            serial: 0,
            ended: 0,
            cut: 0,
            refused: 0,
            sent: 0,
            received: 0,
            lost: 0,
        };
        let start = Instant::now();
        let warm = self.length / 3;
        let (mut resident_warm, mut printed) = (0, 0);
        while start.elapsed() < self.length {
            soaking.act()?;
            soaking.settle()?;
            std::thread::sleep(Duration::from_millis(soaking.chance.below(20)));
            if start.elapsed() < warm {
                resident_warm = resident_warm.max(resident()?);
            }
            let tenth = start.elapsed().as_millis() * 10 / self.length.as_millis();
            if tenth > printed {
                printed = tenth;
                soaking.report(start.elapsed())?;
            }
        }
        soaking.finish()?;
        let resident_end = resident()?;
        soaking.report(start.elapsed())?;
        ensure!(
            soaking.ended > 0 && soaking.received > 0 && soaking.lost > 0,
            "nothing was measured: choose a greater length"
        );
        ensure!(
            resident_end <= resident_warm + GROWTH,
            "resident memory grew from {} MiB (most of the first third) to {} MiB; at most {} MiB more are right",
            resident_warm >> 20,
            resident_end >> 20,
            GROWTH >> 20
        );
        println!(
            "soak: counters balance; memory {} MiB after the first third, {} MiB at the end",
            resident_warm >> 20,
            resident_end >> 20
        );
        Ok(())
    }
}

fn open(pages: Pages, losses: Losses) -> anyhow::Result<Engine> {
    let cpus = std::thread::available_parallelism()?.get();
    let port = |name: &str| PortConfig {
        name: name.into(),
        device: PortDevice::Loopback,
        line_rate_bps: None,
        offloads: UseOffloads::Auto,
        mac: None,
        any_mac: false,
        stamped_by: StampedBy::Cpu,
    };
    let datapath = Datapath::open(Config {
        ports: PORTS.map(port).into(),
        worker_cpus: (0..cpus.min(MAX_WORKERS)).collect(),
        worker_groups: Vec::new(),
        control_cpus: vec![cpus - 1],
        memory: match pages {
            Pages::Huge => Memory::Huge { bytes: MEMORY, page: None },
            Pages::Normal => Memory::Normal { bytes: 2 * MEMORY },
        },
        poll: PollMode::Adaptive,
        clock_error: ClockError::default(),
    })?;
    let count = Mutex::new(0u64);
    datapath.disturb(
        PortIndex(1),
        Box::new(move |packets| {
            let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
            let mut kept = Vec::with_capacity(packets.len());
            for (index, (frame, _)) in packets.iter().enumerate() {
                *count += 1;
                match Trailer::decode(frame) {
                    Some(trailer) if count.is_multiple_of(LOSES) => {
                        let mut losses = losses.lock().unwrap_or_else(PoisonError::into_inner);
                        *losses.entry((trailer.run_tag, trailer.stream)).or_default() += 1;
                    }
                    _ => kept.push(index),
                }
            }
            kept
        }),
    );
    Ok(Engine::new(datapath))
}

impl Soaking {
    /// Does one thing at random.
    fn act(&mut self) -> anyhow::Result<()> {
        let some = self.live.len() as u64;
        match self.chance.below(10) {
            0..3 if self.live.len() < RUNS => self.start()?,
            _ if some == 0 => {}
            3..6 => {
                let at = self.chance.below(some) as usize;
                self.change(at)?;
            }
            6 => {
                let held = &self.live[self.chance.below(some) as usize].held;
                // Refused where it is paused already, or has ended.
                let _ = self.engine.pause(held, 0);
            }
            7 => {
                let held = &self.live[self.chance.below(some) as usize].held;
                let _ = self.engine.resume(held, 0);
            }
            8 => self.live[self.chance.below(some) as usize].held.run().stop("the soak says so"),
            _ if self.chance.below(4) == 0 => {
                // In the midst of it: what is under way is cut off.
                let live = self.live.swap_remove(self.chance.below(some) as usize);
                self.remove(&live, true)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self) -> anyhow::Result<()> {
        self.serial += 1;
        let tag = (self.serial % 60_000 + 1) as u16;
        let id = format!("soak-{}", self.serial);
        let plan = self.chance.plan(&id, tag);
        match self.engine.prepare(&id, plan.encode_to_vec().into(), Format::Binary) {
            Ok((held, _)) => {
                start_soon(&self.engine, &held, 5_000_000)?;
                self.live.push(Live { id, tag, held, streams: plan.streams });
                Ok(())
            }
            // Memory for prebuilt packets is limited; anything else is a fault of the plan.
            Err(refusal) if refusal.to_string().contains("memory") => {
                self.refused += 1;
                Ok(())
            }
            Err(refusal) => Err(refusal).context(id),
        }
    }

    fn change(&mut self, at: usize) -> anyhow::Result<()> {
        let live = &self.live[at];
        let stream = &live.streams[self.chance.below(live.streams.len() as u64) as usize];
        let selector = match self.chance.below(3) {
            0 => Selector::default(),
            _ => Selector { streams: vec![stream.name.clone()], ..Selector::default() },
        };
        let change = match self.chance.below(4) {
            0 => {
                Change::RateFactor(Ratio { numerator: 1 + self.chance.below(4), denominator: 1 + self.chance.below(4) })
            }
            1 => Change::Rate(per_second(1 + self.chance.below(20_000))),
            2 => Change::Paused(self.chance.below(2) == 0),
            _ => Change::Enabled(self.chance.below(3) > 0),
        };
        // Refused once the run has ended.
        let _ = self.engine.update(&live.held, &selector, &change, 0);
        Ok(())
    }

    /// Looks at what has ended, and forgets it.
    fn settle(&mut self) -> anyhow::Result<()> {
        while let Some(at) = self.live.iter().position(|live| live.held.has_ended()) {
            let live = self.live.swap_remove(at);
            self.remove(&live, false)?;
        }
        Ok(())
    }

    fn remove(&mut self, live: &Live, cut: bool) -> anyhow::Result<()> {
        if cut {
            self.engine.remove(&live.id);
            self.cut += 1;
        }
        let counters = live.held.run().counters();
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        let lost_by_id: BTreeMap<u16, u64> = live
            .streams
            .iter()
            .map(|stream| (stream.id as u16, losses.remove(&(live.tag, stream.id as u16)).unwrap_or(0)))
            .collect();
        drop(losses);
        for (stream, c) in live.streams.iter().zip(&counters).filter(|(stream, _)| stream.measure.is_some()) {
            let (mut sent, mut received) = (0, 0);
            for phase in [&c.warmup, &c.measured] {
                ensure!(
                    (phase.duplicates, phase.misdirected) == (0, 0),
                    "{} {}: duplicates or misdirected packets where there are none: {phase:?}",
                    live.id,
                    stream.name
                );
                sent += phase.tx_packets;
                received += phase.rx_packets;
            }
            let lost = lost_by_id[&(stream.id as u16)];
            if cut {
                // A worker may be at work on a burst: taken by the port, and not counted yet.
                ensure!(
                    received + lost <= sent + UNDER_WORK,
                    "{} {}: sent {sent}, received {received}, lost {lost}",
                    live.id,
                    stream.name
                );
                continue;
            }
            ensure!(
                sent == received + lost,
                "{} {} ({} to {}): sent {sent}, received {received}, lost {lost}; {c:?}; {stream:?}",
                live.id,
                stream.name,
                stream.tx_port,
                stream.rx_port
            );
            self.sent += sent;
            self.received += received;
            self.lost += lost;
        }
        if !cut {
            self.engine.remove(&live.id);
            self.ended += 1;
        }
        Ok(())
    }

    /// Stops all runs and waits for their ends.
    fn finish(&mut self) -> anyhow::Result<()> {
        self.live.iter().for_each(|live| live.held.run().stop("the soak is over"));
        let since = Instant::now();
        while !self.live.is_empty() {
            self.settle()?;
            if since.elapsed() > 30 * SECOND {
                bail!("{} runs did not end within 30 s of being stopped", self.live.len());
            }
            std::thread::sleep(SECOND / 100);
        }
        Ok(())
    }

    fn report(&self, elapsed: Duration) -> anyhow::Result<()> {
        println!(
            "soak: {:>4} s  runs: {} under way, {} ended, {} cut off, {} refused for memory  packets: {} sent, {} received, {} lost  memory {} MiB",
            elapsed.as_secs(),
            self.live.len(),
            self.ended,
            self.cut,
            self.refused,
            self.sent,
            self.received,
            self.lost,
            resident()? >> 20
        );
        Ok(())
    }
}

/// Resident memory in bytes, hugepages not among it.
fn per_second(packets: u64) -> Rate {
    Rate { kind: Some(rate::Kind::PacketsPerSecond(Ratio { numerator: packets, denominator: 1 })) }
}

/// Decisions from a seed.
struct Chance(Numbers);

impl Chance {
    /// Below `bound`, which is not 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    fn plan(&mut self, id: &str, tag: u16) -> Plan {
        let duration_ns = if self.one_in(3) { 0 } else { self.below(4_000) * 1_000_000 + 1 };
        let streams = 1 + self.below(40);
        Plan {
            run_id: id.into(),
            profile: "soak".into(),
            namespace: "soak".into(),
            run_tag: tag.into(),
            timing: Some(Timing {
                warmup_ns: self.below(2) * 200_000_000,
                duration_ns,
                drain_ns: 200_000_000,
                stages: Vec::new(),
            }),
            streams: (0..streams).map(|index| self.stream(index as u32)).collect(),
            ..Plan::default()
        }
    }

    fn stream(&mut self, index: u32) -> Stream {
        let port = PORTS[self.below(2) as usize];
        let measured = !self.one_in(5);
        let case = if self.one_in(4) { "imix" } else { "one-fixed-stream" };
        let model = cases::find(case).map(|case| case.plan(false, 1)).into_iter().flat_map(|plan| plan.streams).next();
        let mut stream = Stream { measure: None, ..model.unwrap_or_default() };
        stream.name = format!("s{index}");
        stream.id = index;
        stream.tx_port = port.into();
        stream.rx_port = if measured { port.into() } else { String::new() };
        stream.measure = measured.then(|| Measure { flow: true, latency: self.one_in(2), ..Measure::default() });
        stream.disabled = self.one_in(8);
        stream.paused = self.one_in(8);
        stream.pinned = self.one_in(8);
        stream.start_delay_ns = self.below(3) * 50_000_000;
        let rate = Some(per_second(1 + self.below(5_000)));
        stream.transmit = Some(if self.one_in(3) {
            let (packets, count) = (1 + self.below(500), 1 + self.below(5));
            Transmit::Bursts(Bursts { rate, packets, count, gap_ns: self.below(100_000_000) })
        } else {
            Transmit::Continuous(Continuous { rate })
        });
        if self.one_in(2) {
            stream.program = Some(self.program());
        }
        if !measured && self.one_in(4) {
            stream.cache = 1 + self.below(200) as u32;
        }
        if let (Some(packet), true) = (&mut stream.packet, self.one_in(6)) {
            let sizes = vec![WeightedSize { bytes: packet.frame.len() as u32, weight: 1 + self.below(5) as u32 }];
            packet.sizes = Some(Sizes { kind: Some(sizes::Kind::List(SizeList { sizes, random: true, seed: 1 })) });
        }
        stream
    }

    fn program(&mut self) -> FieldProgram {
        let client = Random { min: 0x1000_0000, max: 0x1000_ffff, seed: self.below(1000) };
        let port = Counter { min: 1000, max: 1000 + self.below(5000), step: 1, first: 1000, down: self.one_in(2) };
        FieldProgram {
            variables: vec![
                Variable { name: "client".into(), kind: Some(variable::Kind::Random(client)), ..Variable::default() },
                Variable { name: "port".into(), kind: Some(variable::Kind::Counter(port)), ..Variable::default() },
            ],
            writes: vec![
                Write { variable: "client".into(), offset: cases::SOURCE as u32, size: 4, ..Write::default() },
                Write { variable: "port".into(), offset: cases::SOURCE_PORT as u32, size: 2, ..Write::default() },
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_or_refused() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert!(["", "5s", "10", "-1m", "1h", "99999999999999999m"].iter().all(|text| duration(text).is_err()));
    }

    #[test]
    fn the_same_seed_makes_the_same_plans() {
        let plan = || Chance(Numbers::new(7)).plan("a", 1);
        assert_eq!(plan(), plan());
    }
}
