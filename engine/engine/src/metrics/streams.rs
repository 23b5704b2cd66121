// SPDX-License-Identifier: Apache-2.0
//! Counters of streams, by group and phase.
use super::{Encoder, Scrape, Values};
use crate::control::groups::Group;
use crate::control::runs::Held;
use contract::{StreamCounters, StreamStats};
use prometheus_client::metrics::MetricType;
use std::fmt;

/// The labels of a group of streams.
pub(super) fn labels<'a>(held: &'a Held, facts: &'a Group) -> [(&'a str, &'a str); 6] {
    [
        ("profile_namespace", held.namespace.as_str()),
        ("profile", &held.profile),
        ("run", &held.name),
        ("stream", &facts.name),
        ("tx_port", &facts.tx_port),
        ("rx_port", &facts.rx_port),
    ]
}

impl Scrape {
    /// Counters of streams by group: there are at most as many as a plan has groups, however many streams they are.
    pub(super) fn streams(&self, encoder: &mut Encoder<'_>, read: &[Vec<StreamStats>]) -> fmt::Result {
        let values: &Values<StreamCounters> = &[
            ("spate_stream_tx_packets", "Packets sent", |c| c.tx_packets),
            ("spate_stream_tx_bytes", "Bytes sent, FCS included", |c| c.tx_bytes),
            ("spate_stream_tx_dropped_packets", "Packets that could not be sent", |c| c.tx_dropped),
            ("spate_stream_late_packets", "Packets that left later than they should have", |c| c.late),
            ("spate_stream_rx_packets", "Packets received, duplicates included", |c| c.rx_packets),
            ("spate_stream_rx_bytes", "Bytes received, FCS included", |c| c.rx_bytes),
            ("spate_stream_duplicate_packets", "Packets received before", |c| c.duplicates),
            ("spate_stream_out_of_order_packets", "Packets received after one sent later", |c| c.out_of_order),
            ("spate_stream_misdirected_packets", "Packets received on another port than expected", |c| c.misdirected),
            (
                "spate_stream_sequence_too_high_packets",
                "Packets with a sequence number more than a window ahead of the expected one",
                |c| c.sequence_too_high,
            ),
            (
                "spate_stream_sequence_too_low_packets",
                "Packets with a sequence number below the window; counted as out of order too",
                |c| c.sequence_too_low,
            ),
        ];
        for (name, help, value) in values {
            let mut family = encoder.family(name, help, MetricType::Counter)?;
            for (held, streams) in self.runs.iter().zip(read) {
                for (facts, counters) in held.groups().iter().zip(streams) {
                    for (phase, counters) in [("warmup", &counters.warmup), ("measured", &counters.measured)] {
                        let [namespace, profile, run, stream, tx_port, rx_port] = labels(held, facts);
                        let labels = [namespace, profile, run, stream, tx_port, rx_port, ("phase", phase)];
                        family.counter(&labels, counters.as_ref().map_or(0, value))?;
                    }
                }
            }
        }
        Ok(())
    }
}
