// SPDX-License-Identifier: Apache-2.0
//! Neighbors that were found, or have another MAC than before, from the slow path to the thread that passes them to runs. The last MAC of each counts, so
//! there are no more of them than ports have neighbors.
use std::{collections::BTreeMap, fmt, mem, net::IpAddr, sync::Mutex};

use spate_neighbour::{Mac, Target};
use spate_net::vlan::Tags;

use crate::index::PortIndex;
use crate::lock::lock;

/// A neighbor on the link of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkNeighbor {
    /// The VLAN tags in which it is; none: those of the port's own frames.
    pub tags: Option<Tags>,
    /// Its address.
    pub address: IpAddr,
}

impl LinkNeighbor {
    /// A neighbor on the link of a port with these tags.
    pub(super) fn new(target: Target, own: Tags) -> Self {
        Self { tags: Some(target.tags).filter(|tags| *tags != own), address: target.address }
    }

    /// The neighbor with the tags of its frames, on the link of a port with the tags `own`.
    pub(super) fn target(self, own: Tags) -> Target {
        Target { tags: self.tags.unwrap_or(own), address: self.address }
    }
}

impl From<IpAddr> for LinkNeighbor {
    fn from(address: IpAddr) -> Self {
        Self { tags: None, address }
    }
}

impl fmt::Display for LinkNeighbor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tags {
            Some(tags) => write!(f, "{} {tags}", self.address),
            None => self.address.fmt(f),
        }
    }
}

/// The MAC that neighbors have now.
pub(in crate::datapath) type Moved = BTreeMap<(PortIndex, LinkNeighbor), Mac>;

/// Moves of neighbors that were not passed on yet.
#[derive(Debug, Default)]
pub(in crate::datapath) struct Moves(Mutex<Moved>);

impl Moves {
    /// A neighbor is at this MAC from now on. It is called while the port is locked: so what was learned last is noted last.
    pub(super) fn note(&self, port: PortIndex, neighbor: LinkNeighbor, mac: Mac) {
        lock(&self.0).insert((port, neighbor), mac);
    }

    /// Takes all moves since the last call.
    pub(in crate::datapath) fn take(&self) -> Moved {
        mem::take(&mut lock(&self.0))
    }
}
