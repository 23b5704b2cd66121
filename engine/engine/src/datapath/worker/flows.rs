// SPDX-License-Identifier: Apache-2.0
//! Emulated applications beside streams: their clock, and what arrives for them. `sources::flows` sends their packets.
//!
//! Servers answer as soon as the run is prepared: clients of another engine may start a little earlier.
//! Flows start on the run's clock, and stand while it stands; those that have started go on by the worker's clock until the run's
//! drain is over.
use std::collections::VecDeque;

use spate_dpdk::BURST;
use spate_net::{
    Encap, ethernet,
    fast::{V4, V6, is_of},
    vlan::Tags,
};
use spate_stateful::{
    Emulation, Hints, Prefetched, Ratio, Received,
    envelope::{Arrival, Envelopes},
};

use super::{
    Device, Dpdk, WorkerRun,
    change::{FlowRate, NewLeasedAddresses, NewNextHops},
    command::Reclaim,
    flow_handoff::Handoff,
};
use crate::datapath::{Timing, run::clock::RunClock};
use crate::index::PortIndex;

/// Frames of other workers that are handled in an iteration.
const HANDOFF_BUDGET: usize = 256;

/// Stage of a run's flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// The run has not started.
    Waits,
    /// Flows start.
    Begins,
    /// No flow starts; open flows go on.
    Drains,
    /// The flows that were left are aborted, and nothing is sent any more.
    Aborted,
}

/// A frame without a trailer, without FCS, that a port has received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived<'a> {
    pub(super) port: PortIndex,
    pub(super) frame: &'a [u8],
    pub(super) hints: Hints<'a>,
    pub(super) at_ns: u64,
}

/// Outcome of looking for the flow, or the server, that a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demux {
    /// The frame was for an address of the scenario.
    Taken,
    /// The frame is for no address of the scenario.
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
    /// Pool of packets for segmentation by the device.
    pub(in crate::datapath) tso: Option<D::Pool>,
}

/// A run's emulated applications in one worker.
pub(in crate::datapath) struct Emulated<D: Device = Dpdk> {
    pub(super) emulation: Emulation,
    /// What stands around packets of client pools, if anything does.
    pub(super) envelopes: Option<Box<Envelopes>>,
    /// Ports that it uses.
    ports: Box<[PortIndex]>,
    /// By port: the tags that stand around all its frames, but for those of envelopes.
    pub(super) tags: Box<[Encap]>,
    /// Some frames have tags.
    in_vlans: bool,
    /// Whether no frame has tags or another encapsulation.
    bare: bool,
    pub(super) pools: Pools<D>,
    stage: Stage,
    /// Whether flows still have packets to send.
    pub(super) behind: bool,
    /// The factor of the scenario's rates, while the run's clock goes on.
    factor: Ratio,
    /// Factors to come, in order of time.
    changes: VecDeque<FlowRate>,
    /// Rings to and from other workers that have flows of the run.
    handoff: Option<Handoff>,
    /// Time after the run's end within which flows still start that were due before it.
    grace_ns: u64,
    /// When the warm-up ends on the run's clock, until it has.
    warmup_ns: Option<u64>,
}

impl<D: Device> Emulated<D> {
    pub(in crate::datapath) fn new(
        mut emulation: Emulation,
        envelopes: Option<Box<Envelopes>>,
        ports: Box<[PortIndex]>,
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
        let in_vlans = tags.iter().any(|tags| !tags.is_empty())
            || envelopes.as_ref().is_some_and(|envelopes| envelopes.are_in_vlans());
        Self {
            in_vlans,
            bare: !in_vlans && envelopes.is_none(),
            emulation,
            envelopes,
            ports,
            tags: tags.iter().map(|tags| Encap::NONE.within(*tags)).collect(),
            pools,
            stage: Stage::Waits,
            behind: false,
            factor: Ratio::ONE,
            changes: VecDeque::with_capacity(64),
            handoff,
            // Flows that start in the first half of the drain have the second half to end.
            grace_ns: timing.drain_ns / 2,
            warmup_ns,
        }
    }

    /// Time after the run's end within which flows still start that were due before it.
    pub(super) fn grace_ns(&self) -> u64 {
        self.grace_ns
    }

    /// The device takes nothing now.
    pub(super) fn note_behind(&mut self) {
        self.behind = true;
    }

    /// Whether it uses a port.
    pub(super) fn uses(&self, port: PortIndex) -> bool {
        self.ports.contains(&port)
    }

    /// A frame without a trailer arrives.
    #[inline]
    pub(super) fn receive(&mut self, &Arrived { port, frame, hints, at_ns }: &Arrived<'_>) -> Demux {
        // Nearly all frames: the EtherType itself shows that there is no tag.
        if self.bare && is_of::<V4>(frame) {
            let received = self.emulation.receive_hinted_v4(port.0, frame, hints, at_ns);
            return self.received(received, port, frame, at_ns);
        }
        if !(self.bare && is_of::<V6>(frame)) {
            if (self.in_vlans || ethernet::is_tagged(frame)) && !self.is_in_its_vlan(port, frame) {
                return Demux::Foreign;
            }
            if let Some(envelopes) = self.envelopes.as_mut().filter(|envelopes| envelopes.are_on(port.0)) {
                if let Some(refused) = self.emulation.refused_by_mac(port.0, frame) {
                    return refused.into();
                }
                // The checksum that a device has verified may be that of a tunnel's outer header.
                return receive_enveloped(envelopes, &mut self.emulation, &mut self.handoff, port, frame, at_ns);
            }
        }
        let received = self.emulation.receive_hinted(port.0, frame, hints, at_ns);
        self.received(received, port, frame, at_ns)
    }

    #[inline(always)]
    fn received(&mut self, received: Received, port: PortIndex, frame: &[u8], at_ns: u64) -> Demux {
        match received {
            Received::Elsewhere => hand_off_or_receive(&mut self.emulation, &mut self.handoff, port, frame, at_ns),
            received => received.into(),
        }
    }

    /// Whether a frame has the tags of its port, or those of the envelope that it is in.
    #[inline]
    fn is_in_its_vlan(&self, port: PortIndex, frame: &[u8]) -> bool {
        match self.envelopes.as_ref().filter(|envelopes| envelopes.are_on(port.0)) {
            Some(envelopes) => envelopes.is_in_its_vlan(port.0, frame),
            None => self.tags[port.0].is_around(frame),
        }
    }

    /// Frames are about to be received on a port: gives what it finds of each. False if what is in them is not found before they are
    /// read.
    #[inline]
    pub(super) fn look_ahead<'a>(
        &self,
        port: PortIndex,
        frames: impl Iterator<Item = &'a [u8]>,
        found: &mut [Prefetched; BURST],
    ) -> bool {
        let plain = !self.in_vlans && self.envelopes.as_ref().is_none_or(|envelopes| !envelopes.are_on(port.0));
        if plain {
            self.emulation.look_ahead(frames, found);
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
        // Packets that this worker received itself must be read in between.
        for _ in 0..HANDOFF_BUDGET {
            let Some((port, frame)) = handoff.take() else { return };
            // No other worker has the frame's flow.
            self.emulation.set_shared(false);
            let (_, of_client) = self.emulation.receive_handed(port.0, frame, now_ns);
            self.emulation.set_shared(true);
            handoff.note_met(of_client.into());
        }
    }

    /// Changes the rates of flows, in order of time.
    pub(super) fn change(&mut self, change: FlowRate) {
        self.changes.push_back(change);
    }

    /// Frames of a port go there from now on; what was before is given back.
    pub(super) fn swap_next_hops(&mut self, new: &mut NewNextHops) {
        if let Some(envelopes) = &mut self.envelopes {
            envelopes.set_next_hops(new.port.0, &new.hops);
            envelopes.set_gateways(new.port.0, &new.gateways);
        }
        self.emulation.swap_next_hops(new.port.0, &mut new.hops);
    }

    /// Clients of a pool have these leased addresses from now on; what was before is given back.
    pub(super) fn swap_leased(&mut self, new: &mut NewLeasedAddresses) {
        self.emulation.swap_leased(new.pool, &mut new.leased);
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
            if let Some(flow_schedule) = change.flow_schedule {
                self.emulation.change_rates(mono_ns, flow_schedule);
            }
        }
        if self.stage == Stage::Begins && at >= end_ns {
            self.emulation.stop(clock.mono_of(end_ns).unwrap_or(mono_ns));
            self.stage = Stage::Drains;
        }
    }

    /// Takes what may be freed.
    pub(super) fn over(&mut self) -> Option<Reclaim<D>> {
        self.emulation.over().map(Reclaim::FlowSchedule)
    }

    /// The run's clock stands, or goes on, from a monotonic instant.
    fn turned(&mut self, at_ns: u64, stands: bool) {
        if self.stage == Stage::Begins {
            self.emulation.change_rate(at_ns, if stands { Ratio::ZERO } else { self.factor });
        }
    }

    /// Timers, and flows that are due by `known_ns`, up to which all commands are obeyed.
    #[inline]
    pub(super) fn advance(&mut self, mono_ns: u64, known_ns: u64) {
        if self.stage != Stage::Aborted {
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
    pub(super) fn abort(&mut self) {
        self.is_settled(true);
        self.emulation.abort();
        self.stage = Stage::Aborted;
    }

    /// When it needs the worker, on the monotonic clock, of which the run's own makes this.
    pub(super) fn due_ns(&self, clock: &RunClock) -> Option<u64> {
        let start = if self.stage == Stage::Waits { clock.mono_of(0) } else { None };
        let change = self.changes.front().and_then(|change| clock.mono_of(change.at_ns));
        start.into_iter().chain(change).chain(self.next_due_ns()).min()
    }

    fn next_due_ns(&self) -> Option<u64> {
        match &self.envelopes {
            _ if self.stage == Stage::Aborted => None,
            _ if self.emulation.redirects() => Some(0),
            Some(envelopes) if envelopes.has_any_answers() => Some(0),
            _ => self.emulation.next_due_ns(),
        }
    }

    /// Whether the run has something to send on a port.
    pub(super) fn sends(&self, port: PortIndex) -> bool {
        let answers = || self.envelopes.as_ref().is_some_and(|envelopes| envelopes.has_answers(port.0));
        self.stage != Stage::Aborted && (self.emulation.is_ready(port.0) || answers())
    }
}

/// A frame on a port with envelopes: what came through a tunnel goes on without it. The device spreads packets by the headers outside,
/// so that a flow's may arrive at any worker; it is handed over by what is inside.
#[inline(never)]
fn receive_enveloped(
    envelopes: &mut Envelopes,
    emulation: &mut Emulation,
    handoff: &mut Option<Handoff>,
    port: PortIndex,
    frame: &[u8],
    at_ns: u64,
) -> Demux {
    let frame = match envelopes.receive(port.0, frame) {
        Arrival::Plain => frame,
        Arrival::Done => return Demux::Taken,
        Arrival::Inner(inner) => inner,
    };
    match emulation.receive(port.0, frame, at_ns) {
        Received::Elsewhere => hand_off_or_receive(emulation, handoff, port, frame, at_ns),
        received => received.into(),
    }
}

/// A frame of a flow that is not here goes where it belongs; there it is of an unknown one.
#[cold]
fn hand_off_or_receive(
    emulation: &mut Emulation,
    handoff: &mut Option<Handoff>,
    port: PortIndex,
    frame: &[u8],
    at_ns: u64,
) -> Demux {
    let given = handoff.as_mut().is_some_and(|handoff| handoff.give(port, frame, at_ns));
    if given { Demux::Taken } else { receive_as_owner(emulation, port, frame, at_ns).into() }
}

/// No other worker has the frame's flow.
fn receive_as_owner(emulation: &mut Emulation, port: PortIndex, frame: &[u8], at_ns: u64) -> Received {
    emulation.set_shared(false);
    let received = emulation.receive(port.0, frame, at_ns);
    emulation.set_shared(true);
    received
}

impl<D: Device> WorkerRun<D> {
    /// Resumes the run's clock.
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
}
