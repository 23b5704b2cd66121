// SPDX-License-Identifier: Apache-2.0
//! Timers of flows: three wheels of 2048 slots; 1024 slots of one pass while one of the next does.
//!
//! A flow has one entry, at the earliest of its deadlines or before it: a deadline that moves away leaves the entry where
//! it is, and the flow's deadlines are checked again when it expires (most retransmission timers never are). Entries are links in the
//! flows themselves. What lies in a slot of a higher wheel moves down in small portions while the slot before it passes, not
//! at once: that is why a wheel reaches twice as far as a slot of the next is long.
use crate::slab::NONE;

/// Nanoseconds of a tick, as a power of two: 16.4 us.
pub const TICK_SHIFT: u32 = 14;
const SLOTS: u32 = 2048;
/// Slots that pass while one of the next wheel does, as a power of two.
const BITS: u32 = 10;
const WHEELS: u32 = 3;
/// An entry for a later tick would come up after this: 9.8 h. Deadlines that are further away have laps.
const SPAN: u32 = (SLOTS - 1) << (BITS * (WHEELS - 1));
/// Ticks of a lap: 4.9 h. Ticks of 32 bits compare over half of their range, 9.8 h: a deadline that is further away than a lap is
/// reached lap by lap, and what waits for it keeps how many are left.
pub const LAP: u32 = 1 << LAP_BITS;
const LAP_BITS: u32 = 30;
/// Entries that move down from a wheel with each tick.
const PORTION: usize = 32;

/// The tick at an instant; deadlines are rounded up with `tick_after`.
#[inline]
pub fn tick_at(ns: u64) -> u32 {
    (ns >> TICK_SHIFT) as u32
}

/// The first tick that begins at or after an instant.
#[inline]
pub fn tick_after(ns: u64) -> u32 {
    (ns.wrapping_add((1 << TICK_SHIFT) - 1) >> TICK_SHIFT) as u32
}

/// Ticks of a time, rounded up, as whole laps and the ticks that are left.
#[inline]
pub fn laps_of(ns: u64) -> (u32, u32) {
    split((ns >> TICK_SHIFT) + u64::from(ns & ((1 << TICK_SHIFT) - 1) > 0))
}

/// The first tick that begins at or after the end of a time from an instant on: when its last lap begins, and the laps before it.
#[inline]
pub fn deadline(now_ns: u64, ns: u64) -> (u32, u32) {
    let end = now_ns.saturating_add(ns).saturating_add((1 << TICK_SHIFT) - 1) >> TICK_SHIFT;
    let (laps, _) = split(end - (now_ns >> TICK_SHIFT));
    ((end as u32).wrapping_sub(laps.wrapping_mul(LAP)), laps)
}

#[inline]
fn split(ticks: u64) -> (u32, u32) {
    ((ticks >> LAP_BITS) as u32, ticks as u32 & (LAP - 1))
}

/// Whether one tick lies before another, at most half of their range apart.
#[inline]
pub fn before(tick: u32, other: u32) -> bool {
    (tick.wrapping_sub(other) as i32) < 0
}

/// The slot for one of a wheel's revolutions, of all wheels' slots.
#[inline]
fn slot_of(wheel: u32, turn: u32) -> usize {
    (wheel * SLOTS + (turn & (SLOTS - 1))) as usize
}

/// The first of some slots that is not empty; `N` at a time are passed.
#[inline]
fn first_taken<const N: usize>(heads: &[u32]) -> Option<usize> {
    // Vectors pass those that are empty: an entry has a lower number than none.
    let taken = |heads: &[u32; N]| heads.iter().fold(NONE, |all, head| all & head) != NONE;
    let (vectors, rest) = heads.as_chunks::<N>();
    let passed = N * vectors.iter().position(taken).unwrap_or(vectors.len());
    let within = if passed < heads.len() - rest.len() { &heads[passed..passed + N] } else { rest };
    Some(passed + within.iter().position(|head| *head != NONE)?)
}

/// A flow's entry.
#[derive(Clone, Copy, Debug)]
pub struct TimerNode {
    next: u32,
    /// The entry before it; of the first in a slot: its slot, with `FIRST`.
    prev: u32,
    /// Tick at which the entry expires.
    at: u32,
}

const FIRST: u32 = 1 << 31;
/// In `next` of an entry that is in no slot: see `TimerNode::elsewhere`. No index.
const ELSEWHERE: u32 = NONE - 1;

impl TimerNode {
    /// An entry that is in no slot.
    pub const FREE: Self = Self { next: NONE, prev: NONE, at: 0 };

    /// In no slot: something else than the wheel waits for a tick.
    pub const fn elsewhere(at: u32) -> Self {
        Self { next: ELSEWHERE, prev: NONE, at }
    }

    /// Whether it is that.
    #[inline]
    pub fn is_elsewhere(&self, at: u32) -> bool {
        self.prev == NONE && self.next == ELSEWHERE && self.at == at
    }

    /// Tick at which the entry expires, if it is in a slot.
    #[inline]
    pub fn at(&self) -> Option<u32> {
        (self.prev != NONE).then_some(self.at)
    }
}

/// Where entries are.
pub trait TimerNodes {
    /// The entry of a flow.
    fn link(&mut self, index: u32) -> &mut TimerNode;
}

/// The wheels.
#[derive(Debug)]
pub struct Wheel {
    /// First entries, by wheel and slot.
    heads: Box<[u32]>,
    /// The next tick to come up.
    now: u32,
    len: usize,
}

impl Wheel {
    /// Bytes of one.
    pub const BYTES: usize = (WHEELS * SLOTS) as usize * size_of::<u32>();

    /// Empty, at a tick.
    pub fn new(now: u32) -> Self {
        Self { heads: vec![NONE; (WHEELS * SLOTS) as usize].into(), now, len: 0 }
    }

    /// Entries in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets an entry for a tick; one that has passed comes up at once. It must be in no slot.
    #[inline]
    pub fn set(&mut self, links: &mut impl TimerNodes, index: u32, at: u32) {
        let at = if before(at, self.now) { self.now } else { at };
        let at = if at.wrapping_sub(self.now) > SPAN { self.now.wrapping_add(SPAN) } else { at };
        self.len += 1;
        self.put(links, index, at);
    }

    /// Sets an entry for another tick, or for its first.
    #[inline(never)]
    pub fn reset(&mut self, links: &mut impl TimerNodes, index: u32, at: u32) {
        self.cancel(links, index);
        self.set(links, index, at);
    }

    /// Takes an entry out, if it is in a slot.
    #[inline]
    pub fn cancel(&mut self, links: &mut impl TimerNodes, index: u32) {
        if links.link(index).prev != NONE {
            self.take_out(links, index);
            self.len -= 1;
        }
    }

    /// Advances up to a tick, and takes the next entry out that expires until then; none if there is no more.
    #[inline]
    pub fn take_due(&mut self, links: &mut impl TimerNodes, to: u32) -> Option<u32> {
        if self.len == 0 {
            if before(self.now, to) {
                self.now = to;
            }
            return None;
        }
        while !before(to, self.now) {
            let index = self.heads[slot_of(0, self.now)];
            if index != NONE {
                self.take_out(links, index);
                self.len -= 1;
                return Some(index);
            }
            if self.now == to {
                // More may be set for this tick.
                return None;
            }
            self.go_on(links, to);
        }
        None
    }

    /// Passes ticks on which nothing expires, at least one and not beyond `to`.
    #[inline]
    fn go_on(&mut self, links: &mut impl TimerNodes, to: u32) {
        if to.wrapping_sub(self.now) > SLOTS {
            self.skip(to);
            if self.now == to {
                return;
            }
        }
        let last = self.now | ((1 << BITS) - 1);
        let comes_down = |wheel: u32| self.heads[slot_of(wheel, (self.now >> (BITS * wheel)).wrapping_add(1))] != NONE;
        if !(1..WHEELS).any(comes_down) {
            // No entry moves down in this revolution of the lowest wheel.
            let end = if before(to, last) { to } else { last };
            // Ticks of a revolution have slots in a row.
            let first = slot_of(0, self.now) + 1;
            if let Some(passed) = first_taken::<8>(&self.heads[first..first + end.wrapping_sub(self.now) as usize]) {
                self.now = self.now.wrapping_add(1 + passed as u32);
                return;
            }
            self.now = end;
            if self.now == to {
                return;
            }
        }
        self.now = self.now.wrapping_add(1);
        self.turn(links);
    }

    /// Skips revolutions with only empty slots, up to the tick before the first that something may come up in. A worker
    /// has no such pauses; a clock that need not wait has.
    #[cold]
    fn skip(&mut self, to: u32) {
        if let Some(first) = self.first_turn() {
            let before_it = first.wrapping_sub(1);
            let end = if before(to, before_it) { to } else { before_it };
            if before(self.now, end) {
                self.now = end;
            }
        }
    }

    /// Number of empty slots of a wheel from that of a revolution on; none if all are empty.
    fn empty_from(&self, wheel: u32, turn: u32) -> Option<u32> {
        let first = slot_of(0, turn);
        let (before, from) = self.heads[slot_of(wheel, 0)..][..SLOTS as usize].split_at(first);
        let ahead = first_taken::<32>(from).or_else(|| Some(from.len() + first_taken::<32>(before)?))?;
        Some(ahead as u32)
    }

    /// The first tick of the first revolution with anything in a slot; none if something is in the slots that pass now.
    fn first_turn(&self) -> Option<u32> {
        let mut first: Option<u32> = None;
        for wheel in 0..WHEELS {
            let turn = self.now >> (BITS * wheel);
            let Some(ahead) = self.empty_from(wheel, turn) else { continue };
            if ahead == 0 {
                return None;
            }
            let at = turn.wrapping_add(ahead) << (BITS * wheel);
            first = Some(first.filter(|first| before(*first, at)).unwrap_or(at));
        }
        first
    }

    /// A tick begins: what is in higher wheels comes nearer.
    #[inline]
    fn turn(&mut self, links: &mut impl TimerNodes) {
        for wheel in (1..WHEELS).rev() {
            let turn = self.now >> (BITS * wheel);
            let begins = self.now & ((1 << (BITS * wheel)) - 1) == 0;
            if begins {
                self.descend(links, wheel, turn, usize::MAX);
            }
            self.descend(links, wheel, turn.wrapping_add(1), PORTION);
        }
    }

    /// A tick before which nothing comes up; none if there is no entry.
    pub fn next(&self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let left = (1 << BITS) - (self.now & ((1 << BITS) - 1));
        let slot = self.empty_from(0, self.now).filter(|empty| *empty < left);
        let Some(slot) = slot else { return Some(self.first_turn().unwrap_or(self.now.wrapping_add(left))) };
        Some(self.now.wrapping_add(slot))
    }

    /// Moves up to this many entries of a slot one wheel down.
    #[inline]
    fn descend(&mut self, links: &mut impl TimerNodes, wheel: u32, turn: u32, most: usize) {
        let slot = slot_of(wheel, turn);
        for _ in 0..most {
            let index = self.heads[slot];
            if index == NONE {
                break;
            }
            self.take_out(links, index);
            let at = links.link(index).at;
            self.put_at(links, index, wheel - 1, at);
        }
    }

    #[inline]
    fn put(&mut self, links: &mut impl TimerNodes, index: u32, at: u32) {
        let near = |wheel: u32| (at >> (BITS * wheel)).wrapping_sub(self.now >> (BITS * wheel)) < SLOTS;
        let wheel = if near(0) { 0 } else { 1 + u32::from(!near(1)) };
        self.put_at(links, index, wheel, at);
    }

    #[inline]
    fn put_at(&mut self, links: &mut impl TimerNodes, index: u32, wheel: u32, at: u32) {
        let slot = slot_of(wheel, at >> (BITS * wheel));
        let head = core::mem::replace(&mut self.heads[slot], index);
        if head != NONE {
            links.link(head).prev = index;
        }
        *links.link(index) = TimerNode { next: head, prev: FIRST | slot as u32, at };
    }

    #[inline]
    fn take_out(&mut self, links: &mut impl TimerNodes, index: u32) {
        let link = *links.link(index);
        if link.prev & FIRST != 0 {
            self.heads[(link.prev & !FIRST) as usize] = link.next;
        } else {
            links.link(link.prev).next = link.next;
        }
        if link.next != NONE {
            links.link(link.next).prev = link.prev;
        }
        links.link(index).prev = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl TimerNodes for Vec<TimerNode> {
        fn link(&mut self, index: u32) -> &mut TimerNode {
            &mut self[index as usize]
        }
    }

    #[test]
    fn a_far_deadline_is_the_tick_at_its_end_after_its_laps() {
        const HOUR: u64 = 3_600_000_000_000;
        for ns in [0, 1, 4 * HOUR, 9 * HOUR, 12 * HOUR, 24 * HOUR, 30 * 24 * HOUR, 10 * 365 * 24 * HOUR] {
            for now in [0, 1, 16_383, 16_384, 123_456_789_012_345, 5_000 * HOUR + 7] {
                let (at, laps) = deadline(now, ns);
                let ticks = u64::from(at.wrapping_sub(tick_at(now))) + (u64::from(laps) << 30);
                assert_eq!((now >> TICK_SHIFT) + ticks, (now + ns).div_ceil(1 << TICK_SHIFT), "{now} + {ns}");
                assert!(at.wrapping_sub(tick_at(now)) < LAP && laps <= u32::from(u16::MAX));
                let (laps, rest) = laps_of(ns);
                assert_eq!((u64::from(laps) << 30) + u64::from(rest), ns.div_ceil(1 << TICK_SHIFT));
            }
        }
    }

    proptest! {
        #[test]
        fn entries_come_up_at_their_tick(
            start in any::<u32>(),
            steps in prop::collection::vec(
                (
                    0u32..20,
                    prop_oneof![0u32..3000, 0u32..3_000_000, 0u32..=LAP],
                    prop_oneof![4 => 0u32..5000, 1 => 0u32..5_000_000],
                    any::<bool>(),
                ),
                1..200,
            ),
        ) {
            let mut links = vec![TimerNode::FREE; 20];
            let mut wheel = Wheel::new(start);
            let mut model = [None; 20];
            let mut now = start;
            for (index, ahead, go, cancel) in steps {
                wheel.cancel(&mut links, index);
                model[index as usize] = None;
                if !cancel {
                    wheel.set(&mut links, index, now.wrapping_add(ahead));
                    model[index as usize] = Some(now.wrapping_add(ahead));
                }
                prop_assert_eq!(links[index as usize].at(), model[index as usize]);
                let next = wheel.next();
                if let Some(next) = next {
                    prop_assert!(model.iter().flatten().all(|at| !before(*at, next)));
                }
                let to = now.wrapping_add(go);
                let mut last = now;
                while let Some(index) = wheel.take_due(&mut links, to) {
                    let at = model[index as usize].take().expect("it was set");
                    prop_assert_eq!(links[index as usize].at(), None);
                    prop_assert!(!before(at, last), "in order");
                    last = at;
                    prop_assert!(!before(to, at), "not before its time");
                }
                prop_assert!(model.iter().flatten().all(|at| before(to, *at)), "none is missed");
                prop_assert_eq!(wheel.len(), model.iter().flatten().count());
                now = to;
            }
        }
    }
}
