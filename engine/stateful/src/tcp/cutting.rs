// SPDX-License-Identifier: Apache-2.0
//! Several new segments in one frame, which the port's device cuts: what goes on the wire is what would go without.
use super::{Context, TIMESTAMPS_LEN, output::Plan};
use crate::{
    flow::{Flow, is, seq_before},
    offload::Cut,
    packet::{Below, TCP_HEADER},
    slab::NONE,
};

impl Flow {
    /// A planned segment together with whole ones behind it, at most so many in all, if windows have room for them. What is
    /// sent again, what ends a payload and what must be marked goes alone.
    #[inline(never)]
    pub(super) fn widened(&self, plan: Plan, cut: &Cut, most: u32, cx: &Context<'_>, below: &Below) -> Plan {
        let mss = self.segment_data();
        let alone = plan.again || plan.forced || plan.fin || plan.len < mss;
        // CWR belongs on one segment only (RFC 3168 section 6.1.2), and devices differ in which of several has it.
        if alone || self.recovery != NONE || self.any(is::PERSIST | is::REDUCED) || (self.has(is::V6) && !cut.v6) {
            return plan;
        }
        let options = if self.has(is::TIMESTAMPS) { u32::from(TIMESTAMPS_LEN) } else { 0 };
        let header = below.len() as u32 + TCP_HEADER as u32 + options;
        if header + mss > cut.longest_segment {
            return plan;
        }
        let edge = self.snd_una.wrapping_add(self.snd_wnd.min(cx.tunables.send_buffer));
        let window = if seq_before(plan.seq, edge) { edge.wrapping_sub(plan.seq) } else { 0 };
        let congestion = self.cwnd.saturating_sub(self.pipe(cx));
        let data = self.snd_end.wrapping_sub(plan.seq).min(window).min(congestion);
        let segments = (data.min(cut.longest_frame.saturating_sub(header)) / mss).min(most);
        if segments < 2 { plan } else { Plan { segments, ..self.segment(plan.seq, segments * mss, false) } }
    }
}
