// SPDX-License-Identifier: Apache-2.0
//! What control hangs on a worker's port while it works: where frames for the slow path go (`sinks::SlowPathCopy`), where those it
//! sends come from (`sources::Inject`), and taps that copy packets. A worker copies to and from bounded rings and decides nothing.
use super::{Device, Worker, attachment::Attachment, command::Reclaim, receive::RxPort, taps::Direction};

impl<D: Device> Worker<D> {
    /// Hangs something on a port. What does not belong to this worker goes back.
    pub(super) fn attach(&mut self, port: usize, attachment: Attachment<D>) {
        let back = match attachment {
            Attachment::Tap(Direction::Tx, tap) => match self.tx.iter_mut().find(|p| p.port() == port) {
                Some(found) => found.outlet.taps.add(tap).map(|tap| Attachment::Tap(Direction::Tx, tap)),
                None => Some(Attachment::Tap(Direction::Tx, tap)),
            },
            Attachment::Inject(inject) => match self.tx.iter_mut().find(|p| p.port() == port) {
                Some(found) => found.sources.injected.set(inject).map(Attachment::Inject),
                None => Some(Attachment::Inject(inject)),
            },
            received => match self.receiver.port(port) {
                Some(found) => found.attach(received),
                None => Some(received),
            },
        };
        if let Some(back) = back {
            let _ = self.reclaim.push(Reclaim::Attachment(back));
        }
    }

    /// Takes a tap off again, wherever it is.
    pub(super) fn detach(&mut self, id: u64) {
        let sending = self.tx.iter_mut().filter_map(|port| port.outlet.taps.remove(id));
        for tap in sending.chain(self.receiver.taps().filter_map(|taps| taps.remove(id))) {
            let _ = self.reclaim.push(Reclaim::Attachment(Attachment::Tap(Direction::Tx, tap)));
        }
    }
}

impl<D: Device> RxPort<D> {
    /// Hangs something on it. Back comes what it has no room for, or what was there before.
    fn attach(&mut self, attachment: Attachment<D>) -> Option<Attachment<D>> {
        let station = &mut self.sinks.station;
        match attachment {
            Attachment::SlowPathCopy(slow_path) => station.set_slow_path(slow_path).map(Attachment::SlowPathCopy),
            Attachment::Interest(interest) => station.set_interest(interest).map(Attachment::Interest),
            Attachment::Tap(Direction::Rx, tap) => self.taps.add(tap).map(|tap| Attachment::Tap(Direction::Rx, tap)),
            other => Some(other),
        }
    }
}
