// SPDX-License-Identifier: Apache-2.0
//! TCP against the RFCs, segment by segment and in virtual time: the test is the peer.
#[path = "../net/mod.rs"]
mod net;
mod peer;

mod closing;
mod congestion;
mod defence;
mod loss;
mod next_hops;
mod opening;
mod receiving;
mod records;
mod states;
mod windows;
