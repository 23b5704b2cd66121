// SPDX-License-Identifier: Apache-2.0
//! Frames that a port receives are copied to the slow path.
use spate_filter::Program;
use spate_neighbour::Interest;

use crate::datapath::{buffers::SHORT_ROOM, frames::FrameWriter};

/// Longest frame that the slow path takes or sends, without FCS: what packets of every worker have room for.
const SLOW_LEN: usize = SHORT_ROOM;

/// Copies received frames to the slow path.
pub(in crate::datapath) struct SlowPathCopy {
    /// Frames that concern the port's addresses,
    pub(in crate::datapath) interest: Option<Box<Interest>>,
    /// and those that the filter of a punt takes.
    pub(in crate::datapath) punt: Option<Program>,
    pub(in crate::datapath) frames: FrameWriter,
}

impl SlowPathCopy {
    /// Looks at a received frame that is no packet of a run.
    #[inline]
    pub(super) fn offer(&mut self, frame: &[u8], len: usize, at_ns: u64) {
        let wanted = self.interest.as_ref().is_some_and(|interest| interest.concerns(frame))
            || self.punt.as_ref().is_some_and(|punt| punt.matches(frame, len));
        if !wanted {
            return;
        }
        if frame.len() == len && len <= SLOW_LEN {
            self.frames.push(at_ns, len, frame);
        } else {
            self.frames.refuse();
        }
    }
}
