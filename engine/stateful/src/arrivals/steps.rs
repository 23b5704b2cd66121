// SPDX-License-Identifier: Apache-2.0
//! When slots are due while rates rise by steps.
//!
//! A ramp of `n` steps has step k, k = 1, 2, ..., n, from (k - 1) steps' time on, at k / n of the full rate. The gap behind a slot is
//! that of the step in which the slot is due, but no longer than a quarter of the ramp: so TRex's `rampup_sec` does, with steps of
//! a second. Gaps are rounded up to ticks, so that no more slots are due in a step than there is room for.
use super::{FRACTION, SECOND};
use crate::Ratio;

/// Rates on the way up, and where that has come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    /// Ticks of a step, and how many there are.
    step: u128,
    count: u128,
    /// Ticks between slots at full rates, times `sum`.
    each: u128,
    sum: u128,
    /// A slot from which on due times are found...
    slot: u64,
    /// ...and when it is due.
    due: u128,
}

/// Slots that are all due in one step, or, at the last, behind the ramp.
#[derive(Clone, Copy)]
struct Run {
    /// How many there are before the first of the next.
    slots: u64,
    gap: u128,
}

impl Steps {
    /// For slots at a rate in full; none if that exceeds 128 bits, or the ramp is no whole number of steps.
    pub(super) fn new(rate: Ratio, ramp_up_ns: u64, step_ns: u64) -> Option<Self> {
        let whole = step_ns > 0 && ramp_up_ns > 0 && ramp_up_ns.is_multiple_of(step_ns);
        let step = u128::from(step_ns) << FRACTION;
        let count = u128::from(whole.then(|| ramp_up_ns / step_ns)?);
        let rate = rate.wide();
        let each = (rate.denominator() * SECOND) << FRACTION;
        each.checked_mul(count)?;
        Some(Self { step, count, each, sum: rate.numerator(), slot: 0, due: 0 })
    }

    /// Slot 0 is due then.
    pub(super) fn begin(&mut self, ticks: u128) {
        (self.slot, self.due) = (0, ticks);
    }

    /// No slot before this one will be asked for.
    pub(super) fn pass(&mut self, slot: u64) {
        while let Some(run) = self.run().filter(|run| run.slots <= slot.saturating_sub(self.slot)) {
            self.skip(run);
        }
    }

    /// Tick at which a slot is due.
    #[inline(never)]
    pub(super) fn due_ticks(mut self, slot: u64) -> u128 {
        loop {
            let ahead = slot.saturating_sub(self.slot);
            match self.run() {
                Some(run) if run.slots < ahead => self.skip(run),
                Some(run) => return self.due + run.gap * u128::from(ahead),
                None => {
                    let (whole, rest) = (self.each / self.sum, self.each % self.sum);
                    let ahead = u128::from(ahead);
                    return self
                        .due
                        .saturating_add(whole.saturating_mul(ahead))
                        .saturating_add(rest * ahead / self.sum);
                }
            }
        }
    }

    fn skip(&mut self, run: Run) {
        self.slot += run.slots;
        self.due += run.gap * u128::from(run.slots);
    }

    /// From here on; none behind the ramp.
    fn run(&self) -> Option<Run> {
        let step = self.due / self.step + 1;
        if step > self.count {
            return None;
        }
        let gap = (self.each * self.count).div_ceil(self.sum * step).clamp(1, (self.step * self.count / 4).max(1));
        let left = self.step * step - self.due;
        Some(Run { slots: u64::try_from(left.div_ceil(gap)).unwrap_or(u64::MAX), gap })
    }
}
