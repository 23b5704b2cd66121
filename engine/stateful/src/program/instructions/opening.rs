// SPDX-License-Identifier: Apache-2.0
//! `Connect` and `Accept`: the first of every program over TCP, which goes on when the connection is established.
use super::Instruction;
use crate::{
    Protocol,
    program::{effects::Effects, fault::Side},
};

impl Instruction {
    /// The one that programs of a side over TCP begin with.
    pub fn opening(side: Side) -> Self {
        match side {
            Side::Client => Self::Connect,
            Side::Server => Self::Accept,
        }
    }
}

pub(super) fn effects(side: Side) -> Effects<'static> {
    Effects { begins: Some(side), takes_time: true, ..Effects::NONE }
        .only_over(Protocol::Tcp, "leave it out: UDP has no connections")
}
