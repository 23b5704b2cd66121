// SPDX-License-Identifier: Apache-2.0
//! Which flow has this hash? Open addressing with linear probing: a cell is a flow's index and 32 bits of its hash, so
//! that a search reads one or two cache lines here and only then the flow itself. Removal moves later cells back instead of
//! leaving a mark, so a table never has to be rebuilt, however many flows come and go.
use spate_arch::fetch;

use crate::slab::SlotIndex;

/// From hashes to indices. The fewer of its cells are taken the sooner a search ends.
#[derive(Debug)]
pub struct Table<I> {
    cells: Box<[Cell<I>]>,
    len: usize,
    most: usize,
}

#[derive(Clone, Copy, Debug)]
struct Cell<I> {
    hash: u32,
    index: I,
}

impl<I: SlotIndex> Cell<I> {
    const EMPTY: Self = Self { hash: 0, index: I::NONE };
}

impl<I: SlotIndex> Table<I> {
    /// For up to `flows` flows, with `spare` spare cells.
    pub fn new(flows: usize, spare: usize) -> Self {
        Self { cells: vec![Cell::EMPTY; Self::cells(flows, spare)].into(), len: 0, most: flows }
    }

    /// Number of cells: at least one more than flows, as a search ends at an empty one.
    const fn cells(flows: usize, spare: usize) -> usize {
        flows + spare + 1
    }

    /// Bytes of such a table.
    pub const fn bytes(flows: usize, spare: usize) -> usize {
        Self::cells(flows, spare) * size_of::<Cell<I>>()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The cell where a search for a hash begins: as far into the table as the hash is into what hashes can be, so that a table
    /// may have any number of cells.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.cells.len() as u64) >> 32) as usize
    }

    /// The next cell.
    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.cells.len() { 0 } else { at + 1 }
    }

    /// Distance from another cell to this one.
    #[inline]
    fn behind(&self, at: usize, other: usize) -> usize {
        if at < other { at + self.cells.len() - other } else { at - other }
    }

    /// The flow with this hash that `is` says it is.
    #[inline(always)]
    pub fn find(&self, hash: u32, mut is: impl FnMut(I) -> bool) -> Option<I> {
        let mut at = self.home(hash);
        loop {
            let cell = self.cells[at];
            if cell.index == I::NONE {
                return None;
            }
            if cell.hash == hash && is(cell.index) {
                return Some(cell.index);
            }
            at = self.after(at);
        }
    }

    /// The first flow with this hash, most often the one, or `NONE`.
    #[inline]
    pub fn first(&self, hash: u32) -> I {
        let mut at = self.home(hash);
        while self.cells[at].hash != hash && self.cells[at].index != I::NONE {
            at = self.after(at);
        }
        self.cells[at].index
    }

    /// Fetches that cell, and the next: one in eight lies in another line.
    #[inline]
    pub fn fetch(&self, hash: u32) {
        let at = self.home(hash);
        fetch(&self.cells[at]);
        if let Some(next) = self.cells.get(at + 1) {
            fetch(next);
        }
    }

    /// Adds a flow that is not there.
    ///
    /// # Panics
    /// If it holds as many as it was made for.
    #[inline]
    pub fn insert(&mut self, hash: u32, index: I) {
        assert!(self.len < self.most, "more flows than the table was made for");
        let mut at = self.home(hash);
        while self.cells[at].index != I::NONE {
            at = self.after(at);
        }
        self.cells[at] = Cell { hash, index };
        self.len += 1;
    }

    /// Removes a flow. False if it is not there.
    #[inline]
    pub fn remove(&mut self, hash: u32, index: I) -> bool {
        let mut hole = self.home(hash);
        while self.cells[hole].index != index {
            if self.cells[hole].index == I::NONE {
                return false;
            }
            hole = self.after(hole);
        }
        self.len -= 1;
        let mut at = hole;
        loop {
            at = self.after(at);
            let cell = self.cells[at];
            if cell.index == I::NONE {
                break;
            }
            // The entry may move into the hole if that is not before the start of its search.
            if self.behind(at, self.home(cell.hash)) >= self.behind(at, hole) {
                self.cells[hole] = cell;
                hole = at;
            }
        }
        self.cells[hole] = Cell::EMPTY;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::FlowIndex;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((any::<bool>(), 0u32..40), 0..400), spare in 0usize..40) {
            let mut table = Table::new(40, spare);
            let mut map = HashMap::new();
            // Few hashes, so that they collide and probe around the end.
            let hash = |index: u32| if index.is_multiple_of(2) { u32::MAX - index % 7 } else { index % 5 };
            for (add, index) in steps {
                if add {
                    if map.insert(index, hash(index)).is_none() {
                        table.insert(hash(index), FlowIndex::new(index));
                    }
                } else {
                    prop_assert_eq!(table.remove(hash(index), FlowIndex::new(index)), map.remove(&index).is_some());
                }
                prop_assert_eq!(table.len(), map.len());
                for index in 0..40 {
                    let found = table.find(hash(index), |found| found == FlowIndex::new(index));
                    prop_assert_eq!(found.is_some(), map.contains_key(&index));
                }
            }
        }
    }
}
