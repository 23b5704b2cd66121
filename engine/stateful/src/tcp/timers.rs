// SPDX-License-Identifier: Apache-2.0
//! What time does to an end: timeouts, probes, delayed acknowledgements, keepalives, the end of TIME-WAIT.
use super::{Context, Instant};
use crate::{
    counters::Count,
    flow::{Flow, State, flags},
    wheel,
};

/// Timeouts in a row after which a connection is given up (R2 of RFC 9293 section 3.8.3: at least 100 s). How long a handshake
/// goes on is the template's.
const MAX_TIMEOUTS: u8 = 12;
/// Timeouts of a handshake after which how long it has lasted may not fit into 32 bits of microseconds any more.
const LONG_HANDSHAKE: u8 = 6;
/// Unanswered keepalives after which it is.
const MAX_KEEPALIVES: u8 = 8;
/// An end in FIN-WAIT-2 whose peer does not close is forgotten after this, in ns.
const FIN_WAIT_2_NS: u64 = 60_000_000_000;

impl Flow {
    /// Deadlines of the transport that have come. The flow is `Closed` after the last.
    pub fn on_time(&mut self, cx: &mut Context<'_>) {
        let now = wheel::tick_at(cx.now.ns);
        if self.has(flags::ACK_LATER) && !wheel::before(now, self.ack_at) {
            self.clear(flags::ACK_LATER);
            self.set(flags::ACK_NOW | flags::OUTPUT);
            cx.one(Count::DelayedAcks);
        }
        if self.has(flags::WAITING) && !wheel::before(now, self.wait_at) {
            self.clear(flags::WAITING);
            self.waited(cx);
        }
    }

    fn waited(&mut self, cx: &mut Context<'_>) {
        match self.state {
            State::Closed | State::Datagrams => {}
            // Not before the peer has an answer to its FIN: this end may have waited for its turn to send for long.
            State::TimeWait if self.has(flags::ACK_NOW) => self.wait_long(cx.now.deadline_in(cx.tunables.time_wait_ns)),
            State::TimeWait => {
                if !self.waits_on() {
                    self.state = State::Closed;
                }
            }
            State::SynSent | State::SynReceived => self.syn_timeout(cx),
            _ if self.has(flags::PERSIST) => self.persist_timeout(cx),
            _ if self.in_flight() > 0 => self.flight_timeout(cx),
            State::FinWait2 => self.state = State::Closed,
            _ => self.keepalive_timeout(cx),
        }
    }

    fn syn_timeout(&mut self, cx: &mut Context<'_>) {
        cx.one(Count::RetransmitTimeouts);
        cx.one(Count::SynTimeouts);
        self.backoff = self.backoff.saturating_add(1);
        if self.ticks_to_connect(cx) == 0 {
            cx.one(Count::ConnectDrops);
            self.state = State::Closed;
            return;
        }
        self.clear(flags::TIMED);
        self.snd_nxt = self.snd_una;
        self.set(flags::OUTPUT);
        self.wait_until(cx.now.tick_in(self.rto_ns(cx.tunables)));
        self.wait_to_connect(cx);
    }

    /// Takes note of when the handshake began: what ends it in time.
    #[inline]
    pub(super) fn handshake_started(&mut self, now: Instant) {
        let tick = (now.ns + (1 << wheel::TICK_SHIFT) - 1) >> wheel::TICK_SHIFT;
        (self.w_max, self.cubic_k) = (tick as u32, (tick >> 32) as u16);
    }

    /// Frees the slots that `handshake_started` has taken.
    #[inline]
    pub(super) fn handshake_is_over(&mut self) {
        (self.w_max, self.cubic_k) = (0, 0);
    }

    /// Ticks since the handshake began, which lasts.
    fn handshake_ticks(&self, now: Instant) -> i64 {
        let began = u64::from(self.cubic_k) << 32 | u64::from(self.w_max);
        // Of 48 bits; -1 as long as its first tick is yet to come.
        let passed = (now.ns >> wheel::TICK_SHIFT).wrapping_sub(began) << 16;
        passed.cast_signed() >> 16
    }

    /// Ticks until the handshake is given up.
    fn ticks_to_connect(&self, cx: &Context<'_>) -> u64 {
        let all = cx.tunables.connect_timeout_ns.div_ceil(1 << wheel::TICK_SHIFT);
        all.saturating_add_signed(-self.handshake_ticks(cx.now))
    }

    /// The last wait for an answer to a SYN ends when the handshake's time is over.
    pub(super) fn wait_to_connect(&mut self, cx: &Context<'_>) {
        let now = wheel::tick_at(cx.now.ns);
        let left = self.ticks_to_connect(cx);
        if left < u64::from(self.wait_at.wrapping_sub(now)) {
            self.wait_at = now.wrapping_add(left as u32);
        }
    }

    /// How long it took from the first SYN on until now.
    #[inline]
    pub(super) fn connected_after_ns(&self, now: Instant) -> u64 {
        if self.backoff > LONG_HANDSHAKE {
            return self.handshake_ticks(now).max(0).cast_unsigned() << wheel::TICK_SHIFT;
        }
        u64::from(now.us().wrapping_sub(self.rtt_at)) << 10
    }

    fn flight_timeout(&mut self, cx: &mut Context<'_>) {
        if self.has(flags::REORDER) {
            return self.on_reordering_timeout(cx);
        }
        if self.snd_wnd == 0 {
            return self.window_was_withdrawn(cx);
        }
        if self.has(flags::PROBE) {
            // RFC 8985 section 7.3.
            self.clear(flags::PROBE);
            self.set(flags::PROBED | flags::FORCED | flags::OUTPUT);
            self.recover = self.snd_max;
            cx.one(Count::TailProbesSent);
            self.wait_until(cx.now.tick_in(self.rto_ns(cx.tunables)));
            return;
        }
        cx.one(Count::RetransmitTimeouts);
        self.backoff = (self.backoff + 1).min(MAX_TIMEOUTS);
        self.probes += 1;
        if self.probes > MAX_TIMEOUTS {
            cx.one(Count::TimeoutDrops);
            self.state = State::Closed;
            return;
        }
        self.enter_loss(cx);
        self.wait_until(cx.now.tick_in(self.rto_ns(cx.tunables)));
    }

    /// The peer has closed its window though what is in flight was to fit into it: that is probed as any closed window, and no
    /// sign that the peer is gone (RFC 9293 section 3.8.6.1). What was in flight is sent again once there is room.
    #[cold]
    fn window_was_withdrawn(&mut self, cx: &mut Context<'_>) {
        self.clear(flags::RECOVERY | flags::LOSS | flags::FRTO | flags::PROBE | flags::PROBED | flags::TIMED);
        self.end_recovery(cx);
        self.set(flags::PERSIST);
        self.persist_timeout(cx);
    }

    /// The peer's window stays closed: ask (RFC 9293 section 3.8.6.1).
    fn persist_timeout(&mut self, cx: &mut Context<'_>) {
        cx.one(Count::PersistTimeouts);
        self.backoff = (self.backoff + 1).min(MAX_TIMEOUTS);
        self.probes += 1;
        if self.probes > MAX_TIMEOUTS {
            // As long as it answers, a peer may keep its window closed; this one is gone.
            cx.one(Count::TimeoutDrops);
            self.state = State::Closed;
            return;
        }
        self.set(flags::FORCED | flags::OUTPUT);
        self.wait_until(cx.now.tick_in(self.rto_ns(cx.tunables)));
    }

    /// RFC 9293 section 3.8.4.
    fn keepalive_timeout(&mut self, cx: &mut Context<'_>) {
        if cx.tunables.keepalive_idle_ns == 0 || self.waits_on() {
            return;
        }
        if self.probes >= MAX_KEEPALIVES {
            cx.one(Count::KeepaliveDrops);
            self.reset();
            return;
        }
        self.probes += 1;
        cx.one(Count::KeepaliveProbes);
        self.set(flags::KEEPALIVE | flags::OUTPUT);
        self.wait_long(cx.now.deadline_in(cx.tunables.keepalive_interval_ns));
    }

    /// Sets the timer of a flow with nothing in flight: to its idle timeout, or to none.
    #[inline(always)]
    pub(super) fn arm_idle(&mut self, cx: &Context<'_>) {
        self.clear(flags::WAITING | flags::PROBE | flags::REORDER);
        if self.state == State::FinWait2 {
            self.wait_until(cx.now.tick_in(FIN_WAIT_2_NS));
        } else if cx.tunables.keepalive_idle_ns > 0 && self.is_synchronized() {
            self.clear(flags::TIMED);
            self.wait_long(cx.now.deadline_in(cx.tunables.keepalive_idle_ns));
        }
    }

    /// Both directions are closed; late segments are waited for (RFC 9293 section 3.6.1).
    pub(super) fn time_wait(&mut self, cx: &mut Context<'_>) {
        self.state = State::TimeWait;
        const OVER: u32 = flags::PERSIST | flags::PROBE | flags::REORDER | flags::LOSS | flags::RECOVERY | flags::TIMED;
        self.clear(OVER | flags::ACK_LATER | flags::PROGRAM_WAITS);
        self.wait_long(cx.now.deadline_in(cx.tunables.time_wait_ns));
        self.release(cx.recoveries);
    }
}
