// SPDX-License-Identifier: Apache-2.0
//! Round trips and the retransmission time-out (RFC 6298).
use super::Context;
use crate::{
    counters::Count,
    flow::{Flow, State, is},
};

/// Before the first measurement, in ns (RFC 6298 section 2.1).
const FIRST_RTO: u64 = 1_000_000_000;
/// No time-out is longer, in ns (RFC 6298 section 2.4).
const LONGEST_RTO: u64 = 120_000_000_000;

impl Flow {
    /// Takes a round trip in, in microseconds of 1024 ns (RFC 6298 section 2).
    pub(super) fn round_trip(&mut self, us: u32, cx: &Context<'_>) {
        cx.one(Count::RoundTrips);
        let us = us.max(1);
        if self.srtt == 0 {
            self.srtt = us;
            self.rttvar = us / 2;
            return;
        }
        self.rttvar = self.rttvar - self.rttvar / 4 + self.srtt.abs_diff(us) / 4;
        self.srtt = (self.srtt - self.srtt / 8 + us / 8).max(1);
    }

    /// The retransmission time-out in ns, as it is now.
    pub(super) fn rto_ns(&self, cx: &Context<'_>) -> u64 {
        let rto = if self.srtt == 0 {
            FIRST_RTO.max(cx.tunables.minimum_rto_ns)
        } else {
            let us = u64::from(self.srtt) + 4 * u64::from(self.rttvar);
            (us << 10).max(cx.tunables.minimum_rto_ns)
        };
        (rto << self.backoff.min(16)).min(LONGEST_RTO)
    }

    /// Waits for an acknowledgement of what is in flight: until the time-out, or until a tail loss probe (RFC 8985 section
    /// 7.2).
    #[inline]
    pub(super) fn arm_retransmit(&mut self, cx: &Context<'_>) {
        let rto = self.rto_ns(cx);
        self.clear(is::PROBE | is::REORDER);
        let may_probe = self.has(is::SACK)
            && !self.any(is::RECOVERY | is::LOSS | is::PROBED)
            && self.backoff == 0
            && self.srtt > 0
            && !matches!(self.state, State::SynSent | State::SynReceived);
        let mut wait = rto;
        if may_probe {
            // The peer may hold the acknowledgement of a lone segment back.
            let delayed = if self.in_flight() <= u32::from(self.mss) { 200_000_000 } else { 0 };
            let probe = (u64::from(self.srtt) << 11) + delayed;
            if probe < rto {
                self.set(is::PROBE);
                wait = probe;
            }
        }
        self.wait_until(cx.now.tick_in(wait));
    }
}
