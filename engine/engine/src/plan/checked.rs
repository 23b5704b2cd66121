// SPDX-License-Identifier: Apache-2.0
//! A plan without fault, with what validation worked out of it.
use super::rate::FrameBytes;
use super::{clients::CheckedClients, engines, flows, measure::Measured};
use crate::datapath::ReplaySpec;
use crate::index::PortIndex;
use contract::Stream;
use spate_stateful::{Part, Scenario};
use spate_stateless::{Rate, StreamTiming, Template};
use std::collections::BTreeMap;

/// What validation worked out of one stream.
#[derive(Clone, Debug)]
pub struct CheckedStream {
    /// The port that sends it.
    pub tx_port: PortIndex,
    /// The port that is to receive it.
    pub rx_port: Option<PortIndex>,
    /// Rate of all engines together; `None` where it waits for the line rate ([`LineRate::NotYetKnown`]).
    pub rate: Option<Rate>,
    /// Its packets; of a replay the first, which stands for all where packets are alike.
    pub template: Template,
    /// The capture it replays.
    pub replay: Option<CheckedReplay>,
}

/// A replay without fault.
#[derive(Clone, Debug)]
pub struct CheckedReplay {
    /// What is sent.
    pub spec: ReplaySpec,
    /// The speed: distances (see [`spate_replay::Gap`]) in nanoseconds.
    pub speed: Rate,
    /// Its last packet is due after its first.
    pub takes_time: bool,
}

impl CheckedStream {
    /// The mean length of its frames.
    pub fn frame_bytes(&self) -> FrameBytes {
        let (sum, count) = match &self.replay {
            Some(replay) => {
                let survey = &replay.spec.capture.survey;
                (survey.bytes.into(), survey.packets.into())
            }
            None => self.template.mean_len(),
        };
        FrameBytes { sum, count }
    }

    /// How many engines send what the plan says of it with this one, which is (index, count) of all; 0 if this one sends none of it.
    pub fn part(&self, stream: &Stream, timing: &StreamTiming, share: (u32, u32)) -> u32 {
        let Some((index, count)) = sending_part(stream, share) else { return 0 };
        match &self.replay {
            _ if timing.pinned => u32::from(index == 0),
            Some(replay) => u32::from(replay.spec.engine(count) == index),
            None => count.max(1),
        }
    }

    /// Bytes of its longest and its shortest frame without FCS.
    pub fn longest_and_shortest(&self) -> (usize, usize) {
        match &self.replay {
            Some(replay) => (replay.spec.capture.survey.longest, replay.spec.capture.survey.shortest),
            None => (self.template.frame_len(), self.template.shortest()),
        }
    }
}

/// Which of the engines that send a stream this one is, which is (index, count) of all; none if it is not among them.
pub fn sending_part(stream: &Stream, (index, of): (u32, u32)) -> Option<(u32, u32)> {
    engines::part_of(Part { index, of }, stream.engines.as_ref()).map(|part| (part.index, part.of))
}

/// A plan without fault, with what was worked out of each stream, in the plan's order.
#[derive(Clone, Debug)]
pub struct Checked {
    /// In the plan's order.
    pub streams: Vec<CheckedStream>,
    /// This engine's part of its groups of clients, in the plan's order.
    pub clients: Vec<CheckedClients>,
    /// Its templates.
    pub stateful: Option<Scenario>,
    /// When each stream sends, in the plan's order, `next` by index.
    pub timings: Vec<StreamTiming>,
    /// This engine's part: index and count.
    pub share: (u32, u32),
    /// Bits a second on the medium by port, of enabled streams and of templates, of this engine alone.
    pub port_bits: BTreeMap<PortIndex, u128>,
    /// The part of these bits that templates ask for.
    pub flow_demands: Vec<flows::FlowDemand>,
    /// What is measured where packets arrive.
    pub measured: Measured,
    /// Warnings for the caller before the start.
    pub warnings: Vec<String>,
}
