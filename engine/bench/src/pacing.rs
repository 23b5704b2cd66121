// SPDX-License-Identifier: Apache-2.0
//! How exactly do packets leave when they are due? A worker paces one stream into an outlet; another core polls the other
//! end, stamps what it reads, and compares with when each packet was due. Beside it, what that worker's CPU does to a
//! thread that only reads the clock for as long: what is taken from it, no pacing can be better than.
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};
use spate_dpdk::{BURST, Burst};
use spate_engine::datapath::{Clock, PollMode, PortDevice};
use spate_wire::{Trailer, trailer};

use crate::cases;
use crate::pages::Reserved;
use crate::rig::{Cpus, Rig};

const RATES: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];
/// The mean rate may be wrong by this.
const MOST_PPM: f64 = 10.0;
/// The 99.9th percentile of the departure error may be this.
const MOST_NS: usize = 5_000;
/// Errors and gaps from here on are counted as this.
const LONGEST_NS: usize = 1_000_000;

/// Measures departures at several rates; fails if they are not exact.
#[derive(Debug, clap::Args)]
pub struct Pacing {
    /// The best of so many attempts counts.
    #[arg(long, default_value_t = 5)]
    attempts: usize,
    /// Length of each attempt.
    #[arg(long, default_value_t = 2000)]
    milliseconds: u64,
    #[command(flatten)]
    cpus: Cpus,
}

/// Nanoseconds, counted by value.
struct Histogram {
    counts: Vec<u64>,
    total: u64,
    longest: u64,
    /// Sum of those above `MOST_NS`.
    lost_ns: u64,
}

impl Histogram {
    fn new() -> Self {
        Self { counts: vec![0; LONGEST_NS + 1], total: 0, longest: 0, lost_ns: 0 }
    }

    #[inline]
    fn add(&mut self, ns: u64) {
        self.add_many(ns, 1);
    }

    #[inline]
    fn add_many(&mut self, ns: u64, count: u64) {
        self.counts[(ns as usize).min(LONGEST_NS)] += count;
        self.total += count;
        self.longest = self.longest.max(ns);
        self.lost_ns += if ns > MOST_NS as u64 { ns * count } else { 0 };
    }

    /// The least value that `share` of all are not above.
    fn percentile(&self, share: f64) -> usize {
        let wanted = (self.total as f64 * share).ceil() as u64;
        let mut sum = 0;
        self.counts
            .iter()
            .position(|count| {
                sum += count;
                sum >= wanted
            })
            .unwrap_or(LONGEST_NS)
    }

    fn above(&self, ns: usize) -> u64 {
        self.counts[ns + 1..].iter().sum()
    }
}

/// How many packets had come, and when.
type Came = (u64, Instant);

/// One attempt at one rate.
struct Attempt {
    packets: u64,
    /// Mean rate against what was asked, by the system's clock.
    ppm: f64,
    errors: Histogram,
}

impl Pacing {
    pub fn execute(self) -> anyhow::Result<()> {
        // Before there is a worker, which polls without a rest.
        let idle = self.idle()?;
        let reserved = Reserved::new();
        let rig = Rig::open(PortDevice::Outlet, reserved.pages(), self.cpus, PollMode::Busy)?;
        let (mut queues, _registered) = rig.engine().datapath().outlet(0)?;
        let queue = queues.first_mut().context("an outlet has a queue")?;
        pin(self.cpus.control_cpu)?;
        rig.prefer()?;
        println!(
            "{:>10} {:>10} {:>9} {:>8} {:>8} {:>8} {:>8} {:>9}   {:>9} {:>9} {:>9} {:>9} {:>7}",
            "RATE/S",
            "PACKETS",
            "MEAN PPM",
            "P50 NS",
            "P99 NS",
            "P99.9",
            "P99.99",
            "MAX NS",
            "IDLE >1us",
            ">5us",
            ">50us",
            "MAX NS",
            "LOST %"
        );
        let mut failed = Vec::new();
        for rate in RATES {
            let mut best: Option<Attempt> = None;
            for attempt in 0..self.attempts {
                let made = self.attempt(&rig, queue, rate, attempt)?;
                if best.as_ref().is_none_or(|best| made.rank() < best.rank()) {
                    best = Some(made);
                }
            }
            let best = best.context("--attempts: must be at least 1")?;
            let p = |share| best.errors.percentile(share);
            println!(
                "{rate:>10} {:>10} {:>+9.2} {:>8} {:>8} {:>8} {:>8} {:>9}   {:>9} {:>9} {:>9} {:>9} {:>7.3}",
                best.packets,
                best.ppm,
                p(0.5),
                p(0.99),
                p(0.999),
                p(0.9999),
                best.errors.longest,
                idle.above(1_000),
                idle.above(5_000),
                idle.above(50_000),
                idle.longest,
                idle.lost_ns as f64 / (self.milliseconds as f64 * 1e4)
            );
            if !(best.ppm.abs() <= MOST_PPM && p(0.999) <= MOST_NS) {
                failed.push(rate);
            }
        }
        println!(
            "Departure error: when the receiver saw a packet minus when it was due; best of {} attempts of {} ms. Idle: gaps \
             between readings of the clock by a thread alone on the worker's CPU, as long; lost: the share of time in gaps \
             above 5 us. Where that is above 0.1 %, no program can keep 99.9 % of its packets within 5 us.",
            self.attempts, self.milliseconds
        );
        if !failed.is_empty() {
            bail!(
                "at {failed:?} packets/s the mean is off by more than {MOST_PPM} ppm, or 1 of 1000 packets by more than {MOST_NS} ns"
            );
        }
        Ok(())
    }

    fn attempt(
        &self,
        rig: &Rig,
        queue: &mut spate_dpdk::RxQueue,
        rate: u64,
        attempt: usize,
    ) -> anyhow::Result<Attempt> {
        let case = cases::find("flow-statistics").context("it is a case")?;
        let mut plan = case.plan(false, rate);
        plan.run_id = format!("pacing-{rate}-{attempt}");
        let length_ns = self.milliseconds * 1_000_000;
        if let Some(timing) = &mut plan.timing {
            timing.duration_ns = length_ns;
        }
        let held = rig.start(&plan)?;
        let started = held.run().started_at().context("it was started")?;
        let clock: Clock = rig.engine().datapath().clock();
        let expected = rate * self.milliseconds / 1000;
        let mut errors = Histogram::new();
        // Whole, at all of RATES: a division for each packet is more than the receiver has time for.
        ensure!(1_000_000_000 % rate == 0, "{rate} packets/s are no whole number of nanoseconds apart");
        let apart_ns = 1_000_000_000 / rate;
        let mut burst = Burst::new();
        let (mut lens, mut tails) = ([0; BURST], [[0; trailer::LEN]; BURST]);
        let (mut first, mut last): (Option<Came>, Option<Came>) = (None, None);
        let give_up = Instant::now() + Duration::from_millis(self.milliseconds) + Duration::from_secs(5);
        while errors.total < expected {
            let count = burst.receive(queue);
            if count == 0 {
                if held.has_ended() {
                    // The worker was so far behind at the end that it gave the rest up.
                    errors.add_many(LONGEST_NS as u64, expected - errors.total);
                    break;
                }
                ensure!(Instant::now() < give_up, "at {rate} packets/s the run does not end");
                continue;
            }
            let at = clock.now_wall_ns();
            burst.tails(&mut lens, &mut tails);
            for tail in &tails[..count] {
                let trailer = Trailer::decode(tail).context("a packet has no trailer")?;
                let due = started + u64::from(trailer.sequence) * apart_ns;
                errors.add(at.saturating_sub(due));
            }
            // The first packets leave with cold caches.
            let warm = errors.total >= expected / 100;
            if warm && (first.is_none() || errors.total == expected) {
                last = Some((errors.total, Instant::now()));
                first = first.or(last);
            }
        }
        rig.stop(&held)?;
        rig.engine().remove(&plan.run_id);
        let (Some(first), Some(last)) = (first, last) else { bail!("at {rate} packets/s no packet came") };
        let seconds = (last.1 - first.1).as_secs_f64();
        // Not a number, and so not right, if the last never came.
        let mean = if last.0 > first.0 { (last.0 - first.0) as f64 / seconds } else { f64::NAN };
        Ok(Attempt { packets: errors.total, ppm: (mean / rate as f64 - 1.0) * 1e6, errors })
    }

    /// Gaps that a thread sees which only reads the clock.
    fn idle(&self) -> anyhow::Result<Histogram> {
        let (cpu, length) = (self.cpus.worker_cpu, Duration::from_millis(self.milliseconds));
        let spin = move || -> anyhow::Result<Histogram> {
            pin(cpu)?;
            let mut gaps = Histogram::new();
            let start = Instant::now();
            let mut last = start;
            loop {
                let now = Instant::now();
                gaps.add((now - last).as_nanos() as u64);
                last = now;
                if now - start > length {
                    return Ok(gaps);
                }
            }
        };
        std::thread::spawn(spin).join().map_err(|_| anyhow::anyhow!("the idle spin panicked"))?
    }
}

impl Attempt {
    /// Smaller is better.
    fn rank(&self) -> (usize, u64) {
        (self.errors.percentile(0.999), self.errors.longest)
    }
}

fn pin(cpu: usize) -> anyhow::Result<()> {
    ensure!(cpu < CpuSet::MAX_CPU, "there is no CPU {cpu}");
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("this thread cannot be pinned to CPU {cpu}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_added() {
        let mut h = Histogram::new();
        (1..=1000).for_each(|ns| h.add(ns));
        h.add(9_000_000);
        assert_eq!((h.percentile(0.5), h.percentile(0.999), h.percentile(1.0)), (501, 1000, LONGEST_NS));
        assert_eq!((h.above(999), h.longest), (2, 9_000_000));
    }
}
