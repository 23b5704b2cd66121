// SPDX-License-Identifier: Apache-2.0
//! How exactly do packets leave when they are due? A worker paces one stream into an outlet; another core polls the other
//! end, stamps what it reads, and compares with when each packet was due. Beside it, what the same two CPUs do to threads
//! that only read the clock for as long: what is taken from them, no pacing can be better than.
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use spate_dpdk::{BURST, Burst, RxQueue};
use spate_engine::datapath::{Clock, PollMode, PortDevice};
use spate_engine::index::PortIndex;
use spate_net::{Trailer, trailer};
use spate_stats::{Distribution, Histogram};

use crate::cases;
use crate::pages::Reserved;
use crate::rig::{Cpus, Rig, pin, prefer};

const RATES: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];
/// The mean rate may be wrong by this.
const MAX_PPM: f64 = 10.0;
/// The 99.9th percentile of the departure error may be this...
const MAX_NS: u64 = 5_000;
/// ...or this multiple of what it would be without any pacing, on a machine that takes its CPUs away from threads for longer.
const MAX_TIMES: u64 = 2;
/// Parts per million.
const P999: u32 = 999_000;

/// Measures departures at several rates; fails if they are not exact.
#[derive(Debug, clap::Args)]
pub struct Pacing {
    /// Number of attempts, of which the best counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    attempts: u32,
    /// Length of each attempt.
    #[arg(long, default_value_t = 2000)]
    milliseconds: u64,
    #[command(flatten)]
    cpus: Cpus,
}

/// One attempt at one rate.
struct Attempt {
    /// Mean rate against the requested one, by the system's clock.
    ppm: f64,
    /// Departure errors.
    errors: Distribution,
}

/// What a CPU took from a thread that only read the clock.
struct Idle {
    /// Between readings: those longer than `Idle::GAP`, in nanoseconds.
    gaps: Vec<u64>,
    /// All of it, in nanoseconds.
    length: u64,
}

/// The packet of a part of an attempt that was the least late: any other was held up on its way.
#[derive(Clone, Copy)]
struct Prompt {
    late_ns: u64,
    sequence: u32,
    /// When it came, by the system's clock.
    came: Option<Instant>,
}

impl Prompt {
    const NONE: Self = Self { late_ns: u64::MAX, sequence: 0, came: None };

    #[inline]
    fn offer(&mut self, late_ns: u64, sequence: u32) {
        if late_ns < self.late_ns {
            *self = Self { late_ns, sequence, came: Some(Instant::now()) };
        }
    }
}

impl Pacing {
    pub fn execute(self) -> anyhow::Result<()> {
        // Before there is a worker, which polls without a rest.
        let idle = self.idle()?;
        let perfect = |parts_per_million| Idle::error(&idle, parts_per_million);
        let most_ns = if perfect(P999) > MAX_NS { perfect(P999) * MAX_TIMES } else { MAX_NS };
        println!("{:>10} {:>9} {:>8} {:>8} {:>8} {:>9}", "RATE/S", "MEAN PPM", "P50 NS", "P99", "P99.9", "MAX");
        let row = |name: &str, ppm: &str, ns: [u64; 4]| {
            println!("{name:>10} {ppm:>9} {:>8} {:>8} {:>8} {:>9}", ns[0], ns[1], ns[2], ns[3]);
        };
        let reserved = Reserved::new();
        let rig = Rig::open(PortDevice::Outlet, reserved.pages(), self.cpus, PollMode::Busy)?;
        let (mut queues, _registered) = rig.engine().datapath().outlet(PortIndex(0))?;
        let queue = queues.first_mut().context("an outlet has a queue")?;
        rig.prefer()?;
        let mut failed = Vec::new();
        for rate in RATES {
            let attempts = (0..self.attempts).map(|attempt| self.attempt(&rig, queue, rate, attempt));
            let attempts = attempts.collect::<anyhow::Result<Vec<_>>>()?;
            let best = attempts.iter().min_by_key(|made| made.errors.quantile(P999)).context("at least one")?;
            let p = |parts_per_million| best.errors.quantile(parts_per_million);
            row(&rate.to_string(), &format!("{:+.2}", best.ppm), [p(500_000), p(990_000), p(P999), p(1_000_000)]);
            if !(best.ppm.abs() <= MAX_PPM && p(P999) <= most_ns) {
                failed.push(rate);
            }
        }
        row("perfect", "", [perfect(500_000), perfect(990_000), perfect(P999), perfect(1_000_000)]);
        println!(
            "\nDeparture error: when the receiver saw a packet minus when it was due; best of {} attempts of {} ms. Perfect: the \
             errors of a sender and a receiver that need no time, on these CPUs as idle threads found them:\n",
            self.attempts, self.milliseconds
        );
        println!(
            "{:>4} {:>10} {:>8} {:>8} {:>8} {:>9} {:>7}",
            "CPU", "GAPS >1 us", ">5 us", ">50 us", ">1 ms", "MAX NS", "LOST %"
        );
        for (cpu, idle) in [self.cpus.worker_cpu, self.cpus.control_cpu].iter().zip(&idle) {
            let above = |ns: u64| idle.gaps.iter().filter(|&&gap| gap > ns).count();
            println!(
                "{cpu:>4} {:>10} {:>8} {:>8} {:>8} {:>9} {:>7.3}",
                above(1_000),
                above(5_000),
                above(50_000),
                above(1_000_000),
                idle.gaps.iter().max().unwrap_or(&0),
                idle.gaps.iter().sum::<u64>() as f64 / idle.length as f64 * 100.0
            );
        }
        if !failed.is_empty() {
            bail!(
                "at {failed:?} packets/s the mean is off by more than {MAX_PPM} ppm, or 1 of 1000 packets by more than {most_ns} ns"
            );
        }
        if most_ns > MAX_NS {
            println!(
                "\nNot shown: 99.9 % of packets within {MAX_NS} ns. These CPUs keep an idle thread from that. Shown: within \
                 {MAX_TIMES} times the error that they force on anyone."
            );
        }
        Ok(())
    }

    fn attempt(&self, rig: &Rig, queue: &mut RxQueue, rate: u64, attempt: u32) -> anyhow::Result<Attempt> {
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
        let errors = Histogram::new();
        let mut packets = 0;
        // Whole, at all of RATES: a division for each packet is more than the receiver has time for.
        ensure!(1_000_000_000 % rate == 0, "{rate} packets/s are no whole number of nanoseconds apart");
        let apart_ns = 1_000_000_000 / rate;
        let mut burst = Burst::new();
        let (mut lens, mut tails) = ([0; BURST], [[0; trailer::LEN]; BURST]);
        // Of the first and of the last tenth.
        let (mut first, mut last) = (Prompt::NONE, Prompt::NONE);
        let tenth = expected / 10;
        let give_up = Instant::now() + Duration::from_millis(self.milliseconds) + Duration::from_secs(5);
        while packets < expected {
            let count = burst.receive(queue);
            if count == 0 {
                ensure!(
                    !held.has_ended(),
                    "at {rate} packets/s {} of {expected} never left: the worker is too slow",
                    expected - packets
                );
                ensure!(Instant::now() < give_up, "at {rate} packets/s the run does not end");
                continue;
            }
            let at = clock.now_wall_ns();
            burst.tails(&mut lens, &mut tails);
            let mut late_ns = 0;
            let mut sequence = 0;
            for tail in &tails[..count] {
                let trailer = Trailer::decode(tail).context("a packet has no trailer")?;
                sequence = trailer.sequence;
                late_ns = at.saturating_sub(started + u64::from(sequence) * apart_ns);
                errors.record(late_ns);
            }
            packets += count as u64;
            if packets <= tenth {
                first.offer(late_ns, sequence);
            } else if packets > expected - tenth {
                last.offer(late_ns, sequence);
            }
        }
        rig.stop(&held)?;
        rig.engine().remove(&plan.run_id);
        let (Some(began), Some(ended)) = (first.came, last.came) else {
            bail!("at {rate} packets/s too few packets came")
        };
        let mean = f64::from(last.sequence - first.sequence) / (ended - began).as_secs_f64();
        Ok(Attempt { ppm: (mean / rate as f64 - 1.0) * 1e6, errors: Distribution::read([&errors].into_iter()) })
    }

    /// What both CPUs take from idle threads at the same time; the best of as many attempts.
    fn idle(&self) -> anyhow::Result<Vec<Idle>> {
        let attempts = (0..self.attempts).map(|_| {
            let cpus = [self.cpus.worker_cpu, self.cpus.control_cpu];
            let spins = cpus.map(|cpu| {
                let length = Duration::from_millis(self.milliseconds);
                std::thread::spawn(move || Idle::measure(cpu, length))
            });
            let joined = spins.map(|spin| spin.join().map_err(|_| anyhow::anyhow!("an idle thread panicked"))?);
            joined.into_iter().collect::<anyhow::Result<Vec<_>>>()
        });
        let attempts = attempts.collect::<anyhow::Result<Vec<_>>>()?;
        attempts.into_iter().min_by_key(|made| Idle::error(made, P999)).context("at least one")
    }
}

impl Idle {
    /// Shorter ones are between any two readings.
    const GAP: u64 = 1_000;

    fn measure(cpu: usize, length: Duration) -> anyhow::Result<Self> {
        pin(cpu)?;
        prefer(0)?;
        let mut gaps = Vec::with_capacity(1 << 20);
        let start = Instant::now();
        let mut last = start;
        while last - start < length {
            let now = Instant::now();
            let gap = (now - last).as_nanos() as u64;
            if gap > Self::GAP && gaps.len() < gaps.capacity() {
                gaps.push(gap);
            }
            last = now;
        }
        Ok(Self { gaps, length: length.as_nanos() as u64 })
    }

    /// What this many parts per million of packets are late by at most, if each of the CPUs must be there to handle it, takes
    /// no time for it, and packets are due at any time alike: one that is due in a gap waits for its end.
    fn error(cpus: &[Self], parts_per_million: u32) -> u64 {
        let wanted = 1.0 - f64::from(parts_per_million) / 1e6;
        let later = |ns: u64| -> f64 {
            let share =
                |cpu: &Self| cpu.gaps.iter().map(|gap| gap.saturating_sub(ns)).sum::<u64>() as f64 / cpu.length as f64;
            cpus.iter().map(share).sum()
        };
        let (mut least, mut most) = (0, cpus.iter().flat_map(|cpu| &cpu.gaps).max().copied().unwrap_or(0));
        while least < most {
            let middle = (least + most) / 2;
            if later(middle) <= wanted {
                most = middle;
            } else {
                least = middle + 1;
            }
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_due_in_a_gap_waits_for_its_end() {
        let idle = [Idle { gaps: vec![2_000, 100_000], length: 1_000_000 }, Idle { gaps: vec![], length: 1_000_000 }];
        // 10 % of the time lie more than 0 before the end of the longer gap, 0.1 % more than 99 us.
        assert_eq!(Idle::error(&idle, P999), 99_000);
        assert_eq!((Idle::error(&idle, 500_000), Idle::error(&idle, 1_000_000)), (0, 100_000));
        assert_eq!(Idle::error(&[], P999), 0);
    }
}
