// SPDX-License-Identifier: Apache-2.0
//! What was counted by VLAN tag, in the messages of the contract: tags with equal counters together.
use super::groups::Group;
use super::runs::Held;
use crate::datapath::{self, TagList};
use contract::{TagCounters, TagRange, TagRangeStats, TagStats};

/// What was counted of a group by tag; none if it is not counted so.
pub fn stats(held: &Held, group: &Group) -> Option<TagStats> {
    let (tags, counters) = held.run().counters_by_tag(group.by_tag?);
    Some(TagStats {
        ranges: ranges(tags.tags().zip(&counters[TagList::FIRST..])),
        untagged: Some(contract_counters(&counters[TagList::UNTAGGED])),
        other: Some(contract_counters(&counters[TagList::OTHER])),
    })
}

/// A tag: the outer VLAN, if there are two, and the inner one.
type Tag = (Option<u16>, u16);

/// Tags with their counters, those with successive identifiers and equal counters together.
fn ranges<'a>(all: impl Iterator<Item = (Tag, &'a datapath::TagCounters)>) -> Vec<TagRangeStats> {
    let mut ranges: Vec<(TagRange, &datapath::TagCounters)> = Vec::new();
    for ((outer, vlan), counters) in all {
        let (outer_vlan, vlan) = (outer.map_or(0, u32::from), u32::from(vlan));
        match ranges.last_mut() {
            Some((range, same))
                if range.outer_vlan == outer_vlan && range.last_vlan + 1 == vlan && *same == counters =>
            {
                range.last_vlan = vlan;
            }
            _ => ranges.push((TagRange { outer_vlan, first_vlan: vlan, last_vlan: vlan }, counters)),
        }
    }
    let stats = |(tags, counters)| TagRangeStats { tags: Some(tags), counters: Some(contract_counters(counters)) };
    ranges.into_iter().map(stats).collect()
}

fn contract_counters(c: &datapath::TagCounters) -> TagCounters {
    TagCounters {
        packets: c.packets,
        bytes: c.bytes,
        missing: c.missing.cast_signed(),
        sequence_gaps: c.sequence_gaps,
        duplicates: c.duplicates,
        out_of_order: c.out_of_order,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successive_tags_with_equal_counters_are_one_range() {
        let counted = |packets| datapath::TagCounters { packets, ..datapath::TagCounters::default() };
        let (none, some) = (counted(0), counted(5));
        let all = [
            ((None, 1), &none),
            ((None, 2), &none),
            ((None, 4), &none),
            ((None, 5), &some),
            ((Some(1), 6), &some),
            ((Some(1), 7), &some),
            ((Some(2), 8), &some),
        ];
        let read: Vec<_> = ranges(all.into_iter())
            .into_iter()
            .map(|range| {
                let (tags, counters) = (range.tags.unwrap(), range.counters.unwrap());
                (tags.outer_vlan, tags.first_vlan, tags.last_vlan, counters.packets)
            })
            .collect();
        assert_eq!(read, [(0, 1, 2, 0), (0, 4, 4, 0), (0, 5, 5, 5), (1, 6, 7, 5), (2, 8, 8, 5)]);
    }
}
