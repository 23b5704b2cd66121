// SPDX-License-Identifier: Apache-2.0
//! A port with addresses: its rings to and from workers, and what it logs.
use spate_dpdk::GroupFilter;
use spate_neighbour::{
    Config, Event, Interface, NeighborQuery, Neighbour, NoRoute, Output, Ping, PingError, PingEvent, mac_text,
};
use spate_net::vlan::Tags;

use std::{os::fd::OwnedFd, time::Instant};
use tokio::sync::mpsc;

use super::{
    NoNextHop,
    moves::{LinkNeighbor, Moves},
    punt::{Punt, Punted},
    throttle::Throttle,
};
use crate::datapath::{
    OpenError,
    buffers::SHORT_ROOM,
    frames::{self, FrameReader, FrameWriter},
    open::Opened,
    worker::{Command, Hook, Inject, SlowPathCopy},
    workers::Workers,
};
use crate::index::{PortIndex, WorkerIndex};

/// Room for frames from each worker, and to one: some hundred frames.
const RING_BYTES: usize = 128 << 10;
/// Events of a ping that wait for its reader.
const PING_EVENTS: usize = 1024;
/// Frames of one port that are handled before those of the next port.
const MAX_FRAMES: usize = 256;

/// Link-layer configuration of a port.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// Addresses, gateways, VLAN.
    pub config: Config,
    /// What else in the pod receives and sends on it.
    pub punt: Option<Punt>,
}

/// A port as the slow path sees it.
pub(super) struct SlowPort {
    pub(super) name: String,
    index: PortIndex,
    /// The workers that receive from it.
    receivers: Vec<WorkerIndex>,
    pub(super) interface: Interface,
    group_filter: Option<GroupFilter>,
    received: Vec<FrameReader>,
    sending: FrameWriter,
    /// The worker that sends for it.
    sender: WorkerIndex,
    punt: Option<Punted>,
    /// The kernel may have more to send, for which there was no room.
    is_full: bool,
    frame: Vec<u8>,
    output: Output,
    /// Readers of the events of pings, by number of the ping.
    pings: Vec<(u64, mpsc::Sender<PingEvent>)>,
    /// The MAC of the neighbor that was found last.
    found: Option<String>,
    /// How often neighbors had another MAC.
    pub(super) neighbor_moves: u64,
    /// Warnings, by kind.
    warnings: Warnings,
    /// Lost frames that were reported.
    reported_lost: u64,
    /// Frames of the kernel's that found no room.
    reported_unsent: u64,
}

/// Throttles of a port's warnings, one for each kind.
#[derive(Default)]
struct Warnings {
    found: Throttle,
    moved: Throttle,
    silent: Throttle,
    conflict: Throttle,
    reports: Throttle,
    lost: Throttle,
    unsent: Throttle,
}

impl SlowPort {
    /// Makes rings and has the workers use them.
    pub(super) fn new(index: PortIndex, link: Link, opened: &Opened) -> Result<Self, OpenError> {
        let port = &opened.ports[index.0];
        let name = port.config.name.clone();
        let wrong =
            |e: &dyn std::fmt::Display| OpenError::Config { field: format!("port {name}"), problem: e.to_string() };
        let punt = link.punt.as_ref().map(|punt| Punted::new(punt, port).map_err(|e| wrong(&e))).transpose()?;
        let now_ns = opened.clock.mono_ns();
        let routing = link.punt.as_ref().is_some_and(Punt::is_of_router);
        let config = Config { routing, ..link.config };
        let mut interface = Interface::new(port.port.mac(), config, now_ns).map_err(|e| wrong(&e))?;
        if port.config.device.normalizes_outer_ethertype() {
            interface.normalize_outer_ethertype();
        }
        let mut received = Vec::new();
        for &worker in &port.rx_workers {
            let (frames, reader) = frames::ring(RING_BYTES);
            let wanted = link.punt.as_ref().map(|punt| punt.filter().clone());
            let slow_path = SlowPathCopy { interest: Some(Box::new(interface.interest())), punt: wanted, frames };
            opened.lines.send(worker, Command::Attach(index, Hook::SlowPathCopy(Box::new(slow_path))));
            received.push(reader);
        }
        let sender = port.tx_workers[0];
        let (sending, frames) = frames::ring(RING_BYTES);
        opened.lines.send(sender, Command::Attach(index, Hook::Inject(Box::new(Inject::new(frames)))));
        let this = Self {
            name,
            index,
            receivers: port.rx_workers.clone(),
            interface,
            group_filter: port.port.group_filter(),
            received,
            sending,
            sender,
            punt,
            is_full: false,
            frame: Vec::new(),
            output: Output::default(),
            pings: Vec::new(),
            found: None,
            neighbor_moves: 0,
            warnings: Warnings::default(),
            reported_lost: 0,
            reported_unsent: 0,
        };
        this.hear_groups();
        Ok(this)
    }

    /// Sends echo requests from now on. Their events come out of the channel, until there is no more, or its reader is gone.
    pub(super) fn ping(&mut self, id: u64, ping: Ping, now_ns: u64) -> Result<mpsc::Receiver<PingEvent>, PingError> {
        self.interface.ping(id, ping, now_ns)?;
        let (events, reader) = mpsc::channel(PING_EVENTS);
        self.pings.push((id, events));
        Ok(reader)
    }

    /// Stops pings of which the reader is gone.
    fn stop_pings(&mut self) {
        let Self { pings, interface, .. } = self;
        pings.retain(|(id, events)| {
            if events.is_closed() {
                interface.stop_ping(*id);
            }
            !events.is_closed()
        });
    }

    /// Passes to the workers, and to the device, which frames concern the port, as that has changed.
    pub(super) fn send_interest(&self, workers: &Workers) {
        self.hear_groups();
        for &worker in &self.receivers {
            let interest = Hook::Interest(Box::new(self.interface.interest()));
            workers.send(worker, Command::Attach(self.index, interest));
        }
    }

    /// A virtual function that may not be promiscuous receives no neighbor solicitations but for groups it names.
    fn hear_groups(&self) {
        let Some(filter) = &self.group_filter else { return };
        let (groups, all) = self.interface.interest().group_macs(GroupFilter::MAX);
        if !all {
            tracing::info!(
                port = self.name,
                "has more IPv6 addresses than a NIC has filters: a virtual function must be trusted to be asked for all of them \
                 (ip link set PF vf N trust on)"
            );
        }
        if let Err(error) = filter.set(&groups) {
            tracing::debug!(port = self.name, %error, "the device filters no groups");
        }
    }

    /// Handles what came and what is due, and notes neighbors that have moved; true if something came.
    pub(super) fn turn(&mut self, now_ns: u64, workers: &Workers, moves: &Moves) -> bool {
        self.stop_pings();
        let mut came = 0;
        for ring in &mut self.received {
            while came < MAX_FRAMES
                && let Some(header) = ring.pop(&mut self.frame)
            {
                came += 1;
                if let Some(punt) = &mut self.punt {
                    punt.offer(&self.frame);
                }
                self.interface.receive_arrived(&self.frame, header.at_ns, now_ns, &mut self.output);
            }
        }
        let spoke = self.receive_from_kernel();
        self.interface.poll(now_ns, &mut self.output);
        for frame in &self.output.frames {
            self.sending.push(0, frame.len(), frame);
        }
        for (frame, at) in &self.output.stamped {
            self.sending.push(*at as u64, frame.len(), frame);
        }
        if spoke > 0 || !self.output.frames.is_empty() || !self.output.stamped.is_empty() {
            self.output.frames.clear();
            self.output.stamped.clear();
            workers.wake(self.sender);
        }
        self.handle_events(moves);
        came + spoke > 0
    }

    /// Sends what the kernel does; how many frames. What there is no room for waits in the kernel.
    fn receive_from_kernel(&mut self) -> usize {
        let Some(punt) = &mut self.punt else { return 0 };
        let mut spoke = 0;
        self.is_full = false;
        while spoke < MAX_FRAMES {
            self.is_full = !self.sending.has_room(SHORT_ROOM);
            if self.is_full {
                break;
            }
            match punt.next() {
                Ok(Some(frame)) => {
                    self.sending.push(0, frame.len(), frame);
                    spoke += 1;
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(port = self.name, %error, "the punt's interface is gone: nothing more is punted");
                    self.punt = None;
                    break;
                }
            }
        }
        spoke
    }

    /// Descriptor that is readable when the kernel sends.
    pub(super) fn kernel_fd(&self) -> Option<std::io::Result<OwnedFd>> {
        self.punt.as_ref().map(Punted::fd)
    }

    /// Whether the kernel has more to send than there is room for: waiting for its descriptor would return at once.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    fn handle_events(&mut self, moves: &Moves) {
        let own = self.tags();
        let (port, now, warnings) = (self.name.as_str(), Instant::now(), &mut self.warnings);
        for event in self.output.events.drain(..) {
            match event {
                Event::Ping(id, event) => {
                    // A reader that is too slow does not receive the last event, and so sees that it has missed something.
                    let last = matches!(event, PingEvent::Over | PingEvent::NoNextHop(_));
                    let reader = self.pings.iter().find(|(other, _)| *other == id);
                    if reader.is_none_or(|(_, events)| events.try_send(event).is_err()) || last {
                        self.pings.retain(|(other, _)| *other != id);
                        self.interface.stop_ping(id);
                    }
                }
                Event::Found(target, mac) => {
                    let address = LinkNeighbor::new(target, own);
                    // The neighbor may have been unknown when a run was prepared.
                    moves.note(self.index, address, mac);
                    let mac = Some(mac_text(mac));
                    // Many servers may be behind one MAC: that is logged once.
                    match (mac != self.found).then(|| warnings.found.admit(now)).flatten() {
                        Some(omitted) => tracing::info!(port, %address, mac, omitted, "neighbor found"),
                        None => tracing::debug!(port, %address, mac, "neighbor found"),
                    }
                    self.found = mac;
                }
                Event::Moved { target, from, to } => {
                    let address = LinkNeighbor::new(target, own);
                    moves.note(self.index, address, to);
                    self.neighbor_moves += 1;
                    let Some(omitted) = warnings.moved.admit(now) else { continue };
                    tracing::warn!(
                        port,
                        %address,
                        from = mac_text(from),
                        to = mac_text(to),
                        omitted,
                        "a neighbor has another MAC: runs that send to it send to that from now on"
                    );
                }
                Event::Lost(target) => {
                    let Some(omitted) = warnings.silent.admit(now) else { continue };
                    let address = LinkNeighbor::new(target, own);
                    tracing::warn!(port, %address, omitted, "a neighbor does not answer");
                }
                Event::Reports(version) => {
                    let Some(omitted) = warnings.reports.admit(now) else { continue };
                    tracing::info!(port, version, omitted, "multicast groups are reported in the querier's version");
                }
                Event::Conflict(address, mac) => {
                    let Some(omitted) = warnings.conflict.admit(now) else { continue };
                    let mac = mac_text(mac);
                    tracing::warn!(port, %address, mac, omitted, "another station has the port's address too");
                }
            }
        }
        let lost: u64 = self.received.iter().map(FrameReader::lost).sum();
        if lost > self.reported_lost && warnings.lost.admit(now).is_some() {
            tracing::warn!(
                port,
                frames = lost - self.reported_lost,
                "more frames for the slow path than it could take"
            );
            self.reported_lost = lost;
        }
        let unsent = self.sending.lost();
        if unsent > self.reported_unsent && warnings.unsent.admit(now).is_some() {
            tracing::warn!(
                port,
                frames = unsent - self.reported_unsent,
                "the slow path had more to send than there was room"
            );
            self.reported_unsent = unsent;
        }
    }

    /// Why nothing leads from the port to where a packet, or a question for a neighbor, goes.
    pub(super) fn no_route(&self, error: impl Into<NoRoute>) -> NoNextHop {
        NoNextHop::NoRoute { port: self.name.clone(), error: error.into() }
    }

    /// Why a neighbor is not known, for people.
    pub(super) fn silence(&self, neighbour: &Neighbour) -> String {
        let own: Vec<String> = self.interface.config().addresses.iter().map(ToString::to_string).collect();
        format!(
            "port {}: next hop {} {} (port's addresses: {}, {}): is it on this link, and is the link up?",
            self.name,
            neighbour.address,
            neighbour.problem.as_deref().unwrap_or("is not known"),
            own.join(", "),
            self.tags()
        )
    }

    /// Why a neighbor that an emulated station looks for is not known, for people.
    pub(super) fn silence_to(&self, neighbor: &Neighbour, sought: &NeighborQuery) -> String {
        format!(
            "port {}: gateway {} {} (requested by {}, {}): is it on this link, and is the link up?",
            self.name,
            neighbor.address,
            neighbor.problem.as_deref().unwrap_or("is not known"),
            sought.station,
            sought.tags.unwrap_or_else(|| self.tags())
        )
    }

    pub(super) fn tags(&self) -> Tags {
        self.interface.config().vlan.into()
    }
}
