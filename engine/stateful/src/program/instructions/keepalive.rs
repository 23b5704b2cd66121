// SPDX-License-Identifier: Apache-2.0
//! `Keepalive`: the silence that ends a flow over UDP.
use crate::{
    Protocol,
    program::{effects::Effects, fault::Problem},
};

pub(super) fn effects(ns: u64) -> Effects<'static> {
    Effects { wrong: (ns == 0).then_some(Problem::Nothing), ..Effects::NONE }
        .only_over(Protocol::Udp, "tunables set the keepalive of TCP")
}
