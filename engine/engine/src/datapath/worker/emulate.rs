// SPDX-License-Identifier: Apache-2.0
//! Emulated applications beside streams: their clock, what arrives for them, and the packets they send.
//!
//! Servers answer as soon as the run is prepared: clients of another engine may start a little earlier.
//! Flows begin on the run's clock, and stand while it stands; those that have started go on by the worker's clock until the run's
//! drain is over. What a device did not take is offered again before a flow is asked for more, so packets leave in order.
use std::collections::VecDeque;

use spate_dpdk::{BURST, Offered, Unfinished};
use spate_net::{Encap, FCS_LEN, ethernet, vlan::Tags};
use spate_stateful::{
    Cut, Emulation, Hints, Layers, NextHops, Offloads, Received,
    envelope::{Arrival, Envelopes},
    tcp,
};

use super::{
    Device, Dpdk, Time, WorkerRun,
    attach::Taps,
    device::{Packets, Pool},
    egress::Egress,
    flow_handoff::Handoff,
};
use crate::datapath::{
    Timing,
    command::{FlowRate, Reclaim},
    open::SHORT_ROOM,
    run::clock::RunClock,
};

/// Frames of other workers that are handled in an iteration.
const HANDED: usize = 256;
/// Packets taken at once that are longer than those every worker has.
const LONG: usize = 8;

/// How far a run has come with its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Its start has not come.
    Waits,
    /// Flows begin.
    Begins,
    /// None begins; those that are open go on.
    Drains,
    /// Nothing is sent any more.
    Cut,
}

/// A frame without a trailer, without FCS, that a port has received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived<'a> {
    pub(super) port: usize,
    pub(super) frame: &'a [u8],
    pub(super) hints: Hints,
    pub(super) at_ns: u64,
}

/// Outcome of looking for the flow, or the server, that a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demux {
    /// It was for an address of the scenario.
    Taken,
    /// It is none of the scenario's.
    Foreign,
    /// By its destination MAC it is for another station.
    OtherMac,
}

impl From<Received> for Demux {
    #[inline]
    fn from(received: Received) -> Self {
        match received {
            Received::Taken => Self::Taken,
            Received::OtherMac => Self::OtherMac,
            Received::Foreign | Received::Elsewhere => Self::Foreign,
        }
    }
}

/// Where packets come from that the worker's own have no room for.
pub(in crate::datapath) struct Pools<D: Device = Dpdk> {
    /// Jumbo frames.
    pub(in crate::datapath) long: Option<D::Pool>,
    /// For devices to cut into segments.
    pub(in crate::datapath) to_cut: Option<D::Pool>,
}

/// A run's emulated applications in one worker.
pub(in crate::datapath) struct Emulated<D: Device = Dpdk> {
    emulation: Emulation,
    /// What stands around packets of client pools, if anything does.
    envelopes: Option<Box<Envelopes>>,
    /// Ports that it uses.
    ports: Box<[usize]>,
    /// By port: the tags that stand around all its frames, but for those of envelopes.
    tags: Box<[Encap]>,
    /// Some frames have tags.
    in_vlans: bool,
    pools: Pools<D>,
    stage: Stage,
    /// Not all that flows had to send has left.
    behind: bool,
    /// Of the scenario's rates, while the run's clock goes on.
    factor: (u64, u64),
    /// Factors to come, in order of time.
    changes: VecDeque<FlowRate>,
    /// To and from other workers that have flows of the run.
    handoff: Option<Handoff>,
    /// So long after the run's end flows still begin that were due before it.
    grace_ns: u64,
    /// When the warm-up ends on the run's clock, until it has.
    warmup_ns: Option<u64>,
}

impl<D: Device> Emulated<D> {
    pub(in crate::datapath) fn new(
        mut emulation: Emulation,
        envelopes: Option<Box<Envelopes>>,
        ports: Box<[usize]>,
        tags: &[Tags],
        pools: Pools<D>,
        handoff: Option<Handoff>,
        timing: &Timing,
    ) -> Self {
        emulation.set_shared(handoff.is_some());
        let warmup_ns = Some(timing.warmup_ns).filter(|warmup_ns| *warmup_ns > 0);
        if warmup_ns.is_some() {
            emulation.warm_up();
        }
        Self {
            in_vlans: tags.iter().any(|tags| !tags.is_empty())
                || envelopes.as_ref().is_some_and(|all| all.are_in_vlans()),
            emulation,
            envelopes,
            ports,
            tags: tags.iter().map(|tags| Encap::NONE.within(*tags)).collect(),
            pools,
            stage: Stage::Waits,
            behind: false,
            factor: (1, 1),
            changes: VecDeque::with_capacity(64),
            handoff,
            // Those that begin in the first half of the drain have the other to end.
            grace_ns: timing.drain_ns / 2,
            warmup_ns,
        }
    }

    /// So long after the run's end flows still begin that were due before it.
    pub(super) fn grace_ns(&self) -> u64 {
        self.grace_ns
    }

    /// The device takes nothing now.
    pub(super) fn note_behind(&mut self) {
        self.behind = true;
    }

    /// Whether it uses a port.
    pub(super) fn uses(&self, port: usize) -> bool {
        self.ports.contains(&port)
    }

    /// A frame without a trailer arrives.
    #[inline]
    pub(super) fn receive(&mut self, &Arrived { port, frame, hints, at_ns }: &Arrived<'_>) -> Demux {
        if (self.in_vlans || ethernet::is_tagged(frame)) && !self.is_in_its_vlan(port, frame) {
            return Demux::Foreign;
        }
        if let Some(envelopes) = self.envelopes.as_mut().filter(|envelopes| envelopes.are_on(port)) {
            if let Some(refused) = self.emulation.refused_by_mac(port, frame) {
                return refused.into();
            }
            // What a device has verified may be around a tunnel.
            return receive_enveloped(envelopes, &mut self.emulation, &mut self.handoff, port, frame, at_ns);
        }
        match self.emulation.receive_hinted(port, frame, hints, at_ns) {
            Received::Elsewhere => receive_stray(&mut self.emulation, &mut self.handoff, port, frame, at_ns),
            received => received.into(),
        }
    }

    /// Whether a frame has the tags of its port, or those of the envelope that it is in.
    #[inline]
    fn is_in_its_vlan(&self, port: usize, frame: &[u8]) -> bool {
        match self.envelopes.as_ref().filter(|envelopes| envelopes.are_on(port)) {
            Some(envelopes) => envelopes.is_in_its_vlan(port, frame),
            None => self.tags[port].is_around(frame),
        }
    }

    /// Frames are about to be received on a port, which has a hash for each then. False if what is in them is not found before they
    /// are read.
    #[inline]
    pub(super) fn look_ahead<'a>(
        &self,
        port: usize,
        frames: impl Iterator<Item = &'a [u8]>,
        hashes: &mut [u32; BURST],
    ) -> bool {
        let plain = !self.in_vlans && self.envelopes.as_ref().is_none_or(|envelopes| !envelopes.are_on(port));
        if plain {
            self.emulation.look_ahead(frames, hashes);
        }
        plain
    }

    /// Whether other workers could take a burst that turned out to be theirs.
    #[inline]
    pub(super) fn may_receive(&mut self) -> bool {
        self.handoff.as_mut().is_none_or(Handoff::has_room)
    }

    /// Takes what other workers gave.
    #[inline]
    pub(super) fn take_handed(&mut self, now_ns: u64) {
        let Some(handoff) = &mut self.handoff else { return };
        // What has arrived here itself must be read in between.
        for _ in 0..HANDED {
            let Some((port, frame)) = handoff.take() else { return };
            // Nobody else has the frame's flow.
            self.emulation.set_shared(false);
            let (_, of_client) = self.emulation.receive_handed(port, frame, now_ns);
            self.emulation.set_shared(true);
            handoff.note_met(of_client.into());
        }
    }

    /// Other rates, in order of time.
    pub(super) fn change(&mut self, change: FlowRate) {
        self.changes.push_back(change);
    }

    /// Frames of a port go there from now on; what was before is given back.
    pub(super) fn swap_next_hops(&mut self, port: usize, hops: &mut NextHops) {
        if let Some(envelopes) = &mut self.envelopes {
            envelopes.set_next_hops(port, hops);
        }
        self.emulation.swap_next_hops(port, hops);
    }

    /// What the run's clock asks for up to a monotonic instant, in which it neither stops nor resumes.
    fn follow(&mut self, clock: &RunClock, mono_ns: u64, end_ns: u64) {
        let Some(at) = clock.at(mono_ns).and_then(|at| u64::try_from(at).ok()) else { return };
        if self.stage == Stage::Waits
            && let Some(origin) = clock.mono_of(0)
        {
            self.emulation.start(origin);
            self.stage = Stage::Begins;
        }
        if let Some(warmup_ns) = self.warmup_ns.take_if(|warmup_ns| at >= *warmup_ns) {
            self.emulation.measure(clock.mono_of(warmup_ns).unwrap_or(mono_ns));
        }
        while let Some(change) = self.changes.front().filter(|change| change.at_ns <= at) {
            // While the clock stands it is not known when that is: the change waits until it goes on.
            let Some(mono_ns) = clock.mono_of(change.at_ns) else { break };
            let Some(change) = self.changes.pop_front() else { break };
            self.factor = change.factor;
            self.emulation.change_rate(mono_ns, self.factor);
            if let Some(row) = change.row {
                self.emulation.change_rates(mono_ns, row);
            }
        }
        if self.stage == Stage::Begins && at >= end_ns {
            self.emulation.stop(clock.mono_of(end_ns).unwrap_or(mono_ns));
            self.stage = Stage::Drains;
        }
    }

    /// What may be freed.
    pub(super) fn over(&mut self) -> Option<Reclaim<D>> {
        self.emulation.over().map(Reclaim::Row)
    }

    /// The run's clock stands, or goes on, from a monotonic instant.
    fn turned(&mut self, at_ns: u64, stands: bool) {
        if self.stage == Stage::Begins {
            self.emulation.change_rate(at_ns, if stands { (0, 1) } else { self.factor });
        }
    }

    /// Timers, and flows that are due by `known_ns`, up to which all commands are obeyed.
    #[inline]
    pub(super) fn advance(&mut self, mono_ns: u64, known_ns: u64) {
        if self.stage != Stage::Cut {
            self.emulation.advance(mono_ns, known_ns, std::mem::take(&mut self.behind));
            if self.emulation.redirects() {
                self.emulation.redirect();
            }
        }
    }

    /// Whether all flows have started that were due before the end; past the grace the others never will.
    pub(super) fn is_settled(&mut self, past_grace: bool) -> bool {
        if past_grace {
            if self.stage < Stage::Drains {
                self.emulation.stop(0);
            }
            self.emulation.give_up();
            self.stage = self.stage.max(Stage::Drains);
        }
        !self.emulation.begins()
    }

    /// Ends flows that are left, and counts them. Those that still begin from outside end the same way when it is called again.
    pub(super) fn cut(&mut self) {
        self.is_settled(true);
        self.emulation.cut();
        self.stage = Stage::Cut;
    }

    /// When it needs the worker, on the monotonic clock.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        match &self.envelopes {
            _ if self.stage == Stage::Cut => None,
            _ if self.emulation.redirects() => Some(0),
            Some(envelopes) if envelopes.owes_any() => Some(0),
            _ => self.emulation.next_due_ns(),
        }
    }

    fn sends(&self, port: usize) -> bool {
        let answers = || self.envelopes.as_ref().is_some_and(|envelopes| envelopes.owes(port));
        self.stage != Stage::Cut && (self.emulation.is_ready(port) || answers())
    }
}

/// A frame on a port with envelopes: what came through a tunnel goes on without it. The device spreads packets by the headers outside,
/// so that a flow's may arrive at any worker; it is handed over by what is inside.
#[inline(never)]
fn receive_enveloped(
    envelopes: &mut Envelopes,
    emulation: &mut Emulation,
    handoff: &mut Option<Handoff>,
    port: usize,
    frame: &[u8],
    at_ns: u64,
) -> Demux {
    let frame = match envelopes.receive(port, frame) {
        Arrival::Plain => frame,
        Arrival::Done => return Demux::Taken,
        Arrival::Inner(inner) => inner,
    };
    match emulation.receive(port, frame, at_ns) {
        Received::Elsewhere => receive_stray(emulation, handoff, port, frame, at_ns),
        received => received.into(),
    }
}

/// A frame of a flow that is not here goes where it belongs; there it is of an unknown one.
#[cold]
fn receive_stray(
    emulation: &mut Emulation,
    handoff: &mut Option<Handoff>,
    port: usize,
    frame: &[u8],
    at_ns: u64,
) -> Demux {
    let given = handoff.as_mut().is_some_and(|handoff| handoff.give(port, frame, at_ns));
    if given { Demux::Taken } else { receive_at_home(emulation, port, frame, at_ns).into() }
}

/// Nobody else has the frame's flow.
fn receive_at_home(emulation: &mut Emulation, port: usize, frame: &[u8], at_ns: u64) -> Received {
    emulation.set_shared(false);
    let received = emulation.receive(port, frame, at_ns);
    emulation.set_shared(true);
    received
}

impl<D: Device> WorkerRun<D> {
    /// Lets the run's clock go on.
    #[inline]
    pub(super) fn go_on(&mut self, now: u64) {
        if let Some(emulated) = &mut self.emulated {
            while let Some(at) = self.clock.next_change().filter(|at| *at <= now && self.clock.started()) {
                emulated.follow(&self.clock, at, self.end_ns);
                let stood = self.clock.is_stopped();
                self.clock.advance(at);
                if self.clock.is_stopped() != stood {
                    emulated.turned(at, !stood);
                }
            }
            emulated.follow(&self.clock, now, self.end_ns);
        }
        self.clock.advance(now);
    }

    /// When its flows need the worker, on the monotonic clock.
    pub(super) fn flows_due_ns(&self) -> Option<u64> {
        let emulated = self.emulated.as_ref()?;
        let start = if emulated.stage == Stage::Waits { self.clock.mono_of(0) } else { None };
        let change = emulated.changes.front().and_then(|change| self.clock.mono_of(change.at_ns));
        start.into_iter().chain(change).chain(emulated.next_due_ns()).min()
    }
}

/// Packets of flows that leave on one port: written, not yet sent, and some to write to.
pub(super) struct Segments<D: Device> {
    burst: D::Burst,
    /// Number of packets, from the first, that are written.
    written: usize,
    /// Bytes of a packet that has room.
    room: usize,
    /// Bytes of the written ones with FCS, in their order from `sent` on.
    bytes: [u32; BURST],
    sent: usize,
    /// What the device does.
    offloads: spate_dpdk::Offloads,
    /// As `bytes`: what it cuts, and nothing for others.
    cuts: [CutInto; BURST],
    /// Something is left to it of packets in the burst.
    unfinished: bool,
}

/// Into what a frame is cut.
#[derive(Clone, Copy, Debug, Default)]
struct CutInto {
    /// Bytes of data of each segment; 0: it is not cut.
    segment: u16,
    /// Packets on the wire besides the first.
    more: u16,
}

impl<D: Device> Segments<D> {
    pub(super) fn new(offloads: spate_dpdk::Offloads) -> Self {
        Self {
            burst: D::Burst::new(),
            written: 0,
            room: 0,
            bytes: [0; BURST],
            sent: 0,
            offloads,
            cuts: [CutInto::default(); BURST],
            unfinished: offloads.tx_checksum,
        }
    }

    /// Whether packets wait for the device.
    pub(super) fn wait(&self) -> bool {
        self.written > 0
    }

    /// Packets on the wire that wait.
    pub(super) fn waiting(&self) -> u64 {
        self.packets(self.written)
    }

    /// Gives back what it holds; written packets that were not sent are counted as dropped.
    pub(super) fn clear(&mut self, egress: &Egress<D>) {
        egress.dropped(self.packets(self.written));
        self.cuts.fill(CutInto::default());
        self.burst.clear();
        (self.written, self.sent) = (0, 0);
    }

    /// Asks a run's flows for what they have to send on a port, as long as there is room, and copies it to taps.
    pub(super) fn fill(
        &mut self,
        port: usize,
        emulated: &mut Emulated<D>,
        pool: &D::Pool,
        taps: &mut Taps,
        clock: &D::Clock,
    ) {
        if !emulated.sends(port) {
            return;
        }
        let from = self.written;
        let tags = &emulated.tags[port];
        let envelopes = emulated.envelopes.as_mut().filter(|envelopes| envelopes.are_on(port));
        let in_envelopes = envelopes.is_some();
        let before = envelopes.as_ref().map_or(tags.overhead(), |envelopes| envelopes.gap(port));
        // In a tunnel devices find neither segments nor their checksums.
        let in_tunnels = envelopes.as_ref().is_some_and(|envelopes| envelopes.are_tunnels_on(port));
        let offloads =
            if in_tunnels { Offloads::default() } else { self.offloads(emulated.pools.to_cut.as_ref(), before) };
        let mut room = Room { segments: self, pool, pools: &emulated.pools, offloads, before };
        match envelopes {
            None => emulated.emulation.transmit(port, clock.mono_ns(), &mut room),
            Some(envelopes) => room.fill_envelopes(port, &mut emulated.emulation, envelopes, clock),
        }
        if before > 0 && !in_envelopes {
            self.write_tags(from, tags);
        }
        if self.unfinished && !in_tunnels {
            self.leave(from);
        }
        emulated.behind |= emulated.emulation.is_ready(port);
        taps.copy_some::<D>(&self.burst, from..self.written, clock);
    }

    /// What the device does of frames with tags of this many bytes to come; it cuts only if there are packets for that.
    fn offloads(&self, to_cut: Option<&D::Pool>, tag: usize) -> Offloads {
        let cut = self.offloads.cut.zip(to_cut).map(|(cut, pool)| Cut {
            longest_frame: (cut.longest_frame.min(pool.room()) - tag) as u32,
            longest_segment: cut.longest_segment as u32,
            v6: cut.v6,
        });
        Offloads { checksums: self.offloads.tx_checksum, cut }
    }

    /// Sets the offload flags of packets from one on: what is left to the device.
    #[inline(never)]
    fn leave(&mut self, from: usize) {
        for index in from..self.written {
            let segment = self.cuts[self.sent + index].segment;
            if segment == 0 && !self.offloads.tx_checksum {
                continue;
            }
            let Some(layers) = Layers::of(self.burst.head(index)) else { continue };
            let Layers { l2, l3, l4, v6, tcp } = layers;
            self.burst.leave(index, &Unfinished { l2, l3, l4, v6, tcp, segment });
        }
    }

    /// Number of packets on the wire of the first `frames` frames.
    fn packets(&self, frames: usize) -> u64 {
        let more = self.cuts[self.sent..self.sent + frames].iter().map(|cut| u64::from(cut.more));
        frames as u64 + more.sum::<u64>()
    }

    /// Bytes, FCS included, of the first frames of the burst.
    #[inline]
    fn bytes_of(&self, frames: usize) -> u64 {
        self.bytes[self.sent..self.sent + frames].iter().map(|bytes| u64::from(*bytes)).sum()
    }

    /// Tags packets from one on: room was left before them.
    #[cold]
    fn write_tags(&mut self, from: usize, tags: &Encap) {
        for index in from..self.written {
            let len = self.burst.frame_len(index);
            tags.write_tags(self.burst.frame_mut(index, len));
        }
    }

    /// Offers what is written. Returns how many packets the device took.
    pub(super) fn send(&mut self, egress: &mut Egress<D>) -> usize {
        if self.written == 0 {
            return 0;
        }
        if self.unfinished {
            return self.send_unfinished(egress);
        }
        let taken = self.burst.send_first(egress.queue(), self.written);
        egress.sent(taken, self.bytes_of(taken));
        self.written -= taken;
        self.sent += taken;
        taken
    }

    /// The same where something is left to the device. Returns how many packets leave on the wire.
    #[inline(never)]
    fn send_unfinished(&mut self, egress: &mut Egress<D>) -> usize {
        let offered = self.burst.send_unfinished(egress.queue(), self.written);
        let taken = if let Offered::Taken(taken) = offered { taken } else { 1 };
        let packets = self.packets(taken);
        if offered == Offered::Refused {
            egress.dropped(packets);
        } else {
            let cut = self.cuts[self.sent..self.sent + taken].iter().filter(|cut| cut.segment > 0);
            egress.segmented(cut.count());
            egress.sent(packets as usize, self.bytes_of(taken));
        }
        self.written -= taken;
        self.sent += taken;
        packets as usize
    }
}

/// Room for what flows write.
struct Room<'a, D: Device> {
    segments: &'a mut Segments<D>,
    pool: &'a D::Pool,
    pools: &'a Pools<D>,
    offloads: Offloads,
    /// Bytes to leave before each frame, for what is to come there.
    before: usize,
}

impl<D: Device> Room<'_, D> {
    /// Asks flows of a port with envelopes for what they have to send, and puts it into the envelopes.
    #[inline(never)]
    fn fill_envelopes(&mut self, port: usize, emulation: &mut Emulation, envelopes: &mut Envelopes, clock: &D::Clock) {
        let gap = std::mem::take(&mut self.before);
        envelopes.answer(port, self);
        self.before = gap;
        let from = self.segments.written;
        emulation.transmit(port, clock.mono_ns(), self);
        let segments = &mut *self.segments;
        for index in from..segments.written {
            let len = segments.burst.frame_len(index);
            let made = envelopes.encapsulate(port, segments.burst.frame_mut(index, len));
            if made < len {
                let padded = made.max(D::SHORTEST_FRAME);
                segments.burst.frame_mut(index, padded)[made..].fill(0);
                let slot = segments.sent + index;
                let packets = 1 + u32::from(segments.cuts[slot].more);
                segments.bytes[slot] -= packets * (len - padded) as u32;
            }
        }
    }

    /// Takes packets that have room for a frame. False if there are none now.
    #[cold]
    fn take(&mut self, len: usize) -> bool {
        let (pool, most) = match &self.pools.long {
            Some(long) if len > SHORT_ROOM => (long, LONG),
            _ => (self.pool, BURST),
        };
        self.take_from(pool, most, len)
    }

    /// The same from a pool, at most this many.
    fn take_from(&mut self, pool: &D::Pool, most: usize, len: usize) -> bool {
        let segments = &mut *self.segments;
        if segments.written > 0 {
            // They leave first.
            return false;
        }
        segments.burst.clear();
        segments.sent = 0;
        segments.cuts.fill(CutInto::default());
        segments.unfinished = segments.offloads.tx_checksum;
        segments.room = pool.room();
        debug_assert!(len <= segments.room, "it was prepared for frames of such length");
        let taken = len <= segments.room && (segments.burst.alloc(pool, most) || segments.burst.alloc(pool, 1));
        segments.burst.fetch();
        taken
    }
}

impl<D: Device> tcp::Output for Room<'_, D> {
    #[inline]
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        let before = self.before;
        let padded = (before + len).max(D::SHORTEST_FRAME);
        let full = self.segments.written == self.segments.burst.len();
        if (full || padded > self.segments.room) && !self.take(padded) {
            return None;
        }
        let segments = &mut *self.segments;
        let index = segments.written;
        segments.bytes[segments.sent + index] = padded as u32 + FCS_LEN as u32;
        segments.written += 1;
        let frame = segments.burst.frame_mut(index, padded);
        let (frame, padding) = frame[before..].split_at_mut(len);
        // Most frames have none, and to fill nothing is a call.
        if !padding.is_empty() {
            padding.fill(0);
        }
        Some(frame)
    }

    #[inline]
    fn leaves_checksums(&self) -> bool {
        self.offloads.checksums
    }

    #[inline]
    fn cut(&self) -> Option<&Cut> {
        self.offloads.cut.as_ref()
    }

    fn frame_to_cut(&mut self, headers: usize, data: usize, segment: usize) -> Option<&mut [u8]> {
        let (tag, len) = (self.before, self.before + headers + data);
        let full = self.segments.written == self.segments.burst.len();
        if full || len > self.segments.room {
            let empty = self.segments.written == 0;
            let to_cut = self.pools.to_cut.as_ref()?;
            if !self.take_from(to_cut, LONG, len) {
                if empty {
                    // The device has all of them.
                    self.offloads.cut = None;
                }
                return None;
            }
        }
        let segments = &mut *self.segments;
        let (index, packets) = (segments.written, data.div_ceil(segment));
        let slot = segments.sent + index;
        segments.unfinished = true;
        segments.cuts[slot] = CutInto { segment: segment as u16, more: packets as u16 - 1 };
        segments.bytes[slot] = (packets * (tag + headers + FCS_LEN as usize) + data) as u32;
        segments.written += 1;
        Some(&mut segments.burst.frame_mut(index, len)[tag..])
    }
}
