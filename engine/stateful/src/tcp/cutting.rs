// SPDX-License-Identifier: Apache-2.0
//! Several new segments in one frame, which the port's device cuts: what goes on the wire is what would go without.
use super::{
    Context, TIMESTAMPS_LEN,
    output::{Data, Output, Plan, Sources},
};
use crate::{
    counters::Count,
    flow::{Flow, is, seq_before},
    offload::{Cut, Finish},
    packet::{Below, TCP_HEADER},
    slab::NONE,
};

/// What became of a frame of several segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cutting {
    /// So many segments were sent.
    Sent(usize),
    /// There is no room.
    NoRoom,
    /// The segment is to be sent alone.
    Alone,
}

impl Flow {
    /// Sends a planned segment together with whole ones behind it, at most so many in all, if windows have room for them. What is
    /// sent again, what ends a payload and what must be marked goes alone.
    pub(super) fn send_cut(
        &mut self,
        plan: &Plan,
        (cut, most): (&Cut, usize),
        cx: &mut Context<'_>,
        from: &Sources<'_>,
        out: &mut impl Output,
    ) -> Cutting {
        let mss = self.segment_data();
        let alone = plan.again || plan.forced || plan.fin || plan.len < mss;
        // CWR belongs on one segment only (RFC 3168 section 6.1.2), and devices differ in which of several has it.
        if alone || self.recovery != NONE || self.any(is::PERSIST | is::REDUCED) || (self.has(is::V6) && !cut.v6) {
            return Cutting::Alone;
        }
        let options = if self.has(is::TIMESTAMPS) { u32::from(TIMESTAMPS_LEN) } else { 0 };
        let header = from.below.len() as u32 + TCP_HEADER as u32 + options;
        if header + mss > cut.longest_segment {
            return Cutting::Alone;
        }
        let edge = self.snd_una.wrapping_add(self.snd_wnd.min(cx.tunables.send_buffer));
        let window = if seq_before(plan.seq, edge) { edge.wrapping_sub(plan.seq) } else { 0 };
        let congestion = self.cwnd.saturating_sub(self.pipe(cx));
        let data = self.snd_end.wrapping_sub(plan.seq).min(window).min(congestion);
        let data = data.min(cut.longest_frame.saturating_sub(header));
        let segments = (data / mss).min(most as u32);
        if segments < 2 {
            return Cutting::Alone;
        }
        let wide = self.segment(plan.seq, segments * mss, false);
        let Some(frame) = out.frame_to_cut(header as usize, wide.len as usize, mss as usize) else {
            // No memory for it now: what goes alone makes the device give some back.
            return if out.offloads().cut.is_some() { Cutting::NoRoom } else { Cutting::Alone };
        };
        let below = Below { finish: Finish::Segments, ..*from.below };
        let data = Data { payloads: from.data.payloads, backlogs: from.data.backlogs };
        self.write_data::<false>(frame, &wide, header as usize, cx, &Sources { below: &below, data });
        cx.counters.add(Count::SentPackets, u64::from(segments - 1));
        cx.counters.add(Count::SentDataPackets, u64::from(segments - 1));
        Cutting::Sent(segments as usize)
    }
}
