// SPDX-License-Identifier: Apache-2.0
//! Round trips and the retransmission timeout (RFC 6298).
use super::{Context, Instant};
use crate::{
    counters::{Count, Counters},
    flow::{Flow, flags},
    scenario::Tunables,
};

/// Before the first measurement, in ns (RFC 6298 section 2.1).
const FIRST_RTO: u64 = 1_000_000_000;
/// Before the first, after a SYN was lost, in ns (RFC 6298 section 5.7).
const AFTER_LOST_SYN: u64 = 3_000_000_000;
/// No tail loss probe comes earlier, in ns: on a path of microseconds every hiccup of a host would be taken for a loss. (As
/// draft-dukkipati-tcpm-tcp-loss-probe-01 section 2.1; RFC 8985 has no least.)
const MIN_PROBE: u64 = 10_000_000;
/// No timeout is longer, in ns (RFC 6298 section 2.4).
const MAX_RTO: u64 = 120_000_000_000;

impl Flow {
    /// Takes a round trip in, in microseconds of 1024 ns (RFC 6298 section 2).
    #[inline]
    pub(super) fn round_trip(&mut self, us: u32, counters: &Counters) {
        counters.one(Count::RoundTrips);
        let us = us.max(1);
        if self.srtt == 0 {
            self.srtt = us;
            self.rttvar = us / 2;
            return;
        }
        self.rttvar = self.rttvar - self.rttvar / 4 + self.srtt.abs_diff(us) / 4;
        self.srtt = (self.srtt - self.srtt / 8 + us / 8).max(1);
    }

    /// Takes a round-trip time sample from an echoed timestamp: of a segment that was sent again too, it is that of the
    /// transmission that was answered (RFC 7323 section 4). Whether there was one.
    pub(super) fn echoed_round_trip(
        &mut self,
        timestamps: Option<(u32, u32)>,
        now: Instant,
        counters: &Counters,
    ) -> bool {
        let Some((_, echo)) = timestamps.filter(|_| self.has(flags::TIMESTAMPS)) else { return false };
        let ms = now.ms().wrapping_sub(echo);
        if u64::from(ms) > MAX_RTO >> 20 {
            return false;
        }
        self.round_trip(ms << 10, counters);
        true
    }

    /// Notes that the SYN was lost before a round trip was measured: data begins with a long timeout (RFC 6298 section 5.7).
    pub(super) fn syn_was_lost(&mut self) {
        self.rttvar = 1;
    }

    /// The retransmission timeout in ns, as it is now.
    pub(super) fn rto_ns(&self, tunables: &Tunables) -> u64 {
        let rto = if self.srtt == 0 {
            let first = if self.rttvar > 0 { AFTER_LOST_SYN } else { FIRST_RTO };
            first.max(tunables.minimum_rto_ns)
        } else {
            self.measured_rto_ns(tunables)
        };
        (rto << self.backoff.min(16)).min(MAX_RTO)
    }

    /// The same by what was measured, without timeouts in a row.
    #[inline]
    fn measured_rto_ns(&self, tunables: &Tunables) -> u64 {
        let us = u64::from(self.srtt) + 4 * u64::from(self.rttvar);
        (us << 10).max(tunables.minimum_rto_ns)
    }

    /// Waits for an acknowledgement of what is in flight: until the timeout, or until a tail loss probe (RFC 8985 section
    /// 7.2).
    #[inline(always)]
    pub(super) fn arm_retransmit(&mut self, cx: &Context<'_>) {
        self.arm_retransmit_from(cx.now, cx.tunables);
    }

    #[inline]
    fn arm_retransmit_from(&mut self, now: Instant, tunables: &Tunables) {
        const LOST: u32 = flags::RECOVERY | flags::LOSS | flags::PROBED;
        self.clear(flags::PROBE | flags::REORDER);
        let may_probe = self.srtt > 0 && self.backoff == 0 && self.flags & (flags::SACK | LOST) == flags::SACK;
        let wait = if may_probe {
            debug_assert!(self.is_synchronized(), "the handshake's end gives the first round trip");
            // The peer may hold the acknowledgement of a lone segment back.
            let delayed = if self.in_flight() <= u32::from(self.mss) { 200_000_000 } else { 0 };
            // Instead of the timeout, if that would come first.
            self.set(flags::PROBE);
            let probe = MIN_PROBE.max(u64::from(self.srtt) << 11) + delayed;
            self.measured_rto_ns(tunables).min(probe).min(MAX_RTO)
        } else {
            self.rto_ns(tunables)
        };
        self.wait_until(now.tick_in(wait));
    }
}
