// SPDX-License-Identifier: Apache-2.0
//! `Close` and `Reset`: the end of the program and of its direction, or of the connection.
use crate::program::effects::{Effects, Next};

pub(super) fn effects(reset: bool) -> Effects<'static> {
    Effects::then(Next::End { reset })
}
