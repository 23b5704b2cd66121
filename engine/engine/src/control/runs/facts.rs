// SPDX-License-Identifier: Apache-2.0
//! What stays true of the streams and templates of a run, whatever their rates become.
use contract::Plan;
use spate_stateful::Ratio;
use spate_stateless::StreamTiming;

use crate::datapath::{RateError, StreamRate};
use crate::index::{PortIndex, StreamIndex, TemplateIndex};
use crate::plan::{Checked, CheckedStream, load};

/// What stays true of a template, in the plan's order.
pub(super) struct TemplateFacts {
    pub(super) name: String,
    pub(super) group: String,
    /// Where its clients are; empty if they are elsewhere.
    pub(super) client_port: String,
    /// By port, in bits a second on the medium at that rate.
    pub(super) demands: Vec<(PortIndex, Ratio<u128>)>,
}

/// Facts about a stream that no change of rates affects.
pub struct StreamFacts {
    /// Its name, unique in the run.
    pub name: String,
    /// The name under which the stream is counted.
    pub group: String,
    /// Name of the port that sends it.
    pub tx_port: String,
    /// Name of the port that is to receive it; empty if none is.
    pub rx_port: String,
    /// Whether its packets are measured.
    pub measured: bool,
    /// Whether it replays a capture, which sets the rate.
    pub(super) replayed: bool,
    /// What it asks of its port at the plan's rate.
    pub(super) demand: load::StreamDemand,
}

impl StreamFacts {
    /// What it asks of its port at a rate, unless it is disabled. A replay asks for as much more as its speed is greater than the plan's.
    pub(super) fn demand_at(&self, rate: StreamRate) -> Result<Option<load::StreamDemand>, RateError> {
        let Some((mut rate, planned)) = rate.when_resumed() else { return Ok(None) };
        if self.replayed {
            rate = self.demand.rate.in_proportion(rate, planned)?;
        }
        Ok(Some(load::StreamDemand { rate, ..self.demand }))
    }
}

pub(super) fn stream_facts(plan: &Plan, checked: &Checked) -> Vec<StreamFacts> {
    let chains = load::chains(&checked.timings);
    let streams = plan.streams.iter().zip(&checked.streams).zip(&checked.timings).zip(chains);
    let fact =
        |(((stream, found), timing), chain): (((&contract::Stream, &CheckedStream), &StreamTiming), StreamIndex)| {
            // A rate that is not known is refused before the run is made.
            let rate = found.rate?;
            Some(StreamFacts {
                name: stream.name.clone(),
                group: if stream.group.is_empty() { stream.name.clone() } else { stream.group.clone() },
                tx_port: stream.tx_port.clone(),
                rx_port: stream.rx_port.clone(),
                measured: found.template.flow(),
                demand: load::StreamDemand {
                    port: found.tx_port,
                    chain,
                    starts: !timing.waits,
                    frame_bytes: found.frame_bytes(),
                    rate,
                    part: found.part(stream, timing, checked.share),
                },
                replayed: found.replay.is_some(),
            })
        };
    streams.filter_map(fact).collect()
}

pub(super) fn template_facts(plan: &Plan, checked: &Checked) -> Vec<TemplateFacts> {
    let fact = |(index, template): (usize, &contract::Template)| {
        let demands = checked.flow_demands.iter().filter(|demand| demand.template == TemplateIndex(index));
        TemplateFacts {
            name: template.name.clone(),
            group: if template.group.is_empty() { template.name.clone() } else { template.group.clone() },
            client_port: template.client_port.clone(),
            demands: demands.map(|demand| (demand.port, demand.bits)).collect(),
        }
    };
    plan.stateful.iter().flat_map(|stateful| &stateful.templates).enumerate().map(fact).collect()
}
