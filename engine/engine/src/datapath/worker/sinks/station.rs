// SPDX-License-Identifier: Apache-2.0
//! What no other sink takes: the port's station answers it, if it is for that, for one that is emulated, or for a group. Frames that
//! concern it are copied to the slow path, and those for emulated clients to their thread; all are counted as foreign.
use spate_clients::Interest as ClientInterest;
use spate_neighbour::Interest;

use super::{After, ClientCopy, Inlet, Packet, Sink, SlowPathCopy};
use crate::datapath::worker::{Device, WorkerRun, device::Packets as _, flows::Demux};
use crate::index::RunSlot;

/// The station of a port.
pub(in crate::datapath::worker) struct Station {
    slow_path: Option<Box<SlowPathCopy>>,
    clients: Option<Box<ClientCopy>>,
    /// MAC of the station, to find frames for another one.
    mac: Mac,
    /// Packets of the received burst without a use, and those of them for another station.
    unclaimed: Unclaimed,
}

impl Station {
    pub(super) fn new(inlet: &Inlet) -> Self {
        Self { slow_path: None, clients: None, mac: Mac::of(inlet.mac), unclaimed: Unclaimed::default() }
    }

    /// Copies frames there from now on. Back comes what was there before.
    pub(in crate::datapath::worker) fn set_slow_path(&mut self, to: Box<SlowPathCopy>) -> Option<Box<SlowPathCopy>> {
        self.slow_path.replace(to)
    }

    /// Other frames concern the slow path. Back comes what was there before, or this, if there is no slow path.
    pub(in crate::datapath::worker) fn set_interest(&mut self, interest: Box<Interest>) -> Option<Box<Interest>> {
        match &mut self.slow_path {
            Some(slow_path) => slow_path.interest.replace(interest),
            None => Some(interest),
        }
    }

    /// Copies frames for emulated clients there from now on. Back comes what was there before.
    pub(in crate::datapath::worker) fn set_clients(&mut self, to: Box<ClientCopy>) -> Option<Box<ClientCopy>> {
        self.clients.replace(to)
    }

    /// Other frames concern emulated clients. Back comes what was there before, or this, if there are no clients.
    pub(in crate::datapath::worker) fn set_client_interest(
        &mut self,
        interest: Box<ClientInterest>,
    ) -> Option<Box<ClientInterest>> {
        match &mut self.clients {
            Some(clients) => Some(std::mem::replace(&mut clients.interest, interest)),
            None => Some(interest),
        }
    }

    /// Whether a frame is for an emulated station that has another MAC than the port.
    fn is_for_emulated_mac(&self, frame: &[u8]) -> bool {
        let interest = self.slow_path.as_ref().and_then(|slow_path| slow_path.interest.as_ref());
        interest.is_some_and(|interest| interest.is_for_emulated_mac(frame))
    }

    /// A packet is of no run here, and flows, if the port has any, found this of it.
    #[inline(always)]
    pub(in crate::datapath::worker) fn take(&mut self, frame: &[u8], len: u32, demux: Option<Demux>, at_ns: u64) {
        self.unclaimed.foreign += 1;
        if self.clients.as_mut().is_some_and(|clients| clients.offer(frame, len as usize, at_ns)) {
            return;
        }
        // Emulated stations may have MACs of their own, also before there are flows.
        let other_mac = match demux {
            Some(demux) => demux == Demux::OtherMac,
            None => self.mac.is_not_of(frame),
        };
        if other_mac && !self.is_for_emulated_mac(frame) {
            self.unclaimed.other_mac += 1;
        } else if let Some(slow_path) = &mut self.slow_path {
            slow_path.offer(frame, len as usize, at_ns);
        }
    }

    /// Takes all packets of a burst, where a frame for the station is not expected.
    #[inline(always)]
    pub(in crate::datapath::worker) fn take_all<D: Device>(&mut self, burst: &D::Burst, lens: &[u32], at_ns: u64) {
        if self.slow_path.is_some() || self.clients.is_some() {
            burst.heads().zip(lens).for_each(|(frame, len)| self.take(frame, *len, None, at_ns));
        } else {
            self.unclaimed.foreign += burst.len() as u64;
            self.unclaimed.other_mac += burst.heads().map(|frame| u64::from(self.mac.is_not_of(frame))).sum::<u64>();
        }
    }
}

impl<D: Device> Sink<D> for Station {
    fn know(&mut self, _: &WorkerRun<D>, _: RunSlot) {}

    fn forget(&mut self, _: u16, _: RunSlot) {}

    #[inline(always)]
    fn offer(&mut self, packet: &mut Packet<'_>, _: &D::Clock, _: &mut [Option<Box<WorkerRun<D>>>]) -> bool {
        self.take(packet.frame, packet.len, packet.demux, packet.at_ns);
        true
    }

    #[inline]
    fn end(&mut self, _: &mut D::Burst, after: &mut After<'_, D>) {
        let Unclaimed { foreign, other_mac } = std::mem::take(&mut self.unclaimed);
        after.share.foreign.add(foreign);
        after.share.other_mac.add(other_mac);
    }
}

/// A station's MAC, as the first 8 bytes of a frame are read.
#[derive(Clone, Copy, Debug)]
struct Mac {
    mask: u64,
    mac: u64,
}

impl Mac {
    /// The MAC of a port; none: frames are taken whatever MAC they are for.
    fn of(mac: Option<[u8; 6]>) -> Self {
        let Some([a, b, c, d, e, f]) = mac else { return Self { mask: 0, mac: 0 } };
        Self { mask: u64::MAX >> 16, mac: u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) }
    }

    /// Whether a frame is neither for it nor for a group. The lowest bit of a MAC's first byte says that it is a group's.
    #[inline(always)]
    fn is_not_of(self, frame: &[u8]) -> bool {
        let Some(head) = frame.first_chunk() else { return false };
        let mac = u64::from_le_bytes(*head) & self.mask;
        (mac != self.mac) & (mac & 1 == 0)
    }
}

/// Packets of a burst that no sink used.
#[derive(Clone, Copy, Debug, Default)]
struct Unclaimed {
    foreign: u64,
    /// Foreign packets for the MAC of another station.
    other_mac: u64,
}
