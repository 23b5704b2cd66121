// SPDX-License-Identifier: Apache-2.0
//! `Receive` and `ReceiveMessages`: a number of bytes, or of datagrams, has come.
use crate::{
    Protocol,
    program::effects::{Awaited, Effects},
};

pub(super) fn bytes(count: u64, clear: bool) -> Effects<'static> {
    Effects::waiting_for(Awaited::Count { count, clear, unit: "bytes" }, clear)
        .only_over(Protocol::Tcp, "receive_messages waits for datagrams")
}

pub(super) fn messages(count: u32, clear: bool) -> Effects<'static> {
    Effects::waiting_for(Awaited::Count { count: count.into(), clear, unit: "messages" }, clear)
        .only_over(Protocol::Udp, "receive waits for bytes")
}
