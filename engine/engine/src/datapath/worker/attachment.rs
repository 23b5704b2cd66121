// SPDX-License-Identifier: Apache-2.0
//! What can be hung on a port of a worker.
use spate_neighbour::Interest;

use super::{
    Device, Dpdk,
    sinks::SlowPathCopy,
    sources::Inject,
    taps::{Direction, Tap},
};

/// Something to hang on a port.
pub(in crate::datapath) enum Attachment<D: Device = Dpdk> {
    SlowPathCopy(Box<SlowPathCopy>),
    /// Replaces which frames go to the slow path.
    Interest(Box<Interest>),
    Inject(Box<Inject<D>>),
    Tap(Direction, Box<Tap>),
}
