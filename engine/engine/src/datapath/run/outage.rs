// SPDX-License-Identifier: Apache-2.0
//! Outages of a run: the longest times in which nothing of some streams, or of a side of a template, arrived although it was sent.
//!
//! Of a stream that is from the beginning of the measured phase (or of the stream, if that is later) until its last packet was due, both
//! later by the path's delay, without the time in which the stream or the run stood. The path's delay is the least of the packets that ended
//! a gap that is kept. A template has no schedule of what arrives: of its sides it is the measured phase until the end of transmission,
//! without such times.
use spate_stats::{Collected, Silence, Span, StreamCounters, intersection, union, without};

use super::{Control, Run};
use crate::index::{StreamIndex, TemplateIndex};

/// Period in which the workers' gaps of templates are put together, and its minimum for each side. A worker then keeps gaps afresh: about
/// 2,000 times it looks for the shortest gap that it keeps, at 1,000,000 packets a second.
const COLLECT_NS: u64 = 2_000_000_000;
const COLLECT_SIDE_NS: u64 = 250_000_000;
/// Packets that arrived longer ago than this are in the counters.
const COUNTED_NS: u64 = 100_000_000;

/// What is known of the times without an arrival in the measured phase, in nanoseconds since it began. Where several engines run the plan
/// that is by the clock that they have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Wall-clock instant at which the measured phase began.
    pub phase_began_at_ns: u64,
    /// Times without an arrival, and what is known of others.
    pub silence: Silence,
    /// When packets were due to be sent here, of a stream that other engines may have sent, too; none: none were.
    pub sent: Option<Span>,
}

/// When a stream, or the flows of a template, stood: on the run's clock.
#[derive(Clone, Debug, Default)]
pub(in crate::datapath) struct Pauses(Vec<Span>);

impl Pauses {
    /// From an instant on, which is not before those of earlier calls, it goes or stands.
    pub(in crate::datapath) fn note(&mut self, at_ns: u64, goes: bool) {
        match self.0.last_mut().filter(|last| last.to_ns == u64::MAX) {
            Some(last) if goes => last.to_ns = at_ns,
            None if !goes => self.0.push(Span { from_ns: at_ns, to_ns: u64::MAX }),
            _ => {}
        }
    }
}

/// How the run's clock went, on the monotonic clock.
#[derive(Clone, Debug, Default)]
pub(in crate::datapath) struct Timeline {
    /// Run time 0, if it did not stand before.
    pub(in crate::datapath) start_ns: u64,
    /// Pauses of the stream.
    pub(in crate::datapath) stands: Pauses,
}

impl Timeline {
    /// The monotonic instant of a run time.
    pub(in crate::datapath) fn mono_of(&self, run_ns: u64) -> u64 {
        let mut at_ns = self.start_ns.saturating_add(run_ns);
        for span in self.stands.0.iter().filter(|span| span.len_ns() > 0) {
            if span.from_ns > at_ns {
                break;
            }
            at_ns = at_ns.saturating_add(span.len_ns());
        }
        at_ns
    }

    /// The parts of a span in which neither the run nor this part of it stood.
    fn going(&self, span: Span, pauses: &Pauses) -> Vec<Span> {
        let own = pauses.0.iter().map(|p| Span { from_ns: self.mono_of(p.from_ns), to_ns: self.mono_of(p.to_ns) });
        without(span, &union(own.chain(self.stands.0.iter().copied()).collect()))
    }
}

/// A stream or a side of a template in the measured phase, on the monotonic clock.
pub(in crate::datapath) struct Part<'a> {
    pub(in crate::datapath) silence: Silence,
    /// From the first to the last packet that was due.
    pub(in crate::datapath) sent: Span,
    pub(in crate::datapath) pauses: &'a Pauses,
}

impl Part<'_> {
    /// The spans in which packets are expected to arrive.
    fn expected(&self, timeline: &Timeline) -> Vec<Span> {
        let delay_ns = self.silence.least_delay_ns.unwrap_or(0);
        let later = |ns: u64| ns.saturating_add(delay_ns);
        let going = timeline.going(self.sent, self.pauses).into_iter();
        going.map(|span| Span { from_ns: later(span.from_ns), to_ns: later(span.to_ns) }).collect()
    }
}

/// When nothing of any of some parts arrived although some of it was to arrive, until now.
pub(in crate::datapath) fn silence(parts: &[Part<'_>], timeline: &Timeline, now_ns: u64) -> Silence {
    let whole = parts.iter().fold(Silence::whole(), |whole, part| whole.and(&part.silence));
    let expected = union(parts.iter().flat_map(|part| part.expected(timeline)).collect());
    whole.within(&intersection(&expected, &[Span { from_ns: 0, to_ns: now_ns }]))
}

/// A scale of time that begins with the measured phase and gains on the monotonic clock by some nanoseconds in a time.
#[derive(Clone, Copy, Debug)]
pub(in crate::datapath) struct Scale {
    pub(in crate::datapath) begins_ns: u64,
    pub(in crate::datapath) gains_ns: i64,
    pub(in crate::datapath) in_ns: u64,
}

impl Scale {
    fn of(&self, mono_ns: u64) -> u64 {
        let since = mono_ns.saturating_sub(self.begins_ns);
        let gained = i128::from(since) * i128::from(self.gains_ns) / i128::from(self.in_ns.max(1));
        u64::try_from(i128::from(since) + gained).unwrap_or(0)
    }

    pub(in crate::datapath) fn span(&self, span: Span) -> Span {
        Span { from_ns: self.of(span.from_ns), to_ns: self.of(span.to_ns) }
    }

    /// A silence by this time scale.
    pub(in crate::datapath) fn silence(&self, silence: Silence) -> Silence {
        Silence { spans: silence.spans.iter().map(|span| self.span(*span)).collect(), ..silence }
    }
}

impl Run {
    /// When nothing of some streams arrived in the measured phase; none if they are not counted on arrival, or before the phase.
    pub fn outage(&self, streams: &[StreamIndex]) -> Option<Outage> {
        let control = self.control();
        let now_ns = self.clock.mono_ns();
        let phase = self.measured_phase(&control, now_ns)?;
        let measured: Vec<_> = streams.iter().copied().filter(|stream| self.measured[stream.0]).collect();
        let parts: Vec<_> = measured.iter().map(|&stream| self.part(&control, stream, phase)).collect();
        // Where there is no other engine, its parts have it.
        let sent = measured.iter().filter(|_| !self.alone).filter_map(|&stream| self.sent(&control, stream, phase));
        let sent = sent.reduce(|a, b| Span { from_ns: a.from_ns.min(b.from_ns), to_ns: a.to_ns.max(b.to_ns) });
        (!parts.is_empty()).then(|| self.outage_of(&control, &parts, sent, phase, now_ns))
    }

    /// When nothing arrived on each side of its templates, in the order of `template_counters`; none before the measured phase.
    pub fn template_outages(&self) -> Vec<Option<Outage>> {
        let control = self.control();
        let now_ns = self.clock.mono_ns();
        let phase = self.measured_phase(&control, now_ns);
        let outage = |(side, (template, limited, silence)): (usize, (TemplateIndex, bool, Silence))| {
            let phase = phase?;
            let silence = match control.collected.get(side) {
                Some(collected) => collected.with(&silence),
                None => silence,
            };
            let mut sent = phase;
            // With as many flows as it may have, it has no more to send.
            if let Some(open) = silence.spans.last().filter(|last| limited && last.to_ns == u64::MAX) {
                sent.to_ns = sent.to_ns.min(open.from_ns).max(sent.from_ns);
            }
            let part = Part { silence, sent, pauses: &control.flow_pauses[template.0] };
            Some(self.outage_of(&control, &[part], Some(sent), phase, now_ns))
        };
        self.templates.silences().enumerate().map(outage).collect()
    }

    /// Puts the gaps of workers together, of the sides of templates that several workers receive, if it is time. A worker keeps its longest
    /// gaps only; those of a short time are enough however long the run is. Returns when to do so again.
    pub(super) fn collect_outages(&self, control: &mut Control, now: u64) -> Option<u64> {
        let sides = self.templates.shared_sides() as u64;
        if sides == 0 {
            return None;
        }
        self.measured_phase(control, now)?;
        let next = now + COLLECT_NS.max(COLLECT_SIDE_NS * sides);
        let due = *control.collect_at_ns.get_or_insert(next);
        if now < due {
            return Some(due);
        }
        control.collect_at_ns = Some(next);
        let until_ns = now - COUNTED_NS;
        control.collected.resize_with(self.templates.sides(), Collected::default);
        for (collected, (.., silence)) in control.collected.iter_mut().zip(self.templates.silences()) {
            collected.collect(&silence, until_ns);
        }
        self.templates.gaps_collected(until_ns);
        Some(next)
    }

    /// The measured phase until now, or until the end of transmission; none before it.
    fn measured_phase(&self, control: &Control, now_ns: u64) -> Option<Span> {
        control.started_at_mono_ns?;
        let from_ns = control.timeline.mono_of(self.timing.warmup_ns);
        let to_ns = control.timeline.mono_of(control.end_ns).min(now_ns);
        (from_ns <= now_ns).then_some(Span { from_ns, to_ns: to_ns.max(from_ns) })
    }

    /// A measured stream. What is sent elsewhere may have been sent in all of the phase.
    fn part<'a>(&self, control: &'a Control, stream: StreamIndex, phase: Span) -> Part<'a> {
        let received =
            self.shares.iter().filter_map(|share| share.gaps[stream.0].as_ref()?.read(&share.rx[stream.0].last));
        let silence = received.fold(Silence::whole(), |whole, one| whole.and(&one));
        let known = &control.streams[stream.0];
        let begins_ns = match known.begins_ns {
            Some(begins_ns) => control.timeline.mono_of(begins_ns),
            // It is not known when: with the first arrival at the latest.
            None => silence.spans.first().map_or(0, |first| if first.to_ns == u64::MAX { 0 } else { first.to_ns }),
        };
        let from_ns = phase.from_ns.max(begins_ns);
        let to_ns = match self.alone {
            true => self.sent(control, stream, phase).map_or(from_ns, |sent| sent.to_ns),
            false => phase.to_ns,
        };
        Part { silence, sent: Span { from_ns, to_ns: to_ns.max(from_ns) }, pauses: &known.pauses }
    }

    /// When this engine sent a stream in the measured phase: from its beginning until the last packet was due.
    fn sent(&self, control: &Control, stream: StreamIndex, phase: Span) -> Option<Span> {
        let tx = self.shares.iter().map(move |share| &share.tx[stream.0]);
        let counted = StreamCounters::merge(tx, std::iter::empty()).measured;
        let begins_ns = control.streams[stream.0].begins_ns;
        let from_ns = phase.from_ns.max(control.timeline.mono_of(begins_ns.unwrap_or(0)));
        let to_ns = control.timeline.mono_of(counted.last_due_ns).max(from_ns);
        (counted.tx_packets > 0).then_some(Span { from_ns, to_ns })
    }

    fn outage_of(&self, control: &Control, parts: &[Part<'_>], sent: Option<Span>, phase: Span, now_ns: u64) -> Outage {
        let started_ns = control.timeline.start_ns;
        let common_ns = control.common_offset_ns.zip(control.stamps.common_offset_ns(now_ns));
        let scale = Scale {
            begins_ns: phase.from_ns,
            gains_ns: common_ns.map_or(0, |(before, now)| now.wrapping_sub(before)),
            in_ns: now_ns.saturating_sub(started_ns),
        };
        Outage {
            phase_began_at_ns: self.wall(control).of(phase.from_ns),
            silence: scale.silence(silence(parts, &control.timeline, now_ns)),
            sent: sent.filter(|_| !self.alone).map(|sent| scale.span(sent)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from_ns: u64, to_ns: u64) -> Span {
        Span { from_ns, to_ns }
    }

    /// What a receiver has, at which packets with this delay arrive.
    fn arrivals(at: impl Iterator<Item = u64>, delay_ns: u64) -> Silence {
        let mut instants: Vec<u64> = at.map(|at| at + delay_ns).collect();
        let mut spans = vec![span(0, instants.first().copied().unwrap_or(u64::MAX))];
        spans.extend(instants.windows(2).map(|pair| span(pair[0], pair[1])));
        spans.extend(instants.pop().map(|last| span(last, u64::MAX)));
        Silence { spans, unlisted_ns: 0, least_delay_ns: Some(delay_ns) }
    }

    #[test]
    fn the_delay_of_the_path_is_no_outage_and_one_to_the_end_is() {
        let (timeline, pauses) = (Timeline { start_ns: 1_000, ..Timeline::default() }, Pauses::default());
        let longest = |silence: Silence, now_ns| {
            let part = Part { silence, sent: span(1_000, 1_990), pauses: &pauses };
            super::silence(&[part], &timeline, now_ns).longest()
        };
        let due = || (100..200).map(|n| n * 10);
        assert_eq!(longest(arrivals(due(), 300), 9_000), Some(span(1_300, 1_310)));
        // Nothing that was sent before 1,400 has arrived; nor what was sent after 1,500.
        assert_eq!(longest(arrivals(due().filter(|at| *at >= 1_400), 300), 9_000), Some(span(1_300, 1_700)));
        assert_eq!(longest(arrivals(due().filter(|at| *at <= 1_500), 300), 9_000), Some(span(1_800, 2_290)));
        // The outage still lasts.
        assert_eq!(longest(arrivals(due().filter(|at| *at <= 1_500), 300), 2_000), Some(span(1_800, 2_000)));
        assert_eq!(longest(Silence::whole(), 9_000), Some(span(1_000, 1_990)));
    }

    #[test]
    fn what_stands_has_no_outage() {
        let mut timeline = Timeline { start_ns: 1_000, ..Timeline::default() };
        let mut pauses = Pauses::default();
        // The run stands for 500, the stream from 200 to 300 and from 600 on, of the run's time.
        timeline.stands.note(1_100, false);
        timeline.stands.note(1_600, true);
        for (at_ns, goes) in [(0, true), (200, false), (250, false), (300, true), (600, false)] {
            pauses.note(at_ns, goes);
        }
        assert_eq!([0, 99, 100, 200].map(|at| timeline.mono_of(at)), [1_000, 1_099, 1_600, 1_700]);
        let going = timeline.going(span(1_000, 5_000), &pauses);
        assert_eq!(going, [span(1_000, 1_100), span(1_600, 1_700), span(1_800, 2_100)]);
        let part = Part { silence: Silence::whole(), sent: span(1_000, 5_000), pauses: &pauses };
        assert_eq!(super::silence(&[part], &timeline, 9_000).longest(), Some(span(1_800, 2_100)));
    }

    #[test]
    fn a_scale_gains_evenly() {
        let scale = Scale { begins_ns: 1_000, gains_ns: -50, in_ns: 1_000 };
        assert_eq!(scale.span(span(900, 3_000)), span(0, 1_900));
    }
}
