// SPDX-License-Identifier: Apache-2.0
//! Streams that replay captures: what is wrong with them, the capture itself included, and how fast they are.
//!
//! The capture is read here from end to end, so that whatever is wrong with it is known before anything is sent.
use super::limits::MAX_DURATION_NS;
use super::site::fits;
use super::{CheckedReplay, CheckedStream, PortFacts, Violations, blueprint, measure};
use crate::datapath::{Changes, Gap, Half, Recording, ReplaySpec, Rewrite, SplitBy};
use crate::index::PortIndex;
use contract::{Replay, Stream, replay};
use spate_replay::Survey;
use spate_stateful::FieldPath;
use spate_stateless::{Blueprint, Rate, Template};
use std::path::Path;

/// A replay at its port, or `None`, and a violation says why. The stream's ports are left to the caller.
pub fn replay(
    at: &FieldPath,
    stream: &Stream,
    asked: &Replay,
    port: Option<&PortFacts>,
    wrong: &mut Violations,
) -> Option<CheckedStream> {
    let before = wrong.0.len();
    check_excluded_fields(at, stream, wrong);
    let (gap, speed) = gap(at, asked, wrong)?;
    let half = half(at, asked, wrong).ok()?;
    let rewrite = rewrite(at, stream, asked, wrong)?;
    if asked.min_gap_ns > MAX_DURATION_NS {
        wrong.add(at.field("replay.min_gap_ns"), "more than ten years");
    }
    let check = |frame: &[u8]| port.map_or(Ok(()), |port| fits(frame, port).map_err(|e| format!("it has {e}")));
    let capture = match &asked.source {
        Some(replay::Source::Pcap(bytes)) => Recording::of_bytes(bytes, gap, half, &rewrite, check)
            .map_err(|error| wrong.add(at.field("replay.pcap"), error.to_string())),
        Some(replay::Source::Path(path)) => Recording::of_file(Path::new(path), gap, half, &rewrite, check)
            .map_err(|error| wrong.add(at.field("replay.path"), format!("{path:?}: {error}"))),
        // Data were filled in when the plan was decoded.
        Some(replay::Source::Data(_)) | None => {
            wrong.add(at.field("replay.source"), "missing; set pcap or path");
            Err(())
        }
    };
    let capture = capture.ok()?;
    let rate = mean_rate(&capture.survey, gap, speed, asked.min_gap_ns);
    if rate.is_none() && asked.loops != 1 {
        match half {
            None => wrong.add(
                at.field("replay.min_gap_ns"),
                "0; must be greater where the capture takes no time and is sent more than once: all would leave at one instant",
            ),
            Some(_) => wrong.add(
                at.field("replay.gap"),
                "the capture takes no time and is sent more than once: all would leave at one instant; set fixed_ns",
            ),
        }
    }
    let flow = stream.measure.as_ref().is_some_and(|m| m.flow);
    let template = Template::new(&Blueprint { frame: capture.survey.first.clone(), flow, ..Blueprint::default() });
    let template = template.map_err(|error| wrong.0.push(blueprint::violation(at, 0, &error))).ok()?;
    if wrong.0.len() > before {
        return None;
    }
    let takes_time = rate.is_some() && (capture.survey.packets > 1 || asked.loops != 1);
    // All at one instant: as fast as the port is, and over at once. It asks for nothing.
    let rate = rate.or_else(|| Rate::new(1, MAX_DURATION_NS.into()).ok());
    let spec = ReplaySpec {
        capture,
        rewrite,
        gap,
        loops: (asked.loops > 0).then_some(asked.loops),
        min_gap_ns: asked.min_gap_ns,
        first_id: asked.half.as_ref().map_or(stream.id, |half| half.other.min(stream.id)) as u16,
    };
    let replay = Some(CheckedReplay { spec, speed, takes_time });
    Some(CheckedStream { tx_port: PortIndex(0), rx_port: None, rate, template, replay })
}

fn check_excluded_fields(at: &FieldPath, stream: &Stream, wrong: &mut Violations) {
    if stream.packet.is_some() {
        wrong.add(
            at.field("packet"),
            "cannot be combined with replay, which sends the packets of its capture; leave it out",
        );
    }
    if stream.cache > 0 {
        wrong.add(
            at.field("cache"),
            "cannot be combined with replay, which sends the packets of its capture; leave it out",
        );
    }
}

/// What lies between packets, and how fast that passes.
fn gap(at: &FieldPath, asked: &Replay, wrong: &mut Violations) -> Option<(Gap, Rate)> {
    match &asked.gap {
        Some(replay::Gap::Scale(scale)) => {
            let speed = Rate::new(scale.denominator.into(), scale.numerator.into());
            let refused =
                |_| wrong.add(at.field("replay.scale"), "must be greater than zero, over a denominator that is not");
            speed.map_err(refused).ok().map(|speed| (Gap::Captured, speed))
        }
        Some(replay::Gap::FixedNs(ns @ 1..=MAX_DURATION_NS)) => Some((Gap::Even, Rate::new(1, (*ns).into()).ok()?)),
        Some(replay::Gap::FixedNs(ns)) => {
            wrong.add(at.field("replay.fixed_ns"), format!("{ns}; must be 1..{MAX_DURATION_NS} (ten years)"));
            None
        }
        None => {
            wrong.add(at.field("replay.gap"), "missing; set scale (1/1: as captured) or fixed_ns");
            None
        }
    }
}

/// Which half of the capture is sent; all of it if none.
fn half(at: &FieldPath, asked: &Replay, wrong: &mut Violations) -> Result<Option<Half>, ()> {
    let Some(half) = &asked.half else { return Ok(None) };
    let by = match half.by() {
        contract::SplitBy::Mac => SplitBy::Mac,
        contract::SplitBy::Ip => SplitBy::Ip,
        contract::SplitBy::Interface => SplitBy::Interface,
        contract::SplitBy::Unspecified => {
            wrong.add(at.field("replay.half.by"), "missing; set SPLIT_BY_MAC, SPLIT_BY_IP or SPLIT_BY_INTERFACE");
            return Err(());
        }
    };
    if asked.min_gap_ns > 0 {
        wrong.add(
            at.field("replay.min_gap_ns"),
            "cannot be combined with half: it would delay one half and not the other; leave it out, or set fixed_ns",
        );
    }
    Ok(Some(Half { by, responder: half.responder }))
}

fn rewrite(at: &FieldPath, stream: &Stream, asked: &Replay, wrong: &mut Violations) -> Option<Rewrite> {
    let before = wrong.0.len();
    let declared = stream.program.as_ref().map_or(0, |p| p.variables.len());
    let changes = Changes {
        program: blueprint::program(at, stream.program.as_ref(), wrong),
        mark: measure::mark(stream),
        flow: stream.measure.as_ref().is_some_and(|m| m.flow),
        fix_checksums: asked.fix_checksums,
    };
    if wrong.0.len() > before {
        return None;
    }
    let refused = |error| wrong.0.push(blueprint::violation(at, declared, &error));
    Rewrite::new(&changes).map_err(refused).ok()
}

/// Packets a second on average; none if all leave at one instant.
fn mean_rate(survey: &Survey, gap: Gap, speed: Rate, min_gap_ns: u64) -> Option<Rate> {
    let as_captured = match gap {
        Gap::Even => Some(speed),
        // Packets in a distance, times distance in nanoseconds.
        Gap::Captured => {
            let packets = u128::from(survey.captured.saturating_sub(1)) * u128::from(speed.packets());
            mean(packets, u128::from(survey.span_ns) * u128::from(speed.nanoseconds()))
        }
    };
    let least = Rate::new(1, min_gap_ns.into()).ok();
    let slower = |a: Rate, b: Rate| {
        let (left, right) = (
            u128::from(a.packets()) * u128::from(b.nanoseconds()),
            u128::from(b.packets()) * u128::from(a.nanoseconds()),
        );
        if left < right { a } else { b }
    };
    let whole = match (as_captured, least) {
        (Some(a), Some(b)) => Some(slower(a, b)),
        (a, b) => a.or(b),
    }?;
    if survey.packets == survey.captured {
        return Some(whole);
    }
    // Of a half, its part of all packets.
    mean(
        u128::from(whole.packets()) * u128::from(survey.packets),
        u128::from(whole.nanoseconds()) * u128::from(survey.captured),
    )
}

/// The rate of a number of packets in a number of nanoseconds. A mean needs no more digits than 64 bits have.
fn mean(mut packets: u128, mut nanoseconds: u128) -> Option<Rate> {
    while packets.max(nanoseconds) > u128::from(u64::MAX) {
        (packets, nanoseconds) = (packets >> 1, nanoseconds >> 1);
    }
    Rate::new(packets, nanoseconds).ok()
}
