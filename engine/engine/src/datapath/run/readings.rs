// SPDX-License-Identifier: Apache-2.0
//! What a run has measured where packets arrive, as control reads it.
use spate_net::TagList;
use spate_stats::{Arrivals, Delays, Distribution, Histogram, TagCounters};

use crate::datapath::Run;
use crate::index::{StreamIndex, WorkerIndex};

/// Measurements of a receiver.
#[derive(Clone, Debug)]
pub struct Received {
    /// By worker that receives from its port.
    pub workers: Vec<(WorkerIndex, Arrivals)>,
    /// When that began, in wall-clock nanoseconds since the epoch; none before the run's start.
    pub since_wall_ns: Option<u64>,
}

impl Received {
    /// What all workers measured together: inter-arrival times and jitter are those of each worker's own packets.
    pub fn total(&self) -> Arrivals {
        self.workers.iter().fold(Arrivals::default(), |sum, (_, arrivals)| sum.with(*arrivals))
    }
}

impl Run {
    /// Delays of the measured phase, of some streams together; none if the delays of none of them are measured.
    pub fn delays(&self, streams: &[StreamIndex]) -> Option<Delays> {
        let places: Vec<_> = streams.iter().filter_map(|stream| self.delays[stream.0]).collect();
        if places.is_empty() {
            return None;
        }
        let slots = self.shares.iter().flat_map(|share| places.iter().filter_map(|p| share.delays.get(*p as usize)));
        Some(Delays::merge(slots))
    }

    /// How the delays that were counted in a histogram (see `StreamReceive`) are distributed.
    pub fn distribution(&self, histogram: usize) -> Distribution {
        Distribution::read(self.shares.iter().filter_map(|share| share.histograms.get(histogram)?.as_ref()))
    }

    /// Memory that its histograms take.
    pub fn histogram_bytes(&self) -> usize {
        self.shares.iter().flat_map(|share| &share.histograms).flatten().count() * Histogram::BYTES
    }

    /// What was counted by the tags of a list (index in `Measure::by_tag`) in the measured phase: the list, and the counters of each of its
    /// numbers.
    ///
    /// # Panics
    /// If there is no such list.
    pub fn counters_by_tag(&self, list: usize) -> (&TagList, Vec<TagCounters>) {
        let tags = &self.by_tag[list];
        let mut sums = vec![TagCounters::default(); tags.numbers()];
        for share in &self.shares {
            for (sum, slot) in sums.iter_mut().zip(&share.by_tag[list]) {
                *sum += TagCounters::from(slot);
            }
        }
        (tags, sums)
    }

    /// What its receivers measured, in the order of `Measure::receivers`.
    pub fn received(&self) -> Vec<Received> {
        let control = self.control();
        let received = |(index, receiver): (usize, &super::Receiver)| Received {
            workers: receiver.workers.iter().map(|w| (*w, self.shares[w.0].receivers[index].read())).collect(),
            since_wall_ns: Some(receiver.since_wall_ns).filter(|since| *since > 0).or(control.started_at_wall_ns),
        };
        control.receivers.iter().enumerate().map(received).collect()
    }
}
