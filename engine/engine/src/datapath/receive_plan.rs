// SPDX-License-Identifier: Apache-2.0
//! Preparing a run's receiving side: who keeps which sequence, and the memory for it.
use std::sync::Arc;

use spate_stats::Tracker;

use super::{
    PrepareError, RunSpec,
    prepare::Context,
    worker::{RunReceive, StreamReceive},
};

/// Trackers of all streams and senders together, at most.
const TRACKER_BYTES: usize = 1 << 30;

/// Each worker's receiving part.
pub(super) fn receivers(
    context: &Context<'_>,
    spec: &RunSpec,
    senders: usize,
) -> Result<Vec<RunReceive>, PrepareError> {
    let workers = context.workers.count();
    let measured = spec.streams.iter().filter(|s| s.template.flow()).count();
    let bytes = measured * senders * size_of::<Tracker>();
    if bytes > TRACKER_BYTES {
        return Err(PrepareError {
            field: "streams".into(),
            problem: format!(
                "{measured} measured streams from {senders} workers need {} MiB to tell duplicates, and {} are allowed: measure fewer",
                bytes >> 20,
                TRACKER_BYTES >> 20,
            ),
            exhausted: true,
        });
    }
    let by_id = RunReceive::index_by_id(spec.streams.iter().map(|s| s.template.flow().then_some(s.id)));
    let mut owned = vec![0; workers];
    let streams: Arc<[StreamReceive]> = spec
        .streams
        .iter()
        .map(|s| {
            // A stream that is expected nowhere may come in all the same.
            let owner = context.ports[s.rx_port.unwrap_or(0)].rx_worker;
            let facts = StreamReceive { port: s.rx_port, owner, owned: owned[owner] };
            owned[owner] += usize::from(s.template.flow());
            facts
        })
        .collect();
    let receive = |&owned: &usize| RunReceive {
        by_id: Arc::clone(&by_id),
        streams: Arc::clone(&streams),
        senders,
        trackers: vec![Tracker::new(spate_stats::WINDOW); owned * senders].into(),
    };
    Ok(owned.iter().map(receive).collect())
}
