// SPDX-License-Identifier: Apache-2.0
//! How many challenge ACKs a worker sends (RFC 5961 section 7): a sender that makes an end answer suspicious segments makes it work,
//! and may learn from how often it answers.
use super::Instant;
use crate::random;

/// In each second, in the mean.
const EACH_SECOND: u64 = 1000;
const SECOND: u64 = 1_000_000_000;

/// What is left for the second. How many there are is drawn again in each, from half to one and a half of the mean: by counting
/// answers no attacker learns whether others were challenged (CVE-2016-5696).
#[derive(Debug)]
pub struct Challenges {
    seed: u64,
    second: u64,
    left: u64,
}

impl Challenges {
    /// Equal seeds draw equal numbers.
    pub fn new(seed: u64) -> Self {
        Self { seed, second: u64::MAX, left: 0 }
    }

    /// Takes one, if there is one left.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let second = now.ns / SECOND;
        if second != self.second {
            self.second = second;
            self.left = EACH_SECOND / 2 + random::below(random::nth(self.seed, second), EACH_SECOND + 1);
        }
        let some = self.left > 0;
        self.left -= u64::from(some);
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many are taken in a second of this many tries.
    fn taken(challenges: &mut Challenges, second: u64) -> usize {
        (0..2000).filter(|n| challenges.take(Instant { ns: second * SECOND + n })).count()
    }

    #[test]
    fn each_second_has_a_number_of_its_own_about_the_mean() {
        let mut challenges = Challenges::new(3);
        let counts: Vec<_> = (5..205).map(|second| taken(&mut challenges, second)).collect();
        assert!(counts.iter().all(|count| (500..=1500).contains(count)), "{counts:?}");
        let mean = counts.iter().sum::<usize>() / counts.len();
        assert!((900..1100).contains(&mean), "{mean}");
        assert!(counts.windows(2).filter(|pair| pair[0] == pair[1]).count() < 5, "they differ: {counts:?}");
        let mut again = Challenges::new(3);
        assert_eq!(counts, (5..205).map(|second| taken(&mut again, second)).collect::<Vec<_>>());
    }
}
