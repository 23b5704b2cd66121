// SPDX-License-Identifier: Apache-2.0
//! The index of a side of a template, a type of its own: templates and sides are both numbered, and one is not to be taken for the other.

/// A side of a template: the clients of template n are side 2n, its servers the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(super) struct SideIndex(u32);

impl SideIndex {
    /// The side of a template's clients, or of its servers.
    #[inline]
    pub(super) fn of(template: usize, client: bool) -> Self {
        Self(2 * template as u32 + u32::from(!client))
    }

    /// The side that a flow has.
    #[inline]
    pub(super) fn of_flow(side: u16) -> Self {
        Self(side.into())
    }

    /// Its number in a flow.
    #[inline]
    pub(super) fn in_flow(self) -> u16 {
        self.0 as u16
    }

    /// Whether it is the side of clients.
    #[inline]
    pub(super) fn is_client(self) -> bool {
        self.0.is_multiple_of(2)
    }

    /// Index of its template.
    #[inline]
    pub(super) fn template(self) -> usize {
        self.0 as usize / 2
    }

    /// Its position in a list by side.
    #[inline]
    pub(super) fn position(self) -> usize {
        self.0 as usize
    }
}
