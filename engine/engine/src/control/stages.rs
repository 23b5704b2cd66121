// SPDX-License-Identifier: Apache-2.0
//! The stages of runs: rates change at their instants, and counters are kept as they were at the end of each stage.
mod conduct;

use super::status::Refusal;
use crate::lock::lock;
use crate::plan::stages::Schedule;
pub use conduct::{advance, conduct};
use contract::{WatchStatsResponse, update_request::Change};
use std::sync::Mutex;

/// A packet that was sent this long before the end of a stage, and was not received then, is lost in that stage.
const SETTLE_NS: u64 = 100_000_000;

/// The stages of a run.
pub struct Stages {
    schedule: Schedule,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    /// Steps that workers have.
    steps: usize,
    /// By stream group: packets that were sent until `settled_ns` of the stage.
    settled: Option<Vec<u64>>,
    /// At the ends of stages.
    ends: Vec<WatchStatsResponse>,
}

impl Stages {
    /// The stages of a run that is not started and has the rates of its first step.
    pub fn new(schedule: Schedule) -> Self {
        Self { schedule, progress: Mutex::new(Progress { steps: 1, ..Progress::default() }) }
    }

    /// What the rates are at the start.
    pub fn first(&self) -> Change {
        Change::RateFactor(self.schedule.steps[0].factor)
    }

    /// The counters at the end of a stage.
    ///
    /// # Errors
    /// If the run has no such stage, it is the last, or its end has not come.
    pub fn end(&self, stage: u32) -> Result<WatchStatsResponse, Refusal> {
        let inner = self.schedule.ends_ns.len() - 1;
        if !(1..=inner).contains(&(stage as usize)) {
            let wrong = format!("{stage}; the run has {} stages, of which the last ends with it", inner + 1);
            return Err(Refusal::field("stage_end", wrong));
        }
        let progress = lock(&self.progress);
        let end = progress.ends.get(stage as usize - 1).cloned();
        end.ok_or_else(|| Refusal::State(format!("stage {stage} has not ended")))
    }

    /// Until when packets of a stage were sent that are lost in it if they were not received at its end: half of a short stage before that.
    fn settled_ns(&self, stage: usize) -> u64 {
        let ends_ns = &self.schedule.ends_ns;
        let begins_ns = ends_ns[..stage].last().copied().unwrap_or(self.schedule.begins_ns);
        ends_ns[stage] - SETTLE_NS.min((ends_ns[stage] - begins_ns) / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_settle_for_a_tenth_of_a_second_and_for_half_of_a_short_stage() {
        let ends_ns = vec![1_080_000_000, 3_000_000_000, 3_000_000_007];
        let stages = Stages::new(Schedule { steps: vec![], begins_ns: 1_000_000_000, ends_ns });
        assert_eq!([0, 1, 2].map(|stage| stages.settled_ns(stage)), [1_040_000_000, 2_900_000_000, 3_000_000_004]);
    }
}
