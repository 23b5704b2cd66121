// SPDX-License-Identifier: Apache-2.0
//! Messages of a kind, at most one a second: else a neighbor could fill the log.
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(1);

/// Admits messages of one kind.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// When the last one was admitted.
    last: Option<Instant>,
    omitted: u64,
}

impl Throttle {
    /// Whether a message may be written now: then how many were omitted since the one before.
    pub(super) fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL) {
            self.omitted += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_a_second_counts_those_that_were_omitted() {
        let (mut throttle, start) = (Throttle::default(), Instant::now());
        let mut at = |ms| throttle.admit(start + Duration::from_millis(ms));
        let admitted: Vec<_> = [0, 1, 999, 1000, 1001, 5000].into_iter().map(&mut at).collect();
        assert_eq!(admitted, [Some(0), None, None, Some(2), None, Some(1)]);
        let flood: Vec<_> = (6000..9000).filter_map(at).collect();
        assert_eq!(flood, [0, 999, 999]);
    }
}
