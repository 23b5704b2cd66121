// SPDX-License-Identifier: Apache-2.0
//! The VLAN tags by which a plan counts packets of its streams.
use super::Violations;
use crate::datapath::TagList;
use contract::{Stream, TagRange};
use spate_net::{tag_list, vlan::MAX_VLAN};
use spate_stateful::FieldPath;
use std::ops::RangeInclusive;

/// Tags of a stream.
pub const MAX_TAGS: usize = 4096;
/// Tags of all streams together: each has counters and sequences of its own.
pub const MAX_TAGS_OF_ALL: usize = 1 << 18;
/// Identifiers of VLANs.
const VLANS: RangeInclusive<u32> = 1..=MAX_VLAN as u32;

/// The tags of a stream, if it is counted by tag; `at` is the path of its measure.
pub fn tags(at: &FieldPath, stream: &Stream, wrong: &mut Violations) -> Option<TagList> {
    let measure = stream.measure.as_ref()?;
    let ranges = &measure.by_tag.as_ref()?.ranges;
    let at = at.field("by_tag");
    if !measure.flow {
        wrong.add(
            &at,
            "needs measure.flow: packets of each tag are counted by the sequence number in its trailer; set that too",
        );
    }
    if stream.rx_port.is_empty() {
        wrong.add(&at, "needs rx_port, where packets are counted by tag");
    }
    let mut found = Vec::with_capacity(ranges.len().min(MAX_TAGS));
    for (i, range) in ranges.iter().enumerate() {
        found.extend(tag_range(&at.field("ranges").index(i), range, wrong));
    }
    if found.len() < ranges.len() {
        return None;
    }
    let count: usize = found.iter().map(|range| range.count()).sum();
    if count > MAX_TAGS {
        wrong.add(at.field("ranges"), format!("{count} tags; must be at most {MAX_TAGS}"));
        return None;
    }
    match TagList::new(found) {
        Ok(tags) => Some(tags),
        Err(i) => {
            wrong.add(at.field("ranges").index(i), "has a tag that another range has; name each tag once");
            None
        }
    }
}

/// Notes if all streams together have more tags than can be counted.
pub fn limit(count: usize, wrong: &mut Violations) {
    if count > MAX_TAGS_OF_ALL {
        wrong.add(
            "streams",
            format!(
                "are counted by {count} tags together; must be at most {MAX_TAGS_OF_ALL}: name fewer in measure.by_tag"
            ),
        );
    }
}

fn tag_range(at: &FieldPath, range: &TagRange, wrong: &mut Violations) -> Option<tag_list::TagRange> {
    let TagRange { outer_vlan, first_vlan, last_vlan } = *range;
    let right = (outer_vlan == 0 || VLANS.contains(&outer_vlan))
        && VLANS.contains(&first_vlan)
        && (first_vlan..=*VLANS.end()).contains(&last_vlan);
    if outer_vlan != 0 && !VLANS.contains(&outer_vlan) {
        wrong.add(at.field("outer_vlan"), format!("{outer_vlan}; must be 1..{MAX_VLAN}, or 0 for frames with one tag"));
    }
    if !VLANS.contains(&first_vlan) {
        wrong.add(at.field("first_vlan"), format!("{first_vlan}; must be 1..{MAX_VLAN}"));
    }
    if !VLANS.contains(&last_vlan) || last_vlan < first_vlan {
        wrong.add(
            at.field("last_vlan"),
            format!("{last_vlan}; must be 1..{MAX_VLAN}, and not before first_vlan {first_vlan}"),
        );
    }
    let outer = (outer_vlan != 0).then_some(outer_vlan as u16);
    right.then_some(tag_list::TagRange { outer, first: first_vlan as u16, last: last_vlan as u16 })
}
