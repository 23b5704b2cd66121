// SPDX-License-Identifier: Apache-2.0
//! `OpenConnection` and `NextTemplate`: a connection of another template, of the one named here, or of the one or one of those named last.
use crate::program::effects::{Effects, Opens};

pub(super) fn open(template: Option<u32>) -> Effects<'static> {
    Effects { opens: Some(Opens::Connection(template)), takes_time: true, ..Effects::NONE }
}

pub(super) fn name(templates: &[u32]) -> Effects<'_> {
    Effects { opens: Some(Opens::Next(templates)), ..Effects::NONE }
}
