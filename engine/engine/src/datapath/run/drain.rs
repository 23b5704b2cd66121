// SPDX-License-Identifier: Apache-2.0
//! The end of a run: packets under way are waited for, workers read all that has arrived, count nothing more, and the file of records is
//! written.
use std::sync::Arc;

use super::{Control, Run, records::Records};
use crate::datapath::{shared::RunShare, worker::Command};

/// A run is closed this long after its drain, even if workers have not read all that has arrived.
const READ_TIMEOUT_NS: u64 = 5_000_000_000;
/// Packets that are due and not sent at the end of a run are sent or given up this long after it at the latest, beside what flows need of the drain.
const SETTLE_TIMEOUT_NS: u64 = 6_000_000_000;
/// Workers that have not closed a run this long after its deadline are not waited for: they hang.
const CLOSE_TIMEOUT_NS: u64 = 1_000_000_000;
/// How often it is looked at whether flows are still open.
const POLL_INTERVAL_NS: u64 = 5_000_000;

impl Run {
    /// Moves the run on through its drain, and to the end of its file of records; called by the monitor. Returns the monotonic
    /// instant to call again at, none if nothing more will come by itself.
    pub(in crate::datapath) fn proceed(&self) -> Option<u64> {
        let mut control = self.control();
        let now = self.clock.mono_ns();
        control.clock.advance(now);
        if control.removed || self.closed() {
            self.report_contradictions(&mut control);
            (control.address_guard, control.resolution_guard) = (None, None);
            if control.closed_at_mono_ns.is_none() {
                control.device_bounds.note_last(now);
            }
            let closed_at = *control.closed_at_mono_ns.get_or_insert(now);
            return self.records.as_ref().and_then(|records| records.await_file(closed_at, now));
        }
        let soon = Some(now + 1_000_000);
        let ended = control.stop_reason.is_some() || control.reached_end(now);
        if ended {
            control.ended_at_mono_ns.get_or_insert(now);
        }
        self.close_at_deadline(&mut control, now);
        // In the drain, too: what is rare then takes the slots of gaps before.
        let collect = self.collect_outages(&mut control, now);
        if !self.shares.iter().all(|share| share.sent.is_up()) {
            let end = if control.clock.is_stopped() { None } else { control.clock.mono_of(control.end_ns) };
            let turn = control.clock.next_change();
            return if ended { soon } else { end.into_iter().chain(turn).chain(collect).min().or(Some(u64::MAX)) };
        }
        let drained_at = self.drained_at(&mut control, now);
        if now < drained_at {
            return Some(drained_at.min(now + POLL_INTERVAL_NS));
        }
        if !control.emptying {
            control.emptying = true;
            self.workers.send_all(|| Command::Empty(self.slot));
        } else if !control.closing && self.shares.iter().all(|share| share.emptied.is_up()) {
            // Not before: one worker may still hand packets over to another.
            control.closing = true;
            self.workers.send_all(|| Command::Close(self.slot));
        }
        soon
    }

    /// Closes the run if its drain has been over for `READ_TIMEOUT_NS`: workers that always have packets to read would keep it open.
    fn close_at_deadline(&self, control: &mut Control, now: u64) {
        let Some(ended_at) = control.ended_at_mono_ns else { return };
        let drain_ns = self.drain_ns(control);
        // Overdue flows may start in the first half of the drain; it counts from when the last packet was sent.
        let latest = ended_at.saturating_add(SETTLE_TIMEOUT_NS).saturating_add(drain_ns / 2).saturating_add(drain_ns);
        let drained_at = match control.sent_at_mono_ns {
            Some(_) => self.drained_at(control, now).min(latest),
            None => latest,
        };
        let deadline = drained_at.saturating_add(READ_TIMEOUT_NS);
        if now < deadline {
            return;
        }
        if control.drain_timed_out.is_none() {
            let problem = self.unfinished(now - ended_at);
            tracing::error!(run = self.id, "the drain timed out: {problem}");
            control.drain_timed_out = Some(problem);
            if !control.closing {
                control.closing = true;
                self.workers.send_all(|| Command::Close(self.slot));
            }
        } else if now >= deadline.saturating_add(CLOSE_TIMEOUT_NS) && !self.closed() {
            self.given_up.raise();
            self.records.iter().for_each(Records::give_up);
        }
    }

    /// What each worker that is not done with the run has left, this long after its end.
    fn unfinished(&self, after_ns: u64) -> String {
        let what = |(worker, share): (usize, &Arc<RunShare>)| {
            let left = match share {
                share if !share.sent.is_up() => "had not finished sending",
                share if !share.emptied.is_up() => "still had packets to read",
                share if !share.closed.is_up() => "had not closed the run",
                _ => return None,
            };
            Some(format!("worker {worker} {left}"))
        };
        let all: Vec<_> = self.shares.iter().enumerate().filter_map(what).collect();
        format!(
            "{} {} s after the end of sending: packets that had arrived may be missing in the counters",
            all.join(", "),
            after_ns / 1_000_000_000
        )
    }

    /// How long the drain waits for packets in flight.
    fn drain_ns(&self, control: &Control) -> u64 {
        if control.started_at_wall_ns.is_some() { self.timing.drain_ns } else { 0 }
    }

    /// When nothing more is waited for, as far as is known now; every worker has sent all it had to.
    fn drained_at(&self, control: &mut Control, now: u64) -> u64 {
        let sent_at = *control.sent_at_mono_ns.get_or_insert(now);
        let drain_ns = self.drain_ns(control);
        if self.templates.is_empty() || !control.streams.is_empty() || !control.receivers.is_empty() {
            return sent_at.saturating_add(drain_ns);
        }
        // Overdue flows started in the first half of the drain.
        let end = control.ended_at_mono_ns.unwrap_or(sent_at).saturating_add(drain_ns);
        if self.templates.any_open() {
            control.quiet_since_mono_ns = None;
            return end;
        }
        let quiet_since = *control.quiet_since_mono_ns.get_or_insert(now);
        self.templates.linger_ns().map_or(end, |linger| end.min(quiet_since.saturating_add(linger)))
    }

    /// Once.
    fn report_contradictions(&self, control: &mut Control) {
        if !std::mem::replace(&mut control.reported, true) {
            for contradiction in self.contradictions() {
                tracing::error!(run = self.id, "counters of templates contradict each other: {contradiction}");
            }
        }
    }
}
