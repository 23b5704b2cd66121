// SPDX-License-Identifier: Apache-2.0
//! Do flows stay true for long? Connections and datagrams at the rate that the worker can do, over a loopback that loses
//! packets in a known way: when they stop, none is left, counters agree, and memory has not grown.
use std::time::{Duration, Instant};

use anyhow::ensure;
use spate_engine::control::runs::Held;
use spate_engine::datapath::{PollMode, PortDevice};
use spate_stateful::Count;

use crate::flow_cases::{self, DRAIN_NS, LONG_DRAIN_NS};
use crate::flows::{lose, resident, summary};
use crate::pages::Reserved;
use crate::rig::{Cpus, Rig};
use crate::soak::duration;

/// Time of finding out how many flows a second the worker can do, at a higher rate.
const FIRST: Duration = Duration::from_secs(5);
const TOO_MANY: u64 = 1_500_000;
/// Flows of each kind that are open at a time then.
const OPEN: u64 = 1000;
/// What resident memory may grow by after the first third.
const GROWTH: u64 = 8 << 20;
/// Interval of progress reports.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Runs flows at full rate with losses; fails if one is left over, counters disagree or memory grows.
#[derive(Debug, clap::Args)]
pub struct FlowSoak {
    /// Length of the test, such as 30s or 30m.
    #[arg(long, value_parser = duration)]
    length: Duration,
    /// Seed of the packets that are lost.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    cpus: Cpus,
}

fn sum(held: &Held, count: Count) -> u64 {
    held.run().template_counters().iter().map(|side| side.get(count)).sum()
}

fn open(held: &Held) -> u64 {
    held.run().template_counters().iter().map(|side| side.open).sum()
}

impl FlowSoak {
    pub fn execute(self) -> anyhow::Result<()> {
        let reserved = Reserved::new();
        let rig = Rig::open(PortDevice::Loopback, reserved.pages(), self.cpus, PollMode::Busy)?;
        lose(&rig, self.seed);
        let rate = Self::full_rate(&rig)?;
        println!("soak-stateful: {rate} flows/s, one packet in 100 lost, seed {}", self.seed);
        let held = rig.start(&flow_cases::mix("soak", rate, 0, LONG_DRAIN_NS))?;
        let (since, mut next, mut early) = (Instant::now(), REPORT_EVERY, None);
        while since.elapsed() < self.length {
            std::thread::sleep(Duration::from_millis(100));
            if early.is_none() && since.elapsed() >= self.length / 3 {
                early = Some(resident()?);
            }
            if since.elapsed() >= next {
                next += REPORT_EVERY;
                let (ended, again) = (sum(&held, Count::FlowsClosed) / 2, sum(&held, Count::RetransmittedPackets));
                let (open, memory) = (open(&held), resident()? >> 20);
                println!(
                    "  {:>5} s: {ended} flows ended, {open} ends open, {again} packets sent again, {memory} MiB",
                    next.as_secs() - REPORT_EVERY.as_secs()
                );
            }
        }
        let (early, late) = (early.unwrap_or_default(), resident()?);
        println!("soak-stateful: what is open has {} s to end", LONG_DRAIN_NS / 1_000_000_000);
        rig.stop(&held)?;
        let wrong = held.run().contradictions();
        ensure!(wrong.is_empty(), "{}; {}", wrong.join("; "), summary(&held));
        ensure!(open(&held) == 0 && sum(&held, Count::FlowsAborted) == 0, "flows are left: {}", summary(&held));
        ensure!(sum(&held, Count::RetransmittedPackets) > 0, "nothing was lost");
        ensure!(late <= early + GROWTH, "memory grew from {} to {} MiB", early >> 20, late >> 20);
        println!(
            "soak-stateful: {} flows ended, none is left, counters agree; memory {} MiB after the first third, {} MiB at the end",
            sum(&held, Count::FlowsClosed) / 2,
            early >> 20,
            late >> 20
        );
        Ok(())
    }

    /// Flows a second that the worker ends with losses.
    fn full_rate(rig: &Rig) -> anyhow::Result<u64> {
        let held = rig.start(&flow_cases::mix("first", TOO_MANY, OPEN, DRAIN_NS))?;
        std::thread::sleep(FIRST / 2);
        let before = sum(&held, Count::FlowsClosed) / 2;
        std::thread::sleep(FIRST / 2);
        let ended = sum(&held, Count::FlowsClosed) / 2 - before;
        rig.stop(&held)?;
        rig.engine().remove("first");
        Ok((ended as f64 / (FIRST / 2).as_secs_f64()) as u64)
    }
}
