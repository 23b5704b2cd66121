// SPDX-License-Identifier: Apache-2.0
//! Replay on one port: packets of a capture at their instants, beside what the schedule of templates sends.
use std::{collections::VecDeque, marker::PhantomData};

use spate_dpdk::BURST;
use spate_net::{FCS_LEN, Trailer, trailer::TIMESTAMP_MODULUS};
use spate_replay::{ChecksumFixup, HeldTape, Pacer, Rewrite, Speed};
use spate_stateless::{Next, Rate, Successor};
use spate_stats::Sent;

use super::{Ending, Pass, PortRun, Source};
use crate::datapath::{
    clock::Timescale,
    frames::FrameReader,
    shared::RunShare,
    worker::{
        Device, Dpdk, Time, WorkerRun,
        change::SpeedChange,
        device::{Origin, Packets},
        egress::Egress,
        outlet::Outlet,
    },
};
use crate::index::{PortIndex, RunSlot, StreamIndex};

/// How long the end of a run waits for packets that are due and not read yet, to count them.
const COUNTING_NS: u64 = 5_000_000_000;
/// Due packets are counted up to this many at a time, so that the worker gets round to others.
const COUNTED: usize = 1 << 14;

/// Where a worker finds a capture's packets.
pub(in crate::datapath) enum ReplayTape {
    /// The capture is in memory.
    Held(Box<HeldTape>),
    /// A reader writes its packets into a ring: `FrameHeader::at_ns` is the distance, `original_len` the seal. An empty frame is the end.
    Read(FrameReader),
}

/// Why a tape has no more packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::datapath) enum TapeEnd {
    /// All packets of all passes are sent.
    Played,
    /// The capture cannot be read any further; this many packets are known to be missing.
    Failed(u64),
}

impl TapeEnd {
    /// The end as a ring has it: distance and seal of an empty frame.
    pub(in crate::datapath) fn encode(self) -> (u64, u32) {
        match self {
            Self::Played => (0, 0),
            Self::Failed(unsent) => (unsent, 1),
        }
    }

    fn decode(unsent: u64, beside: u32) -> Self {
        if beside == 0 { Self::Played } else { Self::Failed(unsent) }
    }
}

/// What a tape has next.
enum NextPacket {
    /// The packet's distance from the one before, and its length.
    Packet(u64, usize),
    /// The reader has not read the next packet yet.
    Unread,
    End(TapeEnd),
}

impl ReplayTape {
    #[inline]
    fn head(&mut self) -> NextPacket {
        match self {
            Self::Held(tape) => {
                tape.peek().map_or(NextPacket::End(TapeEnd::Played), |(gap, len)| NextPacket::Packet(gap, len))
            }
            Self::Read(frames) => {
                let gone = frames.is_abandoned();
                match frames.next() {
                    Some(head) if head.len == 0 => NextPacket::End(TapeEnd::decode(head.at_ns, head.original_len)),
                    Some(head) => NextPacket::Packet(head.at_ns, head.len as usize),
                    // The reading thread ended without an end mark.
                    None if gone => NextPacket::End(TapeEnd::Failed(1)),
                    None => NextPacket::Unread,
                }
            }
        }
    }

    /// Takes the packet that `head` returned.
    #[inline]
    fn take(&mut self, frame: &mut [u8]) -> ChecksumFixup {
        match self {
            Self::Held(tape) => tape.take(frame),
            Self::Read(frames) => {
                let fixup =
                    frames.next().map_or(ChecksumFixup::NOTHING, |head| ChecksumFixup::from_bits(head.original_len));
                frames.take(frame);
                fixup
            }
        }
    }

    fn skip(&mut self) {
        match self {
            Self::Held(tape) => tape.skip(),
            Self::Read(frames) => frames.skip(),
        }
    }

    /// Plays the capture from its start. One that is read ahead follows in the ring behind the end of its last pass.
    fn again(&mut self) {
        match self {
            Self::Held(tape) => tape.again(),
            Self::Read(frames) => {
                if frames.next().is_some_and(|head| head.len == 0) {
                    frames.skip();
                }
            }
        }
    }
}

/// A stream's speed, from its rate: distance in nanoseconds.
pub(in crate::datapath) fn speed_of(rate: Rate) -> Speed {
    Speed { distance: rate.packets(), nanoseconds: rate.nanoseconds() }
}

/// What a worker must know of a stream to replay it.
pub(in crate::datapath) struct ReplayParts<D: Device = Dpdk> {
    pub(in crate::datapath) port: PortIndex,
    /// Its index among all streams of the run.
    pub(in crate::datapath) index: StreamIndex,
    /// Its number in trailers.
    pub(in crate::datapath) id: u16,
    /// Packets have trailers.
    pub(in crate::datapath) flow: bool,
    pub(in crate::datapath) late_after_ns: u64,
    /// Where packets come from if they are longer than the port's own pool has room for.
    pub(in crate::datapath) long_packets: Option<D::Pool>,
    /// Time from its start to its first packet.
    pub(in crate::datapath) start_delay_ns: u64,
    /// Starts only when another stream has ended.
    pub(in crate::datapath) waits: bool,
    /// Starts after its last packet.
    pub(in crate::datapath) next: Option<Successor>,
}

/// A stream that replays a capture, of which one worker sends all.
pub(in crate::datapath) struct Replay<D: Device = Dpdk> {
    parts: ReplayParts<D>,
    tape: ReplayTape,
    pacer: Pacer,
    /// Changes to come, in order of time.
    changes: VecDeque<SpeedChange>,
    /// `pacer` is at the packet with this number, over all starts, which has this length.
    number: u64,
    len: Option<usize>,
    /// Whether the next packet is the first since the start.
    first: bool,
    /// Whether the replay has ended, or waits for its start.
    over: bool,
    /// When what comes before it has ended, and it starts.
    start_ns: Option<u64>,
    /// When it has ended itself, until what comes after it is started.
    ended_ns: Option<u64>,
    /// Built, of which `taken` were sent.
    burst: D::Burst,
    dues_ns: [u64; BURST],
    bytes: [u64; BURST],
    taken: usize,
    /// Whether a due packet waited for the rate limit.
    held: bool,
    /// Since when due packets are given up, on the monotonic clock.
    giving_up_since: Option<u64>,
}

/// What of a run its replays must know.
struct Scope<'a> {
    tag: u16,
    sender: u8,
    warmup_ns: u64,
    end_ns: u64,
    share: &'a RunShare,
    timescale: &'a Timescale,
}

/// The scope of a run, without borrowing all of it.
macro_rules! scope {
    ($run:expr) => {
        Scope {
            tag: $run.tag,
            sender: $run.sender,
            warmup_ns: $run.warmup_ns,
            end_ns: $run.end_ns,
            share: &$run.share,
            timescale: &$run.timescale,
        }
    };
}

/// The replays of a port. What it sends, and how far it has come, are each replay's own.
pub(in crate::datapath::worker) struct Replays<D: Device>(PhantomData<D>);

impl<D: Device> Source<D> for Replays<D> {
    fn new(_: &Outlet<D>) -> Self {
        Self(PhantomData)
    }

    fn is_in(run: &WorkerRun<D>) -> bool {
        !run.replays.is_empty()
    }

    fn send(&mut self, pass: &mut Pass<'_, D>, outlet: &mut Outlet<D>) -> usize {
        let mut sent = 0;
        for run in pass.runs.iter_mut().flatten().filter(|run| !run.replays.is_empty()) {
            sent += run.replay(pass.now, pass.clock, outlet);
        }
        sent
    }

    fn is_waiting(&self, port: PortIndex, runs: &[Option<Box<WorkerRun<D>>>]) -> bool {
        let mut replays = runs.iter().flatten().flat_map(|run| &run.replays);
        replays.any(|replay| replay.is_on(port) && !replay.burst.is_empty())
    }

    fn due_ns(run: &WorkerRun<D>) -> Option<u64> {
        if run.share.sent.is_up() || run.replays.is_empty() {
            return None;
        }
        let started = run.ports.iter().filter_map(|part| part.schedule.first_started_ns());
        run.replays.iter().filter_map(Replay::due_ns).chain(started).min().and_then(|due| run.clock.mono_of(due))
    }

    fn settle(&mut self, run: &mut WorkerRun<D>, ending: &mut Ending<'_, D>, outlet: &mut Outlet<D>) -> bool {
        if run.replays.is_empty() {
            return true;
        }
        let (now, past_grace, port) = (ending.now, ending.past_grace, outlet.port);
        let scope = scope!(run);
        let (ports, replays) = (&mut run.ports[..], &mut run.replays[..]);
        start_successors_of_streams(ports, replays, port);
        let mut settled = true;
        for index in 0..replays.len() {
            let replay = &mut replays[index];
            if !replay.is_on(port) {
                continue;
            }
            settled &=
                if past_grace { replay.give_up(now, &scope, &outlet.egress) } else { replay.is_settled(scope.end_ns) };
            settled &= !start_successors(index, ports, replays);
        }
        if past_grace
            && !settled
            && let Some(part) = ports.iter_mut().find(|part| part.port == port)
        {
            // Streams that replays have started are given up, too, before they send.
            part.give_up(scope.warmup_ns, scope.end_ns, scope.share, replays, ending.reclaim);
        }
        settled && (outlet.egress.flush(now) || past_grace)
    }

    fn remove(&mut self, _: RunSlot, run: &mut WorkerRun<D>, outlet: &mut Outlet<D>) {
        let replays = run.replays.iter_mut().filter(|replay| replay.is_on(outlet.port));
        replays.for_each(|replay| replay.burst.clear());
    }
}

impl<D: Device> WorkerRun<D> {
    /// Sends what its replays have due on a port. Returns how many packets the device took.
    fn replay(&mut self, now: u64, clock: &D::Clock, outlet: &mut Outlet<D>) -> usize {
        if self.share.sent.is_up() || self.clock.is_stopped() {
            return 0;
        }
        let Some(at) = self.clock.at(now).and_then(|at| u64::try_from(at).ok()) else { return 0 };
        let (scope, run_clock, port) = (scope!(self), &self.clock, outlet.port);
        let (ports, replays) = (&mut self.ports[..], &mut self.replays[..]);
        start_successors_of_streams(ports, replays, port);
        let mut sent = 0;
        for index in 0..replays.len() {
            let replay = &mut replays[index];
            if !replay.is_on(port) || !replay.sends() {
                continue;
            }
            // Packets are not made before they may leave, so that their time stamps are right and they hold no memory.
            if outlet.egress.is_closed(now) {
                replay.held |= replay.due_ns().is_some_and(|due| due <= at);
                continue;
            }
            replay.fill(at, &scope, clock, outlet);
            let left_at = || run_clock.at(clock.mono_ns()).map_or(0, |at| at.max(0).cast_unsigned());
            sent += replay.offer(left_at, &scope, &mut outlet.egress);
            start_successors(index, ports, replays);
        }
        sent
    }

    /// Changes the speed of one of the run's replays, if this worker has it.
    pub(in crate::datapath::worker) fn change_speed(&mut self, change: SpeedChange) {
        if let Some(replay) = self.replays.iter_mut().find(|replay| replay.parts.index == change.stream) {
            replay.note(change);
        }
    }
}

/// Starts the replays that come after streams of a port that have ended.
fn start_successors_of_streams<D: Device>(ports: &mut [PortRun<D>], replays: &mut [Replay<D>], port: PortIndex) {
    if let Some(part) = ports.iter_mut().find(|part| part.port == port) {
        part.schedule.take_started().for_each(|(stream, end_ns)| start(replays, StreamIndex(stream), end_ns));
    }
}

/// Starts what comes after a replay if that has ended. Returns whether it did.
fn start_successors<D: Device>(index: usize, ports: &mut [PortRun<D>], replays: &mut [Replay<D>]) -> bool {
    let replay = &mut replays[index];
    let Some(end_ns) = replay.ended_ns.take() else { return false };
    let port = replay.parts.port;
    match replay.parts.next.as_mut().and_then(Successor::follow) {
        Some(Next::Scheduled(stream)) => {
            if let Some(part) = ports.iter_mut().find(|part| part.port == port) {
                part.schedule.start(stream, end_ns);
            }
        }
        Some(Next::Elsewhere(stream)) => start(replays, StreamIndex(stream), end_ns),
        None => return false,
    }
    true
}

/// Starts the replay of a stream. Workers that do not have it follow its chain until there, and no further.
fn start<D: Device>(replays: &mut [Replay<D>], stream: StreamIndex, end_ns: u64) {
    if let Some(replay) = replays.iter_mut().find(|replay| replay.parts.index == stream) {
        debug_assert!(replay.over, "the streams of a chain with a replay take turns");
        replay.start_ns = Some(end_ns);
    }
}

impl<D: Device> Replay<D> {
    pub(in crate::datapath) fn new(parts: ReplayParts<D>, tape: ReplayTape, pacer: Pacer) -> Self {
        Self {
            over: parts.waits,
            parts,
            tape,
            pacer,
            changes: VecDeque::with_capacity(256),
            number: 0,
            len: None,
            first: true,
            start_ns: None,
            ended_ns: None,
            burst: D::Burst::new(),
            dues_ns: [0; BURST],
            bytes: [0; BURST],
            taken: 0,
            held: false,
            giving_up_since: None,
        }
    }

    /// Looks at the next packet, so that it is known when it is due. False if there is none, or none yet.
    #[inline]
    fn look(&mut self, share: &RunShare, measured: impl FnOnce(u64) -> bool) -> bool {
        if self.len.is_some() {
            return true;
        }
        if self.over {
            return false;
        }
        match self.tape.head() {
            NextPacket::Packet(gap, len) => {
                if !std::mem::take(&mut self.first) {
                    self.pacer.go_on(gap);
                }
                self.len = Some(len);
            }
            NextPacket::Unread => {}
            NextPacket::End(end) => {
                self.over = true;
                match end {
                    // `pacer` is at the last packet still, and nothing has changed since.
                    TapeEnd::Played => self.ended_ns = self.pacer.due_ns(),
                    TapeEnd::Failed(unsent) => {
                        share.tx[self.parts.index.0].dropped(measured(self.pacer.due_ns().unwrap_or(0)), unsent);
                    }
                }
            }
        }
        self.len.is_some()
    }

    /// Starts, if what comes before it has ended. Changes until then are made first.
    fn begin(&mut self) {
        let Some(start_ns) = self.start_ns.take() else { return };
        while self.changes.front().is_some_and(|change| change.at_ns <= start_ns) {
            self.make_change();
        }
        self.pacer.again(start_ns, self.parts.start_delay_ns);
        self.tape.again();
        (self.first, self.over) = (true, false);
    }

    /// Takes a change of speed, for its instant. While the replay waits for its start, which may be before, changes are kept, but not
    /// without end.
    fn note(&mut self, change: SpeedChange) {
        if self.over && self.changes.len() == self.changes.capacity() {
            self.make_change();
        }
        self.changes.push_back(change);
    }

    /// Makes the next change.
    fn make_change(&mut self) {
        if let Some(change) = self.changes.pop_front() {
            self.pacer.change(change.at_ns, change.speed.map(speed_of));
        }
    }

    /// Whether the replay is sent on a port.
    pub(super) fn is_on(&self, port: PortIndex) -> bool {
        self.parts.port == port
    }

    /// Whether it may end, and something start after it, before an instant.
    pub(super) fn may_be_followed_before(&self, at_ns: u64) -> bool {
        self.parts.next.is_some() && self.due_ns().is_some_and(|due| due < at_ns)
    }

    /// The packet's instant if it is before another, changes made whose time has come by `at`; it is looked at.
    #[inline]
    fn due_before(&mut self, at: u64, before_ns: u64) -> Option<u64> {
        loop {
            let change = self.changes.front().copied();
            let change_ns = change.map_or(u64::MAX, |change| change.at_ns);
            if let Some(due) = self.pacer.due_ns().filter(|due| *due < before_ns.min(change_ns)) {
                return Some(due);
            }
            change.filter(|change| change.at_ns <= at)?;
            self.make_change();
        }
    }

    fn fill(&mut self, at: u64, scope: &Scope<'_>, clock: &D::Clock, outlet: &mut Outlet<D>) {
        if !self.burst.is_empty() {
            return;
        }
        self.begin();
        self.taken = 0;
        let timestamp = scope.timescale.of(clock.mono_ns()) % TIMESTAMP_MODULUS;
        let before_ns = (at + 1).min(scope.end_ns);
        while self.burst.len() < BURST && self.look(scope.share, |due| due >= scope.warmup_ns) {
            let (Some(due_ns), Some(len)) = (self.due_before(at, before_ns), self.len) else { break };
            let index = self.burst.len();
            if !self.burst.alloc(self.parts.long_packets.as_ref().unwrap_or(&outlet.pool), 1) {
                break;
            }
            let frame = self.burst.frame_mut(index, len);
            let fixup = self.tape.take(frame);
            let trailer = Trailer {
                run_tag: scope.tag,
                stream: self.parts.id,
                sender: scope.sender,
                measured: due_ns >= scope.warmup_ns,
                sequence: self.number as u32,
                timestamp,
            };
            Rewrite::write_trailer(self.parts.flow, fixup, trailer, frame);
            if D::TRACES {
                let origin = Origin { stream: self.parts.index, number: self.number };
                self.burst.note(index..index + 1, origin, 1);
            }
            self.dues_ns[index] = due_ns;
            self.bytes[index] = len as u64 + FCS_LEN;
            self.number += 1;
            self.len = None;
        }
        if !self.burst.is_empty() {
            outlet.taps.copy::<D>(&self.burst, clock);
            if std::mem::take(&mut self.held) {
                outlet.egress.throttled(self.burst.len() as u64);
            }
        }
    }

    /// Offers the burst to the device and counts what it took, which left at an instant of the run.
    fn offer(&mut self, left_at: impl FnOnce() -> u64, scope: &Scope<'_>, egress: &mut Egress<D>) -> usize {
        let (dues_ns, bytes) = (&self.dues_ns[self.taken..], &self.bytes[self.taken..]);
        let taken = egress.send(&mut self.burst, |taken| {
            let left_at = left_at();
            let late_before = left_at.saturating_sub(self.parts.late_after_ns);
            let mut phases = [Sent::default(); 2];
            for (&due_ns, &bytes) in dues_ns.iter().zip(bytes).take(taken) {
                let phase = &mut phases[usize::from(due_ns >= scope.warmup_ns)];
                let delay_ns = left_at.saturating_sub(due_ns);
                phase.packets += 1;
                phase.bytes += bytes;
                phase.late += u64::from(due_ns < late_before);
                phase.max_delay_ns = phase.max_delay_ns.max(delay_ns);
                (phase.last_delay_ns, phase.last_due_ns) = (delay_ns, due_ns);
            }
            for (measured, sent) in [(false, &phases[0]), (true, &phases[1])] {
                if sent.packets > 0 {
                    scope.share.tx[self.parts.index.0].sent(measured, sent);
                }
            }
            phases[0].bytes + phases[1].bytes
        });
        self.taken += taken;
        taken
    }

    /// When it next needs the worker, on the run's clock; at once while a packet is not read yet.
    fn due_ns(&self) -> Option<u64> {
        if self.over {
            return self.start_ns;
        }
        let change = self.changes.front().map(|change| change.at_ns);
        // Without a look the packet may be due later: the look is what it needs.
        self.pacer.due_ns().into_iter().chain(change).min()
    }

    fn sends(&self) -> bool {
        self.giving_up_since.is_none()
    }

    /// Whether nothing before the end is left to send.
    fn is_settled(&self, end_ns: u64) -> bool {
        self.burst.is_empty() && self.due_ns().is_none_or(|due| due >= end_ns)
    }

    /// Counts packets that are due and not sent as dropped. False while there are more to count.
    fn give_up(&mut self, now: u64, scope: &Scope<'_>, egress: &Egress<D>) -> bool {
        let since = *self.giving_up_since.get_or_insert(now);
        let stream = &scope.share.tx[self.parts.index.0];
        for due_ns in &self.dues_ns[self.taken..self.taken + self.burst.len()] {
            stream.dropped(*due_ns >= scope.warmup_ns, 1);
            egress.dropped(1);
        }
        self.burst.clear();
        self.begin();
        for _ in 0..COUNTED {
            if self.is_settled(scope.end_ns) {
                return true;
            }
            if !self.look(scope.share, |due| due >= scope.warmup_ns) {
                break;
            }
            let Some(due_ns) = self.due_before(scope.end_ns, scope.end_ns) else { return true };
            stream.dropped(due_ns >= scope.warmup_ns, 1);
            self.tape.skip();
            self.number += 1;
            self.len = None;
        }
        let impatient = now.saturating_sub(since) > COUNTING_NS;
        if impatient && !self.over {
            tracing::warn!(
                stream = self.parts.id,
                "a replay was so far behind at its end that not all packets that were due are counted as dropped"
            );
            self.over = true;
        }
        self.over
    }
}
