// SPDX-License-Identifier: Apache-2.0
//! What is counted, and how: single-writer counters, the tracking of received sequences, arrival gaps, delays and their distribution.
//!
//! ```
//! use spate_stats::{Distribution, Histogram};
//!
//! // One worker records; control reads those of all workers together at any time.
//! let delays = Histogram::new();
//! (1..=1000).for_each(|us| delays.record(us * 1000));
//! let all = Distribution::read([&delays].into_iter());
//! assert_eq!(all.total(), 1000);
//! let median_ns = all.quantile(500_000); // in parts per million
//! assert!((490_000..=510_000).contains(&median_ns));
//! ```

mod arrivals;
mod by_tag;
mod counter;
mod counters;
mod delay;
mod gaps;
mod histogram;
mod moments;
mod single_writer;
mod snapshot;
mod times;
mod tracker;

pub use arrivals::{Arrivals, ArrivalsSlot};
pub use by_tag::{TagCounters, TagSlot};
pub use counter::Counter;
pub use counters::{PhaseCounters, StreamCounters};
pub use delay::{DelaySlot, Delays, Transit};
pub use gaps::{Collected, Gaps, LastArrival, Silence, Span, intersection, union, without};
pub use histogram::{Distribution, Histogram, LogDistribution, LogHistogram};
pub use moments::Moments;
pub use single_writer::{RxSlot, Sent, TxSlot};
pub use snapshot::Snapshot;
pub use times::{Timed, Times};
pub use tracker::{Arrival, Queue, Tracker, WIDE_WINDOW, WINDOW};
