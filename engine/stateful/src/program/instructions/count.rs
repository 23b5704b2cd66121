// SPDX-License-Identifier: Apache-2.0
//! `Count` and `CountTime`: a counter of the program rises, by one or by the time since a mark.
use crate::program::effects::Effects;

pub(super) fn one(counter: u16) -> Effects<'static> {
    Effects { counts: Some(counter), ..Effects::NONE }
}

pub(super) fn time(counter: u16, since: u8) -> Effects<'static> {
    Effects { counts: Some(counter), reads: Some(since), ..Effects::NONE }
}
