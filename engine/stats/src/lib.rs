// SPDX-License-Identifier: Apache-2.0
//! What is counted, and how: single-writer counters, the tracking of received sequences, arrival gaps, delays and their distribution.
#![forbid(unsafe_code)]

mod arrivals;
mod counters;
mod delay;
mod gaps;
mod histogram;
mod moments;
mod single_writer;
mod times;
mod tracker;

pub use arrivals::{Arrivals, ArrivalsSlot};
pub use counters::{PhaseCounters, StreamCounters};
pub use delay::{DelaySlot, Delays, Transit};
pub use gaps::{Collected, Gaps, LastArrival, Silence, Span, intersection, union, without};
pub use histogram::{Distribution, Histogram, LogDistribution, LogHistogram};
pub use moments::Moments;
pub use single_writer::{Counter, RxSlot, Sent, TxSlot};
pub use times::{Timed, Times};
pub use tracker::{Arrival, Queue, Tracker, WIDE_WINDOW, WINDOW};
