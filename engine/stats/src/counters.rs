// SPDX-License-Identifier: Apache-2.0
//! The values that are read out: counters of a stream, by phase.

/// Counters of one stream in one phase. Bytes include the FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseCounters {
    /// Packets the device took.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Could not be sent: refused by the device, or still waiting when transmission ended.
    pub tx_dropped: u64,
    /// Left later than the run's `late_after_ns`.
    pub late: u64,
    /// All packets with the stream's trailer, duplicates included.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Received before.
    pub duplicates: u64,
    /// Received after a packet with a higher sequence number of the same sending worker, where several workers receive from
    /// the port: on the same queue.
    pub out_of_order: u64,
    /// Greatest departure delay so far.
    pub max_departure_delay_ns: u64,
    /// Departure delay of the last packet.
    pub last_departure_delay_ns: u64,
    /// Received on another port than the stream's `rx_port`; counted in `rx_packets` too.
    pub misdirected: u64,
    /// Sequence numbers more than a window ahead of the expected one.
    pub sequence_too_high: u64,
    /// Sequence numbers behind all that is remembered; counted as out of order too.
    pub sequence_too_low: u64,
    /// Numbers below the highest received of their sending worker that were not received: lost, as far as later packets show it. Of a phase,
    /// by how much its packets changed that: modulo 2^64 where packets of the warm-up come in the measured phase.
    pub missing: u64,
    /// When the last packet arrived before which others were missing, on the monotonic clock; 0: none has.
    pub last_gap_at_ns: u64,
    /// When the last packet was due, to find the last one of several streams.
    pub last_due_ns: u64,
}

impl PhaseCounters {
    /// Adds another stream's.
    pub fn add(&mut self, other: &Self) {
        self.tx_packets += other.tx_packets;
        self.tx_bytes += other.tx_bytes;
        self.tx_dropped += other.tx_dropped;
        self.late += other.late;
        self.rx_packets += other.rx_packets;
        self.rx_bytes += other.rx_bytes;
        self.duplicates += other.duplicates;
        self.out_of_order += other.out_of_order;
        self.misdirected += other.misdirected;
        self.sequence_too_high += other.sequence_too_high;
        self.sequence_too_low += other.sequence_too_low;
        self.missing = self.missing.wrapping_add(other.missing);
        self.last_gap_at_ns = self.last_gap_at_ns.max(other.last_gap_at_ns);
        self.max_departure_delay_ns = self.max_departure_delay_ns.max(other.max_departure_delay_ns);
        if other.tx_packets > 0 && other.last_due_ns >= self.last_due_ns {
            self.last_due_ns = other.last_due_ns;
            self.last_departure_delay_ns = other.last_departure_delay_ns;
        }
    }
}

/// Counters of one stream: warm-up and measured phase apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounters {
    /// Packets due before the warm-up had passed.
    pub warmup: PhaseCounters,
    /// Packets of the measured phase.
    pub measured: PhaseCounters,
}

impl StreamCounters {
    /// Adds another stream's.
    pub fn add(&mut self, other: &Self) {
        self.warmup.add(&other.warmup);
        self.measured.add(&other.measured);
    }
}
