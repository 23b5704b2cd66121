// SPDX-License-Identifier: Apache-2.0
//! What the RFCs say an end says, segment by segment and in time: the test plays the other end.
#[path = "../net/mod.rs"]
mod net;
mod peer;

mod closing;
mod congestion;
mod defence;
mod loss;
mod opening;
mod receiving;
mod records;
mod states;
mod windows;
