// SPDX-License-Identifier: Apache-2.0
//! Losses: which bytes the peer has (RFC 2018), which are lost (RFC 6675, RFC 8985), how much may be in flight meanwhile
//! (RFC 6937); and what came out of order.
//!
//! Only flows in trouble have such state, from a slab made at Prepare. Segments sent before the trouble began have no times:
//! they left in the order of their sequence numbers, which is all that RACK asks of them. What is sent since has.
use super::{Context, ranges::Ranges};
use crate::{
    counters::Count,
    flow::{Flow, State, is, seq_before, seq_max, seq_min},
    packet::Segment,
    slab::NONE,
};

/// Ranges the peer has, or that came out of order.
const RANGES: usize = 24;
/// Transmissions whose times are held.
const SENDS: usize = 32;
/// Recoveries after which what came twice is forgotten (RFC 8985 section 6.2: RACK.reo_wnd_persist).
const PERSIST: u8 = 16;
/// What is late is waited for no longer than a round trip.
const MOST_QUARTERS: u8 = 4;

/// What a flow in trouble needs.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// What came beyond what is expected.
    pub(super) came: Ranges<RANGES>,
    /// The range that came last: the first block of the next acknowledgement.
    pub(super) latest: u32,
    /// The peer's FIN came, here.
    pub(super) fin_at: Option<u32>,
    /// What the peer told it has.
    sacked: Ranges<RANGES>,
    /// What was sent since the trouble began, in order of time.
    sends: [Send; SENDS],
    sent: u8,
    /// Bytes below that the peer does not have and that are not sent since are lost.
    lost_to: u32,
    /// Up to here what was not told of when the reordering timer began is late, and lost when it ends.
    late_to: u32,
    /// What came twice last, until an acknowledgement has told so (RFC 2883).
    pub(super) duplicate: Option<(u32, u32)>,
    /// What was sent again since it was taken for lost: from, to, and how many bytes of it the peer has not told to have come
    /// twice.
    resent: Option<(u32, u32)>,
    resent_bytes: u32,
    /// Recovery is over; until this is acknowledged the peer may tell that it was needless.
    watched_to: Option<u32>,
    /// Some of it came twice, or was only late.
    was_needless: bool,
    /// It began with a time-out, and made the threshold this.
    by_timeout: bool,
    reduced_to: u32,
    /// When the latest send that the peer has left.
    delivered_at: Option<u32>,
    /// Of proportional rate reduction: delivered and sent since it began, and what was in flight then.
    prr_delivered: u32,
    prr_out: u32,
    flight: u32,
    /// Of RFC 5682: what was sent again after the time-out is acknowledged, new data was sent, and the next acknowledgement
    /// tells.
    resent_came: bool,
    /// The peer told of bytes that were sent before `recover`.
    told_old: bool,
    /// Segments out of order that no acknowledgement has answered yet.
    pub(super) unanswered: u8,
    /// Before the reduction, to undo it.
    prior_cwnd: u32,
    prior_ssthresh: u32,
    /// CUBIC's `w_max`, `epoch_at` and `cubic_k`.
    prior_cubic: (u32, u32, u16),
    /// Timestamp of the first segment that was sent again since.
    resent_at: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Send {
    from: u32,
    to: u32,
    at_us: u32,
}

impl Recovery {
    /// Behind the last byte of what came beyond what is expected, from a sequence number on without a gap.
    pub(super) fn came_until(&self, seq: u32) -> Option<u32> {
        self.came.around(seq).map(|range| range.1)
    }

    /// No trouble.
    pub const NOTHING: Self = Self {
        came: Ranges::EMPTY,
        latest: 0,
        fin_at: None,
        sacked: Ranges::EMPTY,
        sends: [Send { from: 0, to: 0, at_us: 0 }; SENDS],
        sent: 0,
        lost_to: 0,
        late_to: 0,
        duplicate: None,
        resent: None,
        resent_bytes: 0,
        watched_to: None,
        was_needless: false,
        by_timeout: false,
        reduced_to: 0,
        delivered_at: None,
        prr_delivered: 0,
        prr_out: 0,
        flight: 0,
        resent_came: false,
        told_old: false,
        unanswered: 0,
        prior_cwnd: 0,
        prior_ssthresh: 0,
        prior_cubic: (0, 0, 0),
        resent_at: None,
    };

    fn sends(&self) -> &[Send] {
        &self.sends[..usize::from(self.sent)]
    }

    /// The send that holds a number, if it is in flight.
    fn around(&self, seq: u32) -> Option<Send> {
        self.sends().iter().copied().find(|send| !seq_before(seq, send.from) && seq_before(seq, send.to))
    }

    /// The first lost bytes from `seq` on: from, and to behind the last before something else.
    fn hole(&self, mut seq: u32) -> Option<(u32, u32)> {
        while seq_before(seq, self.lost_to) {
            if let Some((_, to)) = self.sacked.around(seq) {
                seq = to;
            } else if let Some(send) = self.around(seq) {
                seq = send.to;
            } else {
                let mut end = self.lost_to;
                if let Some(from) = self.sacked.next_from(seq) {
                    end = seq_min(end, from);
                }
                for send in self.sends().iter().filter(|send| seq_before(seq, send.from)) {
                    end = seq_min(end, send.from);
                }
                return Some((seq, end));
            }
        }
        None
    }

    /// Notes a transmission.
    fn note(&mut self, from: u32, to: u32, at_us: u32) {
        if let Some(last) = self.sends[..usize::from(self.sent)].last_mut()
            && last.to == from
            && last.at_us == at_us
        {
            last.to = to;
            return;
        }
        if usize::from(self.sent) == SENDS {
            self.forget_a_send();
        }
        self.sends[usize::from(self.sent)] = Send { from, to, at_us };
        self.sent += 1;
    }

    /// Makes room for another send. Two neighbours become one that left with the later of them, so that none of them counts as
    /// lost too early. Without neighbours one of new data goes: without a time it is found lost by what comes behind it. The
    /// oldest goes at the worst: it counts as lost.
    fn forget_a_send(&mut self) {
        let joint = (1..SENDS).find(|index| self.sends[index - 1].to == self.sends[*index].from);
        let gone = match joint {
            Some(index) => {
                self.sends[index].from = self.sends[index - 1].from;
                index - 1
            }
            None => self.sends.iter().position(|send| !seq_before(send.from, self.lost_to)).unwrap_or(0),
        };
        self.sends.copy_within(gone + 1.., gone);
        self.sent -= 1;
    }

    /// Forgets sends that the peer has, and keeps the time of the latest of them.
    fn deliver(&mut self, una: u32) {
        let mut kept = 0;
        for index in 0..usize::from(self.sent) {
            let mut send = self.sends[index];
            let sacked = self.sacked.around(send.from).is_some_and(|(_, to)| !seq_before(to, send.to));
            if !seq_before(una, send.to) || sacked {
                if self.delivered_at.is_none_or(|at| seq_before(at, send.at_us)) {
                    self.delivered_at = Some(send.at_us);
                }
                continue;
            }
            send.from = seq_max(send.from, una);
            self.sends[kept] = send;
            kept += 1;
        }
        self.sent = kept as u8;
    }

    /// Finds sends lost that left before others that arrived, by more than `window_us`.
    fn lose_sends(&mut self, window_us: u32) {
        let Some(delivered) = self.delivered_at else { return };
        let mut kept = 0;
        for index in 0..usize::from(self.sent) {
            let send = self.sends[index];
            if seq_before(send.at_us.wrapping_add(window_us), delivered) {
                self.lost_to = seq_max(self.lost_to, send.to);
            } else {
                self.sends[kept] = send;
                kept += 1;
            }
        }
        self.sent = kept as u8;
    }

    /// Finds bytes lost above which the peer has more than `enough` bytes (RFC 6675 section 4).
    fn lose_below(&mut self, enough: u32) {
        let mut above = 0;
        for (from, to) in self.sacked.as_slice().iter().rev() {
            above += to.wrapping_sub(*from);
            if above > enough {
                self.lost_to = seq_max(self.lost_to, *from);
                return;
            }
        }
    }

    /// Recovery begins, or goes on as loss.
    fn begin(&mut self, by_timeout: bool, reduced_to: u32) {
        (self.resent, self.resent_bytes, self.watched_to) = (None, 0, None);
        (self.was_needless, self.by_timeout, self.reduced_to) = (false, by_timeout, reduced_to);
    }

    /// Whether nothing is in trouble any more.
    fn is_over(&self) -> bool {
        let arrived = self.came.is_empty() && self.fin_at.is_none() && self.duplicate.is_none();
        arrived && self.sacked.is_empty() && self.watched_to.is_none()
    }
}

/// What the first of an acknowledgement's blocks tells to have come twice, if it does so (RFC 2883 section 4).
fn duplicate_of(blocks: &[(u32, u32)], ack: u32) -> Option<(u32, u32)> {
    let first = blocks.first().filter(|(from, to)| seq_before(*from, *to))?;
    let within = |second: &(u32, u32)| !seq_before(first.0, second.0) && !seq_before(second.1, first.1);
    (seq_before(first.0, ack) || blocks.get(1).is_some_and(within)).then_some(*first)
}

impl Flow {
    /// The state of its trouble; taken if it has none. None, and counted, if no place is left.
    pub(super) fn trouble<'a>(&mut self, cx: &'a mut Context<'_>) -> Option<&'a mut Recovery> {
        if self.recovery == NONE {
            let Some(index) = cx.recoveries.take() else {
                cx.one(Count::RecoveryExhausted);
                return None;
            };
            cx.recoveries[index] = Recovery { lost_to: self.snd_una, late_to: self.snd_una, ..Recovery::NOTHING };
            self.recovery = index;
        }
        Some(&mut cx.recoveries[self.recovery])
    }

    /// Gives the state back once nothing is in trouble.
    #[inline]
    pub(super) fn calm(&mut self, cx: &mut Context<'_>) {
        if self.recovery != NONE && !self.any(is::RECOVERY | is::LOSS) {
            self.calm_down(cx);
        }
    }

    fn calm_down(&mut self, cx: &mut Context<'_>) {
        let trouble = &mut cx.recoveries[self.recovery];
        let (una, idle) = (self.snd_una, self.in_flight() == 0);
        trouble.watched_to = trouble.watched_to.filter(|to| !idle && seq_before(una, *to));
        if trouble.is_over() {
            self.release(cx.recoveries);
        }
    }

    /// Takes in which bytes the peer has. Tells how many of them are new.
    #[inline(always)]
    pub(super) fn selective(&mut self, s: &Segment<'_>, cx: &mut Context<'_>) -> u32 {
        if self.recovery != NONE {
            self.find_late(s.ack, cx);
        }
        if s.has_more_options() && self.has(is::SACK) { self.told(s, cx) } else { 0 }
    }

    fn told(&mut self, s: &Segment<'_>, cx: &mut Context<'_>) -> u32 {
        let options = s.options();
        cx.counters.add(Count::SackBlocksReceived, options.sacks as u64);
        let una = seq_max(self.snd_una, s.ack);
        let (max, recover) = (self.snd_max, self.recover);
        let blocks = &options.sack[..options.sacks];
        if let Some(twice) = duplicate_of(blocks, s.ack) {
            self.came_twice_there(twice, cx);
        }
        let (mut new, mut late) = (0, false);
        for &(from, to) in blocks {
            // Blocks below are of duplicates; beyond is nonsense.
            if !seq_before(from, to) || seq_before(from, una) || seq_before(max, to) {
                continue;
            }
            let Some(trouble) = self.trouble(cx) else { return 0 };
            // The first byte it tells of that was not told before.
            let first = trouble.sacked.around(from).map_or(from, |range| range.1);
            let resent = trouble.around(first).is_some();
            let below = trouble.sacked.end().is_some_and(|end| seq_before(first, end));
            match trouble.sacked.insert(from, to) {
                Some(bytes) => {
                    new += bytes;
                    trouble.told_old |= bytes > 0 && !resent && seq_before(first, recover);
                    // A first transmission that comes behind later ones.
                    late |= bytes > 0 && below && !resent && !seq_before(first, trouble.lost_to);
                }
                None => cx.one(Count::RecoveryExhausted),
            }
        }
        self.reordering = self.reordering.max(u8::from(late));
        new
    }

    /// Before an acknowledgement is taken in: whether it is of what was sent once, and comes behind what was sent later (RFC 8985
    /// section 6.2 step 3).
    fn find_late(&mut self, ack: u32, cx: &Context<'_>) {
        let trouble = &cx.recoveries[self.recovery];
        let Some(end) = trouble.sacked.end() else { return };
        let first = trouble.sacked.around(trouble.lost_to).map_or(trouble.lost_to, |range| range.1);
        if seq_before(first, ack) && seq_before(first, end) {
            self.reordering = self.reordering.max(1);
        }
    }

    /// Something of ours came twice: if it was taken for lost, it was only late, by more than was waited for.
    fn came_twice_there(&mut self, (from, to): (u32, u32), cx: &mut Context<'_>) {
        cx.one(Count::DsackReceived);
        if self.recovery == NONE {
            return;
        }
        let trouble = &mut cx.recoveries[self.recovery];
        let Some((first, last)) = trouble.resent else { return };
        if seq_before(from, first) || seq_before(last, to) {
            return;
        }
        trouble.resent_bytes = trouble.resent_bytes.saturating_sub(to.wrapping_sub(from));
        let (all, same) = (trouble.resent_bytes == 0, trouble.reduced_to == self.ssthresh);
        self.wait_longer(cx);
        if all && (same || self.any(is::RECOVERY | is::LOSS)) {
            // RFC 3708: nothing of it was lost.
            self.undo(cx);
        }
    }

    /// A recovery was needless: what is late is waited for longer from now on. Once for each.
    fn wait_longer(&mut self, cx: &mut Context<'_>) {
        let before = core::mem::replace(&mut cx.recoveries[self.recovery].was_needless, true);
        if !before {
            self.reordering = (self.reordering + 1).min(MOST_QUARTERS);
            self.reordering_left = PERSIST;
        }
    }

    /// What came twice is told to the peer in the next acknowledgement.
    pub(super) fn came_twice(&mut self, from: u32, to: u32, cx: &mut Context<'_>) {
        if self.has(is::SACK)
            && self.state != State::TimeWait
            && let Some(trouble) = self.trouble(cx)
        {
            trouble.duplicate = Some((from, to));
        }
    }

    /// A segment with its acknowledgement and all blocks is sent.
    pub(super) fn told_twice(&mut self, cx: &mut Context<'_>) {
        if cx.recoveries[self.recovery].duplicate.take().is_some() {
            cx.one(Count::DsackSent);
            self.calm(cx);
        }
    }

    /// Bytes that are in the network, as far as one can tell (RFC 6675 section 4).
    #[inline]
    pub(super) fn pipe(&self, cx: &Context<'_>) -> u32 {
        if self.recovery != NONE {
            return self.pipe_of(&cx.recoveries[self.recovery]);
        }
        // Limited transmit (RFC 3042): the first two duplicates let new data go as well.
        let arrived = if self.has(is::SACK) { 0 } else { u32::from(self.dup_acks.min(2)) * u32::from(self.mss) };
        self.in_flight().saturating_sub(arrived)
    }

    /// The same with what is known of it.
    fn pipe_of(&self, trouble: &Recovery) -> u32 {
        let mut out = trouble.sacked.bytes();
        if !self.has(is::SACK) {
            // Each duplicate stands for a segment that has arrived.
            out += u32::from(self.dup_acks) * u32::from(self.mss);
        }
        let mut seq = self.snd_una;
        while let Some((from, to)) = trouble.hole(seq) {
            out += to.wrapping_sub(from);
            seq = to;
        }
        self.in_flight().saturating_sub(out)
    }

    /// An acknowledgement that acknowledges nothing new came, or one with new blocks, and delivered so many bytes: is
    /// something lost?
    pub(super) fn suspect(&mut self, delivered: u32, cx: &mut Context<'_>) {
        let mss = u32::from(self.mss);
        let threshold = u32::from(cx.tunables.duplicate_ack_threshold);
        if self.any(is::RECOVERY | is::LOSS) {
            return self.rate(delivered, cx);
        }
        // What has arrived makes room for new data (RFC 3042, RFC 6675 section 5).
        self.set(is::OUTPUT);
        if self.has(is::SACK) {
            if self.recovery == NONE {
                return;
            }
            let trouble = &mut cx.recoveries[self.recovery];
            if self.reordering == 0 {
                trouble.lose_below((threshold - 1) * mss);
            }
            if trouble.hole(self.snd_una).is_some() {
                self.enter_recovery(delivered, cx);
            } else {
                self.wait_for_late(cx);
            }
        } else if u32::from(self.dup_acks) >= threshold && self.trouble(cx).is_some() {
            let to = seq_min(self.snd_una.wrapping_add(self.segment_data()), self.snd_max);
            cx.recoveries[self.recovery].lost_to = to;
            self.enter_recovery(delivered, cx);
        }
    }

    /// Gives what may be only late its time: a quarter of a round trip, or more if that has not been enough (RFC 8985 section 6.2
    /// step 5; the smoothed round trip stands for the least).
    fn wait_for_late(&mut self, cx: &mut Context<'_>) {
        if self.has(is::REORDER) || self.in_flight() == 0 {
            return;
        }
        let trouble = &mut cx.recoveries[self.recovery];
        let Some(end) = trouble.sacked.end() else { return };
        let first = trouble.sacked.around(trouble.lost_to).map_or(trouble.lost_to, |range| range.1);
        if !seq_before(first, end) {
            return;
        }
        trouble.late_to = end;
        self.clear(is::PROBE);
        self.set(is::REORDER);
        let wait_us = self.reorder_window().max(self.srtt / 4).max(1);
        self.wait_until(cx.now.tick_in(u64::from(wait_us) << 10));
    }

    /// The time for what is only late is over.
    pub(super) fn reordering_is_over(&mut self, cx: &mut Context<'_>) {
        self.clear(is::REORDER);
        if self.recovery == NONE {
            return self.arm_retransmit(cx);
        }
        let trouble = &mut cx.recoveries[self.recovery];
        if let Some(end) = trouble.sacked.end() {
            // What was told of since has later segments' time if these are known to come in disorder.
            let to = if self.reordering > 0 { seq_min(trouble.late_to, end) } else { end };
            trouble.lost_to = seq_max(trouble.lost_to, to);
        }
        if self.any(is::RECOVERY | is::LOSS) {
            self.arm_retransmit(cx);
            self.wait_for_late(cx);
            self.set(is::OUTPUT);
        } else if trouble.hole(self.snd_una).is_some() {
            self.enter_recovery(0, cx);
        } else {
            self.arm_retransmit(cx);
            self.wait_for_late(cx);
        }
    }

    /// Fast recovery begins with an acknowledgement that delivered so many bytes.
    fn enter_recovery(&mut self, delivered: u32, cx: &mut Context<'_>) {
        cx.one(Count::FastRetransmits);
        let flight = self.in_flight();
        let (cwnd, ssthresh, cubic) = (self.cwnd, self.ssthresh, (self.w_max, self.epoch_at, self.cubic_k));
        self.ssthresh = self.reduced(flight, cx);
        self.recover = self.snd_max;
        self.clear(is::TIMED | is::PROBED | is::FRTO);
        self.set(is::RECOVERY | is::OUTPUT);
        self.tell_reduction();
        let trouble = &mut cx.recoveries[self.recovery];
        (trouble.prr_delivered, trouble.prr_out, trouble.flight) = (0, 0, flight.max(1));
        (trouble.prior_cwnd, trouble.prior_ssthresh, trouble.prior_cubic) = (cwnd, ssthresh, cubic);
        (trouble.delivered_at, trouble.resent_at) = (None, None);
        trouble.begin(false, self.ssthresh);
        self.arm_retransmit(cx);
        self.rate(delivered, cx);
        // The first retransmission goes at once.
        let pipe = self.pipe(cx);
        self.cwnd = self.cwnd.max(pipe + u32::from(self.mss));
    }

    /// In recovery: so many bytes more were delivered. Sets what may be in flight (RFC 6937 section 3).
    fn rate(&mut self, delivered: u32, cx: &mut Context<'_>) {
        if self.recovery != NONE && self.has(is::SACK) {
            let una = self.snd_una;
            let trouble = &mut cx.recoveries[self.recovery];
            trouble.deliver(una);
            trouble.lose_sends(self.reorder_window());
            if self.reordering > 0 {
                self.wait_for_late(cx);
            } else if let Some(end) = trouble.sacked.end() {
                // In recovery nothing is only late as long as nothing was (RFC 8985 section 6.2 step 4).
                trouble.lost_to = seq_max(trouble.lost_to, end);
            }
        }
        self.set(is::OUTPUT);
        if !self.has(is::RECOVERY) || self.recovery == NONE {
            return;
        }
        let (mss, pipe) = (u32::from(self.mss), self.pipe(cx));
        let trouble = &mut cx.recoveries[self.recovery];
        trouble.prr_delivered = trouble.prr_delivered.saturating_add(delivered);
        let room = if pipe > self.ssthresh {
            let share = u64::from(trouble.prr_delivered) * u64::from(self.ssthresh);
            (share.div_ceil(u64::from(trouble.flight)) as u32).saturating_sub(trouble.prr_out)
        } else {
            let limit = trouble.prr_delivered.saturating_sub(trouble.prr_out).max(delivered) + mss;
            (self.ssthresh - pipe).min(limit)
        };
        self.cwnd = (pipe + room).max(mss);
    }

    /// The next data tells a peer that was told of marks that the window was reduced, for whatever reason (RFC 3168 section
    /// 6.1.2).
    fn tell_reduction(&mut self) {
        if self.has(is::ECN) {
            self.set(is::REDUCED);
        }
    }

    /// For how long segments may be late, in microseconds: 0 as long as none was.
    fn reorder_window(&self) -> u32 {
        (self.srtt / 4).saturating_mul(u32::from(self.reordering)).min(self.srtt)
    }

    /// Something new was acknowledged: so many bytes, of which some the peer had told before. `newly` more it told now.
    pub(super) fn delivered(&mut self, acked: u32, newly: u32, cx: &mut Context<'_>) {
        let told = if self.recovery == NONE { 0 } else { self.forget_below(cx) };
        let delivered = acked - told.min(acked) + newly;
        let over = !seq_before(self.snd_una, self.recover);
        if self.has(is::FRTO) && self.has(is::LOSS) {
            self.spurious(over, cx);
            if !self.has(is::LOSS) {
                return;
            }
        }
        if self.has(is::RECOVERY) {
            if over {
                self.clear(is::RECOVERY);
                self.cwnd = self.ssthresh.max(u32::from(self.mss));
                self.recovered(cx);
            } else {
                if !self.has(is::SACK) && self.recovery != NONE {
                    // A partial acknowledgement: the next segment is lost too (RFC 6582 section 3.2).
                    let to = seq_min(self.snd_una.wrapping_add(self.segment_data()), self.snd_max);
                    let trouble = &mut cx.recoveries[self.recovery];
                    trouble.lost_to = seq_max(trouble.lost_to, to);
                    let segments = (acked / u32::from(self.mss)).min(255) as u8;
                    self.dup_acks = self.dup_acks.saturating_sub(segments);
                }
                self.rate(delivered, cx);
            }
            return;
        }
        if self.has(is::LOSS) {
            if over {
                self.clear(is::LOSS | is::FRTO);
                self.recovered(cx);
            } else {
                self.rate(delivered, cx);
            }
        }
        if self.has(is::PROBED) && seq_before(self.recover, self.snd_una) {
            // No duplicate acknowledgement told that what the probe repeated had come as well: it repaired a loss (RFC 8985
            // section 7.4.2).
            self.clear(is::PROBED);
            self.ssthresh = self.reduced(self.in_flight() + acked, cx);
            self.cwnd = self.cwnd.min(self.ssthresh);
            self.tell_reduction();
        }
        if self.has(is::LIMITED) {
            self.grow(acked, cx);
        }
        if !self.has(is::LOSS) {
            self.suspect(delivered, cx);
        }
    }

    fn forget_below(&mut self, cx: &mut Context<'_>) -> u32 {
        let una = self.snd_una;
        let trouble = &mut cx.recoveries[self.recovery];
        let told = trouble.sacked.remove_below(una);
        trouble.deliver(una);
        trouble.lost_to = seq_max(trouble.lost_to, una);
        if trouble.sacked.is_empty() {
            // Nothing is late any more.
            self.clear(is::REORDER);
        }
        told
    }

    /// What was lost has come. If no more of it comes twice, what is late is waited for less after some time.
    fn recovered(&mut self, cx: &mut Context<'_>) {
        if self.reordering_left > 0 {
            self.reordering_left -= 1;
            if self.reordering_left == 0 {
                self.reordering = self.reordering.min(1);
            }
        }
        if self.recovery != NONE {
            let trouble = &mut cx.recoveries[self.recovery];
            trouble.watched_to = (trouble.resent_bytes > 0 && self.has(is::SACK)).then_some(self.snd_max);
        }
        self.leave(cx);
    }

    pub(super) fn leave(&mut self, cx: &mut Context<'_>) {
        self.dup_acks = 0;
        if self.recovery != NONE {
            let trouble = &mut cx.recoveries[self.recovery];
            trouble.sent = 0;
            trouble.lost_to = self.snd_una;
        }
        self.set(is::OUTPUT);
    }

    /// All that is in flight counts as lost (RFC 6298 section 5, RFC 5681 section 3.1).
    pub(super) fn lose_all(&mut self, cx: &mut Context<'_>) {
        let (una, max) = (self.snd_una, self.snd_max);
        let first = !self.has(is::LOSS);
        if first {
            let flight = self.in_flight();
            // The losses that fast recovery repairs are paid for: the window is reduced once for them.
            let paid = self.has(is::RECOVERY);
            let cwnd = if paid { self.ssthresh } else { self.cwnd };
            let (ssthresh, cubic) = (self.ssthresh, (self.w_max, self.epoch_at, self.cubic_k));
            if !paid {
                self.ssthresh = self.reduced(flight, cx);
            }
            let reduced_to = self.ssthresh;
            if let Some(trouble) = self.trouble(cx) {
                if paid {
                    trouble.by_timeout = true;
                } else {
                    trouble.begin(true, reduced_to);
                }
                (trouble.prior_cwnd, trouble.prior_ssthresh, trouble.prior_cubic) = (cwnd, ssthresh, cubic);
                trouble.resent_at = None;
            }
        }
        self.clear(is::RECOVERY | is::TIMED | is::PROBED | is::PROBE);
        self.set(is::LOSS | is::OUTPUT);
        self.dup_acks = 0;
        self.cwnd = u32::from(self.mss);
        self.recover = max;
        self.tell_reduction();
        let may_be_spurious = first && self.has(is::SACK) && self.is_synchronized();
        match self.trouble(cx) {
            Some(trouble) => {
                trouble.sent = 0;
                trouble.delivered_at = None;
                (trouble.resent_came, trouble.told_old) = (false, false);
                trouble.lost_to = max;
                if trouble.sacked.around(una).is_some() {
                    // The peer has dropped what it had told of (RFC 2018 section 8): nothing of it holds.
                    trouble.sacked = Ranges::EMPTY;
                }
            }
            // Without: all again, from the first.
            None => self.snd_nxt = una,
        }
        if may_be_spurious && self.recovery != NONE {
            self.set(is::FRTO);
        } else {
            self.clear(is::FRTO);
        }
    }

    /// An acknowledgement moved on after a time-out (RFC 5682 section 3.1). The first is of what was sent again: new data is
    /// sent then, if there is any. If the next is of something that was sent before the time-out and not again, nothing was
    /// lost.
    fn spurious(&mut self, over: bool, cx: &mut Context<'_>) {
        self.set(is::OUTPUT);
        let (left, room) = (self.snd_end.wrapping_sub(self.snd_nxt), self.snd_wnd > self.in_flight());
        let more = !self.fin_is_sent() && left > 0 && room;
        let trouble = &mut cx.recoveries[self.recovery];
        if trouble.resent_came {
            self.undo(cx);
        } else if over || !more {
            self.clear(is::FRTO);
        } else {
            (trouble.resent_came, trouble.told_old) = (true, false);
            trouble.sent = 0;
        }
    }

    /// The time-out, or the fast recovery, was spurious: all is as it was before.
    fn undo(&mut self, cx: &mut Context<'_>) {
        let trouble = &mut cx.recoveries[self.recovery];
        cx.counters.one(if trouble.by_timeout { Count::SpuriousTimeouts } else { Count::SpuriousRecoveries });
        trouble.lost_to = self.snd_una;
        trouble.sent = 0;
        (trouble.resent, trouble.resent_bytes, trouble.watched_to) = (None, 0, None);
        self.cwnd = self.cwnd.max(trouble.prior_cwnd);
        self.ssthresh = trouble.prior_ssthresh;
        // RFC 9438 section 4.9.1.
        (self.w_max, self.epoch_at, self.cubic_k) = trouble.prior_cubic;
        self.backoff = 0;
        self.clear(is::LOSS | is::FRTO | is::RECOVERY);
        self.dup_acks = 0;
        self.set(is::OUTPUT);
    }

    /// An acknowledgement moved on, and echoes a timestamp. If that is older than the first segment that was sent again, the
    /// original has arrived, and nothing was lost (RFC 3522): all is as it was before (RFC 4015).
    pub(super) fn was_needless(&mut self, s: &Segment<'_>, cx: &mut Context<'_>) {
        let Some((_, echo)) = s.timestamps().filter(|_| self.has(is::TIMESTAMPS)) else { return };
        if self.recovery == NONE || !self.any(is::RECOVERY | is::LOSS) {
            return;
        }
        let trouble = &mut cx.recoveries[self.recovery];
        if trouble.resent_at.is_some_and(|at| seq_before(echo, at)) {
            if self.has(is::RECOVERY) {
                self.wait_longer(cx);
            }
            self.undo(cx);
        }
    }

    /// An acknowledgement after a time-out that does not move on: after new data was sent it tells whether the time-out was
    /// spurious.
    pub(super) fn doubted(&mut self, cx: &mut Context<'_>) {
        if !self.has(is::FRTO | is::LOSS) || self.recovery == NONE || !cx.recoveries[self.recovery].resent_came {
            return;
        }
        if cx.recoveries[self.recovery].told_old {
            self.undo(cx);
        } else {
            self.clear(is::FRTO);
            self.set(is::OUTPUT);
        }
    }

    /// The first bytes to send again: where, and how many at most.
    pub(super) fn next_lost(&self, cx: &Context<'_>) -> Option<(u32, u32)> {
        if self.recovery == NONE || !self.any(is::RECOVERY | is::LOSS) {
            return None;
        }
        let trouble = &cx.recoveries[self.recovery];
        if self.has(is::FRTO) && (trouble.resent_came || trouble.sent > 0) {
            // One segment only, until it is known whether anything was lost (RFC 5682).
            return None;
        }
        let (from, to) = trouble.hole(self.snd_una)?;
        Some((from, to.wrapping_sub(from)))
    }

    /// Sent these, again or for the first time.
    pub(super) fn noted(&mut self, from: u32, to: u32, cx: &mut Context<'_>) {
        if self.recovery == NONE || !self.any(is::RECOVERY | is::LOSS) {
            return;
        }
        let again = seq_before(from, self.recover);
        let trouble = &mut cx.recoveries[self.recovery];
        if again && trouble.resent_at.is_none() {
            trouble.resent_at = Some(cx.now.ms());
        }
        if again {
            let (first, last) = trouble.resent.unwrap_or((from, to));
            trouble.resent = Some((seq_min(first, from), seq_max(last, to)));
            trouble.resent_bytes = trouble.resent_bytes.saturating_add(to.wrapping_sub(from));
        }
        trouble.note(from, to, cx.now.us());
        trouble.prr_out = trouble.prr_out.saturating_add(to.wrapping_sub(from));
    }
}
