// SPDX-License-Identifier: Apache-2.0
//! Which template has the next slot.
use std::cmp::Ordering;

/// How templates take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As evenly as rates allow: a template's k-th slot has the position k / rate in the schedule, and where positions are equal the
    /// template of lower index goes first. So each has its first among the first.
    #[default]
    Even,
    /// Drawn at random in proportion to rates, as TRex does with the seed 555 (on its first thread): the same templates in
    /// the same order. In the long run only do they come to their rates.
    Drawn {
        /// Equal seeds make equal draws.
        seed: u32,
    },
}

/// Templates in turn, by weights. A weight of 0 has none.
#[derive(Clone, Debug)]
pub(super) enum Turns {
    /// Always the same.
    One(usize),
    /// A heap, the next on top.
    Even(Box<[NextSlot]>),
    Drawn(Draws),
}

/// Where a template's next slot is in the schedule: at `turns / weight`.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextSlot {
    turns: u64,
    weight: u64,
    template: usize,
}

/// Draws by a table of cells: a cell is drawn evenly, then one of its two templates (Walker's alias method, 1977).
#[derive(Clone, Debug)]
pub(super) struct Draws {
    state: u32,
    cells: Box<[Cell]>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    first: usize,
    second: usize,
    /// The first if 32 random bits are not more.
    most: u32,
}

impl Turns {
    pub(super) fn new(order: Order, weights: &[u64]) -> Self {
        let some = weights.iter().enumerate().filter(|(_, weight)| **weight > 0);
        let slots: Box<[_]> = some.map(|(template, &weight)| NextSlot { turns: 0, weight, template }).collect();
        match (&*slots, order) {
            ([], _) => Self::One(0),
            ([only], _) => Self::One(only.template),
            // All are at position 0, in the order of templates: that is a heap.
            (_, Order::Even) => Self::Even(slots),
            (_, Order::Drawn { seed }) => Self::Drawn(Draws::new(seed, &slots)),
        }
    }

    /// How often each template had as many turns as its weight, divided by a divisor of all weights: the order stays.
    pub(super) fn pass(&mut self, times: u64, divisor: u64) {
        if let Self::Even(slots) = self {
            for slot in slots {
                slot.turns += times * (slot.weight / divisor);
            }
        }
    }

    #[inline]
    pub(super) fn next(&mut self) -> usize {
        match self {
            Self::One(template) => *template,
            Self::Even(slots) => {
                let template = slots[0].template;
                slots[0].turns += 1;
                sift_down(slots);
                template
            }
            Self::Drawn(draws) => draws.next(),
        }
    }
}

impl NextSlot {
    #[inline]
    fn order(&self, other: &Self) -> Ordering {
        let (a, b) =
            (u128::from(self.turns) * u128::from(other.weight), u128::from(other.turns) * u128::from(self.weight));
        a.cmp(&b).then(self.template.cmp(&other.template))
    }
}

#[inline]
fn sift_down(slots: &mut [NextSlot]) {
    let moving = slots[0];
    let (mut at, mut child) = (0, 1);
    while child < slots.len() {
        if child + 1 < slots.len() && slots[child + 1].order(&slots[child]).is_lt() {
            child += 1;
        }
        if moving.order(&slots[child]).is_lt() {
            break;
        }
        slots[at] = slots[child];
        (at, child) = (child, 2 * child + 1);
    }
    slots[at] = moving;
}

impl Draws {
    /// For n templates, at least 2, there are n - 1 cells of equal chance: each is filled by one that fits into it and by a
    /// part of another. Chances are of 32 bits.
    fn new(seed: u32, slots: &[NextSlot]) -> Self {
        let count = slots.len() as u32 - 1;
        let cell = u32::MAX / count;
        let mut left = chances(slots);
        let last = left.len() - 1;
        let fits = |left: &[u32], from: usize, zero: bool| {
            (from..last).find(|n| left[*n] <= cell && (zero || left[*n] > 0)).unwrap_or(last)
        };
        let (mut small, mut large) = (0, 0);
        let cells = (0..count).map(|_| {
            small = fits(&left, small, false);
            if left[small] > cell {
                small = fits(&left, 0, true);
            }
            let fills = |n: &usize| *n != small && (left[small] >> 1) + (left[*n] >> 1) >= cell >> 1;
            large = (large..last).find(fills).unwrap_or(last);
            let most = match small == large {
                true => 0,
                false if (left[small] >> 1).wrapping_mul(count) >= 1 << 31 => u32::MAX,
                false => left[small].wrapping_mul(count),
            };
            let made = Cell { first: slots[small].template, second: slots[large].template, most };
            if small != large {
                left[large] = left[large].wrapping_sub(cell.wrapping_sub(left[small]));
            }
            left[small] = 0;
            small = if large < small && left[large] < cell { large } else { last.min(small + 1) };
            made
        });
        let cells = cells.collect();
        Self { state: if seed == 0 { 0x333 } else { seed | 1 }, cells }
    }

    /// A linear congruential generator (Marsaglia's multiplier 69069).
    #[inline]
    fn bits(&mut self) -> u32 {
        self.state = self.state.wrapping_mul(69069).wrapping_add(1);
        self.state
    }

    #[inline]
    fn next(&mut self) -> usize {
        let cell = (u64::from(self.bits()) * self.cells.len() as u64) >> 32;
        let Cell { first, second, most } = self.cells[cell as usize];
        if self.bits() <= most { first } else { second }
    }
}

/// Weights as parts of 2^32; what rounding leaves goes to the largest.
fn chances(slots: &[NextSlot]) -> Vec<u32> {
    let sum: f64 = slots.iter().map(|slot| slot.weight as f64).sum();
    let part = |slot: &NextSlot| (slot.weight as f64 / sum * f64::from(u32::MAX)) as u32;
    let mut parts: Vec<u32> = slots.iter().map(part).collect();
    let missing = parts.iter().fold(0u32, |rest, part| rest.wrapping_sub(*part));
    // The first of the largest.
    if let Some(largest) = (0..parts.len()).rev().max_by_key(|n| parts[*n]) {
        parts[largest] = parts[largest].wrapping_add(missing);
    }
    parts
}
