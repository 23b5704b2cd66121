// SPDX-License-Identifier: Apache-2.0
//! Pings of a port: whether and from where each can be sent, its next hop, and what comes of its requests.
mod pinger;

use std::net::IpAddr;

use crate::{
    Event, NextHop, NoRoute, Output,
    address::{is_group, is_link_local},
    link::Link,
    message::Message,
    stations::{Protocol, Received},
};

use pinger::Pinger;
pub use pinger::{MAX_PINGS, MAX_TIMEOUT_NS, MIN_INTERVAL_NS, Ping, PingEvent, SIZES, STAMP};

/// Why a port cannot ping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PingError {
    /// The port has no route to the destination.
    #[error(transparent)]
    NoRoute(#[from] NoRoute),
    /// Replies would come from several stations.
    #[error("{0} is no address of a single station")]
    NoStation(IpAddr),
    /// A port does not receive what it sends.
    #[error("{0} is at the port itself, which does not receive what it sends: ping it from another")]
    Own(IpAddr),
    /// Routers forward nothing from a link-local address (RFC 4291 section 2.5.6).
    #[error("{0} is a link-local address, from which nothing is forwarded to {1}: use another address of the port")]
    StaysOnLink(IpAddr, IpAddr),
    /// The address is none of the port's.
    #[error("{0} is none of the port's addresses of the destination's family: {list}", list = .1.join(", "))]
    NotOwn(IpAddr, Vec<String>),
    /// Too many at once.
    #[error("{MAX_PINGS} pings of the port are under way: end one")]
    TooMany,
}

/// The pings of a port.
#[derive(Clone, Debug)]
pub(crate) struct Pings {
    /// Each with its next hop.
    under_way: Vec<(Pinger, IpAddr)>,
    /// Identifier of the next ping.
    identifier: u16,
}

impl Protocol for Pings {
    fn new(link: &Link, now_ns: u64) -> Self {
        let mac = link.station.mac;
        // Others on this address begin elsewhere.
        Self { under_way: Vec::new(), identifier: u16::from_be_bytes([mac[4], mac[5]]) ^ now_ns as u16 }
    }

    fn receive(&mut self, link: &mut Link, received: &Received<'_>, output: &mut Output) {
        if received.tags != link.station.tags {
            return;
        }
        match &received.message {
            Some(Message::EchoReply { from, to, hop_limit, of }) => {
                let asked = |pinger: &Pinger| (pinger.to(), pinger.from) == (*from, *to);
                self.answered(asked, |pinger| pinger.reply(of, *hop_limit, received.arrived_ns), output);
            }
            Some(Message::EchoError { from, to, destination, kind, of }) => {
                let asked = |pinger: &Pinger| (pinger.to(), pinger.from) == (*destination, *to);
                self.answered(asked, |pinger| pinger.error(of, *from, *kind), output);
            }
            _ => {}
        }
    }

    fn poll(&mut self, link: &mut Link, now_ns: u64, output: &mut Output) {
        let mut over = Vec::new();
        for at in 0..self.under_way.len() {
            let known = link.neighbour(self.under_way[at].1);
            let (pinger, next) = &mut self.under_way[at];
            let (id, begins) = (pinger.id, pinger.mac.is_none());
            let mut report = |event| output.events.push(Event::Ping(id, event));
            // A next hop that answers no more is no reason to end: requests are sent where it was, and what becomes of them is reported.
            pinger.mac = known.as_ref().and_then(|known| known.mac).or(pinger.mac);
            let Some(mac) = pinger.mac else {
                if let Some(known) = known.filter(|known| known.settled) {
                    let problem = known.problem.as_deref().unwrap_or("is not known");
                    report(PingEvent::NoNextHop(format!("next hop {next} {problem}")));
                    over.push(id);
                }
                continue;
            };
            if begins {
                report(PingEvent::Started(pinger.from, mac));
            }
            if let Some(data) = pinger.request(now_ns) {
                let addresses = (pinger.from, pinger.to());
                if let Some(frame) = link.station.echo_request(mac, addresses, pinger.hop_limit(), &data) {
                    // Behind identifier and sequence number; short frames are padded.
                    let headers = if pinger.to().is_ipv4() { 20 + 8 } else { 40 + 8 };
                    let at = 14 + 4 * link.station.tags.as_slice().len() + headers;
                    debug_assert_eq!(frame[at..at + STAMP], data[4..4 + STAMP]);
                    output.stamped.push((frame, at));
                }
            }
            pinger.time_out(now_ns).for_each(&mut report);
            if pinger.is_over() {
                report(PingEvent::Over);
                over.push(id);
            }
        }
        if !over.is_empty() {
            self.end(link, |pinger| over.contains(&pinger.id));
        }
    }

    fn next_due_ns(&self, link: &Link) -> Option<u64> {
        // An answer of the next hop comes before.
        let found = |next: &IpAddr| link.neighbour(*next).is_some_and(|known| known.mac.is_some());
        let sends = |(pinger, next): &&(Pinger, IpAddr)| pinger.mac.is_some() || found(next);
        self.under_way.iter().filter(sends).map(|(pinger, _)| pinger.next_ns()).min()
    }
}

impl Pings {
    /// Sends echo requests from now on, until it has had all replies or is stopped by its number.
    ///
    /// # Errors
    /// If nothing leads to the destination, the port has no such address, or as many pings are under way as can be.
    pub(crate) fn start(&mut self, link: &mut Link, id: u64, ping: Ping, now_ns: u64) -> Result<(), PingError> {
        if self.under_way.len() >= MAX_PINGS {
            return Err(PingError::TooMany);
        }
        let broadcast = link.config.addresses.iter().any(|own| own.is_broadcast(ping.to));
        if is_group(ping.to) || ping.to.is_unspecified() || broadcast {
            return Err(PingError::NoStation(ping.to));
        }
        let NextHop::Neighbour(next) = link.hop_to(ping.to)? else { return Err(PingError::Own(ping.to)) };
        let stays_on_link = |address| matches!(address, IpAddr::V6(address) if is_link_local(address));
        let from = match ping.from {
            Some(from) if stays_on_link(from) && !stays_on_link(ping.to) => {
                return Err(PingError::StaysOnLink(from, ping.to));
            }
            Some(from) if link.own().any(|own| own == from) && from.is_ipv4() == ping.to.is_ipv4() => from,
            Some(from) => return Err(PingError::NotOwn(from, link.own().map(|own| own.to_string()).collect())),
            None => link.source_for(ping.to).ok_or(NoRoute::NoAddress(if ping.to.is_ipv4() { 4 } else { 6 }))?,
        };
        link.table.want_until_released(link.target(next), now_ns).map_err(NoRoute::from)?;
        self.identifier = self.identifier.wrapping_add(1);
        self.under_way.push((Pinger::new(id, ping, from, self.identifier, now_ns), next));
        Ok(())
    }

    /// Sends no more requests of a ping.
    pub(crate) fn stop(&mut self, link: &mut Link, id: u64) {
        self.end(link, |pinger| pinger.id == id);
    }

    /// Forgets pings, and next hops that only they have asked for.
    fn end(&mut self, link: &mut Link, ended: impl Fn(&Pinger) -> bool) {
        for (_, next) in self.under_way.extract_if(.., |(pinger, _)| ended(pinger)).collect::<Vec<_>>() {
            if self.under_way.iter().all(|(_, other)| *other != next) {
                link.table.release(link.target(next));
            }
        }
    }

    /// Reports the event of the ping that `asked` selects.
    fn answered(
        &mut self,
        asked: impl Fn(&Pinger) -> bool,
        mut event: impl FnMut(&mut Pinger) -> Option<PingEvent>,
        output: &mut Output,
    ) {
        let asked = self.under_way.iter_mut().map(|(pinger, _)| pinger).filter(|pinger| asked(pinger));
        output.events.extend(asked.filter_map(|pinger| Some(Event::Ping(pinger.id, event(pinger)?))));
    }
}
