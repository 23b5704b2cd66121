// SPDX-License-Identifier: Apache-2.0
//! What devices refuse to be set to.

/// What a device refuses, as virtual functions do that their physical function does not trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The device refuses another MAC address than its own.
    Mac,
    /// Promiscuous mode.
    Promiscuous,
}

impl Refusal {
    /// Its name, as people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mac => "mac",
            Self::Promiscuous => "promiscuous",
        }
    }
}
