// SPDX-License-Identifier: Apache-2.0
//! `Set`, `Add` and `Mark`: a variable of the flow changes.
use crate::program::effects::{Effects, VariableChange};

pub(super) fn set(variable: u8, value: i64) -> Effects<'static> {
    Effects::changing(variable, VariableChange::Set(value))
}

pub(super) fn add(variable: u8, value: i64) -> Effects<'static> {
    Effects::changing(variable, VariableChange::Add(value))
}

pub(super) fn mark(variable: u8) -> Effects<'static> {
    Effects::changing(variable, VariableChange::Time)
}
