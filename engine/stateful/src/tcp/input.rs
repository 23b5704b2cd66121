// SPDX-License-Identifier: Apache-2.0
//! A segment arrives (RFC 9293 section 3.10.7).
use super::{Context, Instant, NOT_SCALED, Recovery};
use crate::{
    counters::Count,
    flow::{Flow, RecoveryIndex, State, flags, seq_before, seq_max},
    packet::{Segment, flag},
    sending::Backlog,
    slab::Slab,
};

/// Congestion experienced.
const MARKED: u8 = 3;
/// A timestamp that old is no measure any more (RFC 7323 section 5.5), in units of `Instant::minutes`: 24 days.
const STALE: u16 = ((24 * 24 * 3600 * 1_000_000_000u64) >> 36) as u16;
/// Between two answers of a flow to segments without data that are not acceptable, in units of `Instant::moments`: half a second at
/// least (as Linux, `tcp_invalid_ratelimit`).
const BETWEEN_ANSWERS: u16 = (500_000_000u64.div_ceil(1 << 25) + 1) as u16;

impl Flow {
    /// A server's end of a connection begins with a SYN.
    #[inline(always)]
    pub fn accept(&mut self, s: &Segment<'_>, isn: u32, cx: &mut Context<'_>) {
        self.begin(isn, cx);
        self.state = State::SynReceived;
        self.rcv_nxt = s.seq.wrapping_add(1);
        self.rcv_adv = self.rcv_nxt;
        self.ack_sent = self.rcv_nxt;
        self.agree(s, cx);
        let offers = s.has(flag::ECE) && s.has(flag::CWR);
        if offers && cx.tunables.ecn {
            self.set(flags::ECN);
        }
        self.snd_wnd = u32::from(s.window);
        (self.snd_wl1, self.snd_wl2) = (s.seq, self.snd_una);
        self.rtt_seq = isn;
        self.set(flags::OUTPUT | flags::TIMED);
        cx.one(Count::FlowsAccepted);
        cx.counters.received(cx.now.ns);
    }

    /// Takes in what a SYN offers.
    fn agree(&mut self, s: &Segment<'_>, cx: &mut Context<'_>) {
        let (offers, tunables) = (s.offers(), cx.tunables);
        self.mss = offers.mss.unwrap_or(if self.has(flags::V6) { 1220 } else { 536 }).max(64).min(tunables.mss);
        if tunables.timestamps
            && let Some((value, _)) = offers.timestamps
        {
            self.set(flags::TIMESTAMPS);
            (self.ts_recent, self.ts_recent_at) = (value, cx.now.minutes());
        }
        if tunables.sack && offers.sack_permitted {
            self.set(flags::SACK);
        }
        // What this end offers is there since it began.
        self.scales = match offers.window_scale {
            Some(scale) if self.is_scaled() => self.receive_scale() << 4 | scale,
            _ => NOT_SCALED,
        };
        self.cwnd = self.initial_cwnd(tunables);
    }

    /// Header prediction: from the end of the handshake to the last FIN most segments are the next in sequence, to an end without
    /// recovery state.
    #[inline(always)]
    fn is_predicted(&self, s: &Segment<'_>, ecn: u8) -> bool {
        const RARE: u32 =
            flags::RECOVERY | flags::LOSS | flags::PROBED | flags::PERSIST | flags::FRTO | flags::ECN | flags::REORDER;
        let usual = (State::SynReceived as u8..=State::LastAck as u8).contains(&(self.state as u8))
            && s.flags & !(flag::PSH | flag::FIN) == flag::ACK
            && s.seq == self.rcv_nxt
            && !self.any(RARE)
            && self.recovery == RecoveryIndex::NONE
            && !s.has_more_options()
            && ecn != MARKED;
        if !usual {
            return false;
        }
        let stamped = match s.timestamps() {
            Some((value, _)) => self.has(flags::TIMESTAMPS) && !seq_before(value, self.ts_recent),
            None => !self.any(flags::TIMESTAMPS),
        };
        stamped
            && s.len() <= self.rcv_adv.wrapping_sub(s.seq)
            && !seq_before(self.snd_max, s.ack)
            // Duplicates and openings of the window are not among them.
            && (seq_before(self.snd_una, s.ack)
                || (s.ack == self.snd_una && !s.is_empty() && self.state != State::SynReceived))
    }

    /// The timestamp to echo: of the segment that reaches to what was acknowledged last (RFC 7323 section 4.3).
    #[inline(always)]
    fn note_timestamp(&mut self, s: &Segment<'_>, cx: &Context<'_>) {
        if let Some((value, _)) = s.timestamps()
            && self.has(flags::TIMESTAMPS)
            && !seq_before(self.ack_sent, s.seq)
            && (!seq_before(value, self.ts_recent) || self.has_stale_timestamp(cx.now))
        {
            (self.ts_recent, self.ts_recent_at) = (value, cx.now.minutes());
        }
    }

    /// Whether the timestamp to echo is so old that a newer one may look older (RFC 7323 section 5.5).
    #[cold]
    fn has_stale_timestamp(&self, now: Instant) -> bool {
        now.minutes().wrapping_sub(self.ts_recent_at) >= STALE
    }

    /// Takes such a segment in.
    // As `output_plain`: functions that are not inlined here get copies.
    #[inline(always)]
    fn input_predicted(&mut self, s: &Segment<'_>, cx: &mut Context<'_>, backlogs: &mut Slab<Backlog>) {
        // As `note_timestamp`: it is none that was not agreed on, and not older than the last.
        if let Some((value, _)) = s.timestamps()
            && !seq_before(self.ack_sent, s.seq)
        {
            (self.ts_recent, self.ts_recent_at) = (value, cx.now.minutes());
        }
        if self.state == State::SynReceived {
            self.established(s, cx);
        } else {
            if s.ack != self.snd_una {
                self.advance::<true>(s, cx, backlogs);
            }
            self.peer_window(s, u32::from(s.window) << self.send_scale(), cx);
        }
        self.probes = 0;
        let len = s.payload.len() as u32;
        if len > 0 {
            self.next_data(len, cx);
        }
        if s.has(flag::FIN) {
            self.take_fin(s.seq.wrapping_add(len), &mut cx.copy());
        }
        if self.in_flight() == 0 && !matches!(self.state, State::TimeWait | State::Closed) {
            self.arm_idle(cx);
        }
    }

    /// Takes a segment in that is predicted: the program may go on. False: it is not, and nothing was done.
    #[inline(always)]
    pub fn input_if_predicted(
        &mut self,
        s: &Segment<'_>,
        ecn: u8,
        cx: &mut Context<'_>,
        backlogs: &mut Slab<Backlog>,
    ) -> bool {
        if !self.is_predicted(s, ecn) {
            return false;
        }
        cx.counters.received(cx.now.ns);
        self.input_predicted(s, cx, backlogs);
        true
    }

    /// Takes any segment in. Whether the program may go on: something that it can wait for has happened.
    #[inline(always)]
    pub fn input(&mut self, s: &Segment<'_>, ecn: u8, cx: &mut Context<'_>, backlogs: &mut Slab<Backlog>) -> bool {
        if self.input_if_predicted(s, ecn, cx, backlogs) {
            return true;
        }
        cx.counters.received(cx.now.ns);
        self.input_any(s, ecn, usize::MAX, cx, backlogs)
    }

    /// Takes a segment in, but no more than `most` bytes of what is new in it, as if the rest had been lost.
    pub fn input_some(
        &mut self,
        s: &Segment<'_>,
        ecn: u8,
        most: usize,
        cx: &mut Context<'_>,
        backlogs: &mut Slab<Backlog>,
    ) -> bool {
        cx.counters.received(cx.now.ns);
        self.input_any(s, ecn, most, cx, backlogs)
    }

    #[inline(always)]
    fn input_any(
        &mut self,
        s: &Segment<'_>,
        ecn: u8,
        most: usize,
        cx: &mut Context<'_>,
        backlogs: &mut Slab<Backlog>,
    ) -> bool {
        match self.state {
            State::Closed | State::Datagrams => return false,
            State::SynSent => return self.answered(s, cx),
            _ => {}
        }
        if self.has(flags::TIMESTAMPS) && !s.has(flag::RST) && !self.is_timely(s, cx) {
            return false;
        }
        let Some((seq, mut payload, mut fin)) = self.acceptable(s, cx) else { return false };
        if payload.len() > most {
            payload = &payload[..most];
            fin = false;
        }
        if s.has(flag::CWR) {
            self.clear(flags::ECHO);
        }
        // A segment with CWR may be marked itself (RFC 3168 section 6.1.3).
        if ecn == MARKED {
            cx.one(Count::CongestionMarks);
            if self.has(flags::ECN) {
                self.set(flags::ECHO);
            }
        }
        if s.has(flag::RST) {
            return self.was_reset(s, cx);
        }
        if s.has(flag::SYN) && !self.is_late_syn(s, cx) {
            return false;
        }
        self.note_timestamp(s, cx);
        if !s.has(flag::ACK) {
            return false;
        }
        let mut progress = false;
        if self.state == State::SynReceived {
            // What lies below the window altogether, which is answered, brings no connection about.
            let old = seq_before(s.seq, self.rcv_nxt) && payload.is_empty() && !fin && !s.has(flag::SYN);
            if old || !self.answers_syn(s) {
                return false;
            }
            self.established(s, cx);
            progress = true;
        }
        let Some(acked) = self.acknowledged(s, cx, backlogs) else { return progress };
        progress |= acked;
        self.probes = 0;
        if !payload.is_empty() {
            progress |= self.data(seq, payload.len() as u32, cx);
        }
        if fin {
            self.take_fin(seq.wrapping_add(payload.len() as u32), cx);
        } else if s.has(flag::FIN) && self.state == State::TimeWait {
            // The peer has not seen our last acknowledgement: it has time to ask again.
            self.wait_long(cx.now.deadline_in(cx.tunables.time_wait_ns));
        }
        progress |= self.in_sequence(cx);
        if self.in_flight() == 0
            && !self.has(flags::PERSIST)
            && self.state != State::TimeWait
            && self.state != State::Closed
        {
            self.arm_idle(cx);
        }
        self.release_recovery(cx);
        progress
    }

    /// Whether an acknowledgement is one of our SYN, or comes later than it.
    fn answers_syn(&self, s: &Segment<'_>) -> bool {
        seq_before(self.snd_una, s.ack) && !seq_before(self.snd_max, s.ack)
    }

    /// Whether a segment is of another connection between these two, of which we know nothing: it is answered with RST (RFC
    /// 9293 sections 3.10.7.3 and 3.10.7.4).
    #[inline(always)]
    pub fn has_unacceptable_ack(&self, s: &Segment<'_>) -> bool {
        matches!(self.state, State::SynSent | State::SynReceived)
            && s.has(flag::ACK)
            && !s.has(flag::RST)
            && !self.answers_syn(s)
            && (self.state == State::SynSent
                || s.seq.wrapping_sub(self.rcv_nxt) < self.rcv_adv.wrapping_sub(self.rcv_nxt).max(1))
    }

    /// A segment answers our SYN (RFC 9293 section 3.10.7.3).
    fn answered(&mut self, s: &Segment<'_>, cx: &mut Context<'_>) -> bool {
        if s.has(flag::ACK) && !self.answers_syn(s) {
            if !s.has(flag::RST) {
                cx.one(Count::AcksOfUnsent);
            }
            return false;
        }
        if s.has(flag::RST) {
            if s.has(flag::ACK) {
                cx.one(Count::ResetsReceived);
                self.state = State::Closed;
                return true;
            }
            return false;
        }
        if !s.has(flag::SYN) {
            return false;
        }
        self.rcv_nxt = s.seq.wrapping_add(1);
        self.rcv_adv = self.rcv_nxt;
        self.ack_sent = self.rcv_nxt;
        self.agree(s, cx);
        if cx.tunables.ecn && s.has(flag::ECE) && !s.has(flag::CWR) {
            self.set(flags::ECN);
        }
        if !s.has(flag::ACK) {
            // Both connect at the same time.
            self.state = State::SynReceived;
            self.snd_nxt = self.snd_una;
            self.snd_wnd = u32::from(s.window);
            (self.snd_wl1, self.snd_wl2) = (s.seq, self.snd_una);
            self.set(flags::OUTPUT);
            return false;
        }
        self.established(s, cx);
        self.set(flags::ACK_NOW | flags::OUTPUT);
        true
    }

    /// The handshake is over.
    #[inline(always)]
    fn established(&mut self, s: &Segment<'_>, cx: &Context<'_>) {
        cx.one(Count::FlowsEstablished);
        cx.counters.connected_after(self.connected_after_ns(cx.now));
        self.handshake_is_over();
        self.state = State::Established;
        let timed = self.has(flags::TIMED) && self.backoff == 0;
        self.snd_una = s.ack;
        self.snd_nxt = seq_max(self.snd_nxt, s.ack);
        self.recover = s.ack;
        if timed {
            self.round_trip(cx.now.us().wrapping_sub(self.rtt_at), cx.counters);
        } else if self.backoff > 0 && !self.echoed_round_trip(s.timestamps(), cx.now, cx.counters) {
            self.syn_was_lost();
        }
        if self.backoff > 1 {
            // RFC 6928 section 2: not after the first, which may have been lost by chance.
            self.cwnd = u32::from(self.mss);
        }
        self.clear(flags::TIMED | flags::WAITING);
        self.backoff = 0;
        // A SYN's window is not scaled.
        let scale = if s.has(flag::SYN) { 0 } else { self.send_scale() };
        self.snd_wnd = u32::from(s.window) << scale;
        (self.snd_wl1, self.snd_wl2) = (s.seq, s.ack);
        self.set(flags::OUTPUT);
        self.arm_idle(cx);
    }

    /// Whether a segment is not of an earlier time (PAWS, RFC 7323 section 5.3).
    #[inline]
    fn is_timely(&mut self, s: &Segment<'_>, cx: &mut Context<'_>) -> bool {
        let Some((value, _)) = s.timestamps() else {
            // RFC 7323 section 3.2.
            cx.one(Count::MissingTimestamps);
            return false;
        };
        if seq_before(value, self.ts_recent) && !self.has_stale_timestamp(cx.now) {
            if self.is_late_ack(s, value, cx) {
                return true;
            }
            cx.one(Count::OldTimestamps);
            self.answer_unacceptable(s, cx);
            return false;
        }
        true
    }

    /// Whether a segment that PAWS rejects is only an acknowledgement that a later one has overtaken: its SACK blocks are valid, and it
    /// is not answered, or each acknowledgement could cause another. It must be older by less than a timeout, so that it cannot be of
    /// an earlier lap of sequence numbers. (As Linux does; the peer's timestamps count milliseconds or less.)
    #[cold]
    fn is_late_ack(&self, s: &Segment<'_>, value: u32, cx: &Context<'_>) -> bool {
        let bare = s.flags & !(flag::PSH | flag::ECE | flag::CWR) == flag::ACK && s.payload.is_empty();
        bare && s.seq == self.rcv_nxt && u64::from(self.ts_recent.wrapping_sub(value)) <= self.rto_ns(cx.tunables) >> 20
    }

    /// What of a segment lies in the window: its sequence number, data and FIN (RFC 9293 section 3.4). None, and an
    /// acknowledgement is due, if nothing does.
    #[inline]
    fn acceptable<'a>(&mut self, s: &Segment<'a>, cx: &mut Context<'_>) -> Option<(u32, &'a [u8], bool)> {
        let (mut seq, mut payload, mut fin) = (s.seq, s.payload, s.has(flag::FIN));
        if s.has(flag::SYN) {
            // Looked at by `is_late_syn`.
            return Some((seq.wrapping_add(1), payload, fin));
        }
        if seq == self.rcv_nxt && payload.len() as u32 + u32::from(fin) <= self.rcv_adv.wrapping_sub(seq) {
            return Some((seq, payload, fin));
        }
        let end = seq.wrapping_add(payload.len() as u32);
        if s.has(flag::RST) {
            // Outside of the window it is dropped without an answer.
            let outside = seq_before(seq, self.rcv_nxt) || seq_before(self.rcv_adv, seq);
            return (!outside).then_some((seq, payload, fin));
        }
        if seq_before(seq, self.rcv_nxt) {
            let old = self.rcv_nxt.wrapping_sub(seq);
            // A byte of keepalive, or an empty segment below the window: answered.
            self.answer_unacceptable(s, cx);
            if old as usize >= payload.len() {
                if !payload.is_empty() {
                    cx.one(Count::DuplicatePackets);
                    cx.counters.add(Count::DuplicateBytes, payload.len() as u64);
                    self.received_duplicate(seq, end, cx);
                }
                // Its FIN may be new though its data is not.
                fin &= end == self.rcv_nxt;
                payload = &[];
            } else {
                cx.counters.add(Count::DuplicateBytes, u64::from(old));
                self.received_duplicate(seq, self.rcv_nxt, cx);
                payload = &payload[old as usize..];
            }
            seq = self.rcv_nxt;
        }
        let over = (end.wrapping_sub(self.rcv_adv) as i32).saturating_add(i32::from(fin));
        if over > 0 {
            self.answer_unacceptable(s, cx);
            let empty_window = self.rcv_adv == self.rcv_nxt;
            if empty_window && seq == self.rcv_nxt {
                cx.one(Count::WindowProbesReceived);
                return Some((seq, &[], false));
            }
            cx.one(Count::BeyondWindowPackets);
            cx.counters.add(Count::BeyondWindowBytes, over as u64);
            let beyond = seq_before(self.rcv_adv, seq) || (seq == self.rcv_adv && !payload.is_empty());
            if beyond {
                return None;
            }
            let cut = (over as usize - usize::from(fin)).min(payload.len());
            payload = &payload[..payload.len() - cut];
            fin = false;
        }
        Some((seq, payload, fin))
    }

    /// A segment that is not acceptable is answered (RFC 9293 section 3.10.7.4). One without data, as all such answers are, may be
    /// an answer itself: where something between the ends has changed numbers of one direction, each would answer the other's
    /// answers for ever. So those are answered once in half a second.
    #[cold]
    fn answer_unacceptable(&mut self, s: &Segment<'_>, cx: &mut Context<'_>) {
        if s.is_empty() && !self.may_answer(cx) {
            return;
        }
        self.set(flags::ACK_NOW | flags::OUTPUT);
    }

    /// Whether a segment without data may be answered that is not acceptable; from then on others are not, for a while.
    #[cold]
    fn may_answer(&mut self, cx: &Context<'_>) -> bool {
        let now = cx.now.moments();
        let may = self.answered_at == 0 || now.wrapping_sub(self.answered_at) >= BETWEEN_ANSWERS;
        if may {
            self.answered_at = now;
        } else {
            cx.one(Count::AcksSuppressed);
        }
        may
    }

    /// RFC 5961 section 3.2: only the exact number resets.
    fn was_reset(&mut self, s: &Segment<'_>, cx: &mut Context<'_>) -> bool {
        if s.seq != self.rcv_nxt {
            self.challenge(cx);
            return false;
        }
        if self.state == State::TimeWait {
            // The connection has ended well: the peer has forgotten it and got an acknowledgement twice (RFC 1337).
            return false;
        }
        cx.one(Count::ResetsReceived);
        self.state = State::Closed;
        true
    }

    /// Answers an acknowledgement that cannot be: one without data as other segments that are not acceptable.
    #[cold]
    fn challenge_ack(&mut self, s: &Segment<'_>, cx: &mut Context<'_>) {
        if !s.is_empty() || self.may_answer(cx) {
            self.challenge(cx);
        }
    }

    /// Answers what is suspicious, unless that was done too often in this second.
    #[cold]
    fn challenge(&mut self, cx: &mut Context<'_>) {
        if !cx.challenges.take(cx.now) {
            return cx.one(Count::ChallengeAcksSuppressed);
        }
        cx.one(Count::ChallengeAcks);
        self.set(flags::ACK_NOW | flags::OUTPUT);
    }

    /// Whether a SYN belongs to the handshake. Ours is sent again if the peer has not seen it; others are challenged (RFC 5961
    /// section 4.2).
    fn is_late_syn(&mut self, s: &Segment<'_>, cx: &mut Context<'_>) -> bool {
        let the_same = s.seq.wrapping_add(1) == self.rcv_nxt;
        if the_same && self.is_synchronized() && s.has(flag::ACK) {
            // The end of the handshake was lost: the sender of this has the number, and every connection may need it.
            cx.one(Count::ChallengeAcks);
            self.set(flags::ACK_NOW | flags::OUTPUT);
            return false;
        }
        if self.state != State::SynReceived || !the_same {
            self.challenge(cx);
            return false;
        }
        if !s.has(flag::ACK) {
            self.snd_nxt = self.snd_una;
            self.clear(flags::TIMED);
            self.set(flags::OUTPUT);
            return false;
        }
        true
    }

    /// Takes in the acknowledgement. None if the segment is to be dropped; else whether anything new was acknowledged.
    #[inline(always)]
    fn acknowledged(&mut self, s: &Segment<'_>, cx: &mut Context<'_>, backlogs: &mut Slab<Backlog>) -> Option<bool> {
        let (ack, una) = (s.ack, self.snd_una);
        // A segment with data or a FIN is no duplicate acknowledgement, whether these are taken or not (RFC 5681 section 2).
        let empty = s.payload.is_empty() && !s.has(flag::FIN);
        if seq_before(self.snd_max, ack) {
            cx.one(Count::AcksOfUnsent);
            self.challenge_ack(s, cx);
            return None;
        }
        if seq_before(ack, una) {
            // RFC 5961 section 5.2: older than the widest window that the peer can have announced.
            if una.wrapping_sub(ack) > 0xffff << self.send_scale() {
                self.challenge_ack(s, cx);
                return None;
            }
            self.take_sack(s, cx);
            return Some(false);
        }
        // A SYN's is not scaled (RFC 7323 section 2.2), as where both connect at the same time.
        let window = u32::from(s.window) << if s.has(flag::SYN) { 0 } else { self.send_scale() };
        if self.has(flags::ECN)
            && s.has(flag::ECE)
            && !self.any(flags::RECOVERY | flags::LOSS)
            && seq_before(self.recover, ack)
        {
            self.marked(cx);
        }
        if ack == una {
            let newly = self.take_sack(s, cx);
            let same = empty && window == self.snd_wnd;
            if self.has(flags::PROBED) && same && newly == 0 && ack == self.recover {
                // The peer had already received what the tail loss probe repeated: nothing was lost (RFC 8985 section 7.4.2).
                self.clear(flags::PROBED);
            }
            // Answers to probes of a window are no sign of loss.
            let duplicate = same && self.in_flight() > 0 && !self.has(flags::PERSIST);
            if duplicate || newly > 0 {
                self.frto_duplicate_ack(cx);
            }
            if duplicate {
                cx.one(Count::DuplicateAcks);
                self.dup_acks = self.dup_acks.saturating_add(1);
            } else if empty && window != self.snd_wnd {
                cx.one(Count::WindowUpdates);
            }
            if duplicate || newly > 0 {
                let delivered = if self.has(flags::SACK) { newly } else { u32::from(self.mss) };
                self.detect_loss(delivered, cx);
            }
            self.peer_window(s, window, cx);
            return Some(false);
        }
        self.advance::<false>(s, cx, backlogs);
        self.peer_window(s, window, cx);
        Some(true)
    }

    /// New data was acknowledged; with `PLAIN`, to an end without recovery state.
    #[inline(always)]
    fn advance<const PLAIN: bool>(&mut self, s: &Segment<'_>, cx: &mut Context<'_>, backlogs: &mut Slab<Backlog>) {
        let (ack, una) = (s.ack, self.snd_una);
        let acked = ack.wrapping_sub(una);
        let fin_acked = self.fin_is_sent() && ack == self.snd_end.wrapping_add(1);
        let data = acked - u32::from(fin_acked);
        cx.one(Count::AckedPackets);
        cx.counters.add(Count::AckedBytes, u64::from(data));
        if self.has(flags::TIMED) && seq_before(self.rtt_seq, ack) {
            self.clear(flags::TIMED);
            let us = cx.now.us().wrapping_sub(self.rtt_at);
            cx.counters.round_trip(u64::from(us) << 10);
            self.round_trip(us, cx.counters);
            self.backoff = 0;
        } else if (self.backoff > 0 || (!PLAIN && self.any(flags::RECOVERY | flags::LOSS)))
            && self.echoed_round_trip(s.timestamps(), cx.now, cx.counters)
        {
            self.backoff = 0;
        }
        let newly = if PLAIN { 0 } else { self.take_sack(s, cx) };
        self.snd_una = ack;
        self.snd_nxt = seq_max(self.snd_nxt, ack);
        if PLAIN || !self.any(flags::RECOVERY) {
            self.dup_acks = 0;
        }
        if !PLAIN && (self.recovery != RecoveryIndex::NONE || self.any(flags::RECOVERY | flags::LOSS | flags::PROBED)) {
            self.detect_spurious(s, cx);
            self.delivered(acked, newly, cx);
        } else if self.has(flags::LIMITED) {
            self.grow(acked, cx.now, cx.tunables);
        }
        self.dequeue(backlogs);
        self.set(flags::OUTPUT);
        if self.in_flight() > 0 {
            if PLAIN || !self.has(flags::REORDER) {
                self.arm_retransmit(cx);
            }
        } else if !PLAIN && self.has(flags::PERSIST) && self.has_more_to_send() {
            // The probe was taken; the window is closed all the same, or `peer_window` finds it open.
            self.wait_until(cx.now.tick_in(self.rto_ns(cx.tunables)));
        } else {
            if !PLAIN && self.has(flags::PERSIST) {
                // It was the last: there is nothing to probe with.
                self.clear(flags::PERSIST | flags::FORCED);
                self.backoff = 0;
            }
            self.clear(flags::WAITING | flags::PROBE | flags::REORDER);
        }
        if fin_acked {
            match self.state {
                State::FinWait1 => {
                    self.state = State::FinWait2;
                }
                State::Closing => self.time_wait(&mut cx.copy()),
                State::LastAck => self.state = State::Closed,
                _ => {}
            }
        }
    }

    /// Takes the peer's window, if the segment is not older than the last one that updated it (RFC 9293 section 3.10.7.4).
    #[inline(always)]
    fn peer_window(&mut self, s: &Segment<'_>, window: u32, cx: &mut Context<'_>) {
        let newer = seq_before(self.snd_wl1, s.seq) || (self.snd_wl1 == s.seq && !seq_before(s.ack, self.snd_wl2));
        if !newer {
            return;
        }
        let opened = window > self.snd_wnd;
        self.snd_wnd = window;
        (self.snd_wl1, self.snd_wl2) = (s.seq, s.ack);
        if opened {
            if self.has(flags::PERSIST) {
                self.clear(flags::PERSIST | flags::FORCED | flags::WAITING);
                self.backoff = 0;
                if self.in_flight() > 0 {
                    // The byte of the probe goes first: the peer has dropped it as long as its window was closed.
                    self.snd_nxt = self.snd_una;
                    self.arm_retransmit(cx);
                }
            }
            self.set(flags::OUTPUT);
        }
    }

    /// The peer says that packets of ours were marked (RFC 3168 section 6.1.2): once a window.
    fn marked(&mut self, cx: &mut Context<'_>) {
        cx.one(Count::CongestionEchoes);
        let flight = self.in_flight();
        self.ssthresh = self.reduced(flight, cx);
        self.cwnd = self.ssthresh;
        self.recover = self.snd_max;
        self.clear(flags::PROBED);
        self.set(flags::REDUCED);
    }

    /// Processes data. True if it begins at `rcv_nxt`.
    #[inline]
    fn data(&mut self, seq: u32, len: u32, cx: &mut Context<'_>) -> bool {
        if seq != self.rcv_nxt && self.takes_data() {
            self.out_of_order(seq, len, cx);
            return false;
        }
        self.next_data(len, cx)
    }

    /// Whether the peer may still send data.
    #[inline(always)]
    fn takes_data(&self) -> bool {
        matches!(self.state, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// The same of data that begins at `rcv_nxt`.
    #[inline(always)]
    fn next_data(&mut self, len: u32, cx: &Context<'_>) -> bool {
        if !self.takes_data() {
            cx.one(Count::AfterClosePackets);
            return false;
        }
        self.rcv_nxt = self.rcv_nxt.wrapping_add(len);
        self.received += u64::from(len);
        cx.one(Count::ReceivedDataPackets);
        cx.counters.add(Count::ReceivedDataBytes, u64::from(len));
        // Every second full segment at the latest (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2).
        let unacknowledged = self.rcv_nxt.wrapping_sub(self.ack_sent);
        if cx.tunables.delayed_ack_ns == 0
            || unacknowledged >= 2 * u32::from(self.mss) - 24
            || self.recovery != RecoveryIndex::NONE
        {
            self.set(flags::ACK_NOW | flags::OUTPUT);
        } else if !self.any(flags::ACK_NOW | flags::ACK_LATER) {
            self.ack_at = cx.now.tick_in(cx.tunables.delayed_ack_ns);
            self.set(flags::ACK_LATER);
        }
        true
    }

    fn out_of_order(&mut self, seq: u32, len: u32, cx: &mut Context<'_>) {
        // At once (RFC 5681 section 4.2).
        self.set(flags::ACK_NOW | flags::OUTPUT);
        cx.one(Count::OutOfOrderPackets);
        cx.counters.add(Count::OutOfOrderBytes, u64::from(len));
        let selective = self.has(flags::SACK);
        let Some(recovery) = self.recovery_state(cx) else { return };
        recovery.unanswered = recovery.unanswered.saturating_add(1);
        let end = seq.wrapping_add(len);
        let twice = recovery.out_of_order.overlap(seq, end).filter(|_| selective);
        match recovery.out_of_order.insert(seq, end) {
            Some(new) => {
                recovery.latest = seq;
                recovery.duplicate = twice.or(recovery.duplicate);
                if new == 0 {
                    cx.one(Count::DuplicatePackets);
                    cx.counters.add(Count::DuplicateBytes, u64::from(len));
                }
            }
            None => cx.one(Count::RecoveryExhausted),
        }
    }

    /// The end of the out-of-order data that is contiguous from a sequence number on.
    pub(crate) fn received_until(&self, seq: u32, recoveries: &Slab<Recovery>) -> Option<u32> {
        if self.recovery == RecoveryIndex::NONE { None } else { recoveries[self.recovery].received_until(seq) }
    }

    fn take_fin(&mut self, seq: u32, cx: &mut Context<'_>) {
        self.set(flags::ACK_NOW | flags::OUTPUT);
        if self.has(flags::FIN_RECEIVED) {
            if self.state == State::TimeWait {
                self.wait_long(cx.now.deadline_in(cx.tunables.time_wait_ns));
            }
            return;
        }
        if seq != self.rcv_nxt {
            if let Some(recovery) = self.recovery_state(cx) {
                recovery.fin_at = Some(seq);
            }
            return;
        }
        self.fin_received(cx);
    }

    fn fin_received(&mut self, cx: &mut Context<'_>) {
        self.rcv_nxt = self.rcv_nxt.wrapping_add(1);
        self.rcv_adv = seq_max(self.rcv_adv, self.rcv_nxt);
        self.set(flags::FIN_RECEIVED | flags::ACK_NOW | flags::OUTPUT);
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.time_wait(cx),
            _ => {}
        }
    }

    /// After `rcv_nxt` advanced: takes out-of-order data and a FIN that are next now. True if there was any.
    #[inline(always)]
    fn in_sequence(&mut self, cx: &mut Context<'_>) -> bool {
        let finished = self.has(flags::FIN_RECEIVED) && !self.has(flags::PEER_CLOSED_REPORTED);
        if self.recovery == RecoveryIndex::NONE { finished } else { self.closes_gap(cx) | finished }
    }

    /// Advances `rcv_nxt` over data that was received out of order before. True if there was any.
    fn closes_gap(&mut self, cx: &mut Context<'_>) -> bool {
        let next = self.rcv_nxt;
        let recovery = &mut cx.recoveries[self.recovery];
        let end =
            recovery.out_of_order.as_slice().first().filter(|range| !seq_before(next, range.0)).map(|range| range.1);
        let mut progress = false;
        if let Some(end) = end
            && seq_before(next, end)
        {
            let len = end.wrapping_sub(next);
            self.rcv_nxt = end;
            self.received += u64::from(len);
            cx.one(Count::ReceivedDataPackets);
            cx.counters.add(Count::ReceivedDataBytes, u64::from(len));
            self.set(flags::ACK_NOW | flags::OUTPUT);
            progress = true;
        }
        let next = self.rcv_nxt;
        let recovery = &mut cx.recoveries[self.recovery];
        recovery.out_of_order.remove_below(next);
        if recovery.fin_at == Some(next) {
            recovery.fin_at = None;
            self.fin_received(cx);
            progress = true;
        }
        progress
    }

    /// An ICMP error is about this flow (RFC 5927: only what is in flight can be meant).
    pub fn icmp_error(&mut self, kind: crate::packet::ErrorKind, seq: u32, cx: &mut Context<'_>) -> bool {
        use crate::packet::ErrorKind::{Refused, TooBig, Transient};
        if seq_before(seq, self.snd_una) || !seq_before(seq, self.snd_max) {
            return false;
        }
        cx.one(Count::IcmpErrors);
        match kind {
            TooBig(mtu) => {
                let headers = if self.has(flags::V6) { 60 } else { 40 };
                // Without a number: the next lower plateau of RFC 1191 section 7.1 that is common.
                let mtu = if mtu == 0 { 1006 } else { mtu };
                let mss = mtu.saturating_sub(headers).max(if self.has(flags::V6) { 1220 } else { 536 });
                if mss < self.mss {
                    self.mss = mss;
                    cx.one(Count::MtuReductions);
                    if self.in_flight() > 0 && self.is_synchronized() {
                        // Sent again at once, in smaller segments, without a reduction (RFC 8899 section 3).
                        let (cwnd, ssthresh) = (self.cwnd, self.ssthresh);
                        self.enter_loss(cx);
                        (self.cwnd, self.ssthresh) = (cwnd, ssthresh);
                        self.clear(flags::FRTO | flags::REDUCED);
                        self.arm_retransmit(cx);
                    }
                }
                false
            }
            Refused if self.state == State::SynSent => {
                cx.one(Count::ConnectDrops);
                self.state = State::Closed;
                true
            }
            Refused | Transient => false,
        }
    }
}
