// SPDX-License-Identifier: Apache-2.0
//! `Loop`: what follows depends on the time since a mark.
use crate::program::effects::{Effects, Next};

pub(super) fn effects(to: u32, since: u8) -> Effects<'static> {
    Effects::then(Next::Loop { to, since })
}
