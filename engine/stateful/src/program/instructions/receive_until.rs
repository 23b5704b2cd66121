// SPDX-License-Identifier: Apache-2.0
//! `ReceiveUntil`: the end of what comes next has come, which a sink finds in its bytes.
use crate::{
    Protocol,
    program::{
        Until,
        effects::{Awaited, Effects},
        fault::{MAX_PATTERN_BYTES, Problem},
    },
};

pub(super) fn effects(until: &Until) -> Effects<'_> {
    let wrong = match until {
        Until::Pattern(bytes) if !(1..=MAX_PATTERN_BYTES).contains(&bytes.len()) => Some(Problem::Pattern(bytes.len())),
        Until::Pattern(_) | Until::HttpMessage => None,
    };
    Effects { wrong, ..Effects::waiting_for(Awaited::End(until), true) }
        .only_over(Protocol::Tcp, "receive_messages waits for datagrams")
}
