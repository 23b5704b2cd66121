// SPDX-License-Identifier: Apache-2.0
//! A fixed number of slots, taken and freed in constant time and addressed by a 32-bit index. Each slab has an index type of its own: an
//! index into one is not taken for one into another, nor for a sequence number.

/// Number of no slot.
pub const NONE: u32 = u32::MAX;
/// Slots, at most: the wheel has the upper bit of an index for something else.
pub const MAX_SLOTS: usize = 1 << 31;

/// What is in the slots of a slab.
pub trait Slotted {
    /// Index of a slot.
    type Index: SlotIndex;
}

/// Index of a slot; `slot_index` makes those of this crate.
pub trait SlotIndex: Copy + PartialEq {
    /// No slot.
    const NONE: Self;
    /// The slot with a number.
    fn new(number: u32) -> Self;
    /// Its position in a list by slot.
    fn position(self) -> usize;
}

/// Makes index types of slabs.
macro_rules! slot_index {
    ($($(#[$meaning:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$meaning])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(u32);

        impl $name {
            /// No slot.
            pub const NONE: Self = Self($crate::slab::NONE);

            /// The slot with a number.
            #[inline(always)]
            pub const fn new(number: u32) -> Self {
                Self(number)
            }

            /// Its position in a list by slot.
            #[inline(always)]
            pub const fn position(self) -> usize {
                self.0 as usize
            }
        }

        impl $crate::slab::SlotIndex for $name {
            const NONE: Self = Self::NONE;

            #[inline(always)]
            fn new(number: u32) -> Self {
                Self::new(number)
            }

            #[inline(always)]
            fn position(self) -> usize {
                self.position()
            }
        }
    )+};
}
pub(crate) use slot_index;

/// Slots for `T`; made once, never grown.
#[derive(Debug)]
pub struct Slab<T: Slotted> {
    slots: Box<[T]>,
    /// By free slot: the next free one. It is apart from the slots, so that these stay out of the caches while they are free.
    free: Box<[T::Index]>,
    /// How many of `free`, from its start, are free indices.
    left: usize,
}

impl<T: Slotted + Clone> Slab<T> {
    /// This many slots, all like `blank`.
    ///
    /// # Panics
    /// If they are more than an index can number.
    pub fn new(count: usize, blank: T) -> Self {
        assert!(count <= MAX_SLOTS, "more places than indices");
        // The lowest are taken first.
        Self {
            slots: vec![blank; count].into(),
            free: (0..count as u32).rev().map(T::Index::new).collect(),
            left: count,
        }
    }
}

impl<T: Slotted> Slab<T> {
    /// Takes a slot; none if all are taken. Its contents are what was left there.
    #[inline]
    pub fn take(&mut self) -> Option<T::Index> {
        self.left = self.left.checked_sub(1)?;
        Some(self.free[self.left])
    }

    /// Frees a slot.
    #[inline]
    pub fn give(&mut self, slot: T::Index) {
        self.free[self.left] = slot;
        self.left += 1;
    }

    /// The value in a slot, if there is one.
    #[inline]
    pub fn get(&self, slot: T::Index) -> Option<&T> {
        self.slots.get(slot.position())
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
    pub fn next(&self) -> Option<T::Index> {
        self.left.checked_sub(1).map(|top| self.free[top])
    }

    /// Bytes of this many slots.
    pub const fn bytes(count: usize) -> usize {
        count * (size_of::<T>() + size_of::<T::Index>())
    }
}

impl<T: Slotted> core::ops::Index<T::Index> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: T::Index) -> &T {
        &self.slots[slot.position()]
    }
}

impl<T: Slotted> core::ops::IndexMut<T::Index> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, slot: T::Index) -> &mut T {
        &mut self.slots[slot.position()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    slot_index! {
        /// Index of a test's slot.
        ByteIndex,
    }

    impl Slotted for u8 {
        type Index = ByteIndex;
    }

    #[test]
    fn every_place_is_taken_once_until_it_is_given_back() {
        let mut slab = Slab::new(3, 0u8);
        let taken: Vec<_> = core::iter::from_fn(|| slab.take()).collect();
        assert_eq!((taken, slab.taken()), ([0, 1, 2].map(ByteIndex::new).to_vec(), 3));
        let second = ByteIndex::new(1);
        slab.give(second);
        assert_eq!((slab.next(), slab.take(), slab.take()), (Some(second), Some(second), None));
    }
}
