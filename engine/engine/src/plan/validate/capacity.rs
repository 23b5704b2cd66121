// SPDX-License-Identifier: Apache-2.0
//! Demand of a plan on ports and memory: refusals and warnings.
use super::super::rate::LineRate;
use super::super::{Checked, Site, Violation, Violations, load};
use crate::index::{PortIndex, StreamIndex, TemplateIndex};
use contract::Plan;
use spate_stateful::program::Side;
use std::collections::BTreeMap;

/// Bits a second on the medium by port, of enabled streams of this engine.
pub(super) fn port_bits(plan: &Plan, checked: &Checked) -> BTreeMap<PortIndex, u128> {
    let chains = load::chains(&checked.timings);
    let asks = plan.streams.iter().zip(&checked.streams).zip(&checked.timings).zip(chains);
    let asks = asks.filter(|(((stream, _), _), _)| !stream.disabled).filter_map(|(((stream, one), timing), chain)| {
        let (starts, part) = (!timing.waits, one.part(stream, timing, checked.share));
        Some(load::StreamDemand {
            port: one.tx_port,
            chain,
            starts,
            frame_bytes: one.frame_bytes(),
            rate: one.rate?,
            part,
        })
    });
    load::by_port(asks)
}

/// Refuses rates beyond the line rate of a port. `asked` are bits a second of this engine by port.
pub fn capacity(asked: &BTreeMap<PortIndex, u128>, field: &'static str, site: &Site, wrong: &mut Violations) {
    for (&port, &asked) in asked {
        let facts = &site[port];
        let LineRate::Known(line) = facts.line_rate else { continue };
        let line = u128::from(line);
        if asked + facts.claimed_bits > line {
            let available = line.saturating_sub(facts.claimed_bits);
            wrong.add(
                field,
                format!(
                    "ask port {} for {asked} bit/s on the medium; available are {available} of its line rate \
                     {line} bit/s{}; lower the rates or use another port",
                    facts.name,
                    if facts.claimed_bits > 0 { " (other runs have the rest)" } else { "" },
                ),
            );
        }
    }
}

/// That a template's part of the load is not known.
pub(super) fn more_than_known((template, of_clients): (TemplateIndex, bool)) -> Violation {
    let side = if of_clients { Side::Client } else { Side::Server };
    Violation::new(
        template.path().field(side.name()),
        "it jumps, loops or switches, or opens what was named last, so what its flows send is not known beforehand; the load of its port \
         counts what each sends at least",
    )
}

/// What is worth knowing of a plan without fault.
pub(super) fn warnings(plan: &Plan, site: &Site, checked: &Checked) -> Vec<String> {
    let mut all = Vec::new();
    for (i, found) in checked.streams.iter().enumerate() {
        if let Some(backwards) = found.replay.as_ref().map(|r| r.spec.capture.survey.backwards).filter(|n| *n > 0) {
            let problem =
                format!("{backwards} packets were captured before the one in front of them, and follow it at once");
            all.push(Violation::new(StreamIndex(i).path().field("replay"), problem).to_string());
        }
    }
    for (i, stream) in plan.streams.iter().enumerate() {
        let measured = stream.measure.as_ref().is_some_and(|m| m.flow || m.mark.is_some());
        if !measured && !stream.rx_port.is_empty() {
            let problem = "nothing is counted there, since neither measure.flow nor measure.mark is set";
            all.push(Violation::new(StreamIndex(i).path().field("rx_port"), problem).to_string());
        }
    }
    for (&port, &bits) in &checked.port_bits {
        let facts = &site[port];
        let bits = bits + facts.claimed_bits;
        let line = match facts.line_rate {
            LineRate::Known(line) if bits * 100 >= u128::from(line) * MUCH_PERCENT => {
                format!("{:.1} % of its line rate", 100.0 * bits as f64 / line as f64)
            }
            LineRate::Unknown if bits >= MUCH_BITS => {
                "its line rate is not known, so nothing was checked against it".to_owned()
            }
            _ => continue,
        };
        all.push(format!("port {} has to carry {bits} bit/s on the medium: {line}", facts.name));
    }
    all
}

/// From this part of its line rate on a port's load is warned of: little is left for bursts and answers.
const MUCH_PERCENT: u128 = 90;
/// From these bits a second on it is warned of where the line rate is not known: more than most software ports carry.
const MUCH_BITS: u128 = 10_000_000_000;
/// From these bytes on memory is warned of.
const MUCH_MEMORY: usize = 64 << 20;

/// What is worth knowing of the memory that a run's latency histograms take.
pub fn histograms(bytes: usize) -> Option<String> {
    (bytes >= MUCH_MEMORY).then(|| format!("latency histograms take {} MiB of memory", bytes >> 20))
}
