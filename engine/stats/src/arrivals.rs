// SPDX-License-Identifier: Apache-2.0
//! What a receiver measures of foreign traffic on one worker: packets, inter-arrival times, their jitter, latency.
use crate::{Moments, Snapshot};

/// What arrived. Bytes include the FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arrivals {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From each packet to the next.
    pub inter_arrival: Moments,
    /// Between each inter-arrival time and the next: |difference|.
    pub jitter: Moments,
    /// From the time stamp in a packet to its arrival.
    pub latency: Moments,
    last_ns: Option<u64>,
    last_gap_ns: Option<u64>,
}

impl Arrivals {
    /// A packet of `bytes` came at an instant that is not before the last.
    #[inline]
    pub fn add(&mut self, at_ns: u64, bytes: u64, latency_ns: Option<u64>) {
        self.packets += 1;
        self.bytes += bytes;
        if let Some(last) = self.last_ns.replace(at_ns) {
            let gap = at_ns.saturating_sub(last);
            self.inter_arrival.add(gap);
            if let Some(last) = self.last_gap_ns.replace(gap) {
                self.jitter.add(gap.abs_diff(last));
            }
        }
        if let Some(latency) = latency_ns {
            self.latency.add(latency);
        }
    }
}

/// Numbers that arrivals are made of, as far as they are reported.
const WORDS: usize = 17;

/// Arrivals as their one worker leaves them for control.
#[derive(Debug, Default)]
pub struct ArrivalsSlot(Snapshot<WORDS>);

impl ArrivalsSlot {
    /// Leaves what is known now; only its one writer may.
    #[inline]
    pub fn publish(&self, arrivals: &Arrivals) {
        self.0.publish(arrivals.words());
    }

    /// What was left last.
    pub fn read(&self) -> Arrivals {
        Arrivals::of(self.0.read())
    }
}

impl Arrivals {
    fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[..2].copy_from_slice(&[self.packets, self.bytes]);
        for (at, moments) in [(2, &self.inter_arrival), (7, &self.jitter), (12, &self.latency)] {
            words[at..at + 5].copy_from_slice(&moments.words());
        }
        words
    }

    fn of(words: [u64; WORDS]) -> Self {
        let moments = |at: usize| Moments::of(std::array::from_fn(|i| words[at + i]));
        Self {
            packets: words[0],
            bytes: words[1],
            inter_arrival: moments(2),
            jitter: moments(7),
            latency: moments(12),
            ..Self::default()
        }
    }

    /// What workers saw together.
    pub fn with(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            inter_arrival: self.inter_arrival.with(other.inter_arrival),
            jitter: self.jitter.with(other.jitter),
            latency: self.latency.with(other.latency),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_their_differences_are_measured() {
        let mut arrivals = Arrivals::default();
        for (at, latency) in [(100, None), (110, Some(5)), (130, None), (135, Some(7))] {
            arrivals.add(at, 64, latency);
        }
        assert_eq!((arrivals.packets, arrivals.bytes), (4, 256));
        let gaps = arrivals.inter_arrival;
        assert_eq!((gaps.count, gaps.min_ns, gaps.max_ns), (3, 5, 20));
        assert_eq!((arrivals.jitter.count, arrivals.jitter.min_ns, arrivals.jitter.max_ns), (2, 10, 15));
        assert_eq!((arrivals.latency.count, arrivals.latency.mean_ns), (2, 6.0));
        let slot = ArrivalsSlot::default();
        slot.publish(&arrivals);
        let read = slot.read();
        assert_eq!((read.packets, read.jitter, read.latency), (4, arrivals.jitter, arrivals.latency));
        assert_eq!(read.with(read).inter_arrival.count, 6);
    }
}
