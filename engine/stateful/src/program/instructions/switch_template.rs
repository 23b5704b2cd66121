// SPDX-License-Identifier: Apache-2.0
//! `SwitchTemplate`: the program of another template.
use crate::program::effects::{Effects, Next};

pub(super) fn effects(template: u32) -> Effects<'static> {
    Effects::then(Next::Template(template))
}
