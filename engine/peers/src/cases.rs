// SPDX-License-Identifier: Apache-2.0
//! Trials.
use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    forge::Aim,
    forwarder::Resets,
    namespaces::Family,
    path::Path,
    times::Times,
    trial::{Bench, Expected, Outcome, Sender, Trial},
};

/// Bytes of a response.
const BYTES: u64 = 100_000;
/// Goodput of ours is to be at least this much of the kernel's.
const MIN_SHARE: f64 = 0.75;

/// Set of trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Set {
    /// All.
    Full,
    /// What takes less than a minute.
    Short,
}

/// What becomes of the command where goodput is less than was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Floors {
    /// A missed floor fails.
    Fail,
    /// A missed floor is reported.
    Warn,
}

fn trial(name: impl Into<String>, sender: Sender, path: Path) -> Trial {
    Trial {
        name: name.into(),
        sender,
        family: Family::V4,
        path,
        resets: None,
        connections: 200,
        per_second: 100,
        bytes: BYTES,
        expected: Expected::Complete,
    }
}

/// Trials in both directions: the engine sends, and the engine receives.
fn both(name: &str, path: &Path) -> [Trial; 2] {
    [Sender::Ours, Sender::ToOurs].map(|sender| {
        let direction = if sender == Sender::Ours { "sent" } else { "received" };
        trial(format!("{name}, {direction}"), sender, path.clone())
    })
}

fn matrix(losses: &[u32], delays: &[u64]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for loss in losses {
        for delay in delays {
            let name = format!("loss {} %, delay {delay} ms", loss / 10);
            trials.extend(both(&name, &Path::lossy(*loss, *delay)));
        }
    }
    trials
}

fn disorder() -> Vec<Trial> {
    let jitter = Path { jitter_us: 20_000, ..Path::clear(10) };
    let held = Path { held_per_mille: 50, held_us: 8_000, ..Path::lossy(10, 10) };
    let twice = Path { twice_per_mille: 50, jitter_us: 2_000, ..Path::lossy(10, 10) };
    let narrow = Path { mtu: 1200, ..Path::lossy(10, 10) };
    let narrows = Path { later: Some((5_000, Box::new(narrow))), ..Path::lossy(10, 10) };
    [
        both("jitter 20 ms", &jitter),
        both("5 % held back by 8 ms, loss 1 %", &held),
        both("5 % twice, jitter 2 ms, loss 1 %", &twice),
        both("MTU 1500, then 1200, loss 1 %", &narrows),
    ]
    .concat()
}

fn attacks() -> Vec<Trial> {
    [Aim::Exact, Aim::InWindow, Aim::Outside]
        .map(|aim| {
            let (one_in, name) = match aim {
                Aim::Exact => (4, "forged RST, exact"),
                Aim::InWindow => (1, "forged RST, in the window"),
                Aim::Outside => (1, "forged RST, outside the window"),
            };
            let expected = if aim == Aim::Exact { Expected::OneInReset(one_in) } else { Expected::Complete };
            let resets = Some(Resets { one_in, aim });
            // Without losses: the end whose connection is gone sends the peer one RST.
            Trial { resets, expected, ..trial(name, Sender::Ours, Path::clear(10)) }
        })
        .into()
}

fn servers() -> Vec<Trial> {
    let silent = Path { loss_per_mille: 1000, ..Path::clear(10) };
    let falls_silent = Path { later: Some((4_000, Box::new(silent))), ..Path::clear(10) };
    vec![
        trial("nginx, loss 2 %, delay 10 ms", Sender::Nginx, Path::lossy(20, 10)),
        Trial {
            expected: Expected::Killed,
            per_second: 50,
            ..trial("nginx killed", Sender::Nginx, Path::lossy(10, 10))
        },
        Trial { expected: Expected::Silence, ..trial("path falls silent", Sender::ToOurs, falls_silent) },
    ]
}

/// The kernel and nginx over IPv6.
fn over_ipv6() -> Vec<Trial> {
    let twice = Path { twice_per_mille: 50, jitter_us: 2_000, ..Path::lossy(10, 10) };
    let narrow = Path { mtu: 1280, ..Path::lossy(10, 10) };
    let narrows = Path { later: Some((5_000, Box::new(narrow))), ..Path::lossy(10, 10) };
    let trials = [
        both("loss 5 %, delay 50 ms", &Path::lossy(50, 50)).into(),
        both("5 % twice, jitter 2 ms, loss 1 %", &twice).into(),
        both("MTU 1500, then 1280, loss 1 %", &narrows).into(),
        // The last: nginx closes first, and the far end keeps its connections in TIME-WAIT.
        vec![trial("nginx, loss 2 %, delay 10 ms", Sender::Nginx, Path::lossy(20, 10))],
    ];
    let over_ipv6 = |trial: Trial| Trial { name: format!("IPv6, {}", trial.name), family: Family::V6, ..trial };
    trials.concat().into_iter().map(over_ipv6).collect()
}

/// The clients of our servers.
fn clients() -> Vec<Trial> {
    let wrk =
        |name: &str, sender| Trial { connections: 800, bytes: 10_000, ..trial(name, sender, Path::lossy(10, 10)) };
    vec![
        trial("clients behind source NAT, loss 2 %, delay 10 ms", Sender::OursThroughNat, Path::lossy(20, 10)),
        wrk("wrk, requests in turn, loss 1 %, delay 10 ms", Sender::OursToWrk),
        wrk("wrk, a connection a request, loss 1 %, delay 10 ms", Sender::OursOnceToWrk),
    ]
}

/// The promise: this many connections under 5 % loss and 50 ms of delay each way.
fn promise(connections: usize) -> Vec<Trial> {
    let name = format!("{connections} connections, loss 5 %, delay 50 ms");
    both(&name, &Path::lossy(50, 50)).map(|trial| Trial { connections, per_second: 400, ..trial }).into()
}

/// All of a set.
pub fn trials(set: Set, connections: usize) -> Vec<Trial> {
    match set {
        Set::Full => {
            let all = matrix(&[0, 10, 20, 50], &[10, 50, 100]);
            [all, disorder(), over_ipv6(), attacks(), servers(), clients(), promise(connections)].concat()
        }
        Set::Short => {
            let few = [disorder().split_off(2), over_ipv6()[4..6].to_vec(), attacks(), servers(), clients()].concat();
            let half = |trial: Trial| Trial { connections: trial.connections / 2, ..trial };
            promise(400).into_iter().chain(few.into_iter().map(half)).collect()
        }
    }
}

/// Ours in the kernel's place.
#[derive(Clone, Debug)]
pub struct Comparison {
    pub name: String,
    path: Path,
    bytes: u64,
    connections: usize,
    per_second: usize,
}

/// A side of a comparison over all rounds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Side {
    /// In kB/s.
    pub goodput: f64,
    pub seconds: Times,
    /// Counters of all rounds.
    pub counters: BTreeMap<&'static str, u64>,
}

/// What it brought.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    pub name: String,
    pub rounds: usize,
    pub connections: usize,
    pub bytes: u64,
    pub ours: Side,
    pub kernel: Side,
    /// Ratio of goodput, the engine's by the kernel's.
    pub ratio: f64,
    /// By round.
    pub ratios: Vec<f64>,
    /// Fewer is a fault.
    pub least: f64,
    pub faults: Vec<String>,
}

/// All of a set.
pub fn comparisons(set: Set) -> Vec<Comparison> {
    let compare = |loss: u32, delay: u64, bytes: u64, connections: usize, per_second: usize| Comparison {
        name: format!("goodput, loss {} %, delay {delay} ms, {} kB", loss / 10, bytes / 1000),
        path: Path::lossy(loss, delay),
        bytes,
        connections,
        per_second,
    };
    match set {
        Set::Short => vec![],
        Set::Full => vec![
            compare(50, 50, BYTES, 300, 100),
            compare(10, 50, BYTES, 300, 100),
            compare(0, 50, BYTES, 300, 100),
            compare(20, 10, 10 * BYTES, 60, 20),
        ],
    }
}

fn average(outcomes: &[Outcome]) -> Side {
    let mean = |of: fn(&Times) -> f64| outcomes.iter().map(|o| of(&o.seconds)).sum::<f64>() / outcomes.len() as f64;
    let seconds = Times {
        mean: mean(|t| t.mean),
        median: mean(|t| t.median),
        p99: mean(|t| t.p99),
        longest: mean(|t| t.longest),
    };
    let mut counters = BTreeMap::new();
    for (name, count) in outcomes.iter().flat_map(|outcome| &outcome.counters) {
        *counters.entry(*name).or_default() += count;
    }
    Side { goodput: outcomes[0].bytes as f64 / seconds.mean / 1e3, seconds, counters }
}

impl Comparison {
    /// Rounds of both in turn, over paths of the same seeds.
    pub fn run(&self, bench: &mut Bench, rounds: usize, floors: Floors) -> anyhow::Result<Compared> {
        let (mut ours, mut kernels, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        let seed = bench.seed;
        for round in 0..rounds {
            bench.seed = seed + round as u64;
            for (sender, outcomes) in [(Sender::Ours, &mut ours), (Sender::Kernel, &mut kernels)] {
                let (connections, per_second, bytes) = (self.connections, self.per_second, self.bytes);
                let trial = Trial { connections, per_second, bytes, ..trial(&self.name, sender, self.path.clone()) };
                let outcome = trial.run(bench)?;
                faults.extend(outcome.faults.iter().map(|fault| format!("{sender:?}: {fault}")));
                outcomes.push(outcome);
            }
        }
        bench.seed = seed;
        let ratios = ours.iter().zip(&kernels).map(|(ours, kernel)| ours.goodput / kernel.goodput).collect();
        let (ours, kernel) = (average(&ours), average(&kernels));
        let ratio = ours.goodput / kernel.goodput;
        if ratio.is_nan() || ratio < MIN_SHARE {
            let missed = format!("goodput is {ratio:.2} of the kernel's, less than {MIN_SHARE}");
            match floors {
                Floors::Fail => faults.push(format!("{missed} (BENCH_FLOORS=warn only warns)")),
                Floors::Warn => eprintln!("warning: {}: {missed}", self.name),
            }
        }
        Ok(Compared {
            name: self.name.clone(),
            rounds,
            connections: self.connections,
            bytes: self.bytes,
            ours,
            kernel,
            ratio,
            ratios,
            least: MIN_SHARE,
            faults,
        })
    }
}
