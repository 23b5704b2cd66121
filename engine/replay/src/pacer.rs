// SPDX-License-Identifier: Apache-2.0
//! From distances to instants: when the next packet is due, at a speed that may change, and stand, while it plays.

/// How fast distances pass: a number of them in a number of nanoseconds. Neither is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// Distance (see [`Gap`](crate::Gap)): nanoseconds of the capture, or packets.
    pub distance: u64,
    /// In this many nanoseconds.
    pub nanoseconds: u64,
}

/// The instants of a capture's packets, one after the other. They do not drift: what division leaves is kept.
#[derive(Clone, Debug)]
pub struct Pacer {
    speed: Speed,
    min_gap_ns: u64,
    /// When the last packet was due; none before the first.
    last_ns: Option<u64>,
    /// When the next packet is due.
    due_ns: u64,
    /// What of the time to the first packet is distance of the capture.
    lead_ns: u64,
    /// What division left, in parts of `speed.distance`.
    rest: u128,
    /// While the replay is paused: the time that was left to the next packet, at `speed`.
    left_ns: Option<u64>,
}

impl Pacer {
    /// The first packet is due at an instant; no gap will be shorter than `min_gap_ns`.
    pub fn new(first_ns: u64, speed: Speed, min_gap_ns: u64) -> Self {
        Self { speed, min_gap_ns, last_ns: None, due_ns: first_ns, lead_ns: 0, rest: 0, left_ns: None }
    }

    /// The first packet is this distance behind the capture's first, of the other half, which is due at the instant of `new`. Before
    /// any change.
    #[must_use]
    pub fn behind(mut self, lead: u64) -> Self {
        let scaled = u128::from(lead) * u128::from(self.speed.nanoseconds);
        self.rest = scaled % u128::from(self.speed.distance);
        self.lead_ns = u64::try_from(scaled / u128::from(self.speed.distance)).unwrap_or(u64::MAX);
        self.due_ns = self.due_ns.saturating_add(self.lead_ns);
        self
    }

    /// Restarts the capture: its first packet is due this long after an instant. Not for one that is behind another half.
    pub fn again(&mut self, at_ns: u64, delay_ns: u64) {
        (self.last_ns, self.lead_ns, self.rest) = (None, 0, 0);
        self.due_ns = at_ns.saturating_add(delay_ns);
        self.left_ns = self.left_ns.map(|_| delay_ns);
    }

    /// When the next packet is due; none while it stands.
    #[inline]
    pub fn due_ns(&self) -> Option<u64> {
        if self.left_ns.is_some() { None } else { Some(self.due_ns) }
    }

    /// Advances to the packet after the next one, which is at this distance from it.
    #[inline]
    pub fn go_on(&mut self, gap: u64) {
        let scaled = u128::from(gap) * u128::from(self.speed.nanoseconds) + self.rest;
        self.rest = scaled % u128::from(self.speed.distance);
        let ns = u64::try_from(scaled / u128::from(self.speed.distance)).unwrap_or(u64::MAX);
        self.last_ns = Some(self.due_ns);
        self.due_ns = self.due_ns.saturating_add(ns.max(self.min_gap_ns));
    }

    /// From an instant on it has another speed, or none: it stands. What is due before must have been sent.
    pub fn change(&mut self, at_ns: u64, speed: Option<Speed>) {
        let left = self.left_ns.take().unwrap_or(self.due_ns.saturating_sub(at_ns));
        let Some(speed) = speed else {
            self.left_ns = Some(left);
            return;
        };
        // The delay before the capture's first packet is no distance of the capture.
        let of_capture = if self.last_ns.is_some() { left } else { left.min(self.lead_ns) };
        self.lead_ns = rescaled(of_capture, self.speed, speed);
        let left = (left - of_capture).saturating_add(self.lead_ns);
        if speed != self.speed {
            self.rest = 0;
        }
        self.speed = speed;
        let earliest = self.last_ns.map_or(0, |last| last.saturating_add(self.min_gap_ns));
        self.due_ns = at_ns.saturating_add(left).max(earliest);
    }
}

/// How long a distance takes at another speed, from how long it takes at one.
fn rescaled(ns: u64, from: Speed, to: Speed) -> u64 {
    let mut times = u128::from(from.distance) * u128::from(to.nanoseconds);
    let mut by = u128::from(from.nanoseconds) * u128::from(to.distance);
    // 64 bits of a ratio are exact enough for any 64 bits of nanoseconds.
    while times > u128::from(u64::MAX) && by > 1 {
        (times, by) = (times >> 1, by >> 1);
    }
    let scaled = u128::from(ns).checked_mul(times).map_or(u128::MAX, |product| product / by.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AS_CAPTURED: Speed = Speed { distance: 1, nanoseconds: 1 };

    fn instants(speed: Speed, min_gap_ns: u64, gaps: &[u64]) -> Vec<u64> {
        let mut pacer = Pacer::new(0, speed, min_gap_ns);
        let mut all = vec![0];
        for gap in gaps {
            pacer.go_on(*gap);
            all.extend(pacer.due_ns());
        }
        all
    }

    #[test]
    fn distances_are_scaled_and_never_too_short() {
        let gaps = [1000, 1, 2999];
        assert_eq!(instants(AS_CAPTURED, 0, &gaps), [0, 1000, 1001, 4000]);
        assert_eq!(instants(Speed { distance: 1, nanoseconds: 2 }, 0, &gaps), [0, 2000, 2002, 8000]);
        assert_eq!(instants(AS_CAPTURED, 10, &gaps), [0, 1000, 1010, 4009]);
        assert_eq!(instants(Speed { distance: 1, nanoseconds: 7 }, 0, &[1, 1, 1]), [0, 7, 14, 21]);
        // Thirds do not drift.
        assert_eq!(instants(Speed { distance: 3, nanoseconds: 1 }, 0, &[1; 6]), [0, 0, 0, 1, 1, 1, 2]);
        // Nor do numbers that fill their 64 bits.
        let odd = Speed { distance: u64::MAX, nanoseconds: u64::MAX - 1 };
        assert_eq!(instants(odd, 0, &[1 << 40, 1 << 40]), [0, (1 << 40) - 1, (1 << 41) - 1]);
    }

    /// Changes the speed of both halves of a conversation at the same instants, and returns when their packets are due. The initiator's
    /// first is due at `start`, the responder's 1000 behind it in the capture, and the next of each 2000 behind its first.
    fn halves(start: u64, changes: &[(u64, Option<Speed>)]) -> [Vec<u64>; 2] {
        [0, 1000].map(|lead| {
            let mut pacer = Pacer::new(start, AS_CAPTURED, 0).behind(lead);
            let mut changes = changes.iter().peekable();
            let mut all = Vec::new();
            while all.len() < 2 {
                let due_ns = pacer.due_ns().unwrap_or(u64::MAX);
                if let Some((at_ns, speed)) = changes.next_if(|(at_ns, _)| *at_ns <= due_ns) {
                    pacer.change(*at_ns, *speed);
                    continue;
                }
                all.push(due_ns);
                pacer.go_on(2000);
            }
            all
        })
    }

    #[test]
    fn halves_of_a_conversation_stay_together_whatever_their_speed() {
        let twice = Some(Speed { distance: 2, nanoseconds: 1 });
        assert_eq!(halves(500, &[]), [[500, 2500], [1500, 3500]]);
        // Before the start, whose delay is no distance of the capture.
        assert_eq!(halves(500, &[(100, twice)]), [[500, 1500], [1000, 2000]]);
        // Between the first packets of both.
        assert_eq!(halves(500, &[(900, twice)]), [[500, 1700], [1200, 2200]]);
        // They stand before the start, and for 300 between the first packets of both.
        assert_eq!(halves(500, &[(100, None), (400, Some(AS_CAPTURED))]), [[800, 2800], [1800, 3800]]);
        assert_eq!(halves(500, &[(900, None), (1200, twice)]), [[500, 2000], [1500, 2500]]);
    }

    #[test]
    fn what_division_leaves_of_the_lead_is_kept() {
        let thirds = Speed { distance: 3, nanoseconds: 1 };
        let mut pacer = Pacer::new(10, thirds, 5).behind(4);
        assert_eq!(pacer.due_ns(), Some(11));
        pacer.go_on(17);
        assert_eq!(pacer.due_ns(), Some(17));
    }

    #[test]
    fn a_change_of_speed_is_felt_within_a_gap() {
        let mut pacer = Pacer::new(100, AS_CAPTURED, 0);
        pacer.go_on(1000);
        // Twice as fast from its middle on.
        pacer.change(600, Some(Speed { distance: 2, nanoseconds: 1 }));
        assert_eq!(pacer.due_ns(), Some(850));
        pacer.go_on(1000);
        assert_eq!(pacer.due_ns(), Some(1350));
        // The replay is paused from 1000 to 5000.
        pacer.change(1000, None);
        assert_eq!(pacer.due_ns(), None);
        pacer.change(1500, None);
        pacer.change(5000, Some(AS_CAPTURED));
        assert_eq!(pacer.due_ns(), Some(5700));
    }

    #[test]
    fn a_capture_that_is_played_again_keeps_its_speed_and_stands_if_it_stood() {
        let thirds = Speed { distance: 3, nanoseconds: 1 };
        let mut pacer = Pacer::new(100, AS_CAPTURED, 0);
        pacer.go_on(1000);
        pacer.change(600, Some(thirds));
        pacer.go_on(100);
        pacer.again(5000, 70);
        assert_eq!(pacer.due_ns(), Some(5070));
        // Nothing is left of the division before.
        pacer.go_on(2);
        assert_eq!(pacer.due_ns(), Some(5070));
        pacer.change(5070, None);
        pacer.again(6000, 70);
        assert_eq!(pacer.due_ns(), None);
        pacer.change(6500, Some(thirds));
        assert_eq!(pacer.due_ns(), Some(6570));
    }

    #[test]
    fn a_faster_speed_keeps_the_least_gap_and_the_delay_of_the_start() {
        let mut pacer = Pacer::new(500, AS_CAPTURED, 300);
        pacer.change(0, Some(Speed { distance: 1000, nanoseconds: 1 }));
        assert_eq!(pacer.due_ns(), Some(500));
        pacer.go_on(1_000_000);
        assert_eq!(pacer.due_ns(), Some(1500));
        pacer.change(600, Some(Speed { distance: u64::MAX, nanoseconds: 1 }));
        assert_eq!(pacer.due_ns(), Some(800));
    }
}
