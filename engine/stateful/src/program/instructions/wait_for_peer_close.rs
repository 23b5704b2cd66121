// SPDX-License-Identifier: Apache-2.0
//! `WaitForPeerClose`: the peer has closed its direction.
use crate::{
    Protocol,
    program::effects::{Awaited, Effects},
};

pub(super) fn effects() -> Effects<'static> {
    Effects::waiting_for(Awaited::PeerClose, false).only_over(Protocol::Tcp, "leave it out: datagrams have no end")
}
