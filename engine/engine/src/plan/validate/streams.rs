// SPDX-License-Identifier: Apache-2.0
//! Checks of a plan's streams.
use super::super::limits::MAX_NAME_CHARS;
use super::super::rate::{self, FrameBytes};
use super::super::site::{SIMULATED, fits};
use super::super::{CheckedStream, PortFacts, Site, Violations, blueprint, engines, replay};
use crate::index::StreamIndex;
use contract::{Plan, Stream, stream::Transmit};
use spate_stateful::FieldPath;
use std::collections::HashMap;

/// Streams of a plan: a packet's trailer has 16 bits for the stream's number.
const MAX_STREAMS: usize = 1 << 16;
/// Maximum number of prebuilt packets of a stream.
pub const MAX_CACHED: u32 = 10_000;

pub(super) fn streams(plan: &Plan, site: &Site, wrong: &mut Violations) -> Vec<CheckedStream> {
    let measures = !plan.reflectors.is_empty() || !plan.receivers.is_empty();
    let others = plan.stateful.is_some() || measures || !plan.clients.is_empty();
    if plan.streams.is_empty() && !others {
        wrong.add("streams", "none; a plan needs at least one, or a template, reflector, receiver or group of clients");
    }
    if plan.streams.len() > MAX_STREAMS {
        let problem =
            format!("{} of them; must be at most {MAX_STREAMS}: divide them over several plans", plan.streams.len());
        wrong.add("streams", problem);
    }
    let mut names = HashMap::new();
    let mut ids = HashMap::new();
    let mut checked = Vec::with_capacity(plan.streams.len());
    for (i, stream) in plan.streams.iter().enumerate() {
        let at = StreamIndex(i).path();
        name(&at, stream, wrong);
        if let Some(first) = names.insert(stream.name.as_str(), i).filter(|_| !stream.name.is_empty()) {
            wrong.add(at.field("name"), format!("{:?} is streams[{first}]'s already; must be unique", stream.name));
        }
        if stream.id > u32::from(u16::MAX) {
            wrong.add(at.field("id"), format!("{}; must be 0..65535", stream.id));
        }
        if let Some(first) = ids.insert(stream.id, i) {
            wrong.add(at.field("id"), format!("{} is streams[{first}]'s already; must be unique", stream.id));
        }
        if let Some(engines) = &stream.engines {
            engines::check(&at.field("engines"), engines, plan.share.as_ref(), wrong);
        }
        if let Some(one) = one_stream(i, stream, site, wrong) {
            checked.push(one);
        }
    }
    let all = plan.streams.iter().enumerate();
    if let Some((one, other)) = engines::half_in_common(all.map(|(i, stream)| (i, stream.engines.as_ref()))) {
        let problem = format!(
            "has engines of streams[{one}].engines, and is another range; an engine sends all streams of a port by one schedule: use \
             equal ranges, or none in common"
        );
        wrong.add(StreamIndex(other).path().field("engines"), problem);
    }
    checked
}

fn name(at: &FieldPath, stream: &Stream, wrong: &mut Violations) {
    let chars = stream.name.chars().count();
    if !(1..=MAX_NAME_CHARS).contains(&chars) {
        wrong.add(at.field("name"), format!("{chars} characters; must be 1..{MAX_NAME_CHARS}"));
    } else if stream.name.chars().any(char::is_control) {
        wrong.add(at.field("name"), "holds a control character; use letters, digits and punctuation");
    }
}

/// The stream, or `None` if it lacks what the rest builds on (then a violation says so).
fn one_stream(index: usize, stream: &Stream, site: &Site, wrong: &mut Violations) -> Option<CheckedStream> {
    let at = StreamIndex(index).path();
    let tx_port = site.port(&at.field("tx_port"), &stream.tx_port, wrong);
    let rx_port = match stream.rx_port.as_str() {
        "" => None,
        name => site.port(&at.field("rx_port"), name, wrong),
    };
    if let Some(Transmit::Replay(asked)) = &stream.transmit {
        let found = replay::replay(&at, stream, asked, tx_port.map(|port| &site[port]), wrong)?;
        return Some(CheckedStream { tx_port: tx_port?, rx_port, ..found });
    }
    if stream.packet.is_none() {
        wrong.add(at.field("packet"), "missing; set frame");
    }
    cache(&at, stream, wrong);
    let (field, rate) = match &stream.transmit {
        Some(Transmit::Continuous(continuous)) => ("continuous.rate", continuous.rate.as_ref()),
        Some(Transmit::Bursts(bursts)) => ("bursts.rate", bursts.rate.as_ref()),
        Some(Transmit::Replay(_)) | None => {
            wrong.add(at.field("transmit"), "missing; set continuous, bursts or replay");
            return None;
        }
    };
    let macs = tx_port.map_or(SIMULATED, |port| site[port].macs);
    stream.packet.as_ref()?;
    let template = blueprint::template(index, stream, macs, wrong);
    let (tx_port, template) = (tx_port?, template?);
    let facts = &site[tx_port];
    mtu(&at.field("packet.frame"), template.frame(), facts, wrong);
    let (sum, count) = template.mean_len();
    match rate::packet_rate(rate, FrameBytes { sum, count }, &facts.name, facts.line_rate) {
        Ok(rate) => Some(CheckedStream { tx_port, rx_port, rate, template, replay: None }),
        Err(error) => {
            wrong.add(at.field(field), error.to_string());
            None
        }
    }
}

fn cache(at: &FieldPath, stream: &Stream, wrong: &mut Violations) {
    let measured = stream.measure.as_ref().is_some_and(|m| m.flow);
    if stream.cache > MAX_CACHED {
        wrong.add(at.field("cache"), format!("{}; must be at most {MAX_CACHED}", stream.cache));
    } else if stream.cache > 0 && measured {
        wrong.add(
            at.field("cache"),
            "cannot be combined with measure.flow, for which every packet is rewritten: leave out one of them",
        );
    }
}

fn mtu(field: &FieldPath, frame: &[u8], port: &PortFacts, wrong: &mut Violations) {
    if let Err(problem) = fits(frame, port) {
        wrong.add(field, format!("{problem} (raise the MTU or shorten the frame)"));
    }
}
