// SPDX-License-Identifier: Apache-2.0
//! What many clients have in common and few different ones exist of, such as their routers: kept once, and named by a byte.

/// No entry.
pub(crate) const NONE: u8 = u8::MAX;

/// Entries that are counted: one that no client names any more makes room.
#[derive(Debug)]
pub(crate) struct Interned<T> {
    /// Each with how many clients name it.
    entries: Box<[(T, u32)]>,
}

impl<T: Copy + PartialEq> Interned<T> {
    /// Without entries. `blank` is what a free slot holds.
    pub(crate) fn new(blank: T) -> Self {
        Self { entries: vec![(blank, 0); usize::from(NONE)].into() }
    }

    /// The name of a value from now on; none if there are too many.
    pub(crate) fn take(&mut self, value: &T) -> Option<u8> {
        let same = self.entries.iter().position(|(entry, named)| *named > 0 && entry == value);
        let slot = same.or_else(|| self.entries.iter().position(|(_, named)| *named == 0))?;
        let entry = &mut self.entries[slot];
        *entry = (*value, entry.1 + 1);
        Some(slot as u8)
    }

    /// A client names it no more.
    pub(crate) fn give(&mut self, name: u8) {
        if let Some((_, named)) = self.entries.get_mut(usize::from(name)) {
            *named = named.saturating_sub(1);
        }
    }

    pub(crate) fn get(&self, name: u8) -> Option<&T> {
        self.entries.get(usize::from(name)).filter(|(_, named)| *named > 0).map(|(value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_once_and_as_long_as_it_is_named() {
        let mut interned = Interned::new(0_u32);
        let names: Vec<_> = (0..255).map(|value| interned.take(&value).unwrap()).collect();
        assert_eq!((interned.take(&7), interned.take(&255)), (Some(names[7]), None));
        interned.give(names[7]);
        assert_eq!(interned.get(names[7]), Some(&7));
        interned.give(names[7]);
        assert_eq!(interned.get(names[7]), None);
        assert_eq!(interned.take(&255), Some(names[7]));
        assert_eq!((interned.get(names[7]), interned.get(NONE)), (Some(&255), None));
        interned.give(NONE);
    }
}
