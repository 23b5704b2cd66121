// SPDX-License-Identifier: Apache-2.0
//! `LeaveOpen`: the end of the program alone.
use crate::program::effects::{Effects, Next};

pub(super) fn effects() -> Effects<'static> {
    Effects::then(Next::LeftOpen)
}
