// SPDX-License-Identifier: Apache-2.0
//! Arrival gaps: the longest times without an arrival, as one receiver sees them, and what several receivers make of them.
//!
//! A receiver keeps its longest gaps only, so that a packet costs a subtraction and a comparison. Nothing of several receivers has arrived
//! while all of them have a gap: the gaps of the whole are the intersection of theirs. A gap that was not kept is no longer than the
//! shortest that was, so what an intersection does not show is no longer than that.
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

use crate::Counter;

/// From an instant to another, in nanoseconds of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first instant.
    pub from_ns: u64,
    /// The instant after the last; `u64::MAX`: it has no end yet.
    pub to_ns: u64,
}

impl Span {
    /// All time.
    pub const ALL: Self = Self { from_ns: 0, to_ns: u64::MAX };

    /// Its length.
    pub fn len_ns(self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// What each arrival has to touch: the last one, and which gaps are worth keeping. It has one writer.
#[derive(Debug, Default)]
pub struct LastArrival {
    /// 0: none.
    at_ns: Counter,
    /// Gaps that are longer than this may have to be kept. Control sets it to 0 when it has collected gaps.
    longer_than_ns: Counter,
}

/// The longest gaps of one receiver. It has one writer.
#[derive(Debug)]
pub struct Gaps {
    /// Odd while a slot is written.
    version: AtomicU32,
    kept: Counter,
    /// Once all are taken, a heap with the shortest gap in the first.
    slots: Box<[(Counter, Counter)]>,
    /// Gaps of at most this length were not kept: since the last restart, and between what was collected then and the restart.
    unlisted_ns: [Counter; 2],
    /// Until when gaps are collected; control is its writer.
    collected_ns: Counter,
    /// Until when gaps were collected at the last restart.
    restarted_ns: Counter,
    /// The least delay of the packets that ended gaps, and 1 more; 0: none is known.
    least_delay_ns: Counter,
}

impl LastArrival {
    /// Something arrives. `keep` is called with the instant of the arrival before (0: none) if the gap in between may have to be kept.
    #[inline(always)]
    pub fn arrived(&self, at_ns: u64, keep: impl FnOnce(u64)) {
        let last_ns = self.at_ns.get();
        if at_ns.wrapping_sub(last_ns) > self.longer_than_ns.get() {
            keep(last_ns);
        }
        // Last: a reader of this arrival sees the gap that it ended.
        self.at_ns.set(at_ns);
    }
}

impl Gaps {
    /// Keeps this many gaps, at least 1.
    pub fn new(slots: usize) -> Self {
        Self {
            version: AtomicU32::new(0),
            kept: Counter::default(),
            slots: (0..slots.max(1)).map(|_| Default::default()).collect(),
            unlisted_ns: Default::default(),
            collected_ns: Counter::default(),
            restarted_ns: Counter::default(),
            least_delay_ns: Counter::default(),
        }
    }

    /// Whether none was kept so far.
    pub fn is_empty(&self) -> bool {
        self.kept.get() == 0
    }

    /// Keeps a gap, in place of the shortest if there is no room.
    pub fn keep(&self, last: &LastArrival, gap: Span) {
        let collected_ns = self.collected_ns.get();
        if collected_ns != self.restarted_ns.get() {
            self.restarted_ns.set(collected_ns);
            self.forget(last, collected_ns, self.unlisted_ns[0].get());
        }
        // The clock of another CPU may be behind by a little.
        if gap.to_ns <= gap.from_ns || gap.len_ns() <= self.unlisted_ns[0].get() {
            return;
        }
        let kept = self.kept.get() as usize;
        if kept < self.slots.len() {
            self.write(|| {
                self.set(kept, gap);
                self.kept.set(kept as u64 + 1);
            });
            if kept + 1 == self.slots.len() {
                self.write(|| (0..=kept / 2).rev().for_each(|slot| self.sift_down(slot, self.place(slot))));
                self.limit(last, self.place(0).len_ns());
            }
        } else {
            self.write(|| self.sift_down(0, gap));
            self.limit(last, self.place(0).len_ns());
        }
    }

    /// Gaps of at most this length are kept no more.
    fn limit(&self, last: &LastArrival, unlisted_ns: u64) {
        self.unlisted_ns[0].set(unlisted_ns);
        last.longer_than_ns.set(unlisted_ns);
    }

    /// Notes the delay of a packet.
    pub fn delayed(&self, delay_ns: u64) {
        let least = self.least_delay_ns.get();
        if least == 0 || delay_ns < least - 1 {
            self.least_delay_ns.set(delay_ns.saturating_add(1));
        }
    }

    /// Forgets gaps that ended before an instant.
    pub fn restart(&self, last: &LastArrival, at_ns: u64) {
        self.forget(last, at_ns, 0);
    }

    /// Control has collected the gaps that ended until an instant: with the next arrival the writer forgets them.
    pub fn collected(&self, last: &LastArrival, until_ns: u64) {
        self.collected_ns.set(until_ns);
        // If the writer sets it at this moment, it forgets them with the next gap that is longer.
        last.longer_than_ns.set(0);
    }

    /// Forgets gaps until an instant. Gaps of at most a length after it were not kept.
    fn forget(&self, last: &LastArrival, at_ns: u64, unlisted_ns: u64) {
        let kept = self.kept.get() as usize;
        let mut left = 0;
        self.write(|| {
            for gap in (0..kept).map(|slot| self.place(slot)).filter(|gap| gap.to_ns > at_ns) {
                self.set(left, gap);
                left += 1;
            }
            self.kept.set(left as u64);
            self.unlisted_ns[1].set(unlisted_ns);
        });
        let full = left == self.slots.len();
        self.limit(last, if full { self.unlisted_ns[0].get() } else { 0 });
    }

    /// What it has received, as far as control can know; none if nothing has arrived.
    pub fn read(&self, last: &LastArrival) -> Option<Silence> {
        // Before the gaps: one that this arrival ended is among them.
        let last_ns = last.at_ns.get();
        fence(Acquire);
        if last_ns == 0 {
            return None;
        }
        let (mut spans, unlisted_ns) = loop {
            let version = self.version.load(Acquire);
            let spans: Vec<_> = (0..self.kept.get() as usize).map(|slot| self.place(slot)).collect();
            let unlisted_ns = self.unlisted_ns[0].get().max(self.unlisted_ns[1].get());
            fence(Acquire);
            if version.is_multiple_of(2) && self.version.load(Relaxed) == version {
                break (spans, unlisted_ns);
            }
            std::hint::spin_loop();
        };
        // Gaps that were kept meanwhile ended later.
        let latest_ns = spans.iter().map(|span| span.to_ns).fold(last_ns, u64::max);
        spans.push(Span { from_ns: latest_ns, to_ns: u64::MAX });
        spans.sort_unstable_by_key(|span| span.from_ns);
        let least_delay_ns = self.least_delay_ns.get().checked_sub(1);
        Some(Silence { spans: apart(spans), unlisted_ns, least_delay_ns })
    }

    fn place(&self, slot: usize) -> Span {
        let (from_ns, to_ns) = &self.slots[slot];
        Span { from_ns: from_ns.get(), to_ns: to_ns.get() }
    }

    fn set(&self, slot: usize, gap: Span) {
        let (from_ns, to_ns) = &self.slots[slot];
        from_ns.set(gap.from_ns);
        to_ns.set(gap.to_ns);
    }

    /// Puts a gap into a slot of the heap that slots are once all are taken, in place of what is there, which is no longer: shorter gaps below
    /// it move up.
    fn sift_down(&self, mut slot: usize, gap: Span) {
        let mut below = 2 * slot + 1;
        while below < self.slots.len() {
            let mut shorter = self.place(below);
            if below + 1 < self.slots.len() {
                let other = self.place(below + 1);
                if other.len_ns() < shorter.len_ns() {
                    (below, shorter) = (below + 1, other);
                }
            }
            if gap.len_ns() <= shorter.len_ns() {
                break;
            }
            self.set(slot, shorter);
            (slot, below) = (below, 2 * below + 1);
        }
        self.set(slot, gap);
    }

    /// Readers see all of a change or nothing of it.
    fn write(&self, change: impl FnOnce()) {
        let version = self.version.load(Relaxed);
        self.version.store(version.wrapping_add(1), Relaxed);
        fence(Release);
        change();
        self.version.store(version.wrapping_add(2), Release);
    }
}

/// When nothing arrived, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// In ascending order; they do not overlap.
    pub spans: Vec<Span>,
    /// Spans of at most this length may be missing.
    pub unlisted_ns: u64,
    /// Least delay of the packets that ended a span, where it is known.
    pub least_delay_ns: Option<u64>,
}

impl Silence {
    /// Silence of a receiver at which nothing arrived at all.
    pub fn whole() -> Self {
        Self { spans: vec![Span::ALL], unlisted_ns: 0, least_delay_ns: None }
    }

    /// When nothing arrived at this receiver nor at another.
    pub fn and(self, other: &Self) -> Self {
        Self {
            spans: intersection(&self.spans, &other.spans),
            unlisted_ns: self.unlisted_ns.max(other.unlisted_ns),
            least_delay_ns: self.least_delay_ns.into_iter().chain(other.least_delay_ns).min(),
        }
    }

    /// The part of it in given spans, which are in ascending order and do not overlap.
    pub fn within(&self, spans: &[Span]) -> Self {
        Self { spans: intersection(&self.spans, spans), ..*self }
    }

    /// The longest span, the first of equal ones.
    pub fn longest(&self) -> Option<Span> {
        self.spans.iter().copied().rev().max_by_key(|span| span.len_ns())
    }

    /// The longest spans only.
    pub fn limited(mut self, most: usize) -> Self {
        if self.spans.len() > most {
            self.spans.sort_by_key(|span| std::cmp::Reverse(span.len_ns()));
            self.unlisted_ns = self.unlisted_ns.max(self.spans[most].len_ns());
            self.spans.truncate(most);
            self.spans.sort_unstable_by_key(|span| span.from_ns);
        }
        self
    }
}

/// What several receivers together have not received until an instant, so that they need not keep their gaps until then: the longer they
/// keep them, the longer are those for which they have no room.
#[derive(Clone, Debug)]
pub struct Collected {
    silence: Silence,
    until_ns: u64,
}

/// Spans that are collected.
const COLLECTED: usize = 256;

impl Default for Collected {
    fn default() -> Self {
        Self { silence: Silence { spans: Vec::new(), unlisted_ns: 0, least_delay_ns: None }, until_ns: 0 }
    }
}

impl Collected {
    /// The whole, with what the receivers have now.
    pub fn with(&self, now: &Silence) -> Silence {
        let until_ns = self.until_ns;
        let mut whole = self.silence.clone();
        let mut later = now.within(&[Span { from_ns: until_ns, to_ns: u64::MAX }]).spans;
        let through = now.spans.iter().find(|span| span.from_ns < until_ns && span.to_ns > until_ns);
        if let (Some(through), Some(last), Some(first)) = (through, whole.spans.last_mut(), later.first_mut())
            && (last.to_ns, first.from_ns) == (until_ns, until_ns)
        {
            // It went on, from a later arrival if that was not counted yet when this was collected.
            first.from_ns = through.from_ns.max(last.from_ns);
            last.to_ns = first.from_ns;
            whole.spans.retain(|span| span.len_ns() > 0);
        }
        whole.spans.extend(later);
        whole.unlisted_ns = whole.unlisted_ns.max(now.unlisted_ns);
        whole.least_delay_ns = whole.least_delay_ns.into_iter().chain(now.least_delay_ns).min();
        whole
    }

    /// Collects what the receivers have until an instant, which is later than that of the call before. All that arrived until then has been
    /// counted. Afterwards they may forget gaps that ended until then.
    pub fn collect(&mut self, now: &Silence, until_ns: u64) {
        let mut whole = self.with(now).within(&[Span { from_ns: 0, to_ns: until_ns }]);
        // The gap may go on.
        let last = whole.spans.pop_if(|last| last.to_ns == until_ns);
        whole = whole.limited(COLLECTED);
        whole.spans.extend(last);
        (self.silence, self.until_ns) = (whole, until_ns);
    }
}

/// What is in spans of both, which are in ascending order and do not overlap; so is the result.
pub fn intersection(a: &[Span], b: &[Span]) -> Vec<Span> {
    let (mut i, mut j, mut both) = (0, 0, Vec::new());
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let span = Span { from_ns: x.from_ns.max(y.from_ns), to_ns: x.to_ns.min(y.to_ns) };
        if span.len_ns() > 0 {
            both.push(span);
        }
        if x.to_ns <= y.to_ns {
            i += 1;
        } else {
            j += 1;
        }
    }
    both
}

/// Gaps in ascending order of where they begin, each from where the one before ended: by a clock that was behind they overlap.
fn apart(mut gaps: Vec<Span>) -> Vec<Span> {
    let mut ended_ns = 0;
    for gap in &mut gaps {
        gap.from_ns = gap.from_ns.max(ended_ns);
        ended_ns = ended_ns.max(gap.to_ns);
    }
    gaps.retain(|gap| gap.len_ns() > 0);
    gaps
}

/// All time that is in any of some spans. Spans that touch are one.
pub fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.retain(|span| span.len_ns() > 0);
    spans.sort_unstable_by_key(|span| span.from_ns);
    let mut all: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match all.last_mut() {
            Some(last) if span.from_ns <= last.to_ns => last.to_ns = last.to_ns.max(span.to_ns),
            _ => all.push(span),
        }
    }
    all
}

/// A span without others, which are in ascending order and do not overlap.
pub fn without(span: Span, others: &[Span]) -> Vec<Span> {
    let mut from_ns = span.from_ns;
    let mut left = Vec::new();
    for other in others.iter().filter(|other| other.len_ns() > 0 && other.to_ns > span.from_ns) {
        left.push(Span { from_ns, to_ns: other.from_ns.min(span.to_ns) });
        from_ns = from_ns.max(other.to_ns);
    }
    left.push(Span { from_ns, to_ns: span.to_ns });
    left.retain(|span| span.len_ns() > 0);
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A receiver at which packets arrive at these instants, in ascending order.
    fn receiver(slots: usize, arrivals: &[u64]) -> (LastArrival, Gaps) {
        let (last, gaps) = (LastArrival::default(), Gaps::new(slots));
        for &at_ns in arrivals {
            last.arrived(at_ns, |from_ns| gaps.keep(&last, Span { from_ns, to_ns: at_ns }));
        }
        (last, gaps)
    }

    fn silence(slots: usize, arrivals: &[u64]) -> Silence {
        let (last, gaps) = receiver(slots, arrivals);
        gaps.read(&last).unwrap_or_else(Silence::whole)
    }

    /// All gaps of a window, by the definition, longest first.
    fn oracle(arrivals: &[u64], window: Span) -> Vec<u64> {
        let mut inside: Vec<_> =
            arrivals.iter().copied().filter(|at| (window.from_ns..window.to_ns).contains(at)).collect();
        inside.extend([window.from_ns, window.to_ns]);
        inside.sort_unstable();
        let mut all: Vec<_> = inside.windows(2).map(|pair| pair[1] - pair[0]).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all
    }

    /// Instants of arrivals in ascending order: mostly close to each other, some far apart.
    fn arrivals() -> impl Strategy<Value = Vec<u64>> {
        let gap = prop_oneof![12 => 0u64..20, 3 => 20u64..500, 1 => 500u64..5_000];
        (1u64..2_000, prop::collection::vec(gap, 0..400)).prop_map(|(start, gaps)| {
            gaps.into_iter()
                .scan(start, |at, gap| {
                    *at += gap;
                    Some(*at)
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn one_receiver_knows_its_longest_gaps(arrivals in arrivals(), slots in 1usize..40, from in 0u64..4_000, len in 1u64..9_000) {
            let silence = silence(slots, &arrivals);
            let window = Span { from_ns: 0, to_ns: arrivals.last().map_or(len, |last| last + len) };
            let all = oracle(&arrivals, window);
            let mut kept: Vec<_> = silence.within(&[window]).spans.iter().map(|span| span.len_ns()).collect();
            kept.sort_unstable_by(|a, b| b.cmp(a));
            // The last gap has no end: it is one more.
            prop_assert_eq!(kept.first(), all.first());
            prop_assert!(kept.len() <= slots + 1);
            let missing = all.iter().filter(|gap| **gap > silence.unlisted_ns).count();
            prop_assert_eq!(&kept[..missing], &all[..missing], "longer than {}", silence.unlisted_ns);
            // In a part of the time the longest is known, or no longer than what may be missing.
            let part = Span { from_ns: from, to_ns: from + len };
            let found = silence.within(&[part]).longest().map_or(0, Span::len_ns);
            let truth = oracle(&arrivals, part)[0];
            prop_assert!(found == truth || found < truth && truth <= silence.unlisted_ns, "{found} {truth}");
        }

        #[test]
        fn several_receivers_have_the_gaps_that_all_have(
            all in prop::collection::vec(arrivals(), 1..6), slots in prop_oneof![1usize..12, Just(1_000)], from in 0u64..4_000, len in 1u64..9_000,
        ) {
            let whole = all.iter().fold(Silence::whole(), |whole, one| whole.and(&silence(slots, one)));
            let mut arrivals = all.concat();
            arrivals.sort_unstable();
            let window = Span { from_ns: from, to_ns: from + len };
            let found = whole.within(&[window]).longest().map_or(0, Span::len_ns);
            let truth = oracle(&arrivals, window)[0];
            prop_assert!(found <= truth, "invented: {found} of {truth}");
            prop_assert!(found == truth || truth <= whole.unlisted_ns, "missed: {found} of {truth}, {}", whole.unlisted_ns);
            if slots == 1_000 {
                prop_assert_eq!(found, truth);
            }
            let few = whole.clone().within(&[window]).limited(3);
            prop_assert!(few.spans.len() <= 3 && few.longest() == whole.within(&[window]).longest());
        }

        #[test]
        fn receivers_whose_gaps_are_collected_have_the_same_whole(
            all in prop::collection::vec(arrivals(), 1..5), slots in prop_oneof![1usize..12, Just(1_000)], period in 100u64..3_000, late in 0u64..90,
            from in 0u64..4_000, len in 1u64..9_000,
        ) {
            let receivers: Vec<_> = all.iter().map(|_| (LastArrival::default(), Gaps::new(slots))).collect();
            let mut order: Vec<_> = all.iter().enumerate().flat_map(|(of, all)| all.iter().map(move |at_ns| (*at_ns, of))).collect();
            order.sort_unstable();
            let read = || receivers.iter().fold(Silence::whole(), |whole, (last, gaps)| whole.and(&gaps.read(last).unwrap_or_else(Silence::whole)));
            let (mut collected, mut next_ns, mut greatest_ns) = (Collected::default(), period, 0);
            for &(at_ns, of) in &order {
                while at_ns > next_ns {
                    let now = read();
                    greatest_ns = greatest_ns.max(now.unlisted_ns);
                    collected.collect(&now, next_ns - late);
                    receivers.iter().for_each(|(last, gaps)| gaps.collected(last, next_ns - late));
                    next_ns += period;
                }
                let (last, gaps) = &receivers[of];
                last.arrived(at_ns, |from_ns| gaps.keep(last, Span { from_ns, to_ns: at_ns }));
            }
            let whole = collected.with(&read());
            prop_assert!(whole.spans.windows(2).all(|pair| pair[0].to_ns <= pair[1].from_ns), "{:?}", whole.spans);
            prop_assert!(whole.unlisted_ns >= greatest_ns);
            let mut arrivals = all.concat();
            arrivals.sort_unstable();
            let window = Span { from_ns: from, to_ns: from + len };
            let found = whole.within(&[window]).longest().map_or(0, Span::len_ns);
            let truth = oracle(&arrivals, window)[0];
            prop_assert!(found <= truth, "invented: {found} of {truth}");
            prop_assert!(found == truth || truth <= whole.unlisted_ns, "missed: {found} of {truth}, {}", whole.unlisted_ns);
            if slots == 1_000 && whole.unlisted_ns == 0 {
                prop_assert_eq!(found, truth);
            }
        }

        #[test]
        fn spans_are_cut_and_put_together(cuts in prop::collection::vec((0u64..1_000, 0u64..60), 0..20), from in 0u64..900, len in 1u64..500) {
            let cuts = union(cuts.iter().map(|(from_ns, len)| Span { from_ns: *from_ns, to_ns: from_ns + len }).collect());
            let span = Span { from_ns: from, to_ns: from + len };
            let left = without(span, &cuts);
            let is_in = |spans: &[Span], at: u64| spans.iter().any(|s| (s.from_ns..s.to_ns).contains(&at));
            for at in 0..1_600 {
                prop_assert_eq!(is_in(&left, at), is_in(&[span], at) && !is_in(&cuts, at), "{}", at);
            }
            prop_assert!(left.windows(2).all(|pair| pair[0].to_ns < pair[1].from_ns));
        }
    }

    #[test]
    fn a_restart_keeps_what_ends_later() {
        let (last, gaps) = receiver(2, &[100, 1_000, 5_000, 5_100]);
        assert_eq!(gaps.read(&last).unwrap().unlisted_ns, 900);
        gaps.restart(&last, 4_000);
        let silence = gaps.read(&last).unwrap();
        let span = |from_ns, to_ns| Span { from_ns, to_ns };
        assert_eq!((silence.spans, silence.unlisted_ns), (vec![span(1_000, 5_000), span(5_100, u64::MAX)], 0));
    }

    /// Two receivers have every other of a thousand packets a second each, but for outages: of 5 ms after ten minutes.
    #[test]
    fn gaps_that_are_collected_show_an_outage_of_a_few_packets_after_any_time() {
        const MS: u64 = 1_000_000;
        let longest = |collects: bool| {
            let receivers = [0, 1].map(|_| (LastArrival::default(), Gaps::new(256)));
            let read =
                || receivers.iter().fold(Silence::whole(), |whole, (last, gaps)| whole.and(&gaps.read(last).unwrap()));
            let (mut collected, mut random) = (Collected::default(), 1u64);
            for packet in 1..600_000u64 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at_ns = packet * MS + if packet > 500_000 { 4 * MS } else { 0 };
                let (last, gaps) = &receivers[(random >> 63) as usize];
                last.arrived(at_ns, |from_ns| gaps.keep(last, Span { from_ns, to_ns: at_ns }));
                if collects && packet % 2000 == 0 {
                    collected.collect(&read(), at_ns - 100 * MS);
                    receivers.iter().for_each(|(last, gaps)| gaps.collected(last, at_ns - 100 * MS));
                }
            }
            let whole = collected.with(&read()).within(&[Span { from_ns: 2 * MS, to_ns: 600_000 * MS }]);
            (whole.longest().map(Span::len_ns), whole.unlisted_ns)
        };
        let (found, unlisted_ns) = longest(true);
        assert_eq!(found, Some(5 * MS));
        assert!(unlisted_ns < 5 * MS, "{unlisted_ns}");
        let (_, without_ns) = longest(false);
        assert!(without_ns > 8 * MS, "{without_ns}");
    }

    #[test]
    fn an_arrival_that_was_counted_late_ends_what_was_collected() {
        let (last, gaps) = receiver(4, &[100]);
        let mut collected = Collected::default();
        collected.collect(&gaps.read(&last).unwrap(), 500);
        gaps.collected(&last, 500);
        for at_ns in [300, 900] {
            last.arrived(at_ns, |from_ns| gaps.keep(&last, Span { from_ns, to_ns: at_ns }));
        }
        let whole = collected.with(&gaps.read(&last).unwrap());
        let spans: Vec<_> = whole.spans.iter().map(|span| (span.from_ns, span.to_ns)).collect();
        assert_eq!(spans, [(0, 100), (100, 300), (300, 900), (900, u64::MAX)]);
    }

    #[test]
    fn an_arrival_before_the_last_by_a_clock_that_is_behind_is_in_no_gap() {
        let (last, gaps) = receiver(4, &[100, 90, 120]);
        let spans = gaps.read(&last).unwrap().spans;
        assert_eq!(spans.iter().map(|span| span.from_ns).collect::<Vec<_>>(), [0, 100, 120]);
    }

    #[test]
    fn the_least_delay_is_kept() {
        let gaps = Gaps::new(1);
        assert_eq!(gaps.least_delay_ns.get(), 0);
        [7, 0, 9].into_iter().for_each(|ns| gaps.delayed(ns));
        assert_eq!(gaps.least_delay_ns.get().checked_sub(1), Some(0));
    }

    #[test]
    fn who_reads_while_gaps_are_kept_sees_whole_ones() {
        let (last, gaps) = (LastArrival::default(), Gaps::new(4));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut at_ns = 1;
                for round in 0..200_000u64 {
                    at_ns += 1 + round;
                    last.arrived(at_ns, |from_ns| gaps.keep(&last, Span { from_ns, to_ns: at_ns }));
                }
            });
            while !writer.is_finished() {
                let Some(silence) = gaps.read(&last) else { continue };
                // The gap that ends at 1 + n(n + 1) / 2 is n long.
                for span in silence.spans.iter().filter(|span| span.to_ns != u64::MAX && span.from_ns > 0) {
                    let n = span.len_ns();
                    assert_eq!(span.to_ns, 1 + n * (n + 1) / 2);
                }
            }
        });
    }
}
