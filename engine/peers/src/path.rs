// SPDX-License-Identifier: Apache-2.0
//! What the router between both ends does to a packet: decided by a seed, the packet's direction and its number alone.
use spate_stateful::random;

/// Direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the near end, where the engine is, to the far end.
    Out,
    /// From the far end.
    Back,
}

/// Properties of a path, the same in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Packets lost, of 1000, in each direction.
    pub loss_per_mille: u32,
    /// Delay of every packet in each direction.
    pub delay_us: u64,
    /// Maximum additional delay, evenly distributed: packets overtake each other.
    pub jitter_us: u64,
    /// Packets held back, of 1000, by `held_us`.
    pub held_per_mille: u32,
    /// See there.
    pub held_us: u64,
    /// Packets that come twice, of 1000.
    pub twice_per_mille: u32,
    /// Longest IP packet in bytes; the router reports longer ones to their senders (RFC 1191, RFC 4443).
    pub mtu: usize,
    /// From this packet on (of both directions together) the path is another.
    pub later: Option<(u64, Box<Path>)>,
}

impl Path {
    /// Loses nothing.
    pub const fn clear(delay_ms: u64) -> Self {
        Self {
            loss_per_mille: 0,
            delay_us: delay_ms * 1000,
            jitter_us: 0,
            held_per_mille: 0,
            held_us: 0,
            twice_per_mille: 0,
            mtu: 1500,
            later: None,
        }
    }

    /// Loses this many packets of 1000.
    pub fn lossy(loss_per_mille: u32, delay_ms: u64) -> Self {
        Self { loss_per_mille, ..Self::clear(delay_ms) }
    }
}

impl Path {
    /// Whether packets arrive once, in the order in which they were sent.
    pub fn keeps_order(&self) -> bool {
        self.jitter_us == 0 && self.held_per_mille == 0 && self.twice_per_mille == 0
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet is lost.
    Lost,
    /// The packet is longer than the path's MTU.
    TooLong {
        /// The path's MTU.
        mtu: usize,
    },
    /// The packet leaves after this many microseconds, and perhaps once more after as many.
    Leaves {
        /// The first.
        after_us: u64,
        /// The second.
        again_us: Option<u64>,
    },
}

/// A path and where it stands.
#[derive(Debug)]
pub struct Judge {
    path: Path,
    seed: u64,
    /// Packets of each direction.
    numbers: [u64; 2],
}

impl Judge {
    /// At the first packet.
    pub fn new(path: Path, seed: u64) -> Self {
        Self { path, seed, numbers: [0; 2] }
    }

    /// Decides about the next packet of a direction, of this many bytes with the IP header.
    pub fn decide(&mut self, direction: Direction, length: usize) -> Fate {
        let all: u64 = self.numbers.iter().sum();
        if let Some((from, _)) = self.path.later
            && all >= from
            && let Some((_, later)) = self.path.later.take()
        {
            self.path = *later;
        }
        let number = &mut self.numbers[direction as usize];
        *number += 1;
        let key = random::nth(random::nth(self.seed, direction as u64), *number);
        let path = &self.path;
        // A number of its own for each question.
        let below = |question, bound| random::below(random::nth(key, question), bound);
        let happens = |question, per_mille: u32| below(question, 1000) < u64::from(per_mille);
        if happens(1, path.loss_per_mille) {
            return Fate::Lost;
        }
        if length > path.mtu {
            return Fate::TooLong { mtu: path.mtu };
        }
        let time = |question| path.delay_us + below(question, path.jitter_us + 1);
        let held = if happens(3, path.held_per_mille) { path.held_us } else { 0 };
        let again_us = happens(4, path.twice_per_mille).then(|| time(5));
        Fate::Leaves { after_us: time(2) + held, again_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(path: &Path, seed: u64) -> Vec<Fate> {
        let mut judge = Judge::new(path.clone(), seed);
        (0..100_000).map(|n| judge.decide([Direction::Out, Direction::Back][n % 2], 1500)).collect()
    }

    #[test]
    fn a_seed_decides_all() {
        let path = Path { jitter_us: 5000, twice_per_mille: 10, ..Path::lossy(50, 10) };
        assert_eq!(fates(&path, 1), fates(&path, 1));
        assert_ne!(fates(&path, 1), fates(&path, 2));
    }

    #[test]
    fn shares_are_as_asked_for() {
        let path = Path { held_per_mille: 200, held_us: 7000, twice_per_mille: 100, ..Path::lossy(50, 10) };
        let fates = fates(&path, 3);
        let lost = fates.iter().filter(|fate| **fate == Fate::Lost).count();
        assert!((4_800..5_200).contains(&lost), "{lost}");
        let held = fates.iter().filter(|fate| matches!(fate, Fate::Leaves { after_us: 17_000, .. })).count();
        assert!((18_500..19_500).contains(&held), "{held}");
        let twice = fates.iter().filter(|fate| matches!(fate, Fate::Leaves { again_us: Some(10_000), .. })).count();
        assert!((9_200..9_800).contains(&twice), "{twice}");
    }

    #[test]
    fn jitter_spreads_evenly_and_the_mtu_changes_at_its_packet() {
        let narrow = Path { mtu: 1200, ..Path::clear(0) };
        let path = Path { jitter_us: 999, later: Some((50_000, Box::new(narrow))), ..Path::clear(1) };
        let fates = fates(&path, 4);
        let mean: u64 = fates[..50_000]
            .iter()
            .map(|fate| match fate {
                Fate::Leaves { after_us, again_us: None } if (1000..2000).contains(after_us) => *after_us,
                other => panic!("{other:?}"),
            })
            .sum::<u64>()
            / 50_000;
        assert!((1490..1510).contains(&mean), "{mean}");
        assert!(fates[50_000..].iter().all(|fate| *fate == Fate::TooLong { mtu: 1200 }));
    }
}
