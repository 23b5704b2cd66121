// SPDX-License-Identifier: Apache-2.0
//! Counters, link and time stamps of ports and their queues.
use super::{Encoder, Scrape, Values, seconds};
use crate::control::stats;
use prometheus_client::metrics::MetricType;
use std::fmt;

impl Scrape {
    /// What each port and queue has sent and received, the device's own counters, its link and its clock.
    pub(super) fn ports(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let values: &Values<contract::PortStats> = &[
            ("spate_port_tx_packets", "Packets the device took", |p| p.tx_packets),
            ("spate_port_tx_bytes", "Bytes the device took, FCS included", |p| p.tx_bytes),
            ("spate_port_tx_dropped_packets", "Packets refused by the device or the kernel behind it", |p| {
                p.tx_dropped
            }),
            ("spate_port_rx_packets", "Packets received", |p| p.rx_packets),
            ("spate_port_rx_bytes", "Bytes received, FCS included", |p| p.rx_bytes),
            ("spate_port_rx_missed_packets", "Packets lost before they could be read", |p| p.rx_missed),
            ("spate_port_rx_errors", "Packets received broken", |p| p.rx_errors),
            ("spate_port_foreign_packets", "Packets without a trailer of any run", |p| p.foreign_packets),
            (
                "spate_port_other_mac_packets",
                "Of the foreign packets, those for another station's MAC: neither given to flows nor answered",
                |p| p.other_mac_packets,
            ),
            ("spate_port_reflected_packets", "Packets received and sent back", |p| p.reflected_packets),
            (
                "spate_port_not_reflected_packets",
                "Packets received on a port that sends back, and not sent back",
                |p| p.not_reflected_packets,
            ),
            (
                "spate_port_throttled_packets",
                "Packets that the generator's maximum rate delayed, each once, and reflected ones that it dropped",
                |p| p.throttled_packets,
            ),
            ("spate_port_tx_segmented_frames", "Frames that the device segmented", |p| p.tx_segmented_frames),
            ("spate_port_receive_waits", "Times nothing was read because the worker that counts was behind", |p| {
                p.receive_waits
            }),
            (
                "spate_port_unstamped_packets",
                "Measured packets without a time stamp of the device that was to stamp them: stamped by the CPU",
                |p| p.unstamped_packets,
            ),
        ];
        let stats = stats::ports(&self.engine);
        for (name, help, value) in values {
            let mut family = encoder.family(name, help, MetricType::Counter)?;
            for port in &stats {
                family.counter(&[("port", port.port.as_str())], value(port))?;
            }
        }
        let help = "The device's own counters (ethdev's extended statistics), by the name that its driver gives them";
        let mut own = encoder.family("spate_port_device_counter", help, MetricType::Counter)?;
        for (port, counters) in self.engine.datapath().device_counters() {
            for (name, value) in &counters {
                own.counter(&[("port", port), ("counter", name.as_str())], *value)?;
            }
        }
        let help = "Times that a neighbor of the port had another MAC address than before";
        let mut moves = encoder.family("spate_port_neighbor_moves", help, MetricType::Counter)?;
        for (port, count) in self.engine.datapath().neighbor_moves() {
            moves.counter(&[("port", port)], count)?;
        }
        let help = "Maximum error of the time stamps that the port's device gives packets it receives, where it does and this is known";
        let mut bounds = encoder.family("spate_port_timestamp_bound_seconds", help, MetricType::Gauge)?;
        for (port, bound_ns) in self.engine.datapath().stamp_bounds() {
            if let Some(bound_ns) = bound_ns {
                bounds.number(&[("port", port)], seconds(bound_ns))?;
            }
        }
        let mut up = encoder.family("spate_port_link_up", "1 while the port has a link", MetricType::Gauge)?;
        for port in &stats {
            up.gauge(&[("port", port.port.as_str())], u64::from(port.link_up))?;
        }
        let help = "Line rate of the port, where it is known";
        let mut rate = encoder.family("spate_port_line_rate_bits_per_second", help, MetricType::Gauge)?;
        for port in self.engine.ports() {
            if let Some(bps) = port.line_rate_bps {
                rate.gauge(&[("port", port.name.as_str())], bps)?;
            }
        }
        let queues: &Values<contract::QueueStats> = &[
            ("spate_queue_tx_packets", "Packets sent by the queue", |q| q.tx_packets),
            ("spate_queue_rx_packets", "Packets received by the queue", |q| q.rx_packets),
        ];
        for (name, help, value) in queues {
            let mut family = encoder.family(name, help, MetricType::Counter)?;
            for port in &stats {
                for queue in &port.queues {
                    let number = queue.queue.to_string();
                    family.counter(&[("port", port.port.as_str()), ("queue", &number)], value(queue))?;
                }
            }
        }
        Ok(())
    }
}
