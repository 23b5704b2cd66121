// SPDX-License-Identifier: Apache-2.0
//! `Jump`: what follows depends on a variable.
use crate::program::{
    Comparison,
    effects::{Effects, Next},
};

pub(super) fn effects(to: u32, variable: u8, comparison: Comparison, value: i64) -> Effects<'static> {
    Effects::then(Next::Jump { to, variable, comparison, value })
}
