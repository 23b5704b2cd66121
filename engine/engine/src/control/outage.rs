// SPDX-License-Identifier: Apache-2.0
//! Outages as the contract says them.
use super::runs::Held;
use crate::datapath::{self, Span};
use contract::{ArrivalGap, Outage};

/// Gaps in an answer, of all streams or sides together, and of each: at most some 3 MiB.
const GAPS: usize = 1 << 17;
const MIN_OF_EACH: usize = 4;
const MAX_OF_EACH: usize = 64;

/// What is known of the times without an arrival, of one stream or side of several.
pub fn stats(held: &Held, outage: datapath::Outage, of: usize) -> Outage {
    let silence = outage.silence.limited((GAPS / of.max(1)).clamp(MIN_OF_EACH, MAX_OF_EACH));
    let longest = silence.longest();
    let gaps = if held.engines > 1 { silence.spans.iter().map(|span| gap(*span)).collect() } else { Vec::new() };
    Outage {
        longest_ns: longest.map_or(0, Span::len_ns),
        offset_ns: longest.map_or(0, |longest| longest.from_ns),
        unlisted_ns: silence.unlisted_ns,
        phase_began_at_ns: outage.phase_began_at_ns.cast_signed(),
        gaps,
        sent: outage.sent.map(gap),
        least_delay_ns: silence.least_delay_ns.filter(|_| held.engines > 1).unwrap_or(0),
    }
}

fn gap(span: Span) -> ArrivalGap {
    ArrivalGap { from_ns: span.from_ns, to_ns: span.to_ns }
}
