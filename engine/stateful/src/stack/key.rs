// SPDX-License-Identifier: Apache-2.0
//! What finds a flow in the table.
use super::{
    Tuple,
    addresses::Upper,
    hash_keys::{HashKeys, folded},
};
use crate::flow::{Flow, FlowIndex, flags};

/// What is hashed of a flow's tuple.
#[derive(Clone, Copy)]
pub(super) struct Key {
    /// Of IPv4 addresses all, of IPv6 as `Upper::short` gives them.
    pub(super) local: u32,
    pub(super) remote: u32,
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
    /// Bits `flags::UDP` and `flags::V6` of the flow's flags.
    pub(super) kind: u32,
}

/// What of a flow's flags is in its key.
pub(super) const KIND: u32 = flags::UDP | flags::V6;

/// The kind of flows of a protocol and a family.
#[inline(always)]
pub(super) fn kind(udp: bool, v6: bool) -> u32 {
    (if udp { flags::UDP } else { 0 }) | if v6 { flags::V6 } else { 0 }
}

/// Two addresses as one number: where they lie side by side, as in flows and in headers, they are read and compared at once.
#[inline(always)]
pub(super) fn both(local: u32, remote: u32) -> u64 {
    u64::from(remote) << 32 | u64::from(local)
}

/// The same of two ports.
#[inline(always)]
pub(super) fn both_ports(local: u16, remote: u16) -> u32 {
    u32::from(remote) << 16 | u32::from(local)
}

impl Key {
    #[inline]
    pub(super) fn of(tuple: &Tuple, udp: bool, keys: &HashKeys) -> Self {
        // Both are of one family.
        if tuple.local.is_v6() {
            return Self::of_v6(tuple, udp, keys);
        }
        let (local, remote) = (tuple.local.0 as u32, tuple.remote.0 as u32);
        Self { local, remote, local_port: tuple.local_port, remote_port: tuple.remote_port, kind: kind(udp, false) }
    }

    /// The key of a tuple of IPv6 addresses.
    #[inline(always)]
    pub(super) fn of_v6(tuple: &Tuple, udp: bool, keys: &HashKeys) -> Self {
        let [local, remote] =
            [tuple.local, tuple.remote].map(|address| Upper::of(address).short(address.0 as u32, keys));
        Self { local, remote, local_port: tuple.local_port, remote_port: tuple.remote_port, kind: kind(udp, true) }
    }

    /// The key of a flow; `beside` are the upper parts of its addresses, where flows have such.
    #[inline]
    pub(super) fn of_flow(flow: &Flow, beside: Option<&[Upper; 2]>, keys: &HashKeys) -> Self {
        let kind = flow.flags & KIND;
        let (local, remote) = match beside {
            Some([local, remote]) if kind & flags::V6 != 0 => {
                (local.short(flow.local, keys), remote.short(flow.remote, keys))
            }
            _ => (flow.local, flow.remote),
        };
        Self { local, remote, local_port: flow.local_port, remote_port: flow.remote_port, kind }
    }

    /// Whether a flow over IPv4 is between these.
    #[inline]
    pub(super) fn is(&self, flow: &Flow) -> bool {
        both(flow.local, flow.remote) == both(self.local, self.remote)
            && both_ports(flow.local_port, flow.remote_port) == both_ports(self.local_port, self.remote_port)
            && flow.flags & KIND == self.kind
    }

    #[inline]
    pub(super) fn hash(&self, keys: &HashKeys) -> u32 {
        let addresses = u64::from(self.local) << 32 | u64::from(self.remote);
        let ports = u64::from(self.local_port) << 48 | u64::from(self.remote_port) << 32 | u64::from(self.kind);
        let folded = folded(addresses ^ keys.tuple[0], ports ^ keys.tuple[1]);
        (folded.wrapping_mul(0x9fb2_1c65_1e98_df25) >> 32) as u32
    }
}

/// A flow that was looked up: by what, and where it is if it is here.
pub(super) struct Lookup {
    pub(super) tuple: Tuple,
    pub(super) hash: u32,
    pub(super) index: Option<FlowIndex>,
}
