// SPDX-License-Identifier: Apache-2.0
//! Which workers hang? Those that have not passed their loop for some time, as in a call of a driver that does not return.
mod watch;

use crate::lock::lock;
use std::sync::Mutex;
use std::time::Duration;
pub use watch::watch;

/// How often workers are checked.
const INTERVAL: Duration = Duration::from_secs(1);
/// A worker that has not passed its loop for this number of checks hangs: 10 s. One that sleeps wakes at least every second.
const CHECKS: u32 = 10;

/// What is known of workers' heartbeats. Checks are counted, not the time between them: while the whole process stands (SIGSTOP, a
/// suspended machine) there are none, and no worker is blamed for it.
#[derive(Debug, Default)]
pub struct Watchdog(Mutex<Vec<Seen>>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    heartbeat: u64,
    /// Checks since it last changed.
    checks: u32,
}

impl Watchdog {
    /// Takes a look at the heartbeats of all workers, in order.
    fn check(&self, heartbeats: impl Iterator<Item = u64>) {
        let mut all = lock(&self.0);
        for (worker, heartbeat) in heartbeats.enumerate() {
            match all.get_mut(worker) {
                Some(seen) if seen.heartbeat == heartbeat => seen.checks = seen.checks.saturating_add(1),
                Some(seen) => *seen = Seen { heartbeat, checks: 0 },
                None => all.push(Seen { heartbeat, checks: 0 }),
            }
        }
    }

    /// What is wrong, in words; none if every worker passes its loop.
    pub fn problem(&self) -> Option<String> {
        let all = lock(&self.0);
        let hung = all.iter().enumerate().filter(|(_, seen)| seen.checks >= CHECKS);
        let hung: Vec<_> = hung.map(|(worker, _)| worker.to_string()).collect();
        let seconds = CHECKS * INTERVAL.as_secs() as u32;
        match &hung[..] {
            [] => None,
            [one] => Some(format!("worker {one} has not passed its loop for {seconds} s")),
            more => Some(format!("workers {} have not passed their loops for {seconds} s", more.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_hangs_whose_heartbeat_stands_for_ten_checks() {
        let watchdog = Watchdog::default();
        assert_eq!(watchdog.problem(), None, "nothing is checked yet");
        for check in 0..=10 {
            assert_eq!(watchdog.problem(), None, "check {check}");
            watchdog.check([check, 7, 7].into_iter());
        }
        assert_eq!(watchdog.problem().unwrap(), "workers 1, 2 have not passed their loops for 10 s");
        watchdog.check([11, 7, 8].into_iter());
        assert_eq!(watchdog.problem().unwrap(), "worker 1 has not passed its loop for 10 s");
        watchdog.check([11, 8, 8].into_iter());
        assert_eq!(watchdog.problem(), None, "it goes on");
    }
}
