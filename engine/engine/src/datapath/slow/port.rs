// SPDX-License-Identifier: Apache-2.0
//! A port with addresses: its rings to and from workers, and what it tells people.
use spate_neighbour::{Config, Event, Interface, Neighbour, Output, mac_text};

use crate::datapath::{
    OpenError,
    command::Command,
    frames::{self, FrameReader, FrameWriter},
    open::Opened,
    worker::{Aside, Attachment, Inject},
    workers::Workers,
};

/// Room for frames from each worker, and to one: some hundred frames.
const RING_BYTES: usize = 128 << 10;
/// Frames of one port that are handled before the next port's turn.
const TURN_FRAMES: usize = 256;

/// What a port is to be on its link.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// Addresses, gateways, VLAN.
    pub config: Config,
}

/// A port as the slow path sees it.
pub(super) struct SlowPort {
    pub(super) name: String,
    pub(super) interface: Interface,
    received: Vec<FrameReader>,
    sending: FrameWriter,
    /// The worker that sends for it.
    sender: usize,
    frame: Vec<u8>,
    output: Output,
    /// Frames that were told to be lost.
    told_lost: u64,
}

impl SlowPort {
    /// Makes rings and has the workers use them.
    pub(super) fn new(index: usize, link: Link, opened: &Opened) -> Result<Self, OpenError> {
        let port = &opened.ports[index];
        let name = port.config.name.clone();
        let wrong =
            |e: &dyn std::fmt::Display| OpenError::Config { field: format!("port {name}"), problem: e.to_string() };
        let interface = Interface::new(port.port.mac(), link.config, opened.clock.mono_ns()).map_err(|e| wrong(&e))?;
        let mut received = Vec::new();
        for &worker in &port.rx_workers {
            let (frames, reader) = frames::ring(RING_BYTES);
            let aside = Aside { interest: Some(interface.interest()), punt: None, frames };
            opened.lines.tell(worker, Command::Attach(index, Attachment::Aside(Box::new(aside))));
            received.push(reader);
        }
        let sender = port.tx_workers[0];
        let (sending, frames) = frames::ring(RING_BYTES);
        opened.lines.tell(sender, Command::Attach(index, Attachment::Inject(Box::new(Inject::new(frames)))));
        Ok(Self {
            name,
            interface,
            received,
            sending,
            sender,
            frame: Vec::new(),
            output: Output::default(),
            told_lost: 0,
        })
    }

    /// Handles what came and what is due; true if something came.
    pub(super) fn turn(&mut self, now_ns: u64, workers: &Workers) -> bool {
        let mut came = 0;
        for ring in &mut self.received {
            while came < TURN_FRAMES && ring.pop(&mut self.frame).is_some() {
                came += 1;
                self.interface.receive(&self.frame, now_ns, &mut self.output);
            }
        }
        self.interface.poll(now_ns, &mut self.output);
        if !self.output.frames.is_empty() {
            for frame in self.output.frames.drain(..) {
                self.sending.push(0, frame.len(), &frame);
            }
            workers.wake(self.sender);
        }
        self.tell();
        came > 0
    }

    fn tell(&mut self) {
        let port = self.name.as_str();
        for event in self.output.events.drain(..) {
            match event {
                Event::Found(address, mac) => tracing::info!(port, %address, mac = mac_text(mac), "neighbour found"),
                Event::Moved { address, from, to } => tracing::warn!(
                    port,
                    %address,
                    from = mac_text(from),
                    to = mac_text(to),
                    "a neighbour has another MAC: prepared runs still send to the one before; prepare them anew"
                ),
                Event::Lost(address) => tracing::warn!(port, %address, "a neighbour does not answer"),
                Event::Conflict(address, mac) => {
                    tracing::warn!(port, %address, mac = mac_text(mac), "another station has the port's address too");
                }
            }
        }
        let lost: u64 = self.received.iter().map(FrameReader::lost).sum();
        if lost > self.told_lost {
            tracing::warn!(port, frames = lost - self.told_lost, "more frames for the slow path than it could take");
            self.told_lost = lost;
        }
    }

    /// Why a neighbour is not known, for people.
    pub(super) fn silence(&self, neighbour: &Neighbour) -> String {
        let own: Vec<String> = self.interface.config().addresses.iter().map(ToString::to_string).collect();
        let vlan = self.interface.config().vlan.map_or("without VLAN".to_owned(), |vlan| format!("in VLAN {vlan}"));
        format!(
            "port {}: next hop {} {} (port's addresses: {}, {vlan}): is it on this link, and is the link up?",
            self.name,
            neighbour.address,
            neighbour.problem.as_deref().unwrap_or("is not known"),
            own.join(", "),
        )
    }
}
