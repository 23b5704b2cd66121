// SPDX-License-Identifier: Apache-2.0
//! Templates on a virtual clock: both ends of each flow in one worker, with a path between them that takes a fixed time and
//! loses nothing. Servers of clients in tunnels of GTP-U are met through the tunnels, as there is no UPF on the path. Where only one
//! side is emulated nobody answers: what it sends alone is seen.
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use super::staging::Turns;
use spate_stateful::gtpu::{Arrival, Gateway};
use spate_stateful::tcp::Output;
use spate_stateful::tuples::{Dealing, Share};
use spate_stateful::{Count, Emulation, EmulationError, PortLink, Scenario};

/// From a frame's departure to its arrival.
pub const PATH_NS: u64 = 10_000;
/// Of initial sequence numbers: the same plan gives the same packets.
const SEED: u128 = 1;
/// Frames that a port sends in its turn.
const BURST: usize = 64;

/// A worker's share of a scenario, and what it has sent.
pub struct Emulating {
    emulation: Emulation,
    /// Number of templates.
    templates: usize,
    tunnels: Option<Box<Gateway>>,
    /// By port that has a side: where what it sends arrives, if anybody is there.
    peers: BTreeMap<usize, Option<usize>>,
    now_ns: u64,
    /// Flows that are open then go on until here.
    until_ns: u64,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    numbers: u64,
    turns: Turns,
    /// Flows of clients that were established at the beginning of the first stage, and at the ends of stages.
    established: Vec<u64>,
    /// With the time they left.
    sent: VecDeque<(u64, Vec<u8>)>,
}

/// A frame's arrival, its number among all, the port where it arrives, and its bytes.
type UnderWay = (u64, u64, usize, Vec<u8>);

/// Frames of one burst.
struct Burst {
    frames: Vec<Vec<u8>>,
    /// Bytes to leave before each.
    gap: usize,
}

impl Output for Burst {
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.frames.len() == BURST {
            return None;
        }
        self.frames.push(vec![0; self.gap + len]);
        self.frames.last_mut().map(|frame| &mut frame[self.gap..])
    }
}

impl Emulating {
    /// On this number of ports. Flows begin from 0 on, until `end_ns`, at rates that change at `turns`; what is open then may end until `until_ns`.
    pub fn new(
        scenario: Arc<Scenario>,
        share: Share,
        ports: usize,
        end_ns: u64,
        until_ns: u64,
        turns: Turns,
    ) -> Result<Self, EmulationError> {
        let mut peers = BTreeMap::new();
        for template in &scenario.templates {
            let client = template.client.as_ref().map(|client| client.port);
            let server = template.server.as_ref().map(|server| server.port);
            for (port, peer) in [(client, server), (server, client)] {
                let known = port.map(|port| peers.entry(port).or_insert(None));
                known.into_iter().for_each(|known| *known = peer.or(*known));
            }
        }
        // Locally administered.
        let mac = |port: usize| [0x02, 0x53, 0, 0, (port >> 8) as u8, port as u8];
        let next_hop = |port| peers.get(&port).copied().flatten().map_or([0x02, 0x53, 0xff, 0xff, 0xff, 0xff], mac);
        let links: Vec<_> = (0..ports).map(|port| PortLink { mac: mac(port), next_hop: next_hop(port) }).collect();
        let home = Box::new(|_, _, _: &_| true);
        let mut emulation = Emulation::new(scenario.clone(), share, Dealing::ByNumber, home, &links, SEED, 0)?;
        let counters = |template, client| Arc::clone(emulation.counters(template, client));
        let tunnels = Gateway::new(&scenario, &links, &[], true, counters);
        emulation.start(0);
        emulation.stop(end_ns);
        let (under_way, sent) = (BinaryHeap::new(), VecDeque::new());
        let mut this = Self {
            emulation,
            templates: scenario.templates.len(),
            tunnels,
            peers,
            now_ns: 0,
            until_ns,
            under_way,
            numbers: 0,
            turns,
            established: vec![],
            sent,
        };
        this.turn();
        Ok(this)
    }

    /// Flows of clients that were established at the beginning of the first stage, at the end of each stage that has ended, and until now.
    pub fn established(&self) -> Vec<u64> {
        self.established.iter().copied().chain([self.established_now()]).collect()
    }

    fn established_now(&self) -> u64 {
        (0..self.templates).map(|template| self.emulation.counters(template, true).get(Count::FlowsEstablished)).sum()
    }

    /// Makes the changes that are due, and notes the flows of stages that have ended.
    fn turn(&mut self) {
        while self.turns.mark(self.now_ns) {
            self.established.push(self.established_now());
        }
        while let Some((at_ns, factor)) = self.turns.step(self.now_ns) {
            self.emulation.change_rate(at_ns, (factor.numerator, factor.denominator));
        }
    }

    /// When the next packet leaves; none if there is no more.
    pub fn due_ns(&mut self) -> Option<u64> {
        while self.sent.is_empty() {
            let arrival = self.under_way.peek().map(|next| next.0.0);
            let due = self.emulation.next_due_ns().map(|due| due.max(self.now_ns));
            let next = arrival.into_iter().chain(due).chain(self.turns.next_ns()).min();
            let now_ns = next.filter(|next| *next < self.until_ns)?;
            self.pass(now_ns.max(self.now_ns));
        }
        self.sent.front().map(|(at, _)| *at)
    }

    /// The next packet.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.due_ns()?;
        self.sent.pop_front().map(|(_, frame)| frame)
    }

    fn pass(&mut self, now_ns: u64) {
        // Nothing may be due until a tick has passed.
        let stands = now_ns == self.now_ns && self.under_way.peek().is_none_or(|next| next.0.0 > now_ns);
        self.now_ns = now_ns + u64::from(stands);
        self.turn();
        self.emulation.advance(self.now_ns, self.now_ns, false);
        while self.under_way.peek().is_some_and(|next| next.0.0 <= self.now_ns) {
            let Some(Reverse((_, _, port, frame))) = self.under_way.pop() else { break };
            self.receive(port, &frame);
        }
        for (&port, &peer) in &self.peers {
            while self.emulation.is_ready(port) {
                let gap = self.tunnels.as_ref().map_or(0, |tunnels| tunnels.gap(port));
                let mut burst = Burst { frames: Vec::new(), gap };
                self.emulation.transmit(port, self.now_ns, &mut burst);
                for mut frame in burst.frames {
                    if let Some(tunnels) = self.tunnels.as_ref().filter(|_| gap > 0) {
                        let len = tunnels.encapsulate(port, &mut frame);
                        frame.truncate(len);
                    }
                    self.numbers += 1;
                    if let Some(peer) = peer {
                        self.under_way.push(Reverse((self.now_ns + PATH_NS, self.numbers, peer, frame.clone())));
                    }
                    self.sent.push_back((self.now_ns, frame));
                }
            }
        }
    }

    fn receive(&mut self, port: usize, frame: &[u8]) {
        let arrival = match self.tunnels.as_mut().filter(|tunnels| tunnels.gap(port) > 0) {
            Some(tunnels) => tunnels.receive(port, frame),
            None => Arrival::Plain,
        };
        let frame = match arrival {
            Arrival::Plain => frame,
            Arrival::Inner(inner) => inner,
            // Nobody asks for an echo here.
            Arrival::Done => return,
        };
        self.emulation.receive(port, frame, self.now_ns);
    }
}
