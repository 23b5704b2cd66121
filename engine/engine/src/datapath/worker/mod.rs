// SPDX-License-Identifier: Apache-2.0
//! A worker: one thread on one CPU that sends, receives and counts, and shares nothing it writes.
//!
//! Its loop: read the clock, obey control, receive, transmit what is due, see what has ended, rest if it may.
mod attach;
mod by_tag;
mod change;
mod command;
mod device;
mod device_stamps;
mod doorbell;
mod dpdk;
mod egress;
mod flow_handoff;
mod flows;
mod handed;
mod hook;
mod idle;
mod outlet;
mod receive;
pub(super) mod simulated;
mod sinks;
mod sources;
mod stream_handoff;
mod taps;
#[cfg(test)]
mod tests;
mod tx_port;

use std::{collections::VecDeque, sync::Arc};

use rtrb::{Consumer, Producer};

pub(super) use by_tag::{ByTag, Tagged};
pub use change::MAX_RUNS;
pub(super) use change::{FlowRate, NewLeasedAddresses, NewNextHops, RateChange, SpeedChange};
pub(super) use command::{Command, QUEUE, Reclaim};
pub(super) use device::{Device, Time};
pub(super) use dpdk::Dpdk;
pub(super) use flow_handoff::{HandoffShare, between};
pub(super) use flows::{Emulated, Pools};
pub(super) use hook::Hook;
pub(super) use idle::{Idle, Waker};
pub(super) use sinks::{
    ClientCopy, DelayIndex, Marks, Owner, RunForeign, RunReceive, RunReceiver, SlowPathCopy, StreamReceive,
};
pub(super) use sources::{Inject, NewStreams, PortRun, Replay, ReplayParts, ReplayTape, SendStream, TapeEnd, speed_of};
pub(super) use stream_handoff::{StreamHandoff, between_workers};
pub use taps::Direction;
pub(super) use taps::Tap;

use super::{
    clock::Timescale,
    device_clock::DeviceClock,
    run::clock::RunClock,
    shared::{QueueShare, RunShare, WorkerShare},
};
use crate::index::{PortIndex, RunSlot, WorkerIndex};
use device::{Awaited, IdleStrategy, TxDevice as _};
use egress::FLUSH_NS;
use receive::{Receiver, RxPort};
use sources::{Active, Ending, Pass, Sources};
use tx_port::TxPort;

/// How long after the end of transmission packets may still leave.
const GRACE_NS: u64 = 100_000_000;

/// A worker's view of a run.
pub(super) struct WorkerRun<D: Device = Dpdk> {
    pub(super) tag: u16,
    pub(super) clock: RunClock,
    pub(super) warmup_ns: u64,
    /// Transmission ends here, on the run's clock.
    pub(super) end_ns: u64,
    /// The run is stopped: packets that are due are given up after one more burst.
    pub(super) stopped: bool,
    /// The time scale of the run's time stamps.
    pub(super) timescale: Arc<Timescale>,
    /// This worker's number in trailers.
    pub(super) sender: u8,
    /// By transmit port of the worker that the run uses.
    pub(super) ports: Vec<PortRun<D>>,
    /// Captures that this worker replays.
    pub(super) replays: Vec<Replay<D>>,
    /// Applications that this worker emulates.
    pub(super) emulated: Option<Box<Emulated<D>>>,
    pub(super) receive: RunReceive,
    pub(super) share: Arc<RunShare>,
    /// Control asked to read all that has arrived.
    pub(super) emptying: bool,
}

/// A queue to receive from.
pub(super) struct ReceiveQueue<D: Device = Dpdk> {
    pub(super) port: PortIndex,
    pub(super) queue: D::Rx,
    /// Its counters.
    pub(super) share: Arc<QueueShare>,
    /// MAC address of the port's station; none: frames for any address are taken.
    pub(super) mac: Option<[u8; 6]>,
    /// Clock of the port's device, if that stamps packets.
    pub(super) device_clock: Option<Arc<DeviceClock>>,
}

/// Parts of a worker that is to be made.
pub(super) struct Parts<D: Device = Dpdk> {
    pub(super) index: WorkerIndex,
    pub(super) clock: D::Clock,
    pub(super) commands: Consumer<Command<D>>,
    pub(super) reclaim: Producer<Reclaim<D>>,
    pub(super) pool: D::Pool,
    /// (port, its queue, its counters)
    pub(super) tx: Vec<(PortIndex, D::Tx, Arc<QueueShare>)>,
    pub(super) rx: Vec<ReceiveQueue<D>>,
    pub(super) handoff: StreamHandoff,
    pub(super) share: Arc<WorkerShare>,
    pub(super) idle: D::Idle,
}

/// A running worker.
pub(super) struct Worker<D: Device = Dpdk> {
    clock: D::Clock,
    commands: Consumer<Command<D>>,
    reclaim: Producer<Reclaim<D>>,
    /// Runs, by slot.
    runs: Vec<Option<Box<WorkerRun<D>>>>,
    /// End of the slots in use; the lowest free slot is taken first.
    reach: usize,
    /// The sources that they have something for.
    active: Active,
    tx: Vec<TxPort<D>>,
    /// A limit bounds what all ports send.
    limited: bool,
    /// The number of the source that may send first within the limit: each source of each port has one.
    turn: usize,
    receiver: Receiver<D>,
    /// When a device is to be tended, and how often; never, for most.
    tend_at: u64,
    tend_ns: u64,
    share: Arc<WorkerShare>,
    idle: D::Idle,
    quit: bool,
}

impl<D: Device> Worker<D> {
    pub(super) fn new(parts: Parts<D>) -> Self {
        let often = parts.tx.iter().filter_map(|(_, queue, _)| queue.maintenance_interval()).min();
        Self {
            tend_at: if often.is_some() { 0 } else { u64::MAX },
            tend_ns: often.map_or(u64::MAX, |often| often.as_nanos() as u64),
            clock: parts.clock,
            commands: parts.commands,
            reclaim: parts.reclaim,
            runs: (0..MAX_RUNS).map(|_| None).collect(),
            reach: 0,
            active: Active::default(),
            tx: parts
                .tx
                .into_iter()
                .map(|(port, queue, share)| TxPort::new(port, queue, share, parts.pool.clone()))
                .collect(),
            limited: false,
            turn: 0,
            receiver: Receiver::new(parts.index, parts.rx.into_iter().map(RxPort::new).collect(), parts.handoff),
            share: parts.share,
            idle: parts.idle,
            quit: false,
        }
    }

    /// Works until the command to quit.
    pub(super) fn run(mut self) {
        let mut last = self.clock.mono_ns();
        while !self.quit {
            last = self.pass(last);
        }
    }

    /// An iteration of the loop, after one at the monotonic instant `last`. Returns its own instant.
    #[inline(always)]
    fn pass(&mut self, last: u64) -> u64 {
        // The clock is read before commands are: a command that takes effect at an instant is in the queue before that
        // instant, so nothing due after it can be sent in ignorance of it.
        let now = self.clock.mono_ns();
        self.take_commands();
        for run in self.runs[..self.reach].iter_mut().flatten() {
            run.go_on(now);
        }
        let received = self.receiver.receive(&self.clock, &mut self.runs[..self.reach], &mut self.tx);
        Sources::advance(self.active, &mut self.of_pass(now).1);
        let sent = self.transmit(now);
        self.settle(now);
        if now >= self.tend_at {
            self.maintain(now);
        }
        self.share.rx_packets.add(received as u64);
        self.share.tx_packets.add(sent as u64);
        let spent = if received + sent > 0 { &self.share.busy_ns } else { &self.share.idle_ns };
        spent.add(now - last);
        if received + sent == 0 {
            self.rest(now);
        }
        now
    }

    /// Does what devices leave to their user.
    #[cold]
    fn maintain(&mut self, now: u64) {
        self.tx.iter_mut().for_each(|port| port.outlet.egress.maintain());
        self.tend_at = now + self.tend_ns;
    }

    /// Takes commands.
    fn take_commands(&mut self) {
        // No sender of commands is left, not even of the one to quit.
        self.quit |= self.commands.is_abandoned();
        while let Ok(command) = self.commands.pop() {
            match command {
                Command::Install(slot, run) => {
                    self.receiver.know(&run, slot);
                    self.active.add(&run);
                    self.runs[slot.0] = Some(run);
                    self.reach = self.reach.max(slot.0 + 1);
                }
                Command::Limit(budget) => {
                    self.limited = budget.is_some();
                    for port in &mut self.tx {
                        if let Some(before) = port.outlet.egress.limit(budget.clone()) {
                            let _ = self.reclaim.push(Reclaim::Budget(before));
                        }
                    }
                }
                Command::Streams(slot, mut streams) => {
                    let run = self.runs[slot.0].as_mut();
                    let part = run.and_then(|run| run.ports.iter_mut().find(|part| part.port == streams.port));
                    if let Some(part) = part {
                        part.swap_streams(&mut streams);
                    }
                    let _ = self.reclaim.push(Reclaim::Streams(streams));
                }
                Command::NextHops(slot, mut new) => {
                    if let Some(emulated) = self.runs[slot.0].as_mut().and_then(|run| run.emulated.as_mut()) {
                        emulated.swap_next_hops(&mut new);
                    }
                    let _ = self.reclaim.push(Reclaim::NextHops(new));
                }
                Command::LeasedAddresses(slot, mut new) => {
                    if let Some(emulated) = self.runs[slot.0].as_mut().and_then(|run| run.emulated.as_mut()) {
                        emulated.swap_leased(&mut new);
                    }
                    let _ = self.reclaim.push(Reclaim::LeasedAddresses(new));
                }
                Command::Attach(port, hook) => self.attach(port, hook),
                Command::Detach(id) => self.detach(id),
                Command::Quit => self.quit = true,
                Command::Close(slot) => {
                    if let Some(run) = &mut self.runs[slot.0] {
                        self.receiver.forget(run.tag, slot);
                        // A client of another worker may have come since.
                        Sources::abort(run);
                        run.share.closed.raise();
                    }
                }
                Command::Remove(slot) => {
                    if let Some(mut run) = self.runs[slot.0].take() {
                        self.receiver.forget(run.tag, slot);
                        Sources::abort(&mut run);
                        let before = std::mem::take(&mut self.active);
                        self.runs.iter().flatten().for_each(|run| self.active.add(run));
                        for port in &mut self.tx {
                            port.remove(slot, &mut run);
                            port.retire(before, self.active);
                        }
                        let _ = self.reclaim.push(Reclaim::Run(run));
                        self.reach = self.runs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
                    }
                }
                Command::Start(slot, ..)
                | Command::Clock(slot, ..)
                | Command::Change(slot, ..)
                | Command::Speed(slot, ..)
                | Command::FlowRate(slot, ..)
                | Command::ResetReceiver(slot, ..)
                | Command::Stop(slot, ..)
                | Command::Empty(slot) => {
                    if let Some(run) = &mut self.runs[slot.0] {
                        run.apply(command);
                    }
                }
            }
        }
    }

    /// The worker's ports, and what a pass at an instant gives their sources.
    #[inline(always)]
    fn of_pass(&mut self, now: u64) -> (&mut [TxPort<D>], Pass<'_, D>) {
        let runs = &mut self.runs[..self.reach];
        (&mut self.tx, Pass { now, clock: &self.clock, runs, reclaim: &mut self.reclaim })
    }

    /// Sends what is due.
    // What a pass does for each burst stays a function of its own, whatever the compiler's profile says: all in one loop, values
    // that belong into registers go through memory (two random fields: 146 instructions a packet instead of 114).
    #[inline(never)]
    fn transmit(&mut self, now: u64) -> usize {
        if self.limited {
            return self.transmit_in_turn(now);
        }
        let active = self.active;
        let (ports, mut pass) = self.of_pass(now);
        let mut sent = 0;
        for port in ports {
            sent += port.send(active, &mut pass);
        }
        sent
    }

    /// Sends what is due and within the bound. The source that has sent comes last next time, for what is left of the bound
    /// is often just enough for one.
    #[cold]
    fn transmit_in_turn(&mut self, now: u64) -> usize {
        let (active, first) = (self.active, self.turn);
        let (ports, mut pass) = self.of_pass(now);
        let mut sent = 0;
        // Answers of a port for its addresses, to ARP and ping, are no traffic of a run.
        for port in &mut *ports {
            port.outlet.egress.charge();
            sent += port.send_unlimited(&mut pass);
            port.outlet.egress.forgive();
        }
        let (sources, mut next) = (Sources::<D>::COUNT, first);
        let all = sources * ports.len();
        for turn in (first..first + all).map(|turn| turn % all) {
            let port = &mut ports[turn / sources];
            let taken = port.send_one(turn % sources, active, &mut pass);
            if taken > 0 {
                port.outlet.egress.charge();
                next = turn + 1;
            }
            sent += taken;
        }
        self.turn = next;
        sent
    }

    /// Finds runs that have nothing left to send or to count, and reports it.
    fn settle(&mut self, now: u64) {
        for (slot, run) in self.runs[..self.reach].iter_mut().enumerate() {
            let Some(run) = run else { continue };
            if run.emptying && !run.share.emptied.is_up() {
                Sources::abort(run);
                if self.receiver.drained() {
                    run.share.emptied.raise();
                }
            }
            if run.share.sent.is_up() || !run.ended(now) {
                continue;
            }
            let past_grace = run.stopped || run.has_come(now, run.end_ns.saturating_add(GRACE_NS));
            let mut ending = Ending { now, slot: RunSlot(slot), past_grace, reclaim: &mut self.reclaim };
            let settled = self.tx.iter_mut().fold(true, |all, port| port.settle(run, &mut ending) & all);
            if Sources::is_over(run, now) & settled {
                run.share.sent.raise();
            }
        }
    }

    /// Rests until something may be due, if this worker may.
    fn rest(&mut self, now: u64) {
        if !self.idle.may_sleep() {
            return;
        }
        let runs = &self.runs[..self.reach];
        if self.tx.iter().any(|port| port.is_waiting(runs)) {
            return self.idle.yield_now();
        }
        let mut until = self.tend_at;
        let mut expecting = false;
        for run in runs.iter().flatten() {
            expecting |= run.clock.started() && !run.share.closed.is_up();
            if run.emptying && !run.share.emptied.is_up() {
                return self.idle.yield_now();
            }
            until = run.next_instant().map_or(until, |at| until.min(at));
        }
        // Packets that the kernel could not send keep the worker awake only to try again.
        let flushed = self.tx.iter_mut().fold(true, |all, port| port.outlet.egress.flush(now) & all);
        if !flushed {
            until = until.min(now + FLUSH_NS);
        }
        let awaited = Arriving { receiver: &self.receiver, commands: &self.commands };
        self.idle.rest(now, until, expecting, &awaited, &self.share);
    }
}

/// Packets and commands that may arrive while a worker rests.
struct Arriving<'a, D: Device> {
    receiver: &'a Receiver<D>,
    commands: &'a Consumer<Command<D>>,
}

impl<D: Device> Awaited<D> for Arriving<'_, D> {
    fn queues(&self) -> impl Iterator<Item = &D::Rx> {
        self.receiver.queues()
    }

    fn has_peers(&self) -> bool {
        self.receiver.has_peers()
    }

    fn is_called(&self) -> bool {
        !self.commands.is_empty()
    }
}

impl<D: Device> WorkerRun<D> {
    fn apply(&mut self, command: Command<D>) {
        match command {
            Command::Start(_, at) => self.clock.start(at),
            Command::Clock(_, at, change) => self.clock.change(at, change),
            Command::Change(_, change) => {
                if let Some(port) = self.ports.iter_mut().find(|p| p.port == change.port) {
                    port.changes.push_back(change);
                }
            }
            Command::Speed(_, change) => self.change_speed(change),
            Command::FlowRate(_, change) => {
                if let Some(emulated) = &mut self.emulated {
                    emulated.change(change);
                }
            }
            Command::ResetReceiver(_, index) => self.reset_receiver(index),
            Command::Stop(_, at_ns) => {
                self.end_ns = self.end_ns.min(at_ns);
                self.stopped = true;
            }
            Command::Empty(_) => self.emptying = true,
            Command::Install(..)
            | Command::Remove(_)
            | Command::Close(_)
            | Command::Limit(_)
            | Command::Streams(..)
            | Command::NextHops(..)
            | Command::LeasedAddresses(..)
            | Command::Attach(..)
            | Command::Detach(_)
            | Command::Quit => {}
        }
    }

    /// Whether transmission has ended.
    fn ended(&self, now: u64) -> bool {
        let before_start = self.clock.at(now).is_none_or(|at| at < 0);
        self.has_come(now, self.end_ns) || (self.stopped && before_start)
    }

    /// Whether an instant of the run has come.
    fn has_come(&self, now: u64, at_ns: u64) -> bool {
        self.clock.at(now).and_then(|at| u64::try_from(at).ok()).is_some_and(|at| at >= at_ns)
    }

    /// The monotonic instant at which the run next needs its worker; none if only a command can change that.
    fn next_instant(&self) -> Option<u64> {
        let end = if self.share.sent.is_up() { None } else { self.clock.mono_of(self.end_ns) };
        [Sources::due_ns(self), end, self.clock.next_change()].into_iter().flatten().min()
    }
}

/// A queue of changes that does not allocate unless hundreds are ahead.
fn changes() -> VecDeque<RateChange> {
    VecDeque::with_capacity(256)
}
