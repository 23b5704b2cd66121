// SPDX-License-Identifier: Apache-2.0
//! `Delay`: a time, given or random.
use crate::program::{effects::Effects, fault::Problem};

pub(super) fn effects(min_ns: u64, max_ns: u64) -> Effects<'static> {
    let wrong = (min_ns > max_ns).then_some(Problem::Delay { min_ns, max_ns });
    Effects { takes_time: max_ns > 0, wrong, ..Effects::NONE }
}
