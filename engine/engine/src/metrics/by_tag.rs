// SPDX-License-Identifier: Apache-2.0
//! Metrics of streams by the VLAN tags of what arrives: only of tags that arrived, so that a list of many tags is no series by itself.
use contract::{StreamStats, TagCounters, TagStats};
use prometheus_client::metrics::MetricType;
use std::fmt;

use super::streams::labels;
use super::{Encoder, MAX_TAGS, Scrape, Values};

impl Scrape {
    /// Writes counters by tag of streams, in the measured phase. Returns the number of tags that are omitted.
    pub(super) fn by_tag(&self, encoder: &mut Encoder<'_>, read: &[Vec<StreamStats>]) -> Result<usize, fmt::Error> {
        let values: &Values<TagCounters> = &[
            ("spate_stream_tag_rx_packets", "Packets received with a VLAN tag in the measured phase", |c| c.packets),
            ("spate_stream_tag_rx_bytes", "Their bytes, FCS included", |c| c.bytes),
            ("spate_stream_tag_sequence_gaps", "Packets before which others with the tag were missing", |c| {
                c.sequence_gaps
            }),
            ("spate_stream_tag_duplicate_packets", "Packets received with the tag before", |c| c.duplicates),
            ("spate_stream_tag_out_of_order_packets", "Packets received with the tag after one sent later", |c| {
                c.out_of_order
            }),
        ];
        let mut tags = 0;
        for (name, help, value) in values {
            tags = 0;
            let mut family = encoder.family(name, help, MetricType::Counter)?;
            for (held, streams) in self.runs.iter().zip(read) {
                for (facts, stats) in held.groups().iter().zip(streams) {
                    let Some(by_tag) = stats.measured.as_ref().and_then(|measured| measured.by_tag.as_ref()) else {
                        continue;
                    };
                    each(by_tag, |outer, vlan, counters| {
                        tags += 1;
                        if tags > MAX_TAGS {
                            return Ok(());
                        }
                        let [namespace, profile, run, stream, tx_port, rx_port] = labels(held, facts);
                        let labels =
                            [namespace, profile, run, stream, tx_port, rx_port, ("outer_vlan", outer), ("vlan", vlan)];
                        family.counter(&labels, value(counters))
                    })?;
                }
            }
        }
        Ok(tags.saturating_sub(MAX_TAGS))
    }
}

/// Calls `each` for every tag with packets: with the outer VLAN (empty if there is none), the VLAN, and the counters.
fn each(by_tag: &TagStats, mut each: impl FnMut(&str, &str, &TagCounters) -> fmt::Result) -> fmt::Result {
    for (name, counters) in [("untagged", &by_tag.untagged), ("other", &by_tag.other)] {
        if let Some(counters) = counters.as_ref().filter(|counters| counters.packets > 0) {
            each("", name, counters)?;
        }
    }
    for range in &by_tag.ranges {
        let (Some(tags), Some(counters)) = (range.tags, range.counters.as_ref()) else { continue };
        if counters.packets == 0 {
            continue;
        }
        let outer = if tags.outer_vlan == 0 { String::new() } else { tags.outer_vlan.to_string() };
        for vlan in tags.first_vlan..=tags.last_vlan {
            each(&outer, &vlan.to_string(), counters)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::{TagRange, TagRangeStats};

    #[test]
    fn each_tag_with_packets_is_a_series() {
        let counters = |packets| Some(TagCounters { packets, ..TagCounters::default() });
        let range = |outer_vlan, first_vlan, last_vlan, packets| TagRangeStats {
            tags: Some(TagRange { outer_vlan, first_vlan, last_vlan }),
            counters: counters(packets),
        };
        let by_tag = TagStats {
            ranges: vec![range(0, 1, 9, 0), range(0, 10, 11, 4), range(100, 5, 5, 6)],
            untagged: counters(0),
            other: counters(1),
        };
        let mut series = Vec::new();
        each(&by_tag, |outer, vlan, counters| {
            series.push(format!("{outer}/{vlan}={}", counters.packets));
            Ok(())
        })
        .unwrap();
        assert_eq!(series, ["/other=1", "/10=4", "/11=4", "100/5=6"]);
    }
}
