// SPDX-License-Identifier: Apache-2.0
//! When clients start, or leave: one after the other at exact distances, never in bursts.

/// Clients in a time, as an exact fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Clients; at least 1.
    pub clients: u64,
    /// In this time; at least 1.
    pub nanoseconds: u64,
}

impl Rate {
    /// Clients a second; at least 1.
    pub const fn per_second(clients: u64) -> Self {
        Self { clients: if clients == 0 { 1 } else { clients }, nanoseconds: 1_000_000_000 }
    }
}

/// A pace that is kept: its k-th is due k / rate after it started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    rate: Rate,
    started_ns: u64,
    /// Since then.
    taken: u64,
}

/// The pace goes on from now when its next one is this late: what has not happened in time is not made up for at once.
const MAX_DELAY_NS: u64 = 1_000_000;

impl Pacer {
    /// Its first is due at an instant.
    pub(crate) fn new(rate: Rate, started_ns: u64) -> Self {
        let rate = Rate { clients: rate.clients.max(1), nanoseconds: rate.nanoseconds.max(1) };
        Self { rate, started_ns, taken: 0 }
    }

    /// When the next is due, rounded down to a nanosecond.
    pub(crate) fn due_ns(&self) -> u64 {
        let after = u128::from(self.taken) * u128::from(self.rate.nanoseconds) / u128::from(self.rate.clients);
        self.started_ns.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }

    /// Takes the next, if it is due. The pace goes on from now if it was `throttled`, or is late.
    pub(crate) fn take(&mut self, now_ns: u64, throttled: bool) -> bool {
        let due_ns = self.due_ns();
        if now_ns < due_ns {
            return false;
        }
        if throttled || now_ns - due_ns > MAX_DELAY_NS {
            (self.started_ns, self.taken) = (now_ns, 0);
        }
        self.taken += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_nth_is_due_exactly_n_over_the_rate_later_however_many_there_were() {
        // 7 in 3 s: no whole number of nanoseconds.
        let rate = Rate { clients: 7, nanoseconds: 3_000_000_000 };
        let mut pacer = Pacer::new(rate, 5);
        for n in 0..1_000_000_u64 {
            assert_eq!(pacer.due_ns(), 5 + n * 3_000_000_000 / 7);
            assert!(pacer.take(pacer.due_ns(), false));
        }
    }

    proptest! {
        #[test]
        fn a_window_has_no_more_than_the_rate_and_one_whenever_it_is_looked_at(
            clients in 1u64..100_000, late in prop::collection::vec(0u64..5 * MS, 1..60), throttled in prop::collection::vec(any::<bool>(), 60),
        ) {
            let rate = Rate::per_second(clients);
            let mut pacer = Pacer::new(rate, 0);
            let mut started = Vec::new();
            for (late, throttled) in late.iter().zip(throttled) {
                let now = pacer.due_ns() + late;
                let mut throttled = throttled;
                while pacer.take(now, throttled) {
                    started.push(now);
                    throttled = false;
                }
            }
            // What is late by up to a millisecond is made up for.
            let window = 10 * MS;
            let max = (clients * (window + MAX_DELAY_NS)).div_ceil(1_000_000_000) + 1;
            for (first, at) in started.iter().enumerate() {
                let count = started[first..].iter().take_while(|started| **started < at + window).count() as u64;
                prop_assert!(count <= max, "{count} within 10 ms, at {clients} a second {max} may be");
            }
        }
    }
}
