// SPDX-License-Identifier: Apache-2.0
//! What is counted, and how: single-writer counters and the tracking of received sequences.
mod counters;
mod single_writer;
mod tracker;

pub use counters::{PhaseCounters, StreamCounters};
pub use single_writer::{Counter, RxSlot, Sent, TxSlot};
pub use tracker::{Arrival, Tracker, WINDOW};
