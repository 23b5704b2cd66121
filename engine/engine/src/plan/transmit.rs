// SPDX-License-Identifier: Apache-2.0
//! When streams send: the contract's transmit modes and chains, as the schedule takes them.
use super::Violations;
use crate::index::StreamIndex;
use contract::{Plan, stream};
use spate_stateful::FieldPath;
use spate_stateless::{Rate, StreamTiming, Transmit};
use std::collections::HashMap;

/// The timing of every stream, `next` by index in the plan. Rates are by stream; those that are not known yet wait.
pub fn timings(plan: &Plan, rates: &[Option<Rate>], wrong: &mut Violations) -> Vec<StreamTiming> {
    let by_name: HashMap<&str, usize> = plan.streams.iter().enumerate().map(|(i, s)| (s.name.as_str(), i)).collect();
    let mut timings = Vec::with_capacity(plan.streams.len());
    for (i, (stream, rate)) in plan.streams.iter().zip(rates).enumerate() {
        let at = StreamIndex(i).path();
        timings.push(StreamTiming {
            rate: *rate,
            transmit: transmit(&at, stream, wrong),
            start_delay_ns: stream.start_delay_ns,
            waits: stream.waits,
            next: next(&at, plan, stream, &by_name, wrong),
            pinned: stream.pinned,
        });
        if stream.start_delay_ns > super::validate::LONGEST_NS {
            wrong.add(at.field("start_delay_ns"), "more than ten years");
        }
    }
    if wrong.is_empty() {
        instant_loops(plan, &timings, wrong);
        never_started(plan, &timings, wrong);
    }
    timings
}

fn transmit(at: &FieldPath, stream: &contract::Stream, wrong: &mut Violations) -> Transmit {
    match &stream.transmit {
        Some(stream::Transmit::Bursts(bursts)) => {
            if bursts.packets == 0 {
                wrong.add(at.field("bursts.packets"), "0; must be at least 1");
            }
            if bursts.gap_ns == 0 && bursts.packets == 1 && bursts.count != 1 {
                wrong.add(
                    at.field("bursts.gap_ns"),
                    "0; must be greater where bursts are of one packet: they would all leave at one instant",
                );
            }
            if bursts.gap_ns > super::validate::LONGEST_NS {
                wrong.add(at.field("bursts.gap_ns"), "more than ten years");
            }
            Transmit::Bursts {
                packets: bursts.packets.max(1),
                count: (bursts.count > 0).then_some(bursts.count),
                gap_ns: bursts.gap_ns,
            }
        }
        // A replay is on no schedule: its rate is the speed of its capture. What is missing is reported where the rate is checked.
        Some(stream::Transmit::Continuous(_) | stream::Transmit::Replay(_)) | None => Transmit::Continuous,
    }
}

fn next(
    at: &FieldPath,
    plan: &Plan,
    stream: &contract::Stream,
    by_name: &HashMap<&str, usize>,
    wrong: &mut Violations,
) -> Option<(usize, Option<u64>)> {
    let next = stream.next.as_ref()?;
    let field = at.field("next.stream");
    let Some(&index) = by_name.get(next.stream.as_str()) else {
        wrong.add(field, format!("{:?} is no stream of the plan", next.stream));
        return None;
    };
    let other = &plan.streams[index];
    if other.tx_port != stream.tx_port {
        let message = format!("{:?} is sent from port {}; a chain stays on one port", next.stream, other.tx_port);
        wrong.add(&field, message);
    }
    if matches!(other.transmit, Some(stream::Transmit::Replay(_))) {
        wrong.add(&field, format!("{:?} replays a capture, and nothing starts such a stream", next.stream));
    }
    if other.engines != stream.engines {
        let message = format!("{:?} is sent by other engines; a chain stays on the same ones", next.stream);
        wrong.add(&field, message);
    }
    if other.pinned != stream.pinned {
        wrong.add(&field, format!("{:?} and this stream must both be pinned, or neither", next.stream));
    }
    match &stream.transmit {
        Some(stream::Transmit::Bursts(bursts)) if bursts.count > 0 => {}
        Some(stream::Transmit::Replay(_)) => {
            wrong.add(at.field("next"), "a stream that replays a capture starts no other; leave it out");
        }
        _ => wrong.add(at.field("next"), "nothing comes after a stream that has no end: set bursts.count"),
    }
    if matches!(other.transmit, Some(stream::Transmit::Continuous(_))) && !other.waits {
        wrong.add(field, format!("{:?} is continuous and starts by itself: set waits there", next.stream));
    }
    Some((index, (next.times > 0).then_some(next.times)))
}

/// A chain that leads back to itself must take some time, or it would never let go of its instant.
fn instant_loops(plan: &Plan, timings: &[StreamTiming], wrong: &mut Violations) {
    let takes_time = |t: &StreamTiming| match t.transmit {
        _ if t.start_delay_ns > 0 => true,
        Transmit::Continuous => true,
        Transmit::Bursts { packets, count, gap_ns } => packets > 1 || (gap_ns > 0 && count != Some(1)),
    };
    // 0: not seen, else the number of the walk that saw it.
    let mut seen = vec![0; timings.len()];
    for start in 0..timings.len() {
        let (mut at, walk) = (start, start + 1);
        while seen[at] == 0 && !takes_time(&timings[at]) {
            seen[at] = walk;
            match timings[at].next {
                Some((next, _)) => at = next,
                None => break,
            }
            if seen[at] == walk {
                wrong.add(
                    StreamIndex(at).path().field("next"),
                    format!(
                        "the chain of {:?} comes back to it in no time: give one of its streams a start delay or more packets",
                        plan.streams[at].name
                    ),
                );
                break;
            }
        }
    }
}

fn never_started(plan: &Plan, timings: &[StreamTiming], wrong: &mut Violations) {
    let mut started: Vec<bool> = timings.iter().map(|t| !t.waits).collect();
    for timing in timings {
        if let Some((next, _)) = timing.next {
            started[next] = true;
        }
    }
    for (i, _) in started.iter().enumerate().filter(|(_, started)| !**started) {
        wrong.add(StreamIndex(i).path().field("waits"), format!("no stream's next starts {:?}", plan.streams[i].name));
    }
}
