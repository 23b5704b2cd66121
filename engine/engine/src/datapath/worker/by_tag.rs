// SPDX-License-Identifier: Apache-2.0
//! Which VLAN tags do the packets of a stream arrive with? The owner of a sequence keeps one for each tag, too.
//!
//! A packet's tags are looked at by the worker that reads it, of streams that are counted by tag alone (`Owner::counts_by_tag`).
use std::sync::Arc;

use spate_net::TagList;
use spate_stats::{Queue, TagSlot, Tracker};

use super::handed::{MeasuredPacket, TagNumber};
use crate::datapath::shared::RunShare;
use crate::index::{StreamIndex, TrackerIndex, WorkerIndex};

/// What a worker needs to count the packets of a run by tag.
#[derive(Default)]
pub(in crate::datapath) struct ByTag {
    /// By stream: its tags.
    pub(in crate::datapath) streams: Arc<[Option<Tagged>]>,
    /// By tracker of the run: index of the sequence of packets without a tag, which those of the tags follow.
    pub(in crate::datapath) first: Box<[u32]>,
    pub(in crate::datapath) sequences: Box<[Tracker]>,
    /// By (sequence, receiving worker), if several workers receive from a port of the streams; else empty.
    pub(in crate::datapath) queues: Box<[Queue]>,
    /// Workers of this engine.
    pub(in crate::datapath) workers: usize,
}

/// Tags of a stream.
#[derive(Clone)]
pub(in crate::datapath) struct Tagged {
    pub(in crate::datapath) tags: Arc<TagList>,
    /// Index in `RunShare::by_tag`.
    pub(in crate::datapath) list: u32,
}

impl ByTag {
    /// The number of a frame's tags; none if its stream is not counted by tag.
    #[inline]
    pub(super) fn number(&self, stream: StreamIndex, frame: &[u8]) -> Option<TagNumber> {
        let tagged = self.streams.get(stream.0)?.as_ref()?;
        TagNumber::new(tagged.tags.of(frame))
    }

    /// Counts a packet that worker `from` received, of a sequence that this worker owns.
    pub(super) fn count(
        &mut self,
        share: &RunShare,
        packet: &MeasuredPacket,
        tag: TagNumber,
        from: WorkerIndex,
        (stream, tracker): (StreamIndex, TrackerIndex),
    ) {
        let Some(Some(tagged)) = self.streams.get(stream.0) else { return };
        let Some(slot) = share.by_tag[tagged.list as usize].get(tag.get()) else { return };
        let slot: Option<&TagSlot> = packet.is_measured().then_some(slot);
        if let Some(slot) = slot {
            slot.received(packet.bytes());
        }
        // Numbers of packets with different tags are no sequence.
        let Some(place) = tag.get().checked_sub(TagList::UNTAGGED) else { return };
        let place = self.first[tracker.0] as usize + place;
        let sequence = &mut self.sequences[place];
        let arrival = match self.queues.get_mut(place * self.workers + from.0) {
            Some(queue) => sequence.receive_from(queue, packet.sequence()),
            None => sequence.receive(packet.sequence()),
        };
        let missing = sequence.take_missing();
        if let Some(slot) = slot {
            slot.arrived(arrival, missing);
        }
    }
}
