// SPDX-License-Identifier: Apache-2.0
//! What an interface wants done: frames to send, and events to report.
use std::net::IpAddr;

use crate::{Mac, PingEvent, Target};

/// Output of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Frames to send, without FCS.
    pub frames: Vec<Vec<u8>>,
    /// Frames to send, and where the time at which each leaves is to be written ([`crate::STAMP`]).
    pub stamped: Vec<(Vec<u8>, usize)>,
    /// Events to report.
    pub events: Vec<Event>,
}

/// Event on the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A neighbour was found.
    Found(Target, Mac),
    /// A neighbour has another MAC than before.
    Moved {
        /// The neighbor.
        target: Target,
        /// Its MAC until now.
        from: Mac,
        /// Its MAC from now on.
        to: Mac,
    },
    /// A neighbour does not answer.
    Lost(Target),
    /// A station with this MAC has an address of this port.
    Conflict(IpAddr, Mac),
    /// Membership is reported in this version from now on, as a querier on the link knows no other.
    Reports(&'static str),
    /// Event of the ping with this number.
    Ping(u64, PingEvent),
}
