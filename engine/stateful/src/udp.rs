// SPDX-License-Identifier: Apache-2.0
//! UDP: datagrams of programs, and flows that silence ends (RFC 768).
use crate::{
    counters::Count,
    flow::{Flow, State, flags},
    packet::{ErrorKind, UDP_HEADER},
    tcp::{Context, Instant, Output, SendOutcome, Sources},
    wheel,
};

/// Idle timeout of a flow without datagrams, unless its program sets another.
pub const SILENCE_NS: u64 = 10_000_000_000;

impl Flow {
    /// Begins an exchange.
    pub fn exchange(&mut self, cx: &mut Context<'_>) {
        self.state = State::Datagrams;
        self.set_silence(SILENCE_NS, cx.now);
    }

    /// Sets the idle timeout.
    pub fn set_silence(&mut self, ns: u64, now: Instant) {
        // UDP has no congestion window: its fields hold the time.
        (self.ssthresh, self.cwnd) = wheel::laps_of(ns);
        self.heard(now);
    }

    /// The silence that ends it, in laps and ticks.
    #[inline]
    fn silence(&self) -> (u32, u32) {
        (self.ssthresh, self.cwnd)
    }

    /// A datagram came or went.
    #[inline]
    fn heard(&mut self, now: Instant) {
        let (laps, ticks) = self.silence();
        self.wait_long((wheel::tick_at(now.ns).wrapping_add(ticks), laps));
    }

    /// A datagram of this many bytes of data arrives.
    #[inline]
    pub fn datagram(&mut self, len: usize, cx: &mut Context<'_>) {
        cx.counters.received(cx.now.ns);
        cx.counters.one(Count::MessagesReceived);
        cx.counters.add(Count::MessageBytesReceived, len as u64);
        self.received += 1;
        self.heard(cx.now);
    }

    /// An ICMP error is about it: where no receiver takes its datagrams, it ends (RFC 1122 section 4.1.3.3).
    pub fn datagram_refused(&mut self, kind: ErrorKind, cx: &mut Context<'_>) {
        cx.counters.one(Count::IcmpErrors);
        if kind == ErrorKind::Refused {
            cx.counters.one(Count::FlowsRefused);
            self.state = State::Closed;
        }
    }

    /// The silence that ends it may be over.
    pub fn silent(&mut self, cx: &mut Context<'_>) {
        let passed = self.has(flags::WAITING) && !wheel::before(wheel::tick_at(cx.now.ns), self.wait_at);
        if passed && !self.waits_on() {
            cx.counters.one(Count::FlowsIdleTimeouts);
            self.state = State::Closed;
        }
    }

    /// Sends the datagrams that are queued, and ends if the program has.
    pub fn output_datagrams(&mut self, cx: &mut Context<'_>, from: &Sources<'_>, out: &mut impl Output) -> SendOutcome {
        while let Some(payload) = self.next_message() {
            let payload = &from.data.payloads[usize::from(payload)];
            let header = from.ends.headers() + UDP_HEADER;
            let len = payload.len() as usize;
            let Some(frame) = out.frame(header + len) else { return SendOutcome::NoRoom };
            let sum = payload.fill(self.number, 0, &mut frame[header..]);
            from.below(self, cx.tunables).write_udp(frame, (self.local_port, self.remote_port), len, sum);
            cx.counters.one(Count::SentPackets);
            cx.counters.one(Count::MessagesSent);
            cx.counters.add(Count::MessageBytesSent, len as u64);
            self.heard(cx.now);
            self.take_message();
        }
        self.clear(flags::OUTPUT);
        if self.has(flags::FIN_QUEUED) {
            self.state = State::Closed;
        }
        SendOutcome::Done
    }

    fn next_message(&self) -> Option<u16> {
        (self.piece_count > 0).then(|| self.pieces[0].payload)
    }

    fn take_message(&mut self) {
        self.pieces[0] = self.pieces[1];
        self.piece_count -= 1;
    }

    /// Queues a datagram. False if it must wait for others to be sent.
    pub fn queue_message(&mut self, payload: u16) -> bool {
        let Some(slot) = self.pieces.get_mut(usize::from(self.piece_count)) else { return false };
        slot.payload = payload;
        self.piece_count += 1;
        self.set(flags::OUTPUT);
        true
    }
}
