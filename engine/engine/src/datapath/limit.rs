// SPDX-License-Identifier: Apache-2.0
//! A bound on what all ports of an engine send together, whatever it is: streams, replays, flows, reflected packets.
//!
//! Workers share one budget. One sends while the budget is not used up, a burst at a time, and is charged with what it sent, so
//! that the sum goes beyond the bound by at most a burst of each worker and port, and makes up for that at once. What is not used is
//! lost but for a millisecond's worth.
//!
//! What senders have due can wait; received packets that are to be sent back cannot. Reflectors therefore send out of an account of
//! their own. What senders do not use is put into it, and as much as they use themselves, until a millisecond's worth or a burst is in
//! it: each of the two has about half of the rate if it needs that, and all that the other does not need.
use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
};

use spate_stateful::Ratio;

use super::shared::QueueShare;

/// Preamble, start delimiter and inter-frame gap of a packet, in bytes.
const MEDIUM_BYTES: u64 = 20;
const NS_PER_SECOND: u128 = 1_000_000_000;
/// The time for which the budget is kept when it is not used, by senders and by reflectors.
const MAX_ACCRUED_NS: u64 = 1_000_000;

/// Unit of a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitUnit {
    /// Packets.
    Packets,
    /// Bits of frames with FCS.
    L2Bits,
    /// Bits on the medium.
    L1Bits,
}

/// A greatest rate: units a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxRate {
    /// Unit of the rate.
    pub unit: LimitUnit,
    /// Of these.
    pub per_second: Ratio,
}

impl MaxRate {
    /// Units that fall into a time from its beginning, in whole ones.
    fn within(&self, ns: u64) -> u64 {
        let rate = self.per_second.wide();
        let units = u128::from(ns) * rate.numerator() / (rate.denominator() * NS_PER_SECOND);
        u64::try_from(units).unwrap_or(u64::MAX)
    }
}

/// Budget of a rate limit: what may be sent, and what was sent.
#[derive(Debug)]
pub(super) struct Budget {
    rate: MaxRate,
    /// Monotonic.
    since_ns: u64,
    kept: i64,
    /// Units since then that were sent by senders, put by for reflectors, or given up.
    used: AtomicU64,
    /// Units that reflectors may send; below 0, what they have sent in advance.
    put_by: AtomicI64,
}

impl Budget {
    /// A budget from an instant on.
    pub(super) fn new(rate: MaxRate, since_ns: u64) -> Self {
        // A thousandth of what an u64 holds is no negative number.
        let kept = rate.within(MAX_ACCRUED_NS).max(1).cast_signed();
        Self { rate, since_ns, kept, used: AtomicU64::new(0), put_by: AtomicI64::new(kept) }
    }

    /// Whether something is left of it for senders at an instant.
    fn is_open(&self, now_ns: u64) -> bool {
        let allowed = self.rate.within(now_ns.saturating_sub(self.since_ns));
        let used = self.used.load(Relaxed);
        let least = allowed.saturating_sub(self.kept.cast_unsigned());
        // Another worker may have advanced the budget, or have sent meanwhile.
        if used < least && self.used.compare_exchange(used, least, Relaxed, Relaxed).is_ok() {
            self.put_by(least - used, self.kept);
        }
        used < allowed
    }

    /// Whether something is left of it for reflectors at an instant.
    fn is_open_to_reflectors(&self, now_ns: u64) -> bool {
        self.is_open(now_ns);
        self.put_by.load(Relaxed) > 0
    }

    /// Puts units by for reflectors, until this is put by. Returns how many were.
    fn put_by(&self, units: u64, most: i64) -> u64 {
        let units = i64::try_from(units).unwrap_or(i64::MAX);
        let filled = |before: i64| before.saturating_add(units).min(most).max(before);
        let before = self.put_by.fetch_update(Relaxed, Relaxed, |before| Some(filled(before)));
        before.map_or(0, |before| (filled(before) - before).cast_unsigned())
    }

    fn charge(&self, units: u64) {
        // What was sent in one burst may well come back, in several.
        let most = self.kept.max(units.cast_signed());
        self.used.fetch_add(units + self.put_by(units, most), Relaxed);
    }

    fn charge_reflectors(&self, units: u64) {
        self.put_by.fetch_sub(units.cast_signed(), Relaxed);
    }

    fn units(&self, packets: u64, bytes: u64) -> u64 {
        match self.rate.unit {
            LimitUnit::Packets => packets,
            LimitUnit::L2Bits => bytes * 8,
            LimitUnit::L1Bits => (bytes + MEDIUM_BYTES * packets) * 8,
        }
    }
}

/// A budget as one worker uses it on one port.
#[derive(Debug)]
pub(super) struct Limit {
    budget: Arc<Budget>,
    /// Packets and bytes of the port that it was charged with, and those before it.
    charged: (u64, u64),
}

impl Limit {
    /// A limit that charges the port with what it sends from now on.
    pub(super) fn new(budget: Arc<Budget>, share: &QueueShare) -> Self {
        Self { budget, charged: (share.tx_packets.get(), share.tx_bytes.get()) }
    }

    /// Units that were sent and that it is not charged with yet.
    fn take(&mut self, share: &QueueShare) -> u64 {
        let (packets, bytes) = (share.tx_packets.get(), share.tx_bytes.get());
        let units = self.budget.units(packets - self.charged.0, bytes - self.charged.1);
        self.charged = (packets, bytes);
        units
    }

    /// Leaves what was sent since it was charged last out of it.
    pub(super) fn forgive(&mut self, share: &QueueShare) {
        self.take(share);
    }

    /// Charges senders with what was sent since it was charged last.
    pub(super) fn charge(&mut self, share: &QueueShare) {
        let units = self.take(share);
        if units > 0 {
            self.budget.charge(units);
        }
    }

    /// Charges reflectors with what was sent since the last question.
    pub(super) fn charge_reflectors(&mut self, share: &QueueShare) {
        let units = self.take(share);
        self.budget.charge_reflectors(units);
    }

    /// Whether senders may send nothing at an instant.
    pub(super) fn is_closed(&mut self, now_ns: u64, share: &QueueShare) -> bool {
        self.charge(share);
        !self.budget.is_open(now_ns)
    }

    /// Whether nothing may be sent back at an instant.
    pub(super) fn is_closed_to_reflectors(&mut self, now_ns: u64, share: &QueueShare) -> bool {
        self.charge(share);
        !self.budget.is_open_to_reflectors(now_ns)
    }

    /// The budget, to be freed by another thread.
    pub(super) fn into_budget(self) -> Arc<Budget> {
        self.budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packets(per_second: Ratio) -> MaxRate {
        MaxRate { unit: LimitUnit::Packets, per_second }
    }

    /// Packets that a sender of bursts sends, which looks whether it may at these instants.
    fn sent(budget: &Budget, times: impl Iterator<Item = u64>, burst: u64) -> u64 {
        let mut sent = 0;
        for now in times {
            if budget.is_open(now) {
                budget.charge(burst);
                sent += burst;
            }
        }
        sent
    }

    #[test]
    fn what_is_sent_is_the_rate_exactly_whatever_the_bursts() {
        for (per_second, burst, wanted) in
            [((1000, 1), 1, 1000), ((1000, 1), 10, 1000), ((10, 3), 1, 3), ((1_000_000, 1), 64, 1_000_000)]
        {
            let per_second = Ratio::new(per_second.0, per_second.1);
            let budget = Budget::new(packets(per_second), 5000);
            // A second, and the instant at which the last falls due.
            let times = (5000..=1_000_005_000).step_by(1000);
            assert_eq!(sent(&budget, times, burst), wanted, "{per_second:?} {burst}");
        }
    }

    #[test]
    fn what_is_not_used_is_lost_but_for_a_millisecond() {
        let budget = Budget::new(packets(Ratio::new(100_000, 1)), 0);
        assert_eq!(sent(&budget, std::iter::repeat_n(5_000_000_000, 1000), 1), 100);
        let slow = Budget::new(packets(Ratio::new(10, 1)), 0);
        assert_eq!(sent(&slow, std::iter::repeat_n(5_000_000_000, 1000), 1), 1);
    }

    #[test]
    fn bits_are_those_of_frames_or_of_the_medium() {
        for (unit, units) in [(LimitUnit::L2Bits, 2 * 64 * 8), (LimitUnit::L1Bits, 2 * 84 * 8), (LimitUnit::Packets, 2)]
        {
            let budget = Budget::new(MaxRate { unit, per_second: Ratio::ONE }, 0);
            assert_eq!(budget.units(2, 128), units, "{unit:?}");
        }
    }

    /// Packets that senders and reflectors send in a second out of a budget of 1000, with one of each due in each of these times.
    fn shared(sender_us: u64, reflector_us: u64) -> [u64; 2] {
        let budget = Budget::new(packets(Ratio::new(1000, 1)), 0);
        let (mut due, mut sent) = (0, [0, 0]);
        for now_us in 0..1_000_000 {
            due += u64::from(now_us % sender_us == 0);
            if due > 0 && budget.is_open(now_us * 1000) {
                budget.charge(1);
                (due, sent[0]) = (due - 1, sent[0] + 1);
            }
            if now_us % reflector_us == 0 && budget.is_open_to_reflectors(now_us * 1000) {
                budget.charge_reflectors(1);
                sent[1] += 1;
            }
        }
        sent
    }

    #[test]
    fn senders_and_reflectors_have_half_each_and_what_the_other_leaves() {
        let never = u64::MAX;
        for (sender_us, reflector_us, wanted) in [
            (1, 1, [500, 500]),
            (never, 1, [0, 1000]),
            (1, never, [1000, 0]),
            (1, 10_000, [900, 100]),
            (10_000, 1, [100, 900]),
            (1250, 1, [500, 500]),
            (2500, 2500, [400, 400]),
        ] {
            let sent = shared(sender_us, reflector_us);
            // What is due at the instant 0, and what is put by before it.
            let near = sent.iter().zip(wanted).all(|(sent, wanted)| sent.abs_diff(wanted) <= 2);
            assert!(near, "{sender_us} {reflector_us}: {sent:?}, not {wanted:?}");
        }
    }

    proptest! {
        #[test]
        fn never_more_than_the_rate_and_a_burst_of_each(
            numerator in 1u64..=u64::MAX, denominator in 1u64..1_000_000, burst in 1u64..65,
            gaps in prop::collection::vec((0u64..10_000_000, any::<bool>()), 1..200),
        ) {
            let rate = packets(Ratio::new(numerator, denominator));
            let budget = Budget::new(rate, 0);
            let (mut now, mut total) = (0u64, 0u64);
            for (gap, reflects) in gaps {
                now += gap;
                if reflects && budget.is_open_to_reflectors(now) {
                    budget.charge_reflectors(burst);
                    total += burst;
                } else if !reflects && budget.is_open(now) {
                    budget.charge(burst);
                    total += burst;
                }
                let kept = rate.within(MAX_ACCRUED_NS).max(1);
                prop_assert!(total < rate.within(now).saturating_add(kept + 2 * burst));
            }
        }
    }
}
