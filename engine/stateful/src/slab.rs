// SPDX-License-Identifier: Apache-2.0
//! A fixed number of slots, taken and freed in constant time and addressed by a 32-bit index.

/// Index of no slot.
pub const NONE: u32 = u32::MAX;
/// Slots, at most: the wheel has the upper bit of an index for something else.
pub const MAX_SLOTS: usize = 1 << 31;

/// Slots for `T`; made once, never grown.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Box<[T]>,
    /// By free slot: the next free one. It is apart from the slots, so that these stay out of the caches while they are free.
    free: Box<[u32]>,
    /// How many of `free`, from its start, are free indices.
    left: usize,
}

impl<T: Clone> Slab<T> {
    /// This many slots, all like `blank`.
    ///
    /// # Panics
    /// If they are more than an index can number.
    pub fn new(count: usize, blank: T) -> Self {
        assert!(count <= MAX_SLOTS, "more places than indices");
        // The lowest are taken first.
        Self { slots: vec![blank; count].into(), free: (0..count as u32).rev().collect(), left: count }
    }
}

impl<T> Slab<T> {
    /// Takes a slot; none if all are taken. Its contents are what was left there.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        Some(self.free[self.left])
    }

    /// Frees a slot.
    #[inline]
    pub fn give(&mut self, index: u32) {
        self.free[self.left] = index;
        self.left += 1;
    }

    /// The value in a slot, if there is one.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.slots.get(index as usize)
    }

    /// Slots in all.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Slots taken.
    #[inline]
    pub fn taken(&self) -> usize {
        self.slots.len() - self.left
    }

    /// Slots left.
    #[inline]
    pub fn left(&self) -> usize {
        self.left
    }

    /// The slot that is taken next, if any is left.
    #[inline]
    pub fn next(&self) -> Option<u32> {
        self.left.checked_sub(1).map(|top| self.free[top])
    }

    /// Bytes of this many slots.
    pub const fn bytes(count: usize) -> usize {
        count * (size_of::<T>() + size_of::<u32>())
    }
}

impl<T> core::ops::Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.slots[index as usize]
    }
}

impl<T> core::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.slots[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_taken_once_until_it_is_given_back() {
        let mut slab = Slab::new(3, 0u8);
        let taken: Vec<_> = core::iter::from_fn(|| slab.take()).collect();
        assert_eq!((taken, slab.taken()), (vec![0, 1, 2], 3));
        slab.give(1);
        assert_eq!((slab.next(), slab.take(), slab.take()), (Some(1), Some(1), None));
    }
}
