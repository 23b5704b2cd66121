// SPDX-License-Identifier: Apache-2.0
//! A plan without fault to what the datapath prepares, on the ports it found.
use super::rate::LineRate;
use super::stateful::MAX_RECORDS;
use super::{Checked, Macs, PortFacts, Violations, sending_part};
use crate::datapath::{self, OnLink, PortDevice, PortInfo, RecordsSpec, RunSpec, StatefulSpec, StreamSpec};
use crate::index::StreamIndex;
use contract::{Plan, stream::Transmit};
use spate_stateful::PortLink;
use std::sync::Arc;

/// A file of `MAX_RECORDS` (1.3 GB) is finished by then on a volume that takes 22 MB a second, even if it took nothing before.
const RECORDS_TIMEOUT_NS: u64 = 60_000_000_000;

/// What validation must know of an open port; `claimed_bits` is what other runs already take of it.
pub fn port_facts(port: &PortInfo, claimed_bits: u128) -> PortFacts {
    PortFacts {
        name: port.name.clone(),
        line_rate: port.line_rate_bps.map_or(LineRate::Unknown, LineRate::Known),
        mtu: (port.mtu > 0).then_some(port.mtu),
        claimed_bits,
        macs: Macs { own: port.mac, next_hop: None },
        loops: Some(matches!(port.device, PortDevice::Loopback | PortDevice::Outlet)),
        workers: port.workers.count() as u32,
    }
}

/// The run of a plan that was validated at the site of these ports; its templates use their `links`.
pub fn run_spec(plan: &Plan, checked: Checked, links: Option<(Vec<PortLink>, OnLink)>) -> Result<RunSpec, Violations> {
    let timing = plan.timing.clone().unwrap_or_default();
    let mut wrong = Violations::default();
    let mut streams = Vec::with_capacity(plan.streams.len());
    let found = checked.streams.into_iter().zip(checked.timings).zip(checked.measured.streams);
    for (i, (stream, ((found, timing), receive))) in plan.streams.iter().zip(found).enumerate() {
        if found.rate.is_none() {
            let mode = mode(stream);
            wrong.add(StreamIndex(i).path().field(mode).field("rate"), "waits for a line rate");
        }
        streams.push(StreamSpec {
            name: stream.name.clone(),
            id: stream.id as u16,
            tx_port: found.tx_port,
            rx_port: found.rx_port,
            part: sending_part(stream, checked.share),
            template: found.template,
            replay: found.replay.map(|replay| replay.spec),
            timing,
            enabled: !stream.disabled,
            paused: stream.paused,
            cache: stream.cache as usize,
            receive,
            next_hop: None,
        });
    }
    let spec = RunSpec {
        run_id: plan.run_id.clone(),
        tag: plan.run_tag as u16,
        timing: datapath::Timing {
            warmup_ns: timing.warmup_ns,
            duration_ns: (timing.duration_ns > 0).then_some(timing.duration_ns),
            drain_ns: timing.drain_ns,
        },
        late_after_ns: (plan.late_after_ns > 0).then_some(plan.late_after_ns),
        share: checked.share,
        streams,
        stateful: checked.stateful.map(|scenario| {
            let (links, on_link) = links.unwrap_or_default();
            let records =
                plan.stateful.as_ref().and_then(|asked| asked.records.as_ref()).map(|asked| records(plan, asked));
            StatefulSpec { scenario: Arc::new(scenario), links, on_link, records }
        }),
        measure: checked.measured.run,
    };
    wrong.or(spec)
}

/// The run's name for people and metrics.
pub fn run_name(plan: &Plan) -> &str {
    if plan.run.is_empty() { &plan.run_id } else { &plan.run }
}

fn records(plan: &Plan, asked: &contract::Records) -> RecordsSpec {
    RecordsSpec {
        run: run_name(plan).to_owned(),
        one_in: asked.one_in,
        path: (!asked.path.is_empty()).then(|| asked.path.clone().into()),
        most: if asked.most == 0 { MAX_RECORDS } else { asked.most },
        within_ns: RECORDS_TIMEOUT_NS,
    }
}

/// The name of a stream's transmit mode in the plan.
pub fn mode(stream: &contract::Stream) -> &'static str {
    match &stream.transmit {
        Some(Transmit::Bursts(_)) => "bursts",
        Some(Transmit::Replay(_)) => "replay",
        Some(Transmit::Continuous(_)) | None => "continuous",
    }
}
