// SPDX-License-Identifier: Apache-2.0
//! Loss recovery: which bytes the peer has (SACK, RFC 2018), which are lost (RFC 6675, RACK of RFC 8985), how much may be in flight
//! meanwhile (PRR, RFC 6937); and data received out of order.
//!
//! Only flows with losses or reordering have this state, from a slab that Prepare allocates. Segments sent before it was taken have
//! no send times: they left in the order of their sequence numbers, which is all that RACK needs of them. Later segments have one.
use super::{Context, ranges::Ranges};
use crate::{
    counters::Count,
    flow::{Flow, RecoveryIndex, State, flags, seq_before, seq_max, seq_min},
    packet::Segment,
    slab::Slotted,
};

/// Most ranges on the SACK scoreboard, and most ranges of data received out of order.
const RANGES: usize = 24;
/// Transmissions whose times are held.
const SENDS: usize = 32;
/// Recoveries after which the reordering window shrinks again (RFC 8985 section 6.2: RACK.reo_wnd_persist).
const PERSIST: u8 = 16;
/// The reordering window is at most a round trip, in quarters of one.
const MAX_REORDER_QUARTERS: u8 = 4;

impl Slotted for Recovery {
    type Index = RecoveryIndex;
}

/// State of a flow with losses or reordering.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// Data received beyond `rcv_nxt`.
    pub(super) out_of_order: Ranges<RANGES>,
    /// The range that was received last: the first SACK block of the next acknowledgement.
    pub(super) latest: u32,
    /// Sequence number of the peer's FIN, if it was received out of order.
    pub(super) fin_at: Option<u32>,
    /// The scoreboard: what the peer reported in SACK blocks.
    sacked: Ranges<RANGES>,
    /// Segments sent since this state was taken, in order of time.
    sends: [Send; SENDS],
    sent: u8,
    /// Bytes below that the peer does not have and that are not sent since are lost.
    lost_to: u32,
    /// When the reordering timer fires, what is not acknowledged below this is lost.
    reordering_to: u32,
    /// The last range received twice, until an acknowledgement has reported it (DSACK, RFC 2883).
    pub(super) duplicate: Option<(u32, u32)>,
    /// What was retransmitted in this recovery: from, to, and how many bytes of it no DSACK has reported.
    resent: Option<(u32, u32)>,
    resent_bytes: u32,
    /// Recovery is over; until this is acknowledged a DSACK may still show that it was spurious.
    undo_until: Option<u32>,
    /// Some of what was retransmitted had only been reordered or delayed.
    was_spurious: bool,
    /// Whether it began with a retransmission timeout, which set `ssthresh` to `reduced_to`.
    by_timeout: bool,
    reduced_to: u32,
    /// Send time of the most recently sent segment that the peer has.
    delivered_at: Option<u32>,
    /// Proportional rate reduction (RFC 6937): bytes delivered and sent since it began, and bytes in flight at its start.
    prr_delivered: u32,
    prr_out: u32,
    flight: u32,
    /// F-RTO (RFC 5682): the segment retransmitted after the timeout is acknowledged and new data was sent; the next acknowledgement
    /// decides whether the timeout was spurious.
    retransmission_acked: bool,
    /// A SACK block reported bytes that were sent before `recover`, and not retransmitted.
    sacked_old: bool,
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
    /// The end of the out-of-order data that is contiguous from a sequence number on.
    pub(super) fn received_until(&self, seq: u32) -> Option<u32> {
        self.out_of_order.around(seq).map(|range| range.1)
    }

    /// No losses, nothing out of order.
    pub const NOTHING: Self = Self {
        out_of_order: Ranges::EMPTY,
        latest: 0,
        fin_at: None,
        sacked: Ranges::EMPTY,
        sends: [Send { from: 0, to: 0, at_us: 0 }; SENDS],
        sent: 0,
        lost_to: 0,
        reordering_to: 0,
        duplicate: None,
        resent: None,
        resent_bytes: 0,
        undo_until: None,
        was_spurious: false,
        by_timeout: false,
        reduced_to: 0,
        delivered_at: None,
        prr_delivered: 0,
        prr_out: 0,
        flight: 0,
        retransmission_acked: false,
        sacked_old: false,
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

    /// Records a transmission.
    fn note(&mut self, from: u32, to: u32, at_us: u32) {
        if let Some(last) = self.sends[..usize::from(self.sent)].last_mut()
            && last.to == from
            && last.at_us == at_us
        {
            last.to = to;
            return;
        }
        if usize::from(self.sent) == SENDS {
            self.evict_send();
        }
        self.sends[usize::from(self.sent)] = Send { from, to, at_us };
        self.sent += 1;
    }

    /// Makes room for another send. Two neighbors become one that left with the later of them, so that none of them counts as
    /// lost too early. Without neighbors one of new data goes: without a time it is found lost by what comes behind it. The
    /// oldest goes at the worst: it counts as lost.
    fn evict_send(&mut self) {
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
    fn mark_lost_by_time(&mut self, window_us: u32) {
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
    fn mark_lost_by_sack(&mut self, enough: u32) {
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
        (self.resent, self.resent_bytes, self.undo_until) = (None, 0, None);
        (self.was_spurious, self.by_timeout, self.reduced_to) = (false, by_timeout, reduced_to);
    }

    /// Whether nothing is out of order, sacked, or may turn out to be spurious any more.
    fn is_over(&self) -> bool {
        let arrived = self.out_of_order.is_empty() && self.fin_at.is_none() && self.duplicate.is_none();
        arrived && self.sacked.is_empty() && self.undo_until.is_none()
    }
}

/// The range that the first SACK block reports as received twice, if it is a DSACK (RFC 2883 section 4).
fn duplicate_of(blocks: &[(u32, u32)], ack: u32) -> Option<(u32, u32)> {
    let first = blocks.first().filter(|(from, to)| seq_before(*from, *to))?;
    let within = |second: &(u32, u32)| !seq_before(first.0, second.0) && !seq_before(second.1, first.1);
    (seq_before(first.0, ack) || blocks.get(1).is_some_and(within)).then_some(*first)
}

impl Flow {
    /// The flow's recovery state, which is taken from the slab if it has none. None, and counted, if the slab is used up.
    pub(super) fn recovery_state<'a>(&mut self, cx: &'a mut Context<'_>) -> Option<&'a mut Recovery> {
        if self.recovery == RecoveryIndex::NONE {
            let Some(index) = cx.recoveries.take() else {
                cx.one(Count::RecoveryExhausted);
                return None;
            };
            cx.recoveries[index] = Recovery { lost_to: self.snd_una, reordering_to: self.snd_una, ..Recovery::NOTHING };
            self.recovery = index;
        }
        Some(&mut cx.recoveries[self.recovery])
    }

    /// Returns the recovery state to the slab once it is not needed any more.
    #[inline]
    pub(super) fn release_recovery(&mut self, cx: &mut Context<'_>) {
        if self.recovery != RecoveryIndex::NONE && !self.any(flags::RECOVERY | flags::LOSS) {
            self.release_recovery_if_over(cx);
        }
    }

    fn release_recovery_if_over(&mut self, cx: &mut Context<'_>) {
        let recovery = &mut cx.recoveries[self.recovery];
        let (una, idle) = (self.snd_una, self.in_flight() == 0);
        recovery.undo_until = recovery.undo_until.filter(|to| !idle && seq_before(una, *to));
        if recovery.is_over() {
            self.release(cx.recoveries);
        }
    }

    /// Updates the scoreboard from an acknowledgement. Returns how many bytes are newly reported.
    #[inline(always)]
    pub(super) fn take_sack(&mut self, s: &Segment<'_>, cx: &mut Context<'_>) -> u32 {
        if self.recovery != RecoveryIndex::NONE {
            self.detect_reordering(s.ack, cx);
        }
        if s.has_more_options() && self.has(flags::SACK) { self.take_sack_blocks(s, cx) } else { 0 }
    }

    fn take_sack_blocks(&mut self, s: &Segment<'_>, cx: &mut Context<'_>) -> u32 {
        let options = s.options();
        cx.counters.add(Count::SackBlocksReceived, options.sacks as u64);
        let una = seq_max(self.snd_una, s.ack);
        let (max, recover) = (self.snd_max, self.recover);
        let blocks = &options.sack[..options.sacks];
        if let Some(twice) = duplicate_of(blocks, s.ack) {
            self.take_dsack(twice, cx);
        }
        let (mut new, mut late) = (0, false);
        for &(from, to) in blocks {
            // Blocks below are of duplicates; beyond is nonsense.
            if !seq_before(from, to) || seq_before(from, una) || seq_before(max, to) {
                continue;
            }
            let Some(recovery) = self.recovery_state(cx) else { return 0 };
            // The first byte of the block that was not reported before.
            let first = recovery.sacked.around(from).map_or(from, |range| range.1);
            let resent = recovery.around(first).is_some();
            let below = recovery.sacked.end().is_some_and(|end| seq_before(first, end));
            match recovery.sacked.insert(from, to) {
                Some(bytes) => {
                    new += bytes;
                    recovery.sacked_old |= bytes > 0 && !resent && seq_before(first, recover);
                    // A first transmission that comes behind later ones.
                    late |= bytes > 0 && below && !resent && !seq_before(first, recovery.lost_to);
                }
                None => cx.one(Count::RecoveryExhausted),
            }
        }
        self.reordering = self.reordering.max(u8::from(late));
        new
    }

    /// Called before an acknowledgement is processed: whether it acknowledges a segment that was sent once, after segments that were
    /// sent later (RFC 8985 section 6.2 step 3).
    fn detect_reordering(&mut self, ack: u32, cx: &Context<'_>) {
        let recovery = &cx.recoveries[self.recovery];
        let Some(end) = recovery.sacked.end() else { return };
        let first = recovery.sacked.around(recovery.lost_to).map_or(recovery.lost_to, |range| range.1);
        if seq_before(first, ack) && seq_before(first, end) {
            self.reordering = self.reordering.max(1);
        }
    }

    /// A DSACK: if the range had been retransmitted, it was reordered by more than the reordering window, not lost.
    fn take_dsack(&mut self, (from, to): (u32, u32), cx: &mut Context<'_>) {
        cx.one(Count::DsackReceived);
        if self.recovery == RecoveryIndex::NONE {
            return;
        }
        let recovery = &mut cx.recoveries[self.recovery];
        let Some((first, last)) = recovery.resent else { return };
        if seq_before(from, first) || seq_before(last, to) {
            return;
        }
        recovery.resent_bytes = recovery.resent_bytes.saturating_sub(to.wrapping_sub(from));
        let (all, same) = (recovery.resent_bytes == 0, recovery.reduced_to == self.ssthresh);
        self.widen_reorder_window(cx);
        if all && (same || self.any(flags::RECOVERY | flags::LOSS)) {
            // RFC 3708: nothing of it was lost.
            self.undo(cx);
        }
    }

    /// A recovery was spurious: the reordering window grows by a quarter of a round trip, once for each.
    fn widen_reorder_window(&mut self, cx: &mut Context<'_>) {
        let before = core::mem::replace(&mut cx.recoveries[self.recovery].was_spurious, true);
        if !before {
            self.reordering = (self.reordering + 1).min(MAX_REORDER_QUARTERS);
            self.reordering_left = PERSIST;
        }
    }

    /// The next acknowledgement reports this range as received twice (DSACK).
    pub(super) fn received_duplicate(&mut self, from: u32, to: u32, cx: &mut Context<'_>) {
        if self.has(flags::SACK)
            && self.state != State::TimeWait
            && let Some(recovery) = self.recovery_state(cx)
        {
            recovery.duplicate = Some((from, to));
        }
    }

    /// A segment with its acknowledgement and all blocks is sent.
    pub(super) fn dsack_sent(&mut self, cx: &mut Context<'_>) {
        if cx.recoveries[self.recovery].duplicate.take().is_some() {
            cx.one(Count::DsackSent);
            self.release_recovery(cx);
        }
    }

    /// Estimate of the bytes in the network (RFC 6675 section 4).
    #[inline(always)]
    pub(super) fn pipe(&self, cx: &Context<'_>) -> u32 {
        if self.recovery != RecoveryIndex::NONE {
            return self.pipe_of(&cx.recoveries[self.recovery]);
        }
        // Limited transmit (RFC 3042): the first two duplicates let new data go as well.
        let arrived = if self.has(flags::SACK) { 0 } else { u32::from(self.dup_acks.min(2)) * u32::from(self.mss) };
        self.in_flight().saturating_sub(arrived)
    }

    /// Bytes in flight by the scoreboard.
    fn pipe_of(&self, recovery: &Recovery) -> u32 {
        let mut out = recovery.sacked.bytes();
        if !self.has(flags::SACK) {
            // Each duplicate stands for a segment that has arrived.
            out += u32::from(self.dup_acks) * u32::from(self.mss);
        }
        let mut seq = self.snd_una;
        while let Some((from, to)) = recovery.hole(seq) {
            out += to.wrapping_sub(from);
            seq = to;
        }
        self.in_flight().saturating_sub(out)
    }

    /// After a duplicate acknowledgement, or one with new SACK blocks, which delivered this number of bytes: starts recovery if
    /// something is lost.
    pub(super) fn detect_loss(&mut self, delivered: u32, cx: &mut Context<'_>) {
        let mss = u32::from(self.mss);
        let threshold = u32::from(cx.tunables.duplicate_ack_threshold);
        if self.any(flags::RECOVERY | flags::LOSS) {
            return self.set_prr_window(delivered, cx);
        }
        // What has arrived makes room for new data (RFC 3042, RFC 6675 section 5).
        self.set(flags::OUTPUT);
        if self.has(flags::SACK) {
            if self.recovery == RecoveryIndex::NONE {
                return;
            }
            let recovery = &mut cx.recoveries[self.recovery];
            if self.reordering == 0 {
                recovery.mark_lost_by_sack((threshold - 1) * mss);
            }
            if recovery.hole(self.snd_una).is_some() {
                self.enter_recovery(delivered, cx);
            } else {
                self.arm_reordering_timer(cx);
            }
        } else if u32::from(self.dup_acks) >= threshold && self.recovery_state(cx).is_some() {
            let to = seq_min(self.snd_una.wrapping_add(self.segment_data()), self.snd_max);
            cx.recoveries[self.recovery].lost_to = to;
            self.enter_recovery(delivered, cx);
        }
    }

    /// Arms the reordering timer: a quarter of a round trip, or more after spurious recoveries (RFC 8985 section 6.2 step 5; the
    /// smoothed round-trip time stands for the minimum).
    fn arm_reordering_timer(&mut self, cx: &mut Context<'_>) {
        if self.has(flags::REORDER) || self.in_flight() == 0 {
            return;
        }
        let recovery = &mut cx.recoveries[self.recovery];
        let Some(end) = recovery.sacked.end() else { return };
        let first = recovery.sacked.around(recovery.lost_to).map_or(recovery.lost_to, |range| range.1);
        if !seq_before(first, end) {
            return;
        }
        recovery.reordering_to = end;
        self.clear(flags::PROBE);
        self.set(flags::REORDER);
        let wait_us = self.reorder_window().max(self.srtt / 4).max(1);
        self.wait_until(cx.now.tick_in(u64::from(wait_us) << 10));
    }

    /// The reordering timer has fired.
    pub(super) fn on_reordering_timeout(&mut self, cx: &mut Context<'_>) {
        self.clear(flags::REORDER);
        if self.recovery == RecoveryIndex::NONE {
            return self.arm_retransmit(cx);
        }
        let recovery = &mut cx.recoveries[self.recovery];
        if let Some(end) = recovery.sacked.end() {
            // What was reported since has the time of later segments if the path is known to reorder.
            let to = if self.reordering > 0 { seq_min(recovery.reordering_to, end) } else { end };
            recovery.lost_to = seq_max(recovery.lost_to, to);
        }
        if self.any(flags::RECOVERY | flags::LOSS) {
            self.arm_retransmit(cx);
            self.arm_reordering_timer(cx);
            self.set(flags::OUTPUT);
        } else if recovery.hole(self.snd_una).is_some() {
            self.enter_recovery(0, cx);
        } else {
            self.arm_retransmit(cx);
            self.arm_reordering_timer(cx);
        }
    }

    /// Enters fast recovery, on an acknowledgement that delivered this number of bytes.
    fn enter_recovery(&mut self, delivered: u32, cx: &mut Context<'_>) {
        cx.one(Count::FastRetransmits);
        let flight = self.in_flight();
        let (cwnd, ssthresh, cubic) = (self.cwnd, self.ssthresh, (self.w_max, self.epoch_at, self.cubic_k));
        self.ssthresh = self.reduced(flight, cx);
        self.recover = self.snd_max;
        self.clear(flags::TIMED | flags::PROBED | flags::FRTO);
        self.set(flags::RECOVERY | flags::OUTPUT);
        self.queue_cwr();
        let recovery = &mut cx.recoveries[self.recovery];
        (recovery.prr_delivered, recovery.prr_out, recovery.flight) = (0, 0, flight.max(1));
        (recovery.prior_cwnd, recovery.prior_ssthresh, recovery.prior_cubic) = (cwnd, ssthresh, cubic);
        (recovery.delivered_at, recovery.resent_at) = (None, None);
        recovery.begin(false, self.ssthresh);
        self.arm_retransmit(cx);
        self.set_prr_window(delivered, cx);
        // The first retransmission goes at once.
        let pipe = self.pipe(cx);
        self.cwnd = self.cwnd.max(pipe + u32::from(self.mss));
    }

    /// In recovery, after this number of bytes was delivered: sets what may be in flight (PRR, RFC 6937 section 3).
    fn set_prr_window(&mut self, delivered: u32, cx: &mut Context<'_>) {
        if self.recovery != RecoveryIndex::NONE && self.has(flags::SACK) {
            let una = self.snd_una;
            let recovery = &mut cx.recoveries[self.recovery];
            recovery.deliver(una);
            recovery.mark_lost_by_time(self.reorder_window());
            if self.reordering > 0 {
                self.arm_reordering_timer(cx);
            } else if let Some(end) = recovery.sacked.end() {
                // As long as the path was never seen to reorder, recovery allows for none (RFC 8985 section 6.2 step 4).
                recovery.lost_to = seq_max(recovery.lost_to, end);
            }
        }
        self.set(flags::OUTPUT);
        if !self.has(flags::RECOVERY) || self.recovery == RecoveryIndex::NONE {
            return;
        }
        let (mss, pipe) = (u32::from(self.mss), self.pipe(cx));
        let recovery = &mut cx.recoveries[self.recovery];
        recovery.prr_delivered = recovery.prr_delivered.saturating_add(delivered);
        let room = if pipe > self.ssthresh {
            let share = u64::from(recovery.prr_delivered) * u64::from(self.ssthresh);
            (share.div_ceil(u64::from(recovery.flight)) as u32).saturating_sub(recovery.prr_out)
        } else {
            let limit = recovery.prr_delivered.saturating_sub(recovery.prr_out).max(delivered) + mss;
            (self.ssthresh - pipe).min(limit)
        };
        self.cwnd = (pipe + room).max(mss);
    }

    /// The next data segment carries CWR, whatever the window was reduced for (RFC 3168 section 6.1.2).
    fn queue_cwr(&mut self) {
        if self.has(flags::ECN) {
            self.set(flags::REDUCED);
        }
    }

    /// The reordering window in microseconds: 0 as long as the path was never seen to reorder.
    fn reorder_window(&self) -> u32 {
        (self.srtt / 4).saturating_mul(u32::from(self.reordering)).min(self.srtt)
    }

    /// New data was acknowledged: `acked` bytes, some of which SACK blocks may have reported before; `newly` more bytes were reported
    /// now.
    pub(super) fn delivered(&mut self, acked: u32, newly: u32, cx: &mut Context<'_>) {
        let sacked = if self.recovery == RecoveryIndex::NONE { 0 } else { self.remove_acknowledged(cx) };
        let delivered = acked - sacked.min(acked) + newly;
        let over = !seq_before(self.snd_una, self.recover);
        if self.has(flags::FRTO) && self.has(flags::LOSS) {
            self.frto_new_ack(over, cx);
            if !self.has(flags::LOSS) {
                return;
            }
        }
        if self.has(flags::RECOVERY) {
            if over {
                self.clear(flags::RECOVERY);
                self.cwnd = self.ssthresh.max(u32::from(self.mss));
                self.recovery_done(cx);
            } else {
                if !self.has(flags::SACK) && self.recovery != RecoveryIndex::NONE {
                    // A partial acknowledgement: the next segment is lost too (RFC 6582 section 3.2).
                    let to = seq_min(self.snd_una.wrapping_add(self.segment_data()), self.snd_max);
                    let recovery = &mut cx.recoveries[self.recovery];
                    recovery.lost_to = seq_max(recovery.lost_to, to);
                    let segments = (acked / u32::from(self.mss)).min(255) as u8;
                    self.dup_acks = self.dup_acks.saturating_sub(segments);
                }
                self.set_prr_window(delivered, cx);
            }
            return;
        }
        if self.has(flags::LOSS) {
            if over {
                self.clear(flags::LOSS | flags::FRTO);
                self.recovery_done(cx);
            } else {
                self.set_prr_window(delivered, cx);
            }
        }
        if self.has(flags::PROBED) && seq_before(self.recover, self.snd_una) {
            // No DSACK has reported that the tail loss probe was received twice: it repaired a loss (RFC 8985 section 7.4.2).
            self.clear(flags::PROBED);
            self.ssthresh = self.reduced(self.in_flight() + acked, cx);
            self.cwnd = self.cwnd.min(self.ssthresh);
            self.queue_cwr();
        }
        if self.has(flags::LIMITED) {
            self.grow(acked, cx.now, cx.tunables);
        }
        if !self.has(flags::LOSS) {
            self.detect_loss(delivered, cx);
        }
    }

    fn remove_acknowledged(&mut self, cx: &mut Context<'_>) -> u32 {
        let una = self.snd_una;
        let recovery = &mut cx.recoveries[self.recovery];
        let sacked = recovery.sacked.remove_below(una);
        recovery.deliver(una);
        recovery.lost_to = seq_max(recovery.lost_to, una);
        if recovery.sacked.is_empty() {
            // Nothing is reordered any more.
            self.clear(flags::REORDER);
        }
        sacked
    }

    /// All that was lost has been acknowledged. After some recoveries without a DSACK the reordering window shrinks.
    fn recovery_done(&mut self, cx: &mut Context<'_>) {
        if self.reordering_left > 0 {
            self.reordering_left -= 1;
            if self.reordering_left == 0 {
                self.reordering = self.reordering.min(1);
            }
        }
        if self.recovery != RecoveryIndex::NONE {
            let recovery = &mut cx.recoveries[self.recovery];
            recovery.undo_until = (recovery.resent_bytes > 0 && self.has(flags::SACK)).then_some(self.snd_max);
        }
        self.end_recovery(cx);
    }

    pub(super) fn end_recovery(&mut self, cx: &mut Context<'_>) {
        self.dup_acks = 0;
        if self.recovery != RecoveryIndex::NONE {
            let recovery = &mut cx.recoveries[self.recovery];
            recovery.sent = 0;
            recovery.lost_to = self.snd_una;
        }
        self.set(flags::OUTPUT);
    }

    /// Enters loss state after a time-out: all that is in flight counts as lost (RFC 6298 section 5, RFC 5681 section 3.1).
    pub(super) fn enter_loss(&mut self, cx: &mut Context<'_>) {
        let (una, max) = (self.snd_una, self.snd_max);
        let first = !self.has(flags::LOSS);
        if first {
            let flight = self.in_flight();
            // Fast recovery has reduced the window for these losses: it is reduced once.
            let reduced_before = self.has(flags::RECOVERY);
            let cwnd = if reduced_before { self.ssthresh } else { self.cwnd };
            let (ssthresh, cubic) = (self.ssthresh, (self.w_max, self.epoch_at, self.cubic_k));
            if !reduced_before {
                self.ssthresh = self.reduced(flight, cx);
            }
            let reduced_to = self.ssthresh;
            if let Some(recovery) = self.recovery_state(cx) {
                if reduced_before {
                    recovery.by_timeout = true;
                } else {
                    recovery.begin(true, reduced_to);
                }
                (recovery.prior_cwnd, recovery.prior_ssthresh, recovery.prior_cubic) = (cwnd, ssthresh, cubic);
                recovery.resent_at = None;
            }
        }
        self.clear(flags::RECOVERY | flags::TIMED | flags::PROBED | flags::PROBE);
        self.set(flags::LOSS | flags::OUTPUT);
        self.dup_acks = 0;
        self.cwnd = u32::from(self.mss);
        self.recover = max;
        self.queue_cwr();
        let may_be_spurious = first && self.has(flags::SACK) && self.is_synchronized();
        match self.recovery_state(cx) {
            Some(recovery) => {
                recovery.sent = 0;
                recovery.delivered_at = None;
                (recovery.retransmission_acked, recovery.sacked_old) = (false, false);
                recovery.lost_to = max;
                if recovery.sacked.around(una).is_some() {
                    // The peer has discarded data that it had reported (reneging, RFC 2018 section 8): the scoreboard is void.
                    recovery.sacked = Ranges::EMPTY;
                }
            }
            // Without a scoreboard everything is retransmitted (go-back-N).
            None => self.snd_nxt = una,
        }
        if may_be_spurious && self.recovery != RecoveryIndex::NONE {
            self.set(flags::FRTO);
        } else {
            self.clear(flags::FRTO);
        }
    }

    /// F-RTO (RFC 5682 section 3.1): an acknowledgement advanced `snd_una` after a timeout. After the first, of the retransmitted
    /// segment, new data is sent if there is any. If the next acknowledges data sent before the timeout and not retransmitted, the
    /// timeout was spurious.
    fn frto_new_ack(&mut self, over: bool, cx: &mut Context<'_>) {
        self.set(flags::OUTPUT);
        let (left, room) = (self.snd_end.wrapping_sub(self.snd_nxt), self.snd_wnd > self.in_flight());
        let more = !self.fin_is_sent() && left > 0 && room;
        let recovery = &mut cx.recoveries[self.recovery];
        if recovery.retransmission_acked {
            self.undo(cx);
        } else if over || !more {
            self.clear(flags::FRTO);
        } else {
            (recovery.retransmission_acked, recovery.sacked_old) = (true, false);
            recovery.sent = 0;
        }
    }

    /// Undoes a spurious timeout or fast recovery: restores the congestion state of before.
    fn undo(&mut self, cx: &mut Context<'_>) {
        let recovery = &mut cx.recoveries[self.recovery];
        cx.counters.one(if recovery.by_timeout { Count::SpuriousTimeouts } else { Count::SpuriousRecoveries });
        recovery.lost_to = self.snd_una;
        recovery.sent = 0;
        (recovery.resent, recovery.resent_bytes, recovery.undo_until) = (None, 0, None);
        self.cwnd = self.cwnd.max(recovery.prior_cwnd);
        self.ssthresh = recovery.prior_ssthresh;
        // RFC 9438 section 4.9.1.
        (self.w_max, self.epoch_at, self.cubic_k) = recovery.prior_cubic;
        self.backoff = 0;
        self.clear(flags::LOSS | flags::FRTO | flags::RECOVERY);
        self.dup_acks = 0;
        self.set(flags::OUTPUT);
    }

    /// Eifel detection (RFC 3522): an acknowledgement advanced `snd_una`; if the timestamp it echoes is older than the first
    /// retransmission, the original has arrived and nothing was lost. The response is that of RFC 4015.
    pub(super) fn detect_spurious(&mut self, s: &Segment<'_>, cx: &mut Context<'_>) {
        let Some((_, echo)) = s.timestamps().filter(|_| self.has(flags::TIMESTAMPS)) else { return };
        if self.recovery == RecoveryIndex::NONE || !self.any(flags::RECOVERY | flags::LOSS) {
            return;
        }
        let recovery = &mut cx.recoveries[self.recovery];
        if recovery.resent_at.is_some_and(|at| seq_before(echo, at)) {
            if self.has(flags::RECOVERY) {
                self.widen_reorder_window(cx);
            }
            self.undo(cx);
        }
    }

    /// F-RTO: a duplicate acknowledgement after new data was sent decides whether the timeout was spurious.
    pub(super) fn frto_duplicate_ack(&mut self, cx: &mut Context<'_>) {
        if !self.has(flags::FRTO | flags::LOSS)
            || self.recovery == RecoveryIndex::NONE
            || !cx.recoveries[self.recovery].retransmission_acked
        {
            return;
        }
        if cx.recoveries[self.recovery].sacked_old {
            self.undo(cx);
        } else {
            self.clear(flags::FRTO);
            self.set(flags::OUTPUT);
        }
    }

    /// The first lost bytes: sequence number, and how many at most.
    pub(super) fn next_lost(&self, cx: &Context<'_>) -> Option<(u32, u32)> {
        if self.recovery == RecoveryIndex::NONE || !self.any(flags::RECOVERY | flags::LOSS) {
            return None;
        }
        let recovery = &cx.recoveries[self.recovery];
        if self.has(flags::FRTO) && (recovery.retransmission_acked || recovery.sent > 0) {
            // F-RTO retransmits one segment only, until it is known whether anything was lost.
            return None;
        }
        let (from, to) = recovery.hole(self.snd_una)?;
        Some((from, to.wrapping_sub(from)))
    }

    /// Records a transmission, first or repeated, while recovering.
    pub(super) fn note_sent(&mut self, from: u32, to: u32, cx: &mut Context<'_>) {
        if self.recovery == RecoveryIndex::NONE || !self.any(flags::RECOVERY | flags::LOSS) {
            return;
        }
        let again = seq_before(from, self.recover);
        let recovery = &mut cx.recoveries[self.recovery];
        if again && recovery.resent_at.is_none() {
            recovery.resent_at = Some(cx.now.ms());
        }
        if again {
            let (first, last) = recovery.resent.unwrap_or((from, to));
            recovery.resent = Some((seq_min(first, from), seq_max(last, to)));
            recovery.resent_bytes = recovery.resent_bytes.saturating_add(to.wrapping_sub(from));
        }
        recovery.note(from, to, cx.now.us());
        recovery.prr_out = recovery.prr_out.saturating_add(to.wrapping_sub(from));
    }
}
