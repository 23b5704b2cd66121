// SPDX-License-Identifier: Apache-2.0
//! Hooks of a port of a worker: what control attaches while the worker runs.
use spate_neighbour::Interest;

use super::{
    Device, Dpdk,
    sinks::SlowPathCopy,
    sources::Inject,
    taps::{Direction, Tap},
};

/// A hook of a port.
pub(in crate::datapath) enum Hook<D: Device = Dpdk> {
    SlowPathCopy(Box<SlowPathCopy>),
    /// Replaces which frames go to the slow path.
    Interest(Box<Interest>),
    Inject(Box<Inject<D>>),
    Tap(Direction, Box<Tap>),
}
