// SPDX-License-Identifier: Apache-2.0
//! What comes after what has sent its last packet.

/// What starts after something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A stream of the schedule, by index.
    Scheduled(usize),
    /// Something that is on no schedule, by a number of the caller's.
    Elsewhere(usize),
}

impl Next {
    /// The index, or the number.
    pub fn index(self) -> usize {
        match self {
            Self::Scheduled(index) | Self::Elsewhere(index) => index,
        }
    }
}

/// What starts after something, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Successor {
    /// What starts.
    pub next: Next,
    /// How often it is started yet; none: always.
    pub times: Option<u64>,
}

impl Successor {
    /// What starts now; none if it was started as often as it may be.
    pub fn follow(&mut self) -> Option<Next> {
        if self.times == Some(0) {
            return None;
        }
        self.times = self.times.map(|times| times - 1);
        Some(self.next)
    }
}
