// SPDX-License-Identifier: Apache-2.0
//! What finds a flow in the table.
use super::{
    Tuple,
    addresses::short,
    secrets::{HashKeys, folded},
};
use crate::flow::{Flow, is};

/// What finds a flow: as much of its tuple as is in its first cache line.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) local: u32,
    pub(super) remote: u32,
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
    /// Of `is::UDP` and `is::V6`.
    pub(super) kind: u32,
}

const KIND: u32 = is::UDP | is::V6;

impl Key {
    #[inline]
    pub(super) fn of(tuple: &Tuple, udp: bool, keys: &HashKeys) -> Self {
        let kind = (if udp { is::UDP } else { 0 }) | if tuple.local.is_v6() { is::V6 } else { 0 };
        let (local, remote) = (short(tuple.local, keys), short(tuple.remote, keys));
        Self { local, remote, local_port: tuple.local_port, remote_port: tuple.remote_port, kind }
    }

    #[inline]
    pub(super) fn of_flow(flow: &Flow) -> Self {
        Self {
            local: flow.local,
            remote: flow.remote,
            local_port: flow.local_port,
            remote_port: flow.remote_port,
            kind: flow.flags & KIND,
        }
    }

    #[inline]
    pub(super) fn hash(&self, keys: &HashKeys) -> u32 {
        let addresses = u64::from(self.local) << 32 | u64::from(self.remote);
        let ports = u64::from(self.local_port) << 48 | u64::from(self.remote_port) << 32 | u64::from(self.kind);
        let folded = folded(addresses ^ keys.tuple[0], ports ^ keys.tuple[1]);
        (folded.wrapping_mul(0x9fb2_1c65_1e98_df25) >> 32) as u32
    }

    /// Whether a flow is between these, as far as a key shows.
    #[inline]
    pub(super) fn is(&self, flow: &Flow) -> bool {
        flow.local == self.local
            && flow.remote == self.remote
            && flow.local_port == self.local_port
            && flow.remote_port == self.remote_port
            && flow.flags & KIND == self.kind
    }
}

/// A flow that was looked up: by what, and where it is if it is here.
pub(super) struct Wanted {
    pub(super) tuple: Tuple,
    pub(super) key: Key,
    pub(super) hash: u32,
    pub(super) index: Option<u32>,
}
