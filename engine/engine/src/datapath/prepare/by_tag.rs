// SPDX-License-Identifier: Apache-2.0
//! Preparing to count packets by VLAN tag: a sequence for each tag of a stream, beside each that its owner keeps.
use std::sync::Arc;

use spate_stats::{Queue, TagSlot, Tracker, WIDE_WINDOW};

use crate::datapath::{
    PrepareError, RunSpec, StreamSpec,
    prepare::Context,
    shared::RunShare,
    worker::{ByTag, Owner, Tagged},
};
use crate::index::WorkerIndex;

/// How far behind the highest sequence number of its tag a packet may be and still be known as new or duplicate; where several workers
/// receive from the port it is as far as for the whole stream.
const TAG_WINDOW: usize = 1024;
/// What all tags of a run take in an engine, at most.
const BYTES: usize = 1 << 30;

/// The index of a stream's list of tags, if its packets are counted by tag.
pub(super) fn list_of(stream: &StreamSpec) -> Option<usize> {
    stream.receive.by_tag.filter(|_| stream.template.flow() && stream.rx_port.is_some())
}

/// The parts of all workers, by worker; none of those that own no sequence of such a stream. `trackers` is how many each has.
pub(super) fn by_tag(
    context: &Context<'_>,
    spec: &RunSpec,
    owners: &[Owner],
    senders: usize,
    trackers: &[usize],
) -> Result<Vec<Option<Box<ByTag>>>, PrepareError> {
    let tagged = |s: &StreamSpec| {
        list_of(s).map(|list| Tagged { tags: Arc::clone(&spec.measure.by_tag[list]), list: list as u32 })
    };
    let streams: Arc<[Option<Tagged>]> = spec.streams.iter().map(tagged).collect();
    if streams.iter().all(Option::is_none) {
        return Ok(trackers.iter().map(|_| None).collect());
    }
    let workers = trackers.len();
    // By worker: of each tracker, how many sequences its tags have and how long they remember.
    let mut needs: Vec<Vec<(usize, usize)>> = trackers.iter().map(|count| vec![(0, 0); *count]).collect();
    let mut any_wide = false;
    for (index, tagged) in streams.iter().enumerate() {
        let (Some(tagged), Some(port)) = (tagged, spec.streams[index].rx_port) else { continue };
        let wide = context.ports[port.0].rx_workers.len() > 1;
        any_wide |= wide;
        let window = if wide { WIDE_WINDOW } else { TAG_WINDOW };
        for owner in &owners[index * senders..][..senders] {
            // All numbers but that of other tags.
            needs[owner.worker().0][owner.tracker().0] = (tagged.tags.len() + 1, window);
        }
    }
    let queues = if any_wide { workers } else { 0 };
    let of_sequence = |window| Tracker::bytes(window) + queues * size_of::<Queue>();
    let bytes: usize = needs.iter().flatten().map(|(count, window)| count * of_sequence(*window)).sum();
    if bytes > BYTES {
        return Err(PrepareError {
            field: "streams".into(),
            problem: format!(
                "the sequences of packets by tag, from {senders} workers, need {} MiB, and {} are allowed: name fewer tags, or count \
                 fewer streams by tag",
                bytes >> 20,
                BYTES >> 20,
            ),
            exhausted: true,
        });
    }
    let part = |needs: Vec<(usize, usize)>| {
        let sequences: Box<[Tracker]> =
            needs.iter().flat_map(|&(count, window)| (0..count).map(move |_| Tracker::new(window))).collect();
        let first = needs.iter().scan(0, |next, (count, _)| {
            let first = *next;
            *next += *count as u32;
            Some(first)
        });
        let first = first.collect();
        // A worker that keeps none still looks at the tags of what it reads.
        let queues = vec![Queue::default(); sequences.len() * queues].into();
        Some(Box::new(ByTag { streams: Arc::clone(&streams), first, sequences, queues, workers }))
    };
    Ok(needs.into_iter().map(part).collect())
}

/// Makes room in a worker's share for what it counts: of streams with a sequence that it keeps.
pub(super) fn make_room(share: &mut RunShare, spec: &RunSpec, owners: &[Owner], senders: usize, worker: WorkerIndex) {
    let mut lists: Vec<Box<[TagSlot]>> = spec.measure.by_tag.iter().map(|_| Box::default()).collect();
    for (index, stream) in spec.streams.iter().enumerate() {
        let Some(list) = list_of(stream).filter(|list| lists[*list].is_empty()) else { continue };
        if owners[index * senders..][..senders].iter().any(|owner| owner.worker() == worker) {
            lists[list] = (0..spec.measure.by_tag[list].numbers()).map(|_| TagSlot::default()).collect();
        }
    }
    share.by_tag = lists.into();
}
