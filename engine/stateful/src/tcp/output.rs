// SPDX-License-Identifier: Apache-2.0
//! An end sends data, FIN and acknowledgements that are due, as far as windows and the room for frames go: segments are built when they are sent.
use spate_net::ethernet::macs;

use super::{Context, Instant, TIMESTAMPS_LEN};
use crate::{
    counters::Count,
    flow::{Flow, RecoveryIndex, State, flags, seq_before, seq_max},
    offload::{OffloadRequest, Segmentation},
    packet::{self, Endpoints, LowerHeaders, Options, SegmentHeader, TCP_HEADER, flag},
    payload::Payload,
    scenario::Tunables,
    sending::Backlog,
    slab::Slab,
};

/// ECN-capable transport (RFC 3168 section 5).
const CAPABLE: u8 = 2;
/// Segments that one flow sends in its turn: others wait too.
const MAX_SEGMENTS: u32 = 32;

/// Where frames go.
pub trait Output {
    /// Room for one frame of this many bytes without FCS; none if there is none now. What is written is sent.
    fn frame(&mut self, len: usize) -> Option<&mut [u8]>;

    /// Whether the device behind it is to complete the checksums of IPv4, TCP and UDP in all that is sent.
    #[inline]
    fn offloads_checksums(&self) -> bool {
        false
    }

    /// How the device cuts frames of TCP into segments, whose checksums it completes; none if it does not, now.
    #[inline]
    fn segmentation(&self) -> Option<&Segmentation> {
        None
    }

    /// Room for one frame of this many bytes of headers and of data, which the device cuts into segments with this much data each,
    /// as `segmentation` says that it can; none if there is none now.
    fn frame_to_segment(&mut self, _headers: usize, _data: usize, _segment: usize) -> Option<&mut [u8]> {
        None
    }
}

/// What data is.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// Payloads of the scenario.
    pub payloads: &'a [Payload],
    /// Queues beside flows.
    pub backlogs: &'a Slab<Backlog>,
}

/// What frames of a flow are made of, besides the flow itself, in one turn to send.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// Ethernet source.
    pub mac: [u8; 6],
    /// IP addresses.
    pub ends: Endpoints,
    /// IPv4 identification.
    pub id: u16,
    /// What the port's device completes.
    pub finish: OffloadRequest,
    /// What it sends.
    pub data: Data<'a>,
}

impl Sources<'_> {
    /// The headers of Ethernet and IP. They are put together right before they are written: else they would be on the stack while it is decided
    /// what to send.
    #[inline(always)]
    pub fn below(&self, flow: &Flow, tunables: &Tunables) -> LowerHeaders {
        LowerHeaders {
            macs: macs(flow.remote_mac, self.mac),
            ends: self.ends,
            tos: tunables.tos,
            ttl: tunables.ttl,
            id: self.id,
            finish: self.finish,
        }
    }
}

/// How far a flow has come in its turn to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The flow has nothing to send until a segment arrives, a timer expires or its program continues.
    Done,
    /// The flow has more to send; others should have their turn.
    More,
    /// The output has no room.
    NoRoom,
}

/// What a segment is.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) seq: u32,
    /// Bytes of data.
    pub(super) len: u32,
    fin: bool,
    /// Sent before.
    again: bool,
    /// A probe.
    forced: bool,
}

impl Flow {
    /// The common case: nothing to send but new data, FIN and acknowledgements, and no recovery, ECN, probe or reset. Functions with
    /// `PLAIN` are compiled for it.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        const RARE: u32 = flags::RESET
            | flags::KEEPALIVE
            | flags::FORCED
            | flags::PERSIST
            | flags::RECOVERY
            | flags::LOSS
            | flags::ECN;
        let opened = (State::Established as u8..=State::TimeWait as u8).contains(&(self.state as u8));
        opened && self.flags & RARE == 0 && self.recovery == RecoveryIndex::NONE && self.snd_nxt == self.snd_max
    }

    /// Sends what is due and may be sent, in the common case.
    // Where it is inlined, what all references here are to is in registers, as long as none is given to a function that is not: to the rare
    // one goes one to a copy.
    #[inline(always)]
    pub fn output_plain(&mut self, cx: &mut Context<'_>, from: &Sources<'_>, out: &mut impl Output) -> SendOutcome {
        debug_assert!(self.is_plain());
        let (before, idle) = (self.snd_max, self.in_flight() == 0);
        let mut left = MAX_SEGMENTS;
        let turn = match self.send_next::<true>(&mut left, cx, from, out) {
            Some(turn) => turn,
            None => {
                let (from, mut cx) = (*from, cx.copy());
                self.send_more(left, &mut cx, &from, out)
            }
        };
        self.await_answer(before, idle, cx);
        turn
    }

    /// The same in all other cases.
    #[inline]
    pub fn output_rare(&mut self, cx: &mut Context<'_>, from: &Sources<'_>, out: &mut impl Output) -> SendOutcome {
        let (before, idle) = (self.snd_max, self.in_flight() == 0);
        let done = |sent: bool| if sent { SendOutcome::Done } else { SendOutcome::NoRoom };
        if self.has(flags::RESET) {
            return done(self.send_reset(cx, from, out));
        }
        match self.state {
            State::Closed | State::Datagrams => return SendOutcome::Done,
            State::SynSent | State::SynReceived => return done(self.send_syn(cx, from, out)),
            _ => {}
        }
        if self.has(flags::KEEPALIVE) {
            let seq = self.snd_una.wrapping_sub(1);
            if !self.send_bare::<false>(seq, cx, from, out) {
                return SendOutcome::NoRoom;
            }
            self.clear(flags::KEEPALIVE);
        }
        let turn = self.send_all::<false>(MAX_SEGMENTS, cx, from, out);
        self.await_answer(before, idle, cx);
        turn
    }

    /// After a turn that began at a sequence number, with nothing in flight or something: waits for what is in flight.
    #[inline(always)]
    fn await_answer(&mut self, before: u32, idle: bool, cx: &Context<'_>) {
        if self.in_flight() > 0 && !self.has(flags::PERSIST) {
            // New data moves a tail loss probe (RFC 8985 section 7.2), a timeout not: once for all that went.
            let moves = self.has(flags::PROBE) && self.snd_max != before;
            if idle || moves || !self.has(flags::WAITING) {
                self.arm_retransmit(cx);
            }
        }
    }

    /// What is behind the first segment of a turn in the common case.
    // Not inlined: what all segments of a loop have in common is computed before it, which a turn of one segment would pay for.
    #[inline(never)]
    fn send_more(&mut self, left: u32, cx: &mut Context<'_>, from: &Sources<'_>, out: &mut impl Output) -> SendOutcome {
        self.send_all::<true>(left, cx, from, out)
    }

    #[inline(always)]
    fn send_all<const PLAIN: bool>(
        &mut self,
        mut left: u32,
        cx: &mut Context<'_>,
        from: &Sources<'_>,
        out: &mut impl Output,
    ) -> SendOutcome {
        while left > 0 {
            if let Some(turn) = self.send_next::<PLAIN>(&mut left, cx, from, out) {
                return turn;
            }
        }
        SendOutcome::More
    }

    /// Sends the next segment of a turn with this many left. Gives how the turn has ended, if it has.
    #[inline(always)]
    fn send_next<const PLAIN: bool>(
        &mut self,
        left: &mut u32,
        cx: &mut Context<'_>,
        from: &Sources<'_>,
        out: &mut impl Output,
    ) -> Option<SendOutcome> {
        let Some(plan) = self.plan::<PLAIN>(cx, &from.data) else {
            self.clear(flags::OUTPUT);
            let all = self.acknowledge::<PLAIN>(cx, from, out);
            return Some(if all { SendOutcome::Done } else { SendOutcome::NoRoom });
        };
        if let Some(segmentation) = out.segmentation()
            && !(plan.again || plan.forced || plan.fin)
        {
            let (mut cx, from) = (cx.copy(), *from);
            let segments = self.segments_together((plan.seq, plan.len), segmentation, *left, &cx, from.ends.headers());
            if segments > 1 {
                if self.send_together(plan, segments, &mut cx, &from, out) {
                    *left = left.saturating_sub(segments);
                    return None;
                }
                if out.segmentation().is_some() {
                    return Some(SendOutcome::NoRoom);
                }
                // No memory for it now: what goes alone makes the device give some back.
            }
        }
        *left -= 1;
        if !self.send_data::<PLAIN>(&plan, cx, from, out) {
            if plan.forced {
                self.set(flags::FORCED);
            }
            return Some(SendOutcome::NoRoom);
        }
        // The next plan would be none, and what was sent acknowledges.
        if PLAIN && (plan.fin || (self.snd_nxt == self.snd_end && !self.has(flags::FIN_QUEUED))) {
            self.clear(flags::OUTPUT);
            return Some(SendOutcome::Done);
        }
        None
    }

    /// What to send next, if anything may be sent.
    #[inline(always)]
    fn plan<const PLAIN: bool>(&mut self, cx: &mut Context<'_>, data: &Data<'_>) -> Option<Plan> {
        if PLAIN {
            return self.plan_new(self.segment_data(), cx, data);
        }
        if self.state == State::TimeWait {
            return None;
        }
        let mss = self.effective_mss(cx);
        if self.has(flags::FORCED) {
            self.clear(flags::FORCED);
            if let Some(plan) = self.forced(mss) {
                return Some(Plan { forced: true, ..plan });
            }
        }
        if self.any(flags::RECOVERY | flags::LOSS)
            && let Some((seq, len)) = self.next_lost(cx)
        {
            let len = len.min(mss);
            let pipe = self.pipe(cx);
            if pipe > 0 && pipe + len > self.cwnd {
                self.set(flags::LIMITED);
                return None;
            }
            return Some(self.segment(seq, len, true));
        }
        if seq_before(self.snd_nxt, self.snd_max) {
            // Without memory for more: all again from the first.
            let len = self.snd_max.wrapping_sub(self.snd_nxt).min(mss);
            let sent = self.snd_nxt.wrapping_sub(self.snd_una);
            if sent > 0 && sent + len > self.cwnd {
                self.set(flags::LIMITED);
                return None;
            }
            return Some(self.segment(self.snd_nxt, len, true));
        }
        self.plan_new(mss, cx, data)
    }

    #[inline(always)]
    fn plan_new(&mut self, mss: u32, cx: &mut Context<'_>, data: &Data<'_>) -> Option<Plan> {
        let sent_fin = self.fin_is_sent();
        let left = if sent_fin { 0 } else { self.snd_end.wrapping_sub(self.snd_nxt) };
        let fin = self.has(flags::FIN_QUEUED) && !sent_fin;
        if left == 0 && !fin {
            return None;
        }
        let flight = self.in_flight();
        if flight == 0 && left > 0 {
            self.restart(cx.now, cx.tunables);
        }
        let mut len = left.min(mss);
        // The buffer holds what is not acknowledged.
        let window = self.snd_wnd.min(cx.tunables.send_buffer);
        if flight == 0 && len.max(1) <= window {
            // There is room for it, and nothing to wait for.
            if len > 0 && 2 * len < self.cwnd / 2 {
                self.clear(flags::LIMITED);
            }
            return Some(Plan { seq: self.snd_nxt, len, fin: fin && len == left, again: false, forced: false });
        }
        let edge = self.snd_una.wrapping_add(window);
        let usable = if seq_before(self.snd_nxt, edge) { edge.wrapping_sub(self.snd_nxt) } else { 0 };
        // RFC 9293 section 3.8.6.2.1: more room than a little is waited for, unless it is the rest of a buffer of our own.
        let fills = usable >= mss / 2 && cx.tunables.send_buffer <= self.snd_wnd;
        // FIN needs room like a byte of data.
        let part = len > usable || (left == 0 && usable == 0);
        if part {
            if (flight > 0 && !fills) || usable == 0 {
                if flight == 0 && !self.has(flags::PERSIST) {
                    self.set(flags::PERSIST);
                    self.clear(flags::PROBE | flags::REORDER);
                    self.wait_until(cx.now.tick_in(self.rto_ns(cx.tunables)));
                }
                return None;
            }
            len = usable;
        }
        if len > 0 {
            let pipe = self.pipe(cx);
            if pipe > 0 && pipe + len > self.cwnd {
                self.set(flags::LIMITED);
                return None;
            }
            // Nagle (RFC 9293 section 3.7.4); the end of a payload waits for no segments of its own but for other payloads'
            // ends, which may be little too (Minshall's variant, as Linux).
            let last = fin && len == left;
            let waits = len < mss && flight > 0 && !cx.tunables.no_delay && !last && !part;
            if waits && !self.is_one_payload(data.payloads) {
                return None;
            }
            if pipe + 2 * len < self.cwnd / 2 {
                self.clear(flags::LIMITED);
            }
        }
        Some(self.segment(self.snd_nxt, len, false))
    }

    /// Data from a sequence number on, with the FIN if it is reached.
    pub(super) fn segment(&self, seq: u32, len: u32, again: bool) -> Plan {
        let data = self.snd_end.wrapping_sub(seq);
        let data = if seq_before(self.snd_end, seq) { 0 } else { data };
        let len = len.min(data);
        let fin = self.has(flags::FIN_QUEUED) && len == data && (!again || self.fin_is_sent());
        Plan { seq, len, fin, again, forced: false }
    }

    /// A segment that is sent whatever the windows say: a probe.
    fn forced(&mut self, mss: u32) -> Option<Plan> {
        if self.has(flags::PERSIST) {
            // One byte beyond the window, or the FIN.
            return Some(self.segment(self.snd_una, 1, self.in_flight() > 0));
        }
        let left = if self.fin_is_sent() { 0 } else { self.snd_end.wrapping_sub(self.snd_nxt) };
        let edge = self.snd_una.wrapping_add(self.snd_wnd);
        if left > 0 && !seq_before(edge, self.snd_nxt.wrapping_add(left.min(mss))) {
            return Some(self.segment(self.snd_nxt, left.min(mss), false));
        }
        if self.in_flight() == 0 {
            return None;
        }
        let fin = u32::from(self.fin_is_sent());
        let seq = seq_max(self.snd_una, self.snd_max.wrapping_sub(mss + fin));
        Some(self.segment(seq, self.snd_max.wrapping_sub(seq).min(mss), true))
    }

    /// After a pause the window starts again (RFC 5681 section 4.1).
    fn restart(&mut self, now: Instant, tunables: &Tunables) {
        let idle_ns = u64::from(now.us().wrapping_sub(self.rtt_at)) << 10;
        // No timeout is shorter than the least.
        if self.srtt > 0 && idle_ns > tunables.minimum_rto_ns && idle_ns > self.rto_ns(tunables) {
            self.cwnd = self.cwnd.min(self.initial_cwnd(tunables));
            // The pause is no time in which CUBIC may have grown (RFC 9438 section 5.8).
            self.epoch_at = 0;
        }
    }

    /// Data bytes of a full segment without SACK blocks.
    #[inline]
    pub(super) fn segment_data(&self) -> u32 {
        u32::from(self.mss - if self.has(flags::TIMESTAMPS) { TIMESTAMPS_LEN } else { 0 })
    }

    /// Data bytes that fit into a segment with all of its options.
    #[inline]
    fn effective_mss(&self, cx: &Context<'_>) -> u32 {
        let mut options = if self.has(flags::TIMESTAMPS) { TIMESTAMPS_LEN } else { 0 };
        if self.recovery != RecoveryIndex::NONE && self.has(flags::SACK) {
            let blocks = self.blocks(cx) as u16;
            options += if blocks > 0 { 4 + 8 * blocks } else { 0 };
        }
        u32::from(self.mss - options)
    }

    /// Number of SACK blocks of an acknowledgement.
    fn blocks(&self, cx: &Context<'_>) -> usize {
        let most = if self.has(flags::TIMESTAMPS) { 3 } else { 4 };
        let recovery = &cx.recoveries[self.recovery];
        (recovery.out_of_order.as_slice().len() + usize::from(recovery.duplicate.is_some())).min(most)
    }

    /// Options of a segment that is no SYN, with SACK blocks.
    #[cold]
    fn options(&self, cx: &Context<'_>) -> Options {
        let mut options = Options::default();
        if self.has(flags::TIMESTAMPS) {
            options.timestamps = Some((cx.now.ms(), self.ts_recent));
        }
        if self.recovery != RecoveryIndex::NONE && self.has(flags::SACK) {
            let recovery = &cx.recoveries[self.recovery];
            let most = self.blocks(cx);
            // The block that changed last comes first (RFC 2018 section 4), a DSACK before it (RFC 2883 section 4).
            let first = recovery.out_of_order.around(recovery.latest);
            let others = recovery.out_of_order.as_slice().iter().copied().filter(|range| Some(*range) != first);
            for range in recovery.duplicate.into_iter().chain(first).chain(others).take(most) {
                options.sack[options.sacks] = range;
                options.sacks += 1;
            }
        }
        options
    }

    /// The window to announce, with a shift: what was announced before is never taken back.
    #[inline(always)]
    fn window(&mut self, scale: u8, cx: &Context<'_>) -> u16 {
        let edge = self.rcv_nxt.wrapping_add(cx.tunables.receive_buffer);
        self.rcv_adv = seq_max(self.rcv_adv, edge);
        let window = (self.rcv_adv.wrapping_sub(self.rcv_nxt) >> scale).min(0xffff);
        if scale == 0 {
            self.rcv_adv = self.rcv_nxt.wrapping_add(window);
        }
        window as u16
    }

    #[inline(always)]
    fn head<const PLAIN: bool>(&mut self, seq: u32, flags: u8, cx: &Context<'_>) -> SegmentHeader {
        let of_syn = !PLAIN && matches!(self.state, State::SynSent | State::SynReceived);
        self.head_with::<PLAIN>(seq, flags, if of_syn { 0 } else { self.receive_scale() }, cx)
    }

    /// The same with a shift of the window.
    #[inline(always)]
    fn head_with<const PLAIN: bool>(&mut self, seq: u32, flags: u8, scale: u8, cx: &Context<'_>) -> SegmentHeader {
        let window = self.window(scale, cx);
        // Without ECN nothing is echoed.
        let echo = if !PLAIN && self.has(flags::ECHO) && flags & flag::SYN == 0 { flag::ECE } else { 0 };
        self.ack_sent = self.rcv_nxt;
        self.clear(flags::ACK_NOW | flags::ACK_LATER);
        let ack = if flags & flag::ACK != 0 { self.rcv_nxt } else { 0 };
        SegmentHeader {
            source_port: self.local_port,
            destination_port: self.remote_port,
            seq,
            ack,
            flags: flags | echo,
            window,
            ecn: 0,
        }
    }

    #[inline(always)]
    fn send_data<const PLAIN: bool>(
        &mut self,
        plan: &Plan,
        cx: &mut Context<'_>,
        from: &Sources<'_>,
        out: &mut impl Output,
    ) -> bool {
        let len = plan.len as usize;
        let header = from.ends.headers() + TCP_HEADER + self.options_len::<PLAIN>(cx);
        let Some(frame) = out.frame(header + len) else { return false };
        self.write_data::<PLAIN>(frame, plan, header, cx, from);
        true
    }

    /// Writes a segment behind headers of this many bytes, and takes note of it.
    #[inline(always)]
    pub(super) fn write_data<const PLAIN: bool>(
        &mut self,
        frame: &mut [u8],
        plan: &Plan,
        header: usize,
        cx: &mut Context<'_>,
        from: &Sources<'_>,
    ) {
        let len = plan.len as usize;
        let sum =
            if len > 0 { self.fill(from.data.payloads, from.data.backlogs, plan.seq, &mut frame[header..]) } else { 0 };
        let end = plan.seq.wrapping_add(plan.len);
        let mut flags = flag::ACK;
        if end == self.snd_end && len > 0 {
            flags |= flag::PSH;
        }
        if plan.fin {
            flags |= flag::FIN;
        }
        // Neither what is sent again nor a probe of a window (RFC 3168 sections 6.1.5 and 6.1.6).
        let mut ecn = 0;
        if !PLAIN && len > 0 && !plan.again && self.has(flags::ECN) && !self.has(flags::PERSIST) {
            ecn = CAPABLE;
            if self.has(flags::REDUCED) {
                self.clear(flags::REDUCED);
                flags |= flag::CWR;
            }
        }
        let head = SegmentHeader { ecn, ..self.head::<PLAIN>(plan.seq, flags, cx) };
        self.write::<PLAIN>(frame, &head, (len, sum), cx, from);
        self.count_sent::<PLAIN>(plan, cx);
        self.sent::<PLAIN>(plan, end.wrapping_add(u32::from(plan.fin)), cx);
        if !PLAIN && self.recovery != RecoveryIndex::NONE {
            self.dsack_sent(cx);
        }
    }

    /// Bytes of the options of a segment that is no SYN.
    #[inline(always)]
    pub(super) fn options_len<const PLAIN: bool>(&self, cx: &Context<'_>) -> usize {
        let timestamps = if self.has(flags::TIMESTAMPS) { packet::TIMESTAMPS_LEN } else { 0 };
        if PLAIN || self.recovery == RecoveryIndex::NONE { timestamps } else { self.options(cx).len() }
    }

    /// Writes the headers of a segment that is no SYN, with data of a length and sum.
    #[inline(always)]
    fn write<const PLAIN: bool>(
        &self,
        frame: &mut [u8],
        head: &SegmentHeader,
        data: (usize, u16),
        cx: &Context<'_>,
        from: &Sources<'_>,
    ) {
        if PLAIN || self.recovery == RecoveryIndex::NONE {
            let timestamps = self.has(flags::TIMESTAMPS).then(|| (cx.now.ms(), self.ts_recent));
            from.below(self, cx.tunables).write_plain(frame, head, timestamps, data);
        } else {
            let options = self.options(cx);
            cx.counters.add(Count::SackBlocksSent, options.sacks as u64);
            from.below(self, cx.tunables).write_tcp(frame, head, &options, data);
        }
    }

    #[inline(always)]
    fn count_sent<const PLAIN: bool>(&self, plan: &Plan, cx: &Context<'_>) {
        cx.one(Count::SentPackets);
        if plan.fin {
            cx.one(Count::SentControlPackets);
        }
        if plan.len == 0 {
            return;
        }
        if !PLAIN && self.has(flags::PERSIST) {
            cx.one(Count::WindowProbesSent);
        }
        if !PLAIN && plan.again {
            cx.one(Count::RetransmittedPackets);
            cx.counters.add(Count::RetransmittedBytes, u64::from(plan.len));
        } else {
            cx.one(Count::SentDataPackets);
            cx.counters.add(Count::SentDataBytes, u64::from(plan.len));
        }
    }

    /// Takes note of what was sent.
    #[inline(always)]
    fn sent<const PLAIN: bool>(&mut self, plan: &Plan, end: u32, cx: &mut Context<'_>) {
        if plan.fin && !self.fin_is_sent() {
            self.state = if self.state == State::CloseWait { State::LastAck } else { State::FinWait1 };
        }
        if !PLAIN && plan.again {
            // It is unknown which of both is answered (Karn). It is no pause all the same.
            self.clear(flags::TIMED);
            self.rtt_at = cx.now.us();
            if plan.seq == self.snd_nxt {
                self.snd_nxt = end;
            }
        } else {
            if !PLAIN && plan.forced {
                // A probe with new data repeats nothing.
                self.clear(flags::PROBED);
            }
            if !self.has(flags::TIMED) && (PLAIN || !self.has(flags::PERSIST)) {
                self.set(flags::TIMED);
                (self.rtt_seq, self.rtt_at) = (plan.seq, cx.now.us());
            }
            self.snd_nxt = seq_max(self.snd_nxt, end);
        }
        self.snd_max = seq_max(self.snd_max, end);
        if PLAIN {
            return;
        }
        self.note_sent(plan.seq, end, cx);
        // The first segment sent again has its whole time to be answered: until then nothing moves the timeout, which an
        // earlier acknowledgement began.
        if plan.again && !plan.forced && plan.seq == self.snd_una && !self.any(flags::PERSIST | flags::REORDER) {
            self.arm_retransmit(cx);
        }
    }

    /// Acknowledges, if an acknowledgement is due. A peer without selective acknowledgements counts duplicates: each segment out of order
    /// has its own (RFC 5681 section 4.2), though several arrived at once.
    #[inline(always)]
    fn acknowledge<const PLAIN: bool>(
        &mut self,
        cx: &mut Context<'_>,
        from: &Sources<'_>,
        out: &mut impl Output,
    ) -> bool {
        if PLAIN {
            return !self.has(flags::ACK_NOW) || self.send_bare::<true>(self.snd_max, cx, from, out);
        }
        while self.has(flags::ACK_NOW) {
            if !self.send_bare::<false>(self.snd_max, cx, from, out) {
                return false;
            }
            if self.recovery != RecoveryIndex::NONE {
                let unanswered = &mut cx.recoveries[self.recovery].unanswered;
                *unanswered = unanswered.saturating_sub(1);
                if *unanswered > 0 && !self.has(flags::SACK) {
                    self.set(flags::ACK_NOW);
                } else {
                    *unanswered = 0;
                }
            }
        }
        true
    }

    /// A segment with nothing but an acknowledgement.
    #[inline(always)]
    fn send_bare<const PLAIN: bool>(
        &mut self,
        seq: u32,
        cx: &mut Context<'_>,
        from: &Sources<'_>,
        out: &mut impl Output,
    ) -> bool {
        let Some(frame) = out.frame(from.ends.headers() + TCP_HEADER + self.options_len::<PLAIN>(cx)) else {
            return false;
        };
        let head = self.head::<PLAIN>(seq, flag::ACK, cx);
        self.write::<PLAIN>(frame, &head, (0, 0), cx, from);
        cx.one(Count::SentPackets);
        cx.one(Count::SentAckPackets);
        if !PLAIN && self.recovery != RecoveryIndex::NONE {
            self.dsack_sent(cx);
        }
        true
    }

    fn send_syn(&mut self, cx: &mut Context<'_>, from: &Sources<'_>, out: &mut impl Output) -> bool {
        if self.snd_nxt != self.snd_una {
            self.clear(flags::OUTPUT);
            return !self.has(flags::ACK_NOW) || self.send_bare::<false>(self.snd_nxt, cx, from, out);
        }
        let tunables = cx.tunables;
        let answers = self.state == State::SynReceived;
        let first = !answers;
        let agreed = |flag: u32, offered: bool| if answers { self.has(flag) } else { offered };
        let options = Options {
            mss: Some(tunables.mss),
            // As long as nothing is agreed on, it is what is offered.
            window_scale: self.is_scaled().then(|| self.receive_scale()),
            sack_permitted: agreed(flags::SACK, tunables.sack),
            timestamps: agreed(flags::TIMESTAMPS, tunables.timestamps).then(|| (cx.now.ms(), self.ts_recent)),
            ..Options::default()
        };
        let mut flags = flag::SYN;
        if answers {
            flags |= flag::ACK;
            if self.has(flags::ECN) {
                flags |= flag::ECE;
            }
        } else if first && tunables.ecn && self.backoff == 0 {
            flags |= flag::ECE | flag::CWR;
        }
        let Some(frame) = out.frame(from.ends.headers() + TCP_HEADER + options.len()) else { return false };
        let head = self.head_with::<false>(self.snd_una, flags, 0, cx);
        from.below(self, tunables).write_syn(frame, &head, &options);
        if self.snd_max == self.snd_una {
            // The first: it is answered, and waited for, from now on.
            self.rtt_at = cx.now.us();
            self.wait_until(cx.now.tick_in(self.rto_ns(tunables)));
            self.wait_to_connect(cx);
        }
        self.snd_nxt = self.snd_una.wrapping_add(1);
        self.snd_max = self.snd_nxt;
        self.clear(flags::OUTPUT);
        cx.one(Count::SentPackets);
        cx.one(Count::SentControlPackets);
        true
    }

    fn send_reset(&mut self, cx: &mut Context<'_>, from: &Sources<'_>, out: &mut impl Output) -> bool {
        let options = Options::default();
        let Some(frame) = out.frame(from.ends.headers() + TCP_HEADER + options.len()) else { return false };
        let head = SegmentHeader { window: 0, ..self.head::<false>(self.snd_max, flag::RST | flag::ACK, cx) };
        from.below(self, cx.tunables).write_tcp(frame, &head, &options, (0, 0));
        cx.one(Count::SentPackets);
        cx.one(Count::SentControlPackets);
        cx.one(Count::ResetsSent);
        self.clear(flags::RESET | flags::OUTPUT);
        self.state = State::Closed;
        true
    }
}
