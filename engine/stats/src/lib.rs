// SPDX-License-Identifier: Apache-2.0
//! What is counted, and how: single-writer counters and the tracking of received sequences.
mod counters;

pub use counters::{PhaseCounters, StreamCounters};
