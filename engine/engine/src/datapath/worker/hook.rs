// SPDX-License-Identifier: Apache-2.0
//! Hooks of a port of a worker: what control attaches while the worker runs.
use spate_clients::Interest as ClientInterest;
use spate_neighbour::Interest;

use super::{
    Device, Dpdk,
    sinks::{ClientCopy, SlowPathCopy},
    sources::Inject,
    taps::{Direction, Tap},
};

/// A hook of a port.
pub(in crate::datapath) enum Hook<D: Device = Dpdk> {
    SlowPathCopy(Box<SlowPathCopy>),
    /// Replaces which frames go to the slow path.
    Interest(Box<Interest>),
    Inject(Box<Inject<D>>),
    /// Copies frames for emulated clients.
    ClientCopy(Box<ClientCopy>),
    /// Replaces which frames are for them.
    ClientInterest(Box<ClientInterest>),
    /// Frames that they send.
    ClientInject(Box<Inject<D>>),
    Tap(Direction, Box<Tap>),
}
