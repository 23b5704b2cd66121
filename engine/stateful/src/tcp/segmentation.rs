// SPDX-License-Identifier: Apache-2.0
//! Segmentation offload (TSO): several new segments in one frame, which the port's device divides. The wire carries the same segments
//! as without.
use super::{
    Context, TIMESTAMPS_LEN,
    output::{Output, Plan, Sources},
};
use crate::{
    counters::Count,
    flow::{Flow, RecoveryIndex, flags, seq_before},
    offload::{OffloadRequest, Segmentation},
    packet::TCP_HEADER,
};

impl Flow {
    /// How many segments go in one frame, at most `most`: the planned new one, and full ones behind it as far as windows have room; behind
    /// headers of Ethernet and IP of this many bytes. A segment that is not full, or has CWR, goes alone.
    #[inline(never)]
    pub(super) fn segments_together(
        &self,
        (seq, len): (u32, u32),
        segmentation: &Segmentation,
        most: u32,
        cx: &Context<'_>,
        below: usize,
    ) -> u32 {
        let mss = self.segment_data();
        // CWR belongs on one segment only (RFC 3168 section 6.1.2), and devices differ in which of several has it.
        let marked = self.any(flags::PERSIST | flags::REDUCED);
        if len < mss || marked || self.recovery != RecoveryIndex::NONE || (self.has(flags::V6) && !segmentation.v6) {
            return 1;
        }
        let options = if self.has(flags::TIMESTAMPS) { u32::from(TIMESTAMPS_LEN) } else { 0 };
        let header = below as u32 + TCP_HEADER as u32 + options;
        if header + mss > segmentation.longest_segment {
            return 1;
        }
        let edge = self.snd_una.wrapping_add(self.snd_wnd.min(cx.tunables.send_buffer));
        let window = if seq_before(seq, edge) { edge.wrapping_sub(seq) } else { 0 };
        let congestion = self.cwnd.saturating_sub(self.pipe(cx));
        let data = self.snd_end.wrapping_sub(seq).min(window).min(congestion);
        (data.min(segmentation.longest_frame.saturating_sub(header)) / mss).min(most)
    }

    /// Sends a planned segment and those behind it, `segments` in all, in one frame. False if there is no room.
    #[inline(never)]
    pub(super) fn send_together(
        &mut self,
        plan: Plan,
        segments: u32,
        cx: &mut Context<'_>,
        from: &Sources<'_>,
        out: &mut impl Output,
    ) -> bool {
        let wide = self.segment(plan.seq, segments * plan.len, false);
        let header = from.ends.headers() + TCP_HEADER + self.options_len::<false>(cx);
        let Some(frame) = out.frame_to_segment(header, wide.len as usize, plan.len as usize) else { return false };
        let from = Sources { finish: OffloadRequest::Segments, ..*from };
        self.write_data::<false>(frame, &wide, header, cx, &from);
        cx.counters.add(Count::SentPackets, u64::from(segments - 1));
        cx.counters.add(Count::SentDataPackets, u64::from(segments - 1));
        true
    }
}
