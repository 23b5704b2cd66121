// SPDX-License-Identifier: Apache-2.0
//! Neighbors that were found, or have another MAC than before, from the slow path to the thread that passes them to runs. The last MAC of each counts, so
//! there are no more of them than ports have neighbors.
use std::{
    collections::BTreeMap,
    mem,
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

use spate_neighbour::Mac;

use crate::index::PortIndex;

/// By port and address of the neighbor: where it is now.
pub(in crate::datapath) type Moved = BTreeMap<(PortIndex, IpAddr), Mac>;

/// Those that were not passed on yet.
#[derive(Debug, Default)]
pub(in crate::datapath) struct Moves(Mutex<Moved>);

impl Moves {
    /// A neighbor is at this MAC from now on. It is called while the port is locked: so what was learned last is noted last.
    pub(super) fn note(&self, port: PortIndex, address: IpAddr, mac: Mac) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((port, address), mac);
    }

    /// All since it was called last.
    pub(in crate::datapath) fn take(&self) -> Moved {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
