// SPDX-License-Identifier: Apache-2.0
//! What is counted of the packets of a stream that arrived with one VLAN tag.
use std::ops::AddAssign;

use crate::{Arrival, Counter};

/// What one worker counts of one tag, in the measured phase.
#[derive(Debug, Default)]
pub struct TagSlot {
    packets: Counter,
    bytes: Counter,
    missing: Counter,
    sequence_gaps: Counter,
    duplicates: Counter,
    out_of_order: Counter,
}

impl TagSlot {
    /// A packet of `bytes` (with FCS) came in; only its one writer may.
    #[inline]
    pub fn received(&self, bytes: u64) {
        self.packets.add(1);
        self.bytes.add(bytes);
    }

    /// How that packet arrived in the tag's sequence, and by how much the number of missing packets has changed.
    #[inline]
    pub fn arrived(&self, arrival: Arrival, missing: i64) {
        match arrival {
            Arrival::InOrder => return,
            Arrival::AfterGap | Arrival::TooHigh => self.sequence_gaps.add(1),
            Arrival::OutOfOrder | Arrival::TooLow => self.out_of_order.add(1),
            Arrival::Duplicate => self.duplicates.add(1),
            Arrival::BetweenQueues => {}
        }
        self.missing.set(self.missing.get().wrapping_add_signed(missing));
    }
}

/// Counters of one tag. Bytes include the FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagCounters {
    /// All packets with the tag, duplicates included.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Numbers below the highest received with the tag that were not received with it, modulo 2^64.
    pub missing: u64,
    /// Packets before which others were missing.
    pub sequence_gaps: u64,
    /// Received with the tag before.
    pub duplicates: u64,
    /// Received with the tag after a packet with a higher sequence number.
    pub out_of_order: u64,
}

impl From<&TagSlot> for TagCounters {
    fn from(slot: &TagSlot) -> Self {
        Self {
            packets: slot.packets.get(),
            bytes: slot.bytes.get(),
            missing: slot.missing.get(),
            sequence_gaps: slot.sequence_gaps.get(),
            duplicates: slot.duplicates.get(),
            out_of_order: slot.out_of_order.get(),
        }
    }
}

/// What several workers counted of one tag.
impl AddAssign for TagCounters {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.missing = self.missing.wrapping_add(other.missing);
        self.sequence_gaps += other.sequence_gaps;
        self.duplicates += other.duplicates;
        self.out_of_order += other.out_of_order;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tracker, WINDOW};

    /// What is counted of packets with these sequence numbers.
    fn counted(sequence: &[u32]) -> TagCounters {
        let (slot, mut tracker) = (TagSlot::default(), Tracker::new(WINDOW));
        for number in sequence {
            slot.received(64);
            slot.arrived(tracker.receive(*number), tracker.take_missing());
        }
        TagCounters::from(&slot)
    }

    #[test]
    fn gaps_and_what_comes_after_them_are_counted() {
        // 2 and 3 are missing before 4, 6 to 9 before 10; 3 and 7 come later, 4 twice.
        let counters = counted(&[0, 1, 4, 5, 10, 3, 4, 7]);
        let expected =
            TagCounters { packets: 8, bytes: 512, missing: 4, sequence_gaps: 2, duplicates: 1, out_of_order: 2 };
        assert_eq!(counters, expected);
    }

    #[test]
    fn workers_add_up() {
        let mut sum = counted(&[0, 1, 3]);
        sum += counted(&[0, 2]);
        assert_eq!((sum.packets, sum.bytes, sum.missing, sum.sequence_gaps), (5, 320, 2, 2));
    }
}
