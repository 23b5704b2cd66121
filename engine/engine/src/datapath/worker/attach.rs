// SPDX-License-Identifier: Apache-2.0
//! Hooks that control attaches to a worker's port while it works: where frames for the slow path and for emulated clients go
//! (`sinks::SlowPathCopy`, `sinks::ClientCopy`), where those they send come from (`sources::Inject`), and taps that copy packets. A worker
//! copies to and from bounded rings and decides nothing.
use super::{Device, Worker, command::Reclaim, hook::Hook, receive::RxPort, taps::Direction};
use crate::index::PortIndex;

impl<D: Device> Worker<D> {
    /// Attaches a hook to a port. One of a port that this worker does not have goes back.
    pub(super) fn attach(&mut self, port: PortIndex, hook: Hook<D>) {
        let back = match hook {
            Hook::Tap(Direction::Tx, tap) => match self.tx.iter_mut().find(|p| p.port() == port) {
                Some(found) => found.outlet.taps.add(tap).map(|tap| Hook::Tap(Direction::Tx, tap)),
                None => Some(Hook::Tap(Direction::Tx, tap)),
            },
            Hook::Inject(inject) => match self.tx.iter_mut().find(|p| p.port() == port) {
                Some(found) => found.sources.injected.set(inject).map(Hook::Inject),
                None => Some(Hook::Inject(inject)),
            },
            Hook::ClientInject(inject) => match self.tx.iter_mut().find(|p| p.port() == port) {
                Some(found) => found.sources.clients.set(inject).map(Hook::ClientInject),
                None => Some(Hook::ClientInject(inject)),
            },
            received => match self.receiver.port(port) {
                Some(found) => found.attach(received),
                None => Some(received),
            },
        };
        if let Some(back) = back {
            let _ = self.reclaim.push(Reclaim::Hook(back));
        }
    }

    /// Detaches a tap from the port that has it.
    pub(super) fn detach(&mut self, id: u64) {
        let sending = self.tx.iter_mut().filter_map(|port| port.outlet.taps.remove(id));
        for tap in sending.chain(self.receiver.taps().filter_map(|taps| taps.remove(id))) {
            let _ = self.reclaim.push(Reclaim::Hook(Hook::Tap(Direction::Tx, tap)));
        }
    }
}

impl<D: Device> RxPort<D> {
    /// Attaches a hook. Returns the one that was there before, or this one if there is no room for it.
    fn attach(&mut self, hook: Hook<D>) -> Option<Hook<D>> {
        let station = &mut self.sinks.station;
        match hook {
            Hook::SlowPathCopy(slow_path) => station.set_slow_path(slow_path).map(Hook::SlowPathCopy),
            Hook::Interest(interest) => station.set_interest(interest).map(Hook::Interest),
            Hook::ClientCopy(clients) => station.set_clients(clients).map(Hook::ClientCopy),
            Hook::ClientInterest(interest) => station.set_client_interest(interest).map(Hook::ClientInterest),
            Hook::Tap(Direction::Rx, tap) => self.taps.add(tap).map(|tap| Hook::Tap(Direction::Rx, tap)),
            other => Some(other),
        }
    }
}
