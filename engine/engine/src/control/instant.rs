// SPDX-License-Identifier: Apache-2.0
//! Instants of requests.
use super::status::Refusal;

/// An instant of the monotonic clock.
pub fn instant_of(field: &'static str, at_ns: i64) -> Result<u64, Refusal> {
    u64::try_from(at_ns).map_err(|_| {
        Refusal::field(field, format!("{at_ns}; must be nanoseconds by the engine's monotonic clock (ExchangeTimes)"))
    })
}
