// SPDX-License-Identifier: Apache-2.0
//! Counters that one worker writes and any thread may read at any time, without a lock or an atomic read-modify-write.
use crate::{Arrival, Counter, LastArrival, PhaseCounters, StreamCounters};

/// What a sending worker counts of a stream, warm-up and measured phase. On cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct TxSlot {
    phases: [TxPhase; 2],
}

/// Packets of one stream and phase that left together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// How many.
    pub packets: u64,
    /// Their bytes, FCS included.
    pub bytes: u64,
    /// Packets sent that left too long after they were due.
    pub late: u64,
    /// Greatest delay after the due time.
    pub max_delay_ns: u64,
    /// The last one's.
    pub last_delay_ns: u64,
    /// When the last was due.
    pub last_due_ns: u64,
}

#[derive(Debug, Default)]
struct TxPhase {
    packets: Counter,
    bytes: Counter,
    dropped: Counter,
    late: Counter,
    max_delay_ns: Counter,
    last_delay_ns: Counter,
    /// Due time of the last packet, to find the last one of several workers.
    last_due_ns: Counter,
}

impl TxSlot {
    /// Packets left.
    #[inline]
    pub fn sent(&self, measured: bool, sent: &Sent) {
        let phase = &self.phases[usize::from(measured)];
        phase.packets.add(sent.packets);
        phase.bytes.add(sent.bytes);
        if sent.late > 0 {
            phase.late.add(sent.late);
        }
        if sent.max_delay_ns > phase.max_delay_ns.get() {
            phase.max_delay_ns.set(sent.max_delay_ns);
        }
        phase.last_delay_ns.set(sent.last_delay_ns);
        phase.last_due_ns.set(sent.last_due_ns);
    }

    /// Packets that could not be sent.
    pub fn dropped(&self, measured: bool, count: u64) {
        self.phases[usize::from(measured)].dropped.add(count);
    }
}

/// What a receiving worker counts of a stream, warm-up and measured phase. On cache lines of its own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct RxSlot {
    phases: [RxPhase; 2],
    /// Arrivals of the packets that this worker read itself, of both phases. They are on the cache line of the measured phase.
    pub last: LastArrival,
}

#[derive(Debug, Default)]
struct RxPhase {
    packets: Counter,
    bytes: Counter,
    duplicates: Counter,
    out_of_order: Counter,
    misdirected: Counter,
    too_high: Counter,
    too_low: Counter,
    missing: Counter,
    last_gap_at_ns: Counter,
}

impl RxSlot {
    /// A packet of `bytes` (with FCS) came in.
    #[inline]
    pub fn received(&self, measured: bool, bytes: u64, arrival: Arrival, misdirected: bool) {
        let phase = &self.phases[usize::from(measured)];
        phase.packets.add(1);
        phase.bytes.add(bytes);
        match arrival {
            Arrival::InOrder | Arrival::AfterGap | Arrival::BetweenQueues => {}
            Arrival::OutOfOrder => phase.out_of_order.add(1),
            Arrival::TooHigh => phase.too_high.add(1),
            Arrival::TooLow => {
                phase.too_low.add(1);
                phase.out_of_order.add(1);
            }
            Arrival::Duplicate => phase.duplicates.add(1),
        }
        if misdirected {
            phase.misdirected.add(1);
        }
    }

    /// Packets of `bytes` (with FCS) together came in, each in order.
    #[inline]
    pub fn received_in_order(&self, measured: bool, packets: u64, bytes: u64, misdirected: bool) {
        let phase = &self.phases[usize::from(measured)];
        phase.packets.add(packets);
        phase.bytes.add(bytes);
        if misdirected {
            phase.misdirected.add(packets);
        }
    }

    /// By a packet of this phase that arrived at an instant, the number of missing packets has changed.
    pub fn missing(&self, measured: bool, change: i64, at_ns: u64) {
        let phase = &self.phases[usize::from(measured)];
        phase.missing.set(phase.missing.get().wrapping_add_signed(change));
        if change > 0 {
            phase.last_gap_at_ns.set(at_ns);
        }
    }
}

impl RxSlot {
    /// A packet of `bytes` (with FCS) that was identified by its mark came in.
    #[inline]
    pub fn marked(&self, measured: bool, bytes: u64, misdirected: bool) {
        self.received(measured, bytes, Arrival::InOrder, misdirected);
    }
}

impl StreamCounters {
    /// What all workers counted of a stream.
    pub fn merge<'a>(
        tx: impl Iterator<Item = &'a TxSlot> + Clone,
        rx: impl Iterator<Item = &'a RxSlot> + Clone,
    ) -> Self {
        let phase = |index: usize| {
            let mut sum = PhaseCounters::default();
            let mut last_due_ns = 0;
            for t in tx.clone().map(|slot| &slot.phases[index]) {
                sum.tx_packets += t.packets.get();
                sum.tx_bytes += t.bytes.get();
                sum.tx_dropped += t.dropped.get();
                sum.late += t.late.get();
                sum.max_departure_delay_ns = sum.max_departure_delay_ns.max(t.max_delay_ns.get());
                if t.packets.get() > 0 && t.last_due_ns.get() >= last_due_ns {
                    last_due_ns = t.last_due_ns.get();
                    sum.last_due_ns = last_due_ns;
                    sum.last_departure_delay_ns = t.last_delay_ns.get();
                }
            }
            for r in rx.clone().map(|slot| &slot.phases[index]) {
                sum.rx_packets += r.packets.get();
                sum.rx_bytes += r.bytes.get();
                sum.duplicates += r.duplicates.get();
                sum.out_of_order += r.out_of_order.get();
                sum.misdirected += r.misdirected.get();
                sum.sequence_too_high += r.too_high.get();
                sum.sequence_too_low += r.too_low.get();
                sum.missing = sum.missing.wrapping_add(r.missing.get());
                sum.last_gap_at_ns = sum.last_gap_at_ns.max(r.last_gap_at_ns.get());
            }
            sum
        };
        Self { warmup: phase(0), measured: phase(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_add_up_and_the_last_packet_is_the_one_due_last() {
        let (a, b, r) = (TxSlot::default(), TxSlot::default(), RxSlot::default());
        let sent = |last_due_ns, delay: u64| Sent {
            packets: 1,
            bytes: 64,
            late: u64::from(delay > 50),
            max_delay_ns: delay,
            last_delay_ns: delay,
            last_due_ns,
        };
        a.sent(true, &sent(10, 5));
        a.sent(true, &sent(30, 70));
        b.sent(true, &sent(20, 90));
        b.sent(false, &sent(0, 1));
        b.dropped(true, 2);
        r.received(true, 64, Arrival::InOrder, false);
        r.received(true, 64, Arrival::Duplicate, true);
        r.missing(true, 3, 40);
        r.missing(true, -1, 50);
        let sum = StreamCounters::merge([&a, &b].into_iter(), [&r].into_iter());
        assert_eq!(
            sum.measured,
            PhaseCounters {
                tx_packets: 3,
                tx_bytes: 192,
                tx_dropped: 2,
                late: 2,
                rx_packets: 2,
                rx_bytes: 128,
                duplicates: 1,
                out_of_order: 0,
                max_departure_delay_ns: 90,
                last_departure_delay_ns: 70,
                misdirected: 1,
                sequence_too_high: 0,
                sequence_too_low: 0,
                missing: 2,
                last_gap_at_ns: 40,
                last_due_ns: 30,
            }
        );
        assert_eq!(sum.warmup.tx_packets, 1);
    }
}
