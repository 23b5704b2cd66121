// SPDX-License-Identifier: Apache-2.0
//! TCP: what an end does with a segment, with time, and when there is room to send. RFC 9293; the other RFCs are named where
//! they are followed. All of it works on one `Flow` and what its `Context` gives; none of it sends.
mod challenges;
mod congestion;
mod input;
mod output;
mod ranges;
mod recovery;
mod round_trip;
mod segmentation;
mod timers;

pub use challenges::Challenges;
pub use output::{Data, Output, SendOutcome, Sources};
pub use recovery::Recovery;

use crate::{
    counters::{Count, Counters},
    flow::{Flow, RecoveryIndex, State, flags, seq_before},
    packet,
    scenario::Tunables,
    slab::Slab,
    wheel,
};

/// An instant in all units that flows use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instant {
    /// Nanoseconds of the stack's clock.
    pub ns: u64,
}

impl Instant {
    /// Units of round trips: 1024 ns.
    #[inline]
    pub fn us(self) -> u32 {
        (self.ns >> 10) as u32
    }

    /// Units of TCP's timestamps: 2^20 ns, about a millisecond.
    #[inline]
    pub fn ms(self) -> u32 {
        (self.ns >> 20) as u32
    }

    /// Units of 2^36 ns, 69 seconds, around after 52 days as TCP's timestamps.
    #[inline]
    pub fn minutes(self) -> u16 {
        (self.ns >> 36) as u16
    }

    /// Units of 2^25 ns, 34 ms, around after 37 minutes; never 0.
    #[inline]
    pub fn moments(self) -> u16 {
        ((self.ns >> 25) as u16).max(1)
    }

    /// The tick this many nanoseconds from now, at the latest: less than a lap.
    #[inline]
    pub fn tick_in(self, ns: u64) -> u32 {
        debug_assert!(ns >> wheel::TICK_SHIFT < u64::from(wheel::LAP), "{ns} ns are too long to be waited for at once");
        wheel::tick_after(self.ns.saturating_add(ns))
    }

    /// The end of any time from now on: see [`wheel::deadline`].
    #[inline]
    pub fn deadline_in(self, ns: u64) -> (u32, u32) {
        wheel::deadline(self.ns, ns)
    }
}

/// What a flow needs besides itself.
#[derive(Debug)]
pub struct Context<'a> {
    /// Now.
    pub now: Instant,
    /// State of flows with losses or reordering.
    pub recoveries: &'a mut Slab<Recovery>,
    /// The worker's.
    pub challenges: &'a mut Challenges,
    /// Counters of the flow's template and side.
    pub counters: &'a Counters,
    /// Settings of the flow's template and side.
    pub tunables: &'a Tunables,
}

impl Context<'_> {
    /// A copy, which is in memory wherever this one is.
    #[inline(always)]
    pub(crate) fn copy(&mut self) -> Context<'_> {
        Context {
            now: self.now,
            recoveries: &mut *self.recoveries,
            challenges: &mut *self.challenges,
            counters: self.counters,
            tunables: self.tunables,
        }
    }

    #[inline(always)]
    fn one(&self, count: Count) {
        self.counters.one(count);
    }
}

/// Window scale with which a receive buffer of this size can be announced (RFC 7323 section 2.3).
#[inline]
pub fn scale_of(buffer: u32) -> u8 {
    let bits = 32 - buffer.leading_zeros();
    bits.saturating_sub(16).min(14) as u8
}

/// In `Flow::scales`: windows are not scaled. (No shift is above 14.)
const NOT_SCALED: u8 = 0xf0;

const TIMESTAMPS_LEN: u16 = packet::TIMESTAMPS_LEN as u16;

impl Flow {
    /// Starts to connect, with an initial sequence number (RFC 9293 section 3.4.1).
    pub fn connect(&mut self, isn: u32, cx: &mut Context<'_>) {
        self.begin(isn, cx);
        self.state = State::SynSent;
        self.set(flags::OUTPUT | flags::TIMED);
        self.rtt_seq = isn;
        cx.one(Count::FlowsAttempted);
    }

    fn begin(&mut self, isn: u32, cx: &Context<'_>) {
        let tunables = cx.tunables;
        self.handshake_started(cx.now);
        (self.snd_una, self.snd_nxt, self.snd_max) = (isn, isn, isn);
        self.snd_end = isn.wrapping_add(1);
        self.recover = isn;
        self.mss = tunables.mss.min(536);
        self.ssthresh = u32::MAX;
        self.scales = if tunables.window_scale { scale_of(tunables.receive_buffer) << 4 } else { NOT_SCALED };
    }

    /// Shift of the peer's window.
    #[inline]
    fn send_scale(&self) -> u8 {
        self.scales & 15
    }

    /// Shift of our window.
    #[inline]
    fn receive_scale(&self) -> u8 {
        let scale = self.scales >> 4;
        if scale == NOT_SCALED >> 4 { 0 } else { scale }
    }

    /// Whether windows are scaled.
    #[inline]
    fn is_scaled(&self) -> bool {
        self.scales & NOT_SCALED != NOT_SCALED
    }

    /// Whether the handshake is over and the flow not.
    #[inline]
    fn is_synchronized(&self) -> bool {
        !matches!(self.state, State::Closed | State::SynSent | State::SynReceived | State::Datagrams)
    }

    /// Whether our FIN was sent, acknowledged or not.
    #[inline]
    fn fin_is_sent(&self) -> bool {
        matches!(self.state, State::FinWait1 | State::FinWait2 | State::Closing | State::LastAck | State::TimeWait)
    }

    /// Whether there is data, or a FIN, that was not sent yet.
    #[inline]
    fn has_more_to_send(&self) -> bool {
        !self.fin_is_sent() && (seq_before(self.snd_max, self.snd_end) || self.has(flags::FIN_QUEUED))
    }

    /// The program wants no more: FIN goes behind what is queued.
    pub fn close(&mut self) {
        if matches!(self.state, State::SynSent) {
            self.state = State::Closed;
            return;
        }
        self.set(flags::FIN_QUEUED | flags::OUTPUT);
    }

    /// Aborts: sends RST and closes at once (RFC 9293 section 3.10.5).
    pub fn reset(&mut self) {
        match self.state {
            State::Closed | State::SynSent | State::TimeWait => self.state = State::Closed,
            _ => self.set(flags::RESET | flags::OUTPUT),
        }
    }

    /// Gives back what is held beside the flow.
    pub fn release(&mut self, recoveries: &mut Slab<Recovery>) {
        let recovery = core::mem::replace(&mut self.recovery, RecoveryIndex::NONE);
        if recovery != RecoveryIndex::NONE {
            recoveries.give(recovery);
        }
    }
}
