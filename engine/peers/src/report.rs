// SPDX-License-Identifier: Apache-2.0
//! What was seen, as a table while it happens and as JSON.
use serde::Serialize;

use crate::{
    cases::Compared,
    trial::{Outcome, Sender},
};

/// All that was seen.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    trials: Vec<Outcome>,
    comparisons: Vec<Compared>,
}

impl Report {
    /// Prints a trial.
    pub fn note(&mut self, outcome: Outcome) {
        if self.trials.is_empty() {
            println!(
                "{:<58} {:>11} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>5}",
                "trial", "completed", "median", "p99", "kB/s", "lost", "resent", "time-outs", "RST"
            );
        }
        let count = |name: &str| outcome.counters.get(name).copied().unwrap_or(0);
        println!(
            "{:<58} {:>11} {:>6.2}s {:>6.2}s {:>7.0} {:>7} {:>7} {:>9} {:>5}",
            outcome.name,
            format!("{}/{}", outcome.completed, outcome.connections),
            outcome.seconds.median,
            outcome.seconds.p99,
            outcome.goodput,
            outcome.router.lost,
            count("retransmitted_packets"),
            count("retransmit_timeouts"),
            count("resets_sent"),
        );
        if outcome.sender != Sender::Nginx || !outcome.faults.is_empty() {
            for (failure, times) in &outcome.failures {
                println!("    {times} x {failure}");
            }
        }
        for fault in &outcome.faults {
            println!("    FAULT: {fault}");
        }
        self.trials.push(outcome);
    }

    /// Prints a comparison.
    pub fn compare(&mut self, compared: Compared) {
        println!("{}: {} rounds of {} connections each", compared.name, compared.rounds, compared.connections);
        for (name, side) in [("ours", &compared.ours), ("kernel", &compared.kernel)] {
            let t = side.seconds;
            println!(
                "    {name:<7} {:>6.0} kB/s   median {:.2}s   p99 {:.2}s   longest {:.2}s",
                side.goodput, t.median, t.p99, t.longest
            );
        }
        let rounds: Vec<_> = compared.ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        println!("    ratio   {:.2} (rounds: {}; at least {:.2})", compared.ratio, rounds.join(" "), compared.least);
        for fault in &compared.faults {
            println!("    FAULT: {fault}");
        }
        self.comparisons.push(compared);
    }

    /// Whether all is as it should be.
    pub fn is_good(&self) -> bool {
        let ran = !self.trials.is_empty() || !self.comparisons.is_empty();
        ran && self.trials.iter().all(|trial| trial.faults.is_empty())
            && self.comparisons.iter().all(|compared| compared.faults.is_empty())
    }

    /// As JSON.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}
