// SPDX-License-Identifier: Apache-2.0
//! `make bench-beside`: an earlier build of this program beside this one, in one run, each case in turn, medians of several rounds.
use std::path::{Path, PathBuf};

use anyhow::bail;
use serde::Serialize;

use crate::cases;
use crate::flow_cases;
use crate::flows::Ended;
use crate::measure::{Device, Measured};
use crate::pages::Reserved;
use crate::rig::{Cpus, Pages, child_of, write_json};
use crate::series::{Series, rounded};

/// Measures all cases that run flat out with an earlier build of this program and with this one, in turn; prints a table and writes it as
/// JSON.
#[derive(Debug, clap::Args)]
pub struct Beside {
    /// The earlier build.
    #[arg(long)]
    before: PathBuf,
    /// The file to write.
    #[arg(long)]
    json: PathBuf,
    /// Number of rounds, of which medians are taken.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Length of each measurement.
    #[arg(long, default_value_t = 500)]
    milliseconds: u64,
    /// Only cases whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    #[command(flatten)]
    cpus: Cpus,
}

/// What is measured: packets of streams on a device, or flows over a loopback.
#[derive(Clone, Copy)]
enum Case {
    Packets(&'static str, Device),
    Flows(&'static str),
}

/// A case's figures, of each round.
struct Compared {
    case: Case,
    before: Series,
    after: Series,
}

/// The file's form: packets or flows per CPU-second, and half the distance from the lowest to the highest in percent of the median.
#[derive(Serialize)]
struct Line {
    case: String,
    before: f64,
    before_spread: f64,
    after: f64,
    after_spread: f64,
    ratio: f64,
}

impl Case {
    fn all() -> impl Iterator<Item = Self> {
        let packets = cases::CASES.iter().flat_map(|case| {
            [Device::Null, Device::Loopback].into_iter().map(|device| Self::Packets(case.name, device))
        });
        let flows = flow_cases::CASES.iter().filter(|case| case.is_flat_out());
        packets.chain(flows.map(|case| Self::Flows(case.name)))
    }

    fn name(self) -> String {
        match self {
            Self::Packets(case, device) => format!("{case} on {}", device.name()),
            Self::Flows(case) => case.to_owned(),
        }
    }

    /// Packets or flows per CPU-second, measured by a build of this program.
    fn measure(self, program: &Path, pages: Pages, cpus: Cpus, milliseconds: u64) -> anyhow::Result<f64> {
        let length = milliseconds.to_string();
        let (number, cpu_ns) = match self {
            Self::Packets(case, device) => {
                let arguments = ["measure", "--case", case, "--port", device.name(), "--milliseconds", &length];
                let measured: Measured = serde_json::from_str(&child_of(program, &arguments, pages, cpus)?)?;
                (measured.packets, measured.cpu_ns)
            }
            Self::Flows(case) => {
                let arguments = ["flows", "--case", case, "--milliseconds", &length];
                let ended: Ended = serde_json::from_str(&child_of(program, &arguments, pages, cpus)?)?;
                (ended.flows, ended.cpu_ns)
            }
        };
        Ok(number as f64 * 1e9 / cpu_ns as f64)
    }
}

impl Beside {
    pub fn execute(self) -> anyhow::Result<()> {
        let mut all: Vec<_> = Case::all()
            .filter(|case| case.name().contains(&self.only))
            .map(|case| Compared { case, before: Series::default(), after: Series::default() })
            .collect();
        if all.is_empty() {
            bail!("--only {}: no case is called so", self.only);
        }
        let reserved = Reserved::new();
        let pages = reserved.pages();
        let after = std::env::current_exe()?;
        for round in 1..=self.rounds {
            eprintln!("bench: round {round} of {}", self.rounds);
            for Compared { case, before: of_before, after: of_after } in &mut all {
                let measure = |program| case.measure(program, pages, self.cpus, self.milliseconds);
                // Each program is measured first in every other round.
                if round % 2 == 1 {
                    of_before.add(measure(&self.before)?);
                    of_after.add(measure(&after)?);
                } else {
                    of_after.add(measure(&after)?);
                    of_before.add(measure(&self.before)?);
                }
            }
        }
        let lines: Vec<_> = all.iter().map(Compared::line).collect();
        print(&lines, pages);
        write_json(&self.json, &lines)
    }
}

impl Compared {
    fn line(&self) -> Line {
        Line {
            case: self.case.name(),
            before: rounded(self.before.median(), 0),
            before_spread: rounded(self.before.spread(), 1),
            after: rounded(self.after.median(), 0),
            after_spread: rounded(self.after.spread(), 1),
            ratio: rounded(self.after.median() / self.before.median(), 3),
        }
    }
}

fn print(lines: &[Line], pages: Pages) {
    println!("{:<32} {:>14} {:>6} {:>14} {:>6} {:>7}", "PER CPU-SECOND", "BEFORE", "+-%", "AFTER", "+-%", "RATIO");
    for line in lines {
        println!(
            "{:<32} {:>14.0} {:>6.1} {:>14.0} {:>6.1} {:>7.3}",
            line.case, line.before, line.before_spread, line.after, line.after_spread, line.ratio
        );
    }
    if pages == Pages::Normal {
        println!("Without hugepages, for both: they could not be had.");
    }
}
