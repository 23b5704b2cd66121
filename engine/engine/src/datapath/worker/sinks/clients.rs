// SPDX-License-Identifier: Apache-2.0
//! Frames that a port receives for emulated clients are copied to the thread that emulates them.
use spate_clients::{For, Interest};

use crate::datapath::{buffers::SHORT_ROOM, frames::FrameWriter};

/// Copies received frames to the thread of clients.
pub(in crate::datapath) struct ClientCopy {
    /// Frames that concern the port's clients.
    pub(in crate::datapath) interest: Box<Interest>,
    pub(in crate::datapath) frames: FrameWriter,
}

impl ClientCopy {
    /// Looks at a received frame that is no packet of a run. Returns whether it is for the MAC of a client: then no other station of the port
    /// has a use for it.
    #[inline]
    pub(super) fn offer(&mut self, frame: &[u8], len: usize, at_ns: u64) -> bool {
        let destination = self.interest.destination(frame);
        if destination != For::Other && self.interest.is_spoken(frame) {
            if frame.len() == len && len <= SHORT_ROOM {
                self.frames.push(at_ns, len, frame);
            } else {
                self.frames.refuse();
            }
        }
        destination == For::Client
    }
}
