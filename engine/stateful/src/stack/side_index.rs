// SPDX-License-Identifier: Apache-2.0
//! Indices of templates and of their sides, types of their own: templates, sides and ports are all numbered, and one is not to be taken for
//! another.

/// A template in the order of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(super) struct TemplateIndex(u32);

impl TemplateIndex {
    /// The template at a position of the scenario's list.
    #[inline]
    pub(super) fn new(position: usize) -> Self {
        Self(position as u32)
    }

    /// Its position in a list by template.
    #[inline]
    pub(super) fn position(self) -> usize {
        self.0 as usize
    }
}

/// A side of a template: the clients of template n are side 2n, its servers the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(super) struct SideIndex(u32);

impl SideIndex {
    /// The side of a template's clients, or of its servers.
    #[inline]
    pub(super) fn of(template: TemplateIndex, client: bool) -> Self {
        Self(2 * template.0 + u32::from(!client))
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

    /// Its template.
    #[inline]
    pub(super) fn template(self) -> TemplateIndex {
        TemplateIndex(self.0 / 2)
    }

    /// Its position in a list by side.
    #[inline]
    pub(super) fn position(self) -> usize {
        self.0 as usize
    }
}
