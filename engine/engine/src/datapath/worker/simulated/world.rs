// SPDX-License-Identifier: Apache-2.0
//! Workers in one virtual time. It jumps from each instant at which one of them has something to do to the next.
//!
//! What arrives at an instant is read by the pass after the one in which the worker first reads that instant, as on a NIC a packet
//! that arrives while its queue is read is read the next time.
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    rc::Rc,
    sync::Arc,
};

use rtrb::{Consumer, Producer, RingBuffer};

use super::{Clock, Idle, Packet, RxEnd, Sent, Simulated, Speed, TxEnd, Unbounded};
use crate::datapath::{
    device_clock::DeviceClock,
    shared::{QueueShare, WorkerShare},
    worker::{Command, Parts, ReceiveQueue, Reclaim, Worker, between_workers},
};
use crate::index::{PortIndex, WorkerIndex};

/// A worker, and what is on its way to it.
pub(in crate::datapath) struct SimulatedWorker {
    worker: Worker<Simulated>,
    commands: Producer<Command<Simulated>>,
    reclaim: Consumer<Reclaim<Simulated>>,
    /// When the worker ran last.
    last_ns: u64,
    /// When the worker has to run next.
    due_ns: Rc<Cell<u64>>,
    sent: Rc<RefCell<Vec<Sent>>>,
    /// Its ports.
    ports: Vec<Port>,
    /// What it is to receive, by instant and number: on which port, and the packet.
    arrivals: BTreeMap<(u64, u64), (PortIndex, Packet)>,
}

/// A worker's queues of a port.
#[derive(Debug)]
pub(in crate::datapath) struct Port {
    rx: Rc<RefCell<VecDeque<Packet>>>,
    speed: Rc<Cell<Option<Speed>>>,
    /// What the worker counts of it, sending and receiving.
    pub(in crate::datapath) tx: Arc<QueueShare>,
    pub(in crate::datapath) received: Arc<QueueShare>,
}

/// The workers.
pub(in crate::datapath) struct World {
    now_ns: Rc<Cell<u64>>,
    simulated_workers: Vec<SimulatedWorker>,
    arrived: u64,
}

impl World {
    /// This many workers, each with a queue of each port. A queue of commands holds `commands`; a pass of a worker that polls takes
    /// `poll_ns`.
    pub(in crate::datapath) fn new(workers: usize, ports: usize, commands: usize, poll_ns: u64) -> Self {
        Self::with_clocks(workers, &vec![None; ports], commands, poll_ns)
    }

    /// A world in which the devices of some ports stamp packets, by these clocks.
    pub(in crate::datapath) fn with_clocks(
        workers: usize,
        clocks: &[Option<Arc<DeviceClock>>],
        commands: usize,
        poll_ns: u64,
    ) -> Self {
        let now_ns = Rc::new(Cell::new(0));
        let simulated = |(index, handoff)| {
            let (producer, their_commands) = RingBuffer::new(commands);
            let (their_reclaim, reclaim) = RingBuffer::new(2 * commands);
            let due_ns = Rc::new(Cell::new(0));
            let sent = Rc::new(RefCell::new(Vec::new()));
            let ports: Vec<_> = clocks
                .iter()
                .map(|_| Port {
                    rx: Rc::default(),
                    speed: Rc::new(Cell::new(None)),
                    tx: Arc::default(),
                    received: Arc::default(),
                })
                .collect();
            let tx = |(port, queue): (usize, &Port)| {
                let (now_ns, speed, sent) = (Rc::clone(&now_ns), Rc::clone(&queue.speed), Rc::clone(&sent));
                (
                    PortIndex(port),
                    TxEnd { port: PortIndex(port), now_ns, speed, free_at_ns: 0, sent },
                    Arc::clone(&queue.tx),
                )
            };
            let rx = |(port, queue): (usize, &Port)| ReceiveQueue {
                port: PortIndex(port),
                queue: RxEnd(Rc::clone(&queue.rx)),
                share: Arc::clone(&queue.received),
                mac: None,
                device_clock: clocks[port].clone(),
            };
            let worker = Worker::new(Parts {
                index: WorkerIndex(index),
                clock: Clock::new(Rc::clone(&now_ns)),
                commands: their_commands,
                reclaim: their_reclaim,
                pool: Unbounded,
                tx: ports.iter().enumerate().map(tx).collect(),
                rx: ports.iter().enumerate().map(rx).collect(),
                handoff,
                share: Arc::new(WorkerShare::default()),
                idle: Idle { now_ns: Rc::clone(&now_ns), due_ns: Rc::clone(&due_ns), poll_ns },
            });
            SimulatedWorker {
                worker,
                commands: producer,
                reclaim,
                last_ns: 0,
                due_ns,
                sent,
                ports,
                arrivals: BTreeMap::new(),
            }
        };
        let simulated_workers = between_workers(workers).into_iter().enumerate().map(simulated).collect();
        Self { now_ns, simulated_workers, arrived: 0 }
    }

    /// A worker's queues of a port.
    #[cfg(test)]
    pub(in crate::datapath) fn port(&self, worker: usize, port: PortIndex) -> &Port {
        &self.simulated_workers[worker].ports[port.0]
    }

    /// Gives a worker's device of a port another speed; none: it takes everything.
    #[cfg(test)]
    pub(in crate::datapath) fn set_speed(&self, worker: usize, port: PortIndex, speed: Option<Speed>) {
        self.simulated_workers[worker].ports[port.0].speed.set(speed);
    }

    /// Sends a command to a worker, which reads it in its next pass: that is now.
    ///
    /// # Panics
    /// If its queue has no room.
    pub(in crate::datapath) fn send(&mut self, worker: usize, command: Command<Simulated>) {
        let simulated = &mut self.simulated_workers[worker];
        assert!(simulated.commands.push(command).is_ok(), "the queue is as long as all commands are");
        simulated.due_ns.set(simulated.due_ns.get().min(self.now_ns.get()));
    }

    /// A packet arrives at a worker's queue of a port at an instant.
    pub(in crate::datapath) fn arrive(&mut self, worker: usize, port: PortIndex, at_ns: u64, packet: Packet) {
        self.simulated_workers[worker].arrivals.insert((at_ns, self.arrived), (port, packet));
        self.arrived += 1;
    }

    /// A worker has nothing more to do, unless a command or a packet arrives.
    pub(in crate::datapath) fn retire(&mut self, worker: usize) {
        self.simulated_workers[worker].due_ns.set(u64::MAX);
    }

    /// The next instant at which a worker has something to do; none if that is never.
    pub(in crate::datapath) fn next_ns(&self) -> Option<u64> {
        let next = self.simulated_workers.iter().map(SimulatedWorker::next_ns).min()?;
        (next < u64::MAX).then_some(next.max(self.now_ns.get()))
    }

    /// Advances to an instant, which is not before the last: workers that are due run, and `sent` is given all that each sends. `together`:
    /// workers give packets to each other, so that what one does may concern all.
    pub(in crate::datapath) fn go_to(
        &mut self,
        now_ns: u64,
        together: bool,
        mut sent: impl FnMut(&mut Self, usize, Vec<Sent>),
    ) {
        self.now_ns.set(now_ns);
        loop {
            let mut worked = false;
            for index in 0..self.simulated_workers.len() {
                while self.simulated_workers[index].next_ns() <= now_ns {
                    let packets = self.simulated_workers[index].pass(now_ns);
                    worked |= self.simulated_workers[index].due_ns.get() <= now_ns;
                    if !packets.is_empty() {
                        sent(self, index, packets);
                    }
                    self.simulated_workers[index].read(now_ns);
                }
            }
            if !worked || !together {
                return;
            }
            self.simulated_workers.iter().for_each(|simulated| simulated.due_ns.set(now_ns));
        }
    }
}

impl SimulatedWorker {
    fn next_ns(&self) -> u64 {
        let arrival = self.arrivals.first_key_value().map_or(u64::MAX, |((at_ns, _), _)| *at_ns);
        self.due_ns.get().min(arrival)
    }

    /// Runs one pass of the worker's loop. Returns what it sends.
    fn pass(&mut self, now_ns: u64) -> Vec<Sent> {
        self.due_ns.set(now_ns);
        self.last_ns = self.worker.pass(self.last_ns);
        while self.reclaim.pop().is_ok() {}
        self.sent.take()
    }

    /// Makes what has arrived by now readable.
    fn read(&mut self, now_ns: u64) {
        while let Some(arrival) = self.arrivals.first_entry().filter(|arrival| arrival.key().0 <= now_ns) {
            let (port, packet) = arrival.remove();
            self.ports[port.0].rx.borrow_mut().push_back(packet);
            self.due_ns.set(now_ns);
        }
    }
}
