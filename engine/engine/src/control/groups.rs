// SPDX-License-Identifier: Apache-2.0
//! What streams are counted under: their groups, or each by itself.
use super::runs::StreamFacts;
use crate::datapath::StreamReceive;
use crate::index::StreamIndex;
use std::collections::HashMap;

/// Streams that are counted together; they agree in their ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The group's name; that of the stream where it has none.
    pub name: String,
    /// Name of the port that sends them.
    pub tx_port: String,
    /// Name of the port that is to receive them; empty if none is.
    pub rx_port: String,
    /// The streams, in the plan's order.
    pub streams: Vec<StreamIndex>,
    /// Where their delays are counted, if they are.
    pub histogram: Option<usize>,
    /// Index of the list of tags (`Measure::by_tag`) that counts their packets; none without one.
    pub by_tag: Option<usize>,
}

/// Groups in the order of their first streams.
pub fn by_group(streams: &[StreamFacts], receive: &[StreamReceive]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known = HashMap::new();
    for (index, (facts, receive)) in streams.iter().zip(receive).enumerate() {
        let at = *known.entry(facts.group.as_str()).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Group {
                name: facts.group.clone(),
                tx_port: facts.tx_port.clone(),
                rx_port: facts.rx_port.clone(),
                streams: Vec::new(),
                histogram: receive.histogram,
                by_tag: receive.by_tag,
            });
        }
        groups[at].streams.push(StreamIndex(index));
    }
    groups
}

/// Every stream by itself. A group's streams share one histogram, and counters by tag, which then say nothing of each.
pub fn by_stream(streams: &[StreamFacts], groups: &[Group]) -> Vec<Group> {
    let mut all: Vec<Option<Group>> = vec![None; streams.len()];
    for group in groups {
        for &index in &group.streams {
            all[index.0] = Some(Group {
                name: streams[index.0].name.clone(),
                streams: vec![index],
                histogram: group.histogram.filter(|_| group.streams.len() == 1),
                by_tag: group.by_tag.filter(|_| group.streams.len() == 1),
                ..group.clone()
            });
        }
    }
    all.into_iter().flatten().collect()
}
