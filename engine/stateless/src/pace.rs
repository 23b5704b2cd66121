// SPDX-License-Identifier: Apache-2.0
//! Where a stream stands at an instant of its run, and when its n-th packet is due.
//!
//! A pace is a straight line through (instant, position): packet n is due when the position reaches n. Instants are
//! whole nanoseconds of the run's clock; a packet due between two of them counts for the earlier. All is integer
//! arithmetic, so every worker of every engine finds the same.
use crate::Rate;

/// A number of packets, in units of 2^-64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Whole packets.
    pub whole: u64,
    /// The rest, in 2^-64.
    pub fraction: u64,
}

/// A stream's line: where it stood at an instant, and how fast it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    since_ns: u64,
    position: Position,
    rate: Option<Rate>,
}

/// When a packet is due: `ns + remainder / rate.packets()` nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) ns: u64,
    pub(crate) remainder: u64,
}

impl Pace {
    /// From the start of the run on; without a rate it stands.
    pub fn from_start(rate: Option<Rate>) -> Self {
        Self { since_ns: 0, position: Position::default(), rate }
    }

    /// From an instant on, at which its first packet is due.
    pub fn starting(at_ns: u64, rate: Option<Rate>) -> Self {
        Self { since_ns: at_ns, position: Position::default(), rate }
    }

    /// How fast it goes; none if it stands.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// The pace with another rate from `at_ns` on: its position is kept (to 2^-64 of a packet).
    #[must_use]
    pub fn changed(&self, at_ns: u64, rate: Option<Rate>) -> Self {
        Self { since_ns: at_ns.max(self.since_ns), position: self.position_at(at_ns), rate }
    }

    /// Where it stands at `at_ns`, rounded down; never before where the line starts.
    pub fn position_at(&self, at_ns: u64) -> Position {
        let Some((whole, rest, denominator)) = self.progress(at_ns) else { return self.position };
        // rest < denominator, so this is a fraction below 1.
        let fraction = ((u128::from(rest) << 64) / u128::from(denominator)) as u64;
        let (fraction, carry) = self.position.fraction.overflowing_add(fraction);
        Position { whole: self.position.whole.saturating_add(whole).saturating_add(u64::from(carry)), fraction }
    }

    /// How many packets are due before `at_ns`, counted from the start of the run: the position rounded up, exactly.
    pub fn count_before(&self, at_ns: u64) -> u64 {
        let (whole, rest, denominator) = self.progress(at_ns).unwrap_or((0, 0, 1));
        // position.fraction / 2^64 + rest / denominator, over the common denominator denominator * 2^64.
        let one = u128::from(denominator) << 64;
        let (sum, overflow) =
            (u128::from(self.position.fraction) * u128::from(denominator)).overflowing_add(u128::from(rest) << 64);
        let up = match sum {
            0 if !overflow => 0,
            sum if !overflow && sum <= one => 1,
            _ => 2,
        };
        self.position.whole.saturating_add(whole).saturating_add(up)
    }

    /// When packet `number` is due; none if it stands, or never will. What should have left before the line starts is
    /// due at its start.
    pub(crate) fn due(&self, number: u64) -> Option<Due> {
        let rate = self.rate?;
        let (packets, nanoseconds) = (u128::from(rate.packets()), u128::from(rate.nanoseconds()));
        // In units of 1/packets ns, rounded down to a whole one: the same grid for every worker.
        let ahead = u128::from(number.saturating_sub(self.position.whole)) * nanoseconds;
        let behind = (u128::from(self.position.fraction) * nanoseconds).div_ceil(1 << 64);
        let units = ahead.saturating_sub(behind);
        let ns = u64::try_from(units / packets).ok()?.checked_add(self.since_ns)?;
        Some(Due { ns, remainder: (units % packets) as u64 })
    }

    /// Packets since the line's start as (whole, rest / denominator).
    fn progress(&self, at_ns: u64) -> Option<(u64, u64, u64)> {
        let rate = self.rate?;
        let elapsed = at_ns.saturating_sub(self.since_ns);
        let (packets, nanoseconds) = (u128::from(rate.packets()), u128::from(rate.nanoseconds()));
        let total = u128::from(elapsed) * packets;
        let whole = u64::try_from(total / nanoseconds).unwrap_or(u64::MAX);
        Some((whole, (total % nanoseconds) as u64, rate.nanoseconds()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pps(packets: u64) -> Option<Rate> {
        Some(Rate::packets_per_second(packets, 1).unwrap())
    }

    #[test]
    fn a_million_a_second_for_ten_seconds_is_ten_million() {
        assert_eq!(Pace::from_start(pps(1_000_000)).count_before(10_000_000_000), 10_000_000);
    }

    #[test]
    fn a_third_of_a_packet_stays_a_third() {
        // 1/3 pps: packets at 0, 3, 6 s.
        let pace = Pace::from_start(Some(Rate::packets_per_second(1, 3).unwrap()));
        assert_eq!(pace.count_before(6_000_000_000), 2);
        assert_eq!(pace.count_before(6_000_000_001), 3);
    }

    #[test]
    fn a_rate_change_keeps_the_position() {
        // 2.5 packets after 2.5 s at 1 pps; at 10 pps the next whole one is 0.05 s later.
        let pace = Pace::from_start(pps(1)).changed(2_500_000_000, pps(10));
        assert_eq!(pace.due(3).unwrap().ns, 2_550_000_000);
    }

    #[test]
    fn while_it_stands_nothing_is_due_and_nothing_is_caught_up_later() {
        let standing = Pace::from_start(pps(1)).changed(2_500_000_000, None);
        assert_eq!(standing.due(3), None);
        assert_eq!(standing.count_before(1 << 60), 3);
        let again = standing.changed(10_000_000_000, pps(1));
        assert_eq!(again.due(3).unwrap().ns, 10_500_000_000);
    }

    prop_compose! {
        fn any_rate()(packets in 1u64..1 << 40, nanoseconds in 1u64..1 << 40) -> Rate {
            Rate::new(packets.into(), nanoseconds.into()).unwrap()
        }
    }

    /// Lines after several changes, at times in order.
    fn any_pace() -> impl Strategy<Value = Pace> {
        prop::collection::vec((any_rate(), 0u64..1 << 36), 0..5).prop_map(|changes| {
            let mut pace = Pace::from_start(pps(1000));
            for (rate, after) in changes {
                pace = pace.changed(pace.since_ns + after, Some(rate));
            }
            pace
        })
    }

    proptest! {
        #[test]
        fn a_packet_counts_from_the_nanosecond_after_its_due_time(pace in any_pace(), ahead in 0u64..1 << 20) {
            let number = pace.count_before(pace.since_ns) + ahead;
            let due = pace.due(number).unwrap().ns;
            prop_assert!(due >= pace.since_ns);
            prop_assert!(pace.count_before(due) <= number || due == pace.since_ns);
            prop_assert!(pace.count_before(due + 1) > number);
        }

        #[test]
        fn changing_to_the_same_rate_changes_no_due_time(rate in any_rate(), at in 0u64..1 << 40, ahead in 0u64..1 << 20) {
            let before = Pace::from_start(Some(rate));
            let after = before.changed(at, Some(rate));
            let number = before.count_before(at) + ahead;
            let (a, b) = (before.due(number).unwrap().ns, after.due(number).unwrap().ns);
            // The position is kept to 2^-64 of a packet.
            prop_assert!(b == a || b == a + 1, "{a} {b}");
        }

        #[test]
        fn positions_never_go_back(pace in any_pace(), a in 0u64..1 << 40, b in 0u64..1 << 40) {
            let (a, b) = (a.min(b), a.max(b));
            prop_assert!(pace.position_at(a) <= pace.position_at(b));
            prop_assert!(pace.count_before(a) <= pace.count_before(b));
        }
    }
}
