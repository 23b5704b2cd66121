// SPDX-License-Identifier: Apache-2.0
//! When streams send: the contract's transmit modes and chains, as the schedule takes them.
use super::CheckedStream;
use super::limits::MAX_DURATION_NS;
use super::{Violations, load};
use crate::index::StreamIndex;
use contract::{Plan, Replay, Stream, stream};
use spate_stateful::FieldPath;
use spate_stateless::{Next, StreamTiming, Successor, Transmit};
use std::collections::{BTreeMap, HashMap};

/// The timing of every stream, `next` by index in the plan. Rates that are not known yet wait; that of a replay is its speed.
pub fn timings(plan: &Plan, checked: &[CheckedStream], wrong: &mut Violations) -> Vec<StreamTiming> {
    let by_name: HashMap<&str, usize> = plan.streams.iter().enumerate().map(|(i, s)| (s.name.as_str(), i)).collect();
    let mut timings = Vec::with_capacity(plan.streams.len());
    for (i, (stream, found)) in plan.streams.iter().zip(checked).enumerate() {
        let at = StreamIndex(i).path();
        timings.push(StreamTiming {
            rate: found.replay.as_ref().map_or(found.rate, |replay| Some(replay.speed)),
            transmit: transmit(&at, stream, wrong),
            start_delay_ns: stream.start_delay_ns,
            waits: stream.waits,
            next: next(&at, plan, stream, &by_name, wrong),
            pinned: stream.pinned,
        });
        if stream.start_delay_ns > MAX_DURATION_NS {
            wrong.add(at.field("start_delay_ns"), "more than ten years");
        }
    }
    if wrong.is_empty() {
        instant_loops(plan, checked, &timings, wrong);
        never_started(plan, &timings, wrong);
        chains_with_replays(plan, &mut timings, wrong);
    }
    timings
}

fn transmit(at: &FieldPath, stream: &Stream, wrong: &mut Violations) -> Transmit {
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
            if bursts.gap_ns > MAX_DURATION_NS {
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
    stream: &Stream,
    by_name: &HashMap<&str, usize>,
    wrong: &mut Violations,
) -> Option<Successor> {
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
    if other.engines != stream.engines {
        let message = format!("{:?} is sent by other engines; a chain stays on the same ones", next.stream);
        wrong.add(&field, message);
    }
    if other.pinned != stream.pinned {
        wrong.add(&field, format!("{:?} and this stream must both be pinned, or neither", next.stream));
    }
    let one_half = "is in no chain: it sends one half of a capture, and the other half has a port of its own";
    if is_half(stream) {
        wrong.add(at.field("next"), format!("{:?} {one_half}", stream.name));
    }
    if is_half(other) {
        wrong.add(&field, format!("{:?} {one_half}", next.stream));
    }
    match &stream.transmit {
        Some(stream::Transmit::Bursts(bursts)) if bursts.count > 0 => {}
        Some(stream::Transmit::Replay(replay)) if replay.loops > 0 => {}
        Some(stream::Transmit::Replay(_)) => {
            wrong.add(at.field("next"), "nothing comes after a replay that has no end: set replay.loops");
        }
        _ => wrong.add(at.field("next"), "nothing comes after a stream that has no end: set bursts.count"),
    }
    if let Some(stream::Transmit::Continuous(_) | stream::Transmit::Replay(Replay { loops: 0, .. })) = &other.transmit
        && !other.waits
    {
        wrong.add(field, format!("{:?} has no end and starts by itself: set waits there", next.stream));
    }
    let to = if replays(other) { Next::Elsewhere(index) } else { Next::Scheduled(index) };
    Some(Successor { next: to, times: (next.times > 0).then_some(next.times) })
}

fn replays(stream: &Stream) -> bool {
    matches!(stream.transmit, Some(stream::Transmit::Replay(_)))
}

fn is_half(stream: &Stream) -> bool {
    matches!(stream.transmit, Some(stream::Transmit::Replay(Replay { half: Some(_), .. })))
}

/// A chain that leads back to itself must take some time, or it would never let go of its instant.
fn instant_loops(plan: &Plan, checked: &[CheckedStream], timings: &[StreamTiming], wrong: &mut Violations) {
    let takes_time = |at: usize| match timings[at].transmit {
        _ if timings[at].start_delay_ns > 0 => true,
        Transmit::Continuous => checked[at].replay.as_ref().is_none_or(|replay| replay.takes_time),
        Transmit::Bursts { packets, count, gap_ns } => packets > 1 || (gap_ns > 0 && count != Some(1)),
    };
    // 0: not seen, else the number of the walk that saw it.
    let mut seen = vec![0; timings.len()];
    for start in 0..timings.len() {
        let (mut at, walk) = (start, start + 1);
        while seen[at] == 0 && !takes_time(at) {
            seen[at] = walk;
            match timings[at].next {
                Some(after) => at = after.next.index(),
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
        if let Some(after) = timing.next {
            started[after.next.index()] = true;
        }
    }
    for (i, _) in started.iter().enumerate().filter(|(_, started)| !**started) {
        wrong.add(StreamIndex(i).path().field("waits"), format!("no stream's next starts {:?}", plan.streams[i].name));
    }
}

/// One worker sends all of a chain with a replay, and its streams take turns: only one of them starts by itself.
fn chains_with_replays(plan: &Plan, timings: &mut [StreamTiming], wrong: &mut Violations) {
    let mut chains: BTreeMap<StreamIndex, Vec<usize>> = BTreeMap::new();
    for (i, first) in load::chains(timings).into_iter().enumerate() {
        chains.entry(first).or_default().push(i);
    }
    for chain in chains.into_values() {
        let starts_others = chain.iter().any(|&i| timings[i].next.is_some());
        if !starts_others || !chain.iter().any(|&i| replays(&plan.streams[i])) {
            continue;
        }
        let mut starting = chain.iter().filter(|&&i| !timings[i].waits);
        if let (Some(&one), Some(&other)) = (starting.next(), starting.next()) {
            let problem = format!(
                "must be true: a capture is replayed in its chain, whose streams take turns, and {:?} starts by itself already; or leave it out of the chain",
                plan.streams[one].name
            );
            wrong.add(StreamIndex(other).path().field("waits"), problem);
        }
        chain.into_iter().for_each(|i| timings[i].pinned = true);
    }
}
