// SPDX-License-Identifier: Apache-2.0
//! A port with emulated clients: its rings to and from workers, and the groups of clients on it.
use std::sync::Arc;

use spate_clients::{Config, Counters, Group, Interest, Leave, MAX_FRAME, Output};
use spate_net::{
    ethernet::Mac,
    vlan::{CUSTOMER, Tags},
};

use super::{AtEnd, ClientsError};
use crate::datapath::{
    frames::{self, FrameReader, FrameWriter},
    open::Opened,
    worker::{ClientCopy, Command, Hook, Inject},
    workers::Workers,
};
use crate::index::{PortIndex, WorkerIndex};

/// Room for frames from each worker, and to one: some thousand messages of DHCP.
const RING_BYTES: usize = 1 << 20;
/// Frames of one port that are handled before those of the next port.
const MAX_FRAMES: usize = 4096;
/// Clients that have not left after the time that their rate takes and this are gone all the same.
const LEAVE_NS: u64 = 5_000_000_000;

/// A port as the thread of clients sees it.
pub(super) struct ClientPort {
    name: String,
    index: PortIndex,
    mac: Mac,
    /// The workers that receive from it.
    receivers: Vec<WorkerIndex>,
    received: Vec<FrameReader>,
    sending: FrameWriter,
    /// The worker that sends for it.
    sender: WorkerIndex,
    /// The device writes another EtherType into the outermost tag of received frames.
    normalizes_outer_ethertype: bool,
    members: Vec<Member>,
    frame: Vec<u8>,
    turned_ns: u64,
}

/// A group of clients on a port.
struct Member {
    id: u64,
    name: String,
    group: Group,
    at_end: AtEnd,
    /// It leaves, and is gone at this instant at the latest.
    leaves_by_ns: Option<u64>,
}

/// The ring to the worker that sends.
struct Sending<'a> {
    ring: &'a mut FrameWriter,
    frames: usize,
}

impl Output for Sending<'_> {
    fn room(&self) -> usize {
        self.ring.room(MAX_FRAME)
    }

    fn send(&mut self, frame: &[u8]) {
        self.ring.push(0, frame.len(), frame);
        self.frames += 1;
    }
}

impl ClientPort {
    /// Makes rings and has the workers use them.
    pub(super) fn new(index: PortIndex, opened: &Opened) -> Self {
        let port = &opened.ports[index.0];
        let mut received = Vec::new();
        for &worker in &port.rx_workers {
            let (frames, reader) = frames::ring(RING_BYTES);
            let copy = ClientCopy { interest: Box::default(), frames };
            opened.lines.send(worker, Command::Attach(index, Hook::ClientCopy(Box::new(copy))));
            received.push(reader);
        }
        let sender = port.tx_workers[0];
        let (sending, frames) = frames::ring(RING_BYTES);
        let inject = Hook::ClientInject(Box::new(Inject::new(frames)));
        opened.lines.send(sender, Command::Attach(index, inject));
        Self {
            name: port.config.name.clone(),
            index,
            mac: port.port.mac(),
            receivers: port.rx_workers.clone(),
            received,
            sending,
            sender,
            normalizes_outer_ethertype: port.config.device.normalizes_outer_ethertype(),
            members: Vec::new(),
            frame: Vec::new(),
            turned_ns: 0,
        }
    }

    /// Adds a group, whose clients start now.
    pub(super) fn add(
        &mut self,
        (id, name): (u64, &str),
        config: Config,
        at_end: AtEnd,
        now_ns: u64,
        workers: &Workers,
    ) -> Result<Arc<Counters>, ClientsError> {
        config.check()?;
        if Interest::new([&config]).has_mac(self.mac) {
            return Err(ClientsError::PortMac { port: self.name.clone(), mac: self.mac });
        }
        // Clients that are leaving make room.
        self.members.retain(|member| member.leaves_by_ns.is_none() || !overlap(member.group.config(), &config));
        if let Some(other) = self.members.iter().find(|member| overlap(member.group.config(), &config)) {
            return Err(ClientsError::Overlap { port: self.name.clone(), other: other.name.clone() });
        }
        let mut group = Group::new(config, now_ns)?;
        group.start_all(now_ns);
        let counters = Arc::clone(group.counters());
        self.members.push(Member { id, name: name.to_owned(), group, at_end, leaves_by_ns: None });
        self.send_interest(workers);
        Ok(counters)
    }

    /// A group leaves.
    pub(super) fn leave(&mut self, id: u64, now_ns: u64, workers: &Workers) {
        let Some(at) = self.members.iter().position(|member| member.id == id) else { return };
        let member = &mut self.members[at];
        match member.at_end {
            AtEnd::Release => {
                let (rate, count) = (member.group.config().rate, member.group.config().count);
                let takes_ns = u128::from(count) * u128::from(rate.nanoseconds) / u128::from(rate.clients.max(1));
                let takes_ns = u64::try_from(takes_ns).unwrap_or(u64::MAX);
                member.leaves_by_ns = Some(now_ns.saturating_add(takes_ns).saturating_add(LEAVE_NS));
                member.group.leave_all(Leave::Release, rate, now_ns);
            }
            AtEnd::Forget => {
                self.members.remove(at);
                self.send_interest(workers);
            }
        }
    }

    /// A group, if it has not left.
    pub(super) fn group(&self, id: u64) -> Option<&Group> {
        self.members.iter().find(|member| member.id == id).map(|member| &member.group)
    }

    /// Whether clients are leaving.
    pub(super) fn is_leaving(&self) -> bool {
        self.members.iter().any(|member| member.leaves_by_ns.is_some())
    }

    /// Frames for clients that were lost on their way from workers.
    pub(super) fn frames_lost(&self) -> u64 {
        self.received.iter().map(FrameReader::lost).sum()
    }

    /// When something is due next; none: there are no clients.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.members.iter().map(|member| member.group.next_due_ns().unwrap_or(u64::MAX)).min()
    }

    /// Handles what came and what is due; true if something came.
    pub(super) fn turn(&mut self, now_ns: u64, workers: &Workers) -> bool {
        let mut came = 0;
        let mut out = Sending { ring: &mut self.sending, frames: 0 };
        for ring in &mut self.received {
            while came < MAX_FRAMES
                && let Some(header) = ring.pop(&mut self.frame)
            {
                came += 1;
                let Some(tags) = Tags::of(&self.frame) else { continue };
                // What it may answer was sent in an earlier turn.
                let at_ns = header.at_ns.clamp(self.turned_ns.min(now_ns), now_ns);
                for member in &mut self.members {
                    let tags = if self.normalizes_outer_ethertype { member.sent_tags(tags) } else { tags };
                    member.group.receive(&self.frame, tags, at_ns, &mut out);
                }
            }
        }
        self.members.iter_mut().for_each(|member| member.group.poll(now_ns, &mut out));
        if out.frames > 0 {
            workers.wake(self.sender);
        }
        self.turned_ns = now_ns;
        let before = self.members.len();
        self.members.retain(|member| !member.is_gone(now_ns));
        if self.members.len() < before {
            self.send_interest(workers);
        }
        came > 0
    }

    /// Passes to the workers which frames concern clients, as that has changed.
    fn send_interest(&self, workers: &Workers) {
        let interest = Interest::new(self.members.iter().map(|member| member.group.config()));
        for &worker in &self.receivers {
            let interest = Hook::ClientInterest(Box::new(interest.clone()));
            workers.send(worker, Command::Attach(self.index, interest));
        }
    }
}

impl Member {
    /// The tags of a frame as its sender wrote them, where the device has made the outermost a customer's.
    fn sent_tags(&self, seen: Tags) -> Tags {
        let outermost = self.group.config().vlans.first();
        let (Some(range), [outer, rest @ ..]) = (outermost, seen.as_slice()) else { return seen };
        if outer.ethertype != CUSTOMER {
            return seen;
        }
        let mut tags = [*outer; Tags::MAX];
        tags[0].ethertype = range.ethertype;
        tags[1..=rest.len()].copy_from_slice(rest);
        Tags::new(&tags[..=rest.len()]).unwrap_or(seen)
    }

    fn is_gone(&self, now_ns: u64) -> bool {
        self.leaves_by_ns.is_some_and(|by_ns| self.group.has_left() || now_ns >= by_ns)
    }
}

/// Whether clients of two groups may have one MAC.
fn overlap(one: &Config, other: &Config) -> bool {
    Interest::new([one]).overlaps(&Interest::new([other]))
}
